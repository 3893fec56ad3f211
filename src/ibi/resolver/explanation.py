"""How a resolution came about: who was asked, who answered what and when, each round, and why this answer was chosen.

A value that fills itself while a resolution runs; JSON for programs, text for terminals. Keys for acknowledgments are
left out: whoever reads an explanation has not been sent to the item.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from ibi.protocol import vocabulary as words
from ibi.protocol.vocabulary import State
from ibi.resolver.testimony import What, in_words, silence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.errors import IbiError
    from ibi.identifier.forms import IBI
    from ibi.protocol.messages import UrlRequest
    from ibi.protocol.pair_list import Value
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.alerts import Alert, Say
    from ibi.resolver.resolution import Redirect

Said = Literal["url list", "nothing known", "silent"]

FIRST_ASKED: Final[dict[str, str]] = {
    "everybody": "Everybody was asked at once.",
    "hint": "First asked: who held the item before.",
    "filter": "First asked: who publishes that it may hold the item.",
    "prefix": "First asked: the Archive whose service has the prefix of the item.",
    "memory": "Nobody was asked: a moment ago, everybody said that they do not know the item.",
}
"""Whom a round asked first, and why."""

FIRST: Final = "It was the first answer that satisfies the request."
KNOWN: Final = "It is the answer of the Archive that is known to hold the original."
STALE: Final = "Its Archive does not answer now; this is what it said before."
PASSED_ON: Final = "No Archive here leads to it; another resolver does."
ONLY_ORIGINAL: Final = "It is the only one among the answers of all Archives that claims to be the original."
ONLY_ORIGINAL_HEARD: Final = (
    "It is the only one that claims to be the original; not every Archive has answered."
)

PERSISTENCE: Final = (
    "This name is never changed and never given to another item; where it leads, Archives say."
)
"""What is promised of a persistent URL, as ?info tells it."""

_HELD: Final[dict[State | None, What]] = {
    State.ORIGINAL: "original",
    State.COPY: "copy",
    State.DELETED: "removed",
}
_SECRET: Final = frozenset({words.URL_KEY})


class Archive(Protocol):
    """What is told of an Archive."""

    @property
    def service_ibi(self) -> IBI:
        """The IBI of its Archive service, as registered."""

    @property
    def address(self) -> str:
        """Its address, "host[:port]"."""


class Statement(NamedTuple):
    """What one Archive said in one round, `milliseconds` after the round began."""

    archive: str
    address: str
    said: Said
    milliseconds: int
    why: IbiError | None = None
    """Of a silent one, or one that was not believed: the reason."""
    again: bool = False
    """It said so before, and its Archive allows that this be used again."""
    answer: UrlList | None = None
    """What it said, where all of that is to be shown."""
    state: State | None = None
    """What it says that it holds."""

    @property
    def what(self) -> What:
        """What it comes to, for alerts and for people."""
        if self.why is not None:
            return silence(self.why)
        return _HELD.get(self.state, "url list") if self.said == "url list" else self.said

    @property
    def pairs(self) -> dict[str, Value]:
        """What is shown of its answer."""
        if self.answer is None:
            return {}
        return {name: value for name, value in self.answer.pairs.items() if name not in _SECRET}


@dataclass(slots=True)
class RoundTold:
    """One round: what was asked, whom (in order), why the first of them, and what was said.

    `said`: in order; of who knows nothing, as most do, only the Archive and when it said so, in milliseconds.
    `remembered`: how many of those that were said before. `recalled`: where nobody was asked, those that had said a
    moment ago that they do not know the item.
    """

    ibi: str
    verbs: tuple[str, ...]
    file_path: str
    why: str = "everybody"
    asked: tuple[str, ...] = ()
    said: list[Statement | tuple[Archive, int]] = field(default_factory=list)
    remembered: int = 0
    recalled: Sequence[Archive] = ()

    @property
    def statements(self) -> list[Statement]:
        """What was said, whoever said it."""
        return [said if isinstance(said, Statement) else _ignorance(*said) for said in self.said]

    @property
    def late(self) -> list[str]:
        """Those that were asked and not waited for."""
        heard = {each.archive for each in self.statements}
        return [archive for archive in self.asked if archive not in heard]


@dataclass(slots=True)
class Explanation:
    """The whole story of one resolution.

    Either `location` (with `archive`, whose URL it is, and `reason`) or `alert` is set at the end. `in_full`: whether
    somebody will look at what Archives answered; it takes much memory, and only `/-/explain` shows it (threat T10).
    """

    url: str
    policy: str
    original_required: bool
    differences: tuple[str, ...] = ()
    """What the policy does beyond the letter of the standard, by name."""
    in_full: bool = False
    rounds: list[RoundTold] = field(default_factory=list)
    location: str = ""
    archive: str = ""
    reason: str = ""
    remembered: str = ""
    """"fresh" where the answer was given before and may be used again, "stale" where its Archive is silent now."""
    alert: Alert | None = None
    milliseconds: int = 0

    def ask(self, request: UrlRequest, why: str) -> RoundTold:
        """A round begins; whom it asks becomes known as it goes on."""
        verbs = request.verbs.verbs
        self.rounds.append(RoundTold(str(request.ibi), tuple(verbs), request.file_path, why))
        return self.rounds[-1]

    def hear(
        self, archive: str, address: str, url_list: UrlList, milliseconds: int, *, again: bool = False
    ) -> None:
        """An Archive has answered; `again`: what is used is what it said before."""
        said: Said = "url list" if url_list else "nothing known"
        answer = url_list if self.in_full else None
        self.rounds[-1].remembered += again
        self.rounds[-1].said.append(
            Statement(archive, address, said, milliseconds, None, again, answer, url_list.state)
        )

    def disbelieve(self, why: IbiError) -> None:
        """What was said last was not taken for an answer (threat T08)."""
        said = self.rounds[-1].said[-1]
        if isinstance(said, Statement):
            self.rounds[-1].said[-1] = said._replace(why=why)

    def silent(self, archive: str, address: str, why: IbiError, milliseconds: int) -> None:
        """An Archive has not answered, or not with an answer."""
        self.rounds[-1].said.append(Statement(archive, address, "silent", milliseconds, why))

    def redirected(self, decision: Redirect) -> None:
        """The reader is sent on."""
        self.location, self.archive = decision.url, str(decision.archive.service_ibi)
        self.reason = KNOWN if decision.preferred else FIRST
        self.remembered = "stale" if decision.stale else "fresh" if decision.again else ""
        if decision.stale:
            self.reason = STALE
        elif self.original_required:
            self.reason = ONLY_ORIGINAL if decision.complete else ONLY_ORIGINAL_HEARD

    def passed_on(self, url: str) -> None:
        """No Archive here leads to the item, but another resolver does."""
        self.location, self.reason, self.alert = url, PASSED_ON, None

    @property
    def made_work(self) -> bool:
        """Whether any Archive had to be asked."""
        return any(len(told.asked) > told.remembered for told in self.rounds)

    @property
    def status(self) -> int:
        """The HTTP status that the reader gets."""
        return 302 if self.alert is None else self.alert.status

    def as_dict(self, say: Say) -> dict[str, Any]:
        """For JSON; the keys are stable."""
        outcome: dict[str, Any] = {"status": self.status}
        if self.alert is None:
            outcome |= {"location": self.location, "archive": self.archive, "reason": say(self.reason, {})}
        else:
            outcome["alert"] = json.loads(self.alert.problem_json(say))
        return {
            "url": self.url,
            "policy": self.policy,
            "differences": list(self.differences),
            "original_required": self.original_required,
            "rounds": [_round(told, say) for told in self.rounds],
            "outcome": outcome,
            "milliseconds": self.milliseconds,
            "persistence": say(PERSISTENCE, {}),
        }

    def json(self, say: Say) -> bytes:
        """One JSON document."""
        return json.dumps(self.as_dict(say), ensure_ascii=False, indent=1).encode("utf-8", "replace")

    def text(self, say: Say) -> bytes:
        """For a terminal."""
        lines = [self.url]
        for number, told in enumerate(self.rounds, 1):
            wanted = " ".join((told.ibi, *told.verbs, told.file_path)).rstrip()
            lines += ["", say("Round {number}: {wanted}", {"number": number, "wanted": wanted})]
            lines += [f"  {say(FIRST_ASKED[told.why], {})}"]
            lines += [_line(statement, say) for statement in told.statements]
            lines += [f"  {archive}: {say('not waited for', {})}" for archive in told.late]
        if self.alert is None:
            lines += ["", self.location, say(self.reason, {}), self.archive]
        else:
            lines += ["", self.alert.title(say), *self.alert.sentences(say)]
        lines += ["", say(PERSISTENCE, {})]
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _ignorance(archive: Archive, milliseconds: int) -> Statement:
    return Statement(str(archive.service_ibi), archive.address, "nothing known", milliseconds)


def _round(told: RoundTold, say: Say) -> dict[str, Any]:
    return {
        "ibi": told.ibi,
        "verbs": list(told.verbs),
        "file_path": told.file_path,
        "first": told.why,
        "asked": list(told.asked),
        "statements": [
            {
                "archive": statement.archive,
                "address": statement.address,
                "said": statement.said,
                "milliseconds": statement.milliseconds,
                "why": _why(statement, say),
                "again": statement.again,
                "pairs": {
                    name: value if isinstance(value, str) else list(value)
                    for name, value in statement.pairs.items()
                },
            }
            for statement in told.statements
        ],
    }


def _why(statement: Statement, say: Say) -> str:
    return "" if statement.why is None else say(statement.why.problem, statement.why.details)


def _line(statement: Statement, say: Say) -> str:
    what = in_words(statement.what, statement.why, say)
    if statement.again:
        what = f"{what} ({say('remembered', {})})"
    urls = [
        f"{name} {value}"
        for name, value in statement.pairs.items()
        if name.startswith((words.URL, words.STATE))
    ]
    return "\n      ".join([f"  {statement.archive}, {statement.milliseconds} ms: {what}", *urls])
