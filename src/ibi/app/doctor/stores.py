"""Checks of the files of a data directory: settings, passwords, databases, memberships, evidence.

The files show the kind of the directory. Clauses ARC-10, ARC-11 and REG-03; threats T03, T21, T37 and T42.
"""

from __future__ import annotations

from contextlib import closing, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.accounts.stored import stored_lists
from ibi.app.doctor import Finding, Severity, fault, not_proven, ok, warning
from ibi.app.doctor.files import READABLE_BY_OTHERS, readable_by_others
from ibi.app.doctor.shared_store import shared_archives
from ibi.archive.membership.joining import Resolvers
from ibi.archive.store import schema
from ibi.archive.store.data_directory import catalogue_store
from ibi.archive.store.s3_client import S3Client
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.archive.store.tables.listings import count_unsettled
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding, all_memberships
from ibi.errors import IbiError, SetupError
from ibi.http.client_address import in_networks
from ibi.http.proxy_faults import UndeclaredProxies
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.minting.clock import ClockLimits
from ibi.minting.state import FOLDER
from ibi.minting.subsystem import open_subsystems
from ibi.protocol.messages import split_hostport
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.runtime.database import check_version, earlier_version, is_url, open_engine, place, quick_check
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer, ResolverSettings, SubsystemSettings
from ibi.runtime.shared.store import MIGRATIONS as SHARED
from ibi.runtime.shared.store import store_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.minting.machine import Machine
    from ibi.resolver.model.archive import RegisteredArchive

_MEND: Final = "mend {path}, or put it back from a backup"
_IN_THE_SENTENCE: Final = ""
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
    remedy = "stop the service, keep this file aside, and put back a backup"
    store = _store_of(data, kind)
    if isinstance(store, Path) and not store.exists():
        yield fault(
            "database", "{path} does not exist", "stop the service, and put back a backup", path=store
        )
        return
    try:
        engine = open_engine(store)
    except SetupError as error:
        yield fault("database", error)
        return
    path = place(engine)
    if is_url(store):
        remedy = "see that the database runs, and that {file} leads to it"
    # Nodes share more than the catalogue, in tables with a version of their own.
    chains = (_MIGRATIONS[kind], *((SHARED,) if has_store(data) else ()))
    try:
        earlier = next(filter(None, (earlier_version(engine, each) for each in chains)), None)
        for each in chains if earlier is None else ():
            check_version(engine, each)
        problems = quick_check(engine, seconds)
    except SetupError as error:
        yield fault("database", error, _of_a_later_version(error) or remedy, file=data / _FILES[kind][0])
    except TimeoutError:
        sentence = "{path} is too large to be looked through in {seconds:g} s"
        yield not_proven("database", sentence, path=path, seconds=seconds)
    else:
        if problems:
            yield fault("database", "{path} is damaged: {reason}", remedy, path=path, reason=problems[0])
        elif earlier is not None:
            yield _to_be_upgraded(path, data, *earlier)
        else:
            yield ok("database", "{path} is whole and of this version", path=path)
    finally:
        engine.dispose()


def _store_of(data: Path, kind: DirectoryKind) -> Path | str:
    """Return where the database of a service is; its file, if its settings cannot be read."""
    if url := store_url(data):
        return url
    if kind is DirectoryKind.ARCHIVE:
        with suppress(SetupError):  # check_settings reports it
            return catalogue_store(data)
    return data / _FILES[kind][1]


def _to_be_upgraded(path: str, folder: Path, found: str, newest: str) -> Finding:
    sentence = (
        "{path} has version {found}; it is brought to version {newest} as soon as the service starts or a command "
        "opens it, and an earlier version of this program cannot open it then"
    )
    remedy = "keep a copy of {folder} first, made while nothing runs there"
    return warning("database", sentence, remedy, path=path, folder=folder, found=found, newest=newest)


def _of_a_later_version(error: SetupError) -> str:
    """Return the remedy for a database that a later version of this program has migrated; "" for another error."""
    if "newest" not in error.details:
        return ""
    return "install that version of the program again, or put back a backup from before it: no database goes back"


def registered_archives(data: Path) -> list[RegisteredArchive] | None:
    """Return the Archives that a resolver has registered; None if check_database reports a fault."""
    if has_store(data):
        return shared_archives(data)
    path = data / _FILES[DirectoryKind.RESOLVER][1]
    if not path.exists():
        return None
    # Nothing is written, so the time does not matter.
    with closing(Registry(open_engine(path), lambda: 0.0)) as registry, suppress(IbiError):
        return registry.registered()
    return None


