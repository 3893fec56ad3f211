"""Verb lists, in persistent URLs and in URL requests to Archives (URL-07 to URL-10, AMB-28)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.errors import ParseError
from ibi.protocol.relation import Relation, parse_verb

if TYPE_CHECKING:
    from collections.abc import Iterable

GET_FILE_LIST: Final = "GetFileList"
_MAX_TEXT = 512  # characters of a verb list


class VerbList(NamedTuple):
    """Verbs in order, each in its canonical spelling; empty for the item itself."""

    verbs: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> VerbList:
        """Read a decoded list with blanks or "+" between the verbs. Raises ParseError for a word that is no verb."""
        if len(text) > _MAX_TEXT:
            raise ParseError(
                "verb list", text, "it is longer than {limit} characters", _MAX_TEXT, limit=_MAX_TEXT
            )
        return _read(text)

    @classmethod
    def of(cls, relation: Relation, *, file_list: bool = False) -> VerbList:
        """Return the verbs that ask for a relation."""
        return cls((*relation.verbs, GET_FILE_LIST) if file_list else relation.verbs)

    @property
    def relation(self) -> Relation:
        """The relation of all verbs but GetFileList. Raises ParseError for a wrong order (URL-10, AMB-42)."""
        return Relation.from_verbs([verb for verb in self.verbs if verb != GET_FILE_LIST])

    def union(self, later: Iterable[str]) -> VerbList:
        """Return all of these verbs, even repeated ones, then the new ones of `later` (URL-09, AMB-41)."""
        merged = list(self.verbs)
        merged.extend(verb for verb in dict.fromkeys(later) if verb not in self.verbs)
        return VerbList(tuple(merged))

    def __str__(self) -> str:
        return " ".join(self.verbs)


@lru_cache(maxsize=1024)
def _read(text: str) -> VerbList:
    words = [word for word in text.replace("+", " ").split(" ") if word]
    return VerbList(tuple(word if word == GET_FILE_LIST else parse_verb(word).spelled(1) for word in words))


NO_VERBS: Final = VerbList()
"""The list that asks for the item itself."""
