"""The express lane of a resolver: what it gives and to whom, and that a change counts with the next request."""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pytest

from ibi import assembly, serving
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.notification import ChangeNotification
from ibi.resolver.registry.mirroring import Listed
from ibi.serving import Service
from ibi.settings import ResolverSettings
from proofs.minting.report import Scale
from proofs.resolver import express
from proofs.resolver.lending import ADDRESS, SERVICE, Archive, archives, item, make_resolver, service_of
from resolver.sharing import until
from support.ports import free_port
from support.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.serving.express import Answer

SEED = 20_261_122
ONE, TWO = item(0, 1), item(1, 2)
MANY = item(0, 1, 2024)
BROWSER = "Accept: text/html,*/*;q=0.8\r\nAccept-Language: de\r\nUser-Agent: Mozilla/5.0\r\n"


class Lane:
    """A resolver at 127.0.0.1:`port`; `taken` counts what its lane was asked, by whether it gave an answer."""

    def __init__(self, data: Path, around: list[Archive]) -> None:
        self.data = data
        self.around = around
        self.port = free_port()
        self.taken: Counter[bool] = Counter()

    def make(self) -> Service:
        service = assembly.resolver_service(self.data)
        get, head = service.at_once, service.at_once_head
        assert get is not None
        assert head is not None

        def counted(ask: Any, *asked: Any) -> Answer | None:
            answer: Answer | None = ask(*asked)
            self.taken[answer is not None] += 1
            return answer

        return replace(
            service,
            at_once=lambda *asked: counted(get, *asked),
            at_once_head=lambda *asked: counted(head, *asked),
        )

    def ask(self, target: str, headers: str = "", method: str = "GET", host: str = ADDRESS) -> str:
        """The head of the answer."""
        request = f"{method} /{target} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(request)
            heard = b""
            while b"\r\n\r\n" not in heard:
                heard += line.recv(65_536)
        return heard.partition(b"\r\n\r\n")[0].decode()

    def given(self, target: str, headers: str = "", method: str = "GET") -> str | None:
        """Where the lane leads; None where it left the request to the application."""
        before = self.taken[True]
        said = self.ask(target, headers, method)
        return where(said) if self.taken[True] > before else None

    def warm(self, *targets: str, headers: str = "") -> None:
        """Ask for these until they lie ready."""
        for target in targets:
            until(lambda target=target: self.given(target, headers) is not None)  # type: ignore[misc]  # a default binds it

    def metrics(self) -> dict[str, float]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(b"GET /-/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            text = line.makefile("rb").read().decode()
        return {
            name: float(value)
            for name, value in re.findall(r"^ibi_resolver_(\S+) (\S+)$", text, re.MULTILINE)
        }

    def include(self, *around: Archive) -> None:
        """Include exactly these, as another process would."""
        known = assembly.registry(self.data)
        since = "2026-01-01T00:00:00Z"
        known.mirror(
            "these Archives",
            [
                Listed(
                    parse_ibi(service_of(a.number)), f"127.0.0.1:{a.port}", (), confirmed=True, since=since
                )
                for a in around
            ],
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_800_000_000 + len(around))),
        )
        known.close()


def where(said: str) -> str | None:
    found = re.search(r"(?m)^location: (\S+)", said)
    return found[1] if found else None


@contextmanager
def lane(data: Path, around: list[Archive]) -> Iterator[Lane]:
    made = Lane(data, around)
    with served(made.make, f"127.0.0.1:{made.port}"):
        yield made


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Lane]:
    with archives(2) as around:
        make_resolver(tmp_path, around)
        with lane(tmp_path, around) as made:
            yield made


@pytest.mark.long
def test_nobody_can_tell_which_of_the_two_has_answered() -> None:
    report = express.prove(Scale.SHORT, SEED)
    assert report.broken == []
    assert report.counts["given by the lane"] > 100
    assert report.counts["declined by it"] > 100
    assert report.counts["given once more"] > 10


