"""Checks of the files of a data directory: settings, passwords, databases. Its files show which kind it is."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.app.doctor import Finding, Severity
from ibi.archive.store import schema
from ibi.errors import IbiError, SetupError
from ibi.minting.clock import ClockLimits
from ibi.minting.subsystem import open_subsystems
from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.runtime.database import check_version, open_engine, quick_check
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer, ResolverSettings, SubsystemSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.minting.machine import Machine
    from ibi.resolver.model.archive import RegisteredArchive

_SETTINGS: Final = "settings"
_DATABASE: Final = "database"
_READABLE_BY_OTHERS: Final = 0o077


class DirectoryKind(StrEnum):
    """What a data directory is for."""

    ARCHIVE = "archive"
    RESOLVER = "resolver"
    MINTING = "minting"


_FILES: Final = {
    DirectoryKind.ARCHIVE: (ArchiveSettings.FILE, "catalogue.sqlite"),
    DirectoryKind.RESOLVER: (ResolverSettings.FILE, "registry.sqlite"),
    DirectoryKind.MINTING: ("minting", SubsystemSettings.FILE),
}
_MIGRATIONS: Final = {DirectoryKind.ARCHIVE: schema.MIGRATIONS, DirectoryKind.RESOLVER: MIGRATIONS}


def kinds_of(data: Path) -> list[DirectoryKind]:
    """Return the kinds of a directory, by the files of ours in it; [] where there are none."""
    return [kind for kind, names in _FILES.items() if any((data / name).exists() for name in names)]


def check_settings(data: Path, kind: DirectoryKind) -> Iterator[Finding]:
    """Check that the settings, and a password file that they name, can be read by this user and by no other."""
    if kind is DirectoryKind.ARCHIVE:
        yield _check_file(data / ArchiveSettings.FILE, lambda: ArchiveSettings.read(data))
        for further in (JoinedResolver, Peer):
            if (data / further.FILE).exists():
                yield _check_file(data / further.FILE, partial(further.read_tables, data))
        return
    yield _check_file(data / ResolverSettings.FILE, lambda: ResolverSettings.read(data))
    with suppress(SetupError):  # reported by the line above
        if password := ResolverSettings.read(data).smtp_password_file:
            yield _check_file(Path(password), Path(password).read_bytes)


def _check_file(path: Path, read: Callable[[], object]) -> Finding:
    remedy = IbiError("mend {path}, or put it back from a backup", path=path)
    try:
        read()
        mode = path.stat().st_mode
    except SetupError as error:
        return Finding(_SETTINGS, Severity.FAULT, error, remedy)
    except OSError as error:
        sentence = IbiError("{path} cannot be read: {reason}", path=path, reason=error.strerror)
        return Finding(_SETTINGS, Severity.FAULT, sentence, remedy)
    if mode & _READABLE_BY_OTHERS:
        sentence = IbiError("{path} holds secrets, and others may read it", path=path)
        return Finding(_SETTINGS, Severity.WARNING, sentence, IbiError("chmod 600 {path}", path=path))
    return Finding(_SETTINGS, Severity.OK, IbiError("{path} is in order", path=path))


def check_subsystems(data: Path, machine: Machine) -> Iterator[Finding]:
    """Check that labels can be made under every entry of the list of subsystems, if there is one."""
    path = data / SubsystemSettings.FILE
    if not path.exists():
        return
    try:
        open_subsystems(data, machine, ClockLimits())
    except IbiError as error:
        remedy = IbiError("mend {path}, or put it back from a backup", path=path)
        sentence = IbiError("{path}: {reason}", path=path, reason=error)
        yield Finding(_SETTINGS, Severity.FAULT, sentence, remedy)
    else:
        yield Finding(_SETTINGS, Severity.OK, IbiError("{path} is in order", path=path))


def subsystems_of(data: Path, machine: Machine) -> dict[str, SubsystemSettings]:
    """Return the listed subsystems by their names; {} where no list is in order, as check_subsystems reports."""
    if any(finding.severity is not Severity.OK for finding in check_subsystems(data, machine)):
        return {}
    return SubsystemSettings.read_all(data) if SubsystemSettings.exists(data) else {}


def check_database(data: Path, kind: DirectoryKind, seconds: float) -> Iterator[Finding]:
    """Check that the database is there, of this version, and whole; stop reading it after so many seconds."""
    path = data / _FILES[kind][1]
    remedy = IbiError("stop the service, keep this file aside, and put back a backup")
    if not path.exists():
        yield Finding(_DATABASE, Severity.FAULT, SetupError("{path} does not exist", path=path), remedy)
        return
    engine = open_engine(path)
    try:
        check_version(engine, _MIGRATIONS[kind])
        problems = quick_check(engine, seconds)
    except SetupError as error:
        yield Finding(_DATABASE, Severity.FAULT, error, remedy)
    except TimeoutError:
        sentence = IbiError(
            "{path} is too large to be looked through in {seconds:g} s", path=path, seconds=seconds
        )
        yield Finding(_DATABASE, Severity.NOT_PROVEN, sentence)
    else:
        if problems:
            sentence = IbiError("{path} is damaged: {reason}", path=path, reason=problems[0])
            yield Finding(_DATABASE, Severity.FAULT, sentence, remedy)
        else:
            yield Finding(_DATABASE, Severity.OK, IbiError("{path} is whole and of this version", path=path))
    finally:
        engine.dispose()


def registered_archives(data: Path) -> list[RegisteredArchive]:
    """Return the Archives that a resolver has registered; [] where check_database reports a fault."""
    path = data / _FILES[DirectoryKind.RESOLVER][1]
    if not path.exists():
        return []
    registry = Registry(open_engine(path), lambda: 0.0)  # nothing is written, so the time does not matter
    try:
        return registry.registered()
    except IbiError:
        return []
    finally:
        registry.close()
