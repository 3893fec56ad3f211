"""Memberships: the state of this Archive at each of its resolvers, as far as the resolver has reported it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ibi.archive.store.tables.rows import read_problem, upsert, write_problem

if TYPE_CHECKING:
    from ibi.archive.store.tables.catalogue import SqlRunner
    from ibi.errors import IbiError

_NOTE = upsert("membership", "resolver", "resolver, state, since, heard, problem")
_ALL = "SELECT resolver, state, since, heard, problem FROM membership ORDER BY resolver"
_FORGET = "DELETE FROM membership WHERE resolver = :resolver"


class MembershipStanding(StrEnum):
    """The state of an Archive at a resolver."""

    WAITING = "waiting"
    """It asks for inclusion and has no answer yet."""
    INCLUDED = "included"
    """Included, and the resolver could reach it."""
    UNCONFIRMED = "included, not confirmed"
    """Included, though the resolver could not reach it (REG-05)."""
    REFUSED = "refused"
    """Not registered there, or not with this key."""
    EXCLUDED = "excluded"
    """The Archive has asked for its exclusion."""

    @property
    def included(self) -> bool:
        """Whether the resolver asks this Archive for items."""
        return self in {MembershipStanding.INCLUDED, MembershipStanding.UNCONFIRMED}


@dataclass(frozen=True, slots=True)
class MembershipRecord:
    """One Archive at one resolver: `since` when it stands so, `heard` the last word of the resolver ("": none yet).

    Moments are as in "2026-11-21T10:00:00Z"; `problem` is what went wrong last, None if nothing did; `notices`: whether
    the resolver takes notices of change (note 46), which is in no table: it says so with each inclusion status.
    """

    resolver: str
    standing: MembershipStanding
    since: str
    heard: str = ""
    problem: IbiError | None = None
    notices: bool = False


def save(run: SqlRunner, member: MembershipRecord) -> None:
    """Record the state of the Archive at a resolver."""
    run(
        _NOTE,
        resolver=member.resolver,
        state=member.standing.value,
        since=member.since,
        heard=member.heard or None,
        problem=write_problem(member.problem),
    )


def all_memberships(run: SqlRunner) -> dict[str, MembershipRecord]:
    """Return the state of the Archive at each resolver, by the resolvers' root URLs."""
    rows = run(_ALL).fetchall()
    return {
        url: MembershipRecord(url, MembershipStanding(state), since, heard or "", read_problem(problem))
        for url, state, since, heard, problem in rows
    }


def forget(run: SqlRunner, resolver: str) -> None:
    """Delete a resolver that the Archive has left."""
    run(_FORGET, resolver=resolver)
