"""Applications without a socket: each answer whole, what is stored and written down, who is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from ibi.errors import PeerError, PeerSilent, SetupError
from ibi.http.client import Reply
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ArchiveTitles
from ibi.resolver.pages import registration
from ibi.resolver.pages.registration import LARGEST_BODY, MOST_HOSTS, read_form
from support.clock import run_with_false_clock
from support.servers.resolver_in_process import Answered, InProcess, in_process, reply

SERVICE = "w.a.example/w/2020/01.01.00.00"
FORM = {"service_ibi": SERVICE, "address": "w.a.example:8080", "mail": "ada@a.example"}
URLENCODED = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
ADMIN = "root@urlib.net"


def yes(_address: str, target: str) -> Reply | PeerError:
    return reply(b"confirmation yes" if "inclusionConfirmationRequest" in target else b"")


def play(
    data: Path,
    scene: Callable[[InProcess], Awaitable[None]],
    answer: Callable[[str, str], Any] = yes,
    **more: Any,
) -> None:
    async def main() -> None:
        async with in_process(data, answer, registration="form", admin=ADMIN, **more) as running:
            await scene(running)

    run_with_false_clock(main())


async def apply(running: InProcess, headers: Any = None, **fields: str) -> Answered:
    body = urlencode({**FORM, **fields}).encode()
    return await running.ask("/-/register", "POST", {**URLENCODED, **(headers or {})}, body)


def problem(answered: Answered) -> tuple[int, str, str | None]:
    """Status, sentence and Retry-After of a refusal."""
    value = json.loads(answered.body)
    assert list(value) == ["problem"]
    return answered.status, value["problem"], answered.of("retry-after")


def test_an_application_is_stored_with_all_that_it_says_and_the_administrator_is_told(tmp_path: Path) -> None:
    async def scene(running: InProcess) -> None:
        answered = await apply(
            running, name="Ada\tLovelace", title="The Sea", title_pt="O Mar", hosts="c.example, D.example"
        )
        value = json.loads(answered.body)
        assert (answered.status, value) == (200, {"service_ibi": SERVICE, "key": value["key"]})
        shown = [
            each
            for each in answered.headers
            if each[0] not in {"content-length", "access-control-expose-headers"}
        ]
        assert shown == [
            ("content-type", "application/json"), ("referrer-policy", "same-origin"), ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
        ]  # fmt: skip
        known = running.registry.entry(parse_ibi(SERVICE))
        assert known is not None
        assert (known.applied, known.address, known.contact, known.contact_name, known.url_hosts, known.titles) == (
            True, "w.a.example:8080", "ada@a.example", "Ada Lovelace", ("c.example", "d.example"),
            ArchiveTitles("The Sea", "O Mar"),
        )  # fmt: skip
        [entry] = running.stores.knowledge.evidence.entries()
        assert (entry.what, entry.facts) == ("registered", {"ibi": SERVICE, "by": "form"})
        assert running.letters.sent == [("applied", SERVICE, "w.a.example:8080", ADMIN)]
        assert running.peers.requests == [
            ("w.a.example:8080", f"/{SERVICE}?servicesubject=inclusionConfirmationRequest")
        ]
        running.registry.approve(parse_ibi(SERVICE))
        assert running.registry.check_key(parse_ibi(SERVICE), value["key"])

    play(tmp_path, scene)


def test_the_key_is_shown_in_each_form(tmp_path: Path) -> None:
    async def scene(running: InProcess) -> None:
        answered = await apply(running, {"accept": "text/plain"})
        key = answered.body.decode().removesuffix("\n")
        running.registry.approve(parse_ibi(SERVICE))
        assert running.registry.check_key(parse_ibi(SERVICE), key)
        assert (await apply(running, {"accept": "text/plain"})).body.startswith(
            b"this Archive is registered here"
        )

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"service_ibi": "nothing"}, "the characters 0, 1, I, O, V, Y and Z do not occur in an IBIp"),
        ({"service_ibi": ""}, "the field service_ibi is missing"),
        ({"address": ""}, "the field address is missing"),
        ({"address": "a" * 257}, "address is a text of at most 256 characters"),
        ({"mail": "ada @ a"}, "this is not a plain mail address: ada @ a"),
        ({"name": "x" * 101}, "name is a text of at most 100 characters"),
        (
            {"hosts": " ".join(f"h{number}" for number in range(MOST_HOSTS + 1))},
            "at most 20 hosts can be named",
        ),
        ({"address": "127.0.0.1"}, "no Archive can be at this address"),
        ({"address": "urlib.net"}, "no Archive can be at this address"),
        ({"service_ibi": "J8LNKB5R7W/3FUQHC5"}, "no Archive can be at this address"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_stored(
    tmp_path: Path, fields: dict[str, str], sentence: str
) -> None:
    async def scene(running: InProcess) -> None:
        assert problem(await apply(running, **fields)) == (422, sentence, None)
        assert running.registry.registered() == []
        assert running.peers.requests == running.letters.sent == []
        hosts = " ".join(f"h{number}.example" for number in range(MOST_HOSTS))
        assert (await apply(running, hosts=hosts)).status == 200

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "answer", [reply(b"confirmation no"), reply(b"confirmation yes", 404), PeerSilent("x")]
)
def test_an_archive_that_does_not_confirm_is_not_stored(tmp_path: Path, answer: Any) -> None:
    async def scene(running: InProcess) -> None:
        assert problem(await apply(running)) == (
            422,
            "the Archive does not confirm at w.a.example:8080: it must be switched on and reachable there",
            None,
        )
        assert running.registry.registered() == []

    play(tmp_path, scene, lambda _address, _target: answer)


def test_a_resolver_at_the_address_is_no_archive(tmp_path: Path) -> None:
    async def scene(running: InProcess) -> None:
        assert problem(await apply(running)) == (422, "no Archive can be at this address", None)

    play(tmp_path, scene, lambda _address, _target: reply(status=508))


REGISTERED = (
    "this Archive is registered here already; if its key is lost, "
    "the administrator of this resolver gives it a new one"
)
WAITS = (
    "this Archive has applied already, with a key that was shown then, "
    "and waits for the administrator of this resolver"
)
TOO_MANY = (
    "too many Archives wait for a decision; try again in some days, "
    "or write to the administrator of this resolver"
)


def test_an_archive_applies_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(running: InProcess) -> None:
        await apply(running)
        assert problem(await apply(running)) == (409, WAITS, None)
        running.registry.approve(parse_ibi(SERVICE))
        assert problem(await apply(running)) == (409, REGISTERED, None)
        monkeypatch.setattr(running.registry, "apply", lambda *_, **__: None)
        assert problem(await apply(running, service_ibi="w.b.example/w/2020/01.01.00.00")) == (
            409,
            TOO_MANY,
            None,
        )
        assert len(running.letters.sent) == 1

    play(tmp_path, scene)


def test_a_registry_that_cannot_be_used_is_to_be_asked_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SetupError("it cannot be used")

    async def scene(running: InProcess) -> None:
        monkeypatch.setattr(running.registry, "apply", fail)
        assert problem(await apply(running)) == (503, "it cannot be used", "5")

    play(tmp_path, scene)


OTHER_SITE = "the form was sent from another site"
NO_FORM = "this is not the form that was expected"


@pytest.mark.parametrize(
    ("headers", "status", "sentence"),
    [
        ({"sec-fetch-site": "cross-site"}, 403, OTHER_SITE),
        ({"sec-fetch-site": "same-site"}, 403, OTHER_SITE),
        ({"origin": "https://far.example"}, 403, OTHER_SITE),
        ({"origin": "http://["}, 403, OTHER_SITE),
        ({"content-type": "text/plain"}, 415, NO_FORM),
        ({"sec-fetch-site": "same-origin", "origin": "https://URLIB.net"}, 200, ""),
        ({"sec-fetch-site": "none"}, 200, ""),
        ({"content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"}, 200, ""),
    ],
)
def test_a_form_comes_from_our_page_or_from_a_program(
    tmp_path: Path, headers: dict[str, str], status: int, sentence: str
) -> None:
    async def scene(running: InProcess) -> None:
        answered = await apply(running, headers)
        assert answered.status == status
        if sentence:
            assert problem(answered) == (status, sentence, None)

    play(tmp_path, scene)


def test_one_client_applies_ten_times_an_hour(tmp_path: Path) -> None:
    async def scene(running: InProcess) -> None:
        for _ in range(10):
            assert (await apply(running, mail="x")).status == 422
        assert problem(await apply(running)) == (
            429, "too many applications came from there; please try again later", "3601",
        )  # fmt: skip
        assert running.registry.registered() == []

    play(tmp_path, scene)


@pytest.mark.parametrize(("size", "status"), [(LARGEST_BODY, 415), (LARGEST_BODY + 1, 413)])
def test_a_form_has_so_many_bytes(tmp_path: Path, size: int, status: int) -> None:
    async def scene(running: InProcess) -> None:
        answered = await running.ask("/-/register", "POST", URLENCODED, b"x=".ljust(size, b"y"))
        assert answered.status == status
        if status == 413:
            assert (answered.body, answered.of("cache-control"), answered.of("content-type")) == (
                b"the body of the request is too large\n", "no-store", "text/plain; charset=utf-8",
            )  # fmt: skip

    play(tmp_path, scene)


def test_so_many_archives_are_asked_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "APPLICATIONS", registration.APPLICATIONS._replace(most=100))
    requests: list[int] = []

    async def scene(running: InProcess) -> None:
        here, go_on = [0], asyncio.Event()

        async def slowly(_ibi: Any, _address: str, *_: Any) -> bool:
            here[0] += 1
            requests.append(here[0])
            await go_on.wait()
            here[0] -= 1
            return False

        monkeypatch.setattr(
            running.service.inclusion.confirmation.__class__, "confirms", staticmethod(slowly)
        )
        tasks = [asyncio.create_task(apply(running)) for _ in range(6)]
        await asyncio.sleep(1)
        assert here == [4]
        go_on.set()
        await asyncio.gather(*tasks)
        assert max(requests) == 4
        assert len(requests) == 6

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"mail=+a%40b+&name=", {"mail": "a@b"}),
        (b"", {}),
        (b"mail=a&mail=b", None),
        (b"more=a", None),
        (b"mail=%ff", None),
        (b"mail=\xff", None),
        (b"&".join(b"%d=" % number for number in range(8)), None),
    ],
)
def test_a_form_is_read_with_each_field_once(body: bytes, fields: dict[str, str] | None) -> None:
    names = ("service_ibi", "address", "mail", "title", "title_pt", "name", "hosts")
    assert read_form(body) == (None if fields is None else {**dict.fromkeys(names, ""), **fields})
