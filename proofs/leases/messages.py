"""A model of Archives and resolvers that exchange messages; each step is one action of one of them, or a fault.

Time goes in ticks; a lease lasts for `MessageWorld.lease` of them. In one tick, messages come in any order.

    links       what each node (a resolver with a file of its own) keeps for each Archive
    flight      messages on their way
    budget      how often each kind of event may still happen (BUDGETS); what is not there happens without bound
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.resolver.cache.lease import apply_reply, may_keep
from proofs.leases import product
from proofs.leases.product import NO_ITEM, Age, Write
from proofs.leases.store import (
    START_WORD,
    Archives,
    ArchiveState,
    Question,
    Versions,
    aged,
    content,
    is_true,
    new_archive,
    was_true,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.protocol.extensions.changes import ChangesReply
    from ibi.resolver.cache.lease import LeaseStore, Moment

REQUEST, REPLY, ANSWER, NOTICE, ROWS = range(5)
"""Kinds of messages; ROWS only of Archives with a fault: an answer of which only a part was read so far."""

BUDGETS: Final = (
    "changes", "settings", "restores", "rollbacks", "stops", "kills", "deaths", "leaves", "doubles", "forged",
)  # fmt: skip
"""Changes of items, changes without an item, restores by a tool, silent rollbacks, kills of an Archive, of a node, of
one of its processes, exclusions, doubled messages, forged notices."""

Message = tuple[int, ...]  # kind, link, then what belongs to it, of any types
Action = tuple[object, ...]


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

    `questions`: each with the items that are looked up for it. `log`, `page`: see `Archives`. `answers`, `requests`: how
    many of them may be on their way at once on a link. `loss`: messages may be lost or late, replies may come after
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


class MessageModel:
    """The actions that are possible in a state of a world, what each does, and what is wrong with a state."""

    def __init__(self, world: MessageWorld, conduct: Conduct = Conduct()) -> None:  # noqa: B008 - immutable
        self.world, self.conduct = world, conduct
        self._faults = conduct.faults
        events = world.events
        unknown = events.keys() - set(BUDGETS)
        assert not unknown, unknown  # noqa: S101 - a slip in a list of worlds
        self._archives = Archives(
            world.log,
            world.page,
            bool(events.get("restores") or events.get("rollbacks")),
            "by number" in self._faults,
            "passes over" in self._faults,
        )
        self._ticks = world.lease - 1 if world.loss else 0
        self._links = range(world.nodes * world.archives)

    def start(self) -> MessageState:
        """Return the first state: nothing is kept, no Archive was asked yet."""
        world = self.world
        link = Link("", applying=False, kept=(None,) * len(world.questions))
        return MessageState(
            (new_archive(world.items),) * world.archives,
            (link,) * len(self._links),
            (),
            tuple([world.events.get(each, 0) for each in BUDGETS]),
        )

    def _archive_of(self, state: MessageState, link: int) -> ArchiveState:
        return state.archives[link % self.world.archives]

    # What may happen

    def actions(self, state: MessageState) -> list[Action]:
        """Return all actions that are possible in a state."""
        found: list[Action] = [("tick", 1)] if self._may_tick(state) else []
        if found and self.world.clock:
            found.append(("tick", 0))
        left = dict(zip(BUDGETS, state.budget, strict=True))
        for number, archive in enumerate(state.archives):
            self._list_changes(found, number, archive, left)
        for number in self._links:
            self._list_of_link(found, number, state, left)
        for message in dict.fromkeys(state.flight):
            found.append(("come", message))
            if left["doubles"] and message[0] != NOTICE:
                found.append(("double", message))
            if self.world.loss:
                found.append(("lose", message))
        return found

    def _may_tick(self, state: MessageState) -> bool:
        if self.world.loss:
            return True
        on_their_way = any(each[0] not in {ANSWER, ROWS} for each in state.flight)
        return not on_their_way and not any(
            link.member and (link.wanted or link.steps or link.word is not None) for link in state.links
        )

    def _list_changes(
        self, found: list[Action], number: int, archive: ArchiveState, left: dict[str, int]
    ) -> None:
        if left["changes"]:
            found += [("change", number, item) for item in range(self.world.items)]
        if left["settings"]:
            found.append(("change", number, NO_ITEM))
        if left["restores"]:
            found += [("restore", number, past) for past in range(len(archive.past))]
        if left["rollbacks"]:
            found += [
                ("roll back", number, past)
                for past, store in enumerate(archive.past)
                if store != archive.store
            ]
        if left["stops"]:
            found.append(("stop", number))

    def _list_of_link(
        self, found: list[Action], number: int, state: MessageState, left: dict[str, int]
    ) -> None:
        link, world = state.links[number], self.world
        if link.steps:
            found.append(("apply", number))
        if link.member:
            if link.word is None and not link.steps and self._on_way(state, number) < world.requests:
                found.append(("ask", number))
            if sum(each[0] in {ANSWER, ROWS} and each[1] == number for each in state.flight) < world.answers:
                found += [("answer", number, question) for question in range(len(world.questions))]
            if left["leaves"]:
                found.append(("leave", number))
            if left["forged"]:
                found.append(("forge", number))
        else:
            found.append(("join", number))
        if link.word is not None and world.loss:
            found.append(("give up", number))
        if left["kills"] and number % world.archives == 0:
            found.append(("kill", number // world.archives))
        if left["deaths"] and (link.steps or link.word is not None or link.wanted):
            found.append(("die", number))

    @staticmethod
    def _on_way(state: MessageState, number: int) -> int:
        return sum(each[0] in {REQUEST, REPLY} and each[1] == number for each in state.flight)

    # What it does

    def step(self, state: MessageState, action: Action) -> MessageState:
        """Return the state after an action."""
        kind, *given = action
        return getattr(self, _METHODS[str(kind)])(state, *given)

    def _spent(self, state: MessageState, what: str) -> tuple[int, ...]:
        at = BUDGETS.index(what)
        return (*state.budget[:at], state.budget[at] - 1, *state.budget[at + 1 :])

    def _tick(self, state: MessageState, first: int) -> MessageState:
        most = self.world.lease

        def older(age: Age) -> Age:
            return min(age[0] + first, most), min(age[1] + 1, most)

        links = []
        for link in state.links:
            since = None if link.since is None else self._running(older(link.since))
            waits = link.word is not None or link.steps
            links.append(link._replace(since=since, sent=older(link.sent) if waits else (0, 0)))
        archives = tuple([aged(each, self._ticks) for each in state.archives])
        return state._replace(archives=archives, links=tuple(links))

    def _running(self, age: Age) -> Age | None:
        """Return the age of a lease; None if it does not run, since then it never runs again."""
        return age if product.lease_runs(age, self.world.lease) else None

    def _with_archive(
        self, state: MessageState, number: int, archive: ArchiveState, what: str, notice: int | None
    ) -> MessageState:
        """Replace an Archive; `notice`: the item of which its resolvers are notified, None for no notice."""
        flight = state.flight
        if notice is not None and "no notices" not in self._faults:
            links = [
                each
                for each in self._links
                if each % self.world.archives == number and state.links[each].member
            ]
            if "one node" in self._faults:
                links = links[:1]
            flight = _with(flight, *[(NOTICE, each, notice) for each in links])
        archives = (*state.archives[:number], archive, *state.archives[number + 1 :])
        return state._replace(archives=archives, flight=flight, budget=self._spent(state, what))

    def _change(self, state: MessageState, number: int, item: int) -> MessageState:
        archive = self._archives.changed(state.archives[number], item, state.word)
        what = "settings" if item == NO_ITEM else "changes"
        return self._with_archive(state, number, archive, what, item)._replace(word=state.word + 1)

    def _restore(self, state: MessageState, number: int, past: int) -> MessageState:
        archive = self._archives.restored(state.archives[number], past, state.word)
        return self._with_archive(state, number, archive, "restores", NO_ITEM)._replace(word=state.word + 1)

    def _roll_back(self, state: MessageState, number: int, past: int) -> MessageState:
        archive = self._archives.rolled_back(state.archives[number], past)
        return self._with_archive(state, number, archive, "rollbacks", None)

    def _stop(self, state: MessageState, number: int) -> MessageState:
        """Kill an Archive: requests that reached it, and notices that it had not sent, are gone."""
        flight = [
            each
            for each in state.flight
            if each[0] not in {REQUEST, NOTICE} or each[1] % self.world.archives != number
        ]
        return state._replace(flight=tuple(flight), budget=self._spent(state, "stops"))

    def _with_link(self, state: MessageState, number: int, link: Link) -> MessageState:
        return state._replace(links=(*state.links[:number], link, *state.links[number + 1 :]))

    def _ask(self, state: MessageState, number: int) -> MessageState:
        link = state.links[number]
        used = {each[2] for each in state.flight if each[0] in {REQUEST, REPLY} and each[1] == number}
        word = next(each for each in range(9) if each not in used)
        asking = link._replace(word=word, sent=(0, 0), wanted=False)
        flight = _with(state.flight, (REQUEST, number, word, link.position))
        return self._with_link(state, number, asking)._replace(flight=flight)

    def _give_up(self, state: MessageState, number: int) -> MessageState:
        link = state.links[number]
        return self._with_link(state, number, link._replace(word=None, sent=(0, 0)))

    def _answer(self, state: MessageState, number: int, question: int) -> MessageState:
        """An Archive reads the rows and the position for an answer, which is on its way then."""
        store = self._archive_of(state, number).store
        if "rows apart" in self._faults or "position apart" in self._faults:
            message = (ROWS, number, question, store.position, content(store.versions, self._items(question)))
        else:
            message = self._answer_message(number, question, store.position, store.versions)
        return state._replace(flight=_with(state.flight, message))

    def _items(self, question: int) -> Question:
        return self.world.questions[question]

    def _answer_message(self, number: int, question: int, position: str, versions: Versions) -> Message:
        items = self._items(question)
        rests = () if "no rests" in self._faults else product.rests_read(position, items[1:])
        return ANSWER, number, question, position, content(versions, items), (items[0], *rests)  # type: ignore[return-value]

    def _apply(self, state: MessageState, number: int) -> MessageState:
        """Apply the next step of a reply."""
        link = state.links[number]
        now, *later = link.steps
        for name, items, position in now:
            if name == "forget":
                link = link._replace(applying=True, kept=_forgotten(link.kept, items))
            elif name == "move":
                link = link._replace(applying=False, position=position)
            elif name == "renew":
                link = link._replace(since=self._running((0, 0) if position == "now" else link.sent))
        if not later:
            link = link._replace(sent=(0, 0))
        return self._with_link(state, number, link._replace(steps=tuple(later)))

    def _kill(self, state: MessageState, node: int) -> MessageState:
        """Kill a node, and start it again: what it had in memory is gone, and what was sent to it."""
        own = range(node * self.world.archives, (node + 1) * self.world.archives)
        links = list(state.links)
        for each in own:
            survives = "lease survives" in self._faults
            links[each] = links[each]._replace(
                since=links[each].since if survives else None, word=None, sent=(0, 0), steps=(), wanted=False
            )
        flight = [each for each in state.flight if each[1] not in own or each[0] == REQUEST]
        return state._replace(links=tuple(links), flight=tuple(flight), budget=self._spent(state, "kills"))

    def _die(self, state: MessageState, number: int) -> MessageState:
        """Kill the one process that requests changes: the lease, which all processes share, goes on."""
        link = state.links[number]._replace(word=None, sent=(0, 0), steps=(), wanted=False)
        return self._with_link(state, number, link)._replace(budget=self._spent(state, "deaths"))

    def _leave(self, state: MessageState, number: int) -> MessageState:
        """Exclude an Archive: the lease ends; what is being applied is applied, but gives none."""
        link = state.links[number]
        steps = tuple([tuple([each for each in step if each[0] != "renew"]) for step in link.steps])
        left = link._replace(
            since=None, word=None, sent=(0, 0), steps=tuple(filter(None, steps)), wanted=False, member=False
        )
        return self._with_link(state, number, left)._replace(budget=self._spent(state, "leaves"))

    def _join(self, state: MessageState, number: int) -> MessageState:
        return self._with_link(state, number, state.links[number]._replace(member=True, wanted=True))

    def _forge(self, state: MessageState, number: int) -> MessageState:
        forged = _with(state.flight, (NOTICE, number, NO_ITEM))
        return state._replace(flight=forged, budget=self._spent(state, "forged"))

    # What a message does

    def _lose(self, state: MessageState, message: Message) -> MessageState:
        return state._replace(flight=_without(state.flight, message))

    def _double(self, state: MessageState, message: Message) -> MessageState:
        """A message comes, and will come once more."""
        doubled = self._come(state, message)
        return doubled._replace(
            flight=_with(doubled.flight, message), budget=self._spent(state, "doubles")
        )

    def _come(self, state: MessageState, message: Message) -> MessageState:
        kind, number = message[0], message[1]
        state = state._replace(flight=_without(state.flight, message))
        link = state.links[number]
        if kind == REQUEST:
            body = self._archives.body(self._archive_of(state, number), str(message[3]), message[2])
            reply: Message = (REPLY, number, message[2], body)  # type: ignore[assignment]
            return state._replace(flight=_with(state.flight, reply))
        if kind == ROWS:
            return state._replace(flight=_with(state.flight, self._rest_read(state, message)))
        if not link.member:
            return state
        if kind == REPLY:
            return self._reply_comes(state, message)
        if kind == ANSWER:
            return self._answer_comes(state, message)
        return self._notice_comes(state, number, message[2])

    def _rest_read(self, state: MessageState, message: Message) -> Message:
        """Read the rest of an answer whose Archive reads position and rows apart, which no Archive may."""
        _, number, question, position, shown = message  # type: ignore[misc]
        store = self._archive_of(state, number).store
        if "rows apart" in self._faults:
            return self._answer_message(number, question, position, store.versions)
        whole = self._answer_message(number, question, store.position, store.versions)
        return (*whole[:4], shown, whole[5])

    def _reply_comes(self, state: MessageState, message: Message) -> MessageState:
        _, number, word, body = message
        link = state.links[number]
        late = "late reply" in self._faults and not link.steps
        expected = word if late else link.word
        reply = None if expected is None else product.read_reply(body, expected)  # type: ignore[arg-type]
        if reply is None:
            return state
        steps = product.steps_of(self.conduct.apply, reply, link.position, link.applying)
        wanted = link.wanted or reply.more
        if "not again" in self._faults:
            wanted = reply.more
        applying = link._replace(word=None, steps=steps, wanted=wanted)
        return self._with_link(state, number, applying)

    def _answer_comes(self, state: MessageState, message: Message) -> MessageState:
        _, number, question, position, shown, items = message  # type: ignore[misc]
        link = state.links[number]
        if self.conduct.keeps(position, link.position, link.applying):
            kept = (*link.kept[:question], Kept(shown, items), *link.kept[question + 1 :])
            return self._with_link(state, number, link._replace(kept=kept))
        if position != link.position:
            return self._with_link(state, number, link._replace(wanted=True))
        return state

    def _notice_comes(self, state: MessageState, number: int, item: int) -> MessageState:
        link = state.links[number]
        kept = link.kept
        if self.world.hints:
            kept = _forgotten(kept, None if item == NO_ITEM else (item,))
        return self._with_link(state, number, link._replace(kept=kept, wanted=True))

    # What is wrong

    def key(self, state: MessageState) -> int:
        """Return a number that stands for the state."""
        return hash(state)

    def fault(self, state: MessageState) -> str | None:
        """Return what is wrong with a state: an answer that may be used, and has not been true lately."""
        for number, link in enumerate(state.links):
            if link.since is None or not link.member:
                continue
            archive = self._archive_of(state, number)
            for question, kept in enumerate(link.kept):
                if kept is not None and not was_true(
                    archive, self._items(question), kept.shown, self._ticks
                ):
                    return f"link {number} may use {kept.shown} for question {question}; it is {archive}"
        return None

    def calm_fault(self, state: MessageState) -> str | None:
        """Return what is wrong if faults cease now: one request must bring each lease and its true answers back."""
        for number, link in enumerate(state.links):
            if not link.member:
                continue
            archive = self._archive_of(state, number)
            after, anything = self._after_one_request(archive, link)
            if after is None or after.since is None or after.wanted:
                return f"link {number} has no lease after one request: {state}"
            for question, kept in enumerate(after.kept):
                items, before = self._items(question), link.kept[question]
                if kept is not None and not is_true(archive, items, kept.shown):
                    return f"link {number} still uses {kept} after one request: {state}"
                # An answer of which a change was read already may be forgotten; that of an item with no change may not.
                lost = before is not None and kept is None and is_true(archive, items, before.shown)
                if lost and not anything:
                    return f"link {number} has lost {before} without need: {state}"
            if anything and _has(archive, link.position):
                return f"link {number} was told that anything changed, without need: {state}"
        return None

    def _after_one_request(self, archive: ArchiveState, link: Link) -> tuple[Link | None, bool]:
        """Return a link after one complete request, with its further pages; and whether anything may have changed."""
        state = MessageState((archive,), (link._replace(word=None, steps=(), wanted=False),), (), ())
        alone = MessageModel(self.world._replace(archives=1, nodes=1), self.conduct)
        anything = False
        for _ in range(99):
            state = alone._ask(state, 0)
            state = alone._come(state, state.flight[0])
            reply = product.read_reply(state.flight[0][3], 0)  # type: ignore[arg-type]
            anything |= reply is not None and reply.names is None
            state = alone._come(state, state.flight[0])
            while state.links[0].steps:
                state = alone._apply(state, 0)
            if not state.links[0].wanted:
                return state.links[0], anything
        return None, anything


KINDS: Final = (
    "tick", "change", "restore", "roll back", "stop", "ask", "give up", "answer", "apply", "kill", "die", "leave",
    "join", "forge", "lose", "double", "come",
)  # fmt: skip
"""The kinds of actions."""

_METHODS: Final = {kind: f"_{kind.replace(' ', '_')}" for kind in KINDS}


def _has(archive: ArchiveState, position: str) -> bool:
    """Whether a position is in the log, and behind it are only changes of items."""
    log = archive.store.log
    at = next((number for number, (each, _) in enumerate(log) if each == position), None)
    return at is not None and all(item != NO_ITEM for _, item in log[at + 1 :])


def _forgotten(kept: tuple[Kept | None, ...], items: tuple[int, ...] | None) -> tuple[Kept | None, ...]:
    """Return what is kept after answers were forgotten that are about some items, or rest on one; None for all."""
    if items is None:
        return (None,) * len(kept)
    return tuple([None if each is None or not set(items).isdisjoint(each.items) else each for each in kept])


def _with(flight: tuple[Message, ...], *messages: Message) -> tuple[Message, ...]:
    return tuple(sorted((*flight, *messages)))


def _without(flight: tuple[Message, ...], message: Message) -> tuple[Message, ...]:
    at = flight.index(message)
    return flight[:at] + flight[at + 1 :]
