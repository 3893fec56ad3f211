"""How an Archive is: who it is, what it holds, how it stands at its resolvers, what goes on, what is damaged.

Told alike at the terminal, on pages and to programs. `tell` says a sentence in the language of whoever asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.archive.care.audit_duty import WALK
from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import fixity, inventory, memberships, transfers
from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.catalogue import Run
    from ibi.archive.ledgers.fixity import Known
    from ibi.archive.ledgers.transfers import Giving
    from ibi.archive.networking.joining import Resolvers
    from ibi.settings import ArchiveSettings

    Tell = Callable[[IbiError | str], str]

MOST_FAULTS: Final = 1000
"""Damaged files that are told at once."""

STANDINGS: Final = {
    "waiting": "waiting",
    "included": "included",
    "included, not confirmed": "included, not confirmed",
    "refused": "refused",
    "excluded": "excluded",
}
"""How an Archive stands at a resolver, in words."""


def identity(settings: ArchiveSettings) -> dict[str, Any]:
    """Who it is."""
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


def sections(run: Run, resolvers: Resolvers, tell: Tell) -> dict[str, Any]:
    """What the ledgers tell, in the order in which it is shown."""
    return {
        "items": {state.value: count for state, count in inventory.states(run).items()},
        "resolvers": of_resolvers(run, resolvers, tell),
        "transfers": of_transfers(run, tell),
        "copies": dict(zip(("lagging", "since"), inventory.lagging(run), strict=True)),
        "audit": of_audit(run, tell),
    }


def of_resolvers(run: Run, resolvers: Resolvers, tell: Tell) -> list[dict[str, str]]:
    """How it stands at each of its resolvers, those that it is leaving among them."""
    known = memberships.members(run)
    found = []
    for url in (*resolvers.keys, *(known.keys() - resolvers.keys.keys())):
        member = known.get(url)
        found.append({
            "url": url,
            "standing": tell(STANDINGS[member.standing]) if member else tell("not asked yet"),
            "since": member.since if member else "",
            "heard": member.heard if member else "",
            "problem": tell(member.problem) if member and member.problem else "",
        })  # fmt: skip
    return found


def of_transfers(run: Run, tell: Tell) -> list[dict[str, str]]:
    """The hand-overs that are under way."""
    return [of_giving(run, giving, tell) for giving in transfers.open_givings(run)]


def of_giving(run: Run, giving: Giving, tell: Tell) -> dict[str, str]:
    """How far one hand-over is: none of its secrets."""
    return {
        "transfer": giving.id,
        "item": transfers.main_name(run, giving.item),
        "to": giving.address,
        "stage": giving.stage.value,
        "since": giving.moment,
        "problem": tell(giving.problem) if giving.problem else "",
    }


def of_audit(run: Run, tell: Tell) -> dict[str, Any]:
    """How far the present audit of the stored files is, and how many are damaged."""
    place = fixity.place_of(run, WALK)
    return {
        "files": fixity.total(run)[0],
        "faults": len(fixity.faults(run, MOST_FAULTS)),
        "begun": timestamp_text(int(place.begun)) if place else "",
        "ended": tell("yes") if place and place.ended else tell("no"),
    }


def of_fault(known: Known) -> dict[str, str]:
    """One damaged file."""
    return {
        "ibi": str(known.listed.forms.main),
        "file": known.listed.file.name,
        "fault": known.fault.value,
        "found": known.read,
        "good": known.good,
    }
