"""A watched machine: whatever it decides is compared with the oracle at once, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ibi.errors import WrongArchive
from ibi.protocol.messages import UrlRequest
from ibi.resolver.model.alert import Alert
from ibi.resolver.resolve.resolution import Redirect as Sent
from ibi.resolver.resolve.resolution import Resolution
from proofs.resolution.answers import ArchiveAnswer
from proofs.resolution.cast import question_of
from proofs.resolution.oracle import Ask, OracleState, Question, Reader, Redirect, Tell, Verdict, satisfies

if TYPE_CHECKING:
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.model.archive import ArchiveResponse

Decision = Sent | UrlRequest | Alert | None


class Broken(Exception):
    """Something was done that the standard does not let a resolver do."""


class Call(NamedTuple):
    """An event given to the machine, and what it decided.

    `what` is "hear", "silent", "replaced", "take", "again" or "close".
    """

    what: str
    question: Question
    archive: str
    answer: UrlList | None
    decision: Decision


class Watch:
    """The oracle's side of one resolution: what has been heard in this round, and in `calls` all that happened."""

    def __init__(self, reader: Reader, question: Question, holder: str | None) -> None:
        self.oracle = OracleState(reader, question, holder, holder)
        self.lines: list[ArchiveAnswer] = []
        self.silent: set[str] = set()
        self.replaced: set[str] = set()  # not asked, since another Archive answers in their place
        self.may_wait = True
        self.calls: list[Call] = []

    def check(self, what: str, decision: Decision, archive: str = "", answer: UrlList | None = None) -> None:
        """Check what was decided after an answer, or after a holder is awaited no longer. Raises Broken."""
        self._note(what, decision, archive, answer)
        if what == "hear" and answer is not None:
            self.lines.append(ArchiveAnswer(archive, text_pairs(answer)))
        elif what == "silent":
            self.silent.add(archive)
        elif what == "replaced":
            counts = self.oracle.reader.original or archive == self.oracle.holder
            (self.silent if counts else self.replaced).add(archive)
        elif what == "take":
            self.may_wait = False
        expected = self.oracle.at_once(self.lines, self.silent | self.replaced, may_wait=self.may_wait)
        seen = verdict_of(decision) if decision is not None else None
        if seen != expected:
            raise Broken(f"{_text(seen)} where only this is right: {_text(expected)}")
        self._judge(decision)

    def again(self, decision: Decision, archive: str, answer: UrlList) -> None:
        """An older answer was tried."""
        self._note("again", decision, archive, answer)
        reader, question = self.oracle.reader, self.oracle.question
        url = (
            None
            if reader.original
            else satisfies(reader, question, ArchiveAnswer(archive, text_pairs(answer)))
        )
        seen = verdict_of(decision) if decision is not None else None
        if seen != (None if url is None else Redirect(archive, url)):
            raise Broken(f"{_text(seen)} after an older answer, where {url} is right")
        if isinstance(decision, Sent) and (decision.acknowledgment is not None or not decision.stale):
            raise Broken("an older answer is acknowledged, or not called old")

    def closed(self, decision: Decision, *, may_go_on: bool) -> None:
        """A round has ended."""
        self._note("close", decision, "", None)
        acceptable = self.oracle.close(self.lines, self.silent, may_go_on=may_go_on)
        seen = verdict_of(decision)
        if seen not in acceptable:
            right = [_text(each) for each in acceptable]
            raise Broken(f"{_text(seen)} where only these are right: {right}")
        self._judge(decision)
        if isinstance(seen, Ask):
            self.oracle.turn(seen.question, None)
            self.lines, self.silent, self.replaced, self.may_wait = [], set(), set(), True

    def _note(self, what: str, decision: Decision, archive: str, answer: UrlList | None) -> None:
        self.calls.append(Call(what, self.oracle.question, archive, answer, decision))

    def _judge(self, decision: Decision) -> None:
        """Check what goes with an outcome: an acknowledgment to the chosen Archive alone, and truthful counts."""
        if isinstance(decision, Alert):
            queried = {line.archive for line in self.lines} | self.silent | self.oracle.silent
            counts = decision.coverage
            if counts is None or {name for name, _ in counts.silent} != self.oracle.silent:
                raise Broken(f"the alert tells that others were silent than {sorted(self.oracle.silent)}")
            if counts.total != len(queried):
                raise Broken(f"{counts.total} were asked, it says, and not {len(queried)}")
        elif isinstance(decision, Sent):
            name = str(decision.archive.service_ibi)
            key = decision.acknowledgment.url_key if decision.acknowledgment else None
            if key not in {line.pairs.get("urlkey") for line in self.lines if line.archive == name}:
                raise Broken(f"thanks with the key {key} are not for what {name} said")
            if self.oracle.reader.original and decision.complete == bool(self.oracle.silent):
                raise Broken(
                    f"complete: {decision.complete}, though silent were {sorted(self.oracle.silent)}"
                )


