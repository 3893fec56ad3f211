"""A model of Archives and resolvers that exchange messages; each step is one action of one of them, or a fault.

Time goes in ticks; a lease lasts for `MessageWorld.lease` of them. In one tick, messages come in any order.

    links       what each node (a resolver with a file of its own) keeps for each Archive
    flight      messages on their way
    budget      how often each kind of event may still happen (BUDGETS); what is not there happens without bound
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proofs.leases import product
from proofs.leases.product import NO_ITEM, Age
from proofs.leases.store import (
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
from proofs.leases.world import (
    ANSWER,
    BUDGETS,
    KINDS,
    NOTICE,
    REPLY,
    REQUEST,
    ROWS,
    Action,
    AnswerMessage,
    Conduct,
    Kept,
    Link,
    Message,
    MessageState,
    MessageWorld,
    NoticeMessage,
    ReplyMessage,
    RequestMessage,
    forgotten,
    has_position,
    with_messages,
    without_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable


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
        self._does: dict[str, Callable[..., MessageState]] = {
            kind: getattr(self, f"_{kind.replace(' ', '_')}") for kind in KINDS
        }

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
                ("go back", number, past) for past, store in enumerate(archive.past) if store != archive.store
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
        self._list_kills(found, number, link, left)

    def _list_kills(self, found: list[Action], number: int, link: Link, left: dict[str, int]) -> None:
        node, archive = divmod(number, self.world.archives)
        if left["kills"] and archive == 0:
            found.append(("kill", node))
        if left["files"] and archive == 0:
            found.append(("wipe", node))
        if left["deaths"] and (link.steps or link.word is not None or link.wanted):
            found.append(("die", number))

    @staticmethod
    def _on_way(state: MessageState, number: int) -> int:
        return sum(each[0] in {REQUEST, REPLY} and each[1] == number for each in state.flight)

    # What it does

    def step(self, state: MessageState, action: Action) -> MessageState:
        """Return the state after an action."""
        return self._does[action[0]](state, *action[1:])

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
            flight = with_messages(flight, *[NoticeMessage(NOTICE, each, notice) for each in links])
        archives = (*state.archives[:number], archive, *state.archives[number + 1 :])
        return state._replace(archives=archives, flight=flight, budget=self._spent(state, what))

    def _change(self, state: MessageState, number: int, item: int) -> MessageState:
        archive = self._archives.changed(state.archives[number], item, state.word)
        what = "settings" if item == NO_ITEM else "changes"
        return self._with_archive(state, number, archive, what, item)._replace(word=state.word + 1)

    def _restore(self, state: MessageState, number: int, past: int) -> MessageState:
        archive = self._archives.restored(state.archives[number], past, state.word)
        return self._with_archive(state, number, archive, "restores", NO_ITEM)._replace(word=state.word + 1)

    def _go_back(self, state: MessageState, number: int, past: int) -> MessageState:
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

    def _with(self, state: MessageState, number: int, link: Link) -> MessageState:
        return state._replace(links=(*state.links[:number], link, *state.links[number + 1 :]))

    def _ask(self, state: MessageState, number: int) -> MessageState:
        link = state.links[number]
        used = {each[2] for each in state.flight if each[0] in {REQUEST, REPLY} and each[1] == number}
        word = next(each for each in range(9) if each not in used)
        asking = link._replace(word=word, sent=(0, 0), wanted=False)
        flight = with_messages(state.flight, RequestMessage(REQUEST, number, word, link.position))
        return self._with(state, number, asking)._replace(flight=flight)

    def _give_up(self, state: MessageState, number: int) -> MessageState:
        link = state.links[number]
        return self._with(state, number, link._replace(word=None, sent=(0, 0)))

    def _answer(self, state: MessageState, number: int, question: int) -> MessageState:
        """An Archive reads the rows and the position for an answer, which is on its way then."""
        store = self._archive_of(state, number).store
        message = self._answer_message(number, question, store.position, store.versions)
        if "rows apart" in self._faults or "position apart" in self._faults:
            message = message._replace(kind=ROWS)
        return state._replace(flight=with_messages(state.flight, message))

    def _items(self, question: int) -> Question:
        return self.world.questions[question]

    def _answer_message(self, number: int, question: int, position: str, versions: Versions) -> AnswerMessage:
        items = self._items(question)
        rests = () if "no rests" in self._faults else product.rests_read(position, items[1:])
        shown = content(versions, items)
        return AnswerMessage(ANSWER, number, question, position, shown, (items[0], *rests))

    def _apply(self, state: MessageState, number: int) -> MessageState:
        """Apply the next step of a reply."""
        link = state.links[number]
        now, *later = link.steps
        for name, items, position in now:
            if name == "forget":
                link = link._replace(applying=True, kept=forgotten(link.kept, items))
            elif name == "move":
                link = link._replace(applying=False, position=position)
            elif name == "renew":
                link = link._replace(since=self._running((0, 0) if position == "now" else link.sent))
        if not later:
            link = link._replace(sent=(0, 0))
        return self._with(state, number, link._replace(steps=tuple(later)))

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
        return self._with(state, number, link)._replace(budget=self._spent(state, "deaths"))

    def _wipe(self, state: MessageState, node: int) -> MessageState:
        """Replace the file of a running node, which was damaged, by an empty one."""
        links = list(state.links)
        for each in range(node * self.world.archives, (node + 1) * self.world.archives):
            empty = (None,) * len(links[each].kept)
            links[each] = links[each]._replace(position="", applying=False, kept=empty)
        return state._replace(links=tuple(links), budget=self._spent(state, "files"))

    def _leave(self, state: MessageState, number: int) -> MessageState:
        """Exclude an Archive: the lease ends; what is being applied is applied, but gives none."""
        link = state.links[number]
        steps = tuple([tuple([each for each in step if each[0] != "renew"]) for step in link.steps])
        left = link._replace(
            since=None, word=None, sent=(0, 0), steps=tuple(filter(None, steps)), wanted=False, member=False
        )
        return self._with(state, number, left)._replace(budget=self._spent(state, "leaves"))

    def _join(self, state: MessageState, number: int) -> MessageState:
        return self._with(state, number, state.links[number]._replace(member=True, wanted=True))

    def _forge(self, state: MessageState, number: int) -> MessageState:
        forged = with_messages(state.flight, NoticeMessage(NOTICE, number, NO_ITEM))
        return state._replace(flight=forged, budget=self._spent(state, "forged"))

    # What a message does

    def _lose(self, state: MessageState, message: Message) -> MessageState:
        return state._replace(flight=without_message(state.flight, message))

    def _double(self, state: MessageState, message: Message) -> MessageState:
        """A message comes, and will come once more."""
        doubled = self._come(state, message)
        return doubled._replace(
            flight=with_messages(doubled.flight, message), budget=self._spent(state, "doubles")
        )

    def _come(self, state: MessageState, message: Message) -> MessageState:
        number = message.link
        state = state._replace(flight=without_message(state.flight, message))
        if isinstance(message, RequestMessage):
            body = self._archives.body(self._archive_of(state, number), message.after, message.word)
            reply = ReplyMessage(REPLY, number, message.word, body)
            return state._replace(flight=with_messages(state.flight, reply))
        if message.kind == ROWS:
            assert isinstance(message, AnswerMessage)  # noqa: S101 - of its kind
            return state._replace(flight=with_messages(state.flight, self._rest_read(state, message)))
        if not state.links[number].member:
            return state
        if isinstance(message, ReplyMessage):
            return self._reply_comes(state, message)
        if isinstance(message, AnswerMessage):
            return self._answer_comes(state, message)
        return self._notice_comes(state, message)

    def _rest_read(self, state: MessageState, read: AnswerMessage) -> AnswerMessage:
        """Read the rest of an answer whose Archive reads position and rows apart, which no Archive may."""
        store = self._archive_of(state, read.link).store
        whole = self._answer_message(read.link, read.question, store.position, store.versions)
        if "rows apart" in self._faults:
            return whole._replace(position=read.position)
        return whole._replace(shown=read.shown)

    def _reply_comes(self, state: MessageState, message: ReplyMessage) -> MessageState:
        link = state.links[message.link]
        late = "late reply" in self._faults and not link.steps
        expected = message.word if late else link.word
        reply = None if expected is None else product.read_reply(message.body, expected)
        if reply is None:
            return state
        steps = product.steps_of(self.conduct.apply, reply, link.position, link.applying)
        wanted = reply.more or (link.wanted and "not again" not in self._faults)
        return self._with(state, message.link, link._replace(word=None, steps=steps, wanted=wanted))

    def _answer_comes(self, state: MessageState, message: AnswerMessage) -> MessageState:
        link, question = state.links[message.link], message.question
        if self.conduct.keeps(message.position, link.position, link.applying):
            answer = Kept(message.shown, message.items)
            kept = (*link.kept[:question], answer, *link.kept[question + 1 :])
            return self._with(state, message.link, link._replace(kept=kept))
        if message.position != link.position:
            return self._with(state, message.link, link._replace(wanted=True))
        return state

    def _notice_comes(self, state: MessageState, notice: NoticeMessage) -> MessageState:
        link = state.links[notice.link]
        if link.since is None and "only while leased" in self._faults:
            return state
        kept = link.kept
        if self.world.hints:
            kept = forgotten(kept, None if notice.item == NO_ITEM else (notice.item,))
        return self._with(state, notice.link, link._replace(kept=kept, wanted=True))

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
                if kept is not None and not was_true(archive, self._items(question), kept.shown, self._ticks):
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
            if anything and has_position(archive, link.position):
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
            (message,) = state.flight
            assert isinstance(message, ReplyMessage)  # noqa: S101 - the only message on its way
            reply = product.read_reply(message.body, 0)
            anything |= reply is not None and reply.names is None
            state = alone._come(state, message)
            while state.links[0].steps:
                state = alone._apply(state, 0)
            if not state.links[0].wanted:
                return state.links[0], anything
        return None, anything
