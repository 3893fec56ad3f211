"""Items from a file, in the administration: first what would come of it, then the same in earnest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.administration.pages import ImportPage
from ibi.archive.api.imports import LARGEST_IMPORT, MOST_SHOWN, Imports
from ibi.archive.intake.importing import FORMATS, format_of
from ibi.errors import BadItem
from ibi.tokens import Scope

if TYPE_CHECKING:
    from ibi.archive.administration.pages import Page
    from ibi.archive.api.imports import Imported
    from ibi.signing_in.visit import Form, Visit

__all__ = ["LARGEST_IMPORT", "MOST_SHOWN", "ImportForm"]

_LONGEST_NAME: Final = 200


class ImportForm:
    """The import of a file of records: JSON lines, BibTeX, RIS or CSV."""

    scope = Scope.ADMIN
    files = True

    def __init__(self, imports: Imports) -> None:
        self._imports = imports

    def show(self, _visit: Visit, typed: Form | None) -> Page:
        """The question for a file."""
        return ImportPage(kind=typed.one("kind") if typed else "")

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Look at the file, or take its records in."""
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
            return _page(self._imports.weigh(who, upload, kind), upload, name, kind)


def _kind(said: str, name: str) -> str:
    return said if said in FORMATS else format_of(Path(name))


def _page(found: Imported, upload: str, name: str, kind: str) -> ImportPage:
    """The report; `upload` waits for a yes, "" where all is done."""
    report = found.report
    counts = {"added": report.added, "unchanged": report.unchanged, "refused": report.refused}
    refused = [(each.line, each.name, each.why) for each in found.refused]
    return ImportPage(counts, refused, upload, name, kind, done=not upload)
