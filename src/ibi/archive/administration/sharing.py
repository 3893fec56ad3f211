"""Copies from other Archives, and originals that are handed over to them, in the administration."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.administration.items import held
from ibi.archive.administration.pages import CopyPage, TransferPage
from ibi.archive.ledgers import transfers
from ibi.errors import BadItem, HoldingError
from ibi.identifier.peeling import peel
from ibi.settings import Peer
from ibi.signing_in.visit import ROOT
from ibi.tokens import Scope

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.administration.pages import Page
    from ibi.archive.sharing.copying import Copier
    from ibi.archive.sharing.giving import Giver
    from ibi.signing_in.visit import Form, Visit

MOST_COPIES: Final = 4
"""Copies that the pages of one process take at the same time: each may last for hours."""


class CopyForm:
    """A copy of an item whose original another Archive holds."""

    scope = Scope.TRANSFER
    files = False

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self._places = threading.Semaphore(MOST_COPIES)

    def show(self, _visit: Visit, typed: Form | None) -> Page:
        """The form."""
        if typed is None:
            return CopyPage(resolver=self._copier.resolver)
        return CopyPage(typed.one("ibi"), typed.one("archive"), self._copier.resolver)

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Fetch it, compare it, and keep it; addresses of private networks are for administrators."""
        if not form.one("ibi"):
            raise BadItem("say which item: paste its name or its persistent URL")
        private = visit.may(Scope.ADMIN) and form.one("private") == "yes"
        name = peel(form.one("ibi")).ibi
        if not self._places.acquire(blocking=False):
            raise HoldingError("other copies are being taken just now; try again in a while")
        try:
            copying = self._copier.copy(name, visit.signed.name, form.one("archive"), private=private)
            holding = asyncio.run(copying)
        finally:
            self._places.release()
        return f"{ROOT}/items/{holding.forms.main}?done=copied"


class TransferForm:
    """The hand-over of an original; the running Archive goes on with it by itself."""

    scope = Scope.TRANSFER
    files = False

    def __init__(self, giver: Giver, data: Path) -> None:
        self._giver = giver
        self._data = data

    def show(self, visit: Visit, _typed: Form | None) -> Page:
        """To whom the item may go; and what is under way."""
        catalogue = self._giver.keeper.catalogue
        holding = held(catalogue, visit.name) if visit.rest else None
        with catalogue.reading() as run:
            under_way: list[dict[str, Any]] = [
                {
                    "item": transfers.main_name(run, giving.item),
                    "to": giving.address,
                    "stage": giving.stage.value,
                    "since": giving.moment,
                    "problem": giving.problem,
                }
                for giving in transfers.open_givings(run)
            ]
        return TransferPage(holding, self._peers(), under_way)

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Begin it."""
        to = form.one("to")
        if to not in self._peers():
            raise BadItem("choose the Archive that the item goes to")
        if form.one("sure") != "yes":
            raise BadItem("tick that you mean it: the other Archive will hold the original")
        self._giver.offer(visit.name, to, visit.signed.name, remove=form.one("remove") == "yes")
        return f"{ROOT}/transfer?done=offered"

    def _peers(self) -> dict[str, str]:
        """The Archives that originals can go to: name -> root URL."""
        return {name: peer.address for name, peer in Peer.read_tables(self._data).items() if peer.token}
