"""Memberships: the last known state of this Archive at each of its resolvers."""

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
    """The Archive requests inclusion and has no answer yet."""
    INCLUDED = "included"
    """The Archive is included, and the resolver could reach it."""
    UNCONFIRMED = "included, not confirmed"
    """The Archive is included, although the resolver could not reach it (REG-05: what inclusion needs)."""
    REFUSED = "refused"
    """The resolver refuses the Archive, its key, or its address."""
    EXCLUDED = "excluded"
    """The Archive has asked for its exclusion."""

    @property
    def included(self) -> bool:
        """Whether the resolver asks this Archive for items."""
        return self in {MembershipStanding.INCLUDED, MembershipStanding.UNCONFIRMED}


@dataclass(frozen=True, slots=True)
class MembershipRecord:
    """The state of this Archive at one resolver. Moments: "2026-11-21T10:00:00Z".

    `since`: when `standing` began; `heard`: when the resolver last answered ("": never); `problem`: the last failure,
    None if the last request succeeded; `notices`: whether the resolver takes notices of change (note 46: notices of
    change). `notices` is not stored, because the resolver states it with each inclusion status.
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
    """Return the state of the Archive at each resolver, by the root URL of the resolver."""
    rows = run(_ALL).fetchall()
    return {
        url: MembershipRecord(url, MembershipStanding(state), since, heard or "", read_problem(problem))
        for url, state, since, heard, problem in rows
    }


def forget(run: SqlRunner, resolver: str) -> None:
    """Delete a resolver that the Archive has left."""
    run(_FORGET, resolver=resolver)
