"""Another resolver, without sockets: what each of its answers becomes, whole, and when it is not asked."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ibi.errors import IbiError, PeerBusy, PeerGarbled, PeerSilent, QueryNotSent, QueryRefused, SetupError
from ibi.http.client import HostPort, Reply
from ibi.http.request import Request
from ibi.identifier.forms import IBIForms
from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.model.alert import Alert, AlertKind, Coverage
from ibi.resolver.resolve.resolution import UpstreamRedirect
from ibi.resolver.upstream import LONGEST_TITLE, SECONDS, Upstream, UpstreamAnswer
from support.clock import run_with_false_clock
from support.servers.resolver_in_process import Peers, reply

SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
OWN = [HostPort.parse("urlib.net"), HostPort.parse("www.urlib.net:8080")]
ITEM = "a.example/b/2020/01.02.00.00"
URL = PersistentURL.parse(f"/{ITEM}", "")
ROOT = "http://up.example/"
HOP = 'ibi-resolver; id="urlib.net/www/2014/03.22.01.53"'
SILENT = PeerSilent("no whole answer within 3 s")


def upstream_of(outcome: Any, **more: Any) -> tuple[Upstream, Peers]:
    """One that gives this outcome to each request, or the next of a list."""
    peers: Any = Peers(lambda _address, _target: outcome.pop(0) if isinstance(outcome, list) else outcome)
    return Upstream(ROOT, peers, SERVICE, OWN, **more), peers


def reported(answer: Any) -> Any:
    """An answer; of an error, its class and its sentence."""
    return (type(answer), str(answer)) if isinstance(answer, IbiError) else answer


def answer_to(outcome: Any, **more: Any) -> tuple[Any, bool]:
    async def main() -> tuple[Any, bool]:
        answer, was_sent = await upstream_of(outcome, **more)[0].ask(URL)
        return reported(answer), was_sent

    return run_with_false_clock(main())


def alert(status: int, kind: str = "not-found", **members: Any) -> Reply:
    value = {"title": "Its title", "kind": kind, **members}
    return reply(json.dumps(value).encode(), status, content_type="application/problem+json")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_with_how_many_were_silent_there(status: int) -> None:
    for header, incomplete in (
        ("2 of 7", (2, 7)),
        ("", (0, 0)),
        ("2 of 1234567", (0, 0)),
        ("2 of 7 ", (0, 0)),
    ):
        found = answer_to(reply(status=status, location="http://far.example/x", ibi_incomplete=header))
        assert found == (UpstreamRedirect("http://far.example/x", incomplete), True)


@pytest.mark.parametrize(
    ("location", "private", "expected"),
    [
        ("http://URLIB.net/x", False, (PeerGarbled, "it leads back to this resolver")),
        ("http://www.urlib.net:8080/x", False, (PeerGarbled, "it leads back to this resolver")),
        ("http://www.urlib.net/x", False, UpstreamRedirect("http://www.urlib.net/x")),
        ("http://10.0.0.1/x", False, (PeerGarbled, "it gave an address that is not safe to follow")),
        ("http://10.0.0.1/x", True, UpstreamRedirect("http://10.0.0.1/x")),
        ("", False, (PeerGarbled, "it gave an address that is not safe to follow")),
    ],
)
def test_a_redirect_is_followed_where_that_is_safe(location: str, private: bool, expected: Any) -> None:
    assert answer_to(reply(status=302, location=location), private_urls=private) == (expected, True)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (alert(404), UpstreamAnswer(404, "Its title")),
        (alert(404, known=True), UpstreamAnswer(404, "Its title", known=True)),
        (alert(404, known=1), UpstreamAnswer(404, "Its title")),
        (alert(410, "deleted", known=True), UpstreamAnswer(410, "Its title")),
        (alert(409, "suspect-originals"), UpstreamAnswer(409, "Its title")),
        (alert(503, "incomplete"), UpstreamAnswer(503, "Its title")),
        (alert(503)._replace(headers={b"retry-after": b"7"}), (PeerBusy, "it asks for a pause of 7 s")),
        (alert(429)._replace(headers={b"retry-after": b"7"}), (PeerBusy, "it asks for a pause of 7 s")),
        (reply(b'{"kind": "incomplete"}', 503, retry_after="7"), UpstreamAnswer(503)),
        (reply(status=508), None),
        (reply(status=200), (QueryRefused, "the answer has the status 200")),
        (reply(status=400), (QueryRefused, "the answer has the status 400")),
        (reply(status=499), (QueryRefused, "the answer has the status 499")),
        (reply(status=500), (PeerGarbled, "the answer has the status 500")),
        (reply(status=502), (QueryRefused, "the answer has the status 502")),
        (reply(status=504), (PeerGarbled, "the answer has the status 504")),
        (SILENT, (PeerSilent, str(SILENT))),
    ],
)
def test_each_other_answer_is_an_alert_or_proves_nothing(outcome: Any, expected: Any) -> None:
    assert answer_to(outcome) == (expected, True)


@pytest.mark.parametrize(
    ("kind", "body", "title"),
    [
        ("text/plain; charset=utf-8", "A  line\nanother", "A line"),
        ("text/plain", "x" * (LONGEST_TITLE + 1), "x" * LONGEST_TITLE),
        ("text/plain", " " * LONGEST_TITLE + "x" * LONGEST_TITLE, "x" * LONGEST_TITLE),
        ("text/plain", " " * (LONGEST_TITLE + 1) + "x" * LONGEST_TITLE, "x" * (LONGEST_TITLE - 1)),
        ("text/plain", "a\x1b[31mb\u2028c", "a [31mb c"),
        ("application/problem+json", '{"title": "Its\\ttitle"}', "Its title"),
        ("application/problem+json", '{"title": 7}', ""),
        ("application/problem+json", "[]", ""),
        ("application/problem+json", "{", ""),
        ("application/problem+json", "[" * 100_000, ""),
        ("text/html", "<p>x</p>", ""),
    ],
)
def test_one_printable_line_of_its_words_is_passed_on(kind: str, body: str, title: str) -> None:
    assert answer_to(reply(body.encode(), 404, content_type=kind)) == (UpstreamAnswer(404, title), True)


def test_it_is_asked_as_a_reader_asks() -> None:
    async def main() -> None:
        upstream, peers = upstream_of(alert(404), token="ibi_x")
        await upstream.ask(URL, "pt", 'ibi-resolver; id="a/b"', only_looking=True)
        await upstream.ask(URL, "x" * 512)
        await upstream.ask(URL, "x" * 513)
        await upstream.ask(URL, "p\u00ea")
        always = [("Accept", "application/problem+json"), ("Authorization", "Bearer ibi_x")]
        assert peers.headers == [
            ([*always, ("Accept-Language", "pt"), ("Sec-Purpose", "prefetch")], f'ibi-resolver; id="a/b", {HOP}'),
            ([*always, ("Accept-Language", "x" * 512)], HOP), (always, HOP), (always, HOP),
        ]  # fmt: skip
        assert peers.requests == [("up.example", f"/{ITEM}")] * 4

    run_with_false_clock(main())


LATELY = (QueryNotSent, "it did not respond lately, so it is not asked for a while")


def test_it_is_not_asked_in_a_loop_or_too_late() -> None:
    async def main() -> None:
        upstream, peers = upstream_of(alert(404))
        hops = ", ".join(f'ibi-resolver; id="{each}"' for each in "abcd")
        for header in ("ibi-resolver", hops):
            answer, was_sent = await upstream.ask(URL, hops=header)
            assert (reported(answer), was_sent) == (
                (QueryNotSent, "the request has passed through too many resolvers already"), False,
            )  # fmt: skip
        for seconds in (0, -1):
            answer, was_sent = await upstream.ask(URL, seconds=seconds)
            assert (reported(answer), was_sent) == ((QueryNotSent, "no time was left to ask it"), False)
        assert peers.requests == []
        assert (await upstream.ask(URL, seconds=0.001))[1]

    run_with_false_clock(main())


def test_a_pause_that_it_asks_for_is_made_and_told() -> None:
    async def main() -> None:
        busy = reply(status=503, retry_after="7")
        upstream, peers = upstream_of([busy, alert(404)])
        assert reported((await upstream.ask(URL))[0]) == (PeerBusy, "it asks for a pause of 7 s")
        await asyncio.sleep(2.5)
        answer, was_sent = await upstream.ask(URL)
        assert (reported(answer), was_sent) == ((PeerBusy, "it asks for a pause of 5 s"), False)
        await asyncio.sleep(4.5)
        assert await upstream.ask(URL) == (UpstreamAnswer(404, "Its title"), True)
        assert len(peers.requests) == 2

    run_with_false_clock(main())


@pytest.mark.parametrize(
    "probe", [SILENT, reply(status=500), reply(status=200, retry_after="7"), reply(status=404)]
)
def test_after_five_failures_a_probe_decides(probe: Any) -> None:
    async def main() -> None:
        outcomes: list[Any] = [SILENT] * 5 + [probe] + [alert(404)] * 3
        upstream, peers = upstream_of(outcomes)
        for _ in range(5):
            assert (await upstream.ask(URL))[1]
        await asyncio.sleep(0.1)
        assert [target for _, target in peers.requests[4:]] == [f"/{ITEM}", "/robots.txt"]
        answer, was_sent = await upstream.ask(URL)
        if isinstance(probe, Reply) and probe.status != 500:
            assert (answer, was_sent) == (UpstreamAnswer(404, "Its title"), True)
            return
        assert (reported(answer), was_sent) == (LATELY, False)
        await asyncio.sleep(60)  # then the reader's request sends a probe first
        assert await upstream.ask(URL) == (UpstreamAnswer(404, "Its title"), True)
        assert [target for _, target in peers.requests[6:]] == ["/robots.txt", f"/{ITEM}"]

    run_with_false_clock(main())


def test_failures_that_prove_nothing_are_not_counted() -> None:
    async def main() -> None:
        unsent = QueryNotSent("too many at once")
        upstream, peers = upstream_of([unsent] * 6 + [reply(status=400)] * 6 + [alert(404)])
        for _ in range(6):
            answer, was_sent = await upstream.ask(URL)
            assert (reported(answer), was_sent) == ((QueryNotSent, "too many at once"), False)
        for _ in range(6):
            await upstream.ask(URL)
        assert (await upstream.ask(URL))[0] == UpstreamAnswer(404, "Its title")
        assert all(target == f"/{ITEM}" for _, target in peers.requests)

    run_with_false_clock(main())


HERE = (("b.example", SILENT),)
OURS = Alert(AlertKind.NOT_FOUND, ROOT, ITEM, Coverage(3))
UNSURE = Alert(AlertKind.INCOMPLETE, ROOT, ITEM, Coverage(3, HERE))
FAR = "http://far.example/x"


@pytest.mark.parametrize(
    ("ours", "outcome", "decided"),
    [
        (OURS, reply(status=302, location=FAR), UpstreamRedirect(FAR, (0, 4))),
        (UNSURE, reply(status=302, location=FAR, ibi_incomplete="2 of 7"), UpstreamRedirect(FAR, (3, 10))),
        (Alert(AlertKind.NOT_FOUND), reply(status=302, location=FAR), UpstreamRedirect(FAR, (0, 1))),
        (OURS, alert(404), Alert(AlertKind.NOT_FOUND, ROOT, ITEM, Coverage(3), elsewhere="Its title")),
        (OURS, alert(404, known=True),
         Alert(AlertKind.NOT_FOUND, ROOT, ITEM, Coverage(3), elsewhere="Its title", known=True)),
        (UNSURE, alert(404), Alert(AlertKind.INCOMPLETE, ROOT, ITEM, Coverage(3, HERE), elsewhere="Its title")),
        (UNSURE, alert(410), Alert(AlertKind.DELETED, ROOT, ITEM, Coverage(3, HERE), elsewhere="Its title")),
        (OURS, alert(409), Alert(AlertKind.SUSPECT_ORIGINALS, ROOT, ITEM, Coverage(3), elsewhere="Its title")),
        (OURS, alert(503, "incomplete"), Alert(AlertKind.INCOMPLETE, ROOT, ITEM, Coverage(3), elsewhere="Its title")),
        (OURS, SILENT, Alert(AlertKind.INCOMPLETE, ROOT, ITEM, Coverage(4, ((ROOT, SILENT),)))),
        (UNSURE, SILENT, Alert(AlertKind.INCOMPLETE, ROOT, ITEM, Coverage(4, (*HERE, (ROOT, SILENT))))),
        (OURS, reply(status=508), OURS),
    ],
)  # fmt: skip
def test_what_is_decided_rests_on_both_resolvers(ours: Alert, outcome: Any, decided: Any) -> None:
    async def main() -> None:
        upstream, peers = upstream_of(outcome)
        request = Request("GET", "/", "", {b"accept-language": b"pt", b"cdn-loop": b'ibi-resolver; id="a/b"'})
        found = await upstream.complete(ours, URL, request, looks_only=True, seconds=SECONDS)
        assert found == (decided, True)
        accepts = ("Accept", "application/problem+json")
        assert peers.headers == [
            (
                [accepts, ("Accept-Language", "pt"), ("Sec-Purpose", "prefetch")],
                f'ibi-resolver; id="a/b", {HOP}',
            )
        ]

    run_with_false_clock(main())


@pytest.mark.parametrize(("seconds", "wait"), [("7", 7), ("0", 1)])
def test_a_reader_waits_as_long_as_the_pause(seconds: str, wait: int) -> None:
    async def main() -> None:
        upstream, _ = upstream_of(reply(status=503, retry_after=seconds))
        request = Request("GET", "/", "", {})
        decided, was_sent = await upstream.complete(OURS, URL, request, looks_only=False, seconds=SECONDS)
        assert isinstance(decided, Alert)
        assert (decided.kind, decided.wait, was_sent) == (AlertKind.INCOMPLETE, wait, True)
        assert decided.coverage is not None
        assert decided.coverage.total == 4

    run_with_false_clock(main())


@pytest.mark.parametrize("kind", [AlertKind.DELETED, AlertKind.SUSPECT_ORIGINALS, AlertKind.NO_ORIGINAL])
def test_where_an_archive_here_knows_the_item_it_is_not_asked(kind: AlertKind) -> None:
    async def main() -> None:
        upstream, peers = upstream_of(alert(404))
        request = Request("GET", "/", "", {})
        for ours in (
            Alert(kind),
            Alert(AlertKind.NOT_FOUND, known=True),
            Alert(AlertKind.INCOMPLETE, known=True),
        ):
            assert await upstream.complete(ours, URL, request, looks_only=False, seconds=1) == (ours, False)
        assert peers.requests == []

    run_with_false_clock(main())


@pytest.mark.parametrize(
    ("root", "problem"),
    [
        (
            "https://up.example/",
            "the upstream resolver is given by its root URL, http://urlib.net/; not {root}",
        ),
        (
            "http://up.example/x",
            "the upstream resolver is given by its root URL, http://urlib.net/; not {root}",
        ),
        (
            "http://up.example:25/",
            "the upstream resolver is given by its root URL, http://urlib.net/; not {root}",
        ),
        ("http://URLIB.net:80", "the upstream resolver {root} is this resolver itself"),
    ],
)
def test_a_root_that_cannot_be_asked_is_refused(root: str, problem: str) -> None:
    peers: Any = Peers(lambda *_: reply())
    with pytest.raises(SetupError) as caught:
        Upstream(root, peers, SERVICE, OWN)
    assert str(caught.value) == problem.format(root=root)
    for token in ("a b", "x" * 257):
        with pytest.raises(SetupError) as caught:
            Upstream(ROOT, peers, SERVICE, OWN, token=token)
        assert str(caught.value) == "upstream_token is a token as the upstream resolver printed it"
    Upstream(ROOT, peers, SERVICE, OWN, token="x" * 256)
