"""What each Archive said before a reader was told that there is no way on (RES-13): pure values.

Explanations and alerts use the same words for it.
"""

from __future__ import annotations

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
"""What an Archive can say, as programs read it; the first ones tell most."""

Answered = Literal["url list", "nothing known", "silent"]
"""What came of an Archive, whether it is believed or not."""

WORDS: Final[dict[What, str]] = {
    "original": "it holds the original",
    "copy": "it holds a copy",
    "url list": "it knows the item",
    "removed": "it says that the item was removed",
    "garbled": "what it answered is no answer",
    "silent": "no answer",
    "not asked": "it was not asked",
    "not waited for": "not waited for",
    "nothing known": "it does not know the item",
}
"""The same, as a person reads it."""

OTHERS: Final = "Others: {number}"
"""Those that are counted where some are named."""
ARCHIVES: Final = "Archives: {number}"
"""Those that are counted where none is named."""


_DECIDING: Final = frozenset({URL, STATE, IBI})
_OF_THE_ARCHIVE: Final = frozenset({ARCHIVE_SERVICE, PLATFORM_SOFTWARE})


class ArchiveStatement(NamedTuple):
    """What one Archive said in one round, `milliseconds` after it began, or had said a moment before."""

    archive: str
    address: str
    what: What
    why: IbiError | None = None
    """Why there is no answer, or why it was not believed."""
    milliseconds: int = 0
    answered: Answered = "silent"
    """What came, whether believed or not."""
    again: bool = False
    """Whether the answer came from the cache."""
    answer: UrlList | None = None
    """The whole answer, where it is to be shown."""

    @property
    def pairs(self) -> dict[str, Value]:
        """The pairs of the answer that are shown."""
        # The key for acknowledgments would let any reader of the page confirm a visit that never was.
        pairs = {} if self.answer is None else self.answer.pairs
        return {name: value for name, value in pairs.items() if name != URL_KEY}

    @property
    def deciding(self) -> list[tuple[str, str]]:
        """Those pairs by which a resolution goes: URLs, states, and the items that a further round asks for."""
        return [
            (name, value if isinstance(value, str) else " ".join(value))
            for name, value in self.pairs.items()
            if (name.partition(".")[0] in _DECIDING and name not in _OF_THE_ARCHIVE)
            or name == FARTHEST_EDITION
        ]

    def words(self, say: Say) -> str:
        """It in words, with the reason."""
        sentence = say(WORDS[self.what], {})
        return sentence if self.why is None else f"{sentence}: {say(self.why.problem, self.why.details)}"


class RoundStatements(NamedTuple):
    """One round: what was asked, what those said that are named, and how many others said what.

    `number`: which round it was, from 1.
    """

    number: int
    ibi: str
    verbs: tuple[str, ...]
    file_path: str
    named: tuple[ArchiveStatement, ...]
    others: tuple[tuple[What, int], ...]

    @property
    def counted(self) -> str:
        """How those are called that are only counted."""
        return OTHERS if self.named else ARCHIVES

    @property
    def wanted(self) -> str:
        """What was asked, in a line."""
        return " ".join((self.ibi, *self.verbs, self.file_path)).rstrip()


@dataclass(frozen=True, slots=True)
class Statements:
    """What was said in the rounds that led to an alert; of very many rounds, in the last ones."""

    rounds: tuple[RoundStatements, ...]

    @property
    def named(self) -> int:
        """How many lines it has for Archives that are named."""
        return sum(len(one_round.named) for one_round in self.rounds)

    def as_dict(self, say: Say) -> dict[str, Any]:
        """The further members of a problem (RFC 9457)."""
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
        """The same for a terminal."""
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
    """What it means that an Archive gave no answer that counts, for this reason."""
    if isinstance(why, QueryNotSent | ForbiddenAddress) and not isinstance(why, ResponseNotRead):
        return "not asked"
    return "silent" if isinstance(why, PeerSilent) else "garbled"
