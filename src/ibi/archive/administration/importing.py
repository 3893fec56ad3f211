"""Items from a file, in the administration: first what would come of it, then the same in earnest.

Between the two the file waits among the uploads, as its owner's, for a day. Records that name files are refused: what
lies beside the file is here, not on the librarian's machine.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.administration.pages import ImportPage
from ibi.archive.intake.importing import BATCH, FORMATS, format_of
from ibi.archive.intake.taking import Intake, Refused
from ibi.errors import BadItem, IbiError
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ibi.archive.administration.pages import Page
    from ibi.archive.api.upload_store import Uploads
    from ibi.archive.holding import StoredFile
    from ibi.archive.intake.sources.record import Record
    from ibi.archive.item_lines import Draft
    from ibi.archive.keeper import Keeper
    from ibi.signing_in.visit import Form, Visit

MOST_SHOWN: Final = 200
"""Refused records that are shown."""
LARGEST_IMPORT: Final = 256 << 20
"""Bytes of a file of records; the command takes larger ones."""

_CHUNK: Final = 1 << 20
_LONGEST_NAME: Final = 200


class ImportForm:
    """The import of a file of records: JSON lines, BibTeX, RIS or CSV."""

    scope = Scope.ADMIN
    files = True

    def __init__(self, keeper: Keeper, uploads: Uploads) -> None:
        self._keeper = keeper
        self._uploads = uploads

    def show(self, _visit: Visit, typed: Form | None) -> Page:
        """The question for a file."""
        return ImportPage(kind=typed.one("kind") if typed else "")

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Look at the file, or take its records in."""
        if form.one("upload"):
            return self._taken(visit, form)
        if len(form.files) != 1:
            raise BadItem("choose one file with records: JSON lines, BibTeX, RIS or CSV")
        name, file = next(iter(form.files.items()))
        kind = self._kind(form.one("kind"), name)
        if file.size > LARGEST_IMPORT:
            raise BadItem("the file is too large for this page; use the command: ibi archive import")
        upload = self._keep(visit.signed.name, name, file)
        with self._uploads.whole(upload, visit.signed.name) as path, path.open("rb") as lines:
            report, refused = self._weighed(FORMATS[kind](lines))
        return ImportPage(report, refused, upload, name, kind)

    def _taken(self, visit: Visit, form: Form) -> ImportPage:
        """The report of an import."""
        who, upload, name = visit.signed.name, form.one("upload"), form.one("name")[:_LONGEST_NAME]
        kind = self._kind(form.one("kind"), name)
        refused: list[Refused] = []
        intake = Intake(self._keeper, who, refused.append, _no_files)
        with ExitStack() as stack:
            path = stack.enter_context(self._uploads.whole(upload, who))
            lines = stack.enter_context(path.open("rb"))
            stack.enter_context(self._keeper.working())
            records = FORMATS[kind](lines)
            while batch := list(islice(records, BATCH)):
                intake.take(batch)
                del refused[MOST_SHOWN:]
        self._uploads.forget(upload, who)
        found = intake.report
        report = {"added": found.added, "unchanged": found.unchanged, "refused": found.refused}
        return ImportPage(report, _shown(refused), "", name, kind, done=True)

    def _weighed(self, records: Iterator[Record]) -> tuple[dict[str, int], list[tuple[int, str, IbiError]]]:
        """What would come of records: numbers, and the first that would be refused."""
        counts, refused = Counter(added=0, unchanged=0, refused=0), list[Refused]()
        for record in records:
            why = self._fault(record)
            if why is not None:
                counts["refused"] += 1
                refused += [Refused(record.line, why, record.name)] if len(refused) < MOST_SHOWN else []
            else:
                counts["unchanged" if self._is_held(record) else "added"] += 1
        return dict(counts), _shown(refused)

    @staticmethod
    def _fault(record: Record) -> IbiError | None:
        if isinstance(record.draft, IbiError):
            return record.draft
        return _with_files() if record.draft.files else None

    def _is_held(self, record: Record) -> bool:
        draft, catalogue = record.draft, self._keeper.catalogue
        if isinstance(draft, IbiError):
            return False
        if draft.forms is not None:
            return catalogue.holding(draft.forms.main) is not None
        return bool(draft.key) and catalogue.holding_of_key(draft.key) is not None

    def _keep(self, who: str, name: str, file: StoredFile) -> str:
        """Put a staged file among the uploads; its id there. Raises Refusal, SetupError."""
        upload = self._uploads.begin(who, file.size, name[:_LONGEST_NAME]).id
        source = self._keeper.storage.open(self._keeper.service, file)
        with source, self._uploads.writing(upload, who) as writing:
            while piece := source.read(_CHUNK):
                writing.write(piece)
        return upload

    @staticmethod
    def _kind(said: str, name: str) -> str:
        return said if said in FORMATS else format_of(Path(name))


def _no_files(_draft: Draft) -> Iterator[StoredFile]:
    raise _with_files()


def _with_files() -> BadItem:
    return BadItem("a record names files; deposit it by itself, or use the command: ibi archive import")


def _shown(refused: Sequence[Refused]) -> list[tuple[int, str, IbiError]]:
    return [(each.line, each.name, each.why) for each in refused[:MOST_SHOWN]]
