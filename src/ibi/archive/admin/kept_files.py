"""Keep the files of a form that is not finished as uploads of its librarian, for a day.

A form that comes back, for a row more or with an error, cannot bring its files again: a browser does not fill in
files. So they are kept, and the form names them: "<id of the upload> <name of the file>".
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.archive.api.uploads import MOST_UPLOADS
from ibi.archive.model.file_names import media_type
from ibi.archive.model.item import StoredFile
from ibi.errors import BadItem, NotHeld
from ibi.http.response import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.archive.api.uploads import Uploads
    from ibi.archive.store.item_store import ItemStore


MOST_KEPT: Final = MOST_UPLOADS - 10
"""Files that wait in one form; an account may have ten uploads more under way."""

_TOO_MANY: Final = 429  # the status of a refusal


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of a form: its upload, and the file that it becomes."""

    upload: str
    file: StoredFile

    @property
    def field(self) -> str:
        """The value of its field in the form."""
        return f"{self.upload} {self.file.name}"


class KeptFiles:
    """Files of forms of one Archive. Its methods may wait for the disk, so call them in a thread."""

    def __init__(self, item_store: ItemStore, uploads: Uploads) -> None:
        self._item_store = item_store
        self._uploads = uploads

    @property
    def moment(self) -> str:
        """The present time as a timestamp."""
        return self._item_store.moment

    def keep(self, who: str, files: Mapping[str, StoredFile], before: Sequence[str] = ()) -> list[str]:
        """Copy staged files into uploads; return the values of their fields.

        `before`: the fields of the form; uploads of the same names are deleted. Raises BadItem, OSError.
        """
        if len(files) + len(before) > MOST_KEPT:
            problem = "at most {most} files can wait in a form; send more of them with the deposit itself"
            raise BadItem(problem, name="file", most=MOST_KEPT)
        kept: list[str] = []
        for name, file in files.items():
            metadata = f"filename {b64encode(name.encode()).decode()}"
            with self._item_store.file_store.open(self._item_store.service, file) as source:
                try:
                    upload = self._uploads.make_complete(who, source, file.size, metadata)
                except Refusal as refusal:
                    if refusal.status != _TOO_MANY:
                        raise
                    problem = "too many files wait in forms of this account; deposit or remove some of them"
                    raise BadItem(problem, name="file") from refusal
            kept.append(f"{upload} {name}")
        for field in before:
            if field.partition(" ")[2] in files:
                self.drop(who, field)
        return kept

    def find(self, who: str, fields: Sequence[str]) -> list[KeptFile]:
        """Return the files of these fields that are still here; of two with one name, the later one."""
        found: dict[str, KeptFile] = {}
        for name, upload in named_uploads(fields).items():
            with suppress(NotHeld, Refusal):
                size = self._uploads.find(upload, who).length
                found[name] = KeptFile(upload, StoredFile(name, size, "", media_type(name)))
        return list(found.values())

    def drop(self, who: str, field: str) -> None:
        """Delete the upload of a field, if it is here."""
        with suppress(NotHeld, Refusal):
            self._uploads.delete(field.partition(" ")[0], who)


def named_uploads(fields: Sequence[str]) -> dict[str, str]:
    """Return the uploads of fields by the names of their files; of two with one name, the later one."""
    pairs = (each.partition(" ") for each in fields)
    return {name: upload for upload, _, name in pairs if name}
