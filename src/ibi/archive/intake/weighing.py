"""What would come of records, if they were taken in: counted and refused as an import would, and nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.archive.intake.batch import Report
from ibi.archive.intake.taking import Refused
from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.intake.sources.record import Record
    from ibi.archive.item_lines import Draft


class Weighing:
    """Looks at records as Intake does. `refused` is told every record that would not be taken in.

    `look` looks for the files of a draft, and raises IbiError where one could not be had. Of a record whose name or key
    is held already it is not told whether it differs from what is held.
    """

    def __init__(
        self, catalogue: Catalogue, refused: Callable[[Refused], None], look: Callable[[Draft], None]
    ) -> None:
        self._catalogue = catalogue
        self._tell = refused
        self._look = look
        self.report = Report()

    def take(self, records: Sequence[Record]) -> None:
        """Weigh some records."""
        for record in records:
            draft = record.draft
            try:
                if isinstance(draft, IbiError):
                    raise draft
                if draft.files:
                    self._look(draft)
            except IbiError as error:
                self.report.refused += 1
                self._tell(Refused(record.line, error, record.name))
                continue
            if self._is_held(draft):
                self.report.unchanged += 1
            else:
                self.report.added += 1

    def _is_held(self, draft: Draft) -> bool:
        if draft.forms is not None:
            return self._catalogue.holding(draft.forms.main) is not None
        return bool(draft.key) and self._catalogue.holding_of_key(draft.key) is not None
