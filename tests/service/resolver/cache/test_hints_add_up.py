"""Hints add up alike, whether they wait together, are in the file, or are read by the next process: against a model."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ibi.resolver.cache.hints import HintCache, HolderHint

if TYPE_CHECKING:
    from pathlib import Path

SERVICES = [f"{name}.example/w/2020/01.01.00.00" for name in "abc"]


@dataclass
class Item:
    """What is known of an item, by the words of `HintCache`."""

    likely: str | None = None
    original: str | None = None
    early: bool = False
    disputed: bool = False
    removed: bool = False

    def holder(self, service: str | None, *, moved: bool = False) -> None:
        """A known holder is not replaced, unless the original has moved; a new one has removed nothing."""
        if service is not None and (moved or self.original is None):
            self.original, self.removed = service, False

    @property
    def hint(self) -> HolderHint:
        return HolderHint(self.likely, "" if self.disputed else self.original, self.early, self.removed)


def change(chance: random.Random, hints: HintCache, name: str, item: Item) -> None:
    """Change an item at random, in the cache and in the model."""
    service = chance.choice(SERVICES)
    match chance.randrange(12):
        case 0:
            hints.dispute([name])
            item.disputed = True
        case 1 | 2:
            hints.removed([name], service)
            item.holder(service)
            item.removed = True
        case 3 | 4:
            hints.moved([name], service)
            item.likely, item.early = service, False
            item.holder(service, moved=True)
        case _:
            likely, original = chance.choice([service, None]), chance.choice([*SERVICES, None, None])
            early = likely is not None and chance.random() < 0.5
            hints.remember([name], likely=likely, original=original, early=early)
            if likely is not None:
                item.likely, item.early = likely, early
            item.holder(original)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_known_of_an_item_is_what_was_said_of_it_in_turn(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = {f"x.example/{number}/2020/01.01.00.00": Item() for number in range(40)}
    hints = HintCache(tmp_path / "hints")
    for _ in range(3):
        for _ in range(150):
            name = chance.choice(list(names))
            change(chance, hints, name, names[name])
            assert hints.of(name) == names[name].hint
            assert hints.of(name).is_disputed == names[name].disputed
        hints.flush()
        assert {name: hints.of(name) for name in names} == {name: item.hint for name, item in names.items()}
        assert [hints.first_holder(name) for name in names] == [item.original for item in names.values()]
        assert hints.dropped == 0
        hints.close()
        hints = HintCache(tmp_path / "hints")
    assert {name: hints.of(name) for name in names} == {name: item.hint for name, item in names.items()}
    hints.close()


def test_while_the_evidence_does_not_record_no_holder_is_written_but_all_else_is(tmp_path: Path) -> None:
    first, second, _ = SERVICES
    names = [f"x.example/{number}/2020/01.01.00.00" for number in range(6)]
    known, recorded = names[3:], True
    hints = HintCache(tmp_path / "hints", recorded=lambda: recorded)
    hints.remember(known, likely=first, original=first)
    hints.flush()
    recorded = False
    hints.remember(names[:1], likely=second, original=second, early=True)
    hints.removed(names[1:2], second)
    hints.moved(names[2:3], second)
    hints.moved(names[3:4], second)
    hints.removed(names[4:5], first)
    hints.dispute(names[5:])
    hints.remember(names[5:], likely=second, original=second)
    hints.flush()
    recorded = True
    expected = [
        HolderHint(second, None, early=True),
        HolderHint(None, None),
        HolderHint(second, None),
        HolderHint(second, first),
        HolderHint(first, first, removed=True),
        HolderHint(second, ""),
    ]
    assert [hints.of(name) for name in names] == expected
    hints.close()
    again = HintCache(tmp_path / "hints")
    assert [again.of(name) for name in names] == expected
    assert again.first_holder(names[5]) == first
    again.close()
