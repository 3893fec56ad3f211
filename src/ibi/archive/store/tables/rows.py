"""Converts holdings to rows of the catalogue, and rows to holdings (pure).

The row of an item contains everything that is read with it: a link as its forms ("rep x ibip y"), a map of
links or of metadata as JSON. So an answer costs one look-up for each item in it.

A problem is stored as a sentence and its details, so that it can be translated for each person who reads it.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.errors import IbiError
from ibi.identifier.forms import IBIForms
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol.vocabulary import ContentType, ItemState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from _typeshed import DataclassInstance


_COLUMNS_OF: Final = {"forms": ("rep", "ibip"), "number": (), "files": ("file_count",)}
"""The columns of the attributes of an item that have no column of their name."""
ITEM_COLUMNS: Final = tuple(
    column for each in fields(Holding) for column in _COLUMNS_OF.get(each.name, (each.name,))
)
"""The columns of an item, in the order of its attributes; `read_item_row` expects its number before them."""

ITEM: Final = "item.number, " + ", ".join(f"item.{column}" for column in ITEM_COLUMNS)
"""The columns that a statement selects for `read_item_row`."""

FILE: Final = "name, size, sha256, media_type, staged"
"""The columns of a file that a statement selects for `read_item_row`."""

LISTED_FILE: Final = (
    "file.item, item.rep, item.ibip, file.name, file.size, file.sha256, file.media_type, file.staged"
)
"""The columns that a statement selects for `listed_file`."""

POSITION: Final = "SELECT number, word, rules FROM changed ORDER BY number DESC LIMIT 1"
"""Selects the last change, which is the position of an answer, and the rules that it is made by."""

FILE_COUNT: Final = 1 + ITEM_COLUMNS.index("file_count")

_LISTS: Final = tuple(
    1 + ITEM_COLUMNS.index(name) for name in ("aliases", "translations", "metadata", "formats", "institution")
)
FILE_CHARACTERS: Final = 64
"""Characters of an item's row that take as long to read as the row of one file."""

# Dicts, because calling an enumeration is slow, and each row that a urlRequest reads has three such values.
_ACCESS = {access.value: access for access in Access}
_STATES = {state.value: state for state in ItemState}
_CONTENT_TYPES = {content_type.value: content_type for content_type in ContentType}


class ListedFile(NamedTuple):
    """A file as the catalogue lists it, with the item that it belongs to."""

    item: int
    forms: IBIForms
    file: StoredFile


def names_of(holding: Holding) -> Iterator[tuple[str, bool]]:
    """Yield (name, main) for each canonical name of an item; by the main name items are sorted."""
    main = holding.forms.main
    for name in holding.names:
        yield name.canonical, name is main


# Both functions name each attribute once more, because a loop over attributes takes 2 us longer for each item.
def item_row(holding: Holding) -> tuple[Any, ...]:
    """Return the values of ITEM_COLUMNS, in their order."""
    forms = holding.forms
    return (
        str(forms.rep) if forms.rep else None,
        str(forms.ibip) if forms.ibip else None,
        " ".join(map(str, holding.aliases)) or None,
        holding.key or None,
        holding.state.value,
        holding.content_type.value,
        holding.timestamp,
        holding.language,
        holding.transferable,
        holding.url or None,
        len(holding.files),
        holding.target or None,
        holding.file_list_public,
        str(holding.next_edition) if holding.next_edition else None,
        write_json({language: str(forms) for language, forms in holding.translations.items()}),
        str(holding.metadata_item) if holding.metadata_item else None,
        write_json(holding.metadata),
        write_json(holding.formats),
        holding.access.value,
        holding.embargo or None,
        holding.rights or None,
        holding.licence or None,
        holding.reason or None,
        write_json(holding.institution),
        str(holding.replacement) if holding.replacement else None,
        holding.unsettled or None,
    )


def item_values(holding: Holding) -> dict[str, Any]:
    """Return the values of ITEM_COLUMNS by the names of their columns."""
    return dict(zip(ITEM_COLUMNS, item_row(holding), strict=True))


def size_of_row(row: Sequence[Any]) -> int:
    """Return how many characters `read_item_row` would have to parse; each file counts as 64."""
    return sum([len(row[place]) for place in _LISTS if row[place]]) + FILE_CHARACTERS * int(row[FILE_COUNT])


