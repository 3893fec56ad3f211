"""Copies of items whose originals other Archives hold (ARC-02, ARC-04): fetched whole, compared, kept.

An Archive like this one describes its items under `/-/api/items/`: the copy gets all facts, and every file must have
the digest that was told. Of a place that describes nothing, the copy is the one file that the persistent URL leads to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ibi.archive.file_names import file_parts
from ibi.archive.holding import Access, Holding, StoredFile
from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import copies
from ibi.archive.ledgers.copies import Source
from ibi.archive.sharing.fetching import (
    ANSWER_SECONDS,
    ask,
    check_takable,
    discarding,
    fetch,
    stage,
    tag_of,
    working,
)
from ibi.archive.sharing.handover import fingerprint
from ibi.archive.sharing.whereabouts import Whereabouts, find_original
from ibi.errors import AlreadyHeld, BadItem, HoldingError, PeerError, PeerGarbled, PeerSilent
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.legacy import LegacyId
from ibi.interface.threads import to_its_end
from ibi.protocol.vocabulary import ContentType, State
from ibi.transport import AddressPolicy
from ibi.transport.download import Downloads, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.keeper import Hand, Keeper
    from ibi.archive.storage import Storage
    from ibi.identifier.forms import Name
    from ibi.transport.client import Names
    from ibi.transport.download import Download

API: Final = "/-/api"
SLOWEST_SECONDS: Final = 24 * 3600.0
"""How long a file of unknown size may take."""

_OK, _NOT_MODIFIED, _GONE = 200, 304, 410
_PASSING: Final = frozenset({408, 425, 429})
_ITS_FAULT: Final = 500
_ABOUT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """An original that can be copied: the copy as it shall be held, where it is from, and where its files are."""

    holding: Holding
    source: Source
    url_of: Callable[[StoredFile], str]
    staged: tuple[StoredFile, ...] = ()
    """Files that had to be fetched to know them."""


class Copier:
    """Makes copies for one Archive and keeps them as their originals are.

    `resolver`: the root URL of the resolver that is asked for originals, "" for none; `largest`: bytes of the largest
    file that is taken; `names` stands in for this machine's own look-up of host names.
    """

    def __init__(self, keeper: Keeper, resolver: str, largest: int, names: Names | None = None) -> None:
        self.keeper = keeper
        self.resolver = resolver
        self._largest = largest
        self._names = names

    def door(self, *, private: bool) -> Downloads:
        """The way out; `private`: also to addresses of private networks."""
        return Downloads(AddressPolicy(allow_private=private), self._names)

    async def copy(self, name: Name, who: str, archive: str = "", *, private: bool = False) -> Holding:
        """Take a copy of an item from the Archive of its original, at this root URL or where the resolver leads.

        A copy that is held already is made equal to its original. Raises HoldingError, PeerError, SetupError.
        """
        await asyncio.to_thread(self._check_free, name)
        async with working(self.keeper), self.door(private=private) as door:
            if archive:
                root = Place.parse(archive).root
                found = await self.look(door, root, name, private=private)
                if found is None:
                    raise PeerGarbled("{archive} describes no items", archive=root)
            else:
                found = await self.find(door, name, private=private)
            return await self.take(door, name, found, who)

    async def find(self, door: Downloads, name: Name, *, private: bool) -> Found:
        """The original that the resolver leads to. Raises HoldingError, PeerError."""
        if not self.resolver:
            raise HoldingError("this Archive has joined no resolver: say which Archive to copy from")
        async with self.door(private=True) as to_resolver:  # our administrator chose it
            place = await find_original(to_resolver, self.resolver, name)
        for root in place.archives:
            with suppress(PeerGarbled):  # whatever it is, it describes no items
                found = await self.look(door, root, name, private=private)
                if found is not None:
                    return found
        return await self.look_at_file(door, place, name, private=private)

    async def look(
        self, door: Downloads, root: str, name: Name, tag: str = "", *, private: bool = False
    ) -> Found | None:
        """What the Archive at a root URL says of an original; None if nothing there describes items.

        Raises HoldingError where it holds no original that it gives to others, NotModified, PeerError.
        """
        told = await ask(door, f"{root}{API}/items/{name}", name, {"If-None-Match": tag} if tag else {})
        if told.status == _NOT_MODIFIED:
            raise NotModified
        if told.status == _GONE:
            raise HoldingError("{archive} has removed {name}", archive=root, name=name)
        if told.status in _PASSING or told.status >= _ITS_FAULT:
            raise PeerSilent("{archive} cannot answer now: {status}", archive=root, status=told.status)
        there = told.holding
        if there is None:
            return None
        check_takable(there, self._largest)
        if there.state is not State.ORIGINAL:
            raise HoldingError("{archive} holds only a copy of {name}", archive=root, name=name)
        if there.access_on(self.keeper.moment[:10]) is not Access.OPEN or not (
            there.file_list_public or there.files or there.url
        ):
            raise HoldingError("{archive} does not give {name} to others", archive=root, name=name)
        source = Source(
            archive=root,
            service=await _service(door, root),
            original=there.timestamp,
            tag=told.tag,
            checked=self.keeper.moment,
            private=private,
        )
        base = f"{root}/col/{there.forms.main}/doc/"
        return Found(replace(there, state=State.COPY), source, lambda file: f"{base}{file.name}")

    async def look_at_file(
        self, door: Downloads, place: Whereabouts, name: Name, tag: str = "", *, private: bool = False
    ) -> Found:
        """The one file that a persistent URL leads to, where nothing describes the item.

        What the Archive told the resolver is taken over; the digest is ours, so it can be compared with none.
        Raises HoldingError, NotModified, PeerError.
        """
        if isinstance(name, LegacyId):
            raise HoldingError("nothing describes {name}, and it is no IBI: it cannot be copied", name=name)
        headers = {"If-None-Match": tag} if tag else {}
        storage = self.keeper.storage
        async with door.get(
            place.url, most_bytes=self._largest, seconds=SLOWEST_SECONDS, headers=headers, follow=True
        ) as reply:
            if reply.status == _NOT_MODIFIED:
                raise NotModified
            if reply.status != _OK:
                problem = "the file {name} was not given: the answer was {status}"
                raise PeerGarbled(problem, name=place.url, status=reply.status)
            file = await stage(storage, _file_name(reply.url), reply.chunks())
            with discarding(storage, [file]):
                timestamp = place.timestamp or _last_modified(reply) or self.keeper.moment
                forms = place.told.forms
                holding = Holding(
                    forms=forms if forms and forms.names(name) else IBIForms.of(name),
                    state=State.COPY,
                    content_type=place.told.entry().content_type or ContentType.DATA,
                    timestamp=timestamp,
                    files=(file,),
                    target=file.name,
                )
                service = place.told.archive_service
                source = Source(
                    archive="",
                    service=str(service.main) if service else "",
                    url=place.url,
                    original=timestamp,
                    tag=tag_of(reply.headers),
                    compared=False,
                    checked=self.keeper.moment,
                    private=private,
                )
                return Found(holding, source, lambda _: place.url, (file,))

    async def take(self, door: Downloads, name: Name, found: Found, who: str) -> Holding:
        """Fetch what is missing of what was found, and hold it: one transaction. Raises as `copy` does."""
        here = await asyncio.to_thread(self.keeper.catalogue.holding, name)
        missing = without(found.holding.files, here.files if here else ())
        staged: Sequence[StoredFile] = found.staged
        if here is not None and staged:  # all that is known of it is this one file
            if missing:
                at, file = found.holding.timestamp, staged[0]
                found = replace(found, holding=replace(here, timestamp=at, files=(file,), target=file.name))
            else:
                self.keeper.storage.discard(staged[0])
                staged, found = (), replace(found, holding=here)
        elif not staged:
            staged = await fetch(door, self.keeper.storage, missing, found.url_of)
        return await to_its_end(self._hold, name, found, staged, who)

    def _hold(self, name: Name, found: Found, staged: Sequence[StoredFile], who: str) -> Holding:
        keeper = self.keeper
        with keeper.changing(who) as hand, discarding(keeper.storage, staged):
            held = hold(hand, name, found.holding, staged, found.source.place)
            copies.keep(hand.writer.run, held.number, found.source)
        discard_unused(keeper.storage, held, staged)
        return held

    def _check_free(self, name: Name) -> None:
        here = self.keeper.catalogue.holding(name)
        if here is not None:
            _check_copy(here)


class NotModified(Exception):
    """The original is as it was when it was last looked at."""


def hold(hand: Hand, name: Name, copy: Holding, staged: Sequence[StoredFile], place: str) -> Holding:
    """Hold a copy whose missing files were staged; what is held already is made equal to it. Raises HoldingError."""
    here = hand.find(name)
    if here is None:
        return hand.add(replace(copy, files=()), staged, "copied", source=place)
    _check_copy(here)
    new = {file.name: file for file in staged}
    wanted = {file.name: file.sha256 for file in copy.files if file.name not in new}
    kept = tuple(file for file in here.files if wanted.get(file.name) == file.sha256)
    if len(kept) < len(wanted):
        raise HoldingError("{name} has been changed meanwhile", name=here.forms.main)
    whole = replace(copy, number=here.number, key=here.key, files=(*kept, *staged))
    if fingerprint(whole) == fingerprint(here):
        return here
    return hand.change(here, replace(whole, files=kept), staged, "refreshed", source=place)


def discard_unused(storage: Storage, held: Holding, staged: Sequence[StoredFile]) -> None:
    """Forget what was staged for an item that somebody else has made equal meanwhile."""
    for file in staged:
        if file not in held.files:
            storage.discard(file)


def without(wanted: Sequence[StoredFile], here: Sequence[StoredFile]) -> list[StoredFile]:
    """The files of a manifest that are not here, or not like that."""
    held = {(file.name, file.size, file.sha256) for file in here}
    return [file for file in wanted if (file.name, file.size, file.sha256) not in held]


def _check_copy(here: Holding) -> None:
    name = here.forms.main
    if here.state is State.ORIGINAL:
        raise AlreadyHeld("{name} is held here as the Original, beside which there is no copy", name=name)
    if here.deleted:
        raise HoldingError("{name} was removed on {date}", name=name, date=here.timestamp)


async def _service(door: Downloads, root: str) -> str:
    """The IBI of the service of the Archive at a root URL, "" if it does not tell."""
    try:
        async with door.get(f"{root}/-/about", most_bytes=_ABOUT_BYTES, seconds=ANSWER_SECONDS) as reply:
            told = json.loads(await reply.read()) if reply.status == _OK else {}
            return str(parse_ibi(told["service_ibi"]))
    except (PeerError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return ""


def _file_name(url: str) -> str:
    """What the file at a URL shall be called: as its last part, if that can be the name of a file."""
    last = urlsplit(url).path.rpartition("/")[2]
    try:
        file_parts(last)
    except BadItem:
        return "index.html"
    return last


def _last_modified(reply: Download) -> str:
    """When the file was last changed, as its server says; "" if it does not."""
    try:
        moment = parsedate_to_datetime(reply.headers.get("last-modified", ""))
        return timestamp_text(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    except (ValueError, OverflowError):
        return ""
