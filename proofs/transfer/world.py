"""A giver, a receiver and a network that fails, as values: every decision is that of the real code (`handover`).

Each step is one that cannot be interrupted: a transaction, or the arrival of one message. Between any two of them
anything may happen: a process dies, a message is lost, comes late, or comes twice, somebody edits or removes the item.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ibi.archive.sharing import handover
from ibi.archive.sharing.handover import Deed, Given, Reply, Step, Taken, Word
from ibi.protocol.vocabulary import State

RUNNERS = 2
"""Who goes on with the hand-over at the giver at once: the server, and somebody's command."""

MOST_EDITS = 3


@dataclass(frozen=True)
class Rules:
    """The decisions; a test puts wrong ones in their place to see the proof fail."""

    first_word: Callable[[Given], Word] = handover.first_word
    next_step: Callable[[Given, Reply], Step] = handover.next_step
    outcome: Callable[..., tuple[Given, State]] = handover.outcome
    judge: Callable[..., tuple[Deed, Reply]] = handover.judge
    keeps_promises: bool = True
    """Whether a receiver that has declined remembers it."""


@dataclass
class Request:
    """A message on its way; `connection` is where an answer would go."""

    connection: int
    word: Word
    version: int
    proof: bool


@dataclass
class Answer:
    """An answer on its way."""

    connection: int
    reply: Reply
    version: int


@dataclass
class Runner:
    """What goes on with the hand-over at the giver: the word to be said next, or the connection it waits at."""

    word: Word | None = None
    connection: int | None = None


@dataclass
class World:
    """Both Archives: first what is on their disks, then what is in memory and on the wire."""

    chance: random.Random
    rules: Rules
    remove: bool = False

    version: int = 1
    giver: State = State.ORIGINAL
    given: Given = Given.OFFERED
    giver_has_bytes: bool = True
    stepped_back_with: int = 0

    receiver: State | None = None
    receiver_version: int = 0
    taken: Taken = Taken.NONE
    staged_version: int = 0

    runners: list[Runner] = field(default_factory=lambda: [Runner() for _ in range(RUNNERS)])
    requests: list[Request] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    replying: list[Answer] = field(default_factory=list)
    fetching: list[int] = field(default_factory=list)
    connections: int = 0
    edits: int = 0

    def broken(self) -> str:
        """The promise that is broken now, "" if none is."""
        if self.giver is State.ORIGINAL and self.receiver is State.ORIGINAL:
            return "two Originals"
        receiver_has_it = self.receiver in {State.ORIGINAL, State.COPY}
        if not (self.giver_has_bytes or receiver_has_it):
            return "nothing can be resolved"
        return ""

    # The giver

    def speak(self, runner: Runner) -> None:
        """Say the next word, or take the hand-over up."""
        word = runner.word or self.rules.first_word(self.given)
        version = self.stepped_back_with or self.version
        self.connections += 1
        runner.word, runner.connection = None, self.connections
        self.requests.append(Request(self.connections, word, version, proof=word is Word.COMPLETE))

    def hear(self, answer: Answer) -> None:
        """One transaction of the giver, if anybody still waits for this answer."""
        runner = next((each for each in self.runners if each.connection == answer.connection), None)
        if runner is None:
            return
        runner.connection = None
        if not self.given.open:
            return
        step = self.rules.next_step(self.given, answer.reply)
        same = answer.version == self.version
        stage, state = self.rules.outcome(self.given, step, self.giver, transferable=True, same=same)
        if stage is Given.HANDED is not self.given:
            self.stepped_back_with = self.version
        self.given, self.giver = stage, state
        if stage is Given.DONE and self.remove:
            self.giver_has_bytes = False
        if step is not Step.WAIT and stage.open:
            runner.word = Word.PROPOSE if step is Step.PROPOSE else self.rules.first_word(stage)

    def edit(self) -> None:
        """Somebody edits the original."""
        if self.giver is State.ORIGINAL and self.edits < MOST_EDITS:
            self.edits += 1
            self.version += 1

    def withdraw(self) -> None:
        """An administrator wants it back."""
        if self.given.open:
            idle = next((each for each in self.runners if each.connection is None), None)
            if idle is not None:
                idle.word = Word.WITHDRAW

    # The receiver

    def judge(self, request: Request) -> None:
        """One transaction of the receiver; its answer is not yet on its way."""
        same = self.receiver is State.COPY and self.staged_version == self.receiver_version == request.version
        deed, reply = self.rules.judge(self.taken, request.word, same=same, proven=request.proof)
        if deed is Deed.FETCH:
            if self.receiver in {State.ORIGINAL, State.DELETED}:
                reply = Reply.REFUSED
            else:
                self.fetching.append(0)
        elif deed is Deed.TAKE_OVER:
            self.receiver, self.taken = State.ORIGINAL, Taken.OWNED
        elif deed is Deed.DECLINE:
            self.taken = Taken.DECLINED if self.rules.keeps_promises else self.taken
        self.replying.append(Answer(request.connection, reply, self.receiver_version))

    def fetch(self, at: int) -> None:
        """The next step of a fetch: the description is read; then all files have come, and are staged."""
        seen = self.fetching.pop(at)
        if not seen:
            if self.giver_has_bytes and self.given.open:
                self.fetching.append(self.version)
            return
        if seen != self.version:
            return  # the files are not those that were described
        if self.taken in {Taken.OWNED, Taken.DECLINED} or self.receiver in {State.ORIGINAL, State.DELETED}:
            return
        self.receiver, self.receiver_version = State.COPY, seen
        self.taken, self.staged_version = Taken.STAGED, seen

    def forget(self) -> None:
        """Somebody removes the copy at the receiver."""
        if self.receiver is State.COPY:
            self.receiver = State.DELETED

    # Faults

    def kill_giver(self) -> None:
        """The giver dies: only its disk is left."""
        self.runners = [Runner() for _ in range(RUNNERS)]

    def kill_receiver(self) -> None:
        """The receiver dies: only its disk is left."""
        self.replying.clear()
        self.fetching.clear()
