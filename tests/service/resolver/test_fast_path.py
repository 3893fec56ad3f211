"""The fast path of a resolver: which requests it answers, and that a change counts with the next request."""

from __future__ import annotations

import re
import shutil
import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import pytest

from ibi.http.server import service as server
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.messages import ChangeNotification
from ibi.runtime.settings import ResolverSettings
from proofs.common.report import Scale
from proofs.resolver import fast_path
from proofs.resolver.lending import ADDRESS, SERVICE, archives, item, make_resolver, service_of
from support.resolver.fast_path_fixture import FastPathResolver, serve_fast_path, where
from support.resolver.shared_files import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SEED = 20_261_122
ONE, TWO = item(0, 1), item(1, 2)
MANY = item(0, 1, 2024)
BROWSER = "Accept: text/html,*/*;q=0.8\r\nAccept-Language: de\r\nUser-Agent: Mozilla/5.0\r\n"


@pytest.fixture
def one(tmp_path: Path) -> Iterator[FastPathResolver]:
    with archives(2) as around:
        make_resolver(tmp_path, around)
        with serve_fast_path(tmp_path, around) as made:
            yield made


@pytest.mark.long
def test_the_answers_of_both_paths_cannot_be_told_apart() -> None:
    report = fast_path.prove(Scale.SHORT, SEED)
    assert report.broken == []
    assert report.counts["given by the fast path"] > 100
    assert report.counts["declined by it"] > 100
    assert report.counts["given once more"] > 10


def test_a_cached_redirect_is_given_and_counted_as_by_the_application(one: FastPathResolver) -> None:
    one.warm(ONE, TWO)
    requests = [archive.queries for archive in one.around]
    for _ in range(20):
        assert one.given(ONE, BROWSER) == f"http://files.example/0/{ONE}"
        assert one.given(TWO, method="HEAD") == f"http://files.example/1/{TWO}"
    assert [archive.queries for archive in one.around] == requests
    until(lambda: one.metrics()["thanks_queued"] == 0 and one.around[0].acknowledged >= 22)
    metrics = one.metrics()
    heads = 20
    assert metrics["thanks_delivered_total"] == sum(archive.acknowledged for archive in one.around)
    assert metrics['resolutions_total{outcome="redirect"}'] == metrics["thanks_delivered_total"] + heads
    assert metrics["resolution_seconds_count"] == metrics['resolutions_total{outcome="redirect"}']
    assert (
        # On a loaded machine a likely holder may be slower than others are asked.
        sum(metrics[f'hints_total{{result="{result}"}}'] for result in ("right", "wrong", "none"))
        == metrics["rounds_total"]
    )


def test_a_redirect_names_the_root_by_which_its_reader_came(tmp_path: Path) -> None:
    secure, other = "X-Forwarded-Proto: https\r\n", "X-Forwarded-Host: evil.example\r\n"
    with archives(1) as around:
        make_resolver(tmp_path, around)
        with serve_fast_path(tmp_path, around, "127.0.0.1/32") as proxied:
            for _ in range(2):  # before any redirect is cached, and afterwards
                assert f"link: <http://{ADDRESS}/{ONE}>" in proxied.ask(ONE)
                assert f"link: <https://{ADDRESS}/{ONE}>" in proxied.ask(ONE, secure)
                assert f"link: <https://{ADDRESS}/{ONE}>" in proxied.ask(ONE, secure + other)
                proxied.warm(ONE)
            settings = ResolverSettings.read(tmp_path)
            replace(settings, public_url="https://ids.example").write(tmp_path)
            until(lambda: f"link: <https://ids.example/{ONE}>" in proxied.ask(ONE, secure))
            proxied.warm(ONE, headers=secure)
            assert f"link: <https://ids.example/{ONE}>" in proxied.ask(ONE, secure)
            assert f"link: <https://ids.example/{ONE}>" in proxied.ask(ONE)
        with serve_fast_path(tmp_path, around) as plain:
            replace(settings, public_url="").write(tmp_path)
            until(lambda: f"link: <http://{ADDRESS}/{ONE}>" in plain.ask(ONE, secure))


def test_pages_of_other_origins_may_read_the_redirects_of_both_paths(one: FastPathResolver) -> None:
    shared = "access-control-allow-origin: *"
    assert shared in one.ask(ONE).lower().splitlines()
    one.warm(ONE)
    for method in ("GET", "HEAD"):
        before = one.taken[True]
        assert shared in one.ask(ONE, method=method).lower().splitlines()
        assert one.taken[True] > before


