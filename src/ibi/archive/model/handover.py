"""The hand-over of an original to another Archive: what each side does next (pure).

    giver                                       receiver
    offered    the Original                     none
               -- propose ------------------->  fetches everything, verifies it
               <------------------- staged ---  staged     a Copy
    handed     a Copy; the proof may be sent
               -- complete, with the proof -->  owned      the Original
               <-------------------- owned ---
    done       a Copy of the receiver's

There are never two Originals. The receiver, which got the hash of the proof at the beginning, makes its Copy
the Original only when it sees the proof; the giver sends the proof only after its own item has durably become
a Copy. Between these two steps both hold Copies: a reader is led to one of them, and a demanded original is
not found, or gets 503 while an Archive is silent (decision 0015, note 29). The giver steps back only once the
receiver has everything.

In the messages (docs/reference/http.md) and in the journals, `seal` is the hash of the proof, and `passage` is the
token with which the receiver fetches the item.

Either side may stop after any step; every message may be lost, late, or repeated. The giver repeats its
message until it has an answer. The giver may ask to `withdraw`: a receiver that is not yet the owner then
promises durably never to become the owner.

See ARC-08: an original may move; AMB-24: moving an original; T33: lost or doubled originals.
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
    """The stages of a hand-over at the giver."""

    OFFERED = "offered"
    HANDED = "handed"
    DONE = "done"
    ENDED = "ended"
    """The hand-over failed, or the item is no Original any more; the giver keeps the item as it is."""

    @property
    def open(self) -> bool:
        """Whether the giver has anything left to do."""
        return self in {GiverStage.OFFERED, GiverStage.HANDED}


class ReceiverStage(StrEnum):
    """The stages of a hand-over at the receiver."""

    NONE = "none"
    STAGED = "staged"
    OWNED = "owned"
    DECLINED = "declined"
    """The receiver has promised never to become the owner through this hand-over."""


class GiverMessage(StrEnum):
    """The kinds of the giver's messages."""

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
    """The receiver does not hold the item as the giver holds it: propose it again."""
    REFUSED = "refused"
    """The receiver cannot accept this item."""
    FAILING = "failing"
    """The receiver cannot continue at present."""


class GiverStep(StrEnum):
    """What the giver does after an answer."""

    PROPOSE = "propose"
    BECOME_COPY = "become copy"
    """Make the item a Copy, if it is still as the receiver has staged it; otherwise propose it again."""
    COMPLETE = "complete"
    FINISH = "finish"
    TAKE_BACK = "take back"
    END = "end"
    WAIT = "wait"


class ReceiverAction(StrEnum):
    """What the receiver does on a message, beside its reply."""

    NOTHING = "nothing"
    FETCH = "fetch"
    TAKE_OVER = "take over"
    DECLINE = "decline"


_OFFERED = {
    ReceiverReply.STAGED: GiverStep.BECOME_COPY,
    ReceiverReply.UNKNOWN: GiverStep.PROPOSE,
    # The giver was set back to an earlier state, by an older disk or a backup: since then it had stepped back, as the
    # receiver is the owner. An original from a backup is unsettled: the Archive does not answer about it until it is
    # known whether the item has moved or been removed since (decision 0039). This reply settles it.
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
    """Return the next step of the giver of an open hand-over after a reply."""
    return (_HANDED if stage is GiverStage.HANDED else _OFFERED).get(reply, GiverStep.WAIT)


def apply_step(
    stage: GiverStage, step: GiverStep, state: ItemState, *, transferable: bool, same: bool
) -> tuple[GiverStage, ItemState]:
    """Return the giver's stage after a step, and the state of its item; both are saved in one transaction.

    `same`: whether the item still equals the item that the receiver has staged.
    """
    if step is GiverStep.BECOME_COPY:
        if state is not ItemState.ORIGINAL or not transferable:
            return GiverStage.ENDED, state
        return (GiverStage.HANDED, ItemState.COPY) if same else (stage, state)
    if step is GiverStep.FINISH:
        return GiverStage.DONE, ItemState.COPY if state is ItemState.ORIGINAL else state
    if step is GiverStep.TAKE_BACK:
        return GiverStage.ENDED, ItemState.ORIGINAL if state is ItemState.COPY else state
    return (GiverStage.ENDED if step is GiverStep.END else stage), state


def receiver_action(
    stage: ReceiverStage, kind: GiverMessage, *, same: bool, proven: bool
) -> tuple[ReceiverAction, ReceiverReply]:
    """Return the receiver's action on a message, and its reply once the action is done.

    `same`: whether it holds, as a Copy, the item of the message; `proven`: whether the message has the proof.
    """
    if stage is ReceiverStage.OWNED:
        return ReceiverAction.NOTHING, ReceiverReply.OWNED
    if kind is GiverMessage.WITHDRAW:
        return ReceiverAction.DECLINE, ReceiverReply.DECLINED
    if stage is ReceiverStage.DECLINED:
        return ReceiverAction.NOTHING, ReceiverReply.DECLINED
    ready = stage is ReceiverStage.STAGED and same
    if kind is GiverMessage.PROPOSE:
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
    """Return the SHA-256 of the proof, which the giver sends to the receiver beforehand."""
    return hashlib.sha256(proof.encode()).hexdigest()


def fingerprint(holding: Holding) -> str:
    """Return the SHA-256 of what both sides must share: facts, names and digests, without the state.

    Without the institution, too: an older Archive does not know it, and could not compute the same.
    """
    left_out = {"state", "key", "reason", "institution"}
    facts = {name: value for name, value in write_item(holding).items() if name not in left_out}
    facts["files"] = {file.name: [file.size, file.sha256] for file in holding.files}
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
