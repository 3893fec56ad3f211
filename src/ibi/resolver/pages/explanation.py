"""The explanation of a resolution: JSON for programs, text for terminals, values for the HTML page.

Made from the trace when a page asks for it. Keys for acknowledgments are left out, because the reader of an
explanation was not sent to the item.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ibi.http.handle_records import Location
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.model.alert import Alert
from ibi.resolver.model.statements import Answered, ArchiveStatement, What, silence
from ibi.resolver.resolve.resolution import Redirect, UpstreamRedirect

if TYPE_CHECKING:
    from ibi.resolver.model.alert import Say
    from ibi.resolver.model.archive import ArchiveResponse
    from ibi.resolver.resolve.policy import Policy
    from ibi.resolver.resolve.resolver import RoundTrace, Trace

MOST_LOCATIONS: Final = 100
"""Places of an item that are listed."""

FIRST_REASONS: Final[dict[str, str]] = {
    "everybody": "All Archives were queried at once.",
    "hint": "Queried first: the Archives that held the item before.",
    "filter": "Queried first: the Archives that publish that they may hold the item.",
    "prefix": "Queried first: the Archive whose service has the prefix of the item.",
    "memory": "No Archive was queried: a moment ago, all of them answered that they do not know the item.",
}
"""The reason for the first Archives of a round, as a sentence."""

BEGAN: Final = "It began after {milliseconds} ms."
"""When a round after the first one began, as a sentence."""

FIRST: Final = "It was the first answer that satisfies the request."
KNOWN: Final = "It is the answer of the Archive that is known to hold the original."
PREFIX: Final = "It is the answer of the Archive whose service has the prefix of the item."
STALE: Final = "Its Archive is not responding now; this is its earlier answer."
PASSED_ON: Final = "No Archive here leads to it; another resolver does."
ONLY_ORIGINAL: Final = "It is the only one among the answers of all Archives that claims to be the original."
ONLY_ORIGINAL_HEARD: Final = (
    "It is the only one that claims to be the original; not every Archive has answered."
)

PERSISTENCE: Final = (
    "This name is never changed and never given to another item; the Archives report where it leads."
)
"""What is promised of a persistent URL, as ?info shows it."""

_HELD: Final[dict[ItemState | None, What]] = {
    ItemState.ORIGINAL: "original",
    ItemState.COPY: "copy",
    ItemState.DELETED: "removed",
}


class ExplainedRound:
    """One round as pages show it: the query, the Archives asked (in order), why the first, the responses.

    `first_began`: when the first round of the resolution began (time of the event loop).
    """

    def __init__(self, trace: RoundTrace, first_began: float, *, in_full: bool) -> None:
        self._trace = trace
        self._in_full = in_full
        self.began = max(0, round((trace.began - first_began) * 1000))
        """Milliseconds from the beginning of the first round to that of this one."""
        self.ibi = str(trace.query.ibi)
        self.verbs = tuple(trace.query.verbs.verbs)
        self.file_path = trace.query.file_path
        self.why = trace.why
        self.negatives = trace.negatives
        """If no Archive was asked: those that had answered a moment ago that they do not know the item."""

    @property
    def queried(self) -> tuple[str, ...]:
        """The Archives that were asked, in order."""
        return tuple(archive.name for archive in self._trace.queried)

    @property
    def statements(self) -> list[ArchiveStatement]:
        """Every response, in order."""
        return [self._statement(response) for response in self._trace.responses]

    @property
    def informative(self) -> list[ArchiveStatement]:
        """Every response except empty answers."""
        # Of many Archives nearly all give an empty answer, of which no `ArchiveStatement` need be made.
        return [self._statement(each) for each in self._trace.responses if not _is_empty(each)]

    @property
    def ignorant(self) -> int:
        """How many Archives answered that they do not know the item, now or a moment ago."""
        return sum(map(_is_empty, self._trace.responses)) + len(self.negatives)

    @property
    def late(self) -> list[str]:
        """The Archives that were asked and not waited for."""
        heard = {response.archive.service for response in self._trace.responses}
        return [archive.name for archive in self._trace.queried if archive.service not in heard]

    def locations(self, policy: Policy) -> list[Location]:
        """Return every place of the item that a reader may be sent to, as the Archives answered."""
        found = []
        for response in self._trace.responses:
            answer = response.answer
            if not answer or response.error is not None or answer.state is ItemState.DELETED:
                continue
            url, state = answer.entry().url, answer.state
            if url is not None and policy.is_safe(response.archive, url):
                found.append(Location(url, state.value if state else "", response.archive.name))
        return found

    def _statement(self, response: ArchiveResponse) -> ArchiveStatement:
        archive, answer = response.archive, response.answer
        answered: Answered = "silent" if answer is None else "url list" if answer else "nothing known"
        what = _HELD.get(answer.state, "url list") if answer else answered
        return ArchiveStatement(
            archive.name,
            archive.address,
            what if response.error is None else silence(response.error),
            response.error,
            milliseconds=max(0, round((response.at - self._trace.began) * 1000)),
            answered=answered,
            again=answer is not None and response.source in {"cache", "stale"},
            answer=answer if self._in_full else None,
            claimed_root=answer.archive_root if answer else None,
        )


class Explanation:
    """A trace and what it led to, as pages show them. Either `location` or `alert` is set."""

    def __init__(self, decision: Redirect | UpstreamRedirect | Alert, trace: Trace) -> None:
        self.url = trace.url
        self._policy = trace.policy
        self.policy = trace.policy.name
        self.original_required = trace.original_required
        self.differences = tuple(difference.name for difference in trace.policy.differences)
        self.milliseconds = trace.milliseconds
        rounds, in_full = trace.rounds, trace.in_full
        self.rounds = [ExplainedRound(each, rounds[0].began, in_full=in_full) for each in rounds]
        self.alert = decision if isinstance(decision, Alert) else None
        self.location = "" if isinstance(decision, Alert) else decision.url
        self.archive = decision.archive.name if isinstance(decision, Redirect) else ""
        self.reason = "" if isinstance(decision, Alert) else _reason(decision, trace)
        self.incomplete = _incomplete(decision)
        """How many Archives were silent, of how many that were asked."""

    @property
    def locations(self) -> list[Location]:
        """Every place of the item: the chosen one, then other originals, then copies; each URL once."""
        found = self.rounds[-1].locations(self._policy) if self.rounds else []
        if self.location and self.location not in {each.url for each in found}:
            found.append(Location(self.location))  # another resolver gave it
        found.sort(key=lambda each: (each.url != self.location, each.state != ItemState.ORIGINAL))
        return list({each.url: each for each in reversed(found)}.values())[::-1][:MOST_LOCATIONS]

    @property
    def status(self) -> int:
        """The HTTP status that the reader gets."""
        return 302 if self.alert is None else self.alert.status

    def as_dict(self, say: Say) -> dict[str, Any]:
        """Return the explanation as JSON has it; the keys are stable."""
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
            "rounds": [_round(each, say) for each in self.rounds],
            "outcome": outcome,
            "milliseconds": self.milliseconds,
            "persistence": say(PERSISTENCE, {}),
        }

    def json(self, say: Say) -> bytes:
        """Write it as a JSON document."""
        return json.dumps(self.as_dict(say), ensure_ascii=False, indent=1).encode("utf-8", "replace")

    def text(self, say: Say) -> bytes:
        """Write it as plain text."""
        lines = [self.url]
        for number, each in enumerate(self.rounds, 1):
            wanted = " ".join((each.ibi, *each.verbs, each.file_path)).rstrip()
            lines += ["", say("Round {number}: {wanted}", {"number": number, "wanted": wanted})]
            lines += [f"  {say(FIRST_REASONS[each.why], {})}"]
            if number > 1:
                lines += [f"  {say(BEGAN, {'milliseconds': each.began})}"]
            lines += [_line(statement, say) for statement in each.statements]
            lines += [f"  {archive}: {say('not waited for', {})}" for archive in each.late]
        if self.alert is None:
            lines += ["", self.location, say(self.reason, {}), self.archive]
        else:
            lines += ["", self.alert.title(say), *self.alert.sentences(say)]
        lines += ["", say(PERSISTENCE, {})]
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _reason(decision: Redirect | UpstreamRedirect, trace: Trace) -> str:
    """Return the reason for a redirect, as a sentence."""
    if isinstance(decision, UpstreamRedirect):
        return PASSED_ON
    if decision.stale:
        return STALE
    if trace.original_required:
        return ONLY_ORIGINAL if decision.complete else ONLY_ORIGINAL_HEARD
    return {"": FIRST, "holder": KNOWN, "prefix": PREFIX}[decision.preferred]


def _incomplete(decision: Redirect | UpstreamRedirect | Alert) -> tuple[int, int]:
    if not isinstance(decision, Alert):
        return decision.incomplete
    coverage = decision.coverage
    return (0, 0) if coverage is None else (len(coverage.silent), coverage.total)


def _is_empty(response: ArchiveResponse) -> bool:
    """Whether an Archive answered that it does not know the item."""
    return response.answer is not None and not response.answer and response.error is None


def _round(explained: ExplainedRound, say: Say) -> dict[str, Any]:
    return {
        "ibi": explained.ibi,
        "verbs": list(explained.verbs),
        "file_path": explained.file_path,
        "began": explained.began,
        "first": explained.why,
        "asked": list(explained.queried),
        "statements": [
            {
                "archive": statement.archive,
                "address": statement.address,
                "said": statement.answered,
                "milliseconds": statement.milliseconds,
                "why": say(statement.why.problem, statement.why.details) if statement.why else "",
                "again": statement.again,
                "pairs": {
                    name: value if isinstance(value, str) else list(value)
                    for name, value in statement.pairs.items()
                },
            }
            for statement in explained.statements
        ],
    }


def _line(statement: ArchiveStatement, say: Say) -> str:
    what = statement.words(say)
    if statement.again:
        what = f"{what} ({say('cached', {})})"
    pairs = [f"{name} {value}" for name, value in statement.deciding]
    return "\n      ".join([f"  {statement.archive}, {statement.milliseconds} ms: {what}", *pairs])
