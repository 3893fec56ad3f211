"""Downloads without a network: which answers are followed, what each fault is called, when a request ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from ibi.errors import ForbiddenAddress, IbiError
from ibi.http.client import AddressPolicy
from ibi.http.client.download import CheckedURL, Downloads
from support.clock import run_with_false_clock

ROOT = "http://a.example/"


class Body:
    """A body that gives a byte each second; `size` of them."""

    def __init__(self, size: int = 0) -> None:
        self.left = size

    async def read(self, _most: int) -> bytes:
        if not self.left:
            return b""
        await asyncio.sleep(1)
        self.left -= 1
        return b"x"


def reply(status: int = 200, size: int = 0, **headers: str) -> Any:
    named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return SimpleNamespace(status=status, headers=named, close=lambda: None, content=Body(size))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], Any]], None]:
    """Puts a function in place of the network: it takes a URL, and returns or raises what comes of it."""

    def put(answer: Callable[[str], Any]) -> None:
        async def request(_: object, _method: str, url: object, **_how: object) -> Any:
            found = answer(str(url))
            if isinstance(found, Exception):
                raise found
            return await found if asyncio.iscoroutine(found) else found

        monkeypatch.setattr(aiohttp.ClientSession, "request", request)

    return put


async def fetched(url: str = ROOT, most: int = 100, seconds: float = 60.0, *, in_all: float = 600.0) -> Any:
    """Status, URL and size of what was fetched, or the sentence of the error; and the seconds that it took."""
    time = asyncio.get_running_loop().time
    began = time()
    try:
        async with (
            Downloads(AddressPolicy(allow_private=True), seconds=in_all) as downloads,
            downloads.get(url, most_bytes=most, seconds=seconds, follow=True) as found,
        ):
            outcome: Any = (found.status, found.url, len(await found.read()))
    except IbiError as error:
        outcome = str(error)
    return outcome, round(time() - began, 3)


@pytest.mark.parametrize("status", [200, 201, 300, 301, 302, 303, 304, 305, 306, 307, 308, 309, 404])
def test_five_statuses_lead_to_another_url(status: int, session: Any) -> None:
    session(lambda url: reply(status, location="/there") if url == ROOT else reply())
    outcome, _ = run_with_false_clock(fetched())
    followed = status in {301, 302, 303, 307, 308}
    assert outcome == ((200, f"{ROOT}there", 0) if followed else (status, ROOT, 0))


@pytest.mark.parametrize(
    ("headers", "outcome"),
    [
        ({"content_length": "3"}, (200, ROOT, 2)),
        ({"content_length": "4"}, "the answer is larger than 3 bytes"),
        ({"content_length": "9" * 30}, "the answer is larger than 3 bytes"),
        ({"content_length": "-4"}, (200, ROOT, 2)),
        ({"content_encoding": ""}, (200, ROOT, 2)),
        ({"content_encoding": " Identity "}, (200, ROOT, 2)),
        ({"content_encoding": "br"}, "the answer is compressed, though this was refused beforehand"),
    ],
)
def test_the_head_of_an_answer_says_whether_its_body_is_read(
    headers: dict[str, str], outcome: object, session: Any
) -> None:
    session(lambda _: reply(200, 2, **headers))
    assert run_with_false_clock(fetched(most=3)) == (outcome, 2.0 if isinstance(outcome, tuple) else 0.0)


PLACE: Any = SimpleNamespace(host="a.example", port=80, ssl=True)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (TimeoutError(), "a.example did not answer in time"),
        (
            aiohttp.ClientConnectorDNSError(PLACE, OSError(-2, "unknown")),
            "the name a.example has no address",
        ),
        (
            aiohttp.ClientConnectorError(PLACE, OSError(111, "Connection refused")),
            "a.example cannot be reached: Connection refused",
        ),
        (
            aiohttp.ClientConnectorError(PLACE, ConnectionResetError()),
            "a.example cannot be reached: ConnectionResetError",
        ),
        (
            aiohttp.ClientConnectorCertificateError(PLACE, ValueError("x")),
            "a.example cannot be reached: ValueError",
        ),
        (
            aiohttp.ClientResponseError(None, (), message="Bad \x1b status é: \n\n  line 2"),  # type: ignore[arg-type]  # its words count
            "the answer is not HTTP: Bad ? status ?",
        ),
        (
            aiohttp.ClientResponseError(None, (), message="x" * 121),  # type: ignore[arg-type]  # its words count
            f"the answer is not HTTP: {'x' * 120}",
        ),
        (aiohttp.ServerDisconnectedError(), "the connection was closed before the end of the answer"),
        (OSError(5, "Input/output error"), "the connection was closed before the end of the answer"),
    ],
)
def test_each_fault_is_told_in_one_plain_sentence(fault: Exception, sentence: str, session: Any) -> None:
    session(lambda _: fault)
    assert run_with_false_clock(fetched()) == (sentence, 0.0)


@pytest.mark.parametrize(
    ("seconds", "in_all", "size", "outcome", "took"),
    [
        (3, 10, 2, (200, ROOT, 2), 2.0),
        (3, 10, 9, "a.example did not answer in time", 3.0),
        (10, 4, 9, "a.example did not answer in time", 4.0),
    ],
)
def test_a_body_must_come_in_the_time_of_its_request_and_of_all_requests(
    seconds: float, in_all: float, size: int, outcome: object, took: float, session: Any
) -> None:
    session(lambda _: reply(200, size))
    assert run_with_false_clock(fetched(seconds=seconds, in_all=in_all)) == (outcome, took)


def test_an_answer_to_what_is_sent_is_waited_for_thirty_seconds(session: Any) -> None:
    async def sent(size: int) -> object:
        session(lambda _: reply(201, size, x="y"))
        async with Downloads(AddressPolicy(allow_private=True)) as downloads:
            try:
                answer = await downloads.send("PUT", ROOT, json={})
            except IbiError as error:
                return str(error)
        return answer.status, dict(answer.headers), answer.body

    assert run_with_false_clock(sent(29)) == (201, {"x": "y"}, b"x" * 29)
    assert run_with_false_clock(sent(30)) == "a.example did not answer in time"


def test_of_a_url_that_is_none_so_much_is_said() -> None:
    with pytest.raises(ForbiddenAddress) as refused:
        CheckedURL.parse("ftp://" + "x" * 200)
    assert str(refused.value) == f"ftp://{'x' * 114} is no http or https URL in ASCII without user and blanks"
    assert str(CheckedURL.parse("http://a.example/#" + "x" * 8174)) == ROOT
    with pytest.raises(ForbiddenAddress, match="is no http or https URL"):
        CheckedURL.parse("http://a.example/#" + "x" * 8175)
