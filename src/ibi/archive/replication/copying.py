"""Make copies of items whose originals other Archives hold: find, fetch, verify and store.

An Archive that runs this software describes its items under `/-/api/items/`. The copy then gets all facts of the
description, and every file must have the digest that the description gives. Where nothing describes the item, the
copy is the one file that the persistent URL leads to. `refreshing` keeps the copies up to date. See ARC-02: originals
and copies; ARC-04: never original and copy together.
"""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ibi.archive.model.file_names import file_parts
from ibi.archive.model.handover import fingerprint
from ibi.archive.model.item import Access, Holding, StoredFile
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.replication.fetching import (
    ANSWER_SECONDS,
    NOT_MODIFIED,
    NotModified,
    OriginalLocation,
    check_acceptable,
    discard_on_failure,
    etag_of,
    fetch_description,
    fetch_files,
    find_original,
    stage_file,
    staging_session,
)
from ibi.archive.store.tables import copies
from ibi.archive.store.tables.copies import CopySource
from ibi.errors import AlreadyHeld, BadItem, HoldingError, PeerError, PeerGarbled
from ibi.http.client import AddressPolicy
from ibi.http.client.download import CheckedURL, Downloads
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.legacy import LegacyId
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.runtime.tasks import run_to_completion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.item_store import ItemStore, UnitOfWork
    from ibi.http.client.address_policy import HostLookup
    from ibi.http.client.download import Download
    from ibi.identifier.forms import IBI, Name

SLOWEST_SECONDS: Final = 24 * 3600.0
"""Seconds that the download of a file of unknown size may take."""

_OK: Final = 200
_ABOUT_BYTES: Final = 1 << 20  # of what an Archive says of itself


@dataclass(frozen=True, slots=True)
class FoundOriginal:
    """An original that can be copied: the copy as it will be stored, its source, and the URL of each file."""

    holding: Holding
    source: CopySource
    url_of: Callable[[StoredFile], str]
    staged: tuple[StoredFile, ...] = ()
    """Files that were fetched already, because their size and digest were not known before."""


