"""The kinds of change: what readers click on, where it leads before and after, and how the change is made.

Each change is about one item. Readers click on it, on an item whose last edition it is (`X!`), and on one whose English
translation it is (`X+(en)`); the two rest on it by one answer of its Archive. Both workers have all of them cached
before the change. Its moment is when its command has ended, or what else acknowledges it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from proofs.freshness.field import do, put, set_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proofs.common.report import Scale
    from proofs.common.served_archive import Served
    from proofs.freshness.field import Field

GONE: Final = "410"
"""Where readers of a removed item are led: to an alert with this status."""

_PUBLIC: Final = "http://public.example"
_FILES: Final = {"a.txt": b"hello"}
BEFORE_MIDNIGHT: Final = 3.0
"""Seconds in which the redirects of an embargoed item are cached."""


@dataclass(frozen=True)
class Trial:
    """One change: `before` and `after` say how the places begin to which each target must lead.

    `make` does it, and returns its moment (`time.perf_counter`).
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    make: Callable[[], float]


class Family:
    """An item of an Archive, another one whose last edition it is, and one whose English translation it is."""

    def __init__(self, archive: Served, kind: str, number: int, *, files: bool = False, **facts: Any) -> None:
        self.archive = archive
        self.item, edition, translated = (
            f"fresh.example/{kind}-{part}-{number}/2020/01.01.00.00" for part in "xet"
        )
        if files:
            archive.put(self.item, _FILES)
        else:
            put(archive, {"rep": self.item, "language": "en", "url": self.place(1), **facts})
        put(archive, {"rep": edition, "url": f"{self.place(1)}/earlier", "next_edition": self.item})
        put(
            archive,
            {"rep": translated, "url": f"{self.place(1)}/pt", "language": "pt", "translations": {"en": self.item}},
        )  # fmt: skip
        self.targets = (f"/{self.item}", f"/{edition}!", f"/{translated}+(en)")

    def place(self, version: int) -> str:
        """Where the item is."""
        return f"http://far.example/{version}/{self.item}"

    def all_to(self, place: str) -> dict[str, str]:
        """All its targets lead to one place."""
        return dict.fromkeys(self.targets, place)

    def edit(self) -> float:
        """Have the item lead elsewhere, by the command."""
        do("archive", "edit", "--data", self.archive.data, self.item, "--url", self.place(2))
        return time.perf_counter()

    def edited(self, make: Callable[[], float] | None = None) -> Trial:
        """The trial of an edit."""
        return Trial(self.all_to(self.place(1)), self.all_to(self.place(2)), make or self.edit)


def edit(field: Field, number: int, _scale: Scale) -> Trial:
    """An item leads elsewhere."""
    return Family(field.a, "edit", number).edited()


def proxy(field: Field, number: int, _scale: Scale) -> Trial:
    """The same in an Archive whose requests come from elsewhere than its address is: its notices are refused."""
    return Family(field.proxied, "proxy", number).edited()


def deletion(field: Field, number: int, _scale: Scale) -> Trial:
    """An item is removed."""
    family = Family(field.a, "deletion", number)

    def make() -> float:
        do("archive", "delete", "--data", field.a.data, family.item, "--reason", "a proof")
        return time.perf_counter()

    return Trial(family.all_to(family.place(1)), family.all_to(GONE), make)


def transfer(field: Field, number: int, _scale: Scale) -> Trial:
    """An original is handed over to another Archive; its giver keeps a pointer to it."""
    family = Family(field.a, "transfer", number, files=True)

    def make() -> float:
        do("archive", "transfer", "--data", field.a.data, family.item, "--to", "b", "--remove", "--quiet")
        return time.perf_counter()

    before, after = (f"http://127.0.0.1:{archive.port}/" for archive in (field.a, field.b))
    return Trial(family.all_to(before), family.all_to(after), make)


def move(field: Field, number: int, _scale: Scale) -> Trial:
    """The Archive is ended, and served at another address, which it tells the resolver when it begins."""
    archive = field.restarted
    family = Family(archive, "move", number, files=True)
    before, port = f"http://127.0.0.1:{archive.port}/", field.new_port()

    def make() -> float:
        archive.kill()
        archive.port = port
        set_up(archive, address=f"127.0.0.1:{port}")
        field.serve(archive)
        return time.perf_counter()

    return Trial(family.all_to(before), family.all_to(f"http://127.0.0.1:{port}/"), make)


