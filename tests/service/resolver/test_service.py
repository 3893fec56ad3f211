"""The resolver as readers meet it: statuses, headers and bodies over real sockets."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import pytest

from ibi.http.client import AddressPolicy
from ibi.protocol.pair_list import read_pairs, write_pairs
from ibi.resolver.resolve.breaker import FAILURES
from ibi.resolver.resolve.resolver import Resolver
from ibi.resolver.service import ResolverService
from ibi.runtime.settings import ResolverSettings
from support.engines.shared_store import run_in_registry
from support.resolver.one_item import (
    DELETED,
    IBI,
    KEY,
    M16C,
    M16D,
    REP,
    URL,
    answer_of,
    body,
    item,
    m16c,
    m16d,
    play,
)
from support.resolver.parts import outgoing
from support.resolver.running_resolver import SERVICE, Running
from support.scripted_archive import Behaviour, Question, ScriptedArchive

if TYPE_CHECKING:
    from pathlib import Path

MANY = [f"192.0.2.{number}" for number in range(40)]


@pytest.mark.proves("RES-01", "RES-12", "MSG-29", "AMB-31", "CON-04")
def test_a_persistent_url_redirects_byte_for_byte(tmp_path: Path) -> None:
    url = "http://mtc-m16d.sid.inpe.br/col/a/b/2009/01.01.01.01/doc/Relat%f3rio%20Final.pdf"
    answer = answer_of(tmp_path, [m16c(item(url=url))], f"/{IBI}")
    assert (answer.status, answer.location, answer.body) == (302, url, b"")
    assert answer.headers["cache-control"] == "private, no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["link"] == (
        f'<http://urlib.net/{IBI}>; rel="cite-as", <http://urlib.net/{IBI}>; rel="original",'
        f' <http://urlib.net/-/timegate/{IBI}>; rel="timegate",'
        f' <http://urlib.net/-/timemap/{IBI}>; rel="timemap"; type="application/link-format"'
    )
    assert answer.headers["vary"] == "Accept"


@pytest.mark.parametrize("around", ["/ibi:{}", "/rep/{}", "/{}).", "/ibi:{}?a=1", "/{}?a=1"])
def test_what_stands_around_a_name_is_not_cited(tmp_path: Path, around: str) -> None:
    answer = answer_of(tmp_path, [m16c(item())], around.format(IBI))
    query = "?a=1" if "?" in around else ""
    assert answer.headers["link"].startswith(f'<http://urlib.net/{IBI}{query}>; rel="cite-as"')


@pytest.mark.proves("RES-11", "MSG-27", "AMB-49", "AMB-54", "CON-04")
def test_the_archive_is_acknowledged_with_the_url_as_it_was_received(tmp_path: Path) -> None:
    archive = m16c(item())

    async def scene(running: Running) -> None:
        await running.ask(f"/{IBI}?a=1&b=%f3", "X-Forwarded-For: 172.16.44.200", host="www.urlib.net:8080")
        await running.acknowledged()

    play(tmp_path, [archive], scene)
    (acknowledgment,) = archive.acknowledgments
    assert acknowledgment["url.persistent"] == f"http://urlib.net/{IBI}?a=1&b=%f3"
    assert acknowledgment["clientinformation.ipaddress"] == "172.16.44.200 127.0.0.1"
    assert (acknowledgment["urlkey"], acknowledgment["state"], acknowledgment["contenttype"]) == (
        KEY,
        "Original",
        "Data",
    )
    assert acknowledgment["url"] == URL


@pytest.mark.proves("RES-11")
def test_every_redirect_is_counted_also_without_an_acknowledgment(tmp_path: Path) -> None:
    without_key = {name: value for name, value in read_pairs(item()).items() if name != "urlkey"}
    archive = m16c(write_pairs(without_key))

    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{IBI}", "Sec-Purpose: prefetch")).status == 302
        assert (await running.ask(f"/{IBI}")).status == 302
        await running.acknowledged()
        assert running.acknowledgments.delivered == 0
        assert running.acknowledgments.dropped == {"only prefetched": 1, "no key to thank with": 1}

    play(tmp_path, [archive], scene)
    assert archive.acknowledgments == []


@pytest.mark.proves("RES-11")
def test_head_is_answered_alike_and_not_acknowledged(tmp_path: Path) -> None:
    archive = m16c(item())

    async def scene(running: Running) -> None:
        head = await running.ask(f"/{IBI}", method="HEAD")
        get = await running.ask(f"/{IBI}")
        await running.acknowledged()
        assert (head.status, head.location) == (get.status, get.location) == (302, URL)
        assert running.acknowledgments.delivered == 1
        head, get = await running.ask("/nothing", method="HEAD"), await running.ask("/nothing")
        assert (head.status, head.body) == (400, b"")
        assert head.headers["content-length"] == get.headers["content-length"]

    play(tmp_path, [archive], scene)
    assert len(archive.acknowledgments) == 1


@pytest.mark.proves("URL-15", "AMB-48", "CON-05")
@pytest.mark.parametrize(
    ("query", "url", "location"),
    [
        ("a=1&b=%41", "http://a.example/x", "http://a.example/x?a=1&b=%41"),
        ("a=1", "http://a.example/x?y=2", "http://a.example/x?y=2&a=1"),
        ("a=1", "http://a.example/x#part", "http://a.example/x?a=1#part"),
        ("ibiurl.verblist=&z=%0d%0aX:1", "http://a.example/x", "http://a.example/x?z=%0d%0aX:1"),
        ("ibiurl.unknown=1", "http://a.example/x", "http://a.example/x"),
    ],
)
def test_the_items_own_pairs_are_passed_on_raw(tmp_path: Path, query: str, url: str, location: str) -> None:
    assert answer_of(tmp_path, [m16c(item(url=url))], f"/{IBI}?{query}").location == location


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "ftp://a.example/x",
        "//a.example/x",
        "http://user@a.example/x",
        "http://a.example\\@evil.example/",
        "http://127.0.0.1/x",
        "http://10.0.0.1/x",
        "http://[::1]/x",
        "http://169.254.169.254/latest",
        "http://2130706433/",
        "http://a.example/" + "x" * 9000,
    ],
)
def test_no_reader_is_sent_to_a_url_that_is_not_safe(tmp_path: Path, url: str) -> None:
    answer = answer_of(tmp_path, [m16c(item(url=url))], f"/{IBI}")
    assert answer.status == 502
    assert answer.location is None
    assert b"mtc-m18@80/2008/03.17.15.17" in answer.body


def test_private_addresses_are_followed_where_the_operator_wants_it(tmp_path: Path) -> None:
    answer = answer_of(
        tmp_path, [m16c(item(url="http://127.0.0.1:8081/x"))], f"/{IBI}", allow_private_archives=True
    )
    assert answer.location == "http://127.0.0.1:8081/x"


@pytest.mark.proves("RES-13", "RES-04", "CON-04")
def test_not_found_is_said_only_when_everyone_has_answered(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, [m16c(), m16d()], f"/{IBI}", "Accept: application/problem+json")
    assert answer.status == 404
    assert answer.headers["content-type"] == "application/problem+json"
    problem = json.loads(answer.body)
    assert problem["kind"] == "not-found"
    assert problem["archives"] == {"asked": 2, "answered": 2, "silent": []}
    assert problem["instance"] == f"http://urlib.net/{IBI}"
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("lie", ["reset", "status-500", "html", "duplicate-pairs", "compressed", "cut-off"])
@pytest.mark.proves("RES-13", "AMB-32")
def test_while_someone_is_silent_it_is_503_and_try_again(tmp_path: Path, lie: str) -> None:
    answer = answer_of(tmp_path, [m16c(), m16d(b"", lie=lie)], f"/{IBI}", "Accept: application/json")
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) > 0
    problem = json.loads(answer.body)
    assert (problem["kind"], problem["archives"]["asked"], problem["archives"]["answered"]) == (
        "incomplete",
        2,
        1,
    )
    (silent,) = problem["archives"]["silent"]
    assert silent["service_ibi"] == M16D
    assert silent["why"]


def test_the_log_tells_when_an_archive_is_left_out_why_and_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    silent = m16c()

    async def scene(running: Running) -> None:
        await silent.close()
        for number in range(FAILURES):
            assert (await running.ask(f"/archive.example/a/2026/01.02.03.0{number}")).status == 503
        why = "mtc-m16c.sid.inpe.br cannot be reached: Connection refused"
        assert f"{M16C.lower()} is left out for a while: {why}" in caplog.text
        (archive,) = running.registry.archives()
        running.registry.exclude(archive.service_ibi, running.registry.open_change(archive.service_ibi))
        await running.ask(f"/{IBI}")
        assert f"{M16C.lower()} is left out no longer" in caplog.text

    play(tmp_path, [silent], scene)


@pytest.mark.parametrize("replaced", [False, True])
def test_only_the_present_service_suspends_redirects_to_an_archive_that_fails(
    tmp_path: Path, replaced: bool
) -> None:
    """One whose settings were changed still ends the requests that it has begun."""
    silent = m16c()

    async def scene(running: Running) -> None:
        stores = running.stores
        settings = ResolverSettings(address="urlib.net", service=SERVICE)
        present = ResolverService(settings, stores, outgoing(AddressPolicy(), stores.host_lookup))
        if replaced:
            present.take_over(running.service)
        await silent.close()
        for number in range(FAILURES):
            await running.ask(f"/archive.example/a/2026/01.02.03.0{number}")
        assert stores.redirects.suspends(M16C.lower()) != replaced
        await present.close()

    play(tmp_path, [silent], scene)


def test_an_excluded_archive_does_not_count_among_those_that_are_not_asked(tmp_path: Path) -> None:
    silent = m16c()

    async def left_out(running: Running) -> str:
        text = (await running.ask("/-/metrics")).body.decode()
        return next(line for line in text.splitlines() if line.startswith("ibi_resolver_archives_asleep "))

    async def scene(running: Running) -> None:
        await silent.close()
        for number in range(FAILURES):
            await running.ask(f"/archive.example/a/2026/01.02.03.0{number}")
        assert await left_out(running) == "ibi_resolver_archives_asleep 1.0"
        (archive,) = running.registry.archives()
        running.registry.exclude(archive.service_ibi, running.registry.open_change(archive.service_ibi))
        assert await left_out(running) == "ibi_resolver_archives_asleep 0.0"  # before any click

    play(tmp_path, [silent], scene)


def test_a_silent_archive_ends_the_round_at_its_deadline(tmp_path: Path) -> None:
    silent = m16d(b"", lie="silence")
    answer = answer_of(tmp_path, [m16c(), silent], f"/{IBI}", archive_seconds=0.2, overall_seconds=0.5)
    assert answer.status == 503


def test_all_rounds_share_one_deadline(tmp_path: Path) -> None:
    """Each answer comes in time, but leads on; the last one is not waited for."""
    names = [f"archive.example/a/2026/01.02.03.{minute:02}" for minute in range(20)]
    script: dict[Question, Behaviour] = {}
    for name, following in pairwise(names):
        leading_on = body(ibi=f"{{rep {name}}}", ibi_nextedition=f"{{rep {following}}}")
        script[(name, ("GetLastEdition",), "")] = Behaviour(leading_on, after=0.1)
    archive = ScriptedArchive("m16c", "mtc-m16c.sid.inpe.br", M16C, script=script)
    answer = answer_of(tmp_path, [archive], f"/{names[0]}!", overall_seconds=0.45)
    assert answer.status == 503
    assert len(archive.questions) < 8


def test_a_fault_of_ours_is_counted_and_leaves_nothing_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> NoReturn:
        raise RuntimeError

    monkeypatch.setattr(Resolver, "resolve", broken)

    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{IBI}")).status == 503
        metrics = (await running.ask("/-/metrics")).body.decode()
        assert "ibi_resolver_in_flight 0.0\n" in metrics
        assert 'ibi_resolver_resolutions_total{outcome="busy"} 1.0\n' in metrics

    play(tmp_path, [m16c(item())], scene)


def test_only_so_many_resolutions_are_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibi.resolver.handlers.MOST_RESOLUTIONS", 2)

    async def scene(running: Running) -> None:
        async def in_flight() -> int:
            metrics = (await running.ask("/-/metrics")).body.decode()
            return int(float(metrics.partition("\nibi_resolver_in_flight ")[2].partition("\n")[0]))

        held = []
        for count in (1, 2):
            held.append(asyncio.create_task(running.ask(f"/{IBI}")))
            for _ in range(500):
                if await in_flight() == count:
                    break
                await asyncio.sleep(0.01)
        refused = await running.ask(f"/{IBI}", "Accept: application/json")
        assert (refused.status, json.loads(refused.body)["kind"]) == (503, "busy")
        assert not any(each.done() for each in held)
        await asyncio.gather(*held)
        assert await in_flight() == 0
        last = await running.ask(f"/{IBI}", "Accept: application/json")
        assert (last.status, json.loads(last.body)["kind"]) == (503, "incomplete")

    play(
        tmp_path, [m16d(b"", lie="silence")], scene, archive_seconds=0.4, overall_seconds=0.5, stale_seconds=0
    )


def test_a_resolver_without_archives_does_not_say_that_nothing_exists(tmp_path: Path) -> None:
    assert answer_of(tmp_path, [], f"/{IBI}").status == 503


@pytest.mark.proves("MSG-29", "RES-13", "ARC-07")
def test_a_removed_item_is_410_with_its_date_and_archive(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, [m16c(DELETED), m16d()], f"/{IBI}", "Accept: application/json")
    problem = json.loads(answer.body)
    assert (answer.status, problem["kind"]) == (410, "deleted")
    assert (problem["about"], problem["timestamp"]) == ([M16C], "2015-01-02T03:04:05Z")


@pytest.mark.proves("RES-08", "RES-10", "RES-13", "ARC-14", "CON-04")
def test_two_originals_are_409_and_both_claimants_are_named(tmp_path: Path) -> None:
    target = f"/{IBI}?ibiurl.requireditemstatus=Original"
    answer = answer_of(tmp_path, [m16c(item()), m16d(item(M16D))], target, "Accept: application/json")
    problem = json.loads(answer.body)
    assert (answer.status, problem["kind"]) == (409, "suspect-originals")
    assert sorted(problem["about"]) == sorted([M16C, M16D])


@pytest.mark.proves("RES-08", "AMB-51", "CON-04")
def test_copies_alone_do_not_satisfy_who_wants_the_original(tmp_path: Path) -> None:
    archives = [m16c(item(state="Copy")), m16d()]
    answer = answer_of(
        tmp_path, archives, f"/{IBI}?ibiurl.requireditemstatus=Original", "Accept: application/json"
    )
    assert (answer.status, json.loads(answer.body)["kind"]) == (404, "no-original")


@pytest.mark.proves("AMB-22", "RES-05", "AMB-51")
@pytest.mark.parametrize(("removal_after", "copy_after"), [(0.0, 0.05), (0.05, 0.0)])
def test_a_copy_outlives_its_removed_original_and_does_not_take_its_place(
    tmp_path: Path, removal_after: float, copy_after: float
) -> None:
    removed = m16c(DELETED, after=removal_after)
    copy = m16d(item(M16D, "Copy"), after=copy_after)

    async def scene(running: Running) -> None:
        answer = await running.ask(f"/{IBI}")
        assert (answer.status, answer.location) == (302, URL)
        demanded = await running.ask(f"/{IBI}?ibiurl.requireditemstatus=Original", "Accept: application/json")
        assert (demanded.status, json.loads(demanded.body)["kind"]) == (404, "no-original")

    play(tmp_path, [removed, copy], scene)


@pytest.mark.proves("URL-16", "AMB-28")
def test_verbs_in_the_query_are_read_without_their_escapes(tmp_path: Path) -> None:
    offered = body(urlkey=KEY) + b"\r\nurl.lastedition.metadata(oai_dc) http://a.example/m"
    archive = m16c(offered, "GetLastEdition", "GetMetadata(oai_dc)")
    query = "ibiurl.verblist=GetLastEdition%2BGetMetadata%28oai%5Fdc%29"
    answer = answer_of(tmp_path, [archive], f"/{IBI}?{query}")
    assert (answer.status, answer.location) == (302, "http://a.example/m")


@pytest.mark.proves("URL-12", "RES-13")
def test_a_missing_translation_is_404_with_the_languages_that_exist(tmp_path: Path) -> None:
    offered = {"url_translation(en)": "http://a.example/en", "url_translation(pt-BR)": "http://a.example/pt"}
    archive = m16c(body(state="Original", **offered), "GetTranslation(fr)")
    answer = answer_of(tmp_path, [archive], f"/{IBI}+(fr)", "Accept: application/json")
    problem = json.loads(answer.body)
    assert (answer.status, problem["kind"]) == (404, "no-translation")
    assert problem["alternates"] == {
        "en": f"http://urlib.net/{IBI}+(en)",
        "pt-BR": f"http://urlib.net/{IBI}+(pt-BR)",
    }
    assert f'<http://urlib.net/{IBI}+(en)>; rel="alternate"; hreflang="en"' in answer.head


@pytest.mark.proves("URL-11", "RES-07", "CON-04")
def test_only_a_bare_translation_depends_on_the_readers_language(tmp_path: Path) -> None:
    offered = {"url_translation(en)": "http://a.example/en", "url_translation(pt)": "http://a.example/pt"}
    archive = m16c(body(urlkey=KEY, **offered), "GetTranslation")
    answer = answer_of(tmp_path, [archive], f"/{IBI}+", "Accept-Language: pt-BR,fr;q=0.8,en;q=0.5,pt;q=0.3")
    assert (answer.status, answer.location) == (302, "http://a.example/pt")
    assert answer.headers["vary"] == "Accept, Accept-Language"


@pytest.mark.proves("RES-02", "RES-03")
def test_archives_learn_neither_the_language_nor_the_required_status(tmp_path: Path) -> None:
    archive = m16c(item())
    headers = (
        "Accept-Language: x-canari7, pt",
        "Cookie: a=b",
        "Referer: http://secret.example/",
        "User-Agent: me",
    )

    async def scene(running: Running) -> None:
        await running.ask(f"/{IBI}", *headers)
        await running.ask(f"/{IBI}?ibiurl.requireditemstatus=Original", *headers)
        await running.ask(f"/-/explain/{IBI}?ibiurl.requireditemstatus=Original", *headers)

    play(tmp_path, [archive], scene)
    assert archive.breaches == []
    first, *others = [request.raw for request in archive.requests("urlRequest")]
    assert others == [first, first]


@pytest.mark.parametrize(
    ("target", "at"),
    [
        ("/8JMKD3MGP0W/35MMLL8", "^"),
        ("/sid.inpe.br/mtc-m18@80/2009/07.21.14.4O", "^"),
        (f"/{IBI}::", "^"),
        (f"/{IBI}?ibiurl.requireditemstatus=Copy", "^"),
        (f"/{IBI}?ibiurl.verblist=GetMetadata+GetLastEdition", "^"),
        ("/%00%0d%0a", "^"),
        ("/..%2f..%2fetc/passwd", "^"),
        ("//evil.example/x", "^"),
        ("/%F0%9F%98%80", "^"),
    ],
)
@pytest.mark.proves("RES-13", "URL-10", "AMB-42", "AMB-48")
def test_what_is_no_persistent_url_is_400_with_a_caret(tmp_path: Path, target: str, at: str) -> None:
    archive = m16c()
    answer = answer_of(tmp_path, [archive], target)
    assert answer.status == 400
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert at in answer.body.decode()
    assert b"Traceback" not in answer.body
    assert archive.received == []


@pytest.mark.proves("WILD-01")
def test_other_wrappers_are_proposals_on_the_alert(tmp_path: Path) -> None:
    target = f"/col/{REP}/doc/paper.pdf"
    answer = answer_of(tmp_path, [m16c()], target, "Accept: application/json")
    assert answer.status == 400
    (proposal,) = json.loads(answer.body)["proposals"]
    assert REP in proposal


@pytest.mark.proves("WILD-01")
@pytest.mark.parametrize("wrapper", ["ibi/", "rep/", "ibi:", "IBI:", "ibi%3A"])
def test_leading_wrappers_of_production_links_are_removed(tmp_path: Path, wrapper: str) -> None:
    assert answer_of(tmp_path, [m16c(item())], f"/{wrapper}{IBI}").location == URL


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "text/plain; charset=utf-8"),
        ("application/json", "application/problem+json"),
        ("application/problem+json;q=0.5, text/html;q=0.4", "application/problem+json"),
        ("text/plain", "text/plain; charset=utf-8"),
        ("", "text/plain; charset=utf-8"),
        ("application/json;q=0", "text/plain; charset=utf-8"),
        (";;;,,,q=q;q=9", "text/plain; charset=utf-8"),
    ],
)
def test_alerts_come_in_the_form_that_is_accepted(tmp_path: Path, accept: str, kind: str) -> None:
    answer = answer_of(tmp_path, [m16c()], f"/{IBI}", f"Accept: {accept}")
    assert answer.headers["content-type"] == kind
    assert "accept" in answer.headers["vary"].lower()
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_405_and_say_which_are_allowed(tmp_path: Path, method: str) -> None:
    archive = m16c(item())
    answer = answer_of(tmp_path, [archive], f"/{IBI}", method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert archive.received == []


def test_a_request_that_a_resolver_sent_is_not_resolved(tmp_path: Path) -> None:
    archive = m16c(item())

    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{IBI}", "CDN-Loop: cloudflare, ibi-resolver; v=1")).status == 508
        assert archive.received == []
        assert (await running.ask(f"/{IBI}", "CDN-Loop: cloudflare")).status == 302

    play(tmp_path, [archive], scene)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("urlib.net", 302),
        ("URLIB.net:8080", 302),
        ("www.urlib.net", 302),
        ("urlib.net.", 302),
        ("127.0.0.1:9", 302),
        ("[::1]:9", 302),
        ("localhost", 302),
        ("evil.example", 421),
        ("urlib.net.evil.example", 421),
        ("evil.example@urlib.net", 400),
    ],
)
def test_only_our_own_hosts_are_answered(tmp_path: Path, host: str, status: int) -> None:
    answers: list[int] = []

    async def scene(running: Running) -> None:
        answers.append((await running.ask(f"/{IBI}", host=host)).status)

    play(tmp_path, [m16c(item())], scene)
    assert answers == [status]


@pytest.mark.parametrize(("characters", "status"), [(8192, 302), (8193, 414), (9000, 414)])
def test_a_very_long_url_is_414(tmp_path: Path, characters: int, status: int) -> None:
    """Its question mark counts, too."""
    url = f"/{IBI}?a="
    assert answer_of(tmp_path, [m16c(item())], url + "x" * (characters - len(url))).status == status


def test_a_click_that_is_refused_at_once_names_its_url_and_is_counted(tmp_path: Path) -> None:
    # Escaped once more, as in a message to an Archive, it is too long.
    long, other = f"/{IBI}?a={'%41' * 2600}", "/archive.example/a/2026/01.02.03.04"

    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{IBI}")).status == 302
        reported = [
            (answer.status, json.loads(answer.body)["instance"], answer.headers.get("retry-after"))
            for answer in [await running.ask(each, "Accept: application/json") for each in (long, other)]
        ]
        assert reported == [
            (414, f"http://urlib.net{long}", None),
            (429, f"http://urlib.net{other}", reported[1][2]),
        ]
        assert 900 < int(reported[1][2] or 0) <= 1000  # a thousandth of a resolution a second
        counted = (await running.ask("/-/metrics")).body.decode().splitlines()
        for outcome in ("too-long", "too-many"):
            assert f'ibi_resolver_resolutions_total{{outcome="{outcome}"}} 1.0' in counted
        assert "ibi_resolver_in_flight 0.0" in counted

    play(tmp_path, [m16c(item())], scene, request_rate=0.001, request_burst=1)


@pytest.mark.proves("RES-02", "MSG-25", "AMB-54")
@pytest.mark.parametrize(
    ("forwarded", "trusted", "expected"),
    [
        ("", [], "127.0.0.1"),
        ("172.16.44.200, 150.163.68.1", ["127.0.0.0/8"], "172.16.44.200 150.163.68.1"),
        ("192.0.2.9", [], "192.0.2.9 127.0.0.1"),
        ("192.0.2.9, 10.1.1.1", ["127.0.0.0/8", "10.0.0.0/8"], "192.0.2.9"),
        ("::ffff:192.0.2.9", ["127.0.0.0/8"], "192.0.2.9"),
        ("2001:DB8::1", ["127.0.0.0/8"], "2001:db8::1"),
        ("192.0.2.8, 010.1.1.1, 192.0.2.9", ["127.0.0.0/8"], "192.0.2.9"),
        ("192.0.2.9:8080", ["127.0.0.0/8"], "192.0.2.9"),
        ("x, 192.0.2.9%0d%0aX: y", [], "127.0.0.1"),
        ("fe80::1%eth0", ["127.0.0.0/8"], "127.0.0.1"),
        ("127.0.0.1", ["127.0.0.0/8"], "127.0.0.1"),
        (", ".join(MANY), ["127.0.0.0/8"], " ".join(MANY[-8:])),
    ],
)
def test_the_list_of_addresses(tmp_path: Path, forwarded: str, trusted: list[str], expected: str) -> None:
    archive = m16c(item())
    networks = [ipaddress.ip_network(text) for text in trusted]
    answer_of(tmp_path, [archive], f"/{IBI}", f"X-Forwarded-For: {forwarded}", trusted=networks)
    (request,) = archive.requests("urlRequest")
    assert request.pairs["clientinformation.ipaddress"] == expected


def test_an_explanation_reports_every_round_and_sends_no_acknowledgment(tmp_path: Path) -> None:
    archives = [m16c(item()), m16d(b"", lie="reset")]
    target = f"/-/explain/{IBI}?ibiurl.requireditemstatus=Original"

    async def scene(running: Running) -> None:
        answer = await running.ask(target, "Accept: application/json")
        assert answer.status == 200
        assert answer.headers["ibi-outcome"] == "302"
        explanation = json.loads(answer.body)
        assert explanation["url"] == f"http://urlib.net/{IBI}?ibiurl.requireditemstatus=Original"
        assert explanation["outcome"] | {"reason": ""} == {
            "status": 302,
            "location": URL,
            "archive": M16C,
            "reason": "",
        }
        assert "not every Archive has answered" in explanation["outcome"]["reason"]
        (only_round,) = explanation["rounds"]
        assert only_round["asked"] == sorted([M16C, M16D])
        statements = {statement["archive"]: statement for statement in only_round["statements"]}
        assert statements[M16C]["pairs"]["url"] == URL
        assert (statements[M16D]["said"], statements[M16C]["said"]) == ("silent", "url list")
        assert KEY not in answer.body.decode()
        text = await running.ask(target)
        assert URL in text.body.decode()
        assert M16D in text.body.decode()
        await running.acknowledged()
        assert running.acknowledgments.delivered == 0

    play(tmp_path, archives, scene)


def test_an_explanation_says_when_a_reader_may_come_back(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, [m16c(), m16d(b"", lie="reset")], f"/-/explain/{IBI}")
    assert (answer.status, answer.headers["ibi-outcome"]) == (200, "503")
    assert int(answer.headers["retry-after"]) > 0


def test_an_explanation_of_a_failure_holds_the_alert(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, [m16c()], f"/-/explain/{IBI}!", "Accept: application/json")
    explanation = json.loads(answer.body)
    assert (answer.status, answer.headers["ibi-outcome"]) == (200, "404")
    assert (explanation["outcome"]["status"], explanation["outcome"]["alert"]["kind"]) == (404, "not-found")
    assert explanation["rounds"][0]["verbs"] == ["GetLastEdition"]


@pytest.mark.parametrize("query", ["info", "json"])
def test_inflections_tell_instead_of_redirecting(tmp_path: Path, query: str) -> None:
    answer = answer_of(tmp_path, [m16c(item())], f"/{IBI}?{query}")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json" if query == "json" else "text/plain")
    assert URL in answer.body.decode()


@pytest.mark.proves("URL-21", "AMB-40", "CON-05")
def test_the_legacy_query_asks_for_the_metadata(tmp_path: Path) -> None:
    offered = {"url_metadata": "http://a.example/m"}
    archive = m16c(body(urlkey=KEY, **offered), "GetMetadata")
    assert answer_of(tmp_path, [archive], f"/{IBI}??").location == "http://a.example/m"


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/", 200, "urlib.net"),
        ("/robots.txt", 200, "User-agent"),
        ("/favicon.ico", 204, ""),
        ("/-/healthz", 200, "ok"),
        ("/-/readyz", 200, "ready"),
        ("/-/nothing", 404, "no such page"),
        ("/sitemap.xml", 404, ""),
        ("/.well-known/nothing", 404, ""),
        ("/-/explain/nothing", 400, "^"),
        ("/-/find?text=", 400, ""),
    ],
)
def test_pages_of_its_own(tmp_path: Path, path: str, status: int, words: str) -> None:
    archive = m16c()
    answer = answer_of(tmp_path, [archive], path)
    assert answer.status == status
    assert words in answer.body.decode()
    assert archive.received == []


def test_about_tells_who_it_is(tmp_path: Path) -> None:
    facts = json.loads(answer_of(tmp_path, [m16c()], "/-/about").body)
    assert facts["service_ibi"] == "urlib.net/www/2014/03.22.01.53"
    assert (facts["role"], facts["address"], facts["archives"]) == ("resolver", "urlib.net", 1)


def test_it_is_not_ready_when_the_registry_is_gone(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        run_in_registry(tmp_path, "DROP TABLE archives")
        assert (await running.ask("/-/readyz")).status == 503
        assert (await running.ask("/-/healthz")).status == 200

    play(tmp_path, [], scene)


def test_a_pasted_text_leads_to_the_persistent_url_in_it(tmp_path: Path) -> None:
    target = "/-/find?text=(see+http%3A%2F%2Furlib.net%2F8JMKD3MGP8W%2F35MMLL8%21%3A(oai_dc)+there)"
    answer = answer_of(tmp_path, [], target)
    assert (answer.status, answer.location) == (303, f"/{IBI}!:(oai_dc)")


def test_a_name_that_is_one_typing_error_from_a_known_one_is_named_without_a_further_query(
    tmp_path: Path,
) -> None:
    archive, typed = m16c(item()), f"{IBI[:-2]}{IBI[-1]}{IBI[-2]}2"

    async def scene(running: Running) -> None:
        wrong = IBI[:-1]
        before = await running.ask(f"/{wrong}", "Accept: application/json")
        assert "near" not in json.loads(before.body)  # nothing is known yet
        assert (await running.ask(f"/{IBI}")).status == 302
        received = len(archive.received)
        for _ in range(2):  # the second time from the negative cache
            answer = await running.ask(f"/{wrong}9", "Accept: application/json")
            assert (answer.status, json.loads(answer.body)["near"]) == (404, [IBI])
        assert len(archive.received) == received + 1
        far = await running.ask(f"/{typed}", "Accept: application/json")
        assert "near" not in json.loads(far.body)

    play(tmp_path, [archive], scene)


@pytest.mark.proves("GEN-05", "ARC-12")
def test_an_item_that_has_moved_is_found_where_it_is_now(tmp_path: Path) -> None:
    """Its name tells of another host; nothing is remembered that the Archives do not say."""
    old, new = m16c(item()), m16d()

    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{IBI}")).location == URL
        old.script, new.script = (
            new.script,
            {(IBI.lower(), (), ""): Behaviour(item(M16D, url="http://new.example/x"))},
        )
        assert (await running.ask(f"/{IBI}")).location == "http://new.example/x"

    play(tmp_path, [old, new], scene)


def test_archives_that_come_and_go_are_seen_at_once(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{IBI}")).status == 302
        (archive,) = running.registry.archives()
        ibi = archive.service_ibi
        running.registry.exclude(ibi, running.registry.open_change(ibi))
        assert (await running.ask(f"/{IBI}")).status == 503

    play(tmp_path, [m16c(item())], scene)


def test_hosts_that_an_archive_was_bound_to_are_kept(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        (archive,) = running.registry.archives()
        running.registry.register(archive.service_ibi, "12345678901234567890", ["elsewhere.example"])
        assert (await running.ask(f"/{IBI}")).status == 502
        running.registry.register(archive.service_ibi, "12345678901234567890", ["mtc-m16c.sid.inpe.br"])
        assert (await running.ask(f"/{IBI}")).status == 302

    play(tmp_path, [m16c(item())], scene)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET /-/healthz HTTP/1.0\r\n\r\n",
        b"GET http://urlib.net/-/healthz HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
    ],
)
def test_old_and_odd_but_right_requests_are_answered(tmp_path: Path, raw: bytes) -> None:
    async def scene(running: Running) -> None:
        assert (await running.say(raw)).status == 200

    play(tmp_path, [], scene)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /\xff\xfe HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"GET /x?\xff HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"GET x HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"GET /8JMKD3MGP8W/35MMLL8+(\xe9) HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"CONNECT urlib.net:80 HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"GET /-/find?text=%ff%00%0d%0aX:y HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"GET /-/find?text=" + b"&" * 300 + b" HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"GET /8JMKD3MGP8W/35MMLL8?"
        + b"a&" * 300
        + b" HTTP/1.1\r\nHost: urlib.net\r\nConnection: close\r\n\r\n",
        b"GET /8JMKD3MGP8W/35MMLL8?servicesubject=" + b"a&" * 300 + b" HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\nAccept: \xff;q=\xff\r\nAccept-Language: \xff\r\nConnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_hostile_requests_get_a_plain_no_and_never_500(tmp_path: Path, raw: bytes) -> None:
    async def scene(running: Running) -> None:
        answer = await running.say(raw)
        assert 200 <= answer.status < 500
        assert b"Traceback" not in answer.body
        assert "\r\nx: y" not in answer.head.lower()

    play(tmp_path, [], scene)
