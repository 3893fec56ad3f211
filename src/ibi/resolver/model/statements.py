"""Statements: the answer of each Archive in a resolution, in words for explanations and alerts (RES-13); pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ibi.errors import ForbiddenAddress, IbiError, PeerSilent, QueryNotSent, ResponseNotRead
from ibi.protocol.vocabulary import (
    ARCHIVE_SERVICE,
    FARTHEST_EDITION,
    IBI,
    PLATFORM_SOFTWARE,
    STATE,
    URL,
    URL_KEY,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.protocol.pair_list import Value
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.model.suggestion import Say

What = Literal[
    "original",
    "copy",
    "url list",
    "removed",
    "garbled",
    "silent",
    "not asked",
    "not waited for",
    "nothing known",
]
"""What an Archive can say, as programs read it; the most informative first."""

Answered = Literal["url list", "nothing known", "silent"]
"""What an Archive has answered, whether it is believed or not."""

WORDS: Final[dict[What, str]] = {
    "original": "it holds the original",
    "copy": "it holds a copy",
    "url list": "it knows the item",
    "removed": "it says that the item was removed",
    "garbled": "what it answered is not a valid answer",
    "silent": "no answer",
    "not asked": "it was not queried",
    "not waited for": "not waited for",
    "nothing known": "it does not know the item",
}
"""The same, as a person reads it."""

OTHERS: Final = "Others: {number}"
"""The number of the other Archives, where some are named."""
ARCHIVES: Final = "Archives: {number}"
"""The number of Archives, where none is named."""


_ROOT: Final = re.compile(r"https?://([0-9A-Za-z.-]+)(?::[0-9]{1,5})?", re.ASCII).fullmatch
_DECIDING: Final = frozenset({URL, STATE, IBI})
_OF_THE_ARCHIVE: Final = frozenset({ARCHIVE_SERVICE, PLATFORM_SOFTWARE})


class ArchiveStatement(NamedTuple):
    """What one Archive said in one round, `milliseconds` after it began; or before, if it was cached."""

    archive: str
    address: str
    what: What
    why: IbiError | None = None
    """Why there is no answer, or why it was not believed."""
    milliseconds: int = 0
    answered: Answered = "silent"
    """What it has answered, whether believed or not."""
    again: bool = False
    """Whether the answer came from the cache."""
    answer: UrlList | None = None
    """The whole answer, where it is to be shown."""
    claimed_root: str | None = None
    """The root of its URLs, as its answer claims."""

    @property
    def root(self) -> str:
        """The root of the Archive's URLs; its claim counts for scheme and port, not for another host."""
        host = self.address.partition(":")[0]
        match = _ROOT(self.claimed_root or "")
        return match[0] if match and match[1].lower() == host.lower() else f"http://{self.address}"

    @property
    def pairs(self) -> dict[str, Value]:
        """The pairs of the answer that are shown."""
        # With the URL key, any reader of the page could send an acknowledgment of a visit that never was.
        pairs = {} if self.answer is None else self.answer.pairs
        return {name: value for name, value in pairs.items() if name != URL_KEY}

    @property
    def deciding(self) -> list[tuple[str, str]]:
        """The pairs that decide a resolution: URLs, states, and the items that a further round asks for."""
        return [
            (name, value if isinstance(value, str) else " ".join(value))
            for name, value in self.pairs.items()
            if (name.partition(".")[0] in _DECIDING and name not in _OF_THE_ARCHIVE)
            or name == FARTHEST_EDITION
        ]

    def words(self, say: Say) -> str:
        """Return the statement in words, with the reason."""
        sentence = say(WORDS[self.what], {})
        return sentence if self.why is None else f"{sentence}: {say(self.why.problem, self.why.details)}"


def roots_of(statements: Iterable[ArchiveStatement]) -> dict[str, str]:
    """Return the root of the URLs of each Archive that has claimed one, by the name of its service."""
    return {each.archive: each.root for each in statements if each.claimed_root is not None}


class RoundStatements(NamedTuple):
    """One round: its query, the statements of the `named` Archives, and how many `others` said what.

    `number`: the number of the round, from 1.
    """

    number: int
    ibi: str
    verbs: tuple[str, ...]
    file_path: str
    named: tuple[ArchiveStatement, ...]
    others: tuple[tuple[What, int], ...]

    @property
    def counted(self) -> str:
        """The sentence for the Archives that are only counted."""
        return OTHERS if self.named else ARCHIVES

    @property
    def wanted(self) -> str:
        """The query in one line."""
        return " ".join((self.ibi, *self.verbs, self.file_path)).rstrip()


@dataclass(frozen=True, slots=True)
class Statements:
    """What Archives said in the rounds that led to an alert; if there were very many, in the last ones."""

    rounds: tuple[RoundStatements, ...]

    @property
    def named(self) -> int:
        """How many statements of named Archives it has."""
        return sum(len(one_round.named) for one_round in self.rounds)

    @property
    def roots(self) -> dict[str, str]:
        """The root of the URLs of each named Archive that has claimed one, by the name of its service."""
        return roots_of(each for one_round in self.rounds for each in one_round.named)

    def as_dict(self, say: Say) -> dict[str, Any]:
        """Return further members of a problem in JSON (RFC 9457)."""
        statements = [
            {
                "round": one_round.number,
                "archive": each.archive,
                "says": each.what,
                "sentence": say(WORDS[each.what], {}),
                "why": "" if each.why is None else say(each.why.problem, each.why.details),
            }
            for one_round in self.rounds
            for each in one_round.named
        ]
        others = [
            {"round": one_round.number, "says": what, "sentence": say(WORDS[what], {}), "number": count}
            for one_round in self.rounds
            for what, count in one_round.others
        ]
        return {"statements": statements} | ({"others": others} if others else {})

    def lines(self, say: Say) -> list[str]:
        """Return the lines for plain text."""
        lines = []
        for one_round in self.rounds:
            if len(self.rounds) > 1:
                which = {"number": one_round.number, "wanted": one_round.wanted}
                lines += [say("Round {number}: {wanted}", which)]
            lines += [f"  {each.archive}: {each.words(say)}" for each in one_round.named]
            lines += [
                f"  {say(one_round.counted, {'number': count})}: {say(WORDS[what], {})}"
                for what, count in one_round.others
            ]
        return lines


def silence(why: IbiError) -> What:
    """Return what an Archive "said" that gave no answer that counts, for this reason."""
    if isinstance(why, QueryNotSent | ForbiddenAddress) and not isinstance(why, ResponseNotRead):
        return "not asked"
    return "silent" if isinstance(why, PeerSilent) else "garbled"
