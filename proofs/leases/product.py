"""The product's own pure code, as the models call it: each function is called once for the same arguments.

Messages pass through the texts in which they are sent, so that their parsers are a part of the model.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from ibi.archive.model.changes import reply_to
from ibi.errors import ParseError
from ibi.protocol.extensions.changes import ChangesReply, ChangesRequest, Validity
from ibi.resolver.cache.lease import LEASE_SECONDS, Moment, lease_age
from proofs.common.numbered import item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ibi.resolver.cache.lease import LeaseStore

NO_ITEM: Final = 99
"""Stands for the item of a change without an item."""

Age = tuple[int, int]
"""How many ticks ago something was, by both clocks of a resolver."""

Log = tuple[tuple[str, int], ...]
"""The log of an Archive: positions, each with the number of the changed item, or NO_ITEM."""

Write = tuple[str, tuple[int, ...] | None, str]
"""A write of `apply_reply`: its name; the items, None for all; the position."""

_START: Final = 1_000_000.0  # seconds on both clocks; ages are counted back from here
_NAMES: Final = tuple([item(number) for number in range(8)])
_NUMBERS: Final = {name: number for number, name in enumerate(_NAMES)}


@cache
def position_text(number: int, word: int) -> str:
    """Return the position of a change: its number, and the number that stands for its word."""
    return f"{number}.{word:016x}"


@cache
def number_of(position: str) -> int:
    """Return the number in a position; 0 for none."""
    return int(position.partition(".")[0] or 0)


@cache
def lease_runs(age: Age, lease: int) -> bool:
    """Whether a lease of so many ticks still runs."""
    tick = LEASE_SECONDS / lease
    sent = Moment(_START - age[0] * tick, _START - age[1] * tick)
    return lease_age(sent, Moment(_START, _START)) < LEASE_SECONDS


@cache
def reply_body(after: str, word: int, known: bool, log: Log, page: int) -> bytes:  # noqa: FBT001 - as in `reply_to`
    """Return the body of a reply to a request, which has at most `page` changes.

    `known`: whether the log has the position `after`; then only the changes behind it are looked at.
    """
    request = ChangesRequest(f"{word:016x}", after)
    assert ChangesRequest.of(dict(parse_qsl(request.query()))) == request  # noqa: S101 - both ends read the same
    begin = next((at + 1 for at, (position, _) in enumerate(log) if position == after), 0)
    behind = log[begin:]
    entries = [(position, None if each == NO_ITEM else (_NAMES[each],)) for position, each in behind[:page]]
    return reply_to(request, log[-1][0], known, entries).body()


@cache
def read_reply(body: bytes, word: int) -> ChangesReply | None:
    """Return a reply as the resolver reads it; None if it does not belong to the request with this word."""
    try:
        return ChangesReply.read(body, f"{word:016x}")
    except ParseError:
        return None


@cache
def rests_read(position: str, rests: tuple[int, ...]) -> tuple[int, ...]:
    """Return the items on which an answer rests, as the resolver reads them."""
    validity = Validity.of(Validity(position, tuple([_NAMES[each] for each in rests])).pairs())
    assert validity is not None  # noqa: S101 - it was written just now
    assert validity.position == position  # noqa: S101 - the same
    return tuple([_NUMBERS[name] for name in validity.rests])


class _WrittenSteps:
    """A `LeaseStore` that notes what is written, one step after the other."""

    def __init__(self, position: str, *, applying: bool) -> None:
        self._position, self._applying = position, applying
        self.writes = list[Write]()

    def position(self) -> str:
        return self._position

    def is_applying(self) -> bool:
        return self._applying

    def forget(self, names: Sequence[str] | None) -> None:
        self.writes.append(("forget", _numbers(names), ""))

    def change_versions(self, names: Sequence[str] | None) -> None:
        self.writes.append(("count", _numbers(names), ""))

    def move_to(self, position: str) -> None:
        self.writes.append(("move", (), position))

    def renew(self, sent: Moment) -> None:
        self.writes.append(("renew", (), "now" if sent == NOW else ""))


NOW: Final = Moment(_START, _START)
"""The moment of the present step."""
SENT: Final = Moment(_START - 1, _START - 1)
"""Stands for the moment when the request was sent."""


@cache
def steps_of(
    apply: Callable[[ChangesReply, Moment, LeaseStore], Iterator[None]],
    reply: ChangesReply,
    position: str,
    applying: bool,  # noqa: FBT001 - the key of a cache
) -> tuple[tuple[Write, ...], ...]:
    """Return the steps in which a reply is applied, each with what it writes at once, while the lock is held.

    While the lock is held, the process alone changes the position, so that nothing which it reads can change.
    """
    store = _WrittenSteps(position, applying=applying)
    steps = list[tuple[Write, ...]]()
    for _ in apply(reply, SENT, store):
        steps.append(tuple(store.writes))
        store.writes.clear()
    assert not store.writes  # noqa: S101 - a step ends where the function yields
    return tuple(steps)


def _numbers(names: Sequence[str] | None) -> tuple[int, ...] | None:
    return None if names is None else tuple([_NUMBERS[name] for name in names])
