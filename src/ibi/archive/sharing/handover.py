"""The hand-over of an original to another Archive: what each side does next (ARC-08, AMB-24, threat T33; pure).

    giver                                       receiver
    offered    the Original                     none
               -- propose ------------------->  fetches everything, verifies it
               <------------------- staged ---  staged     a Copy
    handed     a Copy; the proof may be told
               -- complete, with the proof -->  owned      the Original
               <-------------------- owned ---
    done       a Copy of the receiver's

There are never two Originals: the receiver takes its Copy for the Original only when it sees the proof, whose hash it
was told at the beginning, and the giver tells the proof only after its own state has durably become Copy. There is
always one that can be resolved: the giver steps back only once the receiver has everything.

Either side may stop after any step; every message may be lost, late, or come twice. The giver repeats itself until it
knows. It may ask to `withdraw`: a receiver that has not become the owner then promises durably never to become it.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import TYPE_CHECKING

from ibi.archive.item_lines import write_item
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from ibi.archive.holding import Holding


class Given(StrEnum):
    """How far a hand-over is at the giver."""

    OFFERED = "offered"
    HANDED = "handed"
    DONE = "done"
    ENDED = "ended"
    """It came to nothing, and the giver holds the Original."""

    @property
    def open(self) -> bool:
        """Whether there is anything left to do."""
        return self in {Given.OFFERED, Given.HANDED}


class Taken(StrEnum):
    """How far it is at the receiver."""

    NONE = "none"
    STAGED = "staged"
    OWNED = "owned"
    DECLINED = "declined"
    """It has promised never to become the owner through this hand-over."""


class Word(StrEnum):
    """What the giver says."""

    PROPOSE = "propose"
    COMPLETE = "complete"
    WITHDRAW = "withdraw"


class Reply(StrEnum):
    """What the receiver answers."""

    FETCHING = "fetching"
    STAGED = "staged"
    OWNED = "owned"
    DECLINED = "declined"
    UNKNOWN = "unknown"
    """It does not have the item as the giver has it: propose it again."""
    REFUSED = "refused"
    """It cannot take this item."""
    FAILING = "failing"
    """It cannot go on just now."""


class Step(StrEnum):
    """What the giver does after a reply."""

    PROPOSE = "propose"
    STEP_BACK = "step back"
    """Become a Copy, if the item is still as it was staged; otherwise propose it again."""
    COMPLETE = "complete"
    FINISH = "finish"
    TAKE_BACK = "take back"
    END = "end"
    WAIT = "wait"


class Deed(StrEnum):
    """What the receiver does with a message, beyond telling how far it is."""

    NOTHING = "nothing"
    FETCH = "fetch"
    TAKE_OVER = "take over"
    DECLINE = "decline"


_OFFERED = {
    Reply.STAGED: Step.STEP_BACK,
    Reply.UNKNOWN: Step.PROPOSE,
    Reply.OWNED: Step.FINISH,  # this side was set back to an older state of its disk
    Reply.DECLINED: Step.END,
    Reply.REFUSED: Step.END,
}
_HANDED = {
    Reply.STAGED: Step.COMPLETE,
    Reply.UNKNOWN: Step.PROPOSE,
    Reply.OWNED: Step.FINISH,
    Reply.DECLINED: Step.TAKE_BACK,
}


def first_word(stage: Given) -> Word:
    """What the giver says when it takes up an open hand-over."""
    return Word.COMPLETE if stage is Given.HANDED else Word.PROPOSE


def next_step(stage: Given, reply: Reply) -> Step:
    """What the giver of an open hand-over does after a reply."""
    return (_HANDED if stage is Given.HANDED else _OFFERED).get(reply, Step.WAIT)


def outcome(stage: Given, step: Step, state: State, *, transferable: bool, same: bool) -> tuple[Given, State]:
    """How far the giver is after a step, and what its item is then, both changed in one transaction.

    `same`: whether the item is as the receiver says that it has staged it.
    """
    if step is Step.STEP_BACK:
        if state is not State.ORIGINAL or not transferable:
            return Given.ENDED, state
        return (Given.HANDED, State.COPY) if same else (stage, state)
    if step is Step.FINISH:
        return Given.DONE, State.COPY if state is State.ORIGINAL else state
    if step is Step.TAKE_BACK:
        return Given.ENDED, State.ORIGINAL if state is State.COPY else state
    return (Given.ENDED if step is Step.END else stage), state


def judge(stage: Taken, word: Word, *, same: bool, proven: bool) -> tuple[Deed, Reply]:
    """What the receiver does with a message, and answers once that is done.

    `same`: whether it holds, as a Copy, what the message means; `proven`: whether the message has the proof.
    """
    if stage is Taken.OWNED:
        return Deed.NOTHING, Reply.OWNED
    if word is Word.WITHDRAW:
        return Deed.DECLINE, Reply.DECLINED
    if stage is Taken.DECLINED:
        return Deed.NOTHING, Reply.DECLINED
    ready = stage is Taken.STAGED and same
    if word is Word.PROPOSE:
        return (Deed.NOTHING, Reply.STAGED) if ready else (Deed.FETCH, Reply.FETCHING)
    if not ready:
        return Deed.NOTHING, Reply.UNKNOWN
    return (Deed.TAKE_OVER, Reply.OWNED) if proven else (Deed.NOTHING, Reply.REFUSED)


def seal_of(proof: str) -> str:
    """What the receiver is told of the proof beforehand: its SHA-256."""
    return hashlib.sha256(proof.encode()).hexdigest()


def fingerprint(holding: Holding) -> str:
    """What both sides must hold alike: SHA-256 over all facts, names and digests, but not the state."""
    facts = {
        name: value for name, value in write_item(holding).items() if name not in {"state", "key", "reason"}
    }
    facts["files"] = {file.name: [file.size, file.sha256] for file in holding.files}
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
