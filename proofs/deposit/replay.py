"""All changes that were said to be made are played once more, and must lead to the Archive as it is.

Each change bears its number in the history of the items that it has touched; so the histories tell in which order the
changes were made, and the judge makes them again in its own way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from proofs.deposit.looking import Item

_HARMLESS = frozenset({"BadItem", "HoldingError", "NotHeld"})
"""What a worker may be told because another one was faster."""


@dataclass
class Change:
    """What one worker has said of one change. Times are nanoseconds of the one running clock of the machine."""

    number: str
    kind: str
    item: str
    put: dict[str, tuple[int, str]]
    gone: list[str]
    begun: int
    ended: int | None = None
    main: str = ""  # of the item, where it is done
    refused: str = ""


@dataclass
class _Made:
    """An item as it must be."""

    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    removed: bool = False
    following: str = ""  # the change that has deposited its next edition


def read(lines: Iterable[bytes]) -> Iterator[Change]:
    """What a worker has said in its life; a last line that is not whole was not said."""
    change: Change | None = None
    for line in lines:
        if not line.endswith(b"\n"):
            continue
        record = json.loads(line)
        if record["what"] == "begun":
            if change is not None:
                yield change
            put = {name: (size, sha256) for name, (size, sha256) in record["put"].items()}
            change = Change(
                record["number"], record["kind"], record["item"], put, record["gone"], record["at"]
            )
        elif change is not None:
            change.ended = record["at"]
            change.main, change.refused = record.get("main", ""), record.get("why", "")
            if change.refused and change.refused not in _HARMLESS:
                change.refused += f": {record['sentence']}"
    if change is not None:
        yield change


def judge(items: Mapping[str, Item], changes: Mapping[str, Change]) -> Iterator[str]:
    """All in which the Archive is not what these changes make of it, in the order that its histories tell."""
    seen: Counter[str] = Counter()
    deposits: dict[str, str] = {}  # the item that a change has added
    for main, item in items.items():
        for who, what in item.history:
            seen[who] += 1
            if what == "deposited":
                deposits[who] = main
    for main, item in items.items():
        yield from (f"{main}: {sentence}" for sentence in _item(item, changes, items, deposits))
    for change in changes.values():
        if sentence := _whole(change, seen[change.number], deposits):
            yield f"{change.kind} {change.number}: {sentence}"


def _item(
    item: Item, changes: Mapping[str, Change], items: Mapping[str, Item], deposits: Mapping[str, str]
) -> Iterator[str]:
    made = _Made()
    for who, what in item.history:
        if who not in changes:
            yield f"nobody has begun {who}"
            return
        _play(made, changes[who], what)
    if made.files != item.files:
        yield f"its files should be {sorted(made.files)}, and are {sorted(item.files)}"
    if made.removed != (item.facts["state"] == "Deleted"):
        yield f"it is {item.facts['state']}"
    following = items[deposits[made.following]].facts if made.following in deposits else None
    if item.facts["next_edition"] != (following and f"rep {following['rep']} ibip {following['ibip']}"):
        yield f"its next edition is {item.facts['next_edition']}"
    for (earlier, _), (later, _) in combinations(item.history, 2):
        ended = changes[later].ended
        if ended is not None and ended < changes[earlier].begun:
            yield f"{later} had ended before {earlier} was begun, and comes after it"


def _play(made: _Made, change: Change, what: str) -> None:
    """Make a change once more."""
    if what == "deposited":
        made.files = dict(change.put)
    elif what == "removed":
        made.files, made.removed = {}, True
    elif change.kind == "edition":
        made.following = change.number
    else:
        kept = {name: facts for name, facts in made.files.items() if name not in change.gone}
        made.files = kept | change.put


def _whole(change: Change, seen: int, deposits: Mapping[str, str]) -> str:
    """What is wrong with a change that stands in so many histories; "" if nothing is."""
    due = {"abandon": 0, "edition": 2}.get(change.kind, 1)
    if change.refused:
        if change.refused not in _HARMLESS:
            return f"refused: {change.refused}"
        return "it was refused, and is there" if seen else ""
    if seen not in {0, due}:
        return f"it stands in {seen} histories"
    if change.ended is not None and seen != due and change.kind != "removal":
        return "it was acknowledged, and is lost"
    if change.main and change.kind in {"deposit", "edition"} and deposits.get(change.number) != change.main:
        return f"it was said to be {change.main}"
    return ""
