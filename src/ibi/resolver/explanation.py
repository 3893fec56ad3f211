"""How a resolution came about: who was asked, who answered what and when, each round, and why this answer was chosen.

A value that fills itself while a resolution runs; JSON for programs, text for terminals. Keys for acknowledgments are
left out: whoever reads an explanation has not been sent to the item.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ibi.protocol import vocabulary as words

if TYPE_CHECKING:
    from ibi.errors import IbiError
    from ibi.protocol.messages import UrlRequest
    from ibi.protocol.pair_list import Value
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.alerts import Alert, Say

Said = Literal["url list", "nothing known", "silent"]

_SECRET: Final = frozenset({words.URL_KEY})


@dataclass(frozen=True, slots=True)
class Statement:
    """What one Archive said in one round, `milliseconds` after the round began."""

    archive: str
    address: str
    said: Said
    milliseconds: int
    why: IbiError | None = None
    """Of a silent one: the reason."""
    pairs: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class RoundTold:
    """One round: what every Archive was asked, and what was said."""

    ibi: str
    verbs: tuple[str, ...]
    file_path: str
    asked: tuple[str, ...]
    statements: list[Statement] = field(default_factory=list)


@dataclass(slots=True)
class Explanation:
    """The whole story of one resolution.

    Either `location` (with `archive`, whose URL it is, and `reason`) or `alert` is set at the end.
    """

    url: str
    policy: str
    original_required: bool
    rounds: list[RoundTold] = field(default_factory=list)
    location: str = ""
    archive: str = ""
    reason: str = ""
    alert: Alert | None = None
    milliseconds: int = 0

    def ask(self, request: UrlRequest, asked: tuple[str, ...]) -> None:
        """A round begins."""
        verbs = request.verbs.verbs
        self.rounds.append(RoundTold(str(request.ibi), tuple(verbs), request.file_path, asked))

    def hear(self, archive: str, address: str, url_list: UrlList, milliseconds: int) -> None:
        """An Archive has answered."""
        pairs = {name: value for name, value in url_list.pairs.items() if name not in _SECRET}
        said: Said = "url list" if url_list else "nothing known"
        self.rounds[-1].statements.append(Statement(archive, address, said, milliseconds, pairs=pairs))

    def silent(self, archive: str, address: str, why: IbiError, milliseconds: int) -> None:
        """An Archive has not answered, or not with an answer."""
        self.rounds[-1].statements.append(Statement(archive, address, "silent", milliseconds, why))

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
            "original_required": self.original_required,
            "rounds": [_round(told, say) for told in self.rounds],
            "outcome": outcome,
            "milliseconds": self.milliseconds,
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
            lines += [_line(statement, say) for statement in told.statements]
            late = [archive for archive in told.asked if all(archive != s.archive for s in told.statements)]
            lines += [f"  {archive}: {say('not waited for', {})}" for archive in late]
        if self.alert is None:
            lines += ["", self.location, say(self.reason, {}), self.archive]
        else:
            lines += ["", self.alert.title(say), *self.alert.sentences(say)]
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _round(told: RoundTold, say: Say) -> dict[str, Any]:
    return {
        "ibi": told.ibi,
        "verbs": list(told.verbs),
        "file_path": told.file_path,
        "asked": list(told.asked),
        "statements": [
            {
                "archive": statement.archive,
                "address": statement.address,
                "said": statement.said,
                "milliseconds": statement.milliseconds,
                "why": _why(statement, say),
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
    what = _why(statement, say) or say(statement.said, {})
    urls = [
        f"{name} {value}"
        for name, value in statement.pairs.items()
        if name.startswith((words.URL, words.STATE))
    ]
    return "\n      ".join([f"  {statement.archive}, {statement.milliseconds} ms: {what}", *urls])
