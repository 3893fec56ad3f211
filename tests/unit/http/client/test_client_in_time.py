"""Requests of one client to the moment, without a network: which connection each takes, and how each ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from ibi.errors import PeerError
from ibi.http.client import AddressPolicy, Client, ClientLimits, Deadline
from ibi.http.client.response import Reply
from support.clock import FalseClockLoop
from support.http_answers import answer

WHOLE = answer(b"yes")
SILENT = "too many questions to it were waiting here"


class Near(asyncio.Transport):
    """The near end of a connection, whose peer answers each request as `replies` says: after so many seconds."""

    def __init__(self, network: Network, ip: str) -> None:
        super().__init__({"peername": (ip, 80)})
        self._network = network
        self.number = len(network.connections)
        self.protocol: Any = None
        self._closing = False

    def write(self, data: Any) -> None:
        target = bytes(data).split()[1].decode()
        self._network.note(f"{target} over {self.number}")
        seconds = self._network.replies.get(target)
        if seconds is not None:
            self._network.call_later(seconds, self._answer)

    def _answer(self) -> None:
        if not self._closing:
            self.protocol.data_received(WHOLE)

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._network.note(f"{self.number} ended")
            self._network.call_soon(self.protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self._closing


class Network(FalseClockLoop):
    """A loop with peers; `slow` is how long a connection takes, `replies` how long the answer to a target."""

    def __init__(self, slow: float = 0, **replies: float) -> None:
        super().__init__()
        self.slow = slow
        self.replies = {f"/{target}": seconds for target, seconds in replies.items()}
        self.events = list[str]()
        self.connections = list[Near]()

    def note(self, what: str) -> None:
        self.events.append(f"{round(self.time() - 1_000, 4):g} {what}")

    async def create_connection(self, made: Any, host: Any = None, *_: Any, **__: Any) -> Any:  # type: ignore[override]  # the base class has many forms
        await asyncio.sleep(self.slow)
        near = Near(self, host)
        self.connections.append(near)
        near.protocol = made()
        near.protocol.connection_made(near)
        return near, near.protocol


Step = float | str
"""So many seconds pass, a target is requested, or, with "-" before it, its request is given up."""


def played(network: Network, *steps: Step, seconds: float = 5, **limits: Any) -> list[str]:
    """What happened while these steps were taken, until all requests had ended."""
    faults = list[str]()

    async def names(host: str, port: int) -> list[tuple[str, int]]:
        if host == "odd.example":
            raise ValueError("odd")
        return [("192.0.2.7", port)]

    async def play() -> None:
        network.set_exception_handler(lambda _, found: faults.append(str(found["exception"])))
        client = Client(AddressPolicy(public=[ip_network("192.0.2.0/24")]), names, ClientLimits(**limits))
        asking, deadlines = dict[str, Any](), dict[float, Deadline]()

        def ended(target: str) -> Callable[[Reply | PeerError], None]:
            def end(outcome: Reply | PeerError) -> None:
                network.note(f"{target}: {outcome.body.decode() if isinstance(outcome, Reply) else outcome}")

            return end

        for step in steps:
            if isinstance(step, str) and step.startswith("-"):
                asking[step[1:]].give_up()
            elif isinstance(step, str):
                host = "odd.example" if step == "/odd" else "a.example"
                deadline = deadlines.setdefault(network.time(), Deadline(seconds))
                try:
                    asking[step] = client.ask(host, step, deadline, ended(step))
                except PeerError as error:
                    network.note(f"{step}: {error}")
            else:
                await asyncio.sleep(step)
        await asyncio.sleep(60)
        network.events.append("end")
        await client.close()

    with asyncio.Runner(loop_factory=lambda: network) as runner:
        runner.run(play())
    return [*network.events[: network.events.index("end")], *faults]


@pytest.mark.parametrize(("rest", "kept"), [(30.0, True), (30.001, False)])
def test_a_connection_that_has_rested_for_thirty_seconds_is_used_and_no_older_one(
    rest: float, kept: bool
) -> None:
    events = played(Network(one=0, two=0), "/one", rest, "/two")
    first = ["0 /one over 0", "0 /one: yes"]
    second = [f"{rest:g} /two over 0"] if kept else [f"{rest:g} 0 ended", f"{rest:g} /two over 1"]
    assert events == [*first, *second, f"{rest:g} /two: yes"]


def test_the_freshest_connection_is_used_and_the_others_grow_old() -> None:
    events = played(Network(a=0, b=1, c=0, d=0), "/a", "/b", 20.0, "/c", 12.0, "/d")
    assert events == [
        "0 /a over 0", "0 /b over 1", "0 /a: yes", "1 /b: yes", "20 /c over 1", "20 /c: yes",
        "32 0 ended", "32 /d over 1", "32 /d: yes",
    ]  # fmt: skip


LATE = "no whole answer within 5 s"


def test_for_a_peer_that_is_silent_with_all_its_slots_taken_no_further_request_waits() -> None:
    def outcome(at: float, *steps: Step, **answered: float) -> list[str]:
        return played(Network(**answered), "/one", "/two", *steps, at, "/last", per_peer=2)

    never = ["0 /one over 0", "0 /two over 1"]
    ended = ["5 0 ended", f"5 /one: {LATE}"]
    assert outcome(0.5)[2:] == [
        "5 0 ended",
        f"5 /one: {LATE}",
        "5 1 ended",
        f"5 /two: {LATE}",
        "5 /last over 2",
        "5.5 2 ended",
        f"5.5 /last: {LATE}",
    ]
    assert outcome(0.5001) == [*never, f"0.5001 /last: {SILENT}", *ended, "5 1 ended", f"5 /two: {LATE}"]
    # The answer at 0.3 seconds is a sign of life.
    waits = outcome(0.4, 0.4, "/more", two=0.3)
    assert waits[2:6] == ["0.3 /two: yes", "0.4 /more over 1", *ended]
    assert waits[6:] == [
        "5 /last over 2",
        "5.4 1 ended",
        f"5.4 /more: {LATE}",
        "5.8 2 ended",
        f"5.8 /last: {LATE}",
    ]
    assert outcome(0.4001, 0.4, "/more", two=0.3)[4] == f"0.8001 /last: {SILENT}"


def test_each_request_ends_at_its_deadline_for_its_own_reason() -> None:
    assert played(Network(), "/one", "/two", per_peer=1, seconds=2) == [
        "0 /one over 0", f"2 /two: {SILENT}", "2 0 ended", "2 /one: no whole answer within 2 s",
    ]  # fmt: skip
    assert played(Network(slow=3), "/one", connect=4, seconds=2.5) == [
        "2.5 /one: no connection within 2.5 s",
    ]  # fmt: skip
    assert played(Network(one=1.999), "/one", seconds=2) == ["0 /one over 0", "1.999 /one: yes"]


def test_who_gives_up_hears_nothing_and_the_next_one_goes_on() -> None:
    assert played(Network(two=1), "/one", "/two", 1.0, "-/one", "-/one", per_peer=1) == [
        "0 /one over 0", "1 0 ended", "1 /two over 1", "2 /two: yes",
    ]  # fmt: skip
    assert played(Network(one=2), "/one", "/two", 1.0, "-/two", per_peer=1) == [
        "0 /one over 0",
        "2 /one: yes",
    ]


def test_a_fault_of_ours_is_told_to_the_loop_and_to_who_has_sent_the_request() -> None:
    assert played(Network(), "/odd") == ["0 /odd: odd.example cannot be reached: ?", "odd"]


def test_a_deadline_lasts_until_its_end() -> None:
    async def play() -> list[bool]:
        deadline = Deadline(2)
        found = [deadline.lasts(2), deadline.lasts(2.001)]
        await asyncio.sleep(1.5)
        return [*found, deadline.lasts(0.5), deadline.lasts(0.501)]

    with asyncio.Runner(loop_factory=Network) as runner:
        assert runner.run(play()) == [True, False, True, False]
