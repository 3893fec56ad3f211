"""Fetch the description of an item, and its files, from another Archive.

`find_original` asks a resolver for the Archive of an original: it requests the persistent URL and reads where the
redirect leads. See T08: false answers; T10: huge answers; T23: hostile uploads; T35: faults of disks.
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.file_names import file_parts, media_type
from ibi.archive.model.item import StoredFile
from ibi.archive.model.item_json import FACTS, read_item
from ibi.errors import BadItem, HoldingError, ParseError, PeerError, PeerGarbled, PeerSilent
from ibi.http.client.download import CheckedURL
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import REQUIRED_STATE, ItemState
from ibi.runtime.durable_files import setup_errors
from ibi.runtime.strict_json import read_strict_json
from ibi.runtime.tasks import run_to_completion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.store.file_store import FileStore, StagingFile
    from ibi.archive.store.item_store import ItemStore
    from ibi.http.client.download import Downloads
    from ibi.identifier.forms import Name


LONGEST_DESCRIPTION: Final = 16 << 20
"""Bytes of the longest description of an item that is read."""

ANSWER_SECONDS: Final = 30.0
"""Seconds that the download of a description may take."""

_MOST_FILES: Final = 100_000  # files of an item that is copied
_LONGEST_TAG: Final = 200  # characters of an ETag
_BYTES_A_SECOND: Final = 1 << 16
"""The slowest rate at which a file may come, after its first minute."""

_FIRST_SECONDS: Final = 60.0  # for a file, besides those that its size adds
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
API: Final = "/-/api"
NOT_MODIFIED: Final = 304
_OK, _GONE = 200, 410
_PASSING: Final = frozenset({408, 425, 429})
_ITS_FAULT: Final = 500
TAKEN: Final = (FACTS - {"reason", "replacement"}) | {"rep", "ibip", "timestamp"}
"""The fields of a description that the copy gets. The key is left out: it is the original depositor's."""


class NotModified(Exception):
    """The original has not changed since it was last compared."""


async def fetch_description(
    downloads: Downloads, root: str, name: Name, tag: str = ""
) -> tuple[Holding, str] | None:
    """Fetch the description of an item, and its ETag, from the Archive at a root URL; None if it has none.

    Raises HoldingError for an item that was removed, NotModified if its ETag is still `tag`, and PeerError.
    """
    url, headers = f"{root}{API}/items/{name}", {"If-None-Match": tag} if tag else {}
    async with downloads.get(
        url, most_bytes=LONGEST_DESCRIPTION, seconds=ANSWER_SECONDS, headers=headers, follow=True
    ) as reply:
        if reply.status == NOT_MODIFIED:
            raise NotModified
        if reply.status == _GONE:
            raise HoldingError("{archive} has removed {name}", archive=root, name=name)
        if reply.status in _PASSING or reply.status >= _ITS_FAULT:
            raise PeerSilent("{archive} cannot answer now: {status}", archive=root, status=reply.status)
        if reply.status != _OK:
            return None
        try:
            value = read_strict_json(await reply.read())
        except (ValueError, RecursionError):
            raise PeerGarbled("the answer is not JSON") from None
        return read_description(value, name), etag_of(reply.headers)


def etag_of(headers: Mapping[str, str]) -> str:
    """Return the ETag of an answer; "" if it has none, or one that cannot be stored and sent back."""
    tag = headers.get("etag", "")
    return tag if tag.isascii() and tag.isprintable() and len(tag) <= _LONGEST_TAG else ""


def read_description(value: Any, name: Name) -> Holding:
    """Read a description. Raises PeerGarbled if it is malformed, or describes another item than `name`."""
    try:
        holding = _described(value if isinstance(value, dict) else {})
    except (HoldingError, ParseError) as error:
        raise PeerGarbled("this is no description of {name}: {reason}", name=name, reason=error) from None
    if name not in holding.names:
        raise PeerGarbled("this is no description of {name}: {reason}", name=name, reason=holding.forms.main)
    # The key of a depositor at the other Archive could be equal to a key of our depositors.
    return replace(holding, key="")


