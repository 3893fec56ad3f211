"""Originals are handed over to another Archive while nodes of the giver, and the receiver, are killed (P-D4)."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.replication.giving import Giver
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from proofs.common.served_archive import Served
from proofs.nodes.asking import ask
from proofs.nodes.field import ARCHIVE, MADE
from proofs.transfer.observer import Observer
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proofs.nodes.field import Field
    from proofs.nodes.trials import Trial

_ACCEPTED: Final = 202
_SECONDS: Final = 120.0
"""Until a hand-over is done after the last kill; another node takes the duty over within 22 of them."""


def handed_over(trial: Trial) -> None:
    """Hand deposits over, one after the other, and kill who takes part."""
    field = trial.field
    giver = Served("nodes", field.folder / "archive0", field.ports[ARCHIVE])
    with _receiver(field) as (receiver, token):
        observer = Observer(giver, receiver)
        try:
            for _ in range(trial.scale.pick(1, 4, 25)):
                _hand_over(trial, giver, receiver, observer, token)
        finally:
            observer.close()
    trial.report.count("looks", observer.looks)
    for sentence in observer.broken:
        trial.report.violate(sentence)


@contextmanager
def _receiver(field: Field) -> Iterator[tuple[Served, str]]:
    """An Archive of one node that takes originals over; and a token for hand-overs of the giver."""
    receiver = Served("receiver", field.folder / "receiver", free_port())
    receiver.make()
    token = Tokens(receiver.data).make("nodes", MADE, (Scope.TRANSFER,))
    for node in field.of("archive"):
        Peer.write_tables(
            node.data, {"receiver": Peer(address=f"http://127.0.0.1:{receiver.port}", token=token)}
        )
    giver = Peer(address=f"http://{ARCHIVE}:{field.ports[ARCHIVE]}", token="")
    Peer.write_tables(receiver.data, {"nodes": giver})
    try:
        receiver.start()
        receiver.wait()
        yield receiver, field.token
    finally:
        receiver.stop()


def _hand_over(trial: Trial, giver: Served, receiver: Served, observer: Observer, token: str) -> None:
    made = trial.load.acknowledged.deposits[-1]
    observer.watch(made.rep)
    _begin(trial, made.rep, token)
    time.sleep(trial.chance.uniform(0, 1.5))
    if trial.chance.random() < 1 / 3:
        receiver.kill()
        trial.report.count("kills of the receiver")
    trial.kill(trial.chance.choice(trial.field.of("archive")))
    receiver.start()
    trial.settle()
    end = time.monotonic() + _SECONDS
    while not _is_done(giver, receiver, made.rep):
        if time.monotonic() > end:
            trial.report.violate(f"{made.rep} is not handed over after {_SECONDS:g} s")
            return
        time.sleep(0.2)
    trial.report.count("hand-overs")
    digests = [archive.digests(made.rep) for archive in (giver, receiver)]
    trial.report.demand(digests[0] == digests[1] and digests[0], f"other bytes of {made.rep} at the receiver")


def _begin(trial: Trial, name: str, token: str) -> None:
    """Ask for the hand-over until it starts."""
    body = json.dumps({"ibi": name, "to": "receiver"}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    while True:
        reply = ask(trial.field.at(ARCHIVE), "/-/api/hand-overs", method="POST", body=body, headers=headers)
        if not reply.refused:
            trial.report.demand(reply.status == _ACCEPTED, f"a hand-over was answered {reply}")
            return
        time.sleep(0.5)


def _is_done(giver: Served, receiver: Served, name: str) -> bool:
    """Whether both sides say so, and the giver has nothing left to do."""
    claims = [archive.claim(name) for archive in (receiver, giver)]
    if [claim.state if claim else None for claim in claims] != [ItemState.ORIGINAL, ItemState.COPY]:
        return False
    with giver.directory.item_store() as item_store:
        return not Giver(item_store, giver.data, "").open()
