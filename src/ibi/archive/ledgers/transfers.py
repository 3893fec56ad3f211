"""The journals of hand-overs: what this Archive gives away, and what it is being given (AMB-24, threat T33).

An entry changes in the same transaction as the item that it is about, so that after any interruption both sides know
how far they are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibi.archive.ledgers.problems import read_problem, write_problem
from ibi.archive.sharing.handover import Given, Taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.catalogue import Run
    from ibi.errors import IbiError

_GIVING = "id, item, peer, address, passage, proof, fingerprint, service, remove, who, stage, moment, problem"
_KEEP_GIVING = (
    f"INSERT INTO giving ({_GIVING})"  # noqa: S608 - made of our own column names
    " VALUES (:id, :item, :peer, :address, :passage, :proof, :fingerprint, :service, :remove, :who, :stage,"
    " :moment, :problem)"
    " ON CONFLICT (id) DO UPDATE SET peer = excluded.peer, address = excluded.address,"
    " fingerprint = excluded.fingerprint, service = excluded.service, remove = excluded.remove, stage = excluded.stage,"
    " moment = excluded.moment, problem = excluded.problem"
)
_GIVING_OF = f"SELECT {_GIVING} FROM giving WHERE id = :id"  # noqa: S608 - made of our own column names
_GIVINGS_OF_ITEM = f"SELECT {_GIVING} FROM giving WHERE item = :item ORDER BY moment, id"  # noqa: S608 - made of our own column names
_OPEN = f"SELECT {_GIVING} FROM giving WHERE stage IN ('offered', 'handed') ORDER BY moment, id"  # noqa: S608 - made of our own column names
_MAIN_NAME = "SELECT name FROM name WHERE item = :item AND main"
_TAKING = "id, item, giver, address, seal, fingerprint, history, stage, moment"
_KEEP_TAKING = (
    f"INSERT INTO receiving ({_TAKING})"  # noqa: S608 - made of our own column names
    " VALUES (:id, :item, :giver, :address, :seal, :fingerprint, :history, :stage, :moment)"
    " ON CONFLICT (id) DO UPDATE SET item = excluded.item, address = excluded.address, seal = excluded.seal,"
    " fingerprint = excluded.fingerprint, history = excluded.history, stage = excluded.stage,"
    " moment = excluded.moment"
)
_TAKING_OF = f"SELECT {_TAKING} FROM receiving WHERE id = :id"  # noqa: S608 - made of our own column names


@dataclass(frozen=True, slots=True, kw_only=True)
class Giving:
    """An original on its way to another Archive. `moment`: when it was last changed, "2026-11-21T10:00:00Z"."""

    id: str
    item: int
    """The number of the item here."""
    peer: str
    """The name under which settings know the receiver."""
    address: str
    """The receiver's root URL."""
    passage: str
    """What the receiver fetches the item with, whatever access others have; a secret of both."""
    proof: str
    """What makes the receiver the owner; a secret until this Archive has stepped back."""
    remove: bool
    """Whether the files shall go in the end."""
    who: str
    """Who wished it."""
    stage: Given
    moment: str
    fingerprint: str = ""
    """Of the item when this Archive stepped back, "" before."""
    service: str = ""
    """The IBI of the Archive service of the receiver for which it did, "" before: nobody else may complete it."""
    problem: IbiError | None = None
    """What went wrong last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """An original that another Archive is handing over."""

    id: str
    item: int | None
    """The number of the item here, once there is one."""
    giver: str
    """The name of the token with which it came."""
    address: str
    """The giver's root URL."""
    seal: str
    """The SHA-256 of the proof."""
    fingerprint: str
    """Of what was fetched."""
    history: Sequence[dict[str, Any]]
    """What had happened to the item before, as the giver tells it."""
    stage: Taken
    moment: str


def keep_giving(run: Run, giving: Giving) -> None:
    """Write down how far a hand-over is."""
    run(
        _KEEP_GIVING,
        giving.id,
        giving.item,
        giving.peer,
        giving.address,
        giving.passage,
        giving.proof,
        giving.fingerprint,
        giving.service,
        giving.remove,
        giving.who,
        giving.stage.value,
        giving.moment,
        write_problem(giving.problem),
    )


def giving_of(run: Run, transfer: str) -> Giving | None:
    """The hand-over of this id, None if there is none."""
    row = run(_GIVING_OF, transfer).fetchone()
    return _giving(row) if row else None


def givings_of(run: Run, item: int) -> list[Giving]:
    """Every hand-over of the item of this number, oldest first."""
    return [_giving(row) for row in run(_GIVINGS_OF_ITEM, item).fetchall()]


def open_givings(run: Run) -> list[Giving]:
    """The hand-overs that are not at their end."""
    return [_giving(row) for row in run(_OPEN).fetchall()]


def main_name(run: Run, item: int) -> str:
    """The canonical main name of the item of this number."""
    return str(run(_MAIN_NAME, item).fetchone()[0])


def keep_taking(run: Run, taking: Taking) -> None:
    """Write down how far a hand-over is at the receiver."""
    run(
        _KEEP_TAKING,
        taking.id,
        taking.item,
        taking.giver,
        taking.address,
        taking.seal,
        taking.fingerprint,
        json.dumps(taking.history, ensure_ascii=False),
        taking.stage.value,
        taking.moment,
    )


def taking_of(run: Run, transfer: str) -> Taking | None:
    """The hand-over of this id at the receiver, None if it was never heard of."""
    row = run(_TAKING_OF, transfer).fetchone()
    if row is None:
        return None
    number, item, giver, address, seal, found, history, stage, moment = row
    return Taking(
        id=number,
        item=item,
        giver=giver,
        address=address,
        seal=seal,
        fingerprint=found,
        history=json.loads(history),
        stage=Taken(stage),
        moment=moment,
    )


def _giving(row: Sequence[Any]) -> Giving:
    told: dict[str, Any] = dict(zip(_GIVING.split(", "), row, strict=True))
    told |= {"remove": bool(told["remove"]), "stage": Given(told["stage"])}
    return Giving(**told | {"problem": read_problem(told["problem"])})
