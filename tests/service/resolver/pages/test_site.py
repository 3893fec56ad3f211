"""What people and programs find at a resolver besides redirects: status, alerts, items by other protocols."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

import pytest
from openapi_schema_validator import OAS31Validator

import ibi
from ibi.app.resolver import site_pages
from ibi.resolver.model.alert import AlertKind
from support.checks.description import PATH, document_faults
from support.resolver.one_item import (
    DELETED,
    IBI,
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
from support.resolver.running_resolver import Answer, Running
from support.scripted_archive import Behaviour, ScriptedArchive
from support.web.html_page import Page

if TYPE_CHECKING:
    from pathlib import Path

AS_JSON = "Accept: application/json"
AS_PAGE = "Accept: text/html"
IN_PORTUGUESE = "Accept-Language: pt-BR"


def decoded(answer: Answer) -> Any:
    return json.loads(answer.body)


def silent(name: str = "m16d") -> ScriptedArchive:
    return ScriptedArchive(name, "mtc-m16d.sid.inpe.br", M16D, manner=Behaviour(lie="reset"))


# --- how the network stands ----------------------------------------------------------------------------------------


def test_the_status_counts_which_were_heard_and_which_were_silent_and_claims_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.resolver.members.status.STATUS_SECONDS", 0.0)  # each request makes it anew
    seen: list[Any] = []

    async def scene(running: Running) -> None:
        seen.append(decoded(await running.ask("/-/status", AS_JSON)))
        await running.ask(f"/{IBI}?ibiurl.requireditemstatus=Original")
        seen.append(decoded(await running.ask("/-/status", AS_JSON)))

    play(tmp_path, [m16c(item()), silent()], scene, now=lambda: 1_400_010_000.0)
    before, after = seen
    assert before["archives"] == {
        "included": 2, "confirmed": 2, "heard": 0, "silent": 0, "not_asked": 2, "asleep": 0,
    }  # fmt: skip
    assert (after["archives"]["heard"], after["archives"]["silent"]) == (1, 1)
    by_name = {member["service_ibi"]: member for member in after["members"]}
    assert by_name[M16C]["standing"] == "heard"
    assert by_name[M16D]["standing"] == "silent"
    assert by_name[M16D]["why"]
    assert "why" not in by_name[M16C]
    assert after["line"].endswith("Responding in the last 15 minutes: 1. Not responding: 1.")


def test_an_archive_that_said_that_it_is_there_counts_as_heard_without_being_asked(tmp_path: Path) -> None:
    archive = m16c(item())
    answer = answer_of(tmp_path, [archive], "/-/status", AS_JSON, now=lambda: 1_400_000_600.0)
    [member] = decoded(answer)["members"]
    assert (member["standing"], member["last_heard"]) == ("heard", "2014-05-13T16:53:20Z")
    assert archive.received == []


def test_the_status_is_told_as_text_and_page_too_and_on_the_front_page(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        text = await running.ask("/-/status")
        line = text.body.decode().splitlines()[0]
        assert line.startswith("Archives that take part: 1.")
        assert text.headers["cache-control"] == "public, max-age=5"
        page = Page((await running.ask("/-/status", AS_PAGE)).body)
        assert {line, M16C, "not queried lately"} <= page.words
        home = await running.ask("/", AS_PAGE, IN_PORTUGUESE)
        assert "/-/status" in Page(home.body).links
        assert line in (await running.ask("/")).body.decode()

    play(tmp_path, [m16c(item())], scene, pages=site_pages())


def test_a_resolver_without_archives_says_so(tmp_path: Path) -> None:
    status = decoded(answer_of(tmp_path, [], "/-/status", AS_JSON))
    assert status["line"] == "No Archive takes part in this resolver at the moment."
    assert status["members"] == []


def test_about_is_a_page_for_browsers_and_json_for_programs(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        answer = await running.ask("/-/about", "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
        assert answer.headers["content-type"].startswith("text/html")
        text = answer.body.decode()
        front = (await running.ask("/", AS_PAGE)).body.decode()
        for words in (
            "Identificador com Base na Internet", "ABNT NBR 16066", "System for IBI Generation",
            "Sistema para resolução de IBI",
        ):  # fmt: skip
            assert words in text
            assert words in front
        assert "urlib.net/www/2014/03.22.01.53" in text
        assert "/-/about" in Page(front.encode()).links
        assert {"1", f"ibi {ibi.__version__}", "hardened: narrower readings, likely holders first"} <= Page(
            answer.body
        ).words
        assert all(f'id="{kind}"' in text for kind in AlertKind)  # the type of a problem leads there
        portuguese = await running.ask("/-/about", AS_PAGE, "Accept-Language: pt-BR")
        assert "O que significam os seus alertas" in Page(portuguese.body).words
        plain = (await running.ask("/-/about")).body
        for accept in ("*/*", "application/json", "text/plain"):
            answer = await running.ask("/-/about", f"Accept: {accept}")
            assert (answer.headers["content-type"], answer.body) == ("application/json", plain)
        assert decoded(answer)["archives"] == 1

    play(tmp_path, [m16c(item())], scene, pages=site_pages())


def is_readable(text: str) -> bool:
    """Whether JSON stands in lines, with its letters as they are."""
    return text.count("\n") > 5 and "\\u" not in text


@pytest.mark.parametrize("target", [f"/{IBI}!", f"/-/explain/{IBI}", "/-/status", "/-/about", PATH])
def test_what_programs_get_can_be_read_by_people(tmp_path: Path, target: str) -> None:
    answer = answer_of(tmp_path, [silent()], target, AS_JSON, IN_PORTUGUESE, pages=site_pages())
    text = answer.body.decode()
    assert is_readable(text)
    assert text.isascii() == (target in {"/-/about", PATH}), "nothing of it shows how letters are written"


# --- explanations --------------------------------------------------------------------------------------------------


def test_an_explanation_shows_what_led_to_the_next_round(tmp_path: Path) -> None:
    later = "sid.inpe.br/mtc-m18@80/2010/01.01.00.00"
    archive = m16c(body(state="Original", ibi_nextedition=f"{{rep {later}}}"), "GetLastEdition")
    archive.script[later, ("GetLastEdition",), ""] = Behaviour(
        body(ibi=f"{{rep {later}}}", state="Original", url_lastedition=URL)
    )

    async def scene(running: Running) -> None:
        page = Page((await running.ask(f"/-/explain/{IBI}!", AS_PAGE)).body)
        assert {f"ibi.nextedition rep {later}", f"url.lastedition {URL}"} <= page.words
        assert not any("archiveservice" in words for words in page.words)
        text = (await running.ask(f"/-/explain/{IBI}!")).body.decode()
        assert f"ibi.nextedition rep {later}\n" in text

    play(tmp_path, [archive], scene, pages=site_pages())


def test_an_explanation_shows_the_farthest_edition_where_that_is_asked_for_next(tmp_path: Path) -> None:
    following, farthest = (f"sid.inpe.br/mtc-m18@80/201{number}/01.01.00.00" for number in (0, 1))
    answer = body(state="Original", ibi_nextedition=f"{{rep {following}}}")
    archive = m16c(answer + f" edition.farthest {{rep {farthest}}}".encode(), "GetLastEdition")
    archive.script[farthest, ("GetLastEdition",), ""] = Behaviour(
        body(ibi=f"{{rep {farthest}}}", state="Original", url_lastedition=URL)
    )

    async def scene(running: Running) -> None:
        page = Page((await running.ask(f"/-/explain/{IBI}!", AS_PAGE)).body)
        assert f"edition.farthest rep {farthest}" in page.words
        text = (await running.ask(f"/-/explain/{IBI}!")).body.decode()
        assert f"edition.farthest rep {farthest}\n" in text
        assert f"Round 2: {farthest} GetLastEdition\n" in text

    play(tmp_path, [archive], scene, pages=site_pages())


# --- alerts --------------------------------------------------------------------------------------------------------


@pytest.mark.proves("RES-13")
def test_an_alert_says_what_was_understood_and_offers_ways_on(tmp_path: Path) -> None:
    archive = m16c(body(state="Original", url=URL), "GetTranslation(fr)")
    problem = decoded(answer_of(tmp_path, [archive], f"/{IBI}+(fr)", AS_JSON))
    assert problem["kind"] == "no-translation"
    assert problem["asked"] == {
        "ibi": IBI, "named_on": problem["asked"]["named_on"], "file": None, "file_list": False,
        "relation": [{"what": "translation", "parameter": "fr"}], "original_required": False,
    }  # fmt: skip
    ways = {way["url"] for way in problem["ways"]}
    assert {
        f"http://urlib.net/{IBI}",
        f"http://urlib.net/{IBI}+",
        f"http://urlib.net/-/explain/{IBI}+(fr)",
    } <= ways
    assert problem["responsible"] == [{"service_ibi": M16C, "mail": "admin@archive.example"}]


@pytest.mark.proves("RES-08", "RES-13")
def test_where_no_original_is_offered_a_copy_is_named_as_a_way_on(tmp_path: Path) -> None:
    target = f"/{IBI}?ibiurl.requireditemstatus=Original"
    problem = decoded(answer_of(tmp_path, [m16c(item(state="Copy"))], target, AS_JSON))
    assert problem["kind"] == "no-original"
    assert {"title": "Any copy of it", "url": f"http://urlib.net/{IBI}"} in problem["ways"]
    assert problem["asked"]["original_required"]


def test_a_missing_file_leads_to_the_item_and_to_the_list_of_its_files(tmp_path: Path) -> None:
    archive = m16c(body(state="Original"), path="/no.pdf")
    problem = decoded(answer_of(tmp_path, [archive], f"/{IBI}/no.pdf?x=1", AS_JSON))
    assert (problem["kind"], problem["asked"]["file"]) == ("not-found", "no.pdf")
    ways = [way["url"] for way in problem["ways"]]
    assert ways[:2] == [
        f"http://urlib.net/{IBI}", f"http://urlib.net/{IBI}?ibiurl.verblist=GetFileList",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("Accept-Language: en", "It leads to {name}, which no Archive that has answered knows."),
        (IN_PORTUGUESE, "Ele leva a {name}, que nenhum dos Arquivos que responderam conhece."),
    ],
)
def test_an_edition_that_no_archive_knows_is_named_to_programs_and_on_the_page(
    tmp_path: Path, language: str, sentence: str
) -> None:
    later = "sid.inpe.br/mtc-m18@80/2010/01.01.00.00"
    archive = m16c(body(state="Original", ibi_nextedition=f"{{rep {later}}}"), "GetLastEdition")

    async def scene(running: Running) -> None:
        problem = decoded(await running.ask(f"/{IBI}!", AS_JSON, language))
        assert (problem["status"], problem["kind"], problem["known"]) == (404, "not-found", True)
        assert (problem["ibi"], problem["leads_to"]) == (IBI, later)
        page = await running.ask(f"/{IBI}!", AS_PAGE, language)
        assert page.status == 404
        assert sentence.format(name=later) in Page(page.body).words

    play(tmp_path, [archive, m16d()], scene, pages=site_pages())


@pytest.mark.parametrize(
    ("target", "held", "kind", "known"),
    [
        (f"/{IBI}", m16c(), "not-found", False),
        (f"/{IBI}/no.pdf", m16c(body(state="Original"), path="/no.pdf"), "not-found", True),
        (f"/{IBI}:(x)", m16c(body(state="Original"), "GetMetadata(x)"), "not-found", True),
        (f"/{IBI}+(fr)", m16c(body(state="Original"), "GetTranslation(fr)"), "no-translation", True),
        (f"/{IBI}?ibiurl.requireditemstatus=Original", m16c(item(state="Copy")), "no-original", True),
    ],
)
def test_programs_are_told_whether_an_item_that_is_not_found_is_known(
    tmp_path: Path,
    target: str,
    held: ScriptedArchive,
    kind: str,
    known: bool,
) -> None:
    problem = decoded(answer_of(tmp_path, [held], target, AS_JSON))
    assert (problem["status"], problem["kind"], problem["known"]) == (404, kind, known)


def test_an_alert_that_is_about_no_item_does_not_say_whether_it_is_known(tmp_path: Path) -> None:
    problem = decoded(answer_of(tmp_path, [m16c()], "/-/nothing", AS_JSON))
    assert (problem["kind"], "known" in problem) == ("no-such-page", False)


def test_a_name_from_the_future_is_perhaps_a_slip_and_so_is_one_that_no_calendar_has(tmp_path: Path) -> None:
    for label, words in (
        ("sid.inpe.br/mtc-m18@80/2072/07.21.14.43", "its date, 2072-07-21T14:43:00Z, has not come yet"),
        ("sid.inpe.br/mtc-m18@80/2009/13.21.14.43", "no calendar has this date"),
    ):
        folder = tmp_path / label[-20:].replace("/", "")
        folder.mkdir()
        problem = decoded(answer_of(folder, [m16c()], f"/{label}", AS_JSON))
        assert (problem["status"], problem["slips"]) == (404, [words])


def test_an_unknown_good_name_is_called_no_slip(tmp_path: Path) -> None:
    problem = decoded(answer_of(tmp_path, [m16c(), m16d()], f"/{REP}", AS_JSON))
    assert problem["kind"] == "not-found"
    assert "slips" not in problem
    assert problem["offer_nothing"] == 2


def test_the_archive_whose_name_begins_like_the_item_is_told_to_be_responsible(tmp_path: Path) -> None:
    service = "sid.inpe.br/mtc-m18@80/2008/01.01.00.00"
    archive = ScriptedArchive("m18", "mtc-m18.sid.inpe.br", service)
    problem = decoded(answer_of(tmp_path, [archive], f"/{REP}", AS_JSON))
    assert problem["responsible"] == [{"service_ibi": service, "mail": "admin@archive.example"}]


def test_a_report_is_started_for_the_reader_and_goes_to_the_right_administrator(tmp_path: Path) -> None:
    problem = decoded(answer_of(tmp_path, [m16c(DELETED)], f"/{IBI}", AS_JSON, admin="root@resolver.example"))
    letter = urlsplit(problem["report"])
    assert (letter.scheme, letter.path) == ("mailto", "admin@archive.example,root@resolver.example")
    words = parse_qs(letter.query)
    assert words["subject"] == [f"This item was removed: {IBI}"]
    assert f"http://urlib.net/{IBI}" in words["body"][0]
    assert f"http://mtc-m16c.sid.inpe.br/-/item/{IBI}" in {way["url"] for way in problem["ways"]}


def test_no_unknown_administrator_is_named(tmp_path: Path) -> None:
    problem = decoded(answer_of(tmp_path, [m16c()], f"/{IBI}", AS_JSON, admin='"><b>@x'))
    assert "report" not in problem


def test_an_alert_says_the_same_as_page_and_text(tmp_path: Path) -> None:
    archive = m16c(body(state="Original", url=URL), "GetTranslation(fr)")

    async def scene(running: Running) -> None:
        answer = await running.ask(f"/{IBI}+(fr)", AS_PAGE, IN_PORTUGUESE)
        page = Page(answer.body)
        assert {f"/{IBI}", f"/{IBI}+", f"/-/explain/{IBI}+(fr)", "/", "/-/status"} <= page.links.keys()
        assert any(link.startswith("mailto:admin@archive.example,root@r.example?") for link in page.links)
        text = (await running.ask(f"/{IBI}+(fr)")).body.decode()
        assert f"The item itself: http://urlib.net/{IBI}\n" in text
        assert f"It was understood as: {IBI}, the translation into: fr" in text
        assert f"Person in charge of {M16C}: admin@archive.example" in text

    play(tmp_path, [archive], scene, pages=site_pages(), admin="root@r.example")


@pytest.mark.parametrize("target", [f"/{IBI}", f"/{IBI}!", "/nothing", "/-/nothing", f"/-/explain/{IBI}"])
def test_no_page_of_an_alert_is_a_dead_end(tmp_path: Path, target: str) -> None:
    async def scene(running: Running) -> None:
        page = Page((await running.ask(target, AS_PAGE)).body)
        assert {"/"} < page.links.keys()

    play(tmp_path, [silent(), m16c()], scene, pages=site_pages())


# --- in the manner of other systems --------------------------------------------------------------------------------


def values(answer: Answer) -> dict[str, str]:
    return {each["type"]: each["data"]["value"] for each in decoded(answer)["values"]}


def test_a_handle_client_learns_where_an_item_is_and_what_its_archive_said(tmp_path: Path) -> None:
    archive = m16c(item())
    answer = answer_of(tmp_path, [archive], f"/-/api/handles/{IBI}")
    assert (answer.status, decoded(answer)["responseCode"], decoded(answer)["handle"]) == (200, 1, IBI)
    assert answer.headers["content-type"] == "application/json"
    found = values(answer)
    assert found["URL"] == found["digitalObjectLocation"] == URL
    assert (found["IBI_STATE"], found["IBI_ARCHIVE"]) == ("Original", M16C)
    assert found["dateModified"] == decoded(answer)["values"][0]["timestamp"] == "2009-07-21T14:43:31Z"
    assert [each["index"] for each in decoded(answer)["values"]][:3] == [1, 2, 3]
    assert archive.acknowledgments == []


def test_a_handle_client_may_name_types_and_indexes_and_want_it_pretty(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        path = f"/-/api/handles/{REP}"
        for query, types in (
            ("type=URL", {"URL"}),
            ("type=URL&index=4", {"URL", "IBI_STATE"}),
            ("index=1&index=11", {"URL", "digitalObjectType"}),
        ):
            assert values(await running.ask(f"{path}?{query}")).keys() == types
        nothing = await running.ask(f"{path}?type=EMAIL")
        assert (nothing.status, decoded(nothing)["responseCode"], decoded(nothing)["values"]) == (
            200,
            200,
            [],
        )
        assert b"\n  " in (await running.ask(f"{path}?pretty")).body
        assert b"\n  " not in (await running.ask(path)).body
        odd = await running.ask(f"{path}?index=x")
        assert (odd.status, decoded(odd)["responseCode"]) == (400, 2)

    archive = m16c(item())
    archive.script[(REP, (), "")] = Behaviour(item())
    play(tmp_path, [archive], scene)


@pytest.mark.proves("RES-13")
def test_a_handle_client_gets_what_is_unknown_what_was_removed_and_what_is_uncertain(
    tmp_path: Path,
) -> None:
    cases = (([m16c()], 404, 100), ([m16c(DELETED)], 200, 1), ([m16c(), silent()], 503, 2))
    for number, (archives, status, code) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        answer = answer_of(folder, archives, f"/-/api/handles/{IBI}")
        assert (answer.status, decoded(answer)["responseCode"]) == (status, code)
        if code == 1:
            assert values(answer)["IBI_STATE"] == "Deleted"
            assert "URL" not in values(answer)
        if status == 503:
            assert answer.headers["retry-after"] == "30"
    bad = answer_of(tmp_path, [], "/-/api/handles/10.1000%2F182", AS_PAGE)
    assert (bad.status, decoded(bad)["responseCode"]) == (400, 2)


def places(answer: Answer) -> list[dict[str, str]]:
    """The places that a record lists, in order."""
    written = ET.fromstring(values(answer)["10320/loc"])  # noqa: S314 - we wrote it
    return [dict(each.attrib) for each in written]


COPY = "http://copies.example/x?y=1&z=''"


def test_a_handle_client_that_wants_all_places_gets_the_original_and_every_copy(tmp_path: Path) -> None:
    archives = [m16c(item()), m16d(item(M16D, "Copy", COPY))]

    async def scene(running: Running) -> None:
        usual = await running.ask(f"/-/api/handles/{IBI}")
        assert "10320/loc" not in values(usual)
        before = [len(each.questions) for each in archives]
        for _ in range(2):  # also where the holder is known, all are asked
            answer = await running.ask(f"/-/api/handles/{IBI}?all")
            assert (answer.status, values(answer)["URL"], values(answer)["IBI_STATE"]) == (
                200,
                URL,
                "Original",
            )
            assert places(answer) == [
                {"id": "0", "href": URL, "weight": "1", "state": "Original", "archive": M16C},
                {"id": "1", "href": COPY, "weight": "0", "state": "Copy", "archive": M16D},
            ]
            assert "ibi-incomplete" not in answer.headers
        assert [len(each.questions) - count for each, count in zip(archives, before, strict=True)] == [2, 2]
        assert values(await running.ask(f"/-/api/handles/{IBI}?all&type=10320/loc")).keys() == {"10320/loc"}
        assert "10320/loc" not in values(await running.ask(f"/-/api/handles/{IBI}?all=false"))

    play(tmp_path, archives, scene)


def test_all_places_are_those_where_a_reader_may_be_sent_and_who_was_silent_is_told(tmp_path: Path) -> None:
    cases: list[tuple[list[ScriptedArchive], int, list[str], str]] = [
        ([m16c(DELETED), m16d(item(M16D, "Copy", COPY))], 200, [COPY], ""),
        ([m16c(item()), m16d(item(M16D, "Copy", "http://127.0.0.1/x"))], 200, [URL], ""),
        ([m16c(item()), m16d(item(M16C, "Copy", COPY))], 200, [URL], "1 of 2"),  # in another's name
        ([m16c(item(state="Copy")), silent()], 200, [URL], "1 of 2"),
        ([m16c(item()), m16d(item(M16D, url=COPY))], 409, [], ""),
        ([m16c(), silent()], 503, [], ""),
        ([m16c(), m16d()], 404, [], ""),
    ]
    for number, (archives, status, urls, incomplete) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        answer = answer_of(folder, archives, f"/-/api/handles/{IBI}?all", allow_private_archives=False)
        assert (number, answer.status) == (number, status)
        assert answer.headers.get("ibi-incomplete", "") == incomplete
        if status == 200:
            assert [each["href"] for each in places(answer)] == urls
            assert values(answer)["URL"] == urls[0]


def test_a_timegate_leads_to_the_archive_that_was_chosen(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        gate = await running.ask(f"/-/timegate/{IBI}", "Accept-Datetime: Thu, 31 May 2007 20:35:00 GMT")
        assert (gate.status, gate.location) == (302, f"http://mtc-m16c.sid.inpe.br/-/timegate/{IBI}")
        assert gate.headers["vary"] == "accept-datetime"
        for whole in (
            f"http://urlib.net/{IBI}",
            f"https://URLIB.net:80/{IBI}!",
            f"http%3A%2F%2Furlib.net%2F{IBI}",
        ):
            assert (await running.ask(f"/-/timegate/{whole}")).location == gate.location
        assert (await running.ask(f"/-/timegate/http://far.example/{IBI}")).status == 400
        times = await running.ask(f"/-/timemap/{IBI}")
        assert (times.status, times.location) == (303, f"http://mtc-m16c.sid.inpe.br/-/timemap/{IBI}")
        assert (await running.ask("/-/timemap/nothing", AS_JSON)).status == 400

    play(tmp_path, [m16c(item())], scene)


def test_an_unknown_item_has_no_timemap_and_an_alert_reports_it(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, [m16c()], f"/-/timemap/{IBI}", AS_JSON)
    assert (answer.status, decoded(answer)["kind"]) == (404, "not-found")


# --- well-known ----------------------------------------------------------------------------------------------------


def test_security_txt_names_the_administrator_and_is_absent_without_one(tmp_path: Path) -> None:
    now = 1_795_000_000.0
    answer = answer_of(tmp_path, [], "/.well-known/security.txt", admin="root@r.example", now=lambda: now)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    fields = dict(line.split(": ", 1) for line in answer.body.decode().splitlines())
    assert fields["Contact"] == "mailto:root@r.example"
    left = datetime.fromisoformat(fields["Expires"]).timestamp() - now
    assert 170 * 86400 < left < 365 * 86400
    for odd in ("", "nobody", "a@b\r\nX: y"):
        folder = tmp_path / odd.encode().hex()
        folder.mkdir(exist_ok=True)
        assert answer_of(folder, [], "/.well-known/security.txt", admin=odd).status == 404


def test_the_api_catalog_leads_to_descriptions_that_are_there(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        answer = await running.ask("/.well-known/api-catalog")
        assert answer.headers["content-type"].startswith("application/linkset+json")
        assert answer.headers["link"] == '<http://urlib.net/.well-known/api-catalog>; rel="api-catalog"'
        catalog, interface = decoded(answer)["linkset"]
        assert catalog["item"] == [{"href": interface["anchor"]}]
        for relation in ("service-desc", "service-meta", "status"):
            [link] = interface[relation]
            there = await running.ask(urlsplit(link["href"]).path, AS_JSON)
            assert (there.status, there.headers["content-type"]) == (200, link["type"])

    play(tmp_path, [], scene)


def test_robots_may_follow_persistent_urls_and_leave_the_rest_alone(tmp_path: Path) -> None:
    from urllib.robotparser import RobotFileParser

    answer = answer_of(tmp_path, [], "/robots.txt")
    rules = RobotFileParser()
    rules.parse(answer.body.decode().splitlines())
    allowed = [f"/{IBI}", "/", "/-/status", "/.well-known/api-catalog"]
    assert [path for path in allowed if not rules.can_fetch("any", path)] == []
    assert [path for path in (f"/-/explain/{IBI}", "/-/find?text=x") if rules.can_fetch("any", path)] == []
    assert answer.headers["cache-control"] == "public, max-age=86400"


# --- the description -----------------------------------------------------------------------------------------------


def test_the_interface_is_described_validly_and_what_is_answered_has_that_shape(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        document = decoded(await running.ask("/-/api/openapi.json"))
        assert document_faults(document) == []
        for path, name in (
            ("/-/status", "status"), ("/-/about", "about"), (f"/-/explain/{IBI}", "explanation"),
            (f"/-/api/handles/{IBI}", "handle"), (f"/-/api/handles/{REP}", "handle"), ("/nothing", "problem"),
            (f"/{REP}", "problem"),
        ):  # fmt: skip
            schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
            answer = decoded(await running.ask(path, AS_JSON))
            assert [str(error) for error in OAS31Validator(schema).iter_errors(answer)] == []
        described = {path.replace("{ibi}", IBI) for path in document["paths"]}
        for path in described - {"/-/api/keys", "/-/register", "/-/registry"}:
            answer = await running.ask(path)
            pattern = path.replace(IBI, "{ibi}")
            assert str(answer.status) in document["paths"][pattern]["get"]["responses"], path

    play(tmp_path, [m16c(item())], scene)


def test_an_explanation_tells_what_is_promised(tmp_path: Path) -> None:
    explanation = decoded(answer_of(tmp_path, [m16c(item())], f"/{IBI}?json"))
    assert explanation["persistence"].startswith("This name is never changed")
    assert explanation["outcome"]["location"] == URL
