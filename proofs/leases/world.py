"""The world of messages as values: what Archives and resolvers have, what is on its way, and the bounds of a world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.resolver.cache.lease import apply_reply, may_keep
from proofs.leases.product import NO_ITEM
from proofs.leases.store import START_WORD, ArchiveState, Question, Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.protocol.extensions.changes import ChangesReply
    from ibi.resolver.cache.lease import LeaseStore, Moment
    from proofs.leases.product import Age, Write

REQUEST, REPLY, ANSWER, NOTICE, ROWS = range(5)
"""Kinds of messages, in the order in which they are sorted."""

BUDGETS: Final = (
    "changes", "settings", "restores", "rollbacks", "stops", "kills", "deaths", "files", "leaves", "doubles", "forged",
)  # fmt: skip
"""Changes of items, changes without an item, restores by a tool, silent rollbacks, kills of an Archive, of a node, of
one of its processes, lost files of a running node, exclusions, doubled messages, forged notices."""

KINDS: Final = (
    "tick", "change", "restore", "go back", "stop", "ask", "give up", "answer", "apply", "kill", "die", "wipe",
    "leave", "join", "forge", "lose", "double", "come",
)  # fmt: skip
"""The kinds of actions."""

Action = tuple[Any, ...]
"""A kind (KINDS), and what it is done with."""


class RequestMessage(NamedTuple):
    """A request for changes on its way, of a link; `word` is small: any that is not in use."""

    kind: int
    link: int
    word: int
    after: str


class ReplyMessage(NamedTuple):
    """A reply on its way."""

    kind: int
    link: int
    word: int
    body: bytes


class AnswerMessage(NamedTuple):
    """An answer on its way: its position, what it shows, the items on which it rests as it says.

    Of the kind ROWS: of an Archive with a fault, only a part was read so far.
    """

    kind: int
    link: int
    question: int
    position: str
    shown: Versions
    items: tuple[int, ...]


class NoticeMessage(NamedTuple):
    """A notice on its way, that an item has changed."""

    kind: int
    link: int
    item: int


Message = RequestMessage | ReplyMessage | AnswerMessage | NoticeMessage


class Kept(NamedTuple):
    """A cached answer: what it shows, and the items on which it rests as far as the resolver knows."""

    shown: Versions
    items: tuple[int, ...]


class Link(NamedTuple):
    """What a node keeps for an Archive.

    `position`, `applying`, `kept` (by question): in its file. `since`: the age of its lease, None if there is none.
    `word`: that of the request which is waited for, None if there is none; `sent`: how long ago it, or the one whose
    reply is being applied, was sent. `steps`: those in which a reply is still to be applied. `wanted`: changes must be
    requested again. `member`: whether the Archive is included.
    """

    position: str
    applying: bool
    kept: tuple[Kept | None, ...]
    since: Age | None = None
    word: int | None = None
    sent: Age = (0, 0)
    steps: tuple[tuple[Write, ...], ...] = ()
    wanted: bool = False
    member: bool = True


class MessageState(NamedTuple):
    """A state of the world; `word`: that of the next change."""

    archives: tuple[ArchiveState, ...]
    links: tuple[Link, ...]
    flight: tuple[Message, ...]
    budget: tuple[int, ...]
    word: int = START_WORD


class MessageWorld(NamedTuple):
    """The bounds of a world: what there is, what may happen, and how often.

    `questions`: each with the items that are looked up for it. `log`, `page`: see `Archives`. `answers`, `requests`:
    how many of them may be on their way at once on a link. `loss`: messages may be lost or late, replies may come after
    they are waited for, and time goes on meanwhile; otherwise every message comes before the next tick, and no answer
    may be used that has not been true in this tick. `clock`: the first clock may stand still. `hints`: a notice makes
    the node forget what is kept about its item, at once.
    """

    name: str
    events: dict[str, int]
    questions: tuple[Question, ...] = ((0,),)
    items: int = 1
    archives: int = 1
    nodes: int = 1
    lease: int = 2
    log: int = 99
    page: int = 99
    answers: int = 1
    requests: int = 1
    loss: bool = True
    clock: bool = False
    hints: bool = False


class Conduct(NamedTuple):
    """How Archives and resolvers act: the product's functions, or others to show that these are noticed.

    `faults`: names of faults that no pure function has.
    """

    apply: Callable[[ChangesReply, Moment, LeaseStore], Iterator[None]] = apply_reply
    keeps: Callable[[str, str, bool], bool] = lambda as_of, position, applying: may_keep(
        as_of, position, applying=applying
    )
    faults: frozenset[str] = frozenset()


def has_position(archive: ArchiveState, position: str) -> bool:
    """Whether a position is in the log, and behind it are only changes of items."""
    log = archive.store.log
    at = next((number for number, (each, _) in enumerate(log) if each == position), None)
    return at is not None and all(item != NO_ITEM for _, item in log[at + 1 :])


def forgotten(kept: tuple[Kept | None, ...], items: tuple[int, ...] | None) -> tuple[Kept | None, ...]:
    """Return what is kept after answers were forgotten that are about some items, or rest on one; None for all."""
    if items is None:
        return (None,) * len(kept)
    return tuple([None if each is None or not set(items).isdisjoint(each.items) else each for each in kept])


def with_messages(flight: tuple[Message, ...], *messages: Message) -> tuple[Message, ...]:
    """Return messages on their way with further ones, sorted."""
    return tuple(sorted((*flight, *messages)))


def without_message(flight: tuple[Message, ...], message: Message) -> tuple[Message, ...]:
    """Return messages on their way without one of them."""
    at = flight.index(message)
    return flight[:at] + flight[at + 1 :]