def test_the_redirects_of_both_paths_lead_to_the_gates_of_the_item(one: FastPathResolver) -> None:
    links = (
        f'link: <http://{ADDRESS}/{ONE}>; rel="cite-as", <http://{ADDRESS}/{ONE}>; rel="original",'
        f' <http://{ADDRESS}/-/timegate/{ONE}>; rel="timegate",'
        f' <http://{ADDRESS}/-/timemap/{ONE}>; rel="timemap"; type="application/link-format"'
    )
    assert links in one.ask(ONE).splitlines()
    one.warm(ONE)
    before = one.taken[True]
    assert links in one.ask(ONE).splitlines()
    assert one.taken[True] > before


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        ("", "stranger.example"),
        ("Purpose: prefetch\r\n", ADDRESS),
        ("Sec-Purpose: prefetch;prerender\r\n", ADDRESS),
        ("CDN-Loop: ibi-resolver\r\n", ADDRESS),
        (f'CDN-Loop: ibi-resolver; id="{SERVICE}"\r\n', ADDRESS),
        ("Host: another.example\r\n", ADDRESS),
        ("Connection: close\r\n", ADDRESS),
        ("Content-Length: 0\r\n", ADDRESS),
        ("Expect: 100-continue\r\n", ADDRESS),
    ],
)
def test_a_request_that_needs_more_than_a_redirect_is_left_to_the_application(
    shared: FastPathResolver, headers: str, host: str
) -> None:
    before = shared.taken[True]
    shared.ask(ONE, headers, host=host)
    assert shared.taken[True] == before
    assert shared.given(ONE) is not None


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastPathResolver]:
    data = tmp_path_factory.mktemp("resolver")
    with archives(2) as around:
        make_resolver(data, around)
        with serve_fast_path(data, around) as made:
            made.warm(ONE)
            yield made


@pytest.mark.parametrize(
    "headers",
    [
        "X-Forwarded-For: 192.0.2.9, 192.0.2.10\r\n",
        'CDN-Loop: other; x, ibi-resolver; id="b.example/x"\r\n',
        BROWSER,
    ],
)
def test_headers_that_a_redirect_does_not_depend_on_keep_the_fast_path(
    shared: FastPathResolver, headers: str
) -> None:
    assert shared.given(ONE, headers) == f"http://files.example/0/{ONE}"


def test_the_language_counts_only_where_it_decides(one: FastPathResolver) -> None:
    for language in ("pt", "en;q=0.5, pt;q=0.1"):
        one.warm(f"{MANY}+", headers=f"Accept-Language: {language}\r\n")
    found = [
        one.given(f"{MANY}+", f"Accept-Language: {language}\r\n")
        for language in ("pt", "en;q=0.5, pt;q=0.1", "de")
    ]
    assert [place and place.rpartition("?")[2] for place in found] == ["pt", "en", None]
    one.warm(MANY)
    assert one.given(MANY, "Accept-Language: ja\r\n") is not None


def test_after_the_answer_to_a_notice_nothing_older_is_given(one: FastPathResolver) -> None:
    notices = [
        ChangeNotification(parse_ibi(service_of(0)), (parse_name(ONE),)),
        ChangeNotification(parse_ibi(service_of(0))),
    ]
    for number, notice in enumerate((*notices, *notices)):
        one.warm(ONE)
        one.around[0].place = f"new{number}.example"
        assert " 200 " in one.ask(f"{SERVICE}?{notice.query()}")
        assert where(one.ask(ONE)) == f"http://new{number}.example/0/{ONE}"


class Kept:
    """A connection that stays, on which the same head is sent around every target."""

    def __init__(self, resolver: FastPathResolver, headers: str = "") -> None:
        self._resolver = resolver
        self._more = headers
        self._socket = socket.create_connection(("127.0.0.1", resolver.port), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, target: str) -> str | None:
        """Where it leads."""
        self._socket.sendall(f"GET /{target} HTTP/1.1\r\nHost: {ADDRESS}\r\n{self._more}\r\n".encode())
        heard = b""
        while b"\r\n\r\n" not in heard:
            heard += self._socket.recv(65_536)
        head, _, body = heard.partition(b"\r\n\r\n")
        length = re.search(rb"(?m)^content-length: (\d+)", head)
        while length is not None and len(body) < int(length[1]):
            body += self._socket.recv(65_536)
        return where(head.decode())

    def once_more(self, target: str) -> str | None:
        """Return the location if the in-process cache has it, without a call of the fast path."""
        for _ in range(200):
            before = self._resolver.taken.total()
            found = self.ask(target)
            if found is not None and self._resolver.taken.total() == before:
                return found
        return None