def test_what_lies_ready_is_given_and_counted_as_by_the_application(one: Lane) -> None:
    one.warm(ONE, TWO)
    asked = [archive.asked for archive in one.around]
    for _ in range(20):
        assert one.given(ONE, BROWSER) == f"http://files.example/0/{ONE}"
        assert one.given(TWO, method="HEAD") == f"http://files.example/1/{TWO}"
    assert [archive.asked for archive in one.around] == asked
    until(lambda: one.metrics()["thanks_queued"] == 0 and one.around[0].thanked >= 22)
    told = one.metrics()
    heads = 20
    assert told["thanks_delivered_total"] == sum(archive.thanked for archive in one.around)
    assert told['resolutions_total{outcome="redirect"}'] == told["thanks_delivered_total"] + heads
    assert told["resolution_seconds_count"] == told['resolutions_total{outcome="redirect"}']
    assert told['hints_total{result="right"}'] + told['hints_total{result="none"}'] == told["rounds_total"]


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
def test_whoever_is_not_simply_redirected_is_left_to_the_application(
    shared: Lane, headers: str, host: str
) -> None:
    before = shared.taken[True]
    shared.ask(ONE, headers, host=host)
    assert shared.taken[True] == before
    assert shared.given(ONE) is not None


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    data = tmp_path_factory.mktemp("resolver")
    with archives(2) as around:
        make_resolver(data, around)
        with lane(data, around) as made:
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
def test_what_a_redirect_does_not_depend_on_closes_no_lane(shared: Lane, headers: str) -> None:
    assert shared.given(ONE, headers) == f"http://files.example/0/{ONE}"


def test_the_language_counts_only_where_it_decides(one: Lane) -> None:
    for language in ("pt", "en;q=0.5, pt;q=0.1"):
        one.warm(f"{MANY}+", headers=f"Accept-Language: {language}\r\n")
    found = [
        one.given(f"{MANY}+", f"Accept-Language: {said}\r\n") for said in ("pt", "en;q=0.5, pt;q=0.1", "de")
    ]
    assert [place and place.rpartition("?")[2] for place in found] == ["pt", "en", None]
    one.warm(MANY)
    assert one.given(MANY, "Accept-Language: ja\r\n") is not None


def test_after_the_answer_to_a_notice_nothing_older_is_given(one: Lane) -> None:
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

    def __init__(self, lane: Lane, headers: str = "") -> None:
        self._lane = lane
        self._more = headers
        self._socket = socket.create_connection(("127.0.0.1", lane.port), timeout=30)

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
        """Where it leads, when that is at hand: the lane is not asked for it."""
        for _ in range(200):
            before = self._lane.taken.total()
            found = self.ask(target)
            if found is not None and self._lane.taken.total() == before:
                return found
        return None


def _told(one: Lane, notice: ChangeNotification) -> bool:
    return " 200 " in one.ask(f"{SERVICE}?{notice.query()}")


def test_what_is_at_hand_is_given_only_while_it_would_be_found(one: Lane) -> None:
    one.warm(ONE, TWO)
    about_one = ChangeNotification(parse_ibi(service_of(0)), (parse_name(ONE),))
    with Kept(one) as first, Kept(one) as second:
        for number in range(4):
            one.warm(ONE)
            assert second.once_more(TWO)
            assert first.once_more(ONE) == second.ask(ONE)
            one.around[0].place = f"new{number}.example"
            assert _told(one, about_one)
            assert first.ask(ONE) == f"http://new{number}.example/0/{ONE}"
        one.warm(ONE)
        assert first.once_more(ONE)
        one.include(one.around[1])
        assert first.ask(ONE) is None
        one.warm(TWO)
        assert second.once_more(TWO)


def test_what_is_at_hand_goes_with_a_change_of_the_settings(one: Lane) -> None:
    one.warm(ONE)
    with Kept(one) as kept:
        assert kept.once_more(ONE)
        settings = ResolverSettings.read(one.data)
        replace(settings, express=False).write(one.data)
        until(lambda: one.given(ONE) is None)
        assert kept.once_more(ONE) is None
        assert kept.ask(ONE)


def test_what_is_at_hand_for_one_head_is_not_for_another(one: Lane) -> None:
    one.warm(f"{MANY}+", headers="Accept-Language: pt\r\n")
    one.warm(f"{MANY}+", headers="Accept-Language: en\r\n")
    with Kept(one, "Accept-Language: pt\r\n") as pt, Kept(one, "Accept-Language: en\r\n") as en:
        for _ in range(3):
            found = [pt.once_more(f"{MANY}+"), en.once_more(f"{MANY}+")]
            assert [place and place.rpartition("?")[2] for place in found] == ["pt", "en"]


def test_what_is_at_hand_is_for_whoever_may_have_it_whatever_else_his_head_says(one: Lane) -> None:
    one.warm(TWO)

    def shared() -> bool:
        with Kept(one) as first, Kept(one, "User-Agent: another one\r\n") as second:
            found, before = first.once_more(TWO), one.taken.total()
            assert second.ask(TWO) == second.ask(TWO) == found
            return one.taken.total() == before + 1  # of two: the first, whose head was not known

    assert any(shared() for _ in range(20))
    with Kept(one, f'CDN-Loop: ibi-resolver; id="{SERVICE}"\r\n') as loop:
        assert [loop.ask(TWO) for _ in range(3)] == [None] * 3