def read_item_row(row: Sequence[Any], files: Iterable[Sequence[Any]]) -> Holding:
    """Make a holding of a row (its number, then ITEM_COLUMNS) and of the rows of its files."""
    (
        number, rep, ibip, aliases, key, state, content_type, timestamp, language, transferable, url,
        _, target, file_list_public, next_edition, translations, metadata_item, metadata, formats,
        access, embargo, rights, licence, reason, institution, replacement, unsettled,
    ) = row  # fmt: skip
    return Holding(
        forms=forms_of(rep, ibip),
        number=number,
        aliases=tuple(map(LegacyId.parse, aliases.split(" "))) if aliases else (),
        key=key or "",
        state=_STATES[state],
        content_type=_CONTENT_TYPES[content_type],
        timestamp=timestamp,
        language=language,
        transferable=bool(transferable),
        url=url or "",
        files=tuple(
            [
                StoredFile(name, size, sha256, media_type, staged or "")
                for name, size, sha256, media_type, staged in files
            ]
        ),
        target=target or "",
        file_list_public=bool(file_list_public),
        next_edition=IBIForms.parse(next_edition) if next_edition else None,
        translations=_translations(translations) if translations else {},
        metadata_item=IBIForms.parse(metadata_item) if metadata_item else None,
        metadata=_metadata(metadata) if metadata else None,
        formats=json.loads(formats) if formats else {},
        access=_ACCESS[access],
        embargo=embargo or "",
        rights=rights or "",
        licence=licence or "",
        reason=reason or "",
        institution=json.loads(institution) if institution else {},
        replacement=IBIForms.parse(replacement) if replacement else None,
        unsettled=unsettled or "",
    )


def forms_of(rep: str | None, ibip: str | None) -> IBIForms:
    """Make the names of an item of its columns rep and ibip."""
    return IBIForms(UniformRepositoryName.parse(rep) if rep else None, IBIp.parse(ibip) if ibip else None)


def listed_file(row: Sequence[Any]) -> ListedFile:
    """Make a listed file of its row."""
    item, rep, ibip, name, size, sha256, media_type, staged = row
    file = StoredFile(name, size, sha256, media_type, staged or "")
    return ListedFile(item, forms_of(rep, ibip), file)


def upsert(table: str, key: str, columns: str, fixed: str = "") -> str:
    """Return the statement that inserts or replaces the row of a key. Columns are given as in SQL: "a, b".

    The `fixed` columns keep the values of the first insertion.
    """
    names = columns.split(", ")
    values = ", ".join(f":{name}" for name in names)
    changes = ", ".join(
        f"{name} = excluded.{name}" for name in names if name not in {*key.split(", "), *fixed.split(", ")}
    )
    return f"INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT ({key}) DO UPDATE SET {changes}"  # noqa: S608 - made of our own names


def write_record(record: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a record by the names of their columns, with the field `problem` as JSON."""
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    return values | {"problem": write_problem(values["problem"])} if "problem" in values else values


def record_values(columns: str, row: Sequence[Any]) -> dict[str, Any]:
    """Return the values of a row by the names of their columns; the column `problem` is read from JSON."""
    values = dict(zip(columns.split(", "), row, strict=True))
    return values | {"problem": read_problem(values["problem"])} if "problem" in values else values


def write_json(value: Mapping[str, Any] | None) -> str | None:
    """Return an object as JSON; None for an empty one."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else None


def _translations(text: str) -> dict[str, IBIForms]:
    return {language: IBIForms.parse(forms) for language, forms in json.loads(text).items()}


def _metadata(text: str) -> dict[str, tuple[MetadataValue, ...]]:
    return {
        element: tuple(MetadataValue(value, language) for value, language in statements)
        for element, statements in json.loads(text).items()
    }


def write_problem(problem: IbiError | None) -> str | None:
    """Return a problem as JSON; None if there is none."""
    return json.dumps(_written(problem), ensure_ascii=False) if problem is not None else None


def read_problem(text: str | None) -> IbiError | None:
    """Return the problem that `write_problem` wrote; None if there is none."""
    return _read(json.loads(text)) if text else None


def _written(problem: IbiError) -> dict[str, Any]:
    details: dict[str, Any] = {}
    for name, value in problem.details.items():
        if isinstance(value, IbiError):
            details[name] = _written(value)
        else:
            details[name] = value if isinstance(value, str | int | float) else str(value)
    return {"problem": problem.problem, "details": details}


def _read(value: dict[str, Any]) -> IbiError:
    details = {
        name: _read(each) if isinstance(each, dict) else each for name, each in value["details"].items()
    }
    return IbiError(value["problem"], **details)
