"""How the addresses of a name are looked up on this machine, without a name server."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from ibi.errors import ForbiddenAddress
from ibi.http.client import AddressPolicy
from ibi.http.client.address_policy import system_lookup
from ibi.http.client.download import CheckedNames

pytestmark = pytest.mark.proves("MSG-03")

TCP = (socket.SOCK_STREAM, socket.IPPROTO_TCP)


def known(*places: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [(socket.AF_INET, *TCP, "", place) for place in places]


def test_each_address_of_a_name_once_and_in_the_order_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[Any] = []

    def look(*name: Any, **how: Any) -> list[tuple[Any, ...]]:
        looked_up.append((name, how))
        return known(("2001:db8::7", 80, 0, 0), ("192.0.2.7", 80), ("2001:db8::7", 80, 0, 1))

    monkeypatch.setattr(socket, "getaddrinfo", look)
    assert asyncio.run(system_lookup("archive.example", 80)) == [("2001:db8::7", 80), ("192.0.2.7", 80)]
    assert looked_up == [(("archive.example", 80), dict(zip(("type", "proto"), TCP, strict=True)))]


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")], ids=type
)
def test_a_name_without_an_address_is_an_error_of_the_system(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", look)
    with pytest.raises(OSError, match=r"Name or service not known|label too long"):
        asyncio.run(asyncio.wait_for(system_lookup("archive.example", 80), 5))


@pytest.mark.parametrize("answer", [known(("192.0.2.7", 80)), socket.gaierror(-2, "unknown")], ids=type)
def test_a_look_up_that_was_given_up_ends_without_a_word(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    loud: list[threading.ExceptHookArgs] = []

    def look(*_: Any, **__: Any) -> Any:
        begun.set()
        assert may_end.wait(5)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> threading.Thread:
        asking = asyncio.create_task(system_lookup("archive.example", 80))
        await asyncio.to_thread(begun.wait, 5)
        (thread,) = [each for each in threading.enumerate() if each.name == "name archive.example"]
        asking.cancel()
        await asyncio.wait([asking])
        return thread

    monkeypatch.setattr(socket, "getaddrinfo", look)
    monkeypatch.setattr(threading, "excepthook", loud.append)
    thread = asyncio.run(main())
    assert thread.daemon  # a name server that never answers does not hold up the end of the process
    may_end.set()
    thread.join(5)
    assert loud == []


def test_a_download_gets_the_first_four_addresses_of_a_name_that_were_all_judged() -> None:
    """As aiohttp takes them: it would look the name up again if an address were not marked as a number."""
    calls, found = list[tuple[str, int]](), [f"8.8.8.{number}" for number in range(4)]

    async def look(host: str, port: int) -> list[tuple[str, int]]:
        calls.append((host, port))
        return [(ip, 8080) for ip in found]

    def resolved(*place: Any) -> list[Any]:
        return list(asyncio.run(CheckedNames(AddressPolicy(), look).resolve(*place)))

    found[1] = "2606:4700::1"
    expected = [
        {
            "hostname": "a.example", "host": ip, "port": 8080, "proto": socket.IPPROTO_TCP,
            "family": socket.AF_INET6 if ":" in ip else socket.AF_INET, "flags": socket.AI_NUMERICHOST,
        }
        for ip in found
    ]  # fmt: skip
    assert resolved("a.example", 80) == expected
    found.append("8.8.4.4")
    assert resolved("a.example") == expected
    assert calls == [("a.example", 80), ("a.example", 0)]
    found.append("10.0.0.1")  # none of those that are tried, and yet it forbids the name
    with pytest.raises(ForbiddenAddress, match=r"^a\.example leads to an address"):
        resolved("a.example")
    found.clear()
    with pytest.raises(OSError, match="No data available"):
        resolved("a.example")
