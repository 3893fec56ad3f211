"""What an interrupted command was to do to an Archive, and what must be there afterwards: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ibi.archive.store.files import FolderFiles
from ibi.archive.store.item_changes import edit
from ibi.archive.store.item_store import ItemStore
from ibi.errors import SetupError
from proofs.deposit import archives
from proofs.deposit.looking import Item, items_of

World = Mapping[str, Item]

OLD = {"a.txt": b"the first of them", "sub/c%20d.txt": b"in a folder", "e.txt": b"it stays"}
NEW = {"a.txt": b"another first one, longer than the old one", "sub": b"a file where a folder was"}
GIVEN = {"a.txt": b"given" * 5000, "deep/er/b c.txt": b"also given"}
_GONE = "sub/c%20d.txt"
_KEY, _REASON, _RIGHTS = "the-trial", "it was a trial", "all of them"


@dataclass(frozen=True)
class Scene:
    """One kind of change.

    `name`, then `words`: the command, in which {old} stands for the item OLD, {data} and {given} for folders.
    `judge(before, after)`: whether it has happened; raises ValueError where it has happened by halves.
    """

    name: str
    words: str
    judge: Callable[[World, World], bool]
    expected_output: str = " 8JMKD3MGP8W/"  # the second name: the line with both is complete
    after_crash: bool = False

    def make(self, data: Path) -> None:
        """The Archive before it: an item to change, its next edition, and another item."""
        archives.found(data)
        with archives.at(data).item_store() as item_store:
            archives.put(item_store, {"z": b"never touched"}, "before")
            archives.put(item_store, OLD, "before", key="old")
            if self.after_crash:
                _crash(item_store)

    def command(self, data: Path, given: Path) -> list[str]:
        """The words after `ibi`."""
        old = next(name for name, item in items_of(data).items() if item.facts["key"] == "old")
        return [
            word.format(data=data, given=given, old=old, reason=_REASON) for word in self.words.split("|")
        ]


def give(folder: Path) -> None:
    """Write what the commands take in."""
    for under, files in (("given", GIVEN), ("new", NEW)):
        for name, content in files.items():
            path = folder / under / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _crash(item_store: ItemStore) -> None:
    """Leave all that an interrupted process can leave: listed files in staging, files to be removed, unlisted ones."""

    def interrupted(*_: object) -> None:
        raise SetupError("interrupted")

    old = item_store.catalogue.holding_by_key("old")
    assert old is not None  # noqa: S101 - it was put there
    turning = archives.put(item_store, {"b/c": b"1"}, "before")
    kept = FolderFiles.place_files
    FolderFiles.place_files = interrupted  # type: ignore[method-assign, assignment]  # as if killed before it
    try:
        archives.put(item_store, {"x": b"1", "y/z": b"2"}, "before")
        edit(
            item_store,
            old.forms.main,
            {},
            "before",
            staged=archives.stage(item_store, {"e.txt/f": b"3"}),
            without=["e.txt"],
        )
        for name, gone in (("b", "b/c"), ("b/c", "b")):  # a folder becomes a file, and a folder again
            staged = archives.stage(item_store, {name: b"4"})
            edit(item_store, turning.forms.main, {}, "before", staged=staged, without=[gone])
        archives.stage(item_store, {"never": b"listed"})
    finally:
        FolderFiles.place_files = kept  # type: ignore[method-assign]  # as it was


def _manifest(files: Mapping[str, bytes]) -> dict[str, tuple[int, str]]:
    quoted = {name.replace(" ", "%20"): content for name, content in files.items()}
    return {name: (len(content), sha256(content).hexdigest()) for name, content in quoted.items()}


def _demand(truth: object, what: str) -> None:
    if not truth:
        raise ValueError(what)


def _others_untouched(before: World, after: World, changed: str = "") -> None:
    for name, item in before.items():
        _demand(name == changed or after.get(name) == item, f"{name} was touched")


def _new_item(before: World, after: World) -> Item | None:
    """The deposited item, wholly there; None if there is none."""
    new = [item for name, item in after.items() if name not in before]
    _demand(len(new) <= 1, f"{len(new)} new items")
    for item in new:
        _demand(item.files == _manifest(GIVEN), "the new item has other files than were given")
        _demand([what for _, what in item.history] == ["deposited"], f"its history is {item.history}")
        _demand((item.facts["state"], item.facts["key"]) == ("Original", _KEY), "it has lost its facts")
        _demand(len(item.names) == 2, "it has not both of its names")
    return new[0] if new else None


def _deposited(before: World, after: World) -> bool:
    _others_untouched(before, after)
    return _new_item(before, after) is not None


def _edition(before: World, after: World) -> bool:
    """A new item, and the old one leads to it: both or neither."""
    new, (name, old) = _new_item(before, after), _old(before)
    if new is None:
        _others_untouched(before, after)
        return False
    _others_untouched(before, after, name)
    leads = f"rep {new.facts['rep']} ibip {new.facts['ibip']}"
    _changed(old, after[name], {"next_edition": leads}, "edited", old.files)
    return True


def _edited(before: World, after: World) -> bool:
    name, old = _old(before)
    _demand(after.keys() == before.keys(), "there are other items than before")
    _others_untouched(before, after, name)
    if after[name] == old:
        return False
    files = {file: facts for file, facts in old.files.items() if file != _GONE} | _manifest(NEW)
    _changed(old, after[name], {"rights": _RIGHTS, "file_count": len(files)}, "edited", files)
    return True


def _deleted(before: World, after: World) -> bool:
    name, old = _old(before)
    _demand(after.keys() == before.keys(), "there are other items than before")
    _others_untouched(before, after, name)
    if after[name] == old:
        return False
    _changed(old, after[name], {"state": "Deleted", "reason": _REASON, "file_count": 0}, "removed", {})
    return True


def _old(world: World) -> tuple[str, Item]:
    return next((name, item) for name, item in world.items() if item.facts["key"] == "old")


def _changed(
    old: Item, new: Item, facts: Mapping[str, object], what: str, files: Mapping[str, tuple[int, str]]
) -> None:
    """Demand that exactly this has changed, wholly."""
    _demand(new.names == old.names, "its names have changed")
    timestamp = {"timestamp": new.facts["timestamp"]}
    _demand(new.facts == {**old.facts, **facts, **timestamp}, f"its facts are {new.facts}")
    _demand(new.facts["timestamp"] >= old.facts["timestamp"], "its timestamp went back")
    _demand(new.files == files, f"its files are {sorted(new.files)}")
    _demand(new.events[:-1] == old.events, "its history has changed")
    _demand(new.history[-1][1] == what, f"its history ends with {new.history[-1]}")


_DEPOSIT = f"archive|deposit|{{given}}/given|--data|{{data}}|--key|{_KEY}"
_EDIT = (
    "archive|edit|{old}|--data|{data}|--file|{given}/new/a.txt|--file|{given}/new/sub"
    f"|--without|{_GONE}|--rights|{_RIGHTS}"
)
SCENES = (
    Scene("deposit", _DEPOSIT, _deposited),
    Scene("edit", _EDIT, _edited),
    Scene("removal", "archive|delete|{old}|--data|{data}|--reason|{reason}", _deleted, "was removed on"),
    Scene("new edition", f"{_DEPOSIT}|--edition-of|{{old}}", _edition),
    Scene("deposit after a crash", _DEPOSIT, _deposited, after_crash=True),
    Scene("edit after a crash", _EDIT, _edited, after_crash=True),
)
