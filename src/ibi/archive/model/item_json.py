"""Reads and writes items as JSON lines: each field is checked on its own, then all of them together (pure).

A line is one object. A link is an IBI ("sid.inpe.br/…"), or both its forms ("rep … ibip …") if answers should
have both. The fields are described in docs/reference/formats.md, and by `ibi archive import --help`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from math import floor
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.file_names import listed_name
from ibi.archive.model.item import Access, Holding
from ibi.archive.model.item_fields import BY_NAME, ITEM_FIELDS, read_mapping, read_text
from ibi.errors import BadItem, ParseError
from ibi.identifier.forms import IBIForms
from ibi.identifier.ibip import IBIp
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ibi.archive.model.item import StoredFile


def read_facts(value: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields that are attributes of a holding; returns values by attribute. Raises BadItem."""
    facts = {}
    for name, given in value.items():
        field = BY_NAME.get(name)
        if field is None:
            continue
        try:
            facts[field.attribute] = field.read(given, name)
        except ParseError as error:
            raise BadItem("{where}: {reason}", where=name, reason=error) from None
    return facts


def usual_facts(names: Iterable[str]) -> dict[str, Any]:
    """Return the default values of these fields, by attribute."""
    return {BY_NAME[name].attribute: _DEFAULTS[BY_NAME[name].attribute] for name in names}


def check_facts(facts: Mapping[str, Any], files: Collection[str]) -> None:
    """Refuse facts of an item that contradict each other; `files`: the names of its files. Raises BadItem."""
    if facts.get("url") and files:
        raise BadItem("an item lives at a url or has files, not both")
    if facts.get("target") and facts["target"] not in files:
        raise BadItem("the target {name} is not among the files", name=facts["target"])
    embargoed = facts.get("access") is Access.EMBARGOED
    if embargoed != bool(facts.get("embargo")):
        raise BadItem(
            "{name} is the day on which an embargoed item opens; no other item has one", name="embargo"
        )
    if facts.get("reason") and facts.get("state") is not ItemState.DELETED:
        raise BadItem("only a removed item has a reason for its removal")
    if facts.get("replacement") and facts.get("state") is not ItemState.DELETED:
        raise BadItem("only a removed item has another one in its place")
    if facts.get("state") is ItemState.DELETED and (files or facts.get("url")):
        raise BadItem("a removed item has neither url nor files")


LONGEST_LINE: Final = 1 << 20
"""Bytes of the longest line that is read."""

CONTENT_KEY: Final = "sha256:"
"""The beginning of a key that is the hash of a description."""

_LONGEST_KEY = 512  # characters of a depositor's own key


@dataclass(frozen=True, slots=True)
class Draft:
    """An item as a line describes it. Missing names are minted; a missing timestamp becomes the present time.

    `files`: the path of each file, relative to the folder of the imported file, by its percent-encoded name.
    """

    forms: IBIForms | None
    key: str
    timestamp: str | None
    files: Mapping[str, str]
    facts: Mapping[str, Any]

    def holding(self, forms: IBIForms, timestamp: str, files: tuple[StoredFile, ...] = ()) -> Holding:
        """Return the item, with these names and files, and with this timestamp if the line has none."""
        return Holding(
            forms=forms, key=self.key, timestamp=self.timestamp or timestamp, files=files, **self.facts
        )


def read_line(line: bytes) -> Draft:
    """Read one line. Raises BadItem or ParseError with the reason."""
    try:
        value = _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        raise BadItem("the line is not JSON") from None
    if not isinstance(value, dict):
        raise BadItem("the line is not a JSON object")
    draft = read_item(value)
    if b"\\u" in line:
        # A JSON text can hold half a surrogate pair, which no file or database can store.
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadItem("the line has half a character in it") from None
    return keyed(draft, value)


