"""What a resolution of honest Archives came to, against what is true of the items; who answered first is no matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proofs.resolution.answers import names
from proofs.resolution.oracle import Question, Reader, Redirect, Tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proofs.resolution.oracle import Verdict
    from proofs.resolution.world import Item, World


def faults(
    world: World, question: Question, reader: Reader, verdict: Verdict, *, all_spoke: bool
) -> Iterator[str]:
    """What is wrong with an outcome. `all_spoke`: no Archive was silent, and nothing has ever been removed."""
    item = world.named(question.name)
    ends = world.true_ends(item, question.steps, reader.languages) if item else []
    if isinstance(verdict, Redirect):
        label = verdict.url.rpartition("/")[2]
        if label not in [end for end, _ in ends]:
            yield f"sent to {label}, where {[end for end, _ in ends]} would be right"
        elif all_spoke and not reader.original and label != ends[0][0]:
            yield f"sent to {label}, though {ends[0][0]} is there"
        if reader.original and not _is_original(world, label, verdict.archive):
            yield f"sent to {verdict.archive}, which has no original of {label}"
        return
    if isinstance(verdict, Tell) and verdict.kind in {"suspect-originals", "unsafe-url"}:
        yield f"{verdict.kind}, though all are honest"
    if all_spoke and (not reader.original or (item and not question.steps and _originals(item))) and ends:
        yield f"{verdict}, though {ends[0][0]} is there"
    if all_spoke and isinstance(verdict, Tell) and verdict.kind in {"incomplete", "deleted"}:
        yield f"{verdict.kind}, though nobody was silent and nothing was removed"


def _originals(item: Item) -> bool:
    return "Original" in item.holders.values()


def _is_original(world: World, label: str, archive: str) -> bool:
    number = next(each.number for each in world.archives if each.name == archive)
    return world.items[int(label[1:])].holders.get(number) == "Original"


_NOT_THERE = {"not-found", "no-translation", "deleted"}


def same_kind(one: Verdict, other: Verdict, *, removals: bool) -> bool:
    """Whether two outcomes are of one kind and about one item: another Archive that has a copy may have been faster.

    Where items were removed, a search can end in several places: at a removal here, at a missing translation there.
    """
    if isinstance(one, Redirect) and isinstance(other, Redirect):
        return one.url.rpartition("/")[2] == other.url.rpartition("/")[2]
    if isinstance(one, Tell) and isinstance(other, Tell) and removals:
        return one == other or {one.kind, other.kind} <= _NOT_THERE
    return one == other


def all_names(world: World, question: Question) -> frozenset[str]:
    """All names of what is asked for."""
    item = world.named(question.name)
    return names(item.text) if item else frozenset()
