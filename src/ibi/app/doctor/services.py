"""Checks of one service: an Archive's service item and memberships, a resolver's evidence and weak settings.

Clauses ARC-10, ARC-11 and REG-03; threats T03, T21, T37 and T42.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ibi.app.doctor import Finding, Severity
from ibi.archive.membership.joining import Resolvers
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding, all_memberships
from ibi.errors import IbiError, SetupError
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.protocol.messages import split_hostport
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.runtime.database import open_engine
from ibi.runtime.settings import ArchiveSettings, ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_SEVERITIES = {
    MembershipStanding.INCLUDED: Severity.OK,
    MembershipStanding.UNCONFIRMED: Severity.WARNING,
    MembershipStanding.REFUSED: Severity.WARNING,
}


def resolvers_of(data: Path) -> list[str]:
    """Return the root URLs of the resolvers that an Archive has joined; [] where the settings cannot be read."""
    try:
        return list(Resolvers.read(data).keys) if ArchiveSettings.exists(data) else []
    except IbiError:
        return []


def check_service(data: Path) -> Iterator[Finding]:
    """Check whether the Archive holds its own service item, an original that must stay (ARC-11)."""
    try:
        settings = ArchiveSettings.read(data)
        with _catalogue(data) as catalogue:
            found = catalogue.holding(settings.service.main)
    except (IbiError, OSError):
        return  # check_settings reports what cannot be read
    if found is None or found.transferable or found.state is not ItemState.ORIGINAL:
        sentence = IbiError(
            "{ibi} is not the service item that this Archive began with", ibi=settings.service.main
        )
        remedy = IbiError(
            "put the service back into {path}: it never changes", path=data / ArchiveSettings.FILE
        )
        yield Finding("archive", Severity.FAULT, sentence, remedy)


def check_memberships(data: Path) -> Iterator[Finding]:
    """Check whether the Archive is switched on, and report what each resolver answered last."""
    try:
        resolvers = Resolvers.read(data)
        with _catalogue(data) as catalogue, catalogue.reading() as run:
            known = all_memberships(run)
    except (IbiError, OSError):
        return
    if resolvers.settings.retired:
        yield Finding("resolver", Severity.OK, IbiError("this Archive has retired"))
    elif not resolvers.settings.switched_on:
        remedy = IbiError("ibi archive switch on")
        yield Finding("resolver", Severity.WARNING, IbiError("this Archive is switched off"), remedy)
    else:
        for url in resolvers.keys:
            if url in known:
                yield _judge_membership(known[url])


def _judge_membership(member: MembershipRecord) -> Finding:
    details = {"url": member.resolver, "standing": IbiError(member.standing.value), "since": member.since}
    severity = _SEVERITIES.get(member.standing, Severity.OK)
    if member.problem is None:
        return Finding("resolver", severity, IbiError("at {url}: {standing} since {since}", **details))
    sentence = IbiError("at {url}: {standing} since {since}; {reason}", **details, reason=member.problem)
    return Finding("resolver", Severity.WARNING, sentence)


@contextmanager
def _catalogue(data: Path) -> Iterator[Catalogue]:
    catalogue = Catalogue(open_engine(data / "catalogue.sqlite"))
    try:
        yield catalogue
    finally:
        catalogue.close()


_EVIDENCE: Final = "evidence"
_SETTINGS: Final = "settings"
# A reader who waits longer than this leaves; the rest of the resolution is then work for nothing (T37).
_LONGEST_WAIT: Final = 15.0
# Resolutions a second: no single reader asks so often, so a limit above it protects nothing (T29, T37).
_NO_LIMIT: Final = 1000.0


def check_evidence(data: Path) -> Iterator[Finding]:
    """Check whether the log of evidence is as it was written (T42)."""
    path = data / EVIDENCE_FILE
    if not path.exists():
        yield Finding(_EVIDENCE, Severity.OK, IbiError("nothing was written into {path} yet", path=path))
        return
    try:
        found = Evidence(path, lambda: 0.0).verify()  # nothing is written, so the time does not matter
    except SetupError as error:
        yield Finding(_EVIDENCE, Severity.FAULT, error, IbiError("run this as the user of the service"))
        return
    if found.fault is not None:
        sentence = IbiError("{path}: {reason}", path=path, reason=found.fault)
        remedy = IbiError("keep a copy of {path} aside, and find out who changed it", path=path)
        yield Finding(_EVIDENCE, Severity.FAULT, sentence, remedy)
        return
    sentence = IbiError(
        "{path} has {count} entries, all as they were written", path=path, count=found.entries
    )
    yield Finding(_EVIDENCE, Severity.OK, sentence)
    if found.damage:
        sentence = IbiError(
            "{path} tells of damage found earlier: {count} times", path=path, count=found.damage
        )
        yield Finding(_EVIDENCE, Severity.WARNING, sentence, IbiError("look for the entries `damage` in it"))


def check_policy(data: Path) -> Iterator[Finding]:
    """Report how answers are judged, and settings that are allowed but weak."""
    try:
        settings = ResolverSettings.read(data)
    except SetupError:
        return  # check_settings reports what cannot be read
    if settings.policy == "strict":
        sentence = IbiError("answers are judged by the letter of the standard, without its safeguards")
        yield _weak(sentence, 'policy = "hardened"')
    else:
        yield Finding(_SETTINGS, Severity.OK, IbiError("the policy is {policy}", policy=settings.policy))
    # A public resolver that asks private addresses is a way into its own network (T01).
    if settings.allow_private_archives and _is_public(settings.address):
        sentence = IbiError(
            "it can be reached by everybody, and asks Archives at addresses that are not public"
        )
        yield _weak(sentence, "allow_private_archives = false")
    if settings.overall_seconds > _LONGEST_WAIT:
        sentence = IbiError("readers may wait for {seconds:g} s", seconds=settings.overall_seconds)
        yield _weak(sentence, "overall_seconds = 5.0")
    if settings.archive_seconds > settings.overall_seconds:
        sentence = IbiError("one Archive may take longer to answer than a whole resolution")
        yield _weak(sentence, "archive_seconds = 3.0")
    if settings.request_rate > _NO_LIMIT:
        sentence = IbiError(
            "one reader may have Archives asked {rate:g} times a second", rate=settings.request_rate
        )
        yield _weak(sentence, "request_rate = 20.0")
    if not settings.admin:
        sentence = IbiError("alerts do not tell readers whom to write to")
        yield _weak(sentence, 'admin = "..."')
    if settings.smtp and not settings.mail_from:
        yield _weak(IbiError("no mail is sent: nobody is named as its sender"), 'mail_from = "..."')


def _weak(sentence: IbiError, better: str) -> Finding:
    remedy = IbiError("in {file}: {setting}", file=ResolverSettings.FILE, setting=better)
    return Finding(_SETTINGS, Severity.WARNING, sentence, remedy)


def _is_public(address: str) -> bool:
    """Whether an address can be reached from anywhere."""
    host = split_hostport(address)[0].strip("[]")
    try:
        return is_public_ip(host)
    except ValueError:
        return "." in host and host.rpartition(".")[2] not in TRIAL_DOMAINS
