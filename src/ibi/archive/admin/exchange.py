"""Administration pages for copies, hand-overs and imports.

An import is a dry run first, and the same import after a confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.layout import ROOT, PageHandler
from ibi.accounts.tokens import Scope
from ibi.archive.ingest.importing import IMPORT_FORMATS, format_of
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.accounts.layout import Form, PageRequest
    from ibi.archive.api.imports import ImportResult, Imports
    from ibi.archive.api.items import CopyService
    from ibi.archive.api.transfers import HandOvers
    from ibi.archive.model.item import Holding
    from ibi.errors import IbiError


_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class CopyPage:
    """The form that takes a copy: the typed values, and the resolver that can be asked."""

    ibi: str = ""
    archive: str = ""
    resolver: str = ""


@dataclass(frozen=True, slots=True)
class TransferPage:
    """The form that hands an original over to one of the `peers`; without an item, what is under way."""

    holding: Holding | None
    peers: Mapping[str, str]
    under_way: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ImportPage:
    """The form for an import, the result of a dry run, or that of the import.

    `report`: numbers by the words added, unchanged and refused; `refused`: the first records that were not taken, each
    as line, name and reason; `upload`: the file that waits for a confirmation, `name`: its name at the client.
    """

    report: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[tuple[int, str, IbiError]] = ()
    upload: str = ""
    name: str = ""
    kind: str = ""
    done: bool = False


class ExchangePages:
    """The pages of copies, hand-overs and imports."""

    def __init__(self, copies: CopyService, hand_overs: HandOvers, imports: Imports) -> None:
        self._copies = copies
        self._hand_overs = hand_overs
        self._imports = imports

    def handlers(self) -> dict[str, PageHandler]:
        """The handler of each page, by the word in its address."""
        return {
            "copy": PageHandler(Scope.TRANSFER, self._copy_form, self._copy),
            "transfer": PageHandler(Scope.TRANSFER, self._transfer_form, self._transfer),
            "import": PageHandler(Scope.ADMIN, self._import_form, self._import, files=True),
        }

    def _copy_form(self, _visit: PageRequest, typed: Form | None) -> CopyPage:
        resolver = self._copies.copier.resolver
        if typed is None:
            return CopyPage(resolver=resolver)
        return CopyPage(typed.one("ibi"), typed.one("archive"), resolver)

    def _copy(self, visit: PageRequest, form: Form) -> str:
        """Take a copy of an item whose original another Archive holds."""
        if not form.one("ibi"):
            raise BadItem("say which item: paste its name or its persistent URL")
        # Only an administrator may have this machine fetch from a private network.
        private = visit.may(Scope.ADMIN) and form.one("private") == "yes"
        holding = self._copies.take(form.one("ibi"), form.one("archive"), visit.signed.name, private=private)
        return f"{ROOT}/items/{holding.forms.main}?done=copied"

    def _transfer_form(self, visit: PageRequest, _typed: Form | None) -> TransferPage:
        """The peers that the item may go to, and the hand-overs that are under way."""
        catalogue = self._hand_overs.giver.item_store.catalogue
        holding = catalogue.held(visit.name) if visit.rest else None
        return TransferPage(holding, self._hand_overs.peers(), self._hand_overs.open())

    def _transfer(self, visit: PageRequest, form: Form) -> str:
        """Start a hand-over, with which the running Archive goes on by itself; or take an item back."""
        if form.one("cancel"):
            self._hand_overs.cancel(form.one("cancel"))
            return f"{ROOT}/transfer?done=taken-back"
        to = form.one("to")
        if to not in self._hand_overs.peers():
            raise BadItem("choose the Archive that the item goes to")
        if form.one("sure") != "yes":
            raise BadItem("tick that you mean it: the other Archive will hold the original")
        remove = form.one("remove") == "yes"
        self._hand_overs.giver.offer(visit.name, to, visit.signed.name, remove=remove)
        return f"{ROOT}/transfer?done=offered"

    def _import_form(self, _visit: PageRequest, typed: Form | None) -> ImportPage:
        return ImportPage(kind=typed.one("kind") if typed else "")

    def _import(self, visit: PageRequest, form: Form) -> ImportPage:
        """Do a dry run of a new file, or import the one that had it."""
        who = visit.signed.name
        if form.one("upload"):
            name = form.one("name")[:_LONGEST_NAME]
            kind = _kind(form.one("kind"), name)
            return _page(self._imports.take(who, form.one("upload"), kind), "", name, kind)
        if len(form.files) != 1:
            raise BadItem("choose one file with records: JSON lines, BibTeX, RIS or CSV")
        name, file = next(iter(form.files.items()))
        kind = _kind(form.one("kind"), name)
        with self._imports.kept(who, file, name[:_LONGEST_NAME]) as upload:
            return _page(self._imports.try_out(who, upload, kind), upload, name, kind)


def _kind(chosen: str, name: str) -> str:
    return chosen if chosen in IMPORT_FORMATS else format_of(Path(name))


def _page(found: ImportResult, upload: str, name: str, kind: str) -> ImportPage:
    """The page with the report; `upload`: the file that waits for a confirmation, "" after the import."""
    report = found.report
    counts = {"added": report.added, "unchanged": report.unchanged, "refused": report.refused}
    refused = [(each.line, each.name, each.why) for each in found.refused]
    return ImportPage(counts, refused, upload, name, kind, done=not upload)
