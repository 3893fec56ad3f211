"""Read the JSON answers of peers and resolvers about originals from a backup; each field is checked first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import PeerError, PeerGarbled
from ibi.http.client.download import CheckedURL
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

UNSETTLED: Final = "Unsettled"
"""Stands instead of a state if the peer itself came back from a backup, and does not know."""

_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


class Whereabouts(NamedTuple):
    """An answer about an original of ours: it moved (`service`), was removed here, or neither is known.

    `source`: the root URL of the peer or resolver that answered; `service`: the IBI of the Archive service
    that has the item now; `archive`: the root URL of that Archive, "" if it is not known.
    """

    source: str
    service: str = ""
    archive: str = ""
    removed: bool = False

    @property
    def is_doubt(self) -> bool:
        """Whether the source does not know where the item is."""
        return not self.service and not self.removed


def add_answers(known: dict[str, Whereabouts], more: Mapping[str, Whereabouts]) -> None:
    """Add answers about items; one that knows where an item is replaces only doubts."""
    for name, answer in more.items():
        if name not in known or known[name].is_doubt:
            known[name] = answer


class ReceivedPage(NamedTuple):
    """A page of the items that a peer has received from us, by canonical name.

    `following`: the id of the hand-over after which the next page begins, "" on the last page.
    """

    found: dict[str, Whereabouts]
    following: str


def read_received(value: Any, source: str, own: Container[str]) -> ReceivedPage:
    """Read a page of the peer at this root URL; `own`: the canonical names of our service. Raises PeerGarbled."""
    try:
        service, found = str(parse_ibi(value["service"])), {}
        for each in value["received"]:
            place = _received(each, source, service)
            # An item that the peer holds as a copy of ours was given back to us: nothing is recorded for it.
            if place.is_doubt or parse_ibi(place.service).canonical not in own:
                found[parse_name(each["ibi"]).canonical] = place
        following = value.get("next", "")
        if not following or _ID.fullmatch(following):
            return ReceivedPage(found, following)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, PeerError):
        pass
    raise PeerGarbled("{archive} does not tell which originals it has received", archive=source)


def _received(each: dict[str, Any], source: str, service: str) -> Whereabouts:
    if each["state"] == UNSETTLED:
        return Whereabouts(source)
    if ItemState(each["state"]) is ItemState.COPY and each.get("service"):
        archive = CheckedURL.parse(each["archive"]).root
        return Whereabouts(source, str(parse_ibi(each["service"])), archive)
    # This includes an original that the peer has removed: our item is a copy of it.
    return Whereabouts(source, service, source)


def read_holders(value: Any, source: str, own: Container[str]) -> dict[str, Whereabouts]:
    """Read what the resolver at this root URL knows of moves, removals and disputes; all else is left out.

    `own`: the canonical names of our service. Raises PeerGarbled.
    """
    found = {}
    try:
        for each in value["items"]:
            name, holder = parse_name(each["ibi"]).canonical, each["original"]
            if each["disputed"] is True:
                found[name] = Whereabouts(source)
            elif holder and parse_ibi(holder).canonical not in own:
                archive = CheckedURL.parse(f"http://{each['address']}").root if each["address"] else ""
                found[name] = Whereabouts(source, str(parse_ibi(holder)), archive)
            elif each["removed"] is True:
                found[name] = Whereabouts(source, removed=True)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, PeerError):
        problem = "{resolver} does not tell who holds an original; it may be a resolver of other software"
        raise PeerGarbled(problem, resolver=source) from None
    return found