def keyed(draft: Draft, value: Mapping[str, Any]) -> Draft:
    """Give a draft without names and key the hash of its content as key, to find it again (note 11)."""
    if draft.forms is not None or draft.key:
        return draft
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return replace(draft, key=f"{CONTENT_KEY}{hashlib.sha256(canonical.encode()).hexdigest()}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object. Raises BadItem for a name that occurs twice: one of its values would be lost."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise BadItem("a name stands twice in one object")
    return value


def read_item(value: Mapping[str, Any]) -> Draft:
    """Read the object of one item. Raises BadItem or ParseError."""
    odd = sorted(set(value) - FIELDS)
    if odd:
        raise BadItem("there is no field {name}", name=odd[0])
    rep = UniformRepositoryName.parse(read_text(value["rep"], "rep")) if "rep" in value else None
    ibip = IBIp.parse(read_text(value["ibip"], "ibip")) if "ibip" in value else None
    forms = IBIForms(rep, ibip) if rep or ibip else None
    facts = read_facts(value)
    files = read_mapping(value["files"], "files") if "files" in value else {}
    if facts.get("target"):
        facts["target"] = listed_name(facts["target"], files)
    check_facts(facts, files)
    key = _key(value.get("key", ""), "key")
    timestamp = _timestamp(value["timestamp"], "timestamp") if "timestamp" in value else None
    return Draft(forms, key, timestamp, files, facts)


def write_item(holding: Holding) -> dict[str, Any]:
    """Return an item as the object of a line, without default values; files have size, SHA-256 and type."""
    forms = holding.forms
    value: dict[str, Any] = {
        "rep": forms.rep and str(forms.rep),
        "ibip": forms.ibip and str(forms.ibip),
        "key": holding.key,
        "timestamp": holding.timestamp,
        "files": {
            file.name: {"size": file.size, "sha256": file.sha256, "type": file.media_type}
            for file in holding.files
        },
    }
    for name, attribute, write, usual in _WRITTEN:
        fact = getattr(holding, attribute)
        if fact != usual:
            value[name] = write(fact)
    return {name: value[name] for name in _ORDER if name in value and value[name] not in _EMPTY}


def timestamp_text(seconds: float) -> str:
    """Return a moment (POSIX seconds) as a timestamp: "2014-01-02T17:23:57Z"."""
    return _of_second(floor(seconds))


@lru_cache(maxsize=16)  # an import asks for that of the present second with each item
def _of_second(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _key(value: Any, name: str) -> str:
    text = read_text(value, name)
    if len(text) > _LONGEST_KEY or not text.isprintable():
        raise BadItem("{name} is a short printable text", name=name)
    return text


def _timestamp(value: Any, name: str) -> str:
    """Read any ISO 8601 moment; returns it in UTC, without a fraction (AMB-57: dates in UTC)."""
    try:
        moment = datetime.fromisoformat(read_text(value, name))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return f"{moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"
    except (ValueError, OverflowError):
        raise BadItem("{name} is a moment such as 2009-07-21T13:23:45Z", name=name) from None


# Made once, because json.loads with a hook would make a decoder for each line.
_DECODER = json.JSONDecoder(object_pairs_hook=_once)
FACTS: Final = frozenset(BY_NAME)
"""The names of the fields that are attributes of a holding."""
FIELDS: Final = frozenset({*FACTS, "rep", "ibip", "key", "timestamp", "files"})
"""The names that a description of an item may have; any other is refused."""

_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
_DEFAULTS: Final = {each.name: {} if each.default is MISSING else each.default for each in fields(Holding)}
_WRITTEN: Final = [(each.name, each.attribute, each.write, _DEFAULTS[each.attribute]) for each in ITEM_FIELDS]
_ORDER: Final = (
    "rep", "ibip", "aliases", "key", "state", "contenttype", "timestamp", "language", "transferable", "url", "files",
    *(each.name for each in ITEM_FIELDS if each.name not in {
        "aliases", "state", "contenttype", "language", "transferable", "url",
    }),
)  # fmt: skip
"""The order of the fields in a line. A new field comes last, so that lines of older items do not change."""
