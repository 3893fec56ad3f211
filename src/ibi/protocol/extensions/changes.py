"""The extension by which a resolver asks an Archive what has changed (docs/standard/extensions.md).

    resolver    GET /<Archive's service IBI>?changes.after=41.9f3c…&changes.word=5d1e…&servicesubject=changesRequest
    Archive     changes.word 5d1e…  changes.to 43.e2a4…  changes.names {8JMKD3MGP8W/35MMLL8 …}

A position, "<n>.<word>", stands for all that an Archive's store was up to its change number n. The word is drawn anew
for each change, so a store that was restored or rolled back does not find a position that it has lost. Positions are
compared as texts, for sameness only; the number means nothing to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, final

from ibi.errors import ParseError, PeerSilent
from ibi.identifier.forms import parse_name
from ibi.protocol import _grammar
from ibi.protocol import vocabulary as terms
from ibi.protocol.pair_list import PairList, read_pairs, write_pairs
from ibi.protocol.query_string import write_query
from ibi.protocol.vocabulary import Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ibi.protocol.pair_list import Value

MOST_RESTS: Final = 16
"""Names on which an answer with a position may rest, beside the requested one."""

MOST_NAMES: Final = 500
"""Names in one reply to a `ChangesRequest`."""

LONGEST_VALIDITY: Final = 86_400
"""Seconds after which an answer is asked for anew at the latest, although nothing it rests on has changed."""

_OK: Final = 200
_NOT_NOW: Final = frozenset({429, 502, 503, 504})


@final
class Position(NamedTuple):
    """A position as the Archive reads it: the number of a change, and the word that was drawn for it."""

    number: int
    word: str

    def __str__(self) -> str:
        return f"{self.number}.{self.word}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse "<n>.<word>". Raises ParseError."""
        number, _, word = checked_position(text).partition(".")
        return cls(int(number), word)


def checked_position(text: str) -> str:
    """Return a position as it is. Raises ParseError for any other text."""
    if _grammar.position_match(text) is None:
        raise ParseError("position", text, "a position is a number, a full stop and 16 hexadecimal digits")
    return text


@final
@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """A resolver's request for the names of all items that an Archive has changed after a position.

    `word`: 16 hexadecimal digits, new for each request. `after`: the position up to which the resolver has applied
    all changes; "" at the first contact.
    """

    word: str
    after: str = ""

    def query(self) -> str:
        """The query string, names in alphabetical order."""
        pairs = [
            (terms.CHANGES_AFTER, self.after),
            (terms.CHANGES_WORD, self.word),
            (terms.SERVICE_SUBJECT, Subject.CHANGES.value),
        ]
        return write_query((name, value) for name, value in pairs if value)

    @classmethod
    def of(cls, values: Mapping[str, str]) -> ChangesRequest:
        """Read from decoded pairs. Raises ParseError."""
        after = values.get(terms.CHANGES_AFTER)
        return cls(
            _checked_word(values.get(terms.CHANGES_WORD, "")),
            "" if after is None else checked_position(after),
        )


@final
@dataclass(frozen=True, slots=True)
class ChangesReply:
    """An Archive's reply: `names` are those of all items that it changed after `after` up to the position `to`.

    `names`: canonical, at most MOST_NAMES; None if anything may have changed, and then `to` is the last change.
    `more`: later changes are left, so the resolver asks again.
    """

    word: str
    to: str
    names: tuple[str, ...] | None = ()
    more: bool = False

    def body(self) -> bytes:
        """Return the body."""
        pairs: PairList = {terms.CHANGES_WORD: self.word, terms.CHANGES_TO: self.to}
        if self.names is None:
            pairs[terms.CHANGES_ANYTHING] = "yes"
        elif self.names:
            pairs[terms.CHANGES_NAMES] = self.names
        if self.more:
            pairs[terms.CHANGES_MORE] = "yes"
        return write_pairs(pairs)

    @classmethod
    def of(cls, status: int, body: bytes, word: str) -> ChangesReply:
        """Read an HTTP response to the request with this word.

        Raises PeerSilent if the Archive cannot reply now, ParseError if it does not know the request.
        """
        if status in _NOT_NOW:
            raise PeerSilent("it answered with status {status}", status=status)
        if status != _OK:
            raise ParseError("reply", str(status), "this is not the reply that was expected")
        return cls.read(body, word)

    @classmethod
    def read(cls, body: bytes, word: str) -> ChangesReply:
        """Read a body. Raises ParseError if it is not the reply to the request with this word."""
        pairs = read_pairs(body)
        if pairs.get(terms.CHANGES_WORD) != _checked_word(word):
            raise ParseError("reply", body.decode("latin-1"), "this is not the reply that was expected")
        to, more = pairs.get(terms.CHANGES_TO), _flag(pairs, terms.CHANGES_MORE)
        names = (
            None if _flag(pairs, terms.CHANGES_ANYTHING) else _canonical(pairs.get(terms.CHANGES_NAMES, ()))
        )
        if names is None and (more or terms.CHANGES_NAMES in pairs):
            raise ParseError("reply", "", "a reply says that anything has changed, or which names")
        if names is not None and len(names) > MOST_NAMES:
            raise ParseError("reply", "", "a reply has at most {limit} names", limit=MOST_NAMES)
        return cls(word, checked_position(to if isinstance(to, str) else ""), names, more)


@final
class Validity(NamedTuple):
    """What an answer says about how long it may be reused by a resolver that asks for changes.

    `position`: the last change in the snapshot of the store from which all of the answer was read. `rests`: the
    canonical names, beside the requested one, that were looked up for it, found or not. `seconds`: when it ends,
    counted from the moment it was asked for.
    """

    position: str
    rests: tuple[str, ...] = ()
    seconds: int = LONGEST_VALIDITY

    def pairs(self) -> PairList:
        """Return its pairs of the answer; none if it rests on more than MOST_RESTS names."""
        if len(self.rests) > MOST_RESTS:
            return {}
        pairs: PairList = {terms.CHANGES_AS_OF: self.position}
        if self.rests:
            pairs[terms.CHANGES_RESTS] = self.rests
        if self.seconds != LONGEST_VALIDITY:
            pairs[terms.CHANGES_SECONDS] = str(self.seconds)
        return pairs

    @classmethod
    def of(cls, pairs: Mapping[str, Value]) -> Validity | None:
        """Read the pairs of an answer; None if it has no position, or says anything about it that is not allowed."""
        position, seconds = pairs.get(terms.CHANGES_AS_OF), pairs.get(terms.CHANGES_SECONDS)
        if position is None:
            return None
        try:
            rests = _canonical(pairs.get(terms.CHANGES_RESTS, ()))
            checked = checked_position(position if isinstance(position, str) else "")
        except ParseError:
            return None
        if len(rests) > MOST_RESTS:
            return None
        if seconds is None:
            return cls(checked, rests)
        if not isinstance(seconds, str) or _grammar.seconds_match(seconds) is None:
            return None
        return cls(checked, rests, min(int(seconds), LONGEST_VALIDITY))


def _checked_word(text: str) -> str:
    if _grammar.change_word_match(text) is None:
        raise ParseError("request", text, "the word of a request for changes is 16 hexadecimal digits")
    return text


def _canonical(value: Value) -> tuple[str, ...]:
    words: Iterable[str] = value.split() if isinstance(value, str) else value
    return tuple([parse_name(word).canonical for word in words])


def _flag(pairs: Mapping[str, Value], name: str) -> bool:
    value = pairs.get(name)
    if value not in {None, "yes"}:
        raise ParseError("reply", name, "the only value of this pair is yes")
    return value is not None
