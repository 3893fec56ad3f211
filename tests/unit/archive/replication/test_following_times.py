"""When Archives of originals are asked what has changed, and when copies are refreshed, to the half second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from ibi.archive.replication import following
from ibi.archive.replication.following import CopyFollower
from ibi.archive.replication.refreshing import REFRESH_SECONDS
from ibi.archive.store.tables import copies
from ibi.archive.store.tables.copies import CopySource
from ibi.errors import ForbiddenAddress, HoldingError, IbiError, PeerGarbled, PeerSilent, SetupError
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.extensions.changes import ChangesReply
from ibi.protocol.query_string import read_query
from support.archive.archive_fixture import NewArchive
from support.clock import run_with_false_clock

SERVICE = "far.example/w/2020/01.01.00.00"
ROOT = "http://far.example"
FIRST, SECOND = "1.00000000000000aa", "2.00000000000000aa"
SILENT = PeerSilent("it is silent")
Step = Callable[[str, str], bytes] | Exception
"""What follows from the word and the position of a request: the body of a reply; or what is raised."""


def name(number: int) -> str:
    return f"a.example/b/2010/01.01.{number // 60:02}.{number % 60:02}"


def nothing(word: str, _after: str) -> bytes:
    return ChangesReply(word, FIRST).body()


def anything(word: str, after: str) -> bytes:
    return ChangesReply(word, f"{int(after.partition('.')[0] or 0) + 1}.00000000000000aa", None).body()


def changes(*names: str, to: str = SECOND, more: bool = False) -> Step:
    return lambda word, _after: ChangesReply(word, to, names, more=more).body()


def endless(word: str, after: str) -> bytes:
    position = f"{int(after.partition('.')[0] or 0) + 1}.00000000000000aa"
    return ChangesReply(word, position, (), more=True).body()


class Far:
    """A client that takes these steps at any Archive, and the last one for ever; notes each request with its time."""

    def __init__(self, *steps: Step, seconds: float = 0.0) -> None:
        self.steps = list(steps)
        self.seconds = seconds
        self.requests: list[tuple[float, str, str, float, str]] = []
        self.cancelled: list[float] = []
        self.closed = False

    async def get(self, address: str, target: str, seconds: float) -> Any:
        path, _, query = target.partition("?")
        pairs = dict(read_query(query))
        after = pairs.get("changes.after", "")
        self.requests.append((asyncio.get_running_loop().time() - 1000, address, path, seconds, after))
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled.append(asyncio.get_running_loop().time() - 1000)
            raise
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        return SimpleNamespace(status=200, body=step(pairs["changes.word"], after))

    async def close(self) -> None:
        self.closed = True

    @property
    def times(self) -> list[float]:
        return [each[0] for each in self.requests]


class Refreshing:
    """What happens to each copy that is refreshed: nothing, a problem that it records, or an error; notes the times."""

    def __init__(self, patch: pytest.MonkeyPatch, outcome: IbiError | None = None) -> None:
        self.outcome: Callable[[str], IbiError | None] = lambda _: outcome
        self.raised: Exception | None = None
        self.seconds = 0.0
        self.done: list[tuple[float, str]] = []
        patch.setattr(following, "refresh", self.refresh)

    async def refresh(self, copier: Any, name: Any, who: str, seconds: float) -> CopySource:
        assert (copier, who, seconds) == ("copier", "refresh", REFRESH_SECONDS)
        self.done.append((asyncio.get_running_loop().time() - 1000, str(name)))
        await asyncio.sleep(self.seconds)
        if self.raised:
            raise self.raised
        return CopySource(archive=ROOT, problem=self.outcome(str(name)))


def copied(
    archive: NewArchive, *names: str, root: str = ROOT, due: bool = False, private: bool = False
) -> None:
    """Give an Archive copies; `due`: they are to be compared, else they were."""
    archive.load(*({"rep": each, "state": "Copy", "url": "http://x.example/"} for each in names))
    with archive.catalogue.writing() as writer:
        for number, each in enumerate(names):
            held = archive.catalogue.holding(parse_name(each))
            assert held is not None
            checked = f"2020-01-01T00:00:{number:02}Z"
            source = CopySource(archive=root, service=SERVICE, checked=checked, private=private)
            copies.save_source(writer.run, held.number, source)
            if not due:
                copies.unmark(writer.run, copies.DueCopy(each, held.number, "~"))


def due_of(archive: NewArchive) -> list[tuple[str, str]]:
    with archive.catalogue.reading() as run:
        return [(each.name, each.due) for each in copies.copies_to_compare(run, ROOT, SERVICE, 1000)]


def follow(
    archive: NewArchive,
    seconds: float,
    far: Far,
    meanwhile: Callable[[CopyFollower], Coroutine[Any, Any, None]] | None = None,
    copier: Callable[[], Any] = lambda: "copier",
    private: Far | None = None,
) -> None:
    """Follow for so many seconds."""
    other = private or Far(SILENT)

    async def live() -> None:
        clients: Any = (far, other)
        follower = CopyFollower(archive.catalogue, copier, *clients)
        task = asyncio.create_task(follower.run())
        beside = asyncio.create_task(meanwhile(follower)) if meanwhile else None
        await asyncio.sleep(seconds + 0.125)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, *([beside] if beside else []), return_exceptions=True)
        assert beside is None or beside.result() is None
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_with_false_clock(live(), sockets=False)
    assert (far.closed, other.closed) == (True, True)


def test_each_archive_is_asked_every_five_seconds_by_the_client_that_may_reach_it(
    archive: NewArchive,
) -> None:
    copied(archive, name(1))
    copied(archive, name(2), root="https://near.example", private=True)
    far, near = Far(nothing), Far(nothing)
    follow(archive, 10, far, private=near)
    assert far.requests == [
        (0.0, "far.example", f"/{SERVICE}", 10.0, ""),
        (5.0, "far.example", f"/{SERVICE}", 10.0, FIRST),
        (10.0, "far.example", f"/{SERVICE}", 10.0, FIRST),
    ]
    assert near.requests == [(at, "https://near.example", *rest) for at, _, *rest in far.requests]


HOUR = f"{ROOT} is not asked what changes, for an hour: "
UNEXPECTED = "this is not the reply that was expected"


@pytest.mark.parametrize(
    ("steps", "times", "messages"),
    [
        ([SILENT], [0, 10, 30, 70, 150, 310, 630, 1270, 2170, 3070], []),
        ([SILENT, SILENT, nothing, SILENT, SILENT], [0, 10, 30, 35, 45, 65], []),
        ([ForbiddenAddress("it is forbidden")], [0, 3600], [f"{HOUR}it is forbidden"]),
        ([nothing, changes(name(1), to=FIRST)], [0, 5, 3605], [f"{HOUR}{UNEXPECTED}"]),
        ([nothing, changes(to=FIRST, more=True)], [0, 5, 3605], [f"{HOUR}{UNEXPECTED}"]),
        ([RuntimeError("a fault")], [0, 900, 1800], [f"copies from {ROOT} do not follow their originals"]),
        ([endless], [*[0] * 10, *[2] * 10, *[4] * 10], []),
        ([endless, changes(to=FIRST), nothing], [0, 0, 5, 10], []),
        ([anything], [0, 5, 15, 35, 75, 80], []),
    ],
    ids=[
        "silent",
        "silent for a while",
        "forbidden",
        "names",
        "more",
        "fault",
        "endless",
        "two pages",
        "anything",
    ],
)
def test_after_a_failure_the_next_request_comes_later(
    archive: NewArchive,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    steps: list[Step],
    times: list[float],
    messages: list[str],
) -> None:
    caplog.set_level(logging.INFO, following.__name__)
    Refreshing(monkeypatch)
    copied(archive, name(1))
    far = Far(*steps)
    follow(archive, times[-1], far)
    assert [round(each) for each in far.times] == times
    assert [str(each).partition(" ('reply'")[0] for each in dict.fromkeys(caplog.messages)] == messages


def test_an_archive_may_say_once_a_minute_that_anything_has_changed(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ASK_EVERY", 60.0)
    refreshing = Refreshing(monkeypatch)
    copied(archive, name(1))
    far = Far(anything)
    follow(archive, 120, far)
    assert refreshing.done == [(0.0, name(1)), (60.0, name(1)), (120.0, name(1))]
    assert far.times == [0.0, 60.0, 120.0]


def test_a_copy_that_was_told_is_refreshed_once(archive: NewArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshing = Refreshing(monkeypatch)
    copied(archive, name(1), name(2))
    follow(archive, 20, Far(nothing, changes(name(2)), changes()))
    assert refreshing.done == [(5.0, name(2))]
    assert due_of(archive) == []


def test_twenty_copies_are_refreshed_in_one_turn_and_those_that_were_named_come_first(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for the next turn: two seconds, or five where none of those that are left was named."""
    refreshing = Refreshing(monkeypatch)
    names = [name(number) for number in range(50)]
    copied(archive, *names, due=True)
    far = Far(changes(*names[25:46]), changes())
    follow(archive, 20, far)
    assert [(at, each) for at, each in refreshing.done] == [
        *((0.0, each) for each in names[25:45]),
        *((2.0, each) for each in [names[45], *names[:19]]),
        *((7.0, each) for each in [*names[19:25], *names[46:]]),
    ]
    assert far.times == [0.0, 2.0, 7.0, 12.0, 17.0]


