"""The hand-over of an original to another Archive: what each side does next (ARC-08, AMB-24, threat T33; pure).

    giver                                       receiver
    offered    the Original                     none
               -- propose ------------------->  fetches everything, verifies it
               <------------------- staged ---  staged     a Copy
    handed     a Copy; the proof may be sent
               -- complete, with the proof -->  owned      the Original
               <-------------------- owned ---
    done       a Copy of the receiver's

There are never two Originals: the receiver makes its Copy the Original only when it sees the proof, whose hash it was
sent at the beginning, and the giver sends the proof only after its own state has durably become Copy. Between these
two steps both are Copies: a reader is led to one of them, and a demanded original is not found (decision 0015, note
29). The giver steps back only once the receiver has everything.

Either side may stop after any step; every message may be lost, late, or repeated. The giver repeats its message until
it has an answer. It may ask to `withdraw`: a receiver that is not yet the owner then promises durably never to become
it.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import TYPE_CHECKING

from ibi.archive.model.item_json import write_item
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from ibi.archive.model.item import Holding


class GiverStage(StrEnum):
    """How far a hand-over is at the giver."""

    OFFERED = "offered"
    HANDED = "handed"
    DONE = "done"
    ENDED = "ended"
    """It failed, or the item is no Original any more; the giver keeps what it holds."""

    @property
    def open(self) -> bool:
        """Whether the giver has anything left to do."""
        return self in {GiverStage.OFFERED, GiverStage.HANDED}


class ReceiverStage(StrEnum):
    """How far a hand-over is at the receiver."""

    NONE = "none"
    STAGED = "staged"
    OWNED = "owned"
    DECLINED = "declined"
    """It has promised never to become the owner through this hand-over."""


class GiverMessage(StrEnum):
    """The messages of the giver."""

    PROPOSE = "propose"
    COMPLETE = "complete"
    WITHDRAW = "withdraw"


class ReceiverReply(StrEnum):
    """The answers of the receiver."""

    FETCHING = "fetching"
    STAGED = "staged"
    OWNED = "owned"
    DECLINED = "declined"
    UNKNOWN = "unknown"
    """It does not have the item as the giver has it: propose it again."""
    REFUSED = "refused"
    """It cannot take this item."""
    FAILING = "failing"
    """It cannot continue at present."""


class GiverStep(StrEnum):
    """What the giver does after an answer."""

    PROPOSE = "propose"
    STEP_BACK = "step back"
    """Become a Copy, if the item is still as it was staged; otherwise propose it again."""
    COMPLETE = "complete"
    FINISH = "finish"
    TAKE_BACK = "take back"
    END = "end"
    WAIT = "wait"


class ReceiverAction(StrEnum):
    """What the receiver does with a message, beside answering it."""

    NOTHING = "nothing"
    FETCH = "fetch"
    TAKE_OVER = "take over"
    DECLINE = "decline"


_OFFERED = {
    ReceiverReply.STAGED: GiverStep.STEP_BACK,
    ReceiverReply.UNKNOWN: GiverStep.PROPOSE,
    # The giver lost its latest state (an older disk): the receiver owns the item, so the giver had become a Copy.
    ReceiverReply.OWNED: GiverStep.FINISH,
    ReceiverReply.DECLINED: GiverStep.END,
    ReceiverReply.REFUSED: GiverStep.END,
}
_HANDED = {
    ReceiverReply.STAGED: GiverStep.COMPLETE,
    ReceiverReply.UNKNOWN: GiverStep.PROPOSE,
    ReceiverReply.OWNED: GiverStep.FINISH,
    ReceiverReply.DECLINED: GiverStep.TAKE_BACK,
}


def first_message(stage: GiverStage) -> GiverMessage:
    """Return the message with which the giver continues an open hand-over."""
    return GiverMessage.COMPLETE if stage is GiverStage.HANDED else GiverMessage.PROPOSE


def next_step(stage: GiverStage, reply: ReceiverReply) -> GiverStep:
    """Return what the giver of an open hand-over does after an answer."""
    return (_HANDED if stage is GiverStage.HANDED else _OFFERED).get(reply, GiverStep.WAIT)


def apply_step(
    stage: GiverStage, step: GiverStep, state: ItemState, *, transferable: bool, same: bool
) -> tuple[GiverStage, ItemState]:
    """Return how far the giver is after a step, and the state of its item; both change in one transaction.

    `same`: whether the item still equals what the receiver has staged.
    """
    if step is GiverStep.STEP_BACK:
        if state is not ItemState.ORIGINAL or not transferable:
            return GiverStage.ENDED, state
        return (GiverStage.HANDED, ItemState.COPY) if same else (stage, state)
    if step is GiverStep.FINISH:
        return GiverStage.DONE, ItemState.COPY if state is ItemState.ORIGINAL else state
    if step is GiverStep.TAKE_BACK:
        return GiverStage.ENDED, ItemState.ORIGINAL if state is ItemState.COPY else state
    return (GiverStage.ENDED if step is GiverStep.END else stage), state


def receiver_action(
    stage: ReceiverStage, word: GiverMessage, *, same: bool, proven: bool
) -> tuple[ReceiverAction, ReceiverReply]:
    """Return what the receiver does with a message, and answers once that is done.

    `same`: whether it holds, as a Copy, the item of the message; `proven`: whether the message has the proof.
    """
    if stage is ReceiverStage.OWNED:
        return ReceiverAction.NOTHING, ReceiverReply.OWNED
    if word is GiverMessage.WITHDRAW:
        return ReceiverAction.DECLINE, ReceiverReply.DECLINED
    if stage is ReceiverStage.DECLINED:
        return ReceiverAction.NOTHING, ReceiverReply.DECLINED
    ready = stage is ReceiverStage.STAGED and same
    if word is GiverMessage.PROPOSE:
        return (
            (ReceiverAction.NOTHING, ReceiverReply.STAGED)
            if ready
            else (ReceiverAction.FETCH, ReceiverReply.FETCHING)
        )
    if not ready:
        return ReceiverAction.NOTHING, ReceiverReply.UNKNOWN
    return (
        (ReceiverAction.TAKE_OVER, ReceiverReply.OWNED)
        if proven
        else (ReceiverAction.NOTHING, ReceiverReply.REFUSED)
    )


def proof_digest(proof: str) -> str:
    """Return the SHA-256 of the proof, which the receiver is sent beforehand."""
    return hashlib.sha256(proof.encode()).hexdigest()


def fingerprint(holding: Holding) -> str:
    """Return the SHA-256 over the facts, names and digests that both sides must have in common, without the state."""
    facts = {
        name: value for name, value in write_item(holding).items() if name not in {"state", "key", "reason"}
    }
    facts["files"] = {file.name: [file.size, file.sha256] for file in holding.files}
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
