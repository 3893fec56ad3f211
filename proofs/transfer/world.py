"""A giver, a receiver and a network that fails, as values: every decision is that of the real code (`handover`).

Each step is one that cannot be interrupted: a transaction, or the arrival of one message. Between any two of them
anything may happen: a process dies, a message is lost, comes late, or comes twice, a user edits or removes the item.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ibi.archive.model import handover
from ibi.archive.model.handover import (
    GiverMessage,
    GiverStage,
    GiverStep,
    ReceiverAction,
    ReceiverReply,
    ReceiverStage,
)
from ibi.protocol.vocabulary import ItemState

RUNNERS = 2
"""Who goes on with the hand-over at the giver at once: the server, and a command."""

MOST_EDITS = 3


@dataclass(frozen=True)
class DecisionRules:
    """The decisions; a test puts wrong ones in their place to see the proof fail."""

    first_word: Callable[[GiverStage], GiverMessage] = handover.first_message
    next_step: Callable[[GiverStage, ReceiverReply], GiverStep] = handover.next_step
    outcome: Callable[..., tuple[GiverStage, ItemState]] = handover.apply_step
    judge: Callable[..., tuple[ReceiverAction, ReceiverReply]] = handover.receiver_action
    keeps_promises: bool = True
    """Whether a receiver that has declined remembers it."""


@dataclass
class Request:
    """A message on its way; `connection` is where an answer would go."""

    connection: int
    word: GiverMessage
    version: int
    proof: bool


@dataclass
class Answer:
    """An answer on its way."""

    connection: int
    reply: ReceiverReply
    version: int


@dataclass
class Runner:
    """What goes on with the hand-over at the giver: the word to be said next, or the connection it waits at."""

    word: GiverMessage | None = None
    connection: int | None = None


@dataclass
class World:
    """Both Archives: first what is on their disks, then what is in memory and on the wire."""

    chance: random.Random
    rules: DecisionRules
    remove: bool = False

    version: int = 1
    giver: ItemState = ItemState.ORIGINAL
    given: GiverStage = GiverStage.OFFERED
    giver_has_bytes: bool = True
    stepped_back_with: int = 0

    receiver: ItemState | None = None
    receiver_version: int = 0
    taken: ReceiverStage = ReceiverStage.NONE
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
        if self.giver is ItemState.ORIGINAL and self.receiver is ItemState.ORIGINAL:
            return "two Originals"
        receiver_has_it = self.receiver in {ItemState.ORIGINAL, ItemState.COPY}
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
        self.requests.append(Request(self.connections, word, version, proof=word is GiverMessage.COMPLETE))

    def hear(self, answer: Answer) -> None:
        """One transaction of the giver, if a runner still waits for this answer."""
        runner = next((each for each in self.runners if each.connection == answer.connection), None)
        if runner is None:
            return
        runner.connection = None
        if not self.given.open:
            return
        step = self.rules.next_step(self.given, answer.reply)
        same = answer.version == self.version
        stage, state = self.rules.outcome(self.given, step, self.giver, transferable=True, same=same)
        if stage is GiverStage.HANDED is not self.given:
            self.stepped_back_with = self.version
        self.given, self.giver = stage, state
        if stage is GiverStage.DONE and self.remove:
            self.giver_has_bytes = False
        if step is not GiverStep.WAIT and stage.open:
            runner.word = GiverMessage.PROPOSE if step is GiverStep.PROPOSE else self.rules.first_word(stage)

    def edit(self) -> None:
        """A user edits the original."""
        if self.giver is ItemState.ORIGINAL and self.edits < MOST_EDITS:
            self.edits += 1
            self.version += 1

    def withdraw(self) -> None:
        """An administrator wants it back."""
        if self.given.open:
            idle = next((each for each in self.runners if each.connection is None), None)
            if idle is not None:
                idle.word = GiverMessage.WITHDRAW

    # The receiver

    def judge(self, request: Request) -> None:
        """One transaction of the receiver; its answer is not yet on its way."""
        same = (
            self.receiver is ItemState.COPY
            and self.staged_version == self.receiver_version == request.version
        )
        deed, reply = self.rules.judge(self.taken, request.word, same=same, proven=request.proof)
        if deed is ReceiverAction.FETCH:
            if self.receiver in {ItemState.ORIGINAL, ItemState.DELETED}:
                reply = ReceiverReply.REFUSED
            else:
                self.fetching.append(0)
        elif deed is ReceiverAction.TAKE_OVER:
            self.receiver, self.taken = ItemState.ORIGINAL, ReceiverStage.OWNED
        elif deed is ReceiverAction.DECLINE:
            self.taken = ReceiverStage.DECLINED if self.rules.keeps_promises else self.taken
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
        if self.taken in {ReceiverStage.OWNED, ReceiverStage.DECLINED} or self.receiver in {
            ItemState.ORIGINAL,
            ItemState.DELETED,
        }:
            return
        self.receiver, self.receiver_version = ItemState.COPY, seen
        self.taken, self.staged_version = ReceiverStage.STAGED, seen

    def forget(self) -> None:
        """A user removes the copy at the receiver."""
        if self.receiver is ItemState.COPY:
            self.receiver = ItemState.DELETED

    # Faults

    def kill_giver(self) -> None:
        """The giver dies: only its disk is left."""
        self.runners = [Runner() for _ in range(RUNNERS)]

    def kill_receiver(self) -> None:
        """The receiver dies: only its disk is left."""
        self.replying.clear()
        self.fetching.clear()
