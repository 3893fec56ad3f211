"""The rules of leases; pure (docs/standard/extensions.md).

An answer with a position may be used until what it rests on changes. The resolver asks its Archive what has changed
(`protocol.extensions.changes`), and from the moment when it sent that request it may use the answers for LEASE_SECONDS.
What is lost, late or doubled on the way therefore prolongs nothing. A forged reply does not, either: it would have to
repeat the random word of the request (`ChangesReply.read`).

    position       the store has forgotten all that the Archive has changed up to this position
    a lease runs   the last complete request was sent less than 60 s ago, by both clocks of this machine
    applying       a mark: a reply is being applied. Answers of this Archive are used meanwhile, but no new one is kept

Several processes share a store, without a lock for reading. So the order counts:

    `apply_reply` writes   1. forget answers, set `applying`   2. change versions   3. position   4. the lease
    all processes read     first the lease, then the answer that they use, or the versions of the redirect

A process that sees the new lease (4) also sees what was written before it (1 to 3): the answer is gone, and the
versions are other ones. A process that sees an older lease uses an older answer only while that lease runs, which is
allowed. `proofs.leases` shows that every other order leads a reader wrong in some history; README.md has an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ibi.protocol.extensions.changes import ChangesReply

LEASE_SECONDS: Final = 60.0
"""Seconds for which the answers of an Archive may be used, from when the last complete request was sent."""

RENEW_AFTER: Final = 45.0
"""Seconds after which the use of an answer has the lease renewed in the background."""


class Moment(NamedTuple):
    """A moment by both clocks of this machine, in seconds.

    `boot`: since it was started, standby included (CLOCK_BOOTTIME). `real`: POSIX seconds (CLOCK_REALTIME). At least
    one of them goes on, whatever happens to the machine.
    """

    boot: float
    real: float


NEVER: Final = Moment(0.0, 0.0)
"""Stands for a request that was never sent: no lease runs."""


def lease_age(began: Moment, now: Moment) -> float:
    """Return how many seconds of a lease have passed, by the faster clock; LEASE_SECONDS if it does not run."""
    by_boot, by_real = now.boot - began.boot, now.real - began.real
    if not (0 <= by_boot < LEASE_SECONDS and 0 <= by_real < LEASE_SECONDS):
        return LEASE_SECONDS
    return max(by_boot, by_real)


def may_keep(as_of: str, position: str, *, applying: bool) -> bool:
    """Whether an answer as of a position may be kept: the store has applied the changes that it shows, and no others.

    When it was asked for, and how late it came, do not matter.
    """
    return as_of == position and not applying


class LeaseStore(Protocol):
    """What `apply_reply` changes, for one Archive: the cache (`answers`), or the model of it in `proofs.leases`.

    `names`: canonical, None for all.
    """

    def position(self) -> str:
        """Return the position up to which all changes are applied; "" if there is none."""
        ...

    def is_applying(self) -> bool:
        """Whether a reply is being applied, or was when a process died."""
        ...

    def forget(self, names: Sequence[str] | None) -> None:
        """In one transaction: set `applying`; forget each answer about one of these names, or that rests on one."""
        ...

    def change_versions(self, names: Sequence[str] | None) -> None:
        """Change the versions of these names, on which cached redirects rest; None: that of the Archive."""
        ...

    def move_to(self, position: str) -> None:
        """In one transaction: write the position, and clear `applying`."""
        ...

    def renew(self, sent: Moment) -> None:
        """Write when the last complete request was sent."""
        ...


def apply_reply(reply: ChangesReply, sent: Moment, store: LeaseStore) -> Iterator[None]:
    """Apply a reply to a request that was sent at a moment, still holding the Archive's lock; yield after each step.

    It is a generator for `proofs.leases`, which lets other processes go on between any two steps. If the process dies
    in between, the same changes are requested and applied again.
    """
    if reply.to != store.position() or store.is_applying():
        store.forget(reply.names)
        yield
        store.change_versions(reply.names)
        yield
        store.move_to(reply.to)
        yield
    if not reply.more:
        store.renew(sent)
        yield
