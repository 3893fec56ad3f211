"""Serve the data of items to readers who may have them: a file, the list of files, or a zip file of all.

Whether a reader may have them is decided again at every request: a URL alone is not enough (SVC-10: URLs by reader;
T24: forged addresses). With the setting `files_redirect`, the reader who may have a file gets a signed URL of the S3
store, which is enough for five minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from unicodedata import normalize
from urllib.parse import unquote_to_bytes

from ibi.archive.model.access import access_for, withheld_from
from ibi.archive.model.item import Access, readable
from ibi.archive.pages.bundle import Bundles
from ibi.archive.pages.files import PRIVATE, PUBLIC, FileOpener, FileReplaced, FileResponses
from ibi.archive.pages.models import FileListPage, ItemPage
from ibi.archive.pages.visits import ItemVisit, is_part_of_a_page
from ibi.archive.preservation.audit import known_fault
from ibi.archive.store.item_changes import removal_notice
from ibi.archive.store.tables import listings
from ibi.errors import HoldingError, NotHeld, SetupError
from ibi.http.response import redirect

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.access import Withheld
    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.pages.models import SiteParts
    from ibi.archive.pages.responses import PageResponses
    from ibi.archive.pages.visits import VisitCounter
    from ibi.archive.store.file_store import FileStore
    from ibi.http.files_origin import FilesOrigin
    from ibi.http.request import Request
    from ibi.http.response import Response

COL: Final = "/col/"
"""The beginning of the paths of stored files."""

OF_A_FILE: Final = frozenset({200, 206, 304, 307})
"""The statuses of a served file: whole, in part, not modified, or at its store."""

_TRIES: Final = 5  # attempts to open a file that is replaced again and again
_HELP: Final = "What is known about this item"


class Delivery:
    """Serves the data of one Archive's items."""

    def __init__(
        self,
        parts: SiteParts,
        file_store: FileStore,
        origin: FilesOrigin,
        responses: PageResponses,
        visits: VisitCounter | None,
    ) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._base = parts.place.base
        # The opener looks items up again, so that a replaced file is never served as the old one.
        opener = FileOpener(file_store, parts.catalogue.held)
        self._files = FileResponses(file_store, opener, origin, parts.settings.accel_prefix)
        self._bundles = Bundles(file_store, opener)
        self._responses = responses
        self._visits = visits

    def access(self, request: Request, holding: Holding) -> Access:
        """Return OPEN if the reader may have the data of an item now, else the access that forbids it."""
        if holding.access is Access.OPEN:
            return Access.OPEN
        return access_for(holding, self._settings.networks, self._reader(request), self._parts.day)

    def withheld(self, request: Request) -> Withheld:
        """Return the test whether an item's data are withheld from this request."""
        return withheld_from(self._settings.networks, lambda: self._reader(request), self._parts.now)

    def file(self, request: Request, holding: Holding, path: str) -> Response:
        """Serve a file of an item. Raises NotHeld if it is not listed."""
        return self._as_listed(request, holding, lambda held: self._file(request, held, path))

    def bundle(self, request: Request, holding: Holding) -> Response:
        """Serve all files of an item as a zip. Raises HoldingError if the list is not public, NotHeld."""
        return self._as_listed(request, holding, lambda held: self._bundle(request, held))

    def removed(self, request: Request, holding: Holding) -> Response:
        """Serve what is known of a removed item: a page, or one sentence for programs."""
        if request.form == "html":
            return self._responses.page(request, ItemPage(holding, None, self._parts.place, status=410))
        return self._responses.refuse(request, 410, removal_notice(holding))

    def _as_listed(self, request: Request, holding: Holding, give: Callable[[Holding], Response]) -> Response:
        """Serve data of an item; if a file was replaced meanwhile, repeat with the item as listed then."""
        for _ in range(_TRIES):
            if holding.deleted:
                return self.removed(request, holding)
            refusal = self._refusal(request, holding)
            if refusal is not None:
                return refusal
            try:
                return give(holding)
            except FileReplaced as replaced:
                holding = replaced.now
        raise SetupError("this Archive cannot answer now; try again later")

    def _file(self, request: Request, holding: Holding, path: str) -> Response:
        file = holding.file(path)
        if file is None:
            return self._likely(holding, path)
        self._check_good(holding, file)
        response = self._files.serve(request, holding, file, self._kept(holding))
        # Players fetch a film in a hundred parts: only the part from byte 0 counts as a visit.
        if response.status in OF_A_FILE and not response.start and not is_part_of_a_page(request, file):
            return self.counted(request, holding, response, fetched=True)
        return response

    def _bundle(self, request: Request, holding: Holding) -> Response:
        self._check_listing(holding)
        if not holding.files:
            raise NotHeld("this Archive keeps no files of {name}", name=holding.forms.main)
        for file in holding.files:
            self._check_good(holding, file)
        response = self._bundles.serve(request, holding, self._kept(holding))
        return self.counted(request, holding, response, fetched=True)

    def listing(self, request: Request, holding: Holding) -> Response:
        """Serve the page that lists the files. Raises HoldingError if the list is not public (SVC-12)."""
        refusal = self._refusal(request, holding)
        if refusal is not None:
            return refusal
        self._check_listing(holding)
        with self._parts.catalogue.reading() as run:
            page = FileListPage(holding, fixity=listings.fixity_of(run, holding.number))
        return self.counted(request, holding, self._responses.page(request, page))

    def counted(
        self, request: Request, holding: Holding, response: Response, *, fetched: bool = False
    ) -> Response:
        """Return a response that counts as a visit when sent, unless the request is a HEAD or a prefetch."""
        visits = self._visits
        if visits is None or request.method != "GET" or request.only_prefetched:
            return response
        # The address is determined only when the visit is counted: most visits are crawlers', and dropped.
        visit = ItemVisit(
            holding.number,
            fetched,
            request.target,
            lambda: self._reader(request) or "",
            request.header(b"user-agent"),
            self._parts.now(),
        )
        response.afterwards = lambda: visits.add(visit)
        return response

    def _reader(self, request: Request) -> str | None:
        """Return the reader's address; None if a trusted proxy does not vouch for one."""
        return request.trusted_address(self._settings.trusted_proxies)

    def _refusal(self, request: Request, holding: Holding) -> Response | None:
        """Return the refusal for a reader who may not have the data of an item; None for others."""
        access = self.access(request, holding)
        if access is Access.OPEN:
            return None
        why = HoldingError(_why_withheld(access), name=holding.forms.main, date=holding.embargo)
        page = "metadata" if holding.metadata is not None else "item"
        about = f"{self._base}/-/{page}/{holding.forms.main}"
        return self._responses.refuse(request, 403, why, (_HELP, about))

    def _kept(self, holding: Holding) -> str:
        return PUBLIC if holding.access_on(self._parts.day) is Access.OPEN else PRIVATE

    def _check_good(self, holding: Holding, file: StoredFile) -> None:
        """Raise SetupError for a file that an audit found damaged (T35: faults of disks)."""
        fault = known_fault(self._parts.catalogue, holding, file)
        if fault is not None:
            raise fault

    @staticmethod
    def _check_listing(holding: Holding) -> None:
        if not holding.file_list_public:
            problem = "access to the list of the files of {name} is not permitted"
            raise HoldingError(problem, name=holding.forms.main)

    @staticmethod
    def _likely(holding: Holding, path: str) -> Response:
        """Redirect an empty path to the target, and one in another encoding to the file of the same name."""
        target = holding.target_file
        if path in {"", "/"} and target is not None:
            return redirect(f"{COL}{holding.forms.main}/doc/{target.name}")
        # Links of older systems spell names in ISO-8859-1, or in decomposed Unicode, as macOS does.
        wanted = normalize("NFC", readable(unquote_to_bytes(path)))
        same = [file for file in holding.files if normalize("NFC", readable(file.raw)) == wanted]
        if len(same) == 1:
            return redirect(f"{COL}{holding.forms.main}/doc/{same[0].name}")
        raise NotHeld("{name} has no such file", name=holding.forms.main)


def _why_withheld(access: Access) -> str:
    if access is Access.EMBARGOED:
        return "the data of {name} are embargoed until {date} (UTC)"
    if access is Access.RESTRICTED:
        return "the data of {name} are only for readers in the networks that have a licence at this Archive"
    return "the data of {name} are kept here, but not given to readers"
