"""Fetch, verify, store and refresh copies of items whose originals other Archives hold (ARC-02, ARC-04).

An Archive that runs this software describes its items under `/-/api/items/`. The copy then gets all facts of
the description, and every file must have the digest that the description gives. Where nothing describes the
item, the copy is the one file that the persistent URL leads to. A refresh makes a copy equal to its original
again. If a refresh fails or takes too long, the moment since which the copy may differ is recorded (ARC-13,
CON-07), and the next copy has its turn.
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
from ibi.errors import (
    AlreadyHeld,
    BadItem,
    HoldingError,
    NotHeld,
    ParseError,
    PeerError,
    PeerGarbled,
    SetupError,
)
from ibi.http.client import AddressPolicy
from ibi.http.client.download import CheckedURL, Downloads
from ibi.identifier.forms import IBIForms, parse_ibi, parse_name
from ibi.identifier.legacy import LegacyId
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.runtime.tasks import LONGEST, PeriodicTask, run_to_completion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.archive.store.files import FileStore
    from ibi.archive.store.item_store import ItemStore, UnitOfWork
    from ibi.errors import IbiError
    from ibi.http.client.address import Names
    from ibi.http.client.download import Download
    from ibi.identifier.forms import IBI, Name

SLOWEST_SECONDS: Final = 24 * 3600.0
"""Seconds that the download of a file of unknown size may take."""

_OK: Final = 200
_ABOUT_BYTES: Final = 1 << 20


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
    """Makes copies for one Archive, and makes them equal to their originals again.

    `resolver`: the root URL of the resolver that is asked for originals, "" for none; `largest`: bytes of the largest
    file that is accepted; `names` replaces this machine's look-up of host names.
    """

    item_store: ItemStore
    resolver: str
    largest: int
    names: Names | None = None

    def downloads(self, *, private: bool, seconds: float = math.inf) -> Downloads:
        """Return a download client; `private` also allows addresses of private networks.

        `seconds`: how long all its downloads together may take.
        """
        return Downloads(AddressPolicy(allow_private=private), self.names, seconds)

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
            place = await find_original(to_resolver, self.resolver, name)
        for root in place.archives:
            # The server at a root may run other software than this. Several roots may belong to the Archive;
            # the first one that describes the item counts.
            with suppress(PeerGarbled):
                found = await self.find_at(downloads, root, name, private=private)
                if found is not None:
                    return found
        return await self.find_file(downloads, place, name, private=private)

    async def find_at(
        self, downloads: Downloads, root: str, name: Name, tag: str = "", *, private: bool = False
    ) -> FoundOriginal | None:
        """Fetch the description of an original from the Archive at a root URL; None if nothing there describes items.

        Raises HoldingError if that Archive holds no original that others may copy, NotModified, PeerError.
        """
        description = await fetch_description(downloads, root, name, tag)
        if description is None:
            return None
        there, tag = description
        check_acceptable(there, self.largest)
        # A copy of a copy could lag behind twice, and its source could vanish without notice (ARC-13).
        if there.state is not ItemState.ORIGINAL:
            raise HoldingError("{archive} holds only a copy of {name}", archive=root, name=name)
        if there.access_on(self.item_store.moment[:10]) is not Access.OPEN or not (
            there.file_list_public or there.files or there.url
        ):
            raise HoldingError("{archive} does not give {name} to others", archive=root, name=name)
        source = CopySource(
            archive=root,
            service=await _service(downloads, root),
            original=there.timestamp,
            tag=tag,
            checked=self.item_store.moment,
            private=private,
        )
        base = f"{root}/col/{there.forms.main}/doc/"
        return FoundOriginal(replace(there, state=ItemState.COPY), source, lambda file: f"{base}{file.name}")

    async def find_file(
        self,
        downloads: Downloads,
        place: OriginalLocation,
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
            place.url, most_bytes=self.largest, seconds=SLOWEST_SECONDS, headers=headers, follow=True
        ) as reply:
            if reply.status == NOT_MODIFIED:
                raise NotModified
            if reply.status != _OK:
                problem = "the file {name} was not given: the answer was {status}"
                raise PeerGarbled(problem, name=place.url, status=reply.status)
            file = await stage_file(file_store, _file_name(reply.url), reply.chunks())
            with discard_on_failure(file_store, [file]):
                return self._single_file(place, name, file, reply, private=private)

    def _single_file(
        self, place: OriginalLocation, name: IBI, file: StoredFile, reply: Download, *, private: bool
    ) -> FoundOriginal:
        """Describe an original by what is known of it: one file, and its Archive's answer to the resolver."""
        timestamp = place.timestamp or _last_modified(reply) or self.item_store.moment
        forms = place.answer.forms
        holding = Holding(
            forms=forms if forms and forms.names(name) else IBIForms.of(name),
            state=ItemState.COPY,
            content_type=place.answer.entry().content_type or ContentType.DATA,
            timestamp=timestamp,
            files=(file,),
            target=file.name,
        )
        service = place.answer.archive_service
        source = CopySource(
            archive="",
            service=str(service.main) if service else "",
            url=place.url,
            original=timestamp,
            tag=etag_of(reply.headers),
            compared=False,
            checked=self.item_store.moment,
            private=private,
        )
        return FoundOriginal(holding, source, lambda _: place.url, (file,))

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
            staged = await fetch_files(downloads, self.item_store.file_store, missing, found.url_of)
        return await run_to_completion(self._hold, name, found, staged, who)

    def _hold(self, name: Name, found: FoundOriginal, staged: Sequence[StoredFile], who: str) -> Holding:
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
    if fingerprint(whole) == fingerprint(here):
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
        problem = "{name} is held here as the Original, beside which there is no copy"
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