@pytest.mark.parametrize(
    ("outcome", "times", "left"),
    [
        (HoldingError("it has no such item"), [0, 5, 25, 105], []),
        (PeerGarbled("no description"), [0, 5, 25, 105], []),
        (SILENT, [0, 5, 25, 105, 425, 1325, 2225], [(name(1), SECOND)]),
    ],
    ids=["not held", "garbled", "silent"],
)
def test_a_copy_that_cannot_be_refreshed_is_tried_again(
    archive: NewArchive,
    monkeypatch: pytest.MonkeyPatch,
    outcome: IbiError,
    times: list[float],
    left: list[tuple[str, str]],
) -> None:
    refreshing = Refreshing(monkeypatch, outcome)
    copied(archive, name(1))
    follow(archive, 3000, Far(changes(name(1)), changes()))
    assert refreshing.done == [(float(at), name(1)) for at in times]
    assert due_of(archive) == left


def test_a_copy_that_was_refreshed_at_last_counts_its_failures_anew(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshing = Refreshing(monkeypatch)
    outcomes = iter([SILENT, None, SILENT, None])
    refreshing.outcome = lambda _: next(outcomes)
    copied(archive, name(1))
    third = "3.00000000000000aa"
    follow(archive, 60, Far(changes(name(1)), changes(), changes(name(1), to=third), changes(to=third)))
    assert [at for at, _ in refreshing.done] == [0, 5, 10, 15]


def test_only_so_many_copies_of_an_archive_wait_to_be_tried_again(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are left to the daily comparison."""
    monkeypatch.setattr(following, "MOST_LATER", 2)
    refreshing = Refreshing(monkeypatch, PeerGarbled("no description"))
    names = [name(number) for number in range(3)]
    copied(archive, *names)
    follow(archive, 10, Far(changes(*names), changes()))
    assert refreshing.done == [*((0, each) for each in names), *((5, each) for each in names[:2])]
    assert [each for each, _ in due_of(archive)] == names[:2]


def test_while_an_archive_is_silent_its_other_copies_wait(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshing = Refreshing(monkeypatch)
    refreshing.outcome = lambda each: SILENT if each == name(1) else None
    copied(archive, name(1), name(2), name(3))
    follow(archive, 30, Far(changes(name(1), name(2), name(3)), changes()))
    assert refreshing.done == [(0, name(1)), (5, name(1)), (10, name(2)), (10, name(3)), (25, name(1))]


def test_a_copy_that_is_none_any_more_is_not_refreshed(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshing = Refreshing(monkeypatch)
    refreshing.raised = HoldingError("it is the Original now")
    copied(archive, name(1), name(2))
    follow(archive, 30, Far(changes(name(1), name(2)), changes()))
    assert refreshing.done == [(0, name(1)), (0, name(2))]
    assert due_of(archive) == []


def test_a_fault_of_this_machine_is_logged_once_and_tried_again(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refreshing = Refreshing(monkeypatch)
    refreshing.raised = SetupError("the disk is full")
    copied(archive, name(1), name(2))
    follow(archive, 300, Far(changes(name(1), name(2)), changes()))
    assert refreshing.done == [(0, name(1)), (10, name(1)), (30, name(1)), (70, name(2)), (150, name(1))]
    assert caplog.messages == ["copies do not follow their originals: the disk is full"]


def test_a_catalogue_that_cannot_be_read_is_complained_of_once(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise SetupError("the database is gone")

    monkeypatch.setattr(copies, "copied_archives", fail)
    follow(archive, 10, Far(nothing))
    assert caplog.messages == ["copies do not follow their originals: the database is gone"]


def test_after_ten_minutes_of_refreshing_the_archive_is_asked_again(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshing = Refreshing(monkeypatch)
    refreshing.seconds = 300.0
    names = [name(number) for number in range(5)]
    copied(archive, *names)
    far = Far(changes(*names), changes())
    follow(archive, 1500, far)
    assert refreshing.done == [
        (0, names[0]),
        (300, names[1]),
        (600, names[2]),
        (905, names[3]),
        (1205, names[4]),
    ]
    assert far.times == [0.0, 905.0]


def test_copies_of_eight_archives_are_refreshed_at_the_same_time(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshing = Refreshing(monkeypatch)
    refreshing.seconds = 100.0
    for number in range(9):
        copied(archive, name(number), root=f"http://far{number}.example", due=True)
    follow(archive, 150, Far(nothing))
    assert [at for at, _ in refreshing.done] == [0.0] * 8 + [100.0]


def test_a_notice_has_its_archive_asked_at_the_next_look(archive: NewArchive) -> None:
    copied(archive, name(1))
    heard = list[bool]()

    async def wake(follower: CopyFollower) -> None:
        await asyncio.sleep(1.2)
        heard.extend(
            follower.wake(parse_ibi(each)) for each in (SERVICE.upper(), "far.example/w/2021/01.01.00.00")
        )

    far = Far(nothing)
    follow(archive, 7, far, wake)
    assert heard == [True, False]
    assert far.times == [0.0, 1.5, 6.5]


def test_a_notice_that_comes_during_a_turn_has_the_archive_asked_once_more(archive: NewArchive) -> None:
    copied(archive, name(1))

    async def wake(follower: CopyFollower) -> None:
        await asyncio.sleep(1.2)
        assert follower.wake(parse_ibi(SERVICE))

    far = Far(nothing, seconds=3.0)
    follow(archive, 15, far, wake)
    assert far.times == [0.0, 3.5, 11.5]


@pytest.mark.parametrize(("failures", "times"), [(1, [0, 10]), (2, [0, 10, 30])])
def test_a_notice_of_an_archive_that_failed_to_answer_changes_nothing(
    archive: NewArchive, failures: int, times: list[float]
) -> None:
    copied(archive, name(1))

    async def wake(follower: CopyFollower) -> None:
        for _ in range(failures):
            await asyncio.sleep(1)
            assert follower.wake(parse_ibi(SERVICE))
            await asyncio.sleep(11)

    far = Far(SILENT)
    follow(archive, times[-1] + 1, far, wake)
    assert far.times == times


def test_copies_are_looked_for_every_ten_seconds_and_not_while_they_are_refreshed_on_demand_only(
    archive: NewArchive,
) -> None:
    wanted = ["copier"]

    async def change(_: CopyFollower) -> None:
        await asyncio.sleep(1)
        await asyncio.to_thread(copied, archive, name(1))
        await asyncio.sleep(16.2)  # it was asked at 10 and 15
        wanted.clear()
        await asyncio.sleep(10)
        wanted.append("copier")

    far = Far(nothing)
    follow(archive, 33, far, change, lambda: wanted[0] if wanted else None)
    assert far.times == [10.0, 15.0, 27.5, 32.5]


@pytest.mark.parametrize(("on_demand_only", "end"), [(True, 1.5), (False, 5.125)])
def test_what_is_under_way_ends_at_once(archive: NewArchive, *, on_demand_only: bool, end: float) -> None:
    copied(archive, name(1))
    wanted = ["copier"]

    async def change(_: CopyFollower) -> None:
        await asyncio.sleep(1.2)
        if on_demand_only:
            wanted.clear()

    far = Far(nothing, seconds=100.0)
    follow(archive, 5, far, change, lambda: wanted[0] if wanted else None)
    assert (far.times, far.cancelled) == ([0.0], [end])
