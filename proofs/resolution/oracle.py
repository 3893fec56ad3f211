"""What a resolver may do next, told naively from the standard (RES-05 to RES-14, AMB-51 to AMB-53; notes 5 to 7).

A watched resolution has one `OracleState`, which tells at every moment which verdicts are acceptable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from proofs.resolution.answers import (
    ArchiveAnswer,
    Names,
    Steps,
    choose,
    continues,
    is_safe,
    lives,
    names,
    offered,
    qualifier,
    speaks_for_itself,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_ROUNDS = 32
MOST_EDITIONS = 256  # rounds for later editions, beside those


class Question(NamedTuple):
    """What all are asked: a name in small letters, and the steps from it."""

    name: str
    steps: Steps = ()


class Reader(NamedTuple):
    """Who wants it: languages, the most wanted first; whether only the original will do; by which policy."""

    languages: tuple[str, ...] = ()
    original: bool = False
    hardened: bool = True


class Redirect(NamedTuple):
    """The reader is sent to the URL of an Archive."""

    archive: str
    url: str


class Ask(NamedTuple):
    """All are asked this in a new round."""

    question: Question


class Tell(NamedTuple):
    """The reader is told something, by the name of the alert."""

    kind: str


Verdict = Redirect | Ask | Tell


def satisfies(reader: Reader, question: Question, line: ArchiveAnswer) -> str | None:
    """The URL in an answer that a reader may be sent to, None if the answer does not satisfy (RES-05, AMB-52)."""
    if not lives(line) or (reader.hardened and not speaks_for_itself(line, question.name)):
        return None
    found = choose(line.pairs, question.steps, reader.languages, offered(line, safe=True))
    return None if found is None else line.pairs["url" + qualifier(found)]


@dataclass
class OracleState:
    """What is remembered of one resolution from round to round.

    `holder`: who is known to have the original of what is asked for now, if that counts (note 7). `awaited`: that one;
    at first sight, who has the prefix of the item (note 48).
    """

    reader: Reader
    question: Question
    holder: str | None = None
    awaited: str | None = None
    questions: set[Question] = field(default_factory=set)
    known_as: set[Question] = field(default_factory=set)  # the same, under names that answers gave
    fallbacks: list[Question] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    unsafe: bool = False
    rounds: int = 1
    editions: int = 0
    no_archives: bool = False  # there was no Archive to query
    ways: dict[Question, set[Question]] = field(default_factory=dict)  # each next question in all its names

    def __post_init__(self) -> None:
        self.questions.add(self.question)

    def at_once(self, lines: Sequence[ArchiveAnswer], silent: set[str], *, may_wait: bool) -> Redirect | None:
        """Where a reader who takes copies must be sent at this moment; `may_wait` while a holder may be awaited."""
        if self.reader.original:
            return None
        if (
            may_wait
            and self.awaited is not None
            and self.awaited not in silent | {line.archive for line in lines}
        ):
            return None
        found = [(line.archive, satisfies(self.reader, self.question, line)) for line in lines]
        good = [Redirect(archive, url) for archive, url in found if url is not None]
        return next((each for each in good if each.archive == self.awaited), good[0] if good else None)

    def close(
        self, lines: Sequence[ArchiveAnswer], silent: set[str], *, may_go_on: bool = True
    ) -> list[Verdict]:
        """Return all verdicts acceptable when a round ends, given the answers in order and who was silent."""
        first = self.at_once(lines, silent, may_wait=False)
        if first is not None:
            return [first]
        steps = self.question.steps
        mine = [
            line for line in lines if speaks_for_itself(line, self.question.name) or not self.reader.hardened
        ]
        self.no_archives = not lines and not silent
        self.silent |= silent | {line.archive for line in lines if line not in mine}
        living = [line for line in mine if lives(line)]
        for line in living:
            self.unsafe |= self._offer(line) is not None
            self.known_as |= {Question(name, steps) for name in names(line.pairs.get("ibi"))}
        others = self.rounds - self.editions
        may_go_on = may_go_on and others < MOST_ROUNDS and self.editions < MOST_EDITIONS
        decided = self._originals(living, may_go_on=may_go_on) if self.reader.original else []
        if decided:
            return decided
        bare = next((at for at in range(len(steps) - 1, -1, -1) if steps[at] == "+"), None)
        if living and bare is not None:
            self.fallbacks.append(Question(self.question.name, steps[:bare] + steps[bare + 1 :]))
        why = Tell(self._why(mine, living))
        verdicts = self._following(living, why)
        if may_go_on:
            return verdicts
        ends: list[Verdict] = [verdict for verdict in verdicts if isinstance(verdict, Tell)]
        return ends if ends == verdicts else [self._tell("too-far"), *ends]

    def turn(self, question: Question, holder: str | None) -> None:
        """A new round has begun with this question."""
        self.editions += question.steps == self.question.steps and question.steps[:1] == ("!",)
        self.question, self.holder, self.awaited = question, holder, holder
        self.questions.add(question)
        self.known_as |= self.ways.get(question, set())
        self.rounds += 1

    def _offer(self, line: ArchiveAnswer) -> Steps | None:
        """The wanted relation, if an answer has a URL for it, whether or not a reader may be sent there."""
        return choose(line.pairs, self.question.steps, self.reader.languages, offered(line, safe=False))

    def _originals(self, living: list[ArchiveAnswer], *, may_go_on: bool) -> list[Verdict]:
        """RES-08 and AMB-51: one claim is followed, two of one item or one relation are suspect, a copy is none.

        Before it is said that there is no original, all are asked about what the copies, at least, lead to.
        """
        found = [(line, self._offer(line)) for line in living]
        offers = [(line, each, qualifier(each)) for line, each in found if each is not None]
        claims = [offer for offer in offers if offer[0].pairs.get("state" + offer[2]) == "Original"]
        of_item = [(line, (), "") for line in living if line.pairs.get("state") == "Original"]
        for (one, at, here), (other, there_at, there) in combinations(
            [*claims, *(of_item if self.reader.hardened else [])], 2
        ):
            if one is other:
                continue
            items = names(one.pairs.get("ibi" + here)), names(other.pairs.get("ibi" + there))
            if here != there and not (here and there):  # one claims the item itself
                owners = _owner(one, at), _owner(other, there_at)
                if owners[0] & owners[1]:
                    return [Tell("suspect-originals")]
            elif here == there or not all(items) or items[0] & items[1]:
                return [Tell("suspect-originals")]
        if not claims:
            none = self._tell("no-original")
            if not offers or not (self.reader.hardened and may_go_on):  # the letter has the alert at once
                return [none] if offers else []
            copies = self._open(self._ways([line for line, _, _ in offers]), none)
            return [*copies, *self._open(self._ways(living), none)]
        best = choose({}, self.question.steps, self.reader.languages, [each for _, each, _ in claims])
        chosen = [claim for claim in claims if best in {None, claim[1]}]
        urls = [(line.archive, line.pairs["url" + rest]) for line, _, rest in chosen]
        return [Redirect(*each) if is_safe(each[1]) else self._tell("unsafe-url") for each in urls]

    def _following(self, living: list[ArchiveAnswer], otherwise: Tell) -> list[Verdict]:
        """The next question: what the first answer that leads somewhere leads to, else a translation given up."""
        given_up = [(frozenset({name}), fewer) for name, fewer in reversed(self.fallbacks)]
        return self._open([*self._ways(living), *given_up], otherwise)

    def _ways(self, lines: Sequence[ArchiveAnswer]) -> list[tuple[Names, Steps]]:
        """Where answers lead, the first one's ways first."""
        steps, languages = self.question.steps, self.reader.languages
        return [way for line in lines for way in continues(line, steps, languages)]

    def _open(self, ways: Sequence[tuple[Names, Steps]], otherwise: Tell) -> list[Verdict]:
        """The first way that is new.

        What was asked under another name may be asked again or not, as names are told by those who may be wrong.
        """
        found: list[Verdict] = []
        for forms, steps in ways:
            here = {Question(name, steps) for name in forms}
            self.ways |= dict.fromkeys(here, here)
            if here and not here & self.questions:
                found += [Ask(question) for question in sorted(here)]
                if not here & self.known_as:
                    return found
        return [*found, otherwise]

    def _why(self, mine: list[ArchiveAnswer], living: list[ArchiveAnswer]) -> str:
        """RES-13 and note 6: nothing is denied unless all have answered, or the known holder says so."""
        if self.unsafe and not self.reader.original:
            return self._tell("unsafe-url").kind
        if living and any(step.startswith("+(") for step in self.question.steps):
            return self._tell("no-translation").kind
        gone = [line.archive for line in mine if line.pairs]
        if living or not gone:
            return self._tell("not-found").kind
        return "deleted" if self.holder in gone else self._tell("deleted").kind

    def _tell(self, kind: str) -> Tell:
        return Tell("incomplete" if self.silent or self.no_archives else kind)


def _owner(line: ArchiveAnswer, steps: Steps) -> Names:
    """The item that a claim is about: metadata without a name are those of the item that has them."""
    own = names(line.pairs.get("ibi" + qualifier(steps)))
    return own or names(line.pairs.get("ibi" + qualifier(steps[:-1])))
