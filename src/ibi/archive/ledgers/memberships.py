"""The ledger of memberships: how an Archive stands at each of its resolvers, as far as it was told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ibi.archive.ledgers.problems import read_problem, write_problem

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run
    from ibi.errors import IbiError

_NOTE = (
    "INSERT INTO membership (resolver, state, since, heard, problem)"
    " VALUES (:resolver, :state, :since, :heard, :problem)"
    " ON CONFLICT (resolver) DO UPDATE SET state = excluded.state, since = excluded.since,"
    " heard = excluded.heard, problem = excluded.problem"
)
_ALL = "SELECT resolver, state, since, heard, problem FROM membership ORDER BY resolver"
_FORGET = "DELETE FROM membership WHERE resolver = :resolver"


class Standing(StrEnum):
    """How an Archive stands at a resolver."""

    WAITING = "waiting"
    """It asks for inclusion and has no answer yet."""
    INCLUDED = "included"
    """Included, and the resolver could reach it."""
    UNCONFIRMED = "included, not confirmed"
    """Included, though the resolver could not reach it (REG-05)."""
    REFUSED = "refused"
    """Not registered there, or not with this key."""
    EXCLUDED = "excluded"
    """It has said goodbye."""

    @property
    def included(self) -> bool:
        """Whether the resolver asks this Archive for items."""
        return self in {Standing.INCLUDED, Standing.UNCONFIRMED}


@dataclass(frozen=True, slots=True)
class Member:
    """One Archive at one resolver: `since` when it stands so, `heard` the last word of the resolver ("": none yet).

    Moments are as in "2026-11-21T10:00:00Z"; `problem` is what went wrong last, None if nothing did.
    """

    resolver: str
    standing: Standing
    since: str
    heard: str = ""
    problem: IbiError | None = None


def note(run: Run, member: Member) -> None:
    """Keep how the Archive stands at a resolver."""
    problem = write_problem(member.problem)
    run(_NOTE, member.resolver, member.standing.value, member.since, member.heard or None, problem)


def members(run: Run) -> dict[str, Member]:
    """How the Archive stands, by the root URLs of the resolvers."""
    rows = run(_ALL).fetchall()
    return {
        url: Member(url, Standing(state), since, heard or "", read_problem(problem))
        for url, state, since, heard, problem in rows
    }


def forget(run: Run, resolver: str) -> None:
    """Forget a resolver that the Archive has left."""
    run(_FORGET, resolver)
