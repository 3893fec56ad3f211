"""An Archive's own affairs: its service item, and how it stands at its resolvers (ARC-10, ARC-11, REG-03)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ibi.archive.catalogue import Catalogue
from ibi.archive.ledgers.memberships import Member, Standing, members
from ibi.archive.networking.joining import Resolvers
from ibi.checkup.finding import Finding, Verdict
from ibi.database import open_engine
from ibi.errors import IbiError
from ibi.protocol.vocabulary import State
from ibi.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VERDICTS = {
    Standing.INCLUDED: Verdict.OK,
    Standing.UNCONFIRMED: Verdict.WARNING,
    Standing.REFUSED: Verdict.WARNING,
}


def resolvers_of(data: Path) -> list[str]:
    """The root URLs of the resolvers that an Archive has joined; [] where the settings cannot be read."""
    try:
        return list(Resolvers.read(data).keys) if ArchiveSettings.exists(data) else []
    except IbiError:
        return []


def check_service(data: Path) -> Iterator[Finding]:
    """Whether the Archive holds its own service item, an original that must stay."""
    try:
        settings = ArchiveSettings.read(data)
        with _catalogue(data) as catalogue:
            found = catalogue.holding(settings.service.main)
    except (IbiError, OSError):
        return  # what cannot be read is another finding
    if found is None or found.transferable or found.state is not State.ORIGINAL:
        sentence = IbiError(
            "{ibi} is not the service item that this Archive began with", ibi=settings.service.main
        )
        advice = IbiError(
            "put the service back into {path}: it never changes", path=data / ArchiveSettings.FILE
        )
        yield Finding("archive", Verdict.FAULT, sentence, advice)


def check_memberships(data: Path) -> Iterator[Finding]:
    """Whether the Archive is switched on, and what each resolver said last."""
    try:
        resolvers = Resolvers.read(data)
        with _catalogue(data) as catalogue, catalogue.reading() as run:
            known = members(run)
    except (IbiError, OSError):
        return
    if resolvers.settings.retired:
        yield Finding("resolver", Verdict.OK, IbiError("this Archive has retired"))
    elif not resolvers.settings.switched_on:
        advice = IbiError("ibi archive switch on")
        yield Finding("resolver", Verdict.WARNING, IbiError("this Archive is switched off"), advice)
    else:
        for url in resolvers.keys:
            if url in known:
                yield _judged(known[url])


def _judged(member: Member) -> Finding:
    details = {"url": member.resolver, "standing": IbiError(member.standing.value), "since": member.since}
    verdict = _VERDICTS.get(member.standing, Verdict.OK)
    if member.problem is None:
        return Finding("resolver", verdict, IbiError("at {url}: {standing} since {since}", **details))
    sentence = IbiError("at {url}: {standing} since {since}; {reason}", **details, reason=member.problem)
    return Finding("resolver", Verdict.WARNING, sentence)


@contextmanager
def _catalogue(data: Path) -> Iterator[Catalogue]:
    catalogue = Catalogue(open_engine(data / "catalogue.sqlite"))
    try:
        yield catalogue
    finally:
        catalogue.close()