_WATCHED: dict[str, type[Any]] = {}


def watched(machine: type[Resolution]) -> type[Any]:
    """The same machine, under watch: each one has a `watch`. What is added here is named so as to hide nothing."""
    name = f"{machine.__module__}.{machine.__qualname__}"
    if name not in _WATCHED:
        _WATCHED[name] = _watched(machine)
    return _WATCHED[name]


def _watched(machine: type[Resolution]) -> type[Any]:

    class Watched(machine):  # type: ignore[valid-type,misc]  # a class that is given cannot be known to mypy
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            url, _, _, preference, policy = given
            languages = tuple(_spelled(language) for language in preference.ranges)
            reader = Reader(languages, url.original_required, not policy.strict)
            self.watch = Watch(reader, question_of(self.query), None)

        def expect(self, holder: str | None, home: str | None = None) -> None:
            super().expect(holder, home)
            self.watch.oracle.holder = None if self._policy.strict else holder
            self.watch.oracle.awaited = None if self._policy.strict else holder or home

        def hear(self, response: ArchiveResponse) -> Sent | None:
            archive, answer = str(response.archive.service_ibi), response.answer
            decision: Sent | None = super().hear(response)
            if answer is None:
                replaced = response.source == "breaker" and isinstance(response.error, WrongArchive)
                self.watch.check("replaced" if replaced else "silent", decision, archive)
            elif response.source == "stale":
                self.watch.again(decision, archive, answer)
            else:
                self.watch.check("hear", decision, archive, answer)
            return decision

        def take_candidate(self) -> Sent | None:
            decision: Sent | None = super().take_candidate()
            self.watch.check("take", decision)
            return decision

        def close_round(self, *, may_go_on: bool = True, in_time: bool = True) -> Sent | UrlRequest | Alert:
            decision: Sent | UrlRequest | Alert = super().close_round(may_go_on=may_go_on, in_time=in_time)
            self.watch.closed(decision, may_go_on=may_go_on)
            return decision

    return Watched


def text_pairs(answer: UrlList) -> dict[str, str]:
    """An answer as text."""
    return {
        name: value if isinstance(value, str) else " ".join(value) for name, value in answer.pairs.items()
    }


def verdict_of(decision: Decision) -> Verdict:
    """A decision in the words of the oracle."""
    if isinstance(decision, Alert):
        return Tell(str(decision.kind))
    if isinstance(decision, UrlRequest):
        return Ask(question_of(decision))
    if decision is None:
        raise Broken("nothing was decided")
    return Redirect(str(decision.archive.service_ibi), decision.url)


def _spelled(language: str) -> str:
    bare, hyphen, country = language.partition("-")
    return bare + hyphen + country.upper()


def _text(verdict: Verdict | None) -> str:
    return "to wait" if verdict is None else f"{type(verdict).__name__}{tuple(verdict)}"
