"""Serve stored files over HTTP: only listed files, whole or in part, with their digest as ETag.

`served_as` determines the media type and charset of a file from its first bytes if its name does not show
them. Text counts as UTF-8 if its bytes are valid UTF-8, else as ISO-8859-1. If the text itself declares
another charset, or the charset is not certain, no charset is sent, so that a wrong one is never sent.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ibi.archive.model.item import readable
from ibi.archive.store.file_store import relative_path
from ibi.http.conditional import Unsatisfiable, http_date, part, unchanged
from ibi.http.response import RemoteFile, Response, redirect
from ibi.runtime.durable_files import setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.store.file_store import FileStore
    from ibi.http.files_origin import FilesOrigin
    from ibi.http.request import Request
    from ibi.http.response import Headers
    from ibi.identifier.forms import Name


SAMPLE: Final = 1 << 20
"""Bytes from the beginning of a file that are examined."""

UNKNOWN: Final = "application/octet-stream"

_SIGNATURES: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"%!PS-Adobe", "application/postscript"),
    (b"\x89HDF\r\n\x1a\n", "application/x-hdf5"),
    (b"CDF\x01", "application/x-netcdf"),
    (b"CDF\x02", "application/x-netcdf"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
)
_PAGE = re.compile(rb"\s*(?:<!--.{0,1000}?-->\s*)*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE | re.DOTALL)
_XML = re.compile(rb"\s*<\?xml\s")
_DECLARED = re.compile(
    rb"<meta[^>]{0,200}\bcharset\s*=\s*[\"']?\s*([\w-]+)|^\s*@charset\s+\"([\w-]+)\"|encoding\s*=\s*[\"']([\w-]+)",
    re.IGNORECASE,
)
_WHERE_DECLARED: Final = 1024
_BYTE_ORDER: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UNICODE: Final = frozenset({"", "utf-8", "utf8"})  # declared charsets that allow UTF-8; "": none is declared
_WESTERN: Final = frozenset({"iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"})
# The escape character: seven-bit encodings of East Asian scripts use it, and otherwise look like ASCII.
_OTHER_SETS = b"\x1b"

_MOST_LOGGED: Final = 1_000  # files; then each may be logged once more
_log = logging.getLogger(__name__)


def served_as(listed: str, sample: bytes, size: int) -> str:
    """Return the Content-Type of a file: `listed`, which its name shows, completed from its first bytes.

    `sample`: at most its first SAMPLE bytes; `size`: bytes of the whole file.
    """
    kind = listed if listed != UNKNOWN else _kind(sample)
    if not kind.startswith("text/") or "charset" in kind:
        return kind
    charset = _charset(sample, whole=len(sample) >= size)
    return f"{kind}; charset={charset}" if charset else kind


def _kind(sample: bytes) -> str:
    """Return the media type of a file whose name does not show it."""
    for signature, kind in _SIGNATURES:
        if sample.startswith(signature):
            return kind
    if _PAGE.match(sample):
        return "text/html"
    if _XML.match(sample):
        return "application/xml"
    if not sample or _NO_TEXT.search(sample):
        return UNKNOWN
    return "text/plain"


def _charset(sample: bytes, *, whole: bool) -> str | None:
    """Return the charset of a text; None if it is not certain, or if the text declares another one."""
    for prefix, charset in _BYTE_ORDER:
        if sample.startswith(prefix):
            return charset
    if _NO_TEXT.search(sample) or _OTHER_SETS in sample:
        return None
    declared = _DECLARED.search(sample, 0, _WHERE_DECLARED)
    charset_declared = (
        next((word for word in declared.groups() if word), b"").decode().lower() if declared else ""
    )
    if sample.isascii():
        # Bytes after the sample may be in any charset.
        return "utf-8" if whole and not charset_declared else None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=whole)
    except UnicodeDecodeError:
        return "iso-8859-1" if charset_declared in _WESTERN or charset_declared in _UNICODE else None
    return "utf-8" if charset_declared in _UNICODE else None


# Without a sandbox, scripts in deposited pages would run with the rights of the Archive's address.
_ACTIVE_TYPES: Final = frozenset(
    {
        "text/html",
        "application/xml",
        "text/xml",
        "text/xsl",
        "text/javascript",
        "application/javascript",
        "multipart/related",
        "message/rfc822",
    }
)
"""Types that can run scripts, and all that end in "+xml" (XHTML, SVG …): served in a sandbox (note 32: pages of
depositors)."""
_PDF: Final = "application/pdf"  # the viewers of browsers do not work in a sandbox

_SANDBOX: Final = (
    "sandbox allow-downloads allow-popups; object-src 'none'; base-uri 'none'; form-action 'none'"
)
# No `allow-same-origin`: the files of all items share this address, and some of them are restricted.
_SANDBOX_APART: Final = _SANDBOX.replace("sandbox", "sandbox allow-scripts", 1)
"""The policy at the address that serves only files: scripts may run there, but can read nothing."""
PUBLIC: Final = "public, no-cache"
"""Caches must revalidate each time, because the file may change or become restricted."""
PRIVATE: Final = "private, no-store"
"""For data that are not open to all readers."""

_MOST_KNOWN: Final = 10_000  # files whose media type is cached
_UNSAFE_IN_QUOTES = re.compile(r"[^ !#-\[\]-~]|%")


class FileReplaced(Exception):
    """The opened file is no longer the listed one. `now`: the item as it is listed now."""

    def __init__(self, now: Holding) -> None:
        super().__init__()
        self.now = now


class FileOpener:
    """Opens files of items, and only listed files. `listed` looks an item up, or raises NotHeld.

    A file may be replaced between the look-up of its item and the opening of the file: then its name leads to
    other bytes. Therefore the item is looked up again when the file is open. This is enough, because a new
    version is listed in staging, then moved to its place, then listed as placed (`FileStore.place_files`). The
    second look-up finds one of these:

    - The version is in staging, under the same name as before. Names in staging are random and never used again,
      so no other version was listed in between. Whether the file was opened in staging or already in its place,
      it is this version: nothing else can have been put there.
    - The version is placed, so its bytes are in their place now. A file that is replaced loses its name; the opened
      one still has a name, so it is the one in that place. If the version was replaced in between and put back, that
      made a new file, and the opened one has no name.
    """

    def __init__(self, file_store: FileStore, listed: Callable[[Name], Holding]) -> None:
        self._file_store = file_store
        self._listed = listed
        self._logged: set[tuple[str, str]] = set()

    def open(self, holding: Holding, files: Sequence[StoredFile]) -> list[BinaryIO]:
        """Open files of an item; the caller closes them.

        Raises FileReplaced, NotHeld, and SetupError for a listed file that cannot be opened.
        """
        opened: list[BinaryIO] = []
        with ExitStack() as closing:
            for file in files:
                with setup_errors("the file {name} cannot be read: {reason}", name=file.name):
                    try:
                        opened.append(closing.enter_context(self._file_store.open(holding.forms, file)))
                    except OSError as error:
                        # The file may be missing because it was replaced meanwhile.
                        self._check_listed(holding, files, opened)
                        self._log_once(holding, file, error)
                        raise
            self._check_listed(holding, files, opened)
            closing.pop_all()
        return opened

    def _log_once(self, holding: Holding, file: StoredFile, error: OSError) -> None:
        """Log that a listed file cannot be opened; not again for each reader who wants it."""
        if len(self._logged) >= _MOST_LOGGED:
            self._logged.clear()
        which = holding.forms.main.canonical, file.name
        if which not in self._logged:
            self._logged.add(which)
            _log.warning("%s of %s cannot be opened: %s", file.name, holding.forms.main, error)

    def _check_listed(
        self, holding: Holding, files: Sequence[StoredFile], opened: Sequence[BinaryIO]
    ) -> None:
        """Raise FileReplaced unless the opened files, and the one that failed to open, are still listed."""
        now = self._listed(holding.forms.main)
        listed = {file.name: file for file in now.files}
        for file, handle in zip(files, opened, strict=False):
            # What was opened on another machine never changes.
            is_named = isinstance(handle, RemoteFile) or os.fstat(handle.fileno()).st_nlink > 0
            if not is_named or listed.get(file.name) not in {file, replace(file, staged="")}:
                raise FileReplaced(now)
        if len(opened) < len(files):
            failed = files[len(opened)]
            if listed.get(failed.name) != failed:
                raise FileReplaced(now)


class FileResponses:
    """Responses with the files of one Archive.

    `accel`: the internal location under which nginx serves DIR/col, "" if this process sends files itself;
    `origin`: the separate address of files that a browser would render, if there is one.
    """

    def __init__(
        self, file_store: FileStore, opener: FileOpener, origin: FilesOrigin, accel: str = ""
    ) -> None:
        self._file_store = file_store
        self._origin = origin
        self._opener = opener
        self._accel = accel.rstrip("/")
        self._types: dict[tuple[str, str], str] = {}

    def serve(self, request: Request, holding: Holding, file: StoredFile, kept: str = PUBLIC) -> Response:
        """Serve a file of an item, a part of it, or 304; or redirect to the address of rendered files.

        `kept`: the Cache-Control. Raises the same errors as `FileOpener.open`.
        """
        # Before the 304: a page that a browser has cached from this address must not be confirmed.
        if self._origin.separates(request) and self._is_rendered(holding, file):
            return self._origin.redirect(request)
        tag = f'"{file.sha256}"'
        validators: Headers = (
            ("etag", tag),
            ("cache-control", kept),
            ("last-modified", http_date(holding.timestamp)),
        )
        if unchanged(request, tag, holding.timestamp):
            return Response(304, headers=validators)
        (opened,) = self._opener.open(holding, (file,))
        try:
            kind = self._type(file, opened)
            headers = (*validators, *_described(holding, file), *self._policy(request, kind))
            # A staged file is not left to nginx, because its name is about to change.
            if self._accel and not file.staged and not self._file_store.is_remote:
                path = quote(relative_path(holding.forms, file.name))
                # nginx serves ranges itself, and adds this header.
                headers = tuple(header for header in headers if header[0] != "accept-ranges")
                headers = (*headers, ("x-accel-redirect", f"{self._accel}/{path}"))
                response = Response(200, content_type=kind, headers=headers)
            else:
                response = _whole_or_part(request, file, opened, kind, headers)
                # Active content stays in our sandbox.
                if response.file is not None and request.method == "GET" and not _is_active(kind):
                    response = self._from_the_store(holding, file, response)
        except BaseException:
            opened.close()
            raise
        if response.file is None:
            opened.close()
        return response

    def _from_the_store(self, holding: Holding, file: StoredFile, response: Response) -> Response:
        """Return a redirect by which the reader fetches the file from its store, if readers are sent there."""
        url = self._file_store.signed_url(holding.forms, file)
        if not url:
            return response
        redirected = redirect(url, status=307)
        redirected.start = response.start
        return redirected

    def _is_rendered(self, holding: Holding, file: StoredFile) -> bool:
        """Return whether a browser would run scripts of the file, or show it in its PDF viewer."""
        kind = self._types.get((file.sha256, file.media_type))
        if kind is None:
            (opened,) = self._opener.open(holding, (file,))
            with opened:
                kind = self._type(file, opened)
        return _is_active(kind) or kind == _PDF

    def _policy(self, request: Request, kind: str) -> Headers:
        if not _is_active(kind):
            return ()
        policy = _SANDBOX_APART if self._origin.receives(request) else _SANDBOX
        return (("content-security-policy", policy),)

    def _type(self, file: StoredFile, opened: BinaryIO) -> str:
        # Determined once for each digest, under which the bytes never change.
        known = self._types.get((file.sha256, file.media_type))
        if known is not None:
            return known
        kind = served_as(file.media_type, _sample(file, opened), file.size)
        # The whole cache is dropped: tracking the order of use would cost more than determining types again.
        if len(self._types) >= _MOST_KNOWN:
            self._types.clear()
        self._types[file.sha256, file.media_type] = kind
        return kind


def _sample(file: StoredFile, opened: BinaryIO) -> bytes:
    """Return the beginning of a file if its type depends on it."""
    if not isinstance(opened, RemoteFile):
        return os.pread(opened.fileno(), SAMPLE, 0)
    needed = file.media_type == UNKNOWN or file.media_type.startswith("text/")
    return opened.range(0, min(SAMPLE, file.size)) if needed else b""


def _whole_or_part(
    request: Request, file: StoredFile, opened: BinaryIO, kind: str, headers: Headers
) -> Response:
    try:
        wanted = part(request, f'"{file.sha256}"', file.size)
    except Unsatisfiable:
        return Response(416, headers=(*headers, ("content-range", f"bytes */{file.size}")))
    if wanted is None:
        headers = (*headers, ("content-digest", _digest(file)))
        return Response(200, content_type=kind, headers=headers, file=opened, size=file.size)
    start, length = wanted
    headers = (*headers, ("content-range", f"bytes {start}-{start + length - 1}/{file.size}"))
    return Response(206, content_type=kind, headers=headers, file=opened, size=length, start=start)


def _is_active(kind: str) -> bool:
    """Return whether files of a Content-Type can run scripts."""
    media_type = kind.partition(";")[0]
    return media_type in _ACTIVE_TYPES or media_type.endswith("+xml")


def _described(holding: Holding, file: StoredFile) -> Headers:
    """Return the headers of a file besides its validators."""
    headers: Headers = (("accept-ranges", "bytes"), ("repr-digest", _digest(file)))
    if holding.language:
        headers = (*headers, ("content-language", holding.language))
    # Programs decode file names in URLs as UTF-8. A name in another encoding is therefore sent in a header.
    last = file.raw.rpartition(b"/")[2]
    name = readable(last)
    if name.encode() != last:
        headers = (*headers, ("content-disposition", disposition("inline", name)))
    return headers


def _digest(file: StoredFile) -> str:
    """Return the digest of the whole file in the form of RFC 9530."""
    return f"sha-256=:{b64encode(bytes.fromhex(file.sha256)).decode()}:"


def disposition(how: str, name: str) -> str:
    """Return a Content-Disposition with a file name (RFC 6266), and in ASCII for old programs."""
    plain = _UNSAFE_IN_QUOTES.sub("_", name)
    better = f"; filename*=UTF-8''{quote(name, safe='')}" if plain != name else ""
    return f'{how}; filename="{plain}"{better}'
