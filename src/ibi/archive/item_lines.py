"""Items as JSON lines: one object a line, as docs and `ibi archive import --help` describe them (pure).

    rep, ibip, aliases, key, state, contenttype, timestamp, language, transferable, url, files, target,
    file_list_public, next_edition, translations, metadata_item, metadata, formats,
    access, embargo, rights, licence, reason

A link is an IBI ("sid.inpe.br/…"), or both its forms where the answers shall say both ("rep … ibip …").
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.facts import FACTS, check_facts, read_facts, read_mapping, read_text
from ibi.archive.holding import Holding
from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms
from ibi.identifier.ibip import IBIp
from ibi.identifier.repository import UniformRepositoryName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.archive.holding import Statement, StoredFile

LONGEST_LINE: Final = 1 << 20
"""Bytes of the longest line that is read."""

_LONGEST_KEY = 512


@dataclass(frozen=True, slots=True)
class Draft:
    """An item as a line describes it: without labels it shall be given some, without timestamp the present one.

    `files`: where each file lies, relative to the folder of the lines, by its percent-encoded name.
    """

    forms: IBIForms | None
    key: str
    timestamp: str | None
    files: Mapping[str, str]
    facts: Mapping[str, Any]

    def holding(self, forms: IBIForms, timestamp: str, files: tuple[StoredFile, ...] = ()) -> Holding:
        """The item, with what the line left open."""
        return Holding(
            forms=forms, key=self.key, timestamp=self.timestamp or timestamp, files=files, **self.facts
        )


def read_line(line: bytes) -> Draft:
    """Read one line. Raises BadItem or ParseError, which say what is wrong with it."""
    try:
        value = _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        raise BadItem("the line is not JSON") from None
    if not isinstance(value, dict):
        raise BadItem("the line is not a JSON object")
    draft = read_item(value)
    if b"\\u" in line:
        _whole_characters(value)
    return keyed(draft, value)


def keyed(draft: Draft, value: Mapping[str, Any]) -> Draft:
    """The draft of an object that may come again: without names and key, what it says is its key (note 11)."""
    if draft.forms is not None or draft.key:
        return draft
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return replace(draft, key=f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}")


def _whole_characters(value: Any) -> None:
    """Refuse half a surrogate pair, which JSON can write and no file or database can keep."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadItem("the line has half a character in it") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a name that stands twice would lose a value in silence."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise BadItem("a name stands twice in one object")
    return value


def read_item(value: Mapping[str, Any]) -> Draft:
    """Read the object of one item. Raises BadItem or ParseError."""
    odd = sorted(set(value) - _FIELDS)
    if odd:
        raise BadItem("there is no field {name}", name=odd[0])
    rep, ibip = _optional_text(value, "rep"), _optional_text(value, "ibip")
    forms = None
    if rep is not None or ibip is not None:
        forms = IBIForms(
            UniformRepositoryName.parse(rep) if rep is not None else None,
            IBIp.parse(ibip) if ibip is not None else None,
        )
    facts = read_facts(value)
    files = read_mapping(value.get("files", {}), "files")
    check_facts(facts, files)
    key = _key(value.get("key", ""), "key")
    timestamp = _timestamp(value["timestamp"], "timestamp") if "timestamp" in value else None
    return Draft(forms, key, timestamp, files, facts)


def write_item(holding: Holding) -> dict[str, Any]:
    """An item as such an object; what has its usual value is left out. Of files it tells size, SHA-256 and type."""
    forms = holding.forms
    value = {
        "rep": forms.rep and str(forms.rep),
        "ibip": forms.ibip and str(forms.ibip),
        "aliases": [str(alias) for alias in holding.aliases],
        "key": holding.key,
        "state": holding.state.value,
        "contenttype": holding.content_type.value,
        "timestamp": holding.timestamp,
        "language": holding.language,
        "transferable": holding.transferable,
        "url": holding.url,
        "files": {
            file.name: {"size": file.size, "sha256": file.sha256, "type": file.media_type}
            for file in holding.files
        },
        "target": holding.target,
        "file_list_public": holding.file_list_public,
        "next_edition": _written(holding.next_edition),
        "translations": {tag: _written(link) for tag, link in holding.translations.items()},
        "metadata_item": _written(holding.metadata_item),
        "metadata": {
            name: [_said(each) for each in values] for name, values in (holding.metadata or {}).items()
        },
        "formats": dict(holding.formats),
        "access": holding.access.value,
        "embargo": holding.embargo,
        "rights": holding.rights,
        "licence": holding.licence,
        "reason": holding.reason,
    }
    return {name: each for name, each in value.items() if each not in (None, "", [], {}, _USUAL.get(name))}


def _written(link: IBIForms | None) -> str | None:
    if link is None:
        return None
    return str(link) if link.rep and link.ibip else str(link.main)


def _said(statement: Statement) -> Any:
    return {"value": statement.value, "lang": statement.language} if statement.language else statement.value


_USUAL = {
    "state": "Original", "contenttype": "Data", "transferable": True, "file_list_public": True, "access": "open",
}  # fmt: skip


def timestamp_text(seconds: float) -> str:
    """A moment (POSIX seconds) as timestamps are written: "2014-01-02T17:23:57Z"."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _optional_text(value: Mapping[str, Any], name: str) -> str | None:
    return read_text(value[name], name) if name in value else None


def _key(value: Any, name: str) -> str:
    text = read_text(value, name)
    if len(text) > _LONGEST_KEY or not text.isprintable():
        raise BadItem("{name} is a short printable text", name=name)
    return text


def _timestamp(value: Any, name: str) -> str:
    """Any ISO 8601 moment, in UTC and without a fraction (AMB-57)."""
    try:
        moment = datetime.fromisoformat(read_text(value, name))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return f"{moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"
    except (ValueError, OverflowError):
        raise BadItem("{name} is a moment such as 2009-07-21T13:23:45Z", name=name) from None


_DECODER = json.JSONDecoder(object_pairs_hook=_once)  # made once: json.loads would make one for each line
_FIELDS = frozenset({*FACTS, "rep", "ibip", "key", "timestamp", "files"})
