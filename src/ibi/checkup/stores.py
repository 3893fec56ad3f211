"""What a data directory keeps: settings and databases. Which kind of directory it is shows in its files."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive import schema
from ibi.checkup.finding import Finding, Verdict
from ibi.database import check_version, open_engine, quick_check
from ibi.errors import IbiError, SetupError
from ibi.minting.clock import ClockLimits
from ibi.minting.spatial import open_places
from ibi.resolver.registry import MIGRATIONS, RegisteredArchive, Registry
from ibi.settings import ArchiveSettings, JoinedResolver, Peer, ResolverSettings, SubsystemSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.minting.machine import Machine

_SETTINGS: Final = "settings"
_DATABASE: Final = "database"
_OTHERS_EYES: Final = 0o077


class Kind(StrEnum):
    """What a data directory is for."""

    ARCHIVE = "archive"
    RESOLVER = "resolver"
    MINTING = "minting"


_FILES: Final = {
    Kind.ARCHIVE: (ArchiveSettings.FILE, "catalogue.sqlite"),
    Kind.RESOLVER: (ResolverSettings.FILE, "registry.sqlite"),
    Kind.MINTING: ("minting", SubsystemSettings.FILE),
}
_MIGRATIONS: Final = {Kind.ARCHIVE: schema.MIGRATIONS, Kind.RESOLVER: MIGRATIONS}


def kinds_of(data: Path) -> list[Kind]:
    """What a directory is, by the files of ours that it has; [] for one that is none of ours."""
    return [kind for kind, names in _FILES.items() if any((data / name).exists() for name in names)]


def check_settings(data: Path, kind: Kind) -> Iterator[Finding]:
    """Whether the settings, and a password that they name, can be read, by us and by nobody else."""
    if kind is Kind.ARCHIVE:
        yield _check_file(data / ArchiveSettings.FILE, lambda: ArchiveSettings.read(data))
        for further in (JoinedResolver, Peer):
            if (data / further.FILE).exists():
                yield _check_file(data / further.FILE, partial(further.read_tables, data))
        return
    yield _check_file(data / ResolverSettings.FILE, lambda: ResolverSettings.read(data))
    with suppress(SetupError):  # that is said
        if password := ResolverSettings.read(data).smtp_password_file:
            yield _check_file(Path(password), Path(password).read_bytes)


def _check_file(path: Path, read: Callable[[], object]) -> Finding:
    advice = IbiError("mend {path}, or put it back from a backup", path=path)
    try:
        read()
        mode = path.stat().st_mode
    except SetupError as error:
        return Finding(_SETTINGS, Verdict.FAULT, error, advice)
    except OSError as error:
        sentence = IbiError("{path} cannot be read: {reason}", path=path, reason=error.strerror)
        return Finding(_SETTINGS, Verdict.FAULT, sentence, advice)
    if mode & _OTHERS_EYES:
        sentence = IbiError("{path} holds secrets, and others may read it", path=path)
        return Finding(_SETTINGS, Verdict.WARNING, sentence, IbiError("chmod 600 {path}", path=path))
    return Finding(_SETTINGS, Verdict.OK, IbiError("{path} is in order", path=path))


def check_subsystems(data: Path, machine: Machine) -> Iterator[Finding]:
    """Whether labels can be made under everything that the list of subsystems says, if there is one."""
    path = data / SubsystemSettings.FILE
    if not path.exists():
        return
    try:
        open_places(data, machine, ClockLimits())
    except IbiError as error:
        advice = IbiError("mend {path}, or put it back from a backup", path=path)
        sentence = IbiError("{path}: {reason}", path=path, reason=error)
        yield Finding(_SETTINGS, Verdict.FAULT, sentence, advice)
    else:
        yield Finding(_SETTINGS, Verdict.OK, IbiError("{path} is in order", path=path))


def subsystems_of(data: Path, machine: Machine) -> dict[str, SubsystemSettings]:
    """The listed subsystems by their names; {} where there is no list in order: what is wrong is another finding."""
    if any(finding.verdict is not Verdict.OK for finding in check_subsystems(data, machine)):
        return {}
    return SubsystemSettings.read_all(data) if SubsystemSettings.exists(data) else {}


def check_database(data: Path, kind: Kind, seconds: float) -> Iterator[Finding]:
    """Whether the database is there, of this version, and whole; its inside is looked at for so many seconds."""
    path = data / _FILES[kind][1]
    advice = IbiError("stop the service, keep this file aside, and put back a backup")
    if not path.exists():
        yield Finding(_DATABASE, Verdict.FAULT, SetupError("{path} does not exist", path=path), advice)
        return
    engine = open_engine(path)
    try:
        check_version(engine, _MIGRATIONS[kind])
        problems = quick_check(engine, seconds)
    except SetupError as error:
        yield Finding(_DATABASE, Verdict.FAULT, error, advice)
    except TimeoutError:
        sentence = IbiError(
            "{path} is too large to be looked through in {seconds:g} s", path=path, seconds=seconds
        )
        yield Finding(_DATABASE, Verdict.NOT_PROVEN, sentence)
    else:
        if problems:
            sentence = IbiError("{path} is damaged: {reason}", path=path, reason=problems[0])
            yield Finding(_DATABASE, Verdict.FAULT, sentence, advice)
        else:
            yield Finding(_DATABASE, Verdict.OK, IbiError("{path} is whole and of this version", path=path))
    finally:
        engine.dispose()


def registered_archives(data: Path) -> list[RegisteredArchive]:
    """The Archives that a resolver's directory knows, [] where its database cannot be used: that is another finding."""
    path = data / _FILES[Kind.RESOLVER][1]
    if not path.exists():
        return []
    registry = Registry(open_engine(path), lambda: 0.0)  # nothing is written here, so no moment is needed
    try:
        return registry.registered()
    except IbiError:
        return []
    finally:
        registry.close()
