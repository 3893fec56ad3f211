"""The journals of outgoing and of incoming hand-overs of originals.

A row changes in one transaction with its item: after any interruption each Archive knows its stage. See AMB-24:
moving an original; T33: lost or doubled originals.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ibi.archive.model.handover import GiverStage, ReceiverStage
from ibi.archive.store.tables.rows import record_values, upsert, write_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.store.tables.catalogue import SqlRunner
    from ibi.errors import IbiError

_OUTGOING_COLUMNS = (
    "id, item, peer, address, passage, proof, fingerprint, service, remove, who, stage, moment, problem"
)
_SAVE_OUTGOING = upsert("giving", "id", _OUTGOING_COLUMNS, fixed="item, passage, proof, who")
_OUTGOING = f"SELECT {_OUTGOING_COLUMNS} FROM giving WHERE id = :id"  # noqa: S608 - made of our own column names
_OUTGOING_OF_ITEM = f"SELECT {_OUTGOING_COLUMNS} FROM giving WHERE item = :item ORDER BY moment, id"  # noqa: S608 - made of our own column names
_OPEN_OUTGOING = (
    f"SELECT {_OUTGOING_COLUMNS} FROM giving WHERE stage IN ('offered', 'handed') ORDER BY moment, id"  # noqa: S608 - made of our own column names
)
_MAIN_NAME = "SELECT name FROM name WHERE item = :item AND main"
_INCOMING_COLUMNS = "id, item, giver, address, seal, fingerprint, history, stage, moment"
_SAVE_INCOMING = upsert("receiving", "id", _INCOMING_COLUMNS, fixed="giver")
_INCOMING = f"SELECT {_INCOMING_COLUMNS} FROM receiving WHERE id = :id"  # noqa: S608 - made of our own column names
_RECEIVED = (
    "SELECT receiving.id, name.name, item.state, item.unsettled, copied.archive, copied.service FROM receiving"
    " JOIN item ON item.number = receiving.item JOIN name ON name.item = item.number AND name.main"
    " LEFT JOIN copied ON copied.item = item.number"
    " WHERE receiving.giver = :giver AND receiving.stage = 'owned' AND receiving.id > :after"
    " ORDER BY receiving.id LIMIT :most"
)


class ReceivedOriginal(NamedTuple):
    """An original that a giver has handed over to this Archive, and its present state here.

    `state`: a value of ItemState; `unsettled`: as in Holding, or None. For a copy, `archive` is the root URL
    of the Archive of its original, and `service` the IBI of that Archive's service; else both are None.
    """

    transfer: str
    name: str
    state: str
    unsettled: str | None
    archive: str | None
    service: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingTransfer:
    """A hand-over of an original to another Archive. `moment`: its last change, "2026-11-21T10:00:00Z"."""

    id: str
    item: int
    """The number of the item here."""
    peer: str
    """The name of the receiver in the settings."""
    address: str
    """The receiver's root URL."""
    passage: str
    """The token with which the receiver fetches the item, whatever its access; a secret of both."""
    proof: str
    """The proof that makes the receiver the owner; a secret until this Archive has stepped back."""
    remove: bool
    """Whether the files are to be removed in the end."""
    who: str
    """The account that requested the hand-over."""
    stage: GiverStage
    moment: str
    fingerprint: str = ""
    """The fingerprint of the item when this Archive stepped back; "" before."""
    service: str = ""
    """The IBI of the receiver's Archive service, "" before the step back: no other one may complete it."""
    problem: IbiError | None = None
    """The last failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingTransfer:
    """An original that another Archive is handing over."""

    id: str
    item: int | None
    """The number of the item here, once there is one."""
    giver: str
    """The name of the token that the giver uses here."""
    address: str
    """The giver's root URL."""
    seal: str
    """The SHA-256 of the proof."""
    fingerprint: str
    """The fingerprint of the item as it was fetched."""
    history: Sequence[dict[str, Any]]
    """The history of the item before, as the giver reported it."""
    stage: ReceiverStage
    moment: str


def save_outgoing(run: SqlRunner, transfer: OutgoingTransfer) -> None:
    """Save the state of an outgoing hand-over."""
    run(_SAVE_OUTGOING, **write_record(transfer))


def outgoing(run: SqlRunner, transfer_id: str) -> OutgoingTransfer | None:
    """Return the outgoing hand-over of this id; None if there is none."""
    row = run(_OUTGOING, id=transfer_id).fetchone()
    return _read_outgoing(row) if row else None


def outgoing_of_item(run: SqlRunner, item: int) -> list[OutgoingTransfer]:
    """Return every outgoing hand-over of the item of this number, oldest first."""
    return [_read_outgoing(row) for row in run(_OUTGOING_OF_ITEM, item=item).fetchall()]


def open_outgoing(run: SqlRunner) -> list[OutgoingTransfer]:
    """Return the outgoing hand-overs that are not finished."""
    return [_read_outgoing(row) for row in run(_OPEN_OUTGOING).fetchall()]


def main_name(run: SqlRunner, item: int) -> str:
    """Return the canonical main name of the item of this number."""
    return str(run(_MAIN_NAME, item=item).fetchone()[0])


def save_incoming(run: SqlRunner, transfer: IncomingTransfer) -> None:
    """Save the state of an incoming hand-over."""
    history = json.dumps(transfer.history, ensure_ascii=False)
    run(_SAVE_INCOMING, **write_record(transfer) | {"history": history})


def incoming(run: SqlRunner, transfer_id: str) -> IncomingTransfer | None:
    """Return the incoming hand-over of this id; None if it is unknown."""
    row = run(_INCOMING, id=transfer_id).fetchone()
    if row is None:
        return None
    values = record_values(_INCOMING_COLUMNS, row)
    values |= {"history": json.loads(values["history"]), "stage": ReceiverStage(values["stage"])}
    return IncomingTransfer(**values)


def received_from(run: SqlRunner, giver: str, after: str, most: int) -> list[ReceivedOriginal]:
    """Return `most` originals from the giver with this token, by hand-over id, those after `after`."""
    return [ReceivedOriginal(*row) for row in run(_RECEIVED, giver=giver, after=after, most=most).fetchall()]


def _read_outgoing(row: Sequence[Any]) -> OutgoingTransfer:
    values = record_values(_OUTGOING_COLUMNS, row)
    return OutgoingTransfer(
        **values | {"remove": bool(values["remove"]), "stage": GiverStage(values["stage"])}
    )
