"""Stored files over HTTP: only what the catalogue lists, with its digest as its tag, whole or in part."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ibi.archive.website.conditions import Unsatisfiable, http_date, part, unchanged
from ibi.archive.website.media import SAMPLE, served_as
from ibi.errors import NotHeld, SetupError
from ibi.exchange import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from ibi.archive.holding import Holding, StoredFile
    from ibi.archive.storage import Storage
    from ibi.exchange import Asked, Headers
    from ibi.identifier.forms import Name

_ACTIVE_TYPES: Final = frozenset(
    {"text/html", "application/xhtml+xml", "image/svg+xml", "application/xml", "text/javascript"}
)
"""Types that can run scripts: served in a sandbox, so that they cannot act for the Archive (note 32)."""

_SANDBOX: Final = (
    "sandbox allow-downloads allow-popups; object-src 'none'; base-uri 'none'; form-action 'none'"
)
FOR_ALL: Final = "public, no-cache"
"""Proxies may keep it, but ask us each time: it may change, or be closed."""
FOR_ONE: Final = "private, no-store"
"""What not everybody may have."""

_MOST_KNOWN: Final = 10_000
_UNSAFE_IN_QUOTES = re.compile(r"[^ !#-\[\]-~]|%")


class Replaced(Exception):
    """What was to be opened is no longer what is listed. `now`: the item as it is listed by now."""

    def __init__(self, now: Holding) -> None:
        super().__init__()
        self.now = now


class Opener:
    """Opens files of items, and only those that are listed. `listed` looks an item up.

    A name leads to other bytes once its file is replaced, and whoever looks an item up and then opens a file may come
    between the two. So we look the item up once more when the file is open. This is enough, because a new version is
    listed before it is moved to its place, and listed as placed after that (`Storage.settle`):

    - Listed as lying in staging under the same name as before: such names are random and never used again, so nothing
      else was listed in between, and nothing else can have come to the place if ours had already left staging.
    - Listed as placed: at the moment of this look our bytes are in their place. What we opened has a name still, so it
      was not replaced since we opened it, neither before this look nor after: it is what was in the place then. This
      also shows a version that was replaced, and came back, all between our two looks.
    """

    def __init__(self, storage: Storage, listed: Callable[[Name], Holding | None]) -> None:
        self._storage = storage
        self._listed = listed

    def open(self, holding: Holding, files: Sequence[StoredFile]) -> list[BinaryIO]:
        """Open files of an item; the caller closes them.

        Raises Replaced, NotHeld, and SetupError for a file that is not there as it is listed.
        """
        opened: list[BinaryIO] = []
        try:
            why = self._open_all(holding, files, opened)
            self._check(holding, files, opened, why)
        except BaseException:
            for each in opened:
                each.close()
            raise
        return opened

    def _open_all(
        self, holding: Holding, files: Sequence[StoredFile], opened: list[BinaryIO]
    ) -> SetupError | None:
        """Open them up to the first that cannot be opened; returns why not."""
        for file in files:
            try:
                opened.append(self._storage.open(holding.forms, file))
            except OSError as error:
                reason = error.strerror or error
                return SetupError("the file {name} cannot be read: {reason}", name=file.name, reason=reason)
        return None

    def _check(
        self,
        holding: Holding,
        files: Sequence[StoredFile],
        opened: Sequence[BinaryIO],
        why: SetupError | None,
    ) -> None:
        """Raise Replaced unless what was opened, or could not be, is what is listed; then what went wrong with it."""
        self._look_again(self._listed, holding, files, opened)
        if why is not None:
            raise why

    @staticmethod
    def _look_again(
        listed_now: Callable[[Name], Holding | None],
        holding: Holding,
        files: Sequence[StoredFile],
        opened: Sequence[BinaryIO],
    ) -> None:
        now = listed_now(holding.forms.main)
        if now is None:
            raise NotHeld("this Archive does not hold {name}", name=holding.forms.main)
        listed = {file.name: file for file in now.files}
        for file, handle in zip(files, opened, strict=False):
            named = os.fstat(handle.fileno()).st_nlink > 0
            if not named or listed.get(file.name) not in {file, replace(file, staged="")}:
                raise Replaced(now)
        if len(opened) < len(files):
            failed = files[len(opened)]
            if listed.get(failed.name) != failed:
                raise Replaced(now)


class Files:
    """The files of one Archive, as they go out.

    `accel`: the internal location under which nginx serves DIR/col, "" where we send files ourselves.
    """

    def __init__(self, storage: Storage, opener: Opener, accel: str = "") -> None:
        self._storage = storage
        self._opener = opener
        self._accel = accel.rstrip("/")
        self._types: dict[tuple[str, str], str] = {}

    def serve(self, asked: Asked, holding: Holding, file: StoredFile, kept: str = FOR_ALL) -> Response:
        """A file of an item, a part of it, or that the reader has it already.

        `kept`: what caches may do with it. Raises as `Opener.open` does.
        """
        tag = f'"{file.sha256}"'
        validators: Headers = (
            ("etag", tag),
            ("cache-control", kept),
            ("last-modified", http_date(holding.timestamp)),
        )
        if unchanged(asked, tag, holding.timestamp):
            return Response(304, headers=validators)
        (opened,) = self._opener.open(holding, (file,))
        try:
            kind = self._type(file, opened)
            headers = (*validators, *_described(holding, file, kind))
            if self._accel and not file.staged:
                response = self._handed_over(holding, file, kind, headers)
            else:
                response = _whole_or_part(asked, file, opened, kind, headers)
        except BaseException:
            opened.close()
            raise
        if response.file is None:
            opened.close()
        return response

    def _type(self, file: StoredFile, opened: BinaryIO) -> str:
        """Its Content-Type; the bytes of a file are looked at once, for they never change under their digest."""
        known = self._types.get((file.sha256, file.media_type))
        if known is not None:
            return known
        kind = served_as(file.media_type, os.pread(opened.fileno(), SAMPLE, 0), file.size)
        if len(self._types) >= _MOST_KNOWN:
            self._types.clear()
        self._types[file.sha256, file.media_type] = kind
        return kind

    def _handed_over(self, holding: Holding, file: StoredFile, kind: str, headers: Headers) -> Response:
        """The file by way of nginx, which sees to parts of it; all other headers are ours."""
        path = quote(self._storage.relative(holding.forms, file.name))
        return Response(
            200, content_type=kind, headers=(*headers, ("x-accel-redirect", f"{self._accel}/{path}"))
        )


def _whole_or_part(asked: Asked, file: StoredFile, opened: BinaryIO, kind: str, headers: Headers) -> Response:
    try:
        wanted = part(asked, f'"{file.sha256}"', file.size)
    except Unsatisfiable:
        headers = (*headers, ("content-range", f"bytes */{file.size}"))
        return Response(416, headers=headers)
    if wanted is None:
        headers = (*headers, ("content-digest", _digest(file)))
        return Response(200, content_type=kind, headers=headers, file=opened, size=file.size)
    start, length = wanted
    headers = (*headers, ("content-range", f"bytes {start}-{start + length - 1}/{file.size}"))
    return Response(206, content_type=kind, headers=headers, file=opened, size=length, start=start)


def _described(holding: Holding, file: StoredFile, kind: str) -> Headers:
    """What is said of a file besides what tells its versions apart."""
    headers: Headers = (("accept-ranges", "bytes"), ("repr-digest", _digest(file)))
    if holding.language:
        headers = (*headers, ("content-language", holding.language))
    if kind.partition(";")[0] in _ACTIVE_TYPES:
        headers = (*headers, ("content-security-policy", _SANDBOX))
    disposition = _disposition(file)
    return (*headers, ("content-disposition", disposition)) if disposition else headers


def _digest(file: StoredFile) -> str:
    """The digest of the whole file (RFC 9530)."""
    return f"sha-256=:{b64encode(bytes.fromhex(file.sha256)).decode()}:"


def _disposition(file: StoredFile) -> str:
    """How to call a file whose name programs would misread: they take what stands in a URL for UTF-8."""
    last = file.raw.rpartition(b"/")[2]
    try:
        last.decode("utf-8")
    except UnicodeDecodeError:
        return named("inline", last.decode("latin-1"))
    return ""


def named(how: str, name: str) -> str:
    """A Content-Disposition that gives a file its name (RFC 6266), in plain letters for those who know no better."""
    plain = _UNSAFE_IN_QUOTES.sub("_", name)
    better = f"; filename*=UTF-8''{quote(name, safe='')}" if plain != name else ""
    return f'{how}; filename="{plain}"{better}'