def resolvers_of(data: Path) -> dict[str, str]:
    """Return root URL -> service IBI of the resolvers that an Archive has joined.

    An IBI is "" if it is not in the settings; the result is {} if the settings cannot be read.
    """
    try:
        resolvers = Resolvers.read(data) if ArchiveSettings.exists(data) else None
    except IbiError:
        return {}
    return {url: resolvers.services[url] for url in resolvers.keys} if resolvers else {}


def check_service(data: Path) -> Iterator[Finding]:
    """Check whether the Archive holds its own service item, an original that must stay (ARC-11)."""
    try:
        settings = ArchiveSettings.read(data)
        with closing(_catalogue(data)) as catalogue:
            found = catalogue.holding(settings.service.main)
    except (IbiError, OSError):
        return  # check_settings reports what cannot be read
    if found is None or found.transferable or found.state is not ItemState.ORIGINAL:
        sentence = "{ibi} is not the service item that this Archive began with"
        remedy = "put the service back into {path}: it never changes"
        yield fault("archive", sentence, remedy, ibi=settings.service.main, path=data / ArchiveSettings.FILE)


def check_place_of_files(data: Path) -> Iterator[Finding]:
    """Check that the S3 store with the files of items answers, and that its place is this Archive's."""
    try:
        settings = ArchiveSettings.read(data)
    except SetupError:
        return  # check_settings reports what cannot be read
    if not settings.files:
        return
    try:
        S3Client(settings.files).check(str(settings.service.main))
    except SetupError as error:
        yield fault("archive", error, _IN_THE_SENTENCE)
    else:
        yield ok("archive", "the files of items are in {place}, which answers", place=settings.files)


def check_unsettled(data: Path) -> Iterator[Finding]:
    """Check whether originals came back from a backup and are not settled (note 45)."""
    try:
        with closing(_catalogue(data)) as catalogue, catalogue.reading() as run:
            count = count_unsettled(run)
    except (IbiError, OSError):
        return  # check_database reports what cannot be read
    if count:
        sentence = "answers leave out originals that came back from a backup and are not settled: {count}"
        yield warning(
            "archive", sentence, "settle them: ibi archive settle --data {data}", count=count, data=data
        )


def check_memberships(data: Path) -> Iterator[Finding]:
    """Check whether the Archive is switched on, and report what each resolver answered last."""
    try:
        resolvers = Resolvers.read(data)
        with closing(_catalogue(data)) as catalogue, catalogue.reading() as run:
            known = all_memberships(run)
    except (IbiError, OSError):
        return
    if resolvers.settings.retired:
        yield ok("resolver", "this Archive has retired")
    elif not resolvers.settings.switched_on:
        yield warning("resolver", "this Archive is switched off", "ibi archive switch on")
    else:
        yield from (_judge_membership(known[url]) for url in resolvers.keys if url in known)


def _judge_membership(member: MembershipRecord) -> Finding:
    details = {"url": member.resolver, "standing": IbiError(member.standing.value), "since": member.since}
    if member.problem is not None:
        sentence = "at {url}: {standing} since {since}; {reason}"
        return warning("resolver", sentence, **details, reason=member.problem)
    sentence = "at {url}: {standing} since {since}"
    if member.standing in {MembershipStanding.UNCONFIRMED, MembershipStanding.REFUSED}:
        return warning("resolver", sentence, **details)
    return ok("resolver", sentence, **details)


def _catalogue(data: Path) -> Catalogue:
    return Catalogue(open_engine(catalogue_store(data)))


def has_store(data: Path) -> bool:
    """Whether the settings name a store that several nodes share."""
    return bool(store_url(data))


def check_evidence(data: Path) -> Iterator[Finding]:
    """Check whether the log of evidence is as it was written (T42)."""
    path = data / EVIDENCE_FILE
    if not (path.exists() or has_store(data)):
        yield ok("evidence", "nothing was written into {path} yet", path=path)
        return
    try:
        found = Evidence(path, lambda: 0.0).verify()  # nothing is written, so the time does not matter
    except SetupError as error:
        yield fault("evidence", error, "run this as the user of the service")
        return
    if found.fault is not None:
        remedy = "keep a copy of {path} aside, and find out who changed it"
        yield fault("evidence", "{path}: {reason}", remedy, path=path, reason=found.fault)
        return
    sentence = "{path} has {count} entries, all as they were written"
    yield ok("evidence", sentence, path=path, count=found.entries)
    if found.damage:
        sentence = "{path} tells of damage found earlier: {count} times"
        yield warning(
            "evidence", sentence, "look for the entries `damage` in it", path=path, count=found.damage
        )