def _notify(one: FastPathResolver, notice: ChangeNotification) -> bool:
    return " 200 " in one.ask(f"{SERVICE}?{notice.query()}")


def test_the_in_process_cache_gives_only_what_would_still_be_found(one: FastPathResolver) -> None:
    one.warm(ONE, TWO)
    about_one = ChangeNotification(parse_ibi(service_of(0)), (parse_name(ONE),))
    with Kept(one) as first, Kept(one) as second:
        for number in range(4):
            one.warm(ONE)
            assert second.once_more(TWO)
            assert first.once_more(ONE) == second.ask(ONE)
            one.around[0].place = f"new{number}.example"
            assert _notify(one, about_one)
            assert first.ask(ONE) == f"http://new{number}.example/0/{ONE}"
        one.warm(ONE)
        assert first.once_more(ONE)
        one.include(one.around[1])
        assert first.ask(ONE) is None
        one.warm(TWO)
        assert second.once_more(TWO)


def test_a_change_of_the_settings_empties_the_in_process_cache(one: FastPathResolver) -> None:
    one.warm(ONE)
    with Kept(one) as kept:
        assert kept.once_more(ONE)
        settings = ResolverSettings.read(one.data)
        replace(settings, express=False).write(one.data)
        until(lambda: one.given(ONE) is None)
        assert kept.once_more(ONE) is None
        assert kept.ask(ONE)


def test_the_in_process_cache_keeps_request_heads_apart(one: FastPathResolver) -> None:
    one.warm(f"{MANY}+", headers="Accept-Language: pt\r\n")
    one.warm(f"{MANY}+", headers="Accept-Language: en\r\n")
    with Kept(one, "Accept-Language: pt\r\n") as pt, Kept(one, "Accept-Language: en\r\n") as en:
        for _ in range(3):
            found = [pt.once_more(f"{MANY}+"), en.once_more(f"{MANY}+")]
            assert [place and place.rpartition("?")[2] for place in found] == ["pt", "en"]


def test_the_in_process_cache_ignores_headers_that_decide_nothing(one: FastPathResolver) -> None:
    one.warm(TWO)

    def shared() -> bool:
        with Kept(one) as first, Kept(one, "User-Agent: another one\r\n") as second:
            found, before = first.once_more(TWO), one.taken.total()
            assert second.ask(TWO) == second.ask(TWO) == found
            return one.taken.total() == before + 1  # of two: the first, whose head was not known

    assert any(shared() for _ in range(20))
    with Kept(one, f'CDN-Loop: ibi-resolver; id="{SERVICE}"\r\n') as loop:
        assert [loop.ask(TWO) for _ in range(3)] == [None] * 3


def test_a_repeated_redirect_is_counted_and_acknowledged(one: FastPathResolver) -> None:
    one.warm(TWO)
    with Kept(one) as kept:
        assert kept.once_more(TWO)
        taken, before = one.taken.total(), one.around[1].queries
        for _ in range(100):
            assert kept.ask(TWO)
        assert one.taken.total() - taken < 50
        assert one.around[1].queries == before

    def counted() -> tuple[float, ...]:
        metrics = one.metrics()
        return metrics['resolutions_total{outcome="redirect"}'], metrics["thanks_delivered_total"]

    until(lambda: counted() == (one.around[1].acknowledged,) * 2 and one.around[1].acknowledged > 100)


@pytest.mark.long
def test_a_notice_to_one_process_counts_at_once_in_another_one(tmp_path: Path) -> None:
    with archives(1) as around:
        make_resolver(tmp_path, around)
        with (
            fast_path.running(tmp_path, "closed") as (notified, _),
            fast_path.running(tmp_path, "open") as (queried, taken),
        ):
            query = ChangeNotification(parse_ibi(service_of(0)), (parse_name(ONE),)).query()
            for number in range(5):
                for _ in range(4):
                    fast_path.answered(queried, [_request(ONE), fast_path.LAST])
                    time.sleep(0.25)  # what is remembered is written a moment later
                around[0].place = f"new{number}.example"
                assert b" 200 OK" in fast_path.answered(
                    notified, [_request(f"{SERVICE}?{query}"), fast_path.LAST]
                )
                heard = fast_path.answered(queried, [_request(ONE), fast_path.LAST])
                assert f"location: http://new{number}.example/".encode() in heard
        assert taken[0] >= 1


def _request(target: str) -> bytes:
    return f"GET /{target} HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n".encode()


