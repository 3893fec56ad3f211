"""A model of the processes of one resolver, which share a file, versions, the lease and its lock.

Each transaction of the file, and each read or write of shared memory, is one step, and between two steps of a process
any other one may go on, be killed, or see time pass. There is one Archive.

Versions are not in the state: a redirect that rests on a version which was changed since can never be
given again, because none of them ever returns to a former value; so it is dropped when they change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ibi.resolver.cache.lease import apply_reply, may_keep
from proofs.leases import product
from proofs.leases.product import Write
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

EVENTS: Final = ("changes", "rollbacks", "kills", "restarts", "files")
"""Changes of items, silent rollbacks of the Archive, kills of a process, and of all at once, lost files."""

Action = tuple[Any, ...]
Rows = tuple[Versions | None, ...]

Order = Literal["lease first", "version first", "row first"]
"""In which order a click reads what it needs: of the product, the lease first; the others are faults."""


class Click(NamedTuple):
    """A click whose answer is being looked up. `shown`: what was read already, None if that is still to be read.

    `cached`: whether a redirect is looked up, or else an answer.
    """

    question: int
    cached: bool
    shown: Versions | None = None


class Making(NamedTuple):
    """A redirect that is being made: its versions were read, or (a fault) its answer first."""

    question: int
    shown: Versions | None = None


class Waiting(NamedTuple):
    """An answer that waits to be written; `compared`: that it may be kept was found already, which is a fault."""

    question: int
    position: str
    shown: Versions
    compared: bool = False


class Asking(NamedTuple):
    """A process that holds the lock and requests changes.

    `after`: the position in its request; `sent`: how many ticks ago that was sent; `body`: the reply, b"" before;
    `steps`: those in which it is still to be applied, None before; `more`: then another page is requested.
    """

    after: str
    sent: int = 0
    body: bytes = b""
    steps: tuple[tuple[Write, ...], ...] | None = None
    more: bool = False


class Process(NamedTuple):
    """A process: its redirects by question (what they show), and what it is doing."""

    redirects: Rows
    click: Click | None = None
    making: Making | None = None
    waiting: Waiting | None = None
    asking: Asking | None = None


class ProcessState(NamedTuple):
    """A state of the world.

    `position`, `applying`, `rows` (by question): the file. `since`: the age of the lease, None if it does not run.
    `wrong`: that a reader was led by an answer which had not been true within the lease; "" if none was.
    """

    archive: ArchiveState
    position: str
    applying: bool
    rows: Rows
    since: int | None
    processes: tuple[Process, ...]
    budget: tuple[int, ...]
    word: int = START_WORD
    wrong: str = ""


class ProcessWorld(NamedTuple):
    """The bounds of a world. `questions`: each with the items that are looked up for it."""

    name: str
    events: dict[str, int]
    processes: int = 2
    questions: tuple[Question, ...] = ((0,),)
    items: int = 1
    lease: int = 2
    page: int = 99


class ProcessConduct(NamedTuple):
    """How the processes act: as the product, or otherwise, to show that it is noticed.

    `faults`: names of faults that no pure function has.
    """

    apply: Callable[[ChangesReply, Moment, LeaseStore], Iterator[None]] = apply_reply
    keeps: Callable[[str, str, bool], bool] = lambda as_of, position, applying: may_keep(
        as_of, position, applying=applying
    )
    order: Order = "lease first"
    faults: frozenset[str] = frozenset()


class ProcessModel:
    """The actions that are possible in a state of a world, what each does, and what is wrong with a state."""

    def __init__(self, world: ProcessWorld, conduct: ProcessConduct = ProcessConduct()) -> None:  # noqa: B008 - immutable
        self.world, self.conduct = world, conduct
        self._faults = conduct.faults
        self._archives = Archives(99, world.page, bool(world.events.get("rollbacks")))
        self._questions = range(len(world.questions))
        self._idle = Process((None,) * len(world.questions))
        self._does: dict[str, Callable[..., ProcessState]] = {
            kind: getattr(self, f"_{kind.replace(' ', '_')}") for kind in _KINDS
        }

    def start(self) -> ProcessState:
        """Return the first state: no process has done anything."""
        world, rows = self.world, (None,) * len(self.world.questions)
        budget = tuple([world.events.get(each, 0) for each in EVENTS])
        archive = new_archive(world.items)
        return ProcessState(
            archive,
            "",
            applying=False,
            rows=rows,
            since=None,
            processes=(self._idle,) * world.processes,
            budget=budget,
        )

    # What may happen

    def actions(self, state: ProcessState) -> list[Action]:
        """Return all actions that are possible in a state."""
        if state.wrong:
            return []
        found = list[Action]()
        # A click takes less than a tick.
        if not any(each.click for each in state.processes):
            found.append(("tick",))
        changes, rollbacks, kills, restarts, files = state.budget
        if changes:
            found += [("change", item) for item in range(self.world.items)]
        if rollbacks:
            archive = state.archive
            found += [("go back", at) for at, past in enumerate(archive.past) if past != archive.store]
        if restarts:
            found.append(("restart",))
        if files:
            found.append(("wipe",))
        locked = "no lock" not in self._faults and any(each.asking for each in state.processes)
        for number in range(self.world.processes):
            if kills:
                found.append(("kill", number))
            self._list_of_process(found, number, state, locked=locked)
        return found

    def _list_of_process(
        self, found: list[Action], number: int, state: ProcessState, *, locked: bool
    ) -> None:
        process = state.processes[number]
        if process.asking is not None:
            found.append(("go on", number))
            if process.asking.steps is None:
                found.append(("give up", number))
        elif not locked:
            found.append(("lock", number))
        if process.click is not None:
            found.append(("use", number))
            return  # one thread: it does not begin anything else meanwhile
        if process.making is not None:
            found.append(("make", number))
        if process.waiting is not None:
            found.append(("keep", number))
        for question in self._questions:
            self._list_of_question(found, number, state, question)

    def _list_of_question(self, found: list[Action], number: int, state: ProcessState, question: int) -> None:
        process = state.processes[number]
        if self._row(state, number, question) is not None:
            found.append(("click", number, question))
            if process.making is None:
                found.append(("begin", number, question))
        if process.redirects[question] is not None:
            found.append(("click again", number, question))
        if process.waiting is None:
            found.append(("query", number, question))

    # What it does

    def step(self, state: ProcessState, action: Action) -> ProcessState:
        """Return the state after an action."""
        return self._does[action[0]](state, *action[1:])

    def _spent(self, state: ProcessState, what: str) -> tuple[int, ...]:
        at = EVENTS.index(what)
        return (*state.budget[:at], state.budget[at] - 1, *state.budget[at + 1 :])

    def _tick(self, state: ProcessState) -> ProcessState:
        most = self.world.lease
        since = None if state.since is None else self._running(state.since + 1)
        processes = [
            each._replace(asking=each.asking._replace(sent=min(each.asking.sent + 1, most)))
            if each.asking is not None
            else each
            for each in state.processes
        ]
        return state._replace(archive=aged(state.archive, most - 1), since=since, processes=tuple(processes))

    def _running(self, age: int) -> int | None:
        return age if product.lease_runs((age, age), self.world.lease) else None

    def _change(self, state: ProcessState, item: int) -> ProcessState:
        archive = self._archives.changed(state.archive, item, state.word)
        return state._replace(archive=archive, word=state.word + 1, budget=self._spent(state, "changes"))

    def _go_back(self, state: ProcessState, past: int) -> ProcessState:
        archive = self._archives.rolled_back(state.archive, past)
        return state._replace(archive=archive, budget=self._spent(state, "rollbacks"))

    def _restart(self, state: ProcessState) -> ProcessState:
        idle = (self._idle,) * self.world.processes
        return state._replace(since=None, processes=idle, budget=self._spent(state, "restarts"))

    def _wipe(self, state: ProcessState) -> ProcessState:
        """Replace the file, which was damaged, by an empty one."""
        rows = (None,) * len(state.rows)
        return state._replace(position="", applying=False, rows=rows, budget=self._spent(state, "files"))

    def _kill(self, state: ProcessState, number: int) -> ProcessState:
        return self._with(state, number, self._idle)._replace(budget=self._spent(state, "kills"))

    @staticmethod
    def _with(state: ProcessState, number: int, process: Process) -> ProcessState:
        processes = state.processes
        return state._replace(processes=(*processes[:number], process, *processes[number + 1 :]))

    # Requests for changes

    def _lock(self, state: ProcessState, number: int) -> ProcessState:
        """Take the lock, read the position, which only the holder of the lock changes, and send a request."""
        return self._with(state, number, state.processes[number]._replace(asking=Asking(state.position)))

    def _give_up(self, state: ProcessState, number: int) -> ProcessState:
        """Stop waiting for a reply, and free the lock."""
        return self._with(state, number, state.processes[number]._replace(asking=None))

    def _go_on(self, state: ProcessState, number: int) -> ProcessState:
        """Get the reply to the request, or do the next step of applying it."""
        asking = state.processes[number].asking
        assert asking is not None  # noqa: S101 - it is the condition of the action
        if not asking.body:
            following: Asking | None = asking._replace(
                body=self._archives.body(state.archive, asking.after, 0)
            )
        elif asking.steps is None:
            reply = product.read_reply(asking.body, 0)
            assert reply is not None  # noqa: S101 - it is the reply to this request
            steps = product.steps_of(self.conduct.apply, reply, state.position, state.applying)
            asking = asking._replace(body=b"-", steps=steps, more=reply.more)
            state, following = self._applied(state, number, asking)
        else:
            state, following = self._applied(state, number, asking)
        return self._with(state, number, state.processes[number]._replace(asking=following))

    def _applied(
        self, state: ProcessState, number: int, asking: Asking
    ) -> tuple[ProcessState, Asking | None]:
        """Do the next step of applying a reply; the first one in the moment in which the file is looked at."""
        for write in asking.steps[0] if asking.steps else ():
            state = self._written(state, number, write, asking.sent)
        later = asking.steps[1:] if asking.steps else ()
        if later:
            return state, asking._replace(steps=later)
        return state, Asking(state.position) if asking.more else None

    def _written(self, state: ProcessState, number: int, write: Write, sent: int) -> ProcessState:
        name, items, position = write
        if name == "forget":
            rows = self._without(state.rows, items)
            return state._replace(rows=rows, applying="no mark" not in self._faults)
        if name == "count":
            alone = "cleared alone" in self._faults
            processes = [
                self._with_new_versions(process, items) if each == number or not alone else process
                for each, process in enumerate(state.processes)
            ]
            return state._replace(processes=tuple(processes))
        if name == "move":
            return state._replace(position=position, applying=False)
        return state._replace(since=self._running(sent))

    # Answers that are kept

    def _query(self, state: ProcessState, number: int, question: int) -> ProcessState:
        store = state.archive.store
        shown = content(store.versions, self.world.questions[question])
        waiting = Waiting(question, store.position, shown)
        return self._with(state, number, state.processes[number]._replace(waiting=waiting))

    def _keep(self, state: ProcessState, number: int) -> ProcessState:
        """Write an answer that waits, unless it may not be kept: in one transaction."""
        process = state.processes[number]
        waiting = process.waiting
        assert waiting is not None  # noqa: S101 - it is the condition of the action
        if not waiting.compared:
            may = self.conduct.keeps(waiting.position, state.position, state.applying)
            if may and "writes later" in self._faults:
                later = waiting._replace(compared=True, position="")
                return self._with(state, number, process._replace(waiting=later))
            if not may:
                return self._with(state, number, process._replace(waiting=None))
        rows = (*state.rows[: waiting.question], waiting.shown, *state.rows[waiting.question + 1 :])
        return self._with(state, number, process._replace(waiting=None))._replace(rows=rows)

    def _row(self, state: ProcessState, number: int, question: int) -> Versions | None:
        """Return what is kept: the answer that waits in this process, if it may be kept, else what is in the file."""
        waiting = state.processes[number].waiting
        if (
            waiting is not None
            and waiting.question == question
            and not waiting.compared
            and self.conduct.keeps(waiting.position, state.position, state.applying)
        ):
            return waiting.shown
        return state.rows[question]

    # Redirects that are made

    def _begin(self, state: ProcessState, number: int, question: int) -> ProcessState:
        """Read the versions on which a redirect will rest; or first, which is a fault, its answer."""
        process = state.processes[number]
        if "version last" in self._faults:
            row = self._row(state, number, question)
            making = None if row is None else Making(question, row)
        else:
            making = Making(question)
        return self._with(state, number, process._replace(making=making))

    def _make(self, state: ProcessState, number: int) -> ProcessState:
        """Read the answer of a redirect, and cache it with the versions that were read before."""
        process = state.processes[number]
        making = process.making
        assert making is not None  # noqa: S101 - it is the condition of the action
        row = making.shown or self._row(state, number, making.question)
        redirects = process.redirects
        if row is not None:
            redirects = (*redirects[: making.question], row, *redirects[making.question + 1 :])
        return self._with(state, number, process._replace(making=None, redirects=redirects))

    # Clicks

    def _click(self, state: ProcessState, number: int, question: int) -> ProcessState:
        """Look an answer up: look whether the lease runs; or first, which is a fault, read the row."""
        shown = None
        if self.conduct.order == "row first":
            shown = self._row(state, number, question)
            if shown is None:
                return state
        elif state.since is None:
            return state
        return self._clicking(state, number, Click(question, cached=False, shown=shown))

    def _click_again(self, state: ProcessState, number: int, question: int) -> ProcessState:
        """Look a redirect up: look whether the lease runs; or first, which is a fault, compare the versions."""
        shown = None
        if self.conduct.order == "version first":
            shown = state.processes[number].redirects[question]
        elif state.since is None:
            return state
        return self._clicking(state, number, Click(question, cached=True, shown=shown))

    def _clicking(self, state: ProcessState, number: int, click: Click) -> ProcessState:
        return self._with(state, number, state.processes[number]._replace(click=click))

    def _use(self, state: ProcessState, number: int) -> ProcessState:
        """Read the row, or compare the versions, and lead the reader."""
        process = state.processes[number]
        click = process.click
        assert click is not None  # noqa: S101 - it is the condition of the action
        shown = click.shown
        if shown is None:
            redirect = process.redirects[click.question]
            shown = redirect if click.cached else self._row(state, number, click.question)
        elif state.since is None:
            shown = None
        state = self._with(state, number, process._replace(click=None))
        ticks = self.world.lease - 1
        if shown is None or was_true(state.archive, self.world.questions[click.question], shown, ticks):
            return state
        return state._replace(wrong=f"process {number} led by {shown} for question {click.question}")

    # What is wrong

    def key(self, state: ProcessState) -> int:
        """Return a number that is the same for states which differ only in the order of their processes."""
        return hash((state._replace(processes=()), *sorted(map(hash, state.processes))))

    def fault(self, state: ProcessState) -> str | None:
        """Return what is wrong with a state: that a reader was led by an outdated answer."""
        return state.wrong or None

    def calm_fault(self, state: ProcessState) -> str | None:
        """Return what is wrong if faults cease now: after one request, the lease runs, and what is kept is true."""
        processes = tuple([Process(each.redirects) for each in state.processes])
        state = self._lock(state._replace(processes=processes), 0)
        for _ in range(99):
            if state.processes[0].asking is None:
                break
            state = self._go_on(state, 0)
        if state.since is None or state.applying or state.position != state.archive.store.position:
            return f"there is no lease after one request: {state}"
        for rows in (state.rows, *(each.redirects for each in state.processes)):
            for question, row in zip(self.world.questions, rows, strict=True):
                if row is not None and not is_true(state.archive, question, row):
                    return f"an outdated answer may be used after one request: {state}"
        return None

    # What rests on items

    def _without(self, rows: Rows, items: tuple[int, ...] | None) -> Rows:
        """Return rows without those that rest on an item; on any, with None."""
        if items is None:
            return (None,) * len(rows)
        questions = self.world.questions
        return tuple(
            [None if not set(items).isdisjoint(questions[each]) else row for each, row in enumerate(rows)]
        )

    def _with_new_versions(self, process: Process, items: tuple[int, ...] | None) -> Process:
        """Return a process after versions were changed: what rests on them is dropped.

        A redirect whose answer was read before its versions (a fault) is not.
        """
        making = process.making
        if making is not None and making.shown is None:
            rests = items is None or not set(items).isdisjoint(self.world.questions[making.question])
            making = None if rests else making
        return process._replace(redirects=self._without(process.redirects, items), making=making)


_KINDS: Final = (
    "tick", "change", "go back", "restart", "kill", "wipe", "lock", "give up", "go on", "query", "keep", "begin",
    "make", "click", "click again", "use",
)  # fmt: skip
