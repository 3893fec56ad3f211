"""Pair lists: the format of the body of every answer of a service (MSG-10 to MSG-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError, TextTooLong
from ibi.protocol import _grammar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Value = str | tuple[str, ...]
"""One word, or the tuple of the words between braces: `{rep x}` is ("rep", "x") and `{}` is ()."""

PairList = dict[str, Value]
"""Values by name."""

MAX_BODY: Final = 256 * 1024
"""Bytes of a text that is read as a pair list, wherever it comes from (T10: huge answers)."""
MAX_PAIRS: Final = _grammar.MAX_PAIRS
"""Pairs of an answer (T10: huge answers)."""
WHAT: Final = "pair list"


def read_pairs(body: bytes) -> PairList:
    """Read the body of an answer; an empty body has no pairs.

    Words are separated by blanks or line ends of any kind; braces may hold any number of words. Raises
    ParseError for characters that are not printable ASCII, stray or nested braces, a name without a value and
    a name given twice; raises TextTooLong for bodies over MAX_BODY bytes or MAX_PAIRS pairs.
    """
    if len(body) > MAX_BODY:
        raise TextTooLong(WHAT, "", "it is longer than {limit} bytes", limit=MAX_BODY)
    try:
        text = body.decode("ascii")
    except UnicodeDecodeError as fault:
        readable = body.decode("latin-1")
        raise ParseError(
            WHAT, readable, "only ASCII may stand in an answer", fault.start, fault.start + 1
        ) from None
    # One expression for the whole text is several times faster; only a faulty text is read pair by pair.
    pairs = _at_once(text)
    return _one_by_one(text) if pairs is None else pairs


def _at_once(text: str) -> PairList | None:
    """Read all pairs with one expression; None if there is a fault or a pair too many (see `_one_by_one`)."""
    if not _grammar.pair_list_match(text):
        return None
    # findall() starts at each blank at the end, which takes quadratic time: minutes for an answer of blanks.
    found = _grammar.every_pair(text.rstrip(" \t\r\n"))
    pairs: PairList = {name: word or tuple(words.split()) for name, word, words in found}
    return pairs if len(pairs) == len(found) else None


def _one_by_one(text: str) -> PairList:
    """Read pair by pair; raises ParseError at the first fault."""
    pairs: PairList = {}
    at, end = 0, len(text.rstrip(" \t\r\n"))
    while at < end:
        match = _grammar.next_pair(text, at)
        if match is None:
            raise ParseError(WHAT, text, "a name and its value are expected here", at)
        name, word, words = match.groups()
        if name in pairs:
            raise ParseError(WHAT, text, "this name is given twice", match.start(1), match.end(1))
        if len(pairs) == MAX_PAIRS:
            raise TextTooLong(WHAT, text, "it has more than {limit} pairs", limit=MAX_PAIRS)
        pairs[name] = word if words is None else tuple(words.split())
        at = match.end()
    return pairs


def write_pairs(pairs: Mapping[str, Value]) -> bytes:
    """Write a body: names in alphabetical order, CRLF between pairs, braces if not just one word.

    Raises ParseError for names and words that are not allowed in a body. See SVC-04: values of pairs.
    """
    words: list[str] = []
    lines: list[str] = []
    for name in sorted(pairs):
        value = pairs[name]
        words.append(name)
        if isinstance(value, str):
            words.append(value)
            lines.append(f"{name} {value}")
        else:
            words.extend(value)
            written = value[0] if len(value) == 1 else f"{{{' '.join(value)}}}"
            lines.append(f"{name} {written}")
    _check(words)
    return "\r\n".join(lines).encode("ascii")


def _check(words: Sequence[str]) -> None:
    """Raise ParseError for a word that no answer can have. All are checked at once first: most are good."""
    text = " ".join(words)
    if _grammar.pair_words_match(text) and text.count(" ") < len(words):
        return
    for word in words:
        if _grammar.pair_word_match(word) is None:
            raise ParseError(WHAT, word, "a word of an answer is printable ASCII without blanks and braces")
