"""A machine that is watched: whatever it decides is held against the oracle at once, wherever it is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ibi.resolver.alerts import Alert
from ibi.resolver.resolution import AskAgain, Resolution
from ibi.resolver.resolution import Redirect as Sent
from proofs.resolution.answers import Line
from proofs.resolution.cast import question_of
from proofs.resolution.oracle import Ask, Ledger, Question, Reader, Redirect, Tell, Verdict, satisfies

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.errors import IbiError
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.selection import Archive

Decision = Sent | AskAgain | Alert | None


class Broken(Exception):
    """Something was done that the standard does not let a resolver do."""


class Call(NamedTuple):
    """What the machine was told: `what` is "hear", "silent", "take", "again" or "close"; and what it decided."""

    what: str
    question: Question
    archive: str
    answer: UrlList | None
    decision: Decision


class Watch:
    """The oracle's side of one resolution: what has been heard in this round, and in `calls` all that happened."""

    def __init__(self, reader: Reader, question: Question, holder: str | None) -> None:
        self.ledger = Ledger(reader, question, holder)
        self.lines: list[Line] = []
        self.silent: set[str] = set()
        self.patient = True
        self.calls: list[Call] = []

    def told(self, what: str, decision: Decision, archive: str = "", answer: UrlList | None = None) -> None:
        """Something was heard, or is awaited no longer; this was decided. Raises Broken."""
        self._note(what, decision, archive, answer)
        if what == "hear" and answer is not None:
            self.lines.append(Line(archive, text_pairs(answer)))
        elif what == "silent":
            self.silent.add(archive)
        elif what == "take":
            self.patient = False
        expected = self.ledger.at_once(self.lines, self.silent, patient=self.patient)
        seen = verdict_of(decision) if decision is not None else None
        if seen != expected:
            raise Broken(f"{_told(seen)} where only this is right: {_told(expected)}")
        self._judge(decision)

    def again(self, decision: Decision, archive: str, answer: UrlList) -> None:
        """An older answer was tried."""
        self._note("again", decision, archive, answer)
        reader, question = self.ledger.reader, self.ledger.question
        url = None if reader.original else satisfies(reader, question, Line(archive, text_pairs(answer)))
        seen = verdict_of(decision) if decision is not None else None
        if seen != (None if url is None else Redirect(archive, url)):
            raise Broken(f"{_told(seen)} after an older answer, where {url} is right")
        if isinstance(decision, Sent) and (decision.acknowledgment is not None or not decision.stale):
            raise Broken("an older answer is thanked for, or not called old")

    def closed(self, decision: Decision, holder: str | None, *, may_go_on: bool) -> None:
        """A round is over; `holder` counts in the next one."""
        self._note("close", decision, "", None)
        acceptable = self.ledger.close(self.lines, self.silent, may_go_on=may_go_on)
        seen = verdict_of(decision)
        if seen not in acceptable:
            right = [_told(each) for each in acceptable]
            raise Broken(f"{_told(seen)} where only these are right: {right}")
        self._judge(decision)
        if isinstance(seen, Ask):
            self.ledger.turn(seen.question, holder)
            self.lines, self.silent, self.patient = [], set(), True

    def _note(self, what: str, decision: Decision, archive: str, answer: UrlList | None) -> None:
        self.calls.append(Call(what, self.ledger.question, archive, answer, decision))

    def _judge(self, decision: Decision) -> None:
        """What goes with an outcome: thanks to the chosen one alone, and truthful counts."""
        if isinstance(decision, Alert):
            asked = {line.archive for line in self.lines} | self.silent | self.ledger.silent
            counts = decision.round
            if counts is None or {name for name, _ in counts.silent} != self.ledger.silent:
                raise Broken(f"the alert tells that others were silent than {sorted(self.ledger.silent)}")
            if counts.asked != len(asked):
                raise Broken(f"{counts.asked} were asked, it says, and not {len(asked)}")
        elif isinstance(decision, Sent):
            name = str(decision.archive.service_ibi)
            key = decision.acknowledgment.url_key if decision.acknowledgment else None
            if key not in {line.pairs.get("urlkey") for line in self.lines if line.archive == name}:
                raise Broken(f"thanks with the key {key} are not for what {name} said")
            if self.ledger.reader.original and decision.complete == bool(self.ledger.silent):
                raise Broken(
                    f"complete: {decision.complete}, though silent were {sorted(self.ledger.silent)}"
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
            url, _, _, preference, policy = given[:5]
            self.watch_knows: Callable[[str], str | None] = given[5] if len(given) > 5 else lambda _: None
            languages = tuple(_spelled(language) for language in preference.ranges)
            reader = Reader(languages, url.original_required, not policy.strict)
            self.watch = Watch(reader, question_of(self.request), self.watch_holder())

        def watch_holder(self) -> str | None:
            found = self.watch_knows(self.request.ibi.canonical)
            return found.lower() if found else None

        def hear(self, archive: Archive, answer: UrlList, *, again: bool = False) -> Sent | None:
            self.watch_inside = True
            decision: Sent | None = super().hear(archive, answer, again=again)
            self.watch_inside = False
            self.watch.told("hear", decision, str(archive.service_ibi), answer)
            return decision

        def silent(self, archive: Archive, why: IbiError) -> Sent | None:
            decision: Sent | None = super().silent(archive, why)
            if not getattr(self, "watch_inside", False):  # what is not believed, it tells itself
                self.watch.told("silent", decision, str(archive.service_ibi))
            return decision

        def take(self) -> Sent | None:
            decision: Sent | None = super().take()
            self.watch.told("take", decision)
            return decision

        def hear_again(self, archive: Archive, answer: UrlList) -> Sent | None:
            decision: Sent | None = super().hear_again(archive, answer)
            self.watch.again(decision, str(archive.service_ibi), answer)
            return decision

        def close_round(self, *, may_go_on: bool = True) -> Sent | AskAgain | Alert:
            decision: Sent | AskAgain | Alert = super().close_round(may_go_on=may_go_on)
            self.watch.closed(decision, self.watch_holder(), may_go_on=may_go_on)
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
    if isinstance(decision, AskAgain):
        return Ask(question_of(decision.request))
    if decision is None:
        raise Broken("nothing was decided")
    return Redirect(str(decision.archive.service_ibi), decision.url)


def _spelled(language: str) -> str:
    bare, hyphen, country = language.partition("-")
    return bare + hyphen + country.upper()


def _told(verdict: Verdict | None) -> str:
    return "to wait" if verdict is None else f"{type(verdict).__name__}{tuple(verdict)}"
