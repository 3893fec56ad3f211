"""An Archive that has lost its key, without a socket: each answer whole, what is written down, and who is told."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ibi.errors import PeerError, PeerSilent, SetupError
from ibi.http.client import Reply
from ibi.identifier.forms import parse_ibi
from ibi.resolver.api.keys import read_body
from ibi.resolver.registry.keys import is_challenge, new_challenge, proof_of
from support.clock import run_with_false_clock
from support.resolver.one_item import M16C, m16c
from support.resolver.running_resolver import KEY, enter
from support.servers.resolver_in_process import NOW, Answered, InProcess, in_process, reply

SERVICE = parse_ibi(M16C)
JSON = {"content-type": "application/json"}
PROVES_NOTHING = "this proves nothing: the address where the Archive confirmed must show the proof"


def play(
    data: Path,
    scene: Callable[[InProcess], Awaitable[None]],
    answer: Callable[[str, str], Reply | PeerError] = lambda _address, _target: reply(),
    *,
    known: bool = True,
) -> None:
    async def main() -> None:
        async with in_process(data, answer, address="urlib.net:8080") as running:
            if known:
                enter(running.registry, m16c())
            await scene(running)

    run_with_false_clock(main())


async def sent(running: InProcess, value: Any, **headers: str) -> Answered:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return await running.ask("/-/api/keys", "POST", {**JSON, **headers}, body)


def reported(answered: Answered) -> tuple[int, Any, list[tuple[str, str]]]:
    """Status, value, and the headers that differ."""
    headers = dict(answered.headers)
    assert (headers.pop("content-type"), headers.pop("cache-control")) == ("application/json", "no-store")
    assert answered.body.endswith(b"\n")
    for usual in ("content-length", "x-content-type-options", "referrer-policy"):
        headers.pop(usual)
    return answered.status, json.loads(answered.body), [*headers.items()]


def refusal(status: int, problem: str, *headers: tuple[str, str]) -> tuple[int, Any, list[tuple[str, str]]]:
    return status, {"problem": problem}, [*headers]


async def challenge_of(running: InProcess, service: str = M16C) -> str:
    status, facts, headers = reported(await sent(running, {"service_ibi": service}))
    assert (status, headers) == (200, [])
    challenge: str = facts.pop("challenge")
    assert facts == {"at": "/-/nonce", "seconds": 600}
    return challenge


def test_who_shows_the_proof_where_it_confirmed_gets_another_key_once(tmp_path: Path) -> None:
    shown: list[bytes] = []

    async def scene(running: InProcess) -> None:
        challenge = await challenge_of(running)
        shown.append(f" {proof_of(challenge, 'urlib.net:8080')}\n".encode())
        both = {"service_ibi": M16C, "challenge": challenge}
        status, facts, headers = reported(await sent(running, both))
        assert (status, facts, headers) == (200, {"service_ibi": M16C, "key": facts["key"]}, [])
        assert running.peers.requests == [("mtc-m16c.sid.inpe.br", "/-/nonce")]
        assert running.registry.check_key(SERVICE, facts["key"])
        assert not running.registry.check_key(SERVICE, KEY)
        [entry] = running.stores.knowledge.evidence.entries()
        assert (entry.what, entry.facts) == ("rotated", {"ibi": M16C, "by": "proof"})
        assert running.letters.sent == [("rotated", M16C)]
        assert reported(await sent(running, both)) == refusal(403, PROVES_NOTHING)
        assert len(running.letters.sent) == 1

    play(tmp_path, scene, lambda _address, target: reply(shown[0] if target == "/-/nonce" else b""))


@pytest.mark.parametrize(
    "answer",
    [
        lambda proof: reply(proof, 404),
        lambda proof: reply(proof[:-1]),
        lambda _proof: reply(),
        lambda _proof: PeerSilent("no answer"),
    ],
)
def test_what_proves_nothing_gets_no_key(
    tmp_path: Path, answer: Callable[[bytes], Reply | PeerError]
) -> None:
    proofs = [b""]

    async def scene(running: InProcess) -> None:
        challenge = await challenge_of(running)
        proofs[0] = proof_of(challenge, "urlib.net:8080").encode()
        assert reported(await sent(running, {"service_ibi": M16C, "challenge": challenge})) == refusal(
            403, PROVES_NOTHING
        )
        assert running.registry.check_key(SERVICE, KEY)
        assert running.letters.sent == []

    play(tmp_path, scene, lambda _address, _target: answer(proofs[0]))


def test_a_challenge_is_of_one_archive_and_for_ten_minutes(tmp_path: Path) -> None:
    proofs = [b""]

    async def scene(running: InProcess) -> None:
        secret = running.registry.challenge_secret(SERVICE)
        assert is_challenge(await challenge_of(running), secret, SERVICE.canonical, NOW)
        unknown = parse_ibi("a.example/b/2020/01.01.00.00")
        for service, made, status in (
            (M16C, new_challenge(secret, SERVICE.canonical, NOW - 600), 200),
            (
                M16C,
                new_challenge(running.registry.challenge_secret(SERVICE), SERVICE.canonical, NOW - 601),
                403,
            ),
            (M16C, new_challenge(secret, unknown.canonical, NOW), 403),
            (str(unknown), await challenge_of(running, str(unknown)), 403),
        ):
            proofs[0] = proof_of(made, "urlib.net:8080").encode()
            assert (await sent(running, {"service_ibi": service, "challenge": made})).status == status

    play(tmp_path, scene, lambda _address, _target: reply(proofs[0]))


def test_an_archive_that_never_confirmed_is_not_asked(tmp_path: Path) -> None:
    async def scene(running: InProcess) -> None:
        enter(running.registry, m16c(), included=False)
        made = await challenge_of(running)
        assert reported(await sent(running, {"service_ibi": M16C, "challenge": made})) == refusal(
            403, PROVES_NOTHING
        )
        assert running.peers.requests == []

    play(tmp_path, scene, known=False)


WHAT = "the body is a JSON object with service_ibi and perhaps challenge"
PLAIN = "the body must be plain JSON: Content-Type: application/json"


@pytest.mark.parametrize(
    ("value", "headers", "status", "problem"),
    [
        (b"{", {}, 400, WHAT),
        (b"[" * 8000, {}, 400, WHAT),
        ([], {}, 400, WHAT),
        ({}, {}, 400, WHAT),
        ({"service_ibi": 1}, {}, 400, WHAT),
        ({"service_ibi": M16C, "challenge": None}, {}, 400, WHAT),
        (
            {"service_ibi": "nothing"},
            {},
            400,
            "the characters 0, 1, I, O, V, Y and Z do not occur in an IBIp",
        ),
        ({"service_ibi": M16C}, {"content-type": "text/plain"}, 415, PLAIN),
        ({"service_ibi": M16C}, {"origin": "https://far.example"}, 415, PLAIN),
    ],
)
def test_another_body_is_refused(
    tmp_path: Path, value: Any, headers: dict[str, str], status: int, problem: str
) -> None:
    async def scene(running: InProcess) -> None:
        assert reported(await sent(running, value, **headers)) == refusal(status, problem)
        requests = await sent(
            running, {"service_ibi": M16C}, **{"content-type": "Application/JSON; charset=utf-8"}
        )
        assert requests.status == 200

    play(tmp_path, scene)


def test_a_body_is_read_with_and_without_a_challenge() -> None:
    assert read_body(json.dumps({"service_ibi": M16C, "more": 1}).encode()) == (SERVICE, "")
    assert read_body(json.dumps({"service_ibi": M16C, "challenge": "x"}).encode()) == (SERVICE, "x")


def test_a_source_and_an_archive_have_so_many_attempts_in_a_minute(tmp_path: Path) -> None:
    wait = refusal(429, "too many attempts", ("retry-after", "61"))

    async def scene(running: InProcess) -> None:
        for _ in range(10):
            await challenge_of(running)
        assert reported(await sent(running, {"service_ibi": "a.example/b/2020/01.01.00.00"})) == wait

    play(tmp_path, scene)


def test_attempts_that_name_a_challenge_count_for_the_archive(tmp_path: Path) -> None:
    wait = refusal(429, "too many attempts", ("retry-after", "61"))

    async def main() -> None:
        from ipaddress import ip_network

        trusted = [ip_network("127.0.0.0/8")]
        async with in_process(tmp_path, trusted=trusted) as running:
            enter(running.registry, m16c())

            async def from_source(number: int, value: Any) -> Any:
                return reported(await sent(running, value, **{"x-forwarded-for": f"192.0.{number}.1"}))

            both = {"service_ibi": M16C, "challenge": "x"}
            found = [await from_source(number, both) for number in range(31)]
            assert found == [refusal(403, PROVES_NOTHING)] * 30 + [wait]
            assert (await from_source(40, {"service_ibi": M16C}))[0] == 200
            assert (await from_source(41, {**both, "service_ibi": "a.example/b/2020/01.01.00.00"}))[0] == 403

    run_with_false_clock(main())


def test_a_registry_that_cannot_be_used_gives_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = [b""]

    async def scene(running: InProcess) -> None:
        def fail(*_: object) -> str:
            raise SetupError("it cannot be used")

        challenge = await challenge_of(running)
        proofs[0] = proof_of(challenge, "urlib.net:8080").encode()
        later = refusal(503, "it cannot be used", ("retry-after", "5"))
        for name, value in (("rotate", {"service_ibi": M16C, "challenge": challenge}),
                            ("challenge_secret", {"service_ibi": M16C})):  # fmt: skip
            with monkeypatch.context() as broken:
                broken.setattr(running.registry, name, fail)
                assert reported(await sent(running, value)) == later
        # Another call with the same proof was faster.
        secrets = iter([running.registry.challenge_secret(SERVICE), "another"])
        with monkeypatch.context() as raced:
            raced.setattr(running.registry, "rotate", fail)
            raced.setattr(running.registry, "challenge_secret", lambda _: next(secrets))
            both = {"service_ibi": M16C, "challenge": challenge}
            assert reported(await sent(running, both)) == refusal(403, PROVES_NOTHING)
        assert running.letters.sent == []

    play(tmp_path, scene, lambda _address, _target: reply(proofs[0]))