def test_what_is_given_once_more_is_counted_and_thanked_for(one: Lane) -> None:
    one.warm(TWO)
    with Kept(one) as kept:
        assert kept.once_more(TWO)
        asked, before = one.taken.total(), one.around[1].asked
        for _ in range(100):
            assert kept.ask(TWO)
        assert one.taken.total() - asked < 50
        assert one.around[1].asked == before

    def told() -> tuple[float, ...]:
        metrics = one.metrics()
        return metrics['resolutions_total{outcome="redirect"}'], metrics["thanks_delivered_total"]

    until(lambda: told() == (one.around[1].thanked,) * 2 and one.around[1].thanked > 100)


@pytest.mark.long
def test_a_notice_to_one_process_counts_at_once_in_another_one(tmp_path: Path) -> None:
    with archives(1) as around:
        make_resolver(tmp_path, around)
        with (
            express.running(tmp_path, "closed") as (told, _),
            express.running(tmp_path, "open") as (asked, taken),
        ):
            query = ChangeNotification(parse_ibi(service_of(0)), (parse_name(ONE),)).query()
            for number in range(5):
                for _ in range(4):
                    express.said(asked, [_request(ONE), express.LAST])
                    time.sleep(0.25)  # what is remembered is written a moment later
                around[0].place = f"new{number}.example"
                assert b" 200 OK" in express.said(told, [_request(f"{SERVICE}?{query}"), express.LAST])
                heard = express.said(asked, [_request(ONE), express.LAST])
                assert f"location: http://new{number}.example/".encode() in heard
        assert taken[0] >= 1


def _request(target: str) -> bytes:
    return f"GET /{target} HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n".encode()


def test_an_archive_that_is_excluded_leads_nowhere_and_one_that_moved_is_thanked_where_it_is(
    one: Lane,
) -> None:
    one.warm(ONE)
    one.include(one.around[1])
    assert where(one.ask(ONE)) is None
    with archives(1) as elsewhere:
        one.include(*elsewhere, one.around[1])
        assert one.given(ONE) is None
        one.warm(ONE)
        one.given(ONE)
        until(lambda: elsewhere[0].thanked > 0)


def test_a_change_of_the_settings_counts_and_the_lane_can_be_closed(one: Lane) -> None:
    one.warm(ONE)
    settings = ResolverSettings.read(one.data)
    replace(settings, address="other.test", aliases=(ADDRESS,)).write(one.data)
    until(lambda: f"<http://other.test/{ONE}>" in one.ask(ONE))
    one.warm(ONE)
    assert f"<http://other.test/{ONE}>" in one.ask(ONE)
    replace(settings, express=False).write(one.data)
    until(lambda: f"<http://{ADDRESS}/{ONE}>" in one.ask(ONE))
    assert [one.given(ONE) for _ in range(5)] == [None] * 5


def test_when_its_time_is_up_the_archive_is_asked_again(one: Lane) -> None:
    one.around[0].seconds = 2
    one.warm(ONE)
    one.around[0].place = "later.example"
    until(lambda: where(one.ask(ONE)) == f"http://later.example/0/{ONE}")


def test_after_a_restart_the_first_request_is_given_by_the_lane(tmp_path: Path) -> None:
    with archives(2) as around:
        make_resolver(tmp_path, around)
        with lane(tmp_path, around) as before:
            before.warm(ONE)
        asked = around[0].asked
        with lane(tmp_path, around) as after:
            assert after.given(ONE) == f"http://files.example/0/{ONE}"
        assert around[0].asked == asked


def test_without_its_file_a_resolver_goes_on_and_makes_another_one(one: Lane) -> None:
    one.warm(ONE)
    shutil.rmtree(one.data / "memory")
    one.around[0].place = "anew.example"
    until(lambda: where(one.ask(ONE)) == f"http://anew.example/0/{ONE}")
    one.warm(ONE)


def test_half_a_request_and_one_that_looks_whole_are_one_request(shared: Lane) -> None:
    plain = _request(ONE)
    with socket.create_connection(("127.0.0.1", shared.port), timeout=30) as line:
        for _ in range(2):  # from the second on it goes the short way
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
    monkeypatch.setattr(serving, "IDLE_SECONDS", 3)
    with archives(1) as around:
        make_resolver(tmp_path, around)
        with (
            lane(tmp_path, around) as made,
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
def test_an_absolute_form_without_a_path_means_the_root(shared: Lane, target: str, same: str) -> None:
    def status(text: str) -> bytes:
        request = f"GET {text} HTTP/1.1\r\nHost: {ADDRESS}\r\nConnection: close\r\n\r\n".encode()
        return express.said(shared.port, [request])[:12]

    assert status(target) == status(same) == (b"HTTP/1.1 400" if target == same else b"HTTP/1.1 200")
