"""The hand-over of an original: each step of both sides, for every stage, message and state."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from ibi.archive.model.handover import (
    GiverMessage,
    GiverStage,
    GiverStep,
    ReceiverAction,
    ReceiverReply,
    ReceiverStage,
    apply_step,
    fingerprint,
    first_message,
    next_step,
    proof_digest,
    receiver_action,
)
from ibi.archive.model.item import Holding, MetadataValue, StoredFile
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState

COMPLETE, PROPOSE, WITHDRAW = GiverMessage.COMPLETE, GiverMessage.PROPOSE, GiverMessage.WITHDRAW
ORIGINAL, COPY, DELETED = ItemState.ORIGINAL, ItemState.COPY, ItemState.DELETED
OFFERED, HANDED, DONE, ENDED = GiverStage.OFFERED, GiverStage.HANDED, GiverStage.DONE, GiverStage.ENDED
YES_AND_NO = (True, False)


def test_a_hand_over_is_open_until_it_is_done_or_has_ended() -> None:
    assert [stage for stage in GiverStage if stage.open] == [OFFERED, HANDED]
    assert [first_message(stage) for stage in GiverStage] == [PROPOSE, COMPLETE, PROPOSE, PROPOSE]


@pytest.mark.parametrize(
    ("reply", "of_offered", "of_handed"),
    [
        (ReceiverReply.FETCHING, GiverStep.WAIT, GiverStep.WAIT),
        (ReceiverReply.STAGED, GiverStep.BECOME_COPY, GiverStep.COMPLETE),
        (ReceiverReply.OWNED, GiverStep.FINISH, GiverStep.FINISH),
        (ReceiverReply.DECLINED, GiverStep.END, GiverStep.TAKE_BACK),
        (ReceiverReply.UNKNOWN, GiverStep.PROPOSE, GiverStep.PROPOSE),
        (ReceiverReply.REFUSED, GiverStep.END, GiverStep.WAIT),
        (ReceiverReply.FAILING, GiverStep.WAIT, GiverStep.WAIT),
    ],
)
def test_the_giver_does_this_after_a_reply(
    reply: ReceiverReply, of_offered: GiverStep, of_handed: GiverStep
) -> None:
    assert (next_step(OFFERED, reply), next_step(HANDED, reply)) == (of_offered, of_handed)


@pytest.mark.proves("ARC-08")
@pytest.mark.parametrize(
    ("stage", "transferable", "same"), list(product((OFFERED, HANDED), YES_AND_NO, YES_AND_NO))
)
def test_a_step_changes_the_stage_and_the_item_of_the_giver_so(
    stage: GiverStage, transferable: bool, same: bool
) -> None:
    """An item becomes a Copy only if it is an Original that may go, and still the one that the receiver has."""
    becomes = (ENDED, ORIGINAL) if not transferable else (HANDED, COPY) if same else (stage, ORIGINAL)
    expected: dict[GiverStep, tuple[Any, Any, Any]] = {
        GiverStep.PROPOSE: ((stage, ORIGINAL), (stage, COPY), (stage, DELETED)),
        GiverStep.BECOME_COPY: (becomes, (ENDED, COPY), (ENDED, DELETED)),
        GiverStep.COMPLETE: ((stage, ORIGINAL), (stage, COPY), (stage, DELETED)),
        GiverStep.FINISH: ((DONE, COPY), (DONE, COPY), (DONE, DELETED)),
        GiverStep.TAKE_BACK: ((ENDED, ORIGINAL), (ENDED, ORIGINAL), (ENDED, DELETED)),
        GiverStep.END: ((ENDED, ORIGINAL), (ENDED, COPY), (ENDED, DELETED)),
        GiverStep.WAIT: ((stage, ORIGINAL), (stage, COPY), (stage, DELETED)),
    }
    found = {
        step: tuple(
            apply_step(stage, step, state, transferable=transferable, same=same)
            for state in (ORIGINAL, COPY, DELETED)
        )
        for step in GiverStep
    }
    assert found == expected


@pytest.mark.proves("AMB-24")
@pytest.mark.parametrize(("same", "proven"), list(product(YES_AND_NO, YES_AND_NO)))
def test_the_receiver_does_this_on_a_message(same: bool, proven: bool) -> None:
    """It becomes the owner only with the proof and of the item that it holds, and never after it has declined."""
    fetch = (ReceiverAction.FETCH, ReceiverReply.FETCHING)
    decline = (ReceiverAction.DECLINE, ReceiverReply.DECLINED)
    unknown, owned, declined, staged, refused = (
        (ReceiverAction.NOTHING, reply)
        for reply in (
            ReceiverReply.UNKNOWN, ReceiverReply.OWNED, ReceiverReply.DECLINED, ReceiverReply.STAGED,
            ReceiverReply.REFUSED,
        )
    )  # fmt: skip
    completed = (ReceiverAction.TAKE_OVER, ReceiverReply.OWNED) if proven else refused
    expected = {
        ReceiverStage.NONE: (fetch, unknown, decline),
        ReceiverStage.STAGED: (staged if same else fetch, completed if same else unknown, decline),
        ReceiverStage.OWNED: (owned, owned, owned),
        ReceiverStage.DECLINED: (declined, declined, decline),
    }
    found = {
        stage: tuple(
            receiver_action(stage, kind, same=same, proven=proven) for kind in (PROPOSE, COMPLETE, WITHDRAW)
        )
        for stage in ReceiverStage
    }
    assert found == expected


def test_both_sides_compute_the_same_digests_as_every_version_before() -> None:
    """Archives of two versions hand items over to each other."""
    holding = Holding(
        forms=IBIForms.parse("rep a.example/b/2010/01.01.00.00 ibip 8JMKD3MGP8W/35MME4E"),
        timestamp="2020-01-01T00:00:00Z",
        key="a key",
        language="pt-BR",
        files=(
            StoredFile("b.txt", 2, "bb", "text/plain", "staged"),
            StoredFile("a.txt", 1, "aa", "text/plain"),
        ),
        metadata={"title": (MetadataValue("Título", "pt"),)},
        institution={"": "An institute"},
    )
    assert proof_digest("proof") == "c1cda26362828b69266512052b97cb3729e3b052e4ade47c0a1e3383defe73c7"
    assert fingerprint(holding) == "df3ffd095080ee0d9828546d4b82c85460fe113491ad8852e22d5f1eb958a1d3"
