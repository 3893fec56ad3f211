"""Checks of the files of a data directory: settings, passwords, databases, memberships, evidence.

The files show the kind of the directory. Clauses ARC-10, ARC-11 and REG-03; threats T03, T21, T37 and T42.
"""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.accounts.stored import stored_lists
from ibi.app.doctor import Finding, Severity, fault, ok, warning
from ibi.app.doctor.files import READABLE_BY_OTHERS, readable_by_others
from ibi.app.doctor.shared_store import check_shared_store
from ibi.archive.store import schema
from ibi.errors import IbiError, SetupError
from ibi.http.client_address import in_networks
from ibi.http.proxy_faults import UndeclaredProxies
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.minting.clock import ClockLimits
from ibi.minting.state import FOLDER
from ibi.minting.subsystem import open_subsystems
from ibi.protocol.messages import split_hostport
from ibi.resolver.registry.registry import MIGRATIONS
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer, ResolverSettings, SubsystemSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.minting.machine import Machine

_MEND: Final = "mend {path}, or put it back from a backup"
# Seconds that a reader waits at most: the rest of a longer resolution is wasted work (T37).
_LONGEST_WAIT: Final = 15.0
# Resolutions a second: no single reader asks so often, so a higher limit protects nothing (T29, T37).
_NO_LIMIT: Final = 1000.0


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
    """Return the kinds of a directory, by the files of ours in it; [] if it has none."""
    return [kind for kind, names in _FILES.items() if any((data / name).exists() for name in names)]


def check_settings(data: Path, kind: DirectoryKind) -> Iterator[Finding]:
    """Check that only this user can read the settings, and a password file that they name."""
    if kind is DirectoryKind.ARCHIVE:
        yield _check_file(data / ArchiveSettings.FILE, lambda: ArchiveSettings.read(data))
        for further in (JoinedResolver, Peer):
            if (data / further.FILE).exists():
                yield _check_file(data / further.FILE, partial(further.read_tables, data))
        return
    yield _check_file(data / ResolverSettings.FILE, lambda: ResolverSettings.read(data))
    with suppress(SetupError):  # reported by the line above
        if password := ResolverSettings.read(data).smtp_password_file:
            yield _check_file(Path(password), Path(password).read_bytes, ours=False)


def check_lists(data: Path) -> Iterator[Finding]:
    """Check that only this user can read the lists of accounts and of tokens, also of tokens for minting."""
    for folder in (data, data / FOLDER):
        for path, read in stored_lists(folder):
            yield _check_file(path, read, "")


def _check_file(path: Path, read: Callable[[], object], remedy: str = _MEND, *, ours: bool = True) -> Finding:
    """Check one file; `remedy` is "" if the error of `read` contains the remedy. `ours`: as `files` has it."""
    try:
        read()
        mode = path.stat().st_mode
    except SetupError as error:
        return fault("settings", error, remedy, path=path)
    except OSError as error:
        return fault("settings", "{path} cannot be read: {reason}", _MEND, path=path, reason=error.strerror)
    if mode & READABLE_BY_OTHERS:
        return readable_by_others(path, ours=ours)
    return ok("settings", "{path} is in order", path=path)


def check_policy(data: Path) -> Iterator[Finding]:
    """Report how a resolver judges answers, and settings that are allowed but weak."""
    try:
        settings = ResolverSettings.read(data)
    except SetupError:
        return  # check_settings reports what cannot be read
    if settings.policy == "strict":
        yield _weak(
            "answers are judged by the letter of the standard, without its safeguards", 'policy = "hardened"'
        )
    else:
        yield ok("settings", "the policy is {policy}", policy=settings.policy)
    # A public resolver that asks private addresses gives strangers access to its own network (T01).
    if settings.allow_private_archives and _is_public(settings.address):
        sentence = "it can be reached from everywhere, and contacts Archives at addresses that are not public"
        yield _weak(sentence, "allow_private_archives = false")
    if not settings.allow_private_archives and not _is_public(settings.address):
        sentence = (
            "its own address is not public, and it contacts no Archive at an address that is not, either"
        )
        yield _weak(sentence, "allow_private_archives = true")
    if settings.overall_seconds > _LONGEST_WAIT:
        sentence = "readers may wait for {seconds:g} s"
        yield _weak(sentence, "overall_seconds = 5.0", seconds=settings.overall_seconds)
    if settings.archive_seconds > settings.overall_seconds:
        sentence = "one Archive may take longer to answer than a whole resolution"
        yield _weak(sentence, "archive_seconds = 3.0")
    if settings.request_rate > _NO_LIMIT:
        sentence = "one reader may cause {rate:g} queries to Archives a second"
        yield _weak(sentence, "request_rate = 20.0", rate=settings.request_rate)
    if not settings.admin:
        yield _weak("alerts do not tell readers whom to write to", 'admin = "..."')
    if settings.smtp and not settings.mail_from:
        yield _weak("no mail is sent: no sender is set", 'mail_from = "..."')


def check_proxies(data: Path, kind: DirectoryKind) -> Iterator[Finding]:
    """Report proxies in front of the service that are not declared: all their readers share one limit."""
    declared: tuple[str, ...] = ()
    remedy = "ibi resolver serve --trusted-proxy {proxy}"
    if kind is DirectoryKind.ARCHIVE:
        remedy = "ibi archive set --trusted-proxy {proxy}"
        with suppress(SetupError):  # check_settings reports it
            declared = ArchiveSettings.read(data).trusted_proxies
    # Nothing is written, so the time does not matter.
    for proxy, day in UndeclaredProxies(data, lambda: 0.0).read().items():
        if not in_networks(proxy, declared):
            sentence = (
                "{proxy} brings readers (last on {day}) and is not declared as a proxy: they share one limit"
            )
            yield warning("settings", sentence, remedy, proxy=proxy, day=day)


def _weak(sentence: str, better: str, **details: object) -> Finding:
    remedy = "in {file}: {setting}"
    return warning("settings", sentence, remedy, file=ResolverSettings.FILE, setting=better, **details)


def _is_public(address: str) -> bool:
    """Return whether an address can be reached from the whole Internet."""
    host = split_hostport(address)[0].strip("[]")
    try:
        return is_public_ip(host)
    except ValueError:
        return "." in host and host.rpartition(".")[2] not in TRIAL_DOMAINS


def check_subsystems(data: Path, machine: Machine) -> Iterator[Finding]:
    """Check that every entry in the list of subsystems, if there is one, can mint labels."""
    path = data / SubsystemSettings.FILE
    if not path.exists():
        return
    try:
        open_subsystems(data, machine, ClockLimits())
    except IbiError as error:
        yield fault("settings", "{path}: {reason}", _MEND, path=path, reason=error)
    else:
        yield ok("settings", "{path} is in order", path=path)


def subsystems_of(data: Path, machine: Machine) -> dict[str, SubsystemSettings]:
    """Return name -> listed subsystem; {} if there is no list, or if check_subsystems reports a fault."""
    in_order = all(finding.severity is Severity.OK for finding in check_subsystems(data, machine))
    return SubsystemSettings.read_tables(data) if in_order else {}


def check_database(data: Path, kind: DirectoryKind, seconds: float) -> Iterator[Finding]:
    """Check that the database exists, has this version, and is undamaged; stop reading after `seconds`."""
    if kind is DirectoryKind.RESOLVER and has_store(data):
        yield from check_shared_store(data)
        return
