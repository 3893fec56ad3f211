"""Reads a folder that DSpace has exported (Simple Archive Format): a folder for each item, with its files.

Of the files, those of the bundle ORIGINAL are taken: not the extracted texts, thumbnails and deposit licences, which
DSpace makes or keeps for itself. What it notes for itself (provenance, when a record came in) is left out: it names
people who deposited. XML with a document type or an entity is refused (T23: hostile uploads).
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote
from xml.parsers import expat

from ibi.archive.ingest.sources.records import SourceRecord, printable, record
from ibi.archive.model.item import ELEMENTS
from ibi.archive.model.record_values import as_adviser, language_of, licence_among, without_html
from ibi.errors import BadItem, IbiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CORE: Final = "dublin_core.xml"
"""The file that every folder of an item has."""

LARGEST_RECORD: Final = 4 << 20
"""Bytes of the longest file of metadata of an item that is read."""

_OTHER_SCHEMAS: Final = "metadata_*.xml"
_BUNDLE: Final = "bundle:"
_ORIGINAL: Final = "ORIGINAL"
_KEPT_BY_DSPACE: Final = frozenset(
    {"date.accessioned", "date.available", "description.provenance", "format.mimetype"}
)
_AUTHORS: Final = frozenset({"contributor.author", "creator", "creator.author"})
_ADVISERS: Final = frozenset(
    {"contributor.advisor", "contributor.adviser", "contributor.advisor1", "contributor.orientador"}
)
_FIRST: Final = frozenset({"date.issued", "description.abstract", "publisher", "title", "identifier.uri"})
"""The values that stand before others of their element, because readers are shown the first one."""
_NUMBERS: Final = frozenset({"identifier.isbn", "identifier.issn"})
_NOT_OPEN: Final = re.compile(
    r"info:eu-repo/semantics/(?:embargoed|restricted|closed)Access|acesso (?:embargado|restrito|fechado)"
    r"|(?:embargoed|restricted|closed) access",
    re.IGNORECASE,
)
_REGISTERED: Final = re.compile(r"-r -s \S+ -f (?P<name>.+)")


class Statement(NamedTuple):
    """A value of the metadata: "contributor.author", its text, its language ("" without one)."""

    name: str
    text: str
    language: str = ""


def read_dspace(folder: Path, held_keys: Mapping[str, str]) -> Iterator[SourceRecord]:
    """Yield the items of an exported folder, in the order of the names of their folders.

    `held_keys`: handle -> key of the item that was harvested from the same DSpace before, which keeps its
    names. The paths of files are relative to `folder`. An item that cannot be read harms no other.
    """
    for core in sorted(folder.rglob(CORE), key=_by_number):
        item = core.parent
        name = str(item.relative_to(folder))
        try:
            yield _read_item(folder, item, held_keys)
        except (IbiError, OSError, UnicodeDecodeError) as error:
            reason = (
                error if isinstance(error, IbiError) else BadItem("it cannot be read: {reason}", reason=error)
            )
            yield SourceRecord(0, printable(name), reason, 0)


def _by_number(path: Path) -> list[tuple[int, str]]:
    """Return the sort key of a path: 2 before 10."""
    return [(int(part) if part.isascii() and part.isdecimal() else -1, part) for part in path.parts]


def _read_item(folder: Path, item: Path, held_keys: Mapping[str, str]) -> SourceRecord:
    statements = list(_statements(item / CORE))
    value = item_of(statements)
    handle_file = item / "handle"
    handle = handle_file.read_text(encoding="utf-8").strip() if handle_file.is_file() else ""
    if handle:
        value["key"] = held_keys.get(handle, handle)
    names, primary = _originals(item)
    if names:
        value["files"] = {quote(name): str((item / name).relative_to(folder)) for name in names}
        value["target"] = quote(primary or names[0])
    unread = [
        f"{path.stem.removeprefix('metadata_')}.{each.name}"
        for path in sorted(item.glob(_OTHER_SCHEMAS))
        for each in _statements(path)
    ]
    label = handle or str(item.relative_to(folder))
    return record(0, label, value, 0, list(dict.fromkeys(unread)))


def _originals(item: Path) -> tuple[list[str], str]:
    """Return the names of the files that people have deposited, and that of the primary one ("" without one)."""
    contents = item / "contents"
    if not contents.is_file():
        return [], ""
    names, primary = [], ""
    for line in contents.read_text(encoding="utf-8").splitlines():
        name, *properties = (part.strip() for part in line.split("\t"))
        bundles = [each.removeprefix(_BUNDLE) for each in properties if each.startswith(_BUNDLE)]
        if not name or bundles not in ([], [_ORIGINAL]):
            continue
        if found := _REGISTERED.fullmatch(name):
            name = found["name"]
        names.append(name)
        if "primary:true" in properties:
            primary = name
    return names, primary


def _statements(path: Path) -> Iterator[Statement]:
    """Yield the values of a file of metadata. Raises BadItem, and OSError if it cannot be read."""
    if path.stat().st_size > LARGEST_RECORD:
        raise BadItem("{path} has more than {limit} bytes", path=path.name, limit=LARGEST_RECORD)
    found: list[Statement] = []
    attributes: dict[str, str] = {}
    texts: list[str] = []

    def start(name: str, given: dict[str, str]) -> None:
        texts.clear()
        attributes.clear()
        if name == "dcvalue":
            attributes.update(given)

    def end(name: str) -> None:
        text = " ".join("".join(texts).split())
        if name == "dcvalue" and text:
            qualifier = attributes.get("qualifier", "none")
            element = attributes.get("element", "")
            whole = element if qualifier in {"", "none"} else f"{element}.{qualifier}"
            found.append(Statement(whole, text, attributes.get("language", "").replace("_", "-")))
        texts.clear()

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = texts.append
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(path.read_bytes(), True)  # noqa: FBT003 - expat takes no keywords
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise BadItem("{path} is not XML: {reason}", path=path.name, reason=str(error)) from None
    yield from found


def _refuse(*_: object) -> int:
    raise BadItem("the XML contains a document type or an entity, which is not accepted")


def item_of(statements: list[Statement]) -> dict[str, Any]:
    """Make the object of an item, as in a JSON line, of the values of its Dublin Core.

    What DSpace calls the author is the creator; an adviser is a contributor with this role. An item whose
    rights are not those of open access is closed, because the export does not say when or for whom it opens.
    """
    values: dict[str, list[Any]] = defaultdict(list)
    for each in sorted(statements, key=lambda each: each.name not in _FIRST):
        element = "creator" if each.name in _AUTHORS else each.name.partition(".")[0]
        if each.name in _KEPT_BY_DSPACE or element not in ELEMENTS:
            continue
        text = without_html(each.text)
        if each.name in _ADVISERS:
            text = as_adviser(text)
        elif each.name in _NUMBERS:
            text = f"{each.name.partition('.')[2].upper()} {text}"
        language = each.language if _LANGUAGE.fullmatch(each.language) else ""
        values[element].append({"value": text, "lang": language} if language else text)
    value: dict[str, Any] = {"metadata": dict(values)}
    rights = [each.text for each in statements if each.name.partition(".")[0] == "rights"]
    if licence := licence_among(rights):
        value["licence"] = licence
    if any(_NOT_OPEN.search(text) for text in rights):
        value["access"] = "closed"
    spoken = (language_of(each.text) for each in statements if each.name.partition(".")[0] == "language")
    if (tag := next(filter(None, spoken), None)) is not None:
        value["language"] = tag
    return value


_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