def settings(field: Field, number: int, _scale: Scale) -> Trial:
    """The Archive gives out other URLs from now on (`public_url`); the moment is when the settings are written."""
    before, after = ("", _PUBLIC) if not number % 2 else (_PUBLIC, "")
    family = Family(field.a, "settings", number, files=True)

    def make() -> float:
        set_up(field.a, public_url=after)
        return time.perf_counter()

    own = f"http://127.0.0.1:{field.a.port}/"
    return Trial(family.all_to(before or own), family.all_to(after or own), make)


def many(field: Field, number: int, scale: Scale) -> Trial:
    """An import changes many items, and the one in the middle is clicked on."""
    count = scale.pick(500, 5_000, 20_000)
    names = [
        f"fresh.example/many/2010/{each // 3600 % 12 + 1:02}.01.{each // 60 % 60:02}.{each % 60:02}"
        for each in range(count)
    ]
    file = field.folder / "many.jsonl"

    def write(version: int, *others: str) -> None:
        listed = [*names[: count // 2], *others, *names[count // 2 :]]
        lines = [
            {"rep": name, "language": "en", "url": f"http://far.example/{number}/{version}/{name}"}
            for name in listed
        ]
        file.write_text("\n".join(map(json.dumps, lines)))

    def bring() -> float:
        do("archive", "import", "--data", field.a.data, "--update", "--quiet", file)
        return time.perf_counter()

    write(1)
    bring()
    family = Family(field.a, "many", number)
    write(2, family.item)
    after = f"http://far.example/{number}/2/"
    return Trial(family.all_to(family.place(1)), family.all_to(after), bring)


def restore(field: Field, number: int, _scale: Scale) -> Trial:
    """After an edit the disk is lost, and the Archive is restored from the backup of before, by our commands."""
    archive, backups = field.restarted, field.folder / f"backups-{number}"
    family = Family(archive, "restore", number)
    do("archive", "backup", "--data", archive.data, "--to", backups, "--quiet")
    family.edit()

    def make() -> float:
        archive.kill()
        archive.data.rename(field.folder / f"lost-{number}")
        do("archive", "restore", "--data", archive.data, "--from", backups, "--quiet")
        do("archive", "settle", "--data", archive.data, "--all", "--quiet")
        field.serve(archive)
        return time.perf_counter()

    return Trial(family.all_to(family.place(2)), family.all_to(family.place(1)), make)


def rollback(field: Field, number: int, _scale: Scale) -> Trial:
    """After an edit the database is what it was before, under the running Archive, which is not told.

    The pages of an older copy are written over those of the database in one transaction of SQLite (its backup
    interface), so the Archive, which has it open, reads either all or nothing of it. To put another file in its place
    would change nothing: a process goes on with the file that it has open.
    """
    family, older = Family(field.a, "rollback", number), field.folder / "older.sqlite"
    database = field.a.data / "catalogue.sqlite"
    _copy(database, older)
    family.edit()

    def make() -> float:
        _copy(older, database)
        return time.perf_counter()

    return Trial(family.all_to(family.place(2)), family.all_to(family.place(1)), make)


def embargo(field: Field, number: int, _scale: Scale) -> Trial:
    """An embargo ends, at midnight by the clock of its Archive, which is set to some seconds before it."""
    archive = field.late
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(
        days=number + 1
    )
    family = Family(archive, "embargo", number, access="embargoed", embargo=midnight.date().isoformat())
    offset = midnight.timestamp() - BEFORE_MIDNIGHT - time.time()
    field.set_clock(offset)
    moment = time.perf_counter() + midnight.timestamp() - offset - time.time()

    def make() -> float:
        time.sleep(max(0.0, moment - time.perf_counter()))
        return moment

    return Trial(family.all_to(f"http://127.0.0.1:{archive.port}/"), family.all_to(family.place(1)), make)


def _copy(source: Any, target: Any) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target, timeout=30)) as other:
        one.backup(other)


@dataclass(frozen=True)
class Kind:
    """A kind of change. `within`: seconds until readers must be led right, on a machine that is not too busy."""

    prepare: Callable[[Field, int, Scale], Trial]
    within: float = 1.0
    false_clock: bool = False


KINDS: Final = {
    "edit": Kind(edit),
    "deletion": Kind(deletion),
    "transfer": Kind(transfer),
    "settings": Kind(settings, within=2.0),
    "import": Kind(many),
    "embargo": Kind(embargo, false_clock=True),
    "rollback": Kind(rollback),
    "proxy": Kind(proxy),
    "restore": Kind(restore, within=2.0),
    "move": Kind(move, within=2.0),
}
"""By name. One second more is for an Archive that follows new settings, or has just begun to answer again."""