LOOK_SECONDS: Final = 60.0
"""Seconds between two searches for copies that are due."""

PORTION: Final = 20
"""Copies that are refreshed after one search."""

TURN_SECONDS: Final = SLOWEST_SECONDS
"""Seconds that one copy may take when an Archive refreshes its copies by itself; then the next has its turn.

In a day, 8 GiB come at 100 kB/s. A copy that needs longer can be refreshed by the command, which has no such limit.
"""


async def refresh(copier: Copier, name: Name, who: str, seconds: float = math.inf) -> CopySource:
    """Make a copy equal to its original, or record why it may lag behind; return its updated source.

    If its Archive does not hold the original any more, the resolver is asked where it is now. All downloads
    together may take `seconds`. Raises NotHeld, HoldingError for an item that is no copy, and SetupError.
    """
    holding, source = await asyncio.to_thread(_held, copier, name)
    now = copier.item_store.moment
    # The limit is one of the downloads, and does not cancel this task: a copy that is complete is stored, and a
    # cancellation always means that the Archive stops, which says nothing about the original.
    downloading = copier.downloads(private=source.private, seconds=seconds)
    try:
        async with staging_session(copier.item_store), downloading as downloads:
            found = await _find_again(copier, downloads, name, holding, source)
            await copier.save(downloads, name, found, who)
            return found.source
    except NotModified:
        source = replace(source, checked=now, since="", problem=None)
    except (PeerError, HoldingError, ParseError) as error:
        source = _lagging(source, now, error)
    except SetupError as error:
        # Recorded, too: else a file that does not fit on the disk would be fetched again and again, and no other
        # copy would have its turn.
        with suppress(SetupError):
            await asyncio.to_thread(_save, copier, holding, _lagging(source, now, error))
        raise
    await asyncio.to_thread(_save, copier, holding, source)
    return source


async def refresh_due(copier: Copier, before: str, who: str) -> None:
    """Refresh up to `PORTION` copies that were last compared before this moment, the oldest first.

    After `LONGEST` seconds no further refresh starts, so that changed settings are soon followed.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + LONGEST
    names = await asyncio.to_thread(_due, copier, before)
    for name in names:
        if clock() > end:
            return
        try:
            await refresh(copier, parse_name(name), who, TURN_SECONDS)
        except HoldingError:
            # The copy has become an Original or was removed since the list was read.
            continue


def refresh_task(copier: Copier, hours: int, now: Callable[[], float]) -> PeriodicTask:
    """Return the task of a running Archive that refreshes each copy every so many hours."""

    async def refresh_old_copies() -> None:
        await refresh_due(copier, timestamp_text(now() - hours * 3600), "refresh")

    # Each copy has its own limit, after which its problem is recorded; the task is never cancelled before that.
    return PeriodicTask("refresh", LOOK_SECONDS, refresh_old_copies, longest=2 * TURN_SECONDS)


def _lagging(source: CopySource, now: str, problem: IbiError) -> CopySource:
    return replace(source, checked=now, since=source.since or now, problem=problem)


def _held(copier: Copier, name: Name) -> tuple[Holding, CopySource]:
    catalogue = copier.item_store.catalogue
    holding = catalogue.holding(name)
    if holding is None:
        raise NotHeld("{name} is not held here", name=name)
    with catalogue.reading() as run:
        source = copies.source_of(run, holding.number)
    if holding.state is not ItemState.COPY or source is None:
        raise HoldingError("{name} is no copy that came from another Archive", name=holding.forms.main)
    return holding, source


async def _find_again(
    copier: Copier, downloads: Downloads, name: Name, holding: Holding, source: CopySource
) -> FoundOriginal:
    """Find the original where it was, else where the resolver leads now. Raises the error of the first."""
    if holding.url.startswith(f"{source.place}/"):
        # This copy only points at the Archive of the original since a hand-over: it has no files to refresh.
        raise NotModified
    try:
        return await _find_there(copier, downloads, name, source)
    except (PeerError, HoldingError):
        if not copier.resolver:
            raise
        with suppress(PeerError, HoldingError):
            return await copier.find(downloads, name, private=source.private)
        raise


async def _find_there(copier: Copier, downloads: Downloads, name: Name, source: CopySource) -> FoundOriginal:
    if not source.archive:
        place = OriginalLocation(source.url, ())
        return await copier.find_file(downloads, place, name, source.tag, private=source.private)
    found = await copier.find_at(downloads, source.archive, name, source.tag, private=source.private)
    if found is None:
        raise HoldingError("{archive} no longer has {name}", archive=source.archive, name=name)
    return found


def _save(copier: Copier, holding: Holding, source: CopySource) -> None:
    with copier.item_store.catalogue.writing() as writer:
        copies.save_source(writer.run, holding.number, source)


def _due(copier: Copier, before: str) -> list[str]:
    with copier.item_store.catalogue.reading() as run:
        return copies.due_copies(run, before, PORTION)
