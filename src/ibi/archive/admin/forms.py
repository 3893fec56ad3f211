"""Read forms with files.

Files are written into staging while they arrive, within the limits of the JSON interface. The token of the
form must come before any file, so that a forged form cannot fill the disk.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ibi.accounts.forms import LONGEST_FIELDS, MOST_FIELDS, TOKEN, unix_lines, unreadable
from ibi.accounts.layout import Form
from ibi.accounts.sign_in import client_of
from ibi.api.bodies import Body
from ibi.api.dispatch import minting_refusal
from ibi.archive.api import received_files
from ibi.archive.api.received_files import SAFE, staged_files
from ibi.archive.operations.items import MOST_FILES
from ibi.archive.store.item_changes import Files
from ibi.errors import Conflict, IbiError, MintingError, NotHeld, PeerError, SetupError, Unsettled
from ibi.http.client_address import in_networks
from ibi.http.response import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ibi.accounts.forms import Check, Receive
    from ibi.accounts.sign_in import Client
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.item_store import ItemStore
    from ibi.http.request import Request
    from ibi.http.response import Headers
    from ibi.runtime.settings import ArchiveSettings


MOST_PARTS: Final = MOST_FIELDS + MOST_FILES
"""Parts of one form. Empty parts count, because each part costs time."""


class _PageFormReader(received_files.FormReader):
    """Reads a form of a page: its fields, and files as in the JSON interface.

    If a file cannot be stored, as on a full disk, `problem` has the error. The other files are skipped then,
    and the fields are read to the end, so that the page can show again what was typed.
    """

    def __init__(self, content_type: str, file_store: FileStore, files: Files, check: Check) -> None:
        super().__init__(content_type, file_store, files)
        self.fields: list[tuple[str, str]] = []
        self.problem: Exception | None = None
        self._check = check
        self._checked = False
        self._field_name = ""
        self._left = LONGEST_FIELDS
        self._skipped = False
        self._parts = 0

    def check_token(self) -> None:
        """Make sure that the form belongs to this session. Raises the errors of `check`."""
        if not self._checked:
            self._check(next((value for name, value in self.fields if name == TOKEN), ""))
            self._checked = True

    def _part(self, kind: bytes, options: dict[bytes, bytes]) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise unreadable()
        name, filename = options.get(b"name", b""), options.get(b"filename")
        if kind != b"form-data" or not name or len(self.fields) >= MOST_FIELDS:
            raise unreadable()
        self._skipped = filename == b"" or (filename is not None and self.problem is not None)
        if filename is None:
            self._field_name, self._text = name.decode("utf-8", "replace"), bytearray()
        # No file is written before the token is checked, so that a forged form cannot fill the disk.
        elif not self._skipped:
            self.check_token()
            with self._noting_problem():
                self._file(self._unused(filename.replace(b"\\", b"/").rpartition(b"/")[2]), name)

    @contextmanager
    def _noting_problem(self) -> Iterator[None]:
        """If the block cannot store a file, note the error, and discard what has come of the file."""
        try:
            yield
        except (OSError, SetupError) as problem:
            self.problem, self._skipped = problem, True
            self.stop()

    def _unused(self, filename: bytes) -> bytes:
        """Return a file name that no file of the form has: of two files "a.txt", the second is "a (2).txt".

        A refusal would lose what was typed into the form.
        """
        stem, dot, ending = filename.rpartition(b".") if b"." in filename[1:] else (filename, b"", b"")
        names = (b"%b (%d)%b%b" % (stem, number, dot, ending) for number in range(2, MOST_FILES + 2))
        return next(
            (each for each in (filename, *names) if quote(each, safe=SAFE) not in self.files), filename
        )

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._text is not None:
            self._left -= end - start
            if self._left < 0:
                raise Refusal(413, IbiError("the texts of the form are too long"))
            self._text += data[start:end]
        elif not self._skipped:
            with self._noting_problem():
                super()._data(data, start, end)

    def _part_end(self) -> None:
        if self._text is None:
            with self._noting_problem():
                super()._part_end()
            return
        try:
            self.fields.append((self._field_name, self._text.decode()))
        except UnicodeDecodeError:
            raise unreadable() from None
        self._text = None


_STATUS: Final = ((NotHeld, 404), (Unsettled, 503), (Conflict, 409), (PeerError, 502))


class FormHandling:
    """Reads forms of one Archive's pages, and identifies clients. `largest`: bytes of the largest form."""

    def __init__(self, settings: ArchiveSettings, item_store: ItemStore, largest: int) -> None:
        self._settings = settings
        self._item_store = item_store
        self._largest = largest

    def caller(self, request: Request) -> Client:
        """Return the client of a request; behind a trusted proxy, the client that the proxy names."""
        proxies = self._settings.trusted_proxies
        address = request.trusted_address(proxies)
        return client_of(request, address, proxied=in_networks(request.peer, proxies))

    @asynccontextmanager
    async def take(self, request: Request, receive: Receive, check: Check) -> AsyncIterator[Form]:
        """Read a form, with its files in staging; discard the files that no item lists at the end.

        If a file cannot be stored, the form has the `problem`, and no files. Raises Refusal, BadItem, SetupError,
        and ClientGone.
        """
        kind, file_store = request.header(b"content-type"), self._item_store.file_store
        async with staged_files(self._item_store) as files:
            form = _PageFormReader(kind, file_store, files, check)
            await form.receive(Body(request, receive, self._largest))
            form.check_token()
            yield Form(unix_lines(form.fields), Files() if form.problem else files, problem=form.problem)


def page_error(error: Exception) -> tuple[int, IbiError, Headers] | None:
    """Return status, sentence and headers of a page for an error of an operation; None for other errors."""
    if isinstance(error, MintingError):
        refusal = minting_refusal(error)
        return refusal.status, refusal.why, refusal.headers
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 0)
    return (status, error, ()) if status and isinstance(error, IbiError) else None
