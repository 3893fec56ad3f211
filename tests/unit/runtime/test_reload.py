"""When changed settings are noticed, and when the application that was made of the former ones is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ibi.runtime.reload import LOOK_EVERY, ReloadingApp
from support.clock import run_with_false_clock


class App:
    """An application of one state of the settings, which answers with it when it is let."""

    def __init__(self, settings: str) -> None:
        self.settings = settings
        self.gate = asyncio.Event()
        self.closed = 0

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        await self.gate.wait()
        await send(self.settings)

    async def close(self) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.closed += 1


class Network:
    """An application that follows `settings`; all that were made, and all answers."""

    def __init__(self) -> None:
        self.settings = "first"
        self.made: list[App] = []
        self.answers: list[str] = []
        self.app = ReloadingApp(lambda: self.settings, self._make)

    def _make(self, settings: str) -> App:
        self.made.append(App(settings))
        return self.made[-1]

    async def send(self, answer: Any) -> None:
        self.answers.append(answer)

    def ask(self) -> asyncio.Task[None]:
        async def receive() -> None: ...

        async def ask() -> None:
            await self.app({}, receive, self.send)

        return asyncio.create_task(ask())


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_settings_are_looked_at_twice_a_second_at_most() -> None:
    async def run() -> list[str]:
        network, seen = Network(), list[str]()
        network.app.current()
        network.settings = "second"
        for _ in range(6):
            seen.append(network.app.current().settings)
            await asyncio.sleep(0.125)
        await network.app.close()
        return seen

    assert run_with_false_clock(run()) == ["first"] * 4 + ["second"] * 2


def test_a_request_is_answered_by_the_settings_of_its_time() -> None:
    async def run() -> None:
        network = Network()
        network.made[0].gate.set()
        await network.ask()
        network.settings = "second"
        await asyncio.sleep(LOOK_EVERY)
        asking = network.ask()
        await _turns()
        network.made[-1].gate.set()
        await asking
        assert network.answers == ["first", "second"]
        await network.app.close()

    run_with_false_clock(run())


def test_a_request_under_way_is_waited_for_although_there_were_quiet_moments_before() -> None:
    async def run() -> None:
        network = Network()
        network.made[0].gate.set()
        await network.ask()  # after this one the application has been idle once
        network.made[0].gate.clear()
        one, two = network.ask(), network.ask()
        await _turns()
        network.settings = "second"
        network.app.reload()
        await _turns()
        assert [app.closed for app in network.made] == [0, 0]
        two.cancel()
        await _turns()
        assert [app.closed for app in network.made] == [0, 0]
        network.made[0].gate.set()
        await one
        await _turns()
        assert [app.closed for app in network.made] == [1, 0]
        assert network.answers == ["first"] * 2
        await network.app.close()
        assert [app.closed for app in network.made] == [1, 1]

    asyncio.run(run())


def test_an_application_without_requests_is_closed_at_once() -> None:
    async def run() -> None:
        network = Network()
        network.settings = "second"
        network.app.reload()
        await _turns()
        assert [app.closed for app in network.made] == [1, 0]
        await network.app.close()

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("requests", [0, 1])
def test_an_end_right_after_a_change_closes_both_applications_once(turns: int, requests: int) -> None:
    async def run() -> None:
        network = Network()
        sent = [network.ask() for _ in range(requests)]
        await _turns()
        network.settings = "second"
        network.app.reload()
        for _ in range(turns):
            await asyncio.sleep(0)
        await network.app.close()
        assert [app.closed for app in network.made] == [1, 1]
        network.made[0].gate.set()
        await asyncio.gather(*sent)
        await _turns()
        assert [app.closed for app in network.made] == [1, 1]

    asyncio.run(run())


def test_a_change_while_the_applications_are_closed_makes_no_further_one() -> None:
    async def run() -> None:
        network = Network()
        closing = asyncio.create_task(network.app.close())
        await asyncio.sleep(0)
        network.settings = "second"
        network.app.reload()
        await closing
        network.app.reload()
        assert [app.closed for app in network.made] == [1]

    asyncio.run(run())
