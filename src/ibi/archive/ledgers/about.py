"""What pages about items ask of the catalogue besides the items: what came before, how files are, what is newest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.rows import forms_of
from ibi.identifier.forms import IBIForms

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run
    from ibi.archive.holding import StoredFile

_EARLIER: Final = (
    "SELECT rep, ibip FROM item WHERE next_edition IN (:both, :rep, :ibip) ORDER BY number LIMIT :most"
)
_FIXITY: Final = "SELECT name, sha256, read, good, fault FROM fixity WHERE item = :item"
_NEWEST: Final = (
    "SELECT rep, ibip FROM item WHERE state <> 'Deleted' AND content_type = 'Data'"
    " ORDER BY number DESC LIMIT :most"
)


_LAST_CHANGE: Final = "SELECT coalesce(max(number), 0) FROM changed"


class Checked(NamedTuple):
    """What the last audit of a file said: of which digest, when it was read, when it was last good, and any fault.

    Moments are as in "2026-11-21T10:00:00Z"; "" where there is none.
    """

    sha256: str
    read: str
    good: str
    fault: str

    def speaks_of(self, file: StoredFile) -> bool:
        """Whether the file is still the one that was read."""
        return self.sha256 == file.sha256


def last_change(run: Run) -> int:
    """A number that goes up with whatever happens to any item."""
    return int(run(_LAST_CHANGE).fetchone()[0])


def earlier(run: Run, forms: IBIForms, most: int) -> list[IBIForms]:
    """The items whose next edition is the item of these names, those first that came first."""
    alone = [IBIForms.of(form) for form in (forms.rep, forms.ibip) if form]
    said = [str(each) for each in (forms, *alone)]
    rows = run(_EARLIER, *(said * 3)[:3], most).fetchall()
    return [forms_of(*row) for row in rows]


def fixity_of(run: Run, item: int) -> dict[str, Checked]:
    """What is known of the files of an item, by their names."""
    rows = run(_FIXITY, item).fetchall()
    return {row[0]: Checked(row[1], row[2], row[3] or "", row[4] or "") for row in rows}


def newest(run: Run, most: int) -> list[IBIForms]:
    """The items that came last, removed ones left out; the last one first."""
    return [forms_of(*row) for row in run(_NEWEST, most).fetchall()]