def test_an_archive_that_is_excluded_leads_nowhere_and_one_that_moved_is_acknowledged_where_it_is(
    one: FastPathResolver,
) -> None:
    one.warm(ONE)
    one.include(one.around[1])
    assert where(one.ask(ONE)) is None
    with archives(1) as elsewhere:
        one.include(*elsewhere, one.around[1])
        assert one.given(ONE) is None
        one.warm(ONE)
        one.given(ONE)
        until(lambda: elsewhere[0].acknowledged > 0)


def test_a_change_of_the_settings_counts_and_can_switch_off_the_fast_path(one: FastPathResolver) -> None:
    one.warm(ONE)
    settings = ResolverSettings.read(one.data)
    replace(settings, address="other.test", aliases=(ADDRESS,)).write(one.data)
    until(lambda: f"<http://other.test/{ONE}>" in one.ask(ONE))
    one.warm(ONE)
    assert f"<http://other.test/{ONE}>" in one.ask(ONE)
    replace(settings, express=False).write(one.data)
    until(lambda: f"<http://{ADDRESS}/{ONE}>" in one.ask(ONE))
    assert [one.given(ONE) for _ in range(5)] == [None] * 5


def test_when_its_time_is_up_the_archive_is_asked_again(one: FastPathResolver) -> None:
    one.around[0].seconds = 2
    one.warm(ONE)
    one.around[0].place = "later.example"
    until(lambda: where(one.ask(ONE)) == f"http://later.example/0/{ONE}")


def test_after_a_restart_no_archive_is_asked_for_what_is_cached(tmp_path: Path) -> None:
    with archives(2) as around:
        make_resolver(tmp_path, around)
        with serve_fast_path(tmp_path, around) as before:
            before.warm(ONE)
        requests = around[0].queries
        with serve_fast_path(tmp_path, around) as after:
            assert where(after.ask(ONE)) == f"http://files.example/0/{ONE}"
            assert after.given(ONE) == f"http://files.example/0/{ONE}"
        assert around[0].queries == requests


def test_without_its_file_a_resolver_goes_on_and_makes_another_one(one: FastPathResolver) -> None:
    one.warm(ONE)
    shutil.rmtree(one.data / "memory")
    one.around[1].place = "anew.example"
    until(lambda: where(one.ask(TWO)) == f"http://anew.example/1/{TWO}" and (one.data / "memory").exists())
    one.warm(TWO)
    assert one.given(ONE) == f"http://files.example/0/{ONE}"


def test_half_a_request_and_one_that_looks_whole_are_one_request(shared: FastPathResolver) -> None:
    plain = _request(ONE)
    with socket.create_connection(("127.0.0.1", shared.port), timeout=30) as line:
        for _ in range(2):  # from the second on it takes the fast path
            line.sendall(plain)
            assert line.recv(65_536).count(b"HTTP/1.1 302") == 1
        line.sendall(b"GET /-/healthz HTTP/1.1\r\nX: ")
        time.sleep(0.1)  # so that it arrives by itself; if it does not, there is less to see
        line.sendall(plain)
        assert line.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        line.sendall(plain.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        rest = b""
        while part := line.recv(65_536):
            rest += part
    assert rest.count(b"HTTP/1.1 ") == 1


@pytest.mark.long
def test_a_connection_that_is_used_stays_and_one_that_is_not_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 3)
    with archives(1) as around:
        make_resolver(tmp_path, around)
        with (
            serve_fast_path(tmp_path, around) as made,
            socket.create_connection(("127.0.0.1", made.port), timeout=30) as line,
        ):
            made.warm(ONE)
            until_then = time.monotonic() + 5
            while time.monotonic() < until_then:
                line.sendall(_request(ONE))
                assert line.recv(65_536).startswith(b"HTTP/1.1 302 ")
            with suppress(ConnectionError):
                assert line.recv(65_536) == b""


@pytest.mark.parametrize(
    ("target", "same"),
    [("http://resolver.test", "/"), ("http://resolver.test?x=1", "/?x=1"), ("http:", "http:")],
)
def test_an_absolute_form_without_a_path_means_the_root(
    shared: FastPathResolver, target: str, same: str
) -> None:
    def status(text: str) -> bytes:
        request = f"GET {text} HTTP/1.1\r\nHost: {ADDRESS}\r\nConnection: close\r\n\r\n".encode()
        return fast_path.answered(shared.port, [request])[:12]

    assert status(target) == status(same) == (b"HTTP/1.1 400" if target == same else b"HTTP/1.1 200")
