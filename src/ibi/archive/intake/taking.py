"""Records become items of an Archive: each wholly or not at all, and a second time without any change (note 11).

Records come in batches, one transaction each. What must happen before (minting a label, copying files) is done outside
the transaction; whatever is held already is told from what is new by one look for all of them.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from ibi.archive import rows
from ibi.archive.file_names import check_names
from ibi.archive.intake.batch import Batch, Ready, Report, is_gone
from ibi.archive.ledgers import batches
from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ibi.archive.holding import StoredFile
    from ibi.archive.intake.sources.record import Record
    from ibi.archive.item_lines import Draft
    from ibi.archive.keeper import Keeper
    from ibi.identifier.forms import IBIForms


class Refused(NamedTuple):
    """A record that was not taken in, and why: the line it starts in (0 without lines), what its source calls it."""

    line: int
    why: IbiError
    name: str = ""


class Intake:
    """Takes records into one Archive, in the name of `who`; `what` its history calls it.

    `refused` is told every record that is not taken in. `stage` copies the files of a draft in. A record that differs
    from what is held is refused; but with an `origin`, the name of another machine, an item that came from there before
    is given the facts of its record, and removed where its record says so.
    """

    def __init__(
        self,
        keeper: Keeper,
        who: str,
        refused: Callable[[Refused], None],
        stage: Callable[[Draft], Iterable[StoredFile]] = lambda _: (),
        *,
        what: str = "imported",
        origin: str = "",
    ) -> None:
        self._keeper = keeper
        self._who = who
        self._tell = refused
        self._stage = stage
        self._what = what
        self._origin = origin
        self.report = Report()

    def take(self, records: Sequence[Record]) -> None:
        """Take in a batch. Raises SetupError where the Archive cannot be written; then none of it has happened."""
        refusals: list[Refused] = []
        ready = self._prepared(records, refusals)
        if ready:
            batch = Batch(self._what, self._origin, Report())
            unneeded: list[StoredFile] = []
            with self._keeper.changing(self._who) as hand:
                batch.look(hand, ready)
                for item in ready:
                    try:
                        if not batch.put(hand, item):
                            unneeded += item.staged
                    except IbiError as error:
                        refusals.append(Refused(item.record.line, error, item.record.name))
                        unneeded += item.staged
                batch.flush(hand)
            for (
                staged
            ) in unneeded:  # not where the transaction failed: whoever comes next knows what is listed
                self._keeper.storage.discard(staged)
            for each in fields(Report):
                setattr(
                    self.report, each.name, getattr(self.report, each.name) + getattr(batch.report, each.name)
                )
        self.report.refused += len(refusals)
        for refusal in sorted(refusals, key=lambda refusal: refusal.line):
            self._tell(refusal)

    def _prepared(self, records: Sequence[Record], refusals: list[Refused]) -> list[Ready]:
        """The records that can be taken in, named and with their files copied in."""
        named = self._named(records)
        now = self._keeper.moment
        ready = []
        for record in records:
            draft = record.draft
            try:
                if isinstance(draft, IbiError):
                    raise draft
                forms = draft.forms or named.get(draft.key)
                if isinstance(forms, IbiError):
                    raise forms
                if forms is None:  # removed over there before it ever came here
                    self.report.unchanged += 1
                    continue
                staged = self._staged(draft) if draft.files else ()
            except IbiError as error:
                refusals.append(Refused(record.line, error, record.name))
                continue
            holding = draft.holding(forms, now)
            names = tuple(rows.look_up_key(name) for name in holding.names)
            ready.append(Ready(record, draft, holding, names, staged))
        return ready

    def _staged(self, draft: Draft) -> tuple[StoredFile, ...]:
        check_names(draft.files)
        staged: list[StoredFile] = []
        try:
            staged.extend(self._stage(draft))
        except IbiError:
            for file in staged:
                self._keeper.storage.discard(file)
            raise
        return tuple(staged)

    def _named(self, records: Sequence[Record]) -> dict[str, IBIForms | IbiError]:
        """The names of the items that come under keys, or why there are none: those they have, or new ones."""
        drafts = {
            record.draft.key: record.draft
            for record in records
            if not isinstance(record.draft, IbiError) and record.draft.forms is None
        }
        if not drafts:
            return {}
        with self._keeper.catalogue.reading() as run:
            named: dict[str, IBIForms | IbiError] = {**batches.forms_of_keys(run, list(drafts))}
        new = [
            key for key, draft in drafts.items() if key not in named and not (self._origin and is_gone(draft))
        ]
        try:
            return named | dict(zip(new, self._keeper.mint(len(new)), strict=True)) if new else named
        except IbiError as error:
            return named | dict.fromkeys(new, error)
