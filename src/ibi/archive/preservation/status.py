"""The status of an Archive: its identity, items, memberships, hand-overs, copies, and damaged files.

The terminal, the pages and the JSON interface all show it. `tell` translates a sentence for the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.item_json import timestamp_text
from ibi.archive.preservation.audit import SERVED_AUDIT
from ibi.archive.store.tables import fixity, listings, memberships, transfers
from ibi.archive.store.tables.listings import count_unsettled

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.membership.joining import Resolvers
    from ibi.archive.store.tables.catalogue import SqlRunner
    from ibi.archive.store.tables.fixity import KnownFault
    from ibi.archive.store.tables.transfers import OutgoingTransfer
    from ibi.errors import IbiError
    from ibi.runtime.settings import ArchiveSettings

    Tell = Callable[[IbiError | str], str]

MOST_FAULTS: Final = 1000
"""The most damaged files that are listed."""

STANDINGS: Final = {
    "waiting": "waiting",
    "included": "included",
    "included, not confirmed": "included, not confirmed",
    "refused": "refused",
    "excluded": "excluded",
}
"""The states of an Archive at a resolver, as sentences to translate."""


def identity(settings: ArchiveSettings) -> dict[str, Any]:
    """Return the names, addresses and switches of an Archive."""
    return {
        "service": str(settings.service),
        "address": settings.address,
        "aliases": list(settings.aliases),
        "ip": settings.ip,
        "admin": settings.admin,
        "labels": settings.mint_host,
        "switched_on": settings.switched_on,
        "retired": settings.retired,
    }


def sections(run: SqlRunner, resolvers: Resolvers, tell: Tell) -> dict[str, Any]:
    """Return the sections of the status, in the order in which they are shown."""
    return {
        "items": {state.value: count for state, count in listings.count_states(run).items()},
        "resolvers": of_resolvers(run, resolvers, tell),
        "transfers": of_transfers(run, tell),
        "copies": dict(zip(("lagging", "since"), listings.lagging(run), strict=True)),
        "audit": of_audit(run, tell),
        "unsettled": count_unsettled(run),
    }


def of_resolvers(run: SqlRunner, resolvers: Resolvers, tell: Tell) -> list[dict[str, str]]:
    """Return the state of the Archive at each of its resolvers, including those that it is leaving."""
    known = memberships.all_memberships(run)
    found = []
    for url in (*resolvers.keys, *(known.keys() - resolvers.keys.keys())):
        member = known.get(url)
        found.append({
            "url": url,
            "service": resolvers.services.get(url, ""),
            "standing": tell(STANDINGS[member.standing]) if member else tell("not queried yet"),
            "since": member.since if member else "",
            "heard": member.heard if member else "",
            "problem": tell(member.problem) if member and member.problem else "",
        })  # fmt: skip
    return found


def of_transfers(run: SqlRunner, tell: Tell) -> list[dict[str, str]]:
    """Return the hand-overs that are not finished."""
    return [outgoing_facts(run, transfer, tell) for transfer in transfers.open_outgoing(run)]


def outgoing_facts(run: SqlRunner, transfer: OutgoingTransfer, tell: Tell) -> dict[str, str]:
    """Return how far one hand-over is, without its secrets."""
    return {
        "transfer": transfer.id,
        "item": transfers.main_name(run, transfer.item),
        "to": transfer.address,
        "stage": transfer.stage.value,
        "since": transfer.moment,
        "problem": tell(transfer.problem) if transfer.problem else "",
    }


def of_audit(run: SqlRunner, tell: Tell) -> dict[str, Any]:
    """Return how far the present audit of the served Archive has come, and how many files are damaged."""
    place = fixity.position_of(run, SERVED_AUDIT)
    return {
        "files": fixity.total(run)[0],
        "faults": len(fixity.faults(run, MOST_FAULTS)),
        "begun": timestamp_text(int(place.begun)) if place else "",
        "ended": tell("yes") if place and place.ended else tell("no"),
    }


def of_fault(known: KnownFault) -> dict[str, str]:
    """Return one damaged file as a JSON object."""
    return {
        "ibi": str(known.listed.forms.main),
        "file": known.listed.file.name,
        "fault": known.fault.value,
        "found": known.read,
        "good": known.good,
    }
