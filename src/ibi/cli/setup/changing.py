"""A second run of `ibi init` in the same folder: what would change, and the changes if they are wanted."""

from __future__ import annotations

import difflib
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ibi.archive.store.settings_changes import change_settings
from ibi.cli.setup.answers import ARCHIVE, BOTH, RESOLVER, SETUP, Answers, PlannedService
from ibi.cli.setup.making import PROXIES, without_interruption, write_files
from ibi.cli.setup.rendering import PROXY_FILES
from ibi.errors import IbiError
from ibi.runtime.settings import ArchiveSettings, ResolverSettings, settings_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Change:
    """A file that would be another. `path`: below the folder of `ibi init`; `before`: "" for a new file."""

    path: str
    before: str
    after: str

    def diff(self) -> str:
        """Return the lines that differ, as `diff -u` shows them; of settings these alone, because others are secret."""
        context = 2 if self.path.startswith(f"{SETUP}/") else 0
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), self.path, self.path, n=context, lineterm=""
        )
        return "\n".join(lines).expandtabs(4)


@dataclass(frozen=True, slots=True)
class ChangedService:
    """The settings of one service after the change, the files that show it, and remarks for the administrator."""

    data: Path
    settings: ArchiveSettings | ResolverSettings
    change: Change
    notes: tuple[IbiError, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """All that would change: texts by path, and settings."""

    files: list[Change]
    services: list[ChangedService]

    def __iter__(self) -> Iterator[Change]:
        yield from (each.change for each in self.services)
        yield from self.files


def find_changes(folder: Path, former: Answers, answers: Answers, files: Mapping[str, str]) -> Changes:
    """Compare what is there with what the answers describe; nothing is written. Raises IbiError.

    Of the settings, only those differ whose answers do: what was changed by other commands stays.
    """
    found = [Change(name, _text(folder / name), text) for name, text in files.items()]
    found += [
        Change(name, text, "") for name, text in _left(folder / SETUP, folder).items() if name not in files
    ]
    services = [
        _changed(folder / now.folder, before, now, _differing(former, answers, now.kind))
        for before, now in zip(former.services(), answers.services(), strict=True)
    ]
    return Changes(
        [each for each in found if each.before != each.after], [each for each in services if each is not None]
    )


def apply(folder: Path, answers: Answers, changes: Changes) -> None:
    """Make the changes. Raises IbiError."""
    with without_interruption():
        for service in changes.services:
            with settings_lock(service.data):
                service.settings.write(service.data)
        write_files(folder, {each.path: each.after for each in changes.files if each.after})
        for each in changes.files:
            if not each.after:
                (folder / each.path).unlink(missing_ok=True)
        answers.write(folder / SETUP)


def _differing(former: Answers, answers: Answers, kind: str) -> Mapping[str, str]:
    """Return the answers that differ and are settings of a service of this kind by themselves."""
    found = {"admin": (former.admin, answers.admin)}
    if kind == ARCHIVE:
        found["ip"] = (former.ip, answers.ip)
        if answers.kind == BOTH:
            found["resolver"] = (former.services()[0].root, answers.services()[0].root)
    return {name: now for name, (before, now) in found.items() if before != now}


def _changed(
    data: Path, before: PlannedService, now: PlannedService, differing: Mapping[str, str]
) -> ChangedService | None:
    """Return what becomes of the settings of a service; None if they stay."""
    values: dict[str, Any] = dict(differing)
    if before.address != now.address:
        values["address"] = now.address
    if before.public_url != now.public_url:
        values["public_url"] = now.public_url
    if now.kind == RESOLVER:
        resolver = ResolverSettings.read(data)
        if "address" in values:
            values["aliases"] = tuple(dict.fromkeys((*resolver.aliases, resolver.address)))
        return _changed_service(data, resolver, replace(resolver, **values), ())
    archive = ArchiveSettings.read(data)
    if before.is_proxied != now.is_proxied:
        others = tuple(each for each in archive.trusted_proxies if each not in PROXIES)
        values["trusted_proxies"] = (*others, *(PROXIES if now.is_proxied else ()))
    done = change_settings(archive, values)
    return _changed_service(data, archive, done.settings, done.notes)


def _changed_service(
    data: Path,
    before: ArchiveSettings | ResolverSettings,
    after: ArchiveSettings | ResolverSettings,
    notes: tuple[IbiError, ...],
) -> ChangedService | None:
    if before == after:
        return None
    path, text = f"{data.parent.name}/{data.name}/{after.FILE}", _text(data / after.FILE)
    return ChangedService(data, after, Change(path, text, after.written(data)), notes)


def _left(setup: Path, folder: Path) -> dict[str, str]:
    """Return the files of an earlier run that other answers need no more, by their paths."""
    places = [
        *setup.glob("systemd/*.socket.d/port.conf"),
        *(setup / "proxy" / name for name in PROXY_FILES.values()),
    ]
    return {each.relative_to(folder).as_posix(): _text(each) for each in places if each.is_file()}


def _text(path: Path) -> str:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
