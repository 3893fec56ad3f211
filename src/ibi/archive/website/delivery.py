"""The data of items on their way to readers: files, their list, and all of them in one; for those who may have them.

Who may have them is asked again at every fetch (SVC-10, threat T24): a URL opens nothing by itself.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from ibi.archive.access import day_of, may_read, vouched
from ibi.archive.holding import Access
from ibi.archive.website.bundle import Bundles
from ibi.archive.website.files import FOR_ALL, FOR_ONE, Files, Opener, Replaced
from ibi.archive.website.pages import FileListPage, ItemPage
from ibi.archive.website.place import Place
from ibi.archive.website.statistics import Visit, is_meant, is_part_of_a_page
from ibi.errors import HoldingError, NotHeld, SetupError
from ibi.exchange import redirect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.holding import Holding, StoredFile
    from ibi.archive.ledgers.about import Checked
    from ibi.archive.storage import Storage
    from ibi.archive.website.showing import Showing
    from ibi.archive.website.statistics import Visits
    from ibi.exchange import Asked, Response
    from ibi.identifier.forms import Name
    from ibi.settings import ArchiveSettings

COL: Final = "/col/"
"""What the paths of stored files begin with."""

_WHOLE, _PART, _KNOWN = 200, 206, 304
_TRIES: Final = 5  # of a file that is replaced again and again while it is opened
_HELP: Final = {"about": "What is known about this item"}


class Delivery:
    """Gives the data of one Archive's items to readers. `base`: what its URLs begin with; `now` gives POSIX seconds.

    `listed` looks an item up in the catalogue, so that a file that is replaced meanwhile is never given as what it was.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        base: str,
        storage: Storage,
        showing: Showing,
        now: Callable[[], float],
        visits: Visits | None,
        fault: Callable[[Holding, StoredFile], SetupError | None],
        listed: Callable[[Name], Holding | None],
    ) -> None:
        self._fault = fault
        self._settings = settings
        self._base = base
        opener = Opener(storage, listed)
        self._files = Files(storage, opener, settings.accel_prefix)
        self._bundles = Bundles(storage, opener)
        self._showing = showing
        self._now = now
        self._visits = visits

    def reader(self, asked: Asked) -> str | None:
        """The address that a request came from, as far as it is vouched for."""
        return vouched(asked.peer, asked.header(b"x-forwarded-for"), self._settings.trusted_proxies)

    def access(self, asked: Asked, holding: Holding) -> Access:
        """OPEN if who asks may have the data of an item now; otherwise what keeps him from it."""
        if holding.access is Access.OPEN:
            return Access.OPEN
        return may_read(holding, self._settings, self.reader(asked), day_of(self._now()))

    def file(self, asked: Asked, holding: Holding, path: str) -> Response:
        """A file of an item that is held. Raises NotHeld for one that is not listed."""
        return self._as_listed(asked, holding, lambda held: self._file(asked, held, path))

    def bundle(self, asked: Asked, holding: Holding) -> Response:
        """All files of an item as a zip file. Raises HoldingError where they may not be listed, NotHeld without any."""
        return self._as_listed(asked, holding, lambda held: self._bundle(asked, held))

    def removed(self, asked: Asked, holding: Holding) -> Response:
        """What is left of an item, as a page; to a program, one sentence."""
        if asked.form == "html":
            place = Place(self._base, self._settings.resolver, self._settings.admin)
            return self._showing.page(asked, ItemPage(holding, None, place, status=410))
        problem = (
            "{name} was removed on {date}: {reason}" if holding.reason else "{name} was removed on {date}"
        )
        why = HoldingError(problem, name=holding.forms.main, date=holding.timestamp, reason=holding.reason)
        return self._showing.refuse(asked, 410, why)

    def _as_listed(self, asked: Asked, holding: Holding, give: Callable[[Holding], Response]) -> Response:
        """What an item gives; where its files were replaced meanwhile, once more, as it is listed by then."""
        for _ in range(_TRIES):
            if holding.deleted:
                return self.removed(asked, holding)
            try:
                return give(holding)
            except Replaced as found:
                holding = found.now
        raise SetupError("this Archive cannot answer now; try again later")

    def _file(self, asked: Asked, holding: Holding, path: str) -> Response:
        refusal = self._refusal(asked, holding)
        if refusal is not None:
            return refusal
        file = holding.file(path)
        if file is None:
            return self._likely(holding, path)
        self._check_good(holding, file)
        response = self._files.serve(asked, holding, file, self._kept(holding))
        seen = response.status in {_WHOLE, _KNOWN} or (response.status == _PART and not response.start)
        return (
            self.seen(asked, holding, response, fetched=True)
            if seen and self._counts(asked, file)
            else response
        )

    def _bundle(self, asked: Asked, holding: Holding) -> Response:
        refusal = self._refusal(asked, holding)
        if refusal is not None:
            return refusal
        self._check_listing(holding)
        if not holding.files:
            raise NotHeld("this Archive keeps no files of {name}", name=holding.forms.main)
        for file in holding.files:
            self._check_good(holding, file)
        response = self._bundles.serve(asked, holding, self._kept(holding))
        return self.seen(asked, holding, response, fetched=True)

    def listing(self, asked: Asked, holding: Holding, fixity: Mapping[str, Checked]) -> Response:
        """The page that lists the files, each with what the last audit said of it, by its name.

        Raises HoldingError where they may not be listed (SVC-12).
        """
        refusal = self._refusal(asked, holding)
        if refusal is not None:
            return refusal
        self._check_listing(holding)
        base = f"{self._base}{COL}{holding.forms.main}/doc/"
        files = tuple((file, f"{base}{file.name}") for file in holding.files)
        page = FileListPage(holding, files, holding.url or None, fixity=fixity)
        return self.seen(asked, holding, self._showing.page(asked, page))

    def seen(self, asked: Asked, holding: Holding, response: Response, *, fetched: bool = False) -> Response:
        """The same answer, counted as a visit to an item once it has gone out."""
        visits = self._visits
        if visits is None or not is_meant(asked):
            return response

        def reader() -> str:
            return self.reader(asked) or ""

        agent = asked.header(b"user-agent")
        visit = Visit(holding.number, fetched, asked.target, reader, agent, self._now())
        return replace(response, afterwards=lambda: visits.hear(visit))

    def _refusal(self, asked: Asked, holding: Holding) -> Response | None:
        """What a reader gets who may not have the data of an item; None for all others."""
        access = self.access(asked, holding)
        if access is Access.OPEN:
            return None
        why = HoldingError(_kept_back(access), name=holding.forms.main, date=holding.embargo)
        page = "metadata" if holding.metadata is not None else "item"
        about = f"{self._base}/-/{page}/{holding.forms.main}"
        return self._showing.refuse(asked, 403, why, (_HELP["about"], about))

    def _kept(self, holding: Holding) -> str:
        if holding.access is Access.OPEN or holding.access_on(day_of(self._now())) is Access.OPEN:
            return FOR_ALL
        return FOR_ONE

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
    def _counts(asked: Asked, file: StoredFile) -> bool:
        return not is_part_of_a_page(asked, file)

    @staticmethod
    def _likely(holding: Holding, path: str) -> Response:
        """Where to look instead: an item without a path has its target; a name in other bytes may be the same text."""
        target = holding.target_file
        if path in {"", "/"} and target is not None:
            return redirect(f"{COL}{holding.forms.main}/doc/{target.name}")
        wanted = _text(unquote_to_bytes(path))
        alike = [file for file in holding.files if _text(file.raw) == wanted]
        if len(alike) == 1:
            return redirect(f"{COL}{holding.forms.main}/doc/{alike[0].name}")
        raise NotHeld("{name} has no such file", name=holding.forms.main)


def _kept_back(access: Access) -> str:
    """Why who asks may not have the data of an item."""
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
