"""Copies from other Archives, and originals that are handed over to them, in the administration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.archive.administration.items import held
from ibi.archive.administration.pages import CopyPage, TransferPage
from ibi.archive.api.copies import MOST_COPIES, Copies
from ibi.errors import BadItem
from ibi.signing_in.visit import ROOT
from ibi.tokens import Scope

if TYPE_CHECKING:
    from ibi.archive.administration.pages import Page
    from ibi.archive.api.hand_overs import HandOvers
    from ibi.signing_in.visit import Form, Visit

__all__ = ["MOST_COPIES", "CopyForm", "TransferForm"]


class CopyForm:
    """A copy of an item whose original another Archive holds."""

    scope = Scope.TRANSFER
    files = False

    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    def show(self, _visit: Visit, typed: Form | None) -> Page:
        """The form."""
        resolver = self._copies.copier.resolver
        if typed is None:
            return CopyPage(resolver=resolver)
        return CopyPage(typed.one("ibi"), typed.one("archive"), resolver)

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Fetch it, compare it, and keep it; addresses of private networks are for administrators."""
        if not form.one("ibi"):
            raise BadItem("say which item: paste its name or its persistent URL")
        private = visit.may(Scope.ADMIN) and form.one("private") == "yes"
        holding = self._copies.take(form.one("ibi"), form.one("archive"), visit.signed.name, private=private)
        return f"{ROOT}/items/{holding.forms.main}?done=copied"


class TransferForm:
    """The hand-over of an original; the running Archive goes on with it by itself."""

    scope = Scope.TRANSFER
    files = False

    def __init__(self, hand_overs: HandOvers) -> None:
        self._hand_overs = hand_overs

    def show(self, visit: Visit, _typed: Form | None) -> Page:
        """To whom the item may go; and what is under way."""
        catalogue = self._hand_overs.giver.keeper.catalogue
        holding = held(catalogue, visit.name) if visit.rest else None
        return TransferPage(holding, self._hand_overs.peers(), self._hand_overs.open())

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Begin it, or take an item back."""
        if form.one("cancel"):
            self._hand_overs.cancel(form.one("cancel"))
            return f"{ROOT}/transfer?done=taken-back"
        to = form.one("to")
        if to not in self._hand_overs.peers():
            raise BadItem("choose the Archive that the item goes to")
        if form.one("sure") != "yes":
            raise BadItem("tick that you mean it: the other Archive will hold the original")
        remove = form.one("remove") == "yes"
        self._hand_overs.begin(visit.name, to, visit.signed.name, remove=remove)
        return f"{ROOT}/transfer?done=offered"
