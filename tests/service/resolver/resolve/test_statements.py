"""What an alert tells of what each Archive said: over real sockets, and of very many."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from ibi.app.resolver import site_pages
from ibi.errors import IbiError, PeerGarbled, PeerSilent, QueryNotSent, ResponseNotRead
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.resolver.model.alert import Alert, AlertKind, Coverage, in_english
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse
from ibi.resolver.model.statements import WORDS, silence
from ibi.resolver.pages.alert_details import MOST_NAMED, with_responses
from ibi.resolver.pages.explanation import Explanation
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolver import RoundTrace, Trace
from support.resolver.one_item import DELETED, IBI, M16C, M16D, URL, body, item, m16c, m16d, play
from support.resolver.resolution import archive_of
from support.resolver.running_resolver import Running
from support.scripted_archive import Behaviour, ScriptedArchive
from support.web.html_page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


pytestmark = pytest.mark.proves("RES-13")

AS_JSON, AS_PAGE = "Accept: application/json", "Accept: text/html"
ORIGINAL = f"/{IBI}?ibiurl.requireditemstatus=Original"
THIRD = "sid.inpe.br/mtc-m20@80/2010/01.02.03.04"
URL_LIST = UrlList({"url": "http://a.example/x", "state": "Copy"})


def third(**conduct: Any) -> ScriptedArchive:
    return ScriptedArchive("m20", "mtc-m20.sid.inpe.br", THIRD, manner=Behaviour(**conduct))


def alert(data: Path, archives: Sequence[ScriptedArchive], target: str, **settings: Any) -> dict[str, Any]:
    """The alert as JSON; the page and the text of it must name the same Archives, and tell no key."""
    problems: list[dict[str, Any]] = []

    async def scene(running: Running) -> None:
        problems.append(json.loads((await running.ask(target, AS_JSON)).body))
        page = Page((await running.ask(target, AS_PAGE)).body)
        text = (await running.ask(target)).body.decode()
        for each in problems[0]["statements"]:
            assert each["archive"] in page.words
            assert f"{each['archive']}: {each['sentence']}" in text
            assert any(each["sentence"] in word for word in page.words)
        assert "1427244889" not in text + " ".join(page.words) + json.dumps(problems)

    play(data, archives, scene, pages=site_pages(), **settings)
    return problems[0]


def statements(problem: dict[str, Any]) -> dict[str, str]:
    return {each["archive"]: each["says"] for each in problem["statements"]}


# --- of few Archives, each is named --------------------------------------------------------------------------------


def test_of_two_originals_each_claimant_is_named_and_so_are_who_has_a_copy_and_who_has_nothing(
    tmp_path: Path,
) -> None:
    other = "sid.inpe.br/mtc-m21@80/2010/01.02.03.04"
    ignorant = ScriptedArchive("m21", "mtc-m21.sid.inpe.br", other)
    archives = [m16c(item()), m16d(item(M16D)), third(body=item(THIRD, "Copy")), ignorant]
    problem = alert(tmp_path, archives, ORIGINAL)
    assert problem["kind"] == "suspect-originals"
    assert statements(problem) == {
        M16C: "original", M16D: "original", THIRD: "copy", other: "nothing known",
    }  # fmt: skip
    assert [each["says"] for each in problem["statements"]][-1] == "nothing known"
    assert "others" not in problem


def test_nothing_found_tells_who_gave_no_answer_and_why(tmp_path: Path) -> None:
    problem = alert(tmp_path, [m16c(), third(lie="reset")], f"/{IBI}!", policy="strict")
    assert problem["kind"] == "incomplete"
    assert statements(problem) == {M16C: "nothing known", THIRD: "silent"}
    assert problem["archives"]["silent"] == [
        {"service_ibi": each["archive"], "why": each["why"]} for each in problem["statements"][:1]
    ]


def test_an_archive_that_is_switched_off_for_a_while_is_named_once(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{IBI}")).status == 302
        holder = next(each for each in running.registry.archives() if each.name == M16C)
        running.registry.exclude(holder.service_ibi, running.registry.open_change(holder.service_ibi))
        problem = json.loads((await running.ask(f"/{IBI}", AS_JSON)).body)
        assert problem["kind"] == "incomplete"
        assert statements(problem) == {M16C: "not asked", M16D: "nothing known"}
        assert len(problem["statements"]) == 2
        sentence = "it was not queried: it is switched off for now"
        assert (await running.ask(f"/{IBI}")).body.decode().count(sentence) == 1
        page = Page((await running.ask(f"/{IBI}", AS_PAGE)).body)
        assert " ".join(page.words).count(sentence) == 1

    play(tmp_path, [m16c(item()), m16d()], scene, pages=site_pages())


def test_a_removal_is_told_as_what_its_archive_said(tmp_path: Path) -> None:
    problem = alert(tmp_path, [m16c(DELETED), m16d()], f"/{IBI}", policy="strict")
    assert (problem["kind"], statements(problem)) == ("deleted", {M16C: "removed", M16D: "nothing known"})


@pytest.mark.parametrize(
    "answer", [item(THIRD), body(ibi=f"{{rep {THIRD}}}", state="Original", url=URL), b"<script>alert(1)</script>"],
    ids=["of another Archive", "about another item", "no pair list"],
)  # fmt: skip
def test_an_answer_that_is_not_believed_is_told_as_none_also_where_it_is_explained(
    tmp_path: Path, answer: bytes
) -> None:
    async def scene(running: Running) -> None:
        problem = json.loads((await running.ask(f"/{IBI}", AS_JSON)).body)
        assert statements(problem) == {M16C: "garbled"}
        page = await running.ask(f"/{IBI}", AS_PAGE)
        assert page.body.count(b"<script") == page.body.count(b'<script type="module" src="/-/static/')
        words = Page((await running.ask(f"/-/explain/{IBI}", AS_PAGE)).body).words
        explained = {
            f"{word[:1].lower()}{word[1:]}" for word in words
        }  # a sentence begins with a capital there
        assert any(word.startswith(f"{WORDS['garbled']}: ") for word in explained)
        assert WORDS["original"] not in explained

    play(tmp_path, [m16c(answer)], scene, pages=site_pages())


def test_an_explanation_offers_to_ask_every_archive_who_holds_an_item(tmp_path: Path) -> None:
    held = body(ibi=f"{{rep {IBI}}}", state="Original", url=URL)

    async def scene(running: Running) -> None:
        await running.ask(f"/{IBI}", AS_PAGE)  # from now on, the holder is asked first
        page = (await running.ask(f"/-/explain/{IBI}", AS_PAGE)).body.decode()
        link = re.search(r'href="(/-/explain/[^"]+)"', page)
        assert link is not None
        rounds = json.loads((await running.ask(link[1], AS_JSON)).body)["rounds"]
        assert {each["archive"] for each in rounds[0]["statements"]} == {M16C, M16D}
        assert f'href="{link[1]}"' not in (await running.ask(link[1], AS_PAGE)).body.decode()

    play(tmp_path, [m16c(held), m16d()], scene, pages=site_pages())


def test_cached_statements_are_reported_alike_when_no_archive_has_to_be_asked_again(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        first, again = [(await running.ask(f"/{IBI}", AS_PAGE)).body for _ in range(2)]
        assert first == again
        assert {M16C, M16D, WORDS["nothing known"]} <= Page(again).words
        problem = json.loads((await running.ask(f"/{IBI}", AS_JSON)).body)
        assert statements(problem) == {M16C: "nothing known", M16D: "nothing known"}

    archives = [m16c(), m16d()]
    play(tmp_path, archives, scene, pages=site_pages())
    assert [len(each.requests("urlRequest")) for each in archives] == [1, 1]


def test_what_is_said_in_each_round_is_told_by_round(tmp_path: Path) -> None:
    later = "sid.inpe.br/mtc-m18@80/2012/01.02.03.04"
    archive = m16c(body(state="Original", ibi_nextedition=f"{{rep {later}}}"), "GetLastEdition")
    problem = alert(tmp_path, [archive], f"/{IBI}!")
    assert [(each["round"], each["says"]) for each in problem["statements"]] == [
        (1, "original"),
        (2, "nothing known"),
    ]


def test_an_archive_that_sleeps_is_told_to_have_been_asked_nothing(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        problem: dict[str, Any] = {}
        for _ in range(100):  # failures do not count while this machine is late itself
            problem = json.loads((await running.ask(f"/{IBI}", AS_JSON)).body)
            if statements(problem)[THIRD] != "silent":
                break
        assert statements(problem) == {M16C: "nothing known", M16D: "nothing known", THIRD: "not asked"}
        assert problem["kind"] == "incomplete"

    archives = [m16c(), m16d(), third(lie="reset")]
    play(tmp_path, archives, scene, request_rate=1000, request_burst=1000)


# --- an alert that is not certain tells what it knows --------------------------------------------------------------


def test_a_known_location_is_offered_although_an_archive_is_silent(tmp_path: Path) -> None:
    offers = body(state="Original", **{"url_translation(en)": URL})
    problem = alert(tmp_path, [m16c(offers, "GetTranslation(fr)"), third(lie="reset")], f"/{IBI}+(fr)")
    assert (problem["kind"], problem["status"]) == ("incomplete", 503)
    assert problem["alternates"] == {"en": f"http://urlib.net/{IBI}+(en)"}
    assert "The item is known" in problem["detail"]
    assert statements(problem) == {M16C: "original", THIRD: "silent"}


# --- of very many, the telling ones --------------------------------------------------------------------------------


def alert_and_trace(ignorant: int, silent: int, holding: int) -> tuple[Alert, Trace]:
    """The Archives that hold the item speak last."""
    round_trace = RoundTrace(
        UrlRequest(("192.0.2.1",), parse_ibi(M16C), verbs=VerbList(())), "everybody", 0.0
    )
    round_trace.responses += [ArchiveResponse(archive_of(M16C), NOT_KNOWN, at=0.001)] * ignorant
    why = PeerSilent("no whole answer within {seconds:g} s", seconds=3)
    for number in range(silent):
        hung = archive_of(f"example.org/silent/2020/01.01.{number // 60:02}.{number % 60:02}")
        round_trace.responses.append(ArchiveResponse(hung, None, why, 3.0))
    for number in range(holding):
        holder = archive_of(f"example.org/holder/2020/01.01.00.{number:02}")
        round_trace.responses.append(ArchiveResponse(holder, URL_LIST, at=0.009))
    round_trace.queried = [each.archive for each in round_trace.responses[ignorant : ignorant + silent]]
    trace = Trace("http://urlib.net/x", Policy(), original_required=False)
    trace.rounds.append(round_trace)
    coverage = Coverage(ignorant + silent + holding, tuple((each.name, why) for each in round_trace.queried))
    return Alert(AlertKind.INCOMPLETE, "http://urlib.net/x", coverage=coverage), trace


def with_statements(alert: Alert, trace: Trace) -> Alert:
    return with_responses(alert, Explanation(alert, trace))


def test_of_very_many_archives_the_telling_ones_are_named_and_all_others_counted_for_what_they_said() -> None:
    problem = json.loads(with_statements(*alert_and_trace(412, 100, 3)).problem_json(in_english))
    named = [each["says"] for each in problem["statements"]]
    assert named == ["copy"] * 3 + ["silent"] * (MOST_NAMED - 3)
    assert [(each["says"], each["number"]) for each in problem["others"]] == [
        ("silent", 73),
        ("nothing known", 412),
    ]
    assert len(problem["archives"]["silent"]) == 100
    text = with_statements(*alert_and_trace(412, 100, 3)).text(in_english).decode()
    assert "Others: 412: it does not know the item\n" in text
    assert (
        "Archives: 412: it does not know the item\n"
        in with_statements(*alert_and_trace(412, 0, 0)).text(in_english).decode()
    )


@pytest.mark.parametrize(("ignorant", "named"), [(MOST_NAMED - 1, MOST_NAMED), (MOST_NAMED, 1)])
def test_who_knows_nothing_is_named_as_long_as_all_can_be(ignorant: int, named: int) -> None:
    statements = with_statements(*alert_and_trace(ignorant, 1, 0)).statements
    assert statements is not None
    counted = sum(number for _, number in statements.rounds[0].others)
    assert (statements.named, statements.named + counted) == (named, ignorant + 1)


def test_who_was_asked_and_not_waited_for_is_not_told_to_know_nothing() -> None:
    value, trace = alert_and_trace(1, 0, 0)
    trace.rounds[0].queried = [archive_of(M16C), archive_of(M16D)]
    problem = json.loads(with_statements(value, trace).problem_json(in_english))
    assert statements(problem) == {M16D: "not waited for", M16C: "nothing known"}


def test_an_archive_with_two_responses_does_not_stand_for_one_that_was_not_waited_for() -> None:
    _, trace = alert_and_trace(1, 0, 0)
    trace.rounds[0].responses *= 2  # as one whose older answer was used when it was silent
    trace.rounds[0].queried = [archive_of(M16C), archive_of(M16D)]
    assert Explanation(Alert(AlertKind.NOT_FOUND), trace).rounds[0].late == [M16D]


def test_of_very_many_who_said_so_a_moment_ago_all_are_counted() -> None:
    value, trace = alert_and_trace(0, 0, 0)
    trace.rounds[0].negatives = [archive_of(M16C)] * (MOST_NAMED + 1)
    problem = json.loads(with_statements(value, trace).problem_json(in_english))
    assert problem["statements"] == []
    assert [(each["says"], each["number"]) for each in problem["others"]] == [
        ("nothing known", MOST_NAMED + 1)
    ]


def test_of_very_many_rounds_the_last_ones_are_told_by_their_numbers() -> None:
    value, trace = alert_and_trace(2, 0, 0)
    trace.rounds *= 11
    problem = json.loads(with_statements(value, trace).problem_json(in_english))
    assert {each["round"] for each in problem["statements"]} == {*range(4, 12)}


def test_another_resolver_that_was_silent_is_told_too() -> None:
    value, trace = alert_and_trace(1, 0, 0)
    why = QueryNotSent("it did not respond lately, so it is not asked for a while")
    upstream = Alert(value.kind, value.url, coverage=Coverage(2, (("http://urlib.net/", why),)))
    problem = json.loads(with_statements(upstream, trace).problem_json(in_english))
    assert statements(problem) == {"http://urlib.net/": "not asked", M16C: "nothing known"}
    assert silence(ResponseNotRead("too many large answers are coming in at once")) == "silent"


def test_an_alert_that_came_of_no_question_stays_as_it_is() -> None:
    _, trace = alert_and_trace(1, 0, 0)
    busy = Alert(AlertKind.BUSY, "http://urlib.net/x")
    assert with_statements(busy, trace) is busy


@pytest.mark.parametrize(
    ("why", "what"),
    [
        (PeerSilent("no whole answer within 3 s"), "silent"),
        (QueryNotSent("too many questions to it were waiting here"), "not asked"),
        (PeerGarbled("the answer is not text/plain"), "garbled"),
        (IbiError("the answer is about another item"), "garbled"),
    ],
)
def test_each_kind_of_silence_has_its_words(why: IbiError, what: str) -> None:
    assert silence(why) == what
    assert what in WORDS
