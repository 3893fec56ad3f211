"""The data of items for readers: files, their list, and all of them in one zip file; for those who may have them.

Whether a reader may have them is decided again at every request (SVC-10, threat T24): a URL alone opens nothing.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from ibi.archive.model.access import day_of, may_read
from ibi.archive.model.item import Access
from ibi.archive.pages.bundle import Bundles
from ibi.archive.pages.files import PRIVATE, PUBLIC, FileOpener, FileReplaced, FileResponses
from ibi.archive.pages.models import FileListPage, ItemPage, SiteContext
from ibi.archive.pages.visits import ItemVisit, is_intended, is_part_of_a_page
from ibi.errors import HoldingError, NotHeld, SetupError
from ibi.http.response import redirect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.pages.representations import PageResponses
    from ibi.archive.pages.visits import VisitCounter
    from ibi.archive.store.files import FileStore
    from ibi.archive.store.tables.listings import FixityRecord
    from ibi.http.request import Request
    from ibi.http.response import Response
    from ibi.identifier.forms import Name
    from ibi.runtime.settings import ArchiveSettings

COL: Final = "/col/"
"""What the paths of stored files begin with."""

_WHOLE, _PART, _KNOWN = 200, 206, 304
_TRIES: Final = 5  # for a file that is replaced again and again while it is opened
_HELP: Final = {"about": "What is known about this item"}


class Delivery:
    """Serves the data of one Archive's items. `base`: the beginning of its URLs; `now` gives POSIX seconds.

    `listed` looks an item up in the catalogue, so that a replaced file is never served as the old one.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        base: str,
        file_store: FileStore,
        responses: PageResponses,
        now: Callable[[], float],
        visits: VisitCounter | None,
        fault: Callable[[Holding, StoredFile], SetupError | None],
        listed: Callable[[Name], Holding | None],
    ) -> None:
        self._fault = fault
        self._settings = settings
        self._base = base
        opener = FileOpener(file_store, listed)
        self._files = FileResponses(file_store, opener, settings.accel_prefix)
        self._bundles = Bundles(file_store, opener)
        self._responses = responses
        self._now = now
        self._visits = visits

    def reader(self, request: Request) -> str | None:
        """The reader's address, None where a trusted proxy does not vouch for one."""
        return request.address(self._settings.trusted_proxies)

    def access(self, request: Request, holding: Holding) -> Access:
        """OPEN if the reader may have the data of an item now; otherwise the access that forbids it."""
        if holding.access is Access.OPEN:
            return Access.OPEN
        return may_read(holding, self._settings.networks, self.reader(request), day_of(self._now()))

    def file(self, request: Request, holding: Holding, path: str) -> Response:
        """Serve a file of an item. Raises NotHeld for one that is not listed."""
        return self._as_listed(request, holding, lambda held: self._file(request, held, path))

    def bundle(self, request: Request, holding: Holding) -> Response:
        """Serve all files of an item as a zip file. Raises HoldingError where the list is not public, NotHeld."""
        return self._as_listed(request, holding, lambda held: self._bundle(request, held))

    def removed(self, request: Request, holding: Holding) -> Response:
        """Serve what is left of a removed item: a page, or one sentence for programs."""
        if request.form == "html":
            place = SiteContext(self._base, self._settings.resolver, self._settings.admin)
            return self._responses.page(request, ItemPage(holding, None, place, status=410))
        problem = (
            "{name} was removed on {date}: {reason}" if holding.reason else "{name} was removed on {date}"
        )
        why = HoldingError(problem, name=holding.forms.main, date=holding.timestamp, reason=holding.reason)
        return self._responses.refuse(request, 410, why)

    def _as_listed(self, request: Request, holding: Holding, give: Callable[[Holding], Response]) -> Response:
        """Serve from an item; where a file was replaced meanwhile, again from the item as it is listed by then."""
        for _ in range(_TRIES):
            if holding.deleted:
                return self.removed(request, holding)
            try:
                return give(holding)
            except FileReplaced as found:
                holding = found.now
        raise SetupError("this Archive cannot answer now; try again later")

    def _file(self, request: Request, holding: Holding, path: str) -> Response:
        refusal = self._refusal(request, holding)
        if refusal is not None:
            return refusal
        file = holding.file(path)
        if file is None:
            return self._likely(holding, path)
        self._check_good(holding, file)
        response = self._files.serve(request, holding, file, self._kept(holding))
        # Players fetch a film in a hundred parts: only the first of them is a visit.
        seen = response.status in {_WHOLE, _KNOWN} or (response.status == _PART and not response.start)
        return (
            self.seen(request, holding, response, fetched=True)
            if seen and self._counts(request, file)
            else response
        )

    def _bundle(self, request: Request, holding: Holding) -> Response:
        refusal = self._refusal(request, holding)
        if refusal is not None:
            return refusal
        self._check_listing(holding)
        if not holding.files:
            raise NotHeld("this Archive keeps no files of {name}", name=holding.forms.main)
        for file in holding.files:
            self._check_good(holding, file)
        response = self._bundles.serve(request, holding, self._kept(holding))
        return self.seen(request, holding, response, fetched=True)

    def listing(self, request: Request, holding: Holding, fixity: Mapping[str, FixityRecord]) -> Response:
        """Serve the page that lists the files, each with its result of the last audit, by its name.

        Raises HoldingError where the list is not public (SVC-12).
        """
        refusal = self._refusal(request, holding)
        if refusal is not None:
            return refusal
        self._check_listing(holding)
        base = f"{self._base}{COL}{holding.forms.main}/doc/"
        files = tuple((file, f"{base}{file.name}") for file in holding.files)
        page = FileListPage(holding, files, holding.url or None, fixity=fixity)
        return self.seen(request, holding, self._responses.page(request, page))

    def seen(
        self, request: Request, holding: Holding, response: Response, *, fetched: bool = False
    ) -> Response:
        """Have a response counted as a visit to an item once it is sent."""
        visits = self._visits
        if visits is None or not is_intended(request):
            return response

        def reader() -> str:
            return self.reader(request) or ""

        agent = request.header(b"user-agent")
        # The address is looked up when the visit is counted: most are dropped as crawlers before.
        visit = ItemVisit(holding.number, fetched, request.target, reader, agent, self._now())
        return replace(response, afterwards=lambda: visits.add(visit))

    def _refusal(self, request: Request, holding: Holding) -> Response | None:
        """The refusal for a reader who may not have the data of an item; None for others."""
        access = self.access(request, holding)
        if access is Access.OPEN:
            return None
        why = HoldingError(_why_withheld(access), name=holding.forms.main, date=holding.embargo)
        page = "metadata" if holding.metadata is not None else "item"
        about = f"{self._base}/-/{page}/{holding.forms.main}"
        return self._responses.refuse(request, 403, why, (_HELP["about"], about))

    def _kept(self, holding: Holding) -> str:
        if holding.access is Access.OPEN or holding.access_on(day_of(self._now())) is Access.OPEN:
            return PUBLIC
        return PRIVATE

    def _check_good(self, holding: Holding, file: StoredFile) -> None:
        """Raise SetupError for a file that an audit found damaged (threat T35)."""
        fault = self._fault(holding, file)
        if fault is not None:
            raise fault

    @staticmethod
    def _check_listing(holding: Holding) -> None:
        if not holding.file_list_public:
            problem = "access to the list of the files of {name} is not permitted"
            raise HoldingError(problem, name=holding.forms.main)

    @staticmethod
    def _counts(request: Request, file: StoredFile) -> bool:
        return not is_part_of_a_page(request, file)

    @staticmethod
    def _likely(holding: Holding, path: str) -> Response:
        """Redirect an empty path to the target, and one in other bytes to the file whose name is the same text."""
        target = holding.target_file
        if path in {"", "/"} and target is not None:
            return redirect(f"{COL}{holding.forms.main}/doc/{target.name}")
        # Links of older systems spell names in ISO-8859-1, or decomposed as macOS writes them.
        wanted = _text(unquote_to_bytes(path))
        same = [file for file in holding.files if _text(file.raw) == wanted]
        if len(same) == 1:
            return redirect(f"{COL}{holding.forms.main}/doc/{same[0].name}")
        raise NotHeld("{name} has no such file", name=holding.forms.main)


def _why_withheld(access: Access) -> str:
    """Why a reader may not have the data of an item."""
    if access is Access.EMBARGOED:
        return "the data of {name} are under embargo; from {date} (UTC) on everybody may have them"
    if access is Access.RESTRICTED:
        return "the data of {name} are only for readers in the networks that have a licence at this Archive"
    return "the data of {name} are kept here, but not given to readers"


def _text(raw: bytes) -> str:
    """A file name as text, composed: UTF-8 if that is what it is, else ISO-8859-1."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return unicodedata.normalize("NFC", text)
