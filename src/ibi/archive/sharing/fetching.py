"""What another Archive says of an item, and its files on their way here (threats T08, T10, T23 and T35)."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.file_names import file_parts, media_type
from ibi.archive.holding import StoredFile
from ibi.archive.item_lines import read_item
from ibi.errors import HoldingError, ParseError, PeerGarbled, SetupError
from ibi.interface.threads import to_its_end
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from ibi.archive.holding import Holding
    from ibi.archive.keeper import Keeper
    from ibi.archive.storage import Staging, Storage
    from ibi.identifier.forms import Name
    from ibi.transport.download import Downloads

LONGEST_DESCRIPTION: Final = 16 << 20
"""Bytes of the description of an item that are read."""

ANSWER_SECONDS: Final = 30.0
"""How long a description may take."""

_MOST_FILES: Final = 100_000
_LONGEST_TAG: Final = 200
_BYTES_A_SECOND: Final = 1 << 16
"""As slow as a file may come, after its first minute."""

_FIRST_SECONDS: Final = 60.0
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_OK: Final = 200
_TAKEN: Final = (
    "rep", "ibip", "aliases", "state", "contenttype", "timestamp", "language", "transferable", "url", "target",
    "file_list_public", "next_edition", "translations", "metadata_item", "metadata", "formats", "access", "embargo",
    "rights", "licence",
)  # fmt: skip
"""What of a description is taken over; its key is its depositor's business there."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer about an item: the status, the item as it is there (None unless the status is 200), and its ETag."""

    status: int
    holding: Holding | None = None
    tag: str = ""


async def ask(door: Downloads, url: str, name: Name, headers: Mapping[str, str] | None = None) -> Told:
    """Ask an Archive for the description of an item. Raises PeerError; other statuses than 200 are told."""
    async with door.get(
        url, most_bytes=LONGEST_DESCRIPTION, seconds=ANSWER_SECONDS, headers=headers, follow=True
    ) as reply:
        if reply.status != _OK:
            return Told(reply.status)
        body = await reply.read()
        return Told(_OK, read_description(_parsed(body), name), tag_of(reply.headers))


def tag_of(headers: Mapping[str, str]) -> str:
    """The ETag of an answer; "" where there is none that can be kept, and sent back some day."""
    tag = headers.get("etag", "")
    return tag if tag.isascii() and tag.isprintable() and len(tag) <= _LONGEST_TAG else ""


def read_description(value: Any, name: Name) -> Holding:
    """The item that a description means: `name`, whatever else is said. Raises PeerGarbled."""
    try:
        holding = _described(value if isinstance(value, dict) else {})
    except (HoldingError, ParseError) as error:
        raise PeerGarbled("this is no description of {name}: {reason}", name=name, reason=error) from None
    if name not in holding.names:
        raise PeerGarbled("this is no description of {name}: {reason}", name=name, reason=holding.forms.main)
    return replace(holding, key="")


async def fetch(
    door: Downloads,
    storage: Storage,
    files: Sequence[StoredFile],
    url_of: Callable[[StoredFile], str],
    headers: Mapping[str, str] | None = None,
) -> list[StoredFile]:
    """Bring files into staging, each compared with the size and digest that were told.

    Raises PeerError, and SetupError where they cannot be kept; then none of them stays.
    """
    staged: list[StoredFile] = []
    with discarding(storage, staged):
        for file in files:
            most = _FIRST_SECONDS + file.size / _BYTES_A_SECOND
            async with door.get(url_of(file), most_bytes=file.size, seconds=most, headers=headers) as reply:
                if reply.status != _OK:
                    problem = "the file {name} was not given: the answer was {status}"
                    raise PeerGarbled(problem, name=file.name, status=reply.status)
                staged.append(await stage(storage, file.name, reply.chunks()))
            if (staged[-1].size, staged[-1].sha256) != (file.size, file.sha256):
                raise PeerGarbled("the file {name} did not come as it was described", name=file.name)
    return staged


async def stage(storage: Storage, name: str, chunks: AsyncIterator[bytes]) -> StoredFile:
    """Bring one file into staging, as its pieces come. Raises PeerError, SetupError, BadItem for its name."""
    staging: Staging = storage.stage_stream(name)
    try:
        async for chunk in chunks:
            staging.write(chunk)
        return await to_its_end(staging.finish)
    except OSError as error:
        staging.discard()
        raise SetupError("no file can be kept: {reason}", reason=error.strerror or error) from None
    except BaseException:
        staging.discard()
        raise


@asynccontextmanager
async def working(keeper: Keeper) -> AsyncIterator[None]:
    """Have the right to stage files, without holding up the loop. Raises SetupError."""
    stack = ExitStack()
    try:
        await to_its_end(stack.enter_context, keeper.working())
        yield
    finally:
        await to_its_end(stack.close)


@contextmanager
def discarding(storage: Storage, staged: Sequence[StoredFile]) -> Iterator[None]:
    """Forget staged files if what is done within comes to nothing."""
    try:
        yield
    except BaseException:
        for file in staged:
            storage.discard(file)
        raise


def check_takable(holding: Holding, largest: int) -> None:
    """Refuse an item that is more than this Archive takes. Raises HoldingError."""
    for file in holding.files:
        if file.size > largest:
            problem = "the file {name} has {size} bytes; this Archive takes at most {limit}"
            raise HoldingError(problem, name=file.name, size=file.size, limit=largest)
    if holding.state is State.DELETED:
        raise HoldingError("{name} was removed on {date}", name=holding.forms.main, date=holding.timestamp)


def _described(value: Mapping[str, Any]) -> Holding:
    files = _manifest(value.get("files", {}))
    facts = {field: value[field] for field in _TAKEN if field in value}
    draft = read_item({**facts, "files": {file.name: file.sha256 for file in files}})
    if draft.forms is None or draft.timestamp is None:
        raise HoldingError("it lacks a name or a timestamp")
    return draft.holding(draft.forms, draft.timestamp, files)


def _manifest(value: Any) -> tuple[StoredFile, ...]:
    if not isinstance(value, dict) or len(value) > _MOST_FILES:
        raise HoldingError("its files are no list of files")
    return tuple(_file(name, value[name]) for name in sorted(value))


def _file(name: str, told: Any) -> StoredFile:
    file_parts(name)
    size, digest = (told.get("size"), told.get("sha256")) if isinstance(told, dict) else (None, None)
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise HoldingError("the file {name} has no size and SHA-256", name=name)
    return StoredFile(name, size, digest, media_type(name))


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise PeerGarbled("the answer is not JSON") from None