@dataclass(frozen=True, slots=True)
class Copier:
    """Makes copies for one Archive, and makes a stored copy equal to its original again.

    `resolver`: the root URL of the resolver that is asked for originals, "" for none; `largest`: bytes of the largest
    file that is accepted; `host_lookup` replaces that of this machine; `progress` is called with how many
    bytes of an item's files have come, and how many there are.
    """

    item_store: ItemStore
    resolver: str
    largest: int
    host_lookup: HostLookup | None = None
    progress: Callable[[int, int], None] = lambda *_: None

    def downloads(self, *, private: bool, seconds: float = math.inf) -> Downloads:
        """Return a download client; `private` also allows addresses of private networks.

        `seconds`: how long all its downloads together may take.
        """
        return Downloads(AddressPolicy(allow_private=private), self.host_lookup, seconds)

    async def copy(self, name: Name, who: str, archive: str = "", *, private: bool = False) -> Holding:
        """Copy an item from the Archive at the root URL `archive`, or ("") from where the resolver leads.

        A copy that is stored already is made equal to its original. Raises HoldingError, PeerError, SetupError.
        """
        # Checked before anything is fetched: an Original of our own is never replaced by a copy.
        check_copy(await asyncio.to_thread(self.item_store.catalogue.holding, name))
        async with staging_session(self.item_store), self.downloads(private=private) as downloads:
            if archive:
                root = CheckedURL.parse(archive).root
                found = await self.find_at(downloads, root, name, private=private)
                if found is None:
                    raise PeerGarbled("{archive} describes no items", archive=root)
            else:
                found = await self.find(downloads, name, private=private)
            return await self.save(downloads, name, found, who)

    async def find(self, downloads: Downloads, name: Name, *, private: bool) -> FoundOriginal:
        """Find the original that the resolver leads to. Raises HoldingError, PeerError."""
        if not self.resolver:
            raise HoldingError("this Archive has joined no resolver: say which Archive to copy from")
        # The resolver may be at a private address, since our administrator chose it; the Archive may not.
        async with self.downloads(private=True) as to_resolver:
            location = await find_original(to_resolver, self.resolver, name)
        for root in location.archives:
            # The server at a root may run other software than this. Several roots may belong to the Archive;
            # the first one that describes the item counts.
            with suppress(PeerGarbled):
                found = await self.find_at(downloads, root, name, private=private)
                if found is not None:
                    return found
        return await self.find_file(downloads, location, name, private=private)

    async def find_at(
        self, downloads: Downloads, root: str, name: Name, tag: str = "", *, private: bool = False
    ) -> FoundOriginal | None:
        """Fetch the description of an original from the Archive at a root URL; None if nothing there describes items.

        Raises HoldingError if that Archive holds no original that others may copy, NotModified, PeerError.
        """
        description = await fetch_description(downloads, root, name, tag)
        if description is None:
            return None
        original, tag = description
        check_acceptable(original, self.largest)
        # A copy of a copy could lag behind twice, and its source could vanish without notice (ARC-13: copies follow
        # originals).
        if original.state is not ItemState.ORIGINAL:
            raise HoldingError("{archive} holds only a copy of {name}", archive=root, name=name)
        if original.access_on(self.item_store.moment[:10]) is not Access.OPEN or not (
            original.file_list_public or original.files or original.url
        ):
            raise HoldingError("{archive} does not give {name} to others", archive=root, name=name)
        source = CopySource(
            archive=root,
            service=await _service(downloads, root),
            original=original.timestamp,
            tag=tag,
            checked=self.item_store.moment,
            private=private,
        )
        base = f"{root}/col/{original.forms.main}/doc/"
        return FoundOriginal(
            replace(original, state=ItemState.COPY), source, lambda file: f"{base}{file.name}"
        )

    async def find_file(
        self,
        downloads: Downloads,
        location: OriginalLocation,
        name: Name,
        tag: str = "",
        *,
        private: bool = False,
    ) -> FoundOriginal:
        """Fetch the one file that a persistent URL leads to, where nothing describes the item.

        Its digest is computed here, and cannot be verified. Raises HoldingError, NotModified, PeerError.
        """
        if isinstance(name, LegacyId):
            raise HoldingError("nothing describes {name}, and it is no IBI: it cannot be copied", name=name)
        headers = {"If-None-Match": tag} if tag else {}
        file_store = self.item_store.file_store
        async with downloads.get(
            location.url, most_bytes=self.largest, seconds=SLOWEST_SECONDS, headers=headers, follow=True
        ) as reply:
            if reply.status == NOT_MODIFIED:
                raise NotModified
            if reply.status != _OK:
                problem = "the file {name} was not given: the answer was {status}"
                raise PeerGarbled(problem, name=location.url, status=reply.status)
            file = await stage_file(file_store, _file_name(reply.url), reply.chunks())
            with discard_on_failure(file_store, [file]):
                return self._single_file(location, name, file, reply, private=private)

    def _single_file(
        self, location: OriginalLocation, name: IBI, file: StoredFile, reply: Download, *, private: bool
    ) -> FoundOriginal:
        """Describe an original by what is known of it: one file, and its Archive's answer to the resolver."""
        timestamp = location.timestamp or _last_modified(reply) or self.item_store.moment
        forms = location.answer.forms
        holding = Holding(
            forms=forms if forms and forms.names(name) else IBIForms.of(name),
            state=ItemState.COPY,
            content_type=location.answer.entry().content_type or ContentType.DATA,
            timestamp=timestamp,
            files=(file,),
            target=file.name,
        )
        service = location.answer.archive_service
        source = CopySource(
            archive="",
            service=str(service.main) if service else "",
            url=location.url,
            original=timestamp,
            tag=etag_of(reply.headers),
            compared=False,
            checked=self.item_store.moment,
            private=private,
        )
        return FoundOriginal(holding, source, lambda _: location.url, (file,))

    async def save(self, downloads: Downloads, name: Name, found: FoundOriginal, who: str) -> Holding:
        """Fetch the missing files of an original, store the copy in one transaction. Raises like `copy`."""
        here = await asyncio.to_thread(self.item_store.catalogue.holding, name)
        missing = missing_files(found.holding.files, here.files if here else ())
        staged: Sequence[StoredFile] = found.staged
        if here is not None and staged:
            # Only this file of the original is known: all other facts stay as they were stored.
            if missing:
                at, file = found.holding.timestamp, staged[0]
                found = replace(found, holding=replace(here, timestamp=at, files=(file,), target=file.name))
            else:
                self.item_store.file_store.discard(staged[0])
                staged, found = (), replace(found, holding=here)
        elif not staged:
            files = self.item_store.file_store
            staged = await fetch_files(downloads, files, missing, found.url_of, progress=self.progress)
        return await run_to_completion(self._store, name, found, staged, who)

    def _store(self, name: Name, found: FoundOriginal, staged: Sequence[StoredFile], who: str) -> Holding:
        item_store = self.item_store
        with item_store.unit_of_work(who) as work, discard_on_failure(item_store.file_store, staged):
            held = save_copy(work, name, found.holding, staged, found.source.place)
            copies.save_source(work.writer.run, held.number, found.source)
        discard_unused(item_store.file_store, held, staged)
        return held


