"""One record of a source, as an item or as the reason why it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.item_lines import Draft, keyed, read_item
from ibi.errors import BadItem, IbiError

if TYPE_CHECKING:
    from collections.abc import Mapping


_LONGEST_SHOWN: Final = 200


class Record(NamedTuple):
    """A record: the line it starts in (0 where there are no lines), what its source calls it, and the item.

    `read` is how many bytes of the source have been read so far.
    """

    line: int
    name: str
    draft: Draft | IbiError
    read: int


def record(line: int, name: str, value: Mapping[str, Any], read: int) -> Record:
    """The record of an object as it would stand in a JSON line (docs/contract.md)."""
    name = shown(name)
    try:
        whole(value)
        return Record(line, name, keyed(read_item(value), value), read)
    except IbiError as error:
        return Record(line, name, error, read)


def shown(text: str) -> str:
    """Somebody else's words, short and printable, for a report."""
    return "".join(char if char.isprintable() else "?" for char in text[:_LONGEST_SHOWN])


def whole(value: Any) -> None:
    """Refuse half a character, which no file or database can keep. Raises BadItem."""
    texts = [value]
    for each in texts:
        if isinstance(each, str):
            try:
                each.encode()
            except UnicodeEncodeError:
                raise BadItem("the text is not in the encoding that the rest of the file has") from None
        elif isinstance(each, dict):
            texts += [*each, *each.values()]
        elif isinstance(each, list):
            texts += each