async def fetch_files(
    downloads: Downloads,
    file_store: FileStore,
    files: Sequence[StoredFile],
    url_of: Callable[[StoredFile], str],
    headers: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[StoredFile]:
    """Download files into staging, and compare each with the size and digest of its description (T35: faults of disks).

    Redirects are followed, because files may have an address of their own (note 32: pages of depositors). Raises
    PeerError, and SetupError if files cannot be stored; then no file stays in staging. `progress` is called with the
    number of bytes that have come, and that of all.
    """
    staged: list[StoredFile] = []
    total = sum(file.size for file in files)
    with discard_on_failure(file_store, staged):
        for file in files:
            # The deadline grows with the size: a peer that drips bytes must not hold a fetch for days (T10: huge
            # answers).
            most = _FIRST_SECONDS + file.size / _BYTES_A_SECOND
            async with downloads.get(
                url_of(file), most_bytes=file.size, seconds=most, headers=headers, follow=True
            ) as reply:
                if reply.status != _OK:
                    problem = "the file {name} was not given: the answer was {status}"
                    raise PeerGarbled(problem, name=file.name, status=reply.status)
                come = sum(each.size for each in staged)
                chunks = _counted(reply.chunks(), come, total, progress)
                staged.append(await stage_file(file_store, file.name, chunks))
            # A file that differs from its description was damaged, replaced or forged (T35: faults of disks).
            if (staged[-1].size, staged[-1].sha256) != (file.size, file.sha256):
                raise PeerGarbled("the file {name} did not come as it was described", name=file.name)
    return staged


async def _counted(
    chunks: AsyncIterator[bytes], come: int, total: int, progress: Callable[[int, int], None]
) -> AsyncIterator[bytes]:
    """Yield the chunks, and call `progress` with how many bytes have come, with these `come` before, and the total."""
    async for chunk in chunks:
        come += len(chunk)
        progress(come, total)
        yield chunk


async def stage_file(file_store: FileStore, name: str, chunks: AsyncIterator[bytes]) -> StoredFile:
    """Write one file into staging, chunk by chunk. Raises PeerError, SetupError, BadItem for a bad name."""
    staging: StagingFile = file_store.stage_stream(name)
    with setup_errors("no file can be kept: {reason}"):
        try:
            async for chunk in chunks:
                staging.write(chunk)
            return await run_to_completion(staging.finish)
        except BaseException:
            staging.discard()
            raise


@asynccontextmanager
async def staging_session(item_store: ItemStore) -> AsyncIterator[None]:
    """Open a staging session of the item store, without blocking the event loop. Raises SetupError."""
    stack = ExitStack()
    try:
        await run_to_completion(stack.enter_context, item_store.staging_session())
        yield
    finally:
        await run_to_completion(stack.close)


@contextmanager
def discard_on_failure(file_store: FileStore, staged: Sequence[StoredFile]) -> Iterator[None]:
    """Discard staged files if the block raises."""
    try:
        yield
    except BaseException:
        for file in staged:
            file_store.discard(file)
        raise


def check_acceptable(holding: Holding, largest: int) -> None:
    """Raise HoldingError for an item that was removed, or has a file of more than `largest` bytes."""
    for file in holding.files:
        if file.size > largest:
            problem = "the file {name} has {size} bytes; this Archive takes at most {limit}"
            raise HoldingError(problem, name=file.name, size=file.size, limit=largest)
    if holding.state is ItemState.DELETED:
        raise HoldingError("{name} was removed on {date}", name=holding.forms.main, date=holding.timestamp)


def _described(value: Mapping[str, Any]) -> Holding:
    manifest = value.get("files", {})
    if not isinstance(manifest, dict) or len(manifest) > _MOST_FILES:
        raise HoldingError("its files are no list of files")
    files = tuple(_file(name, manifest[name]) for name in sorted(manifest))
    facts = {field: value[field] for field in TAKEN if field in value}
    draft = read_item({**facts, "files": {file.name: file.sha256 for file in files}})
    if draft.forms is None or draft.timestamp is None:
        raise HoldingError("it lacks a name or a timestamp")
    return draft.holding(draft.forms, draft.timestamp, files)


def _file(name: str, facts: Any) -> StoredFile:
    file_parts(name)
    size, digest = (facts.get("size"), facts.get("sha256")) if isinstance(facts, dict) else (None, None)
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise HoldingError("the file {name} has no size and SHA-256", name=name)
    return StoredFile(name, size, digest, media_type(name))


_SECONDS: Final = 20.0  # for an answer or a description of an item
_MOST_BYTES: Final = 1 << 20  # bytes of an item's description
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class OriginalLocation:
    """The location of an original. `url`: where a reader is redirected to.

    `archives`: root URLs that its Archive may have, likeliest first; `answer`: of its Archive, or empty.
    """

    url: str
    archives: tuple[str, ...]
    answer: UrlList = field(default_factory=lambda: UrlList({}))

    @property
    def timestamp(self) -> str:
        """The timestamp of the item in the answer, "" if it has no valid one."""
        try:
            return read_item({"timestamp": self.answer.timestamp}).timestamp or ""
        except BadItem:
            return ""


async def find_original(downloads: Downloads, resolver: str, name: Name) -> OriginalLocation:
    """Ask the resolver at this root URL for the original. Raises HoldingError if there is none, PeerError."""
    root = resolver.rstrip("/")
    target = f"/{name}?{REQUIRED_STATE}={ItemState.ORIGINAL.value}"
    async with downloads.get(f"{root}{target}", most_bytes=_MOST_BYTES, seconds=_SECONDS) as reply:
        url = reply.headers.get("location", "")
        if reply.status not in _REDIRECTS or not url:
            problem = "the resolver does not lead to the original of {name}; it answered {status}"
            raise HoldingError(problem, name=name, status=reply.status)
    place = CheckedURL.parse(url)
    answer = await _url_list(downloads, f"{root}/-/explain{target}")
    address = answer.archive_address
    # The address in the answer is the likelier root, because files may be on another host.
    roots = ((f"http://{address}",) if address else ()) + (place.root,)
    return OriginalLocation(url, tuple(dict.fromkeys(roots)), answer)


async def _url_list(downloads: Downloads, url: str) -> UrlList:
    """Read the answer of the original's Archive from the resolver's explanation; empty if it has none."""
    accept = {"Accept": "application/json"}
    try:
        async with downloads.get(url, most_bytes=_MOST_BYTES, seconds=_SECONDS, headers=accept) as reply:
            return _chosen(json.loads(await reply.read())) if reply.status == _OK else UrlList({})
    except (PeerError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        # Without the answer, the copy still gets its file, but fewer facts.
        return UrlList({})


def _chosen(explanation: Any) -> UrlList:
    """Return the URL list of the chosen Archive. Raises LookupError or TypeError if malformed."""
    archive = explanation["outcome"]["archive"]
    for statement in explanation["rounds"][-1]["statements"]:
        if statement["archive"] == archive:
            pairs = {
                str(name): value if isinstance(value, str) else tuple(map(str, value))
                for name, value in statement["pairs"].items()
            }
            return UrlList(pairs)
    return UrlList({})