def save_copy(
    work: UnitOfWork, name: Name, copy: Holding, staged: Sequence[StoredFile], place: str
) -> Holding:
    """Store a copy whose missing files are staged, or update the copy stored here. Raises HoldingError."""
    here = work.find(name)
    if here is None:
        return work.add(replace(copy, files=()), staged, "copied", source=place)
    check_copy(here)
    new = {file.name: file for file in staged}
    wanted = {file.name: file.sha256 for file in copy.files if file.name not in new}
    kept = tuple(file for file in here.files if wanted.get(file.name) == file.sha256)
    # Another process has replaced a file since `missing_files` was called.
    if len(kept) < len(wanted):
        raise HoldingError("{name} has been changed meanwhile", name=here.forms.main)
    whole = replace(copy, number=here.number, key=here.key, files=(*kept, *staged))
    # Nothing differs. An event is not recorded, because it would be sent to resolvers as a notice of change.
    if fingerprint(whole) == fingerprint(here) and whole.institution == here.institution:
        return here
    return work.change(here, replace(whole, files=kept), staged, "refreshed", source=place)


def discard_unused(file_store: FileStore, held: Holding, staged: Sequence[StoredFile]) -> None:
    """Discard the staged files that a copy does not need, as another process has made it equal meanwhile."""
    for file in staged:
        if file not in held.files:
            file_store.discard(file)


def missing_files(wanted: Sequence[StoredFile], here: Sequence[StoredFile]) -> list[StoredFile]:
    """Return the files of `wanted` that are not among those stored here, or differ from them."""
    held = {(file.name, file.size, file.sha256) for file in here}
    return [file for file in wanted if (file.name, file.size, file.sha256) not in held]


def check_copy(here: Holding | None) -> None:
    """Raise HoldingError for an item that this Archive holds as the Original or has removed."""
    if here is not None and here.state is ItemState.ORIGINAL:
        problem = "{name} is held here as the Original, and no copy can be kept beside it"
        raise AlreadyHeld(problem, name=here.forms.main)
    if here is not None and here.deleted:
        raise HoldingError("{name} was removed on {date}", name=here.forms.main, date=here.timestamp)


async def _service(downloads: Downloads, root: str) -> str:
    """Fetch the service IBI of the Archive at a root URL from its /-/about; "" if it gives none."""
    try:
        async with downloads.get(f"{root}/-/about", most_bytes=_ABOUT_BYTES, seconds=ANSWER_SECONDS) as reply:
            facts = json.loads(await reply.read()) if reply.status == _OK else {}
            return str(parse_ibi(facts["service_ibi"]))
    except (PeerError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return ""


def _file_name(url: str) -> str:
    """Return the last part of the path of a URL, or "index.html" if that cannot be the name of a file."""
    last = urlsplit(url).path.rpartition("/")[2]
    try:
        file_parts(last)
    except BadItem:
        return "index.html"
    return last


def _last_modified(reply: Download) -> str:
    """Return the Last-Modified header of a file as a timestamp; "" if it is missing or malformed."""
    try:
        moment = parsedate_to_datetime(reply.headers.get("last-modified", ""))
        return timestamp_text(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    except (ValueError, OverflowError):
        return ""
