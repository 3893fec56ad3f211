"""Which redirects are cached for the fast path, and that it gives them as the application does; without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.http.client import Reply
from ibi.http.server.head import Head
from ibi.identifier.forms import parse_ibi
from ibi.resolver.acknowledgments.counter import ReaderCounter
from ibi.resolver.cache.redirects import BY_LANGUAGE
from ibi.resolver.fast_path import FastPath, FastPathClient
from ibi.resolver.registry.registry import Registry
from support.clock import run_with_false_clock
from support.resolver.one_item import IBI, KEY, M16C, M16D, body, m16c, m16d
from support.resolver.running_resolver import enter
from support.servers.resolver_in_process import NOW, Answered, InProcess, in_process, reply

PATH, TARGET = f"/{IBI}", f"/{IBI}".encode()
PLAIN = reply(content_type="text/plain")
FOR_AN_HOUR: Any = {"cache_control": "max-age=3600", "content_type": "text/plain"}


def lent(word: str = "x", **pairs: str) -> bytes:
    """An answer that may be used again."""
    facts = {
        "contenttype": "Data", "state": "Original", "timestamp": "2020-01-03T00:00:00Z", "urlkey": KEY,
        "url": f"http://c.example/{word}", "acknowledgment_batch": "yes", **pairs,
    }  # fmt: skip
    return body(**{name: value for name, value in facts.items() if value})


@dataclass
class Cached:
    """A resolver with a fast path, whose clock is set by hand."""

    running: InProcess
    path: FastPath
    counter: ReaderCounter
    now: float = NOW

    async def warm(self, target: str = PATH, **headers: str) -> Answered:
        """Click twice: the answer to the second one, after which the redirect may be cached."""
        await self.running.ask(target, headers=headers)
        return await self.running.ask(target, headers=headers)

    def at_once(
        self, target: str = PATH, method: Any = b"GET", peer: Any = "192.0.2.1", **headers: str
    ) -> Any:
        named = {"host": "urlib.net", **{name.replace("_", "-"): value for name, value in headers.items()}}
        head = Head((name.encode(), value.encode()) for name, value in named.items())
        return self.path.at_once(method, target.encode(), head, peer)

    @property
    def keys(self) -> list[bytes]:
        return [*self.path.redirects.newer]


def play(
    data: Path,
    scene: Callable[[Cached], Awaitable[None]],
    answer: Callable[[str, str], Reply] | None = None,
    **settings: Any,
) -> None:
    def usual(address: str, target: str) -> Reply:
        return reply(lent(), **FOR_AN_HOUR) if address.startswith("mtc-m16c") and IBI in target else PLAIN

    async def main() -> None:
        async with in_process(data, answer or usual, **settings) as running:
            for archive in (m16c(), m16d()):
                enter(running.registry, archive)
            counter = ReaderCounter(running.stores.metrics)
            path = FastPath(running.stores.redirects, counter, lambda: cached.now, lambda: cached.now)
            cached = Cached(running, path, counter)
            running.service.use_counter(counter)
            path.follow(running.service.cache_policy)
            await scene(cached)
            counter.close()

    run_with_false_clock(main())


def as_sent(answered: Answered) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in answered.headers]
    return ("".join(lines) + "\r\n").encode("latin-1")


def test_the_second_click_is_cached_and_the_fast_path_gives_the_same_answer(tmp_path: Path) -> None:
    async def scene(cached: Cached) -> None:
        await cached.running.ask(PATH)
        assert (cached.keys, cached.at_once()) == ([], None)
        answered = await cached.running.ask(PATH)
        assert cached.keys == [TARGET]
        assert cached.at_once() == (302, as_sent(answered))
        [count] = cached.counter.counts.values()
        assert (count.readers, cached.counter.unreported_readers, sum(cached.counter.outcomes)) == (1, 1, 1)
        assert (count.archive and count.archive.name, count.addresses) == (M16C, ("192.0.2.1",))
        message = count.message()
        assert (message.url, message.url_key, message.state) == ("http://c.example/x", KEY, "Original")
        assert message.url_persistent == f"http://urlib.net{PATH}"
        assert message.client_addresses == ("192.0.2.1",)
        assert cached.at_once(method=b"HEAD") == (302, as_sent(answered))
        assert (count.readers, sum(cached.counter.outcomes)) == (1, 2)
        assert cached.at_once(x_forwarded_for="198.51.100.7") is not None
        assert (count.readers, len(cached.counter.counts)) == (2, 1)

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("target", "headers", "pairs"),
    [
        (f"{PATH}?ibiurl.requireditemstatus=Original", {}, {}),
        (PATH, {"accept": "application/x-bibtex"}, {}),
        (PATH, {}, {"acknowledgment_batch": ""}),
        (f"{PATH}?a=\x7f", {}, {}),
        (f"{PATH}?a=#", {}, {}),
    ],
)
def test_what_depends_on_more_than_cached_answers_is_not_cached(
    tmp_path: Path, target: str, headers: dict[str, str], pairs: dict[str, str]
) -> None:
    async def scene(cached: Cached) -> None:
        assert (await cached.warm(target, **headers)).status in {302, 303, 400}
        assert cached.keys == []
        if not pairs:
            await cached.warm(f"{PATH}?a=!~")
            assert cached.keys == [f"{PATH}?a=!~".encode()]

    def answer(address: str, target: str) -> Reply:
        return reply(lent(**pairs), **FOR_AN_HOUR) if "m16c" in address and IBI in target else PLAIN

    play(tmp_path, scene, answer)


def test_where_the_language_decides_there_is_a_redirect_for_each(tmp_path: Path) -> None:
    def answer(address: str, target: str) -> Reply:
        if "m16c" not in address or IBI not in target:
            return PLAIN
        urls = {"url_translation(en)": "http://c.example/en", "url_translation(pt)": "http://c.example/pt"}
        states = {"state_translation(en)": "Original", "state_translation(pt)": "Original"}
        return reply(lent(**urls, **states), **FOR_AN_HOUR)

    async def scene(cached: Cached) -> None:
        target = f"{PATH}+"
        answers = {each: await cached.warm(target, accept_language=each) for each in ("en", "pt")}
        assert [answers[each].of("location") for each in answers] == [
            "http://c.example/en",
            "http://c.example/pt",
        ]
        whole = target.encode()
        assert cached.keys == [whole, whole + b"\nen", whole + b"\npt"]
        by_language = cached.path.redirects.newer[whole]
        assert (by_language.outcome, by_language.acknowledgment) == (BY_LANGUAGE, b"")
        for each, answered in answers.items():
            assert cached.at_once(target, accept_language=each) == (302, as_sent(answered))
        assert cached.at_once(target, accept_language="de") is None
        assert answers["en"].of("cache-control") == "private, no-store"

    play(tmp_path, scene, answer, redirect_seconds=30)


def test_others_may_cache_a_redirect_for_as_long_as_it_holds(tmp_path: Path) -> None:
    async def scene(cached: Cached) -> None:
        answered = await cached.warm()
        assert answered.of("cache-control") == "public, max-age=30"
        for left, shown in ((100, 30), (31, 30), (30, 30), (29.5, 29), (1, 1), (0.5, 0)):
            cached.now = NOW + 3600 - left
            found = cached.at_once()
            expected = as_sent(answered).replace(b"max-age=30", f"max-age={shown}".encode())
            assert found == (302, expected), left
        cached.now = NOW + 3600
        assert cached.at_once() is None
        policy = cached.running.service.cache_policy
        assert policy is not None
        assert [policy.shared_seconds(left) for left in (31.9, 30, 29.9, 0, -5)] == [30, 30, 29, 0, 0]

    play(tmp_path, scene, redirect_seconds=30)


def test_an_answer_that_ends_soon_is_cached_by_others_for_less(tmp_path: Path) -> None:
    async def scene(cached: Cached) -> None:
        assert (await cached.warm()).of("cache-control") == "public, max-age=10"
        assert cached.at_once() is not None
        cached.now += 5
        assert b"max-age=5\r\n" in cached.at_once()[1]

    def answer(address: str, target: str) -> Reply:
        found: Any = {**FOR_AN_HOUR, "cache_control": "max-age=10"}
        return reply(lent(), **found) if "m16c" in address and IBI in target else PLAIN

    play(tmp_path, scene, answer, redirect_seconds=30)


def test_a_redirect_rests_on_all_answers_that_it_was_made_of(tmp_path: Path) -> None:
    async def scene(cached: Cached) -> None:
        await cached.warm()
        [redirect] = cached.path.redirects.newer.values()
        assert (redirect.since, redirect.until, redirect.boot_until) == (NOW - 60, NOW + 3600, float("inf"))
        assert len(redirect.digest) == 8
        assert cached.at_once() is not None
        cached.now = NOW - 61
        assert cached.at_once() is None
        cached.now = NOW
        assert cached.at_once() is not None
        for name in (M16C, M16D):
            cached.running.stores.redirects.suspend([name])
            assert (cached.at_once() is None) == (name == M16C)
        cached.running.stores.redirects.suspend([])
        await asyncio.to_thread(
            cached.running.stores.knowledge.cache.forget_changed, M16C, [parse_ibi(IBI).canonical]
        )
        assert cached.at_once() is None

    play(tmp_path, scene)


def test_a_redirect_is_of_the_archives_that_are_included(tmp_path: Path) -> None:
    async def scene(cached: Cached) -> None:
        await cached.warm()
        assert cached.at_once() is not None
        service = parse_ibi(M16D)
        assert cached.running.registry.exclude(service, cached.running.registry.open_change(service))
        assert cached.at_once() is None
        await cached.warm()
        assert cached.at_once() is not None

    play(tmp_path, scene)


def test_an_archive_that_is_left_out_makes_no_new_redirect(tmp_path: Path) -> None:
    async def scene(cached: Cached) -> None:
        cached.running.stores.redirects.suspend([M16C])
        await cached.warm()
        assert cached.keys == []

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("headers", "is_given"),
    [
        ({}, True),
        ({"accept": "text/html,*/*;q=0.8"}, True),
        ({"accept": "application/x-bibtex"}, False),
        ({"accept": f"text/html{' ' * 8192},application/x-bibtex"}, True),
        ({"host": "WWW.urlib.net:80"}, True),
        ({"host": "far.example"}, False),
        ({"sec_purpose": "prefetch"}, False),
        ({"purpose": "prefetch"}, False),
        ({"cdn_loop": "ibi-resolver"}, False),
        ({"cdn_loop": 'ibi-resolver; id="a/b"'}, True),
        ({"cdn_loop": 'ibi-resolver; id="urlib.net/www/2014/03.22.01.53"'}, False),
        ({"cookie": "a=b", "user_agent": "x"}, True),
    ],
)
def test_a_request_that_needs_more_is_left_to_the_application(
    tmp_path: Path, headers: dict[str, str], *, is_given: bool
) -> None:
    async def scene(cached: Cached) -> None:
        await cached.warm()
        assert (cached.at_once(**headers) is not None) is is_given

    play(tmp_path, scene)


def test_a_redirect_names_one_root_alone(tmp_path: Path) -> None:
    trusted = [ip_network("127.0.0.0/8")]

    async def scene(cached: Cached) -> None:
        secure = {"x_forwarded_proto": "https"}
        await cached.warm(**secure)
        assert cached.keys == []
        await cached.warm()
        assert cached.keys == [TARGET]
        assert cached.at_once(peer="127.0.0.1") is not None
        assert cached.at_once(peer="127.0.0.1", **secure) is None
        assert cached.at_once(peer="192.0.2.1", **secure) is not None  # it is no proxy that is trusted

    play(tmp_path, scene, trusted=trusted)


def test_the_facts_of_a_client_are_read_from_its_headers(tmp_path: Path) -> None:
    async def scene(cached: Cached) -> None:
        policy: Any = cached.running.service.cache_policy
        headers = [
            (b"host", b"urlib.net"),
            (b"x-forwarded-for", b"198.51.100.7"),
            (b"accept-language", b"pt"),
        ]
        client = FastPathClient(policy, headers, "127.0.0.1")
        assert (client.addresses, client.client_key, client.language, client.admitted, client.policy) == (
            ("198.51.100.7",), "198.51.100.7", b"pt", True, policy,
        )  # fmt: skip
        unknown = FastPathClient(policy, [(b"host", b"urlib.net")], "")
        assert (unknown.addresses, unknown.language) == (("127.0.0.1",), b"")

    play(tmp_path, scene, trusted=[ip_network("127.0.0.0/8")])


def test_without_a_policy_or_over_the_limit_the_application_answers(tmp_path: Path) -> None:
    async def scene(cached: Cached) -> None:
        await cached.warm()
        policy: Any = cached.running.service.cache_policy
        cached.path.follow(None)
        assert cached.at_once() is None
        cached.path.follow(policy)
        assert cached.at_once() is not None
        for number in range(3):  # each asks all Archives
            await cached.running.ask(f"/a.example/b/2020/01.0{number + 1}.00.00")
        assert cached.at_once(peer="127.0.0.1") is None
        assert cached.at_once(peer="192.0.2.1") is not None
        assert (policy.refuses("127.0.0.1"), policy.refuses("192.0.2.1")) == (True, False)

    play(tmp_path, scene, request_rate=0.1, request_burst=3)


def test_another_resolver_has_sixteen_times_the_limit_of_a_reader(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    resolves, reads = (
        tokens.make(each, "2026-11-22T10:00:00Z", [each]) for each in (Scope.RESOLVE, Scope.READ)
    )

    async def scene(cached: Cached) -> None:
        async def clicks(count: int, **headers: str) -> list[int]:
            names = [f"/a.example/b{number}/2020/01.01.00.00" for number in range(count)]
            return [(await cached.running.ask(name, headers=headers)).status for name in names]

        other = {"authorization": f"Bearer {reads}"}  # it is a reader like any other
        assert await clicks(3) == [404] * 3
        assert await clicks(1) == await clicks(1, **other) == [429]
        assert await clicks(1, authorization="Bearer x") == [429]
        known = {"authorization": f"Bearer {resolves}"}
        assert await clicks(34, **known) == [404] * 33 + [429]  # one is left of three

    play(tmp_path, scene, request_rate=0.001, request_burst=3, negative_seconds=0)


def test_an_archive_that_was_excluded_stays_the_known_holder_for_so_many_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []

    def away(_registry: Registry, seconds: float = 0.0) -> dict[str, Any]:
        looked.append(seconds)
        return {}

    async def scene(cached: Cached) -> None:
        await cached.running.ask("/a.example/b/2020/01.01.00.00")

    monkeypatch.setattr(Registry, "away", away)
    play(tmp_path, scene, original_days=3)
    assert 3 * 86_400 in looked


@pytest.mark.parametrize("is_on", [True, False])
def test_the_fast_path_can_be_switched_off(tmp_path: Path, *, is_on: bool) -> None:
    async def scene(cached: Cached) -> None:
        await cached.warm()
        assert (cached.running.service.cache_policy is not None) is is_on
        assert (cached.keys == [TARGET]) is is_on

    play(tmp_path, scene, express=is_on)


def test_a_fault_of_the_fast_path_is_logged_and_left_to_the_application(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def scene(cached: Cached) -> None:
        await cached.warm()
        cached.path.reload = fail
        assert cached.at_once() is None
        [record] = [each for each in caplog.records if each.name == "ibi.resolver.fast_path"]
        assert record.getMessage() == "the fast path could not look up a redirect"
        assert record.exc_info is not None

    play(tmp_path, scene)
