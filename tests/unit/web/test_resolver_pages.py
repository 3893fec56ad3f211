"""The pages of a resolver, in both languages."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from ibi.errors import IbiError, ParseError, PeerSilent
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.extensions.tombstone import Tombstone
from ibi.protocol.messages import ArchiveTitles, UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import ITEM, StepKind
from ibi.protocol.url_list import Entry, UrlList, WantedEntry
from ibi.protocol.verb_list import VerbList
from ibi.resolver.members.status import MemberStatus, NetworkStatus
from ibi.resolver.model.alert import STATUS, Alert, AlertKind, Coverage, in_english
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse
from ibi.resolver.model.statements import ArchiveStatement, RoundStatements, Statements
from ibi.resolver.model.suggestion import Absence, Responsible
from ibi.resolver.pages.alert_details import MOST_NAMED, MOST_SHOWN_ROUNDS
from ibi.resolver.pages.explanation import Explanation
from ibi.resolver.pages.page_language import PageLanguage
from ibi.resolver.pages.site import RegistrationPage
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect
from ibi.resolver.resolve.resolver import RoundTrace, Trace
from ibi.runtime.i18n import say
from ibi.web import resolution_pages, resolver_pages
from ibi.web.assets import assets
from ibi.web.resolution_pages import LOOKS, MOST_OF_A_KIND, MOST_OPEN
from ibi.web.resolver_pages import SPARK_HEIGHT, SPARK_WIDTH, WRAPPER_NAMES, spark
from support.resolver.resolution import archive_of
from support.web.html_page import Page
from support.web.unnamed import OF_A_RESOLVER, alert, explanation, find, home

FIRST = "archive.example/first/2026/03.02.10.15"
ARCHIVE, OTHER = "archive.example/first/2026/02.01.09.00", "archive.example/second/2026/02.01.09.30"
NEXT = "archive.example/first/2026/09.14.16.40"
URL = f"http://resolver.example/{FIRST}"
MOST_WITH_SHEETS = 30_000
"""A page and its two sheets, before compression."""
MOST_BYTES = 45_000
"""The style sheet fits beside it into a page of 60 kB."""

pytestmark = pytest.mark.proves("RES-13")


def _fault(path: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        PersistentURL.parse(path)
    return caught.value


@pytest.mark.parametrize("kind", list(AlertKind))
def test_every_alert_has_a_page_in_both_languages(kind: AlertKind) -> None:
    value = Alert(kind, url=URL, ibi=FIRST, problem=_fault("/x") if kind is AlertKind.BAD_URL else None)
    english, portuguese = Page(alert(value, "en")), Page(alert(value, "pt-BR"))
    for page, language in ((english, "en"), (portuguese, "pt-BR")):
        assert f"{STATUS[kind]} · {say(LOOKS[kind].word, language)}" in page.words
    assert english.heading != portuguese.heading
    assert (english.language, portuguese.language) == ("en", "pt-BR")


def test_a_fault_is_shown_with_a_caret_below_it_and_a_proposal_to_click() -> None:
    path = "/archive.example/first/2O26/03.02.10.15"
    value = Alert(AlertKind.BAD_URL, url=path, problem=_fault(path), proposals=(URL,))
    body = alert(value, "pt-BR")
    page = Page(body)
    assert b'<span class="fault">                       ^^^^</span>' in body
    assert URL in page.links
    assert {"O ano tem pelo menos quatro dígitos", "Abrir o link corrigido", URL} <= page.words
    assert page.forms == ["/-/find"]


def test_an_alert_tells_who_was_silent_and_when_to_try_again() -> None:
    value = Alert(
        AlertKind.INCOMPLETE,
        URL,
        FIRST,
        Coverage(3, ((OTHER, PeerSilent("no whole answer within 3 s")),)),
        (ARCHIVE,),
    )
    page = Page(alert(value, "en"))
    assert {
        OTHER,
        ARCHIVE,
        "no whole answer within 3 s",
        "3 Archives",
        "2",
        "Please try again in 30 seconds.",
    } <= page.words


def test_a_removed_item_keeps_its_date() -> None:
    value = Alert(AlertKind.DELETED, URL, FIRST, timestamp="2026-04-02T08:00:00Z")
    assert any(word.startswith("2 de abril de 2026") for word in Page(alert(value, "pt-BR")).words)


def test_a_missing_translation_offers_the_languages_that_exist() -> None:
    value = Alert(
        AlertKind.NO_TRANSLATION, URL, FIRST, alternates=(("en", f"{URL}+(en)"), ("pt-BR", f"{URL}+(pt-BR)"))
    )
    links = Page(alert(value, "pt-BR")).links
    assert links[f"{URL}+(pt-BR)"].startswith("português (Brasil)")


def test_alerts_where_spelling_does_not_matter_have_no_search_box() -> None:
    assert Page(alert(Alert(AlertKind.SUSPECT_ORIGINALS, URL, FIRST), "en")).forms == []
    assert Page(alert(Alert(AlertKind.NOT_FOUND, URL, FIRST), "en")).forms == ["/-/find"]


def test_what_others_wrote_is_never_markup() -> None:
    evil = '"><script>alert(1)</script>'
    why = PeerSilent("{evil}", evil=evil)
    value = Alert(
        AlertKind.NO_TRANSLATION, evil, evil, Coverage(1, ((evil, why),)), (evil,), evil,
        ((evil, "javascript:alert(1)"),),
        proposals=("javascript:alert(2)",),
    )  # fmt: skip
    for body in (alert(value, "en"), find(evil, "en")):
        assert b"<script" not in body
        assert not [link for link in Page(body).links if link.startswith("javascript")]


def _alert(one_round: RoundStatements, kind: AlertKind = AlertKind.INCOMPLETE, count: int = 3) -> Alert:
    return Alert(kind, URL, FIRST, Coverage(count), statements=Statements((one_round,)))


def test_an_alert_lists_what_each_archive_said_in_the_words_of_explanations_and_in_both_languages() -> None:
    late = ArchiveStatement(OTHER, "other.example", "silent", PeerSilent("no whole answer within 3 s"))
    one_round = RoundStatements(
        1, FIRST, (), "", (ArchiveStatement(ARCHIVE, "a.example", "url list"), late), ()
    )
    english, portuguese = (Page(alert(_alert(one_round), language)) for language in ("en", "pt-BR"))
    assert {"a.example", "other.example", "it knows the item"} <= english.words
    assert "no answer: no whole answer within 3 s" in english.words
    assert any(word.startswith("sem resposta: ") for word in portuguese.words)
    assert "conhece o item" in portuguese.words


@pytest.mark.parametrize(("count", "is_open"), [(MOST_OPEN - 1, True), (MOST_OPEN, False)])
def test_a_short_list_is_seen_at_once_and_a_long_one_unfolds(count: int, *, is_open: bool) -> None:
    named = tuple(ArchiveStatement(f"{ARCHIVE}.{n}", "", "copy") for n in range(count))
    body = alert(_alert(RoundStatements(1, FIRST, (), "", named, ())), "en")
    assert (b"<details open>" in body) == is_open


def test_of_very_many_archives_the_page_stays_small_whatever_they_said() -> None:
    evil = '"><img src=x onerror=alert(1)>' + "&'\"" * 3000
    statement = ArchiveStatement("a" * 9_000, "b" * 9_000, "silent", PeerSilent("{evil}", evil=evil))
    one_round = RoundStatements(1, evil, (evil,) * 9, evil, (), (("nothing known", 9_999), ("silent", 9_999)))
    rounds = (one_round._replace(named=(statement,) * MOST_NAMED), *(one_round,) * (MOST_SHOWN_ROUNDS - 1))
    silent = ((OTHER, PeerSilent("no whole answer within 3 s")),) * 10_000
    value = Alert(
        AlertKind.INCOMPLETE,
        URL,
        FIRST,
        Coverage(10_030, silent),
        (ARCHIVE,) * 10_000,
        statements=Statements(rounds),
    )
    body = alert(value, "en")
    assert len(body) < MOST_BYTES
    assert b"<img" not in body
    assert {"Others: 9,999", "it does not know the item", "9,990"} <= Page(body).words


def _trace() -> Trace:
    first, other = archive_of(ARCHIVE, "archive.example:80"), archive_of(OTHER, "other.example")
    round_trace = RoundTrace(
        UrlRequest(("192.0.2.1",), parse_ibi(FIRST), verbs=VerbList(("GetLastEdition",))), "hint", 0.0
    )
    round_trace.queried = [first, other, archive_of("x.example/y/2026/01.01.00.00")]
    round_trace.responses = [
        ArchiveResponse(first, UrlList({"url.lastedition": "http://a/b", "urlx": "no"}), at=0.004),
        ArchiveResponse(other, None, PeerSilent("no whole answer within 3 s"), at=3.0),
    ]
    trace = Trace(URL, Policy(), original_required=False, in_full=True)
    trace.rounds.append(round_trace)
    return trace


def test_an_explanation_of_a_redirect_tells_each_round_and_the_reason() -> None:
    trace = _trace()
    chosen = archive_of(ARCHIVE)
    found = WantedEntry(ITEM, Entry())
    decision = Redirect("http://a/b", chosen, found, None, UrlList({}))
    page = Page(explanation(Explanation(decision, trace), "pt-BR"))
    assert "http://a/b" in page.links
    assert f"Rodada 1: quem conhece, de {FIRST}: a edição mais recente?" in page.words
    assert {"Conhece o item", "esta resposta decidiu", "4 ms", "Não foi esperado"} <= page.words
    assert "Foi a primeira resposta que atende à requisição." in page.words
    assert "url.lastedition http://a/b" in page.words
    assert not [word for word in page.words if "urlx" in word]


def test_an_explanation_of_an_alert_tells_what_the_reader_would_be_told() -> None:
    page = Page(explanation(Explanation(Alert(AlertKind.DELETED, URL, FIRST), _trace()), "en"))
    assert "410 · This item was removed" in page.words


def _long_trace(count: int) -> Trace:
    """Two rounds: the first leads to another item, and so many Archives do not know the first one."""
    chosen = archive_of(ARCHIVE, "archive.example")
    ignorant = [archive_of(f"x.example/a{number}/2026/01.01.00.00") for number in range(count)]
    first = RoundTrace(
        UrlRequest(("192.0.2.1",), parse_ibi(FIRST), verbs=VerbList(("GetLastEdition",))), "hint", 0.0
    )
    first.queried = [chosen, *ignorant]
    first.responses = [
        *(ArchiveResponse(each, NOT_KNOWN, at=0.001) for each in ignorant),
        ArchiveResponse(chosen, UrlList({"ibi.lastedition": ("rep", NEXT), "ibi": ("rep", FIRST)}), at=0.002),
    ]
    last = RoundTrace(UrlRequest(("192.0.2.1",), parse_ibi(NEXT)), "prefix", 1.25)
    last.queried = [chosen]
    last.responses = [ArchiveResponse(chosen, UrlList({"url": "http://a/b", "state": "Original"}), at=1.253)]
    trace = Trace(f"{URL}!", Policy(), original_required=False, in_full=True)
    trace.rounds += [first, last]
    return trace


def _explained(count: int, language: str = "en") -> bytes:
    decision = Redirect("http://a/b", archive_of(ARCHIVE), WantedEntry(ITEM, Entry()), None, UrlList({}))
    return explanation(Explanation(decision, _long_trace(count)), language)


def test_an_explanation_marks_the_deciding_answer_of_each_round_and_carries_its_value_on() -> None:
    body = _explained(2)
    assert body.count(b'class="decided"') == 2
    page = Page(body)
    assert {"Therefore", "the next question is about", NEXT, f"ibi.lastedition rep {NEXT}"} <= page.words
    assert {f"Round 2: where is {NEXT}?", "state Original", "url http://a/b", "! asks for"} <= page.words
    # The decision rests on one pair; the others are folded.
    assert body.index(b"ibi.lastedition rep") < body.index(b"The whole answer") < body.index(b"<code>ibi rep")


def test_an_answer_that_names_another_next_item_decided_nothing() -> None:
    decision = Redirect("http://a/b", archive_of(ARCHIVE), WantedEntry(ITEM, Entry()), None, UrlList({}))
    trace, elsewhere = _long_trace(0), UrlList({"ibi.lastedition": ("rep", OTHER), "ibi": ("rep", FIRST)})
    trace.rounds[0].responses.insert(
        0, ArchiveResponse(archive_of(OTHER, "other.example"), elsewhere, at=0.0)
    )
    decided = explanation(Explanation(decision, trace), "en").decode().split('class="decided"')
    assert [re.findall("(?:archive|other)[.]example", part)[0] for part in decided[1:]] == [
        "archive.example"
    ] * 2


@pytest.mark.parametrize(
    ("language", "sentence"), [("en", "It began after 1,250 ms."), ("pt-BR", "Começou depois de 1.250 ms.")]
)
def test_an_explanation_tells_when_each_round_after_the_first_one_began(language: str, sentence: str) -> None:
    body = _explained(2, language).decode()
    assert body.count(sentence.partition("1")[0]) == 1
    assert sentence in body


@pytest.mark.parametrize(("count", "is_folded"), [(MOST_OF_A_KIND, False), (MOST_OF_A_KIND + 1, True)])
def test_many_answers_of_one_kind_are_folded(count: int, *, is_folded: bool) -> None:
    words = Page(_explained(count)).words
    assert (f"{count} others do not know the item" in words) == is_folded
    assert ("x.example/a0/2026/01.01.00.00" in words) or is_folded
    assert (
        f"{MOST_OF_A_KIND + 1} outros não conhecem o item"
        in Page(_explained(MOST_OF_A_KIND + 1, "pt-BR")).words
    )


def test_an_archive_that_is_away_is_named_with_since_when_and_whom_to_write_to() -> None:
    away = Responsible(
        ARCHIVE, "archive.example", "ann@archive.example", ArchiveTitles("New Vale", "Vale <b>Novo</b>")
    )
    silent = ((ARCHIVE, PeerSilent("no whole answer within 3 s")),)
    absence = Absence(away, "2026-11-21T10:00:00Z", "2026-11-22T10:00:00Z")
    value = Alert(AlertKind.INCOMPLETE, URL, FIRST, Coverage(3, silent), (ARCHIVE,), absences=(absence,))
    body = alert(value, "pt-BR")
    assert b"<b>Novo" not in body
    page = Page(body)
    assert "Vale <b>Novo</b>" in page.words
    assert any(word.startswith("desligado desde 21 de novembro de 2026") for word in page.words)
    assert any(word.startswith("22 de novembro de 2026") for word in page.words)
    assert page.links["mailto:ann@archive.example"] == "ann@archive.example"


def test_two_claims_stand_side_by_side_with_the_first_one_marked() -> None:
    known = {
        ARCHIVE: Responsible(
            ARCHIVE, "archive.example", "ann@archive.example", ArchiveTitles("Vale"), "2026-03-12T14:08:00Z"
        )
    }
    value = Alert(
        AlertKind.SUSPECT_ORIGINALS, URL, FIRST, Coverage(2), (ARCHIVE, OTHER), first_holder=ARCHIVE
    )
    page = Page(resolution_pages.alert(value, known, PageLanguage("en"), OF_A_RESOLVER))
    assert {"Vale", "first seen with the original", "since March 12, 2026", ARCHIVE, OTHER} <= page.words
    assert "mailto:ann@archive.example" in page.links
    assert "Claims it" not in page.words


@pytest.mark.parametrize(
    ("second", "marked"),
    [
        ("2026-03-14T14:08:00Z", ARCHIVE),
        ("2026-03-11T14:08:00Z", OTHER),
        ("2026-03-12T14:08:00Z", ""),
        ("", ARCHIVE),
    ],
)
def test_a_claim_is_shown_with_the_moment_when_it_was_first_seen(second: str, marked: str) -> None:
    claims = ((ARCHIVE, "2026-03-12T14:08:00Z"), (OTHER, second))
    value = Alert(
        AlertKind.SUSPECT_ORIGINALS, URL, FIRST, Coverage(2), (ARCHIVE, OTHER), claimed_since=claims
    )
    body = alert(value, "en").decode()
    words = Page(body.encode()).words
    assert any(word.startswith("since March 12, 2026") for word in words)
    assert ("seen now for the first time" in words) == (second == "")
    cards = [card for card in body.split("<section")[1:] if "claim-" in card]
    assert [name for card, name in zip(cards, (ARCHIVE, OTHER), strict=True) if "first seen" in card] == (
        [marked] if marked else []
    )
    since = json.loads(value.problem_json(in_english))["claimed_since"]
    assert list(since) == ([ARCHIVE, OTHER] if second else [ARCHIVE])


def test_names_one_typing_error_away_are_linked_and_keep_the_language() -> None:
    value = Alert(AlertKind.NOT_FOUND, URL, FIRST, Coverage(2), near=(NEXT,))
    page = Page(resolution_pages.alert(value, {}, PageLanguage("pt-BR", chosen=True), OF_A_RESOLVER))
    assert "Você quis dizer um destes?" in page.words
    assert f"/-/in/pt-BR/{NEXT}" in page.links
    assert json.loads(value.problem_json(in_english))["near"] == [NEXT]


def test_a_removed_item_is_shown_with_its_reason_and_leads_to_its_replacement() -> None:
    tombstone = Tombstone(
        "Cadastro <b>de nascentes", "Reis, Tiago", "2024", "A pedido.", IBIForms.parse(f"rep {NEXT}")
    )
    value = Alert(
        AlertKind.DELETED, URL, FIRST, Coverage(2), (ARCHIVE,), "2026-06-04T10:00:00Z", tombstone=tombstone
    )
    page = Page(alert(value, "en"))
    assert {"Cadastro <b>de nascentes", "Reis, Tiago · 2024", "A pedido.", "Reason"} <= page.words
    assert page.links[f"/{NEXT}"].endswith(" Open the replacement")
    assert b"Open the replacement" not in alert(
        replace(value, tombstone=tombstone._replace(replacement=None)), "en"
    )
    facts = json.loads(value.problem_json(in_english))["removed"]
    assert facts == {
        "title": "Cadastro <b>de nascentes", "people": "Reis, Tiago", "date": "2024", "reason": "A pedido.",
        "replacement": NEXT,
    }  # fmt: skip
    assert "It is replaced by " + NEXT in value.text(in_english).decode()


@pytest.mark.parametrize("language", ["en", "pt-BR"])
def test_every_page_of_a_resolver_is_light(language: str) -> None:
    sheets = sum(len(assets()[name].body) for name in ("style.css", "resolver.css"))
    members = tuple(
        MemberStatus(
            f"x.example/a{number}/2026/01.01.00.00", f"a{number}.example", "heard", True, 0.0, 1.0, False, None,
            ArchiveTitles(f"Instituto de Pesquisas número {number}"),
        )
        for number in range(40)
    )  # fmt: skip
    network = NetworkStatus(1.0, 0.0, members)
    reader = PageLanguage(language)
    form = RegistrationPage(
        dict.fromkeys(("service_ibi", "address", "mail", "title", "title_pt", "name", "hosts"), "x" * 40)
    )
    pages = {
        "front": home(network, language),
        "find": find(f"see {FIRST}!", language),
        "explanation": _explained(40, language),
        "registration": resolver_pages.registration(form, reader, OF_A_RESOLVER),
        **{
            str(kind): alert(Alert(kind, url=URL, ibi=FIRST, problem=_fault("/x")), language)
            for kind in AlertKind
        },
    }
    heavy = {
        name: len(body) + sheets for name, body in pages.items() if len(body) + sheets > MOST_WITH_SHEETS
    }
    assert heavy == {}


@pytest.mark.parametrize(
    ("problem", "suggestion"),
    [
        (None, ""),
        (PeerSilent("it is silent"), ""),
        (ParseError("Host", "a", "not good"), ""),
        (ParseError("Host", "a", "not good", suggestion="spelled-right.example"), "spelled-right.example"),
    ],
)
def test_a_form_for_registration_shows_the_nearest_valid_spelling(
    problem: IbiError | None, suggestion: str
) -> None:
    fields = dict.fromkeys(("service_ibi", "address", "mail", "title", "title_pt", "name", "hosts"), "")
    form = RegistrationPage(fields, problem=problem, field="address" if problem else "")
    text = resolver_pages.registration(form, PageLanguage("en"), OF_A_RESOLVER).decode()
    assert ("spelled-right.example" in text) == bool(suggestion)
    assert "None" not in text


def test_a_front_page_with_archives_has_examples_that_lead_somewhere_and_names_who_is_silent() -> None:
    members = (
        MemberStatus(
            OTHER, "b.example", "silent", True, 0.0, None, True, None, ArchiveTitles("Museum", "Museu <i>")
        ),
        MemberStatus(ARCHIVE, "a.example", "heard", True, 0.0, 1.0, False, None),
    )
    page = Page(home(NetworkStatus(1.0, 0.0, members), PageLanguage("en", chosen=True)))
    assert f"/-/find?text={ARCHIVE.replace('/', '/')}&lang=en" in page.links
    assert page.links[f"/{ARCHIVE}:"] == "…/02.01.09.00:"
    assert (page.links[f"/{OTHER}"], page.links[f"/{ARCHIVE}"]) == ("Museum", "a.example")
    assert Page(home(NetworkStatus(1.0, 0.0, members), "pt-BR")).links[f"/{OTHER}"] == "Museu <i>"
    assert "not responding" in page.words
    assert not [link for link in page.links if "+(" in link]


def test_the_front_page_has_a_box_and_explains_every_mark() -> None:
    page = Page(home(NetworkStatus(0.0, 0.0), "pt-BR"))
    assert page.forms == ["/-/find"]
    assert {"!", "+", "+(pt)", ":", "a edição mais recente", "os metadados"} <= page.words
    assert {kind.value[0] for kind in StepKind} <= page.words


@pytest.mark.proves("WILD-01")
def test_a_found_identifier_is_shown_with_its_link_date_and_wrappers() -> None:
    page = Page(find(f"(ver http://urlib.net/rep/{FIRST}!:(oai_dc)).", "pt-BR"))
    assert page.links[f"/{FIRST}!:(oai_dc)"] == f"{FIRST}!:(oai_dc)"
    assert f"/-/explain/{FIRST}!:(oai_dc)" in page.links
    assert {"nome de repositório uniforme", "o endereço de um resolvedor", "pontuação"} <= page.words
    assert any(word.startswith("2 de março de 2026") for word in page.words)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("LK47B6W/362SFKH", "IBIp, the opaque form"),
        ("6qtX3pFwXQZ3r59YCT/GUQnU", "opaque identifier from before the standard"),
        (FIRST, "uniform repository name"),
    ],
)
def test_each_form_of_identifier_is_named(text: str, form: str) -> None:
    assert form in Page(find(text, "en")).words


def test_a_text_without_identifier_says_so_and_keeps_the_text() -> None:
    body = find("nothing to see", "en")
    assert b'value="nothing to see"' in body
    assert "There is no IBI in this text" in Page(body).words


def test_a_slip_of_the_hand_is_answered_with_the_likely_name() -> None:
    assert (
        "/sid.inpe.br/mtc-m21b/2016/11.18.17.34"
        in Page(find("sid.inpe.br/mtc-m21b/20l6/11.18.17.34", "en")).links
    )


def test_an_empty_box_is_no_mistake() -> None:
    page = Page(find("  ", "en"))
    assert page.heading == "Find an identifier"
    assert page.forms == ["/-/find"]


@pytest.mark.parametrize(
    "text",
    [
        f"upn:LCETB2:{FIRST}", f"ibi:{FIRST}", f"http://a.example/col/{FIRST}/doc/x.pdf", f"../{FIRST}",
        f"http://x.example/archive.cgi/{FIRST}", f"{FIRST}-TDI", f"&lt;{FIRST}&gt;", f"{FIRST}#page=3",
        f"https://translate.example/w?u=http://urlib.net/{FIRST}", FIRST.replace("/", "%2F"), f"{FIRST}\u200b",
        FIRST.replace("/2026", "  /2026"), FIRST.replace("/03.02", "\n/03.02"), f"x http:/{FIRST}",
    ],
)  # fmt: skip
def test_whatever_stands_around_an_identifier_has_a_name_for_people(text: str) -> None:
    unwrapped = unwrap(text)
    assert {kind for kind, _ in unwrapped.wrappers} <= WRAPPER_NAMES.keys()
    assert str(unwrapped.ibi) in Page(find(text, "pt-BR")).words


def test_an_edition_that_no_archive_knows_is_named_on_the_page() -> None:
    value = Alert(AlertKind.NOT_FOUND, url=URL, ibi=FIRST, known=True, leads_to="archive.example/next/2026")
    for language in ("en", "pt-BR"):
        assert b"archive.example/next/2026" in alert(value, language)


@pytest.mark.parametrize(
    ("hours", "line", "failed"),
    [
        ([], "", []),
        ([(0, 0)], f"0,{SPARK_HEIGHT - 2}", []),
        ([(4, 0)], "0,2", []),
        ([(0, 1), (4, 0)], f"0,{SPARK_HEIGHT - 2} {SPARK_WIDTH},2", [(0, SPARK_HEIGHT - 2)]),
        ([(4, 0), (2, 0), (4, 2)], f"0,2 {SPARK_WIDTH // 2},{SPARK_HEIGHT // 2} {SPARK_WIDTH},2", [(SPARK_WIDTH, 2)]),
    ],
)  # fmt: skip
def test_the_answers_of_the_last_hours_are_a_line_from_edge_to_edge(
    hours: list[tuple[int, int]], line: str, failed: list[tuple[int, int]]
) -> None:
    assert spark(hours) == (line, failed)
