"""The pages about items over HTTP: what people see, what caches keep, and that nothing hostile gets out."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import html5lib
import pytest

from ibi.archive.store.item_changes import edit
from ibi.identifier.forms import parse_name
from ibi.web.assets import assets
from support.archive.archive_fixture import Answer, Served
from support.web.html_page import Page
from support.web.landing_fixture import (
    BARE,
    CONTACT,
    COPY,
    EMBARGOED,
    EVIL,
    FIRST,
    FRENCH,
    GONE,
    HIDDEN,
    HOSTILE,
    IBIP,
    ITEM,
    LICENCE,
    MANY,
    NEXT,
    ORCID,
    PORTUGUESE,
    RESOLVER,
    landing_archive,
    tell_more,
)

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ABSENT = "a.example/b/1999/01.01.00.00"
PAGES = [
    "/",
    *(
        f"/-/item/{name}"
        for name in (FIRST, ITEM, PORTUGUESE, GONE, EMBARGOED, HIDDEN, COPY, HOSTILE, MANY, BARE)
    ),
    *(f"/-/{page}/{name}" for page in ("files", "metadata") for name in (ITEM, HOSTILE)),
    f"/-/files/{HIDDEN}",
    f"/-/files/{EMBARGOED}",
    f"/-/metadata/{GONE}",
    f"/-/metadata/{BARE}",
    f"/-/item/{ABSENT}",
    "/nonsense%3Cscript%3E",
    "/-/qr/nonsense",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with landing_archive(tmp_path_factory.mktemp("archive")) as made:
        tell_more(made.archive)
        yield made


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Served]:
    """One for a test that changes it, which no other test may see."""
    with landing_archive(tmp_path / "archive") as made:
        tell_more(made.archive)
        yield made


def test_no_page_leaves_anything_to_the_garbage_collector(served: Served) -> None:
    """It stops all readers while it looks, so a service all but turns it off."""
    for page in PAGES:
        served.get(page)  # templates are read
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for page in PAGES:
            served.get(f"{page}?lang=en")  # in the same language, but another page in the cache
        gc.collect()
        ours = [type(each) for each in gc.garbage if type(each).__module__.startswith("ibi.")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert ours == []


def ask(served: Served, target: str, language: str = "en", **headers: str) -> Answer:
    return served.get(target, **{"accept": BROWSER, "accept_language": language, **headers})


def tree(body: bytes) -> Any:
    """The page as a strict parser reads it: it takes no mistake."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return parser.parse(body.decode())


def words(page: Page) -> str:
    return " | ".join(sorted(page.words))


# What people see


def test_the_page_tells_title_people_and_abstract_in_the_language_of_the_reader(served: Served) -> None:
    english, portuguese = (Page(ask(served, f"/-/item/{ITEM}", tag).body) for tag in ("en", "pt-BR"))
    assert (english.heading, portuguese.heading) == ("Names that stay", "Nomes que ficam")
    assert "About names." in english.words
    assert "Sobre nomes." in portuguese.words
    assert english.links[ORCID] == "ORCID Silva, Maria"
    assert {"Silva, Maria", "Souza, Ana", "INPE", "All may read it.", "Open access"} <= english.words
    assert LICENCE in english.links


def test_a_passage_in_another_language_says_so(served: Served) -> None:
    body = ask(served, f"/-/item/{ITEM}", "pt").text
    assert '<html lang="pt-BR">' in body
    assert '<h1 lang="pt-BR">Nomes que ficam</h1>' in body
    assert 'lang="en"' in body


def test_the_reader_may_choose_the_language_and_keeps_it_on_the_next_page(served: Served) -> None:
    answer = ask(served, f"/-/item/{ITEM}?lang=pt-BR", "en")
    page = Page(answer.body)
    assert (page.language, answer.headers["content-language"]) == ("pt-BR", "pt-BR")
    assert page.links["?lang=en"] == "English"
    assert f"/-/metadata/{ITEM}?lang=pt-BR" in page.links
    assert Page(ask(served, f"/-/item/{ITEM}?lang=xx", "pt").body).language == "pt-BR"
    assert Page(ask(served, "/nonsense?lang=pt-br", "en").body).language == "pt-BR"
    assert f"/-/metadata/{ITEM}" in Page(ask(served, f"/-/item/{ITEM}").body).links


def test_editions_are_a_line_in_time_and_those_elsewhere_are_links_through_the_resolver(
    served: Served,
) -> None:
    body = ask(served, f"/-/item/{ITEM}").text
    page = Page(body.encode())
    assert page.links[f"/-/item/{FIRST}"] == "The first draft"
    assert page.links[f"{RESOLVER}/{NEXT}"] == NEXT
    line = body.partition('<ol class="timeline">')[2].partition("</ol>")[0]
    dates = re.findall(r'datetime="([^"]*)"', line)
    assert dates == sorted(dates)
    assert len(dates) == 3
    assert line.count('aria-current="true"') == 1
    assert page.links[f"{RESOLVER}/{ITEM}?ibiurl.verblist=GetLastEdition"]
    first = Page(ask(served, f"/-/item/{FIRST}").body)
    assert first.links[f"/-/item/{ITEM}"] == "Names that stay"


def test_translations_are_offered_in_their_own_words(served: Served) -> None:
    page = Page(ask(served, f"/-/item/{ITEM}").body)
    assert page.links[f"/-/item/{PORTUGUESE}"] == "português (Brasil)"
    assert page.links[f"{RESOLVER}/{FRENCH}"] == "français"


def test_files_show_their_digests_and_what_the_last_audit_found(served: Served) -> None:
    for target in (f"/-/item/{ITEM}", f"/-/files/{ITEM}"):
        page = Page(ask(served, target).body)
        assert "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7" in page.words
        assert {
            "changed at the last audit",
            "checked on October 3, 2023, unchanged",
            "not audited yet",
        } <= page.words
        assert page.links[f"/col/{ITEM}/doc/a%20b.txt"] == "a b.txt"


def test_a_page_says_how_to_cite_the_item_in_every_style(served: Served) -> None:
    body = ask(served, f"/-/item/{ITEM}").text
    assert "SILVA, Maria; SOUZA, Ana. <strong>Names that stay</strong>." in body
    assert "Silva, M., &amp; Souza, A. (2022). <em>Names that stay</em>. INPE." in body
    assert "@techreport{" in body
    assert f"{RESOLVER}/{ITEM}" in body
    assert f"{RESOLVER}/{IBIP}" in body
    assert len(re.findall(r"data-copy=", body)) >= 4
    assert body.count("<button") == 1  # that of the search: only the script makes others


def test_every_url_that_is_to_be_passed_on_survives_mail_programs(served: Served) -> None:
    for name in (ITEM, FIRST, PORTUGUESE):
        for url in re.findall(r'data-copy="[^"]*">(http[^<]*)<', ask(served, f"/-/item/{name}").text):
            assert url[-1].isalnum(), url


def test_visits_are_a_picture_and_a_table(served: Served) -> None:
    body = ask(served, f"/-/item/{ITEM}").text
    page = Page(body.encode())
    assert {"Sep 2023", "Oct 2023", "Nov 2023", "42", "11"} <= page.words
    assert body.count("h14v") == 3
    assert 'role="img"' in body
    assert "<!--figures-->" not in ask(served, f"/-/item/{PORTUGUESE}").text


def test_a_copy_says_since_when_it_lags_behind(served: Served) -> None:
    page = Page(ask(served, f"/-/item/{COPY}").body)
    assert {"Copy", "May differ from the original since"} <= page.words
    assert any(word.startswith("November 1, 2023") for word in page.words)
    assert page.links["http://there.example"]
    assert page.links[f"{RESOLVER}/-/explain/{COPY}?ibiurl.requireditemstatus=Original"]


def test_the_history_tells_what_happened_and_not_who_did_it(served: Served) -> None:
    page = Page(ask(served, f"/-/item/{ITEM}").body)
    assert "imported from a data file" in page.words
    assert "tester" not in words(page)


def test_the_last_change_is_the_newest_line_of_the_history(served: Served) -> None:
    body = ask(served, f"/-/item/{ITEM}").text
    changed = re.search(r'Last changed</dt>\s*<dd><time datetime="([^"]+)"', body)
    history = body.partition('<ol class="history">')[2].partition("</ol>")[0]
    assert changed is not None
    assert changed[1] == max(re.findall(r'datetime="([^"]+)"', history))


def test_editions_have_their_dates_of_publication(served: Served) -> None:
    line = ask(served, f"/-/item/{ITEM}").text.partition('<ol class="timeline">')[2].partition("</ol>")[0]
    issued = re.search(
        r'name="citation_publication_date" content="([^"]+)"', ask(served, f"/-/item/{ITEM}").text
    )
    assert issued is not None
    here = re.search(r'aria-current="true">\s*<time datetime="([^"]+)"', line)
    assert here is not None
    assert here[1] == issued[1].replace("/", "-")


@pytest.mark.proves("SVC-10", "SVC-12")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [(EMBARGOED, "Embargoed until January 1, 2030"), (HIDDEN, "The list of its files is not shown.")],
)
def test_what_may_not_be_had_is_said_and_not_named(served: Served, name: str, sentence: str) -> None:
    answer = ask(served, f"/-/item/{name}")
    assert sentence in Page(answer.body).words
    assert f"/-/zip/{name}" not in answer.text


@pytest.mark.proves("ARC-07")
def test_a_removed_item_says_when_why_and_what_one_can_do(served: Served) -> None:
    answer = ask(served, f"/-/item/{GONE}")
    page = Page(answer.body)
    assert (answer.status, page.heading) == (410, "It was here")
    assert {"Removed", "Withdrawn.", "What you can do"} <= page.words
    assert any(word.startswith("February 1, 2023") for word in page.words)
    assert {f"/-/metadata/{GONE}", f"{RESOLVER}/{GONE}", f"mailto:{CONTACT}", "/"} <= set(page.links)
    assert '<meta name="robots" content="noindex">' in answer.text


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (f"/-/item/{ABSENT}", 404),
        ("/-/nothing/at/all", 404),
        ("/nonsense", 400),
        (f"/-/files/{HIDDEN}", 403),
        (f"/-/files/{EMBARGOED}", 403),
        (f"/-/metadata/{BARE}", 404),
        (f"/-/qr/{ITEM}.png", 400),
        (f"/-/linkset/{ITEM}?format=rdf", 404),
    ],
)
def test_no_notice_is_a_dead_end(served: Served, target: str, status: int) -> None:
    answer = ask(served, target)
    page = Page(answer.body)
    assert answer.status == status
    assert {"/", f"mailto:{CONTACT}"} <= set(page.links)
    assert answer.headers["cache-control"] == "no-store"


def test_who_is_not_held_here_may_be_elsewhere(served: Served) -> None:
    assert f"{RESOLVER}/{ABSENT}" in Page(ask(served, f"/-/item/{ABSENT}").body).links


def test_the_front_page_lists_items_and_the_page_about_it_the_contact(served: Served) -> None:
    page = Page(ask(served, "/").body)
    assert f"/-/item/{BARE}" in page.links
    assert page.links[f"/-/item/{MANY}"] == "Many"
    assert f"/-/item/{GONE}" not in page.links
    assert f"mailto:{CONTACT}" in Page(ask(served, "/-/about").body).links
    assert "/-/api/openapi.json" in page.links
    assert str(served.archive.settings.service.main) not in {
        link.removeprefix("/-/item/") for link in page.links
    }


@pytest.mark.parametrize(
    ("language", "title"), [("en", "System for IBI Generation"), ("pt-BR", "Sistema para geração de IBI")]
)
def test_the_page_about_an_archive_names_the_standards(served: Served, language: str, title: str) -> None:
    text = ask(served, "/-/about", language).text
    for words in (
        "Identificador com Base na Internet", "ABNT NBR 16066", title, "Sistema para resolução de IBI",
    ):  # fmt: skip
        assert words in text


# What programs read in it


def test_the_head_of_a_page_holds_highwire_tags_open_graph_and_the_canonical_link(served: Served) -> None:
    head = tree(ask(served, f"/-/item/{ITEM}").body).find("head")
    tags = [(meta.get("name"), meta.get("content")) for meta in head.findall("meta") if meta.get("name")]
    assert ("citation_title", "Names that stay") in tags
    assert [content for name, content in tags if name == "citation_author"] == ["Silva, Maria", "Souza, Ana"]
    assert ("citation_pdf_url", f"http://127.0.0.1:{served.port}/col/{ITEM}/doc/report.pdf") in tags
    links = {link.get("rel"): link.get("href") for link in head.findall("link")}
    assert links["canonical"] == links["cite-as"] == f"{RESOLVER}/{ITEM}"
    graph = {meta.get("property"): meta.get("content") for meta in head.findall("meta")}
    assert (graph["og:title"], graph["og:url"]) == ("Names that stay", f"{RESOLVER}/{ITEM}")


@pytest.mark.parametrize("name", [ITEM, HOSTILE, MANY])
def test_the_page_holds_what_search_engines_read(served: Served, name: str) -> None:
    [script] = [
        each
        for each in tree(ask(served, f"/-/item/{name}").body).iter("script")
        if each.get("type") == "application/ld+json"
    ]
    metadata = json.loads(script.text)
    assert metadata["@id"] == f"{RESOLVER}/{name}"
    if name == HOSTILE:
        assert metadata["name"] == EVIL
        assert "<" not in script.text


@pytest.mark.parametrize("language", ["en", "pt-BR"])
@pytest.mark.parametrize("target", PAGES)
def test_every_page_is_html_that_a_strict_parser_takes_and_not_large(
    served: Served, target: str, language: str
) -> None:
    answer = ask(served, target, language)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    read = tree(answer.body)
    assert len(answer.body) < 60_000 or "/files/" in target
    assert read.get("lang") == language
    assert len(list(read.iter("h1"))) == 1
    levels = [int(each.tag[1]) for each in read.iter() if re.fullmatch("h[1-6]", str(each.tag))]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [each.get("id") for each in read.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    assert {each.get("for") for each in read.iter("label")} <= set(ids)
    assert all(each.get("alt") for each in read.iter("img"))


def test_nothing_that_others_wrote_becomes_part_of_a_page(served: Served) -> None:
    harmless = tree(ask(served, f"/-/item/{HOSTILE}").body)
    scripts = [script.get("src") or script.get("type") for script in harmless.iter("script")]
    assert scripts == ["application/ld+json", assets()["copy.js"].address]
    assert [img.get("src") for img in harmless.iter("img")] == [f"/-/qr/{HOSTILE}.svg"]
    assert not [each for each in harmless.iter() for name in dict(each.attrib) if str(name).startswith("on")]
    assert Page(ask(served, f"/-/item/{HOSTILE}").body).heading == EVIL
    for target in (f"/-/files/{HOSTILE}", f"/-/metadata/{HOSTILE}", "/"):
        assert not list(tree(ask(served, target).body).iter("script"))


def test_a_hostile_address_says_nothing_in_the_head_of_an_answer(served: Served) -> None:
    for target in (
        f"/-/item/{ITEM}?lang=en%0d%0ax:y",
        "/-/item/a%0d%0ax",
        "/-/linkset/%22%3E%3Cscript%3E",
        f"/{ITEM}%0d%0a",
    ):
        answer = ask(served, target)
        assert answer.status < 500
        assert "x" not in answer.headers
        assert "<script>" not in answer.text


def test_the_page_loads_only_what_its_service_gives(served: Served) -> None:
    answer = ask(served, f"/-/item/{ITEM}")
    fetched = re.findall(
        r'<(?:script|img)[^>]* src="([^"]*)"|<link rel="(?:stylesheet|icon)" href="([^"]*)"', answer.text
    )
    targets = {"".join(found) for found in fetched}
    assert len(targets) == 6
    for target in targets:
        got = served.get(target)
        assert (got.status, target.startswith("/-/")) == (200, True)
        assert "max-age" in got.headers["cache-control"]
    script = assets()["copy.js"]
    assert f'integrity="{script.integrity}"' in answer.text
    assert script.integrity in answer.headers["content-security-policy"]


# The picture


def test_the_persistent_url_is_a_picture_that_is_kept_for_a_day(served: Served) -> None:
    answer = served.get(f"/-/qr/{ITEM}.svg")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.headers["cache-control"] == "public, max-age=86400"
    assert re.fullmatch(
        rb'<svg xmlns="http://www.w3.org/2000/svg"[^<>]*><g [^<>]*>(<path [^<>]*/>)+</g></svg>\s*',
        answer.body,
    )
    again = served.get(f"/-/qr/{ITEM}.svg", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert served.get(f"/-/qr/{FIRST}.svg").body != answer.body
    assert served.get(f"/-/qr/{GONE}.svg").status == 200
    assert served.get(f"/-/qr/{ABSENT}.svg").status == 404


# What caches keep


@pytest.mark.parametrize("target", [f"/-/item/{ITEM}", f"/-/metadata/{ITEM}", "/"])
def test_a_page_that_is_the_same_is_not_sent_again(served: Served, target: str) -> None:
    first = ask(served, target)
    assert first.headers["cache-control"] == "public, no-cache"
    assert first.headers["vary"] == "Accept, Accept-Language"
    again = ask(served, target, if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["vary"] == "Accept, Accept-Language"
    assert ask(served, target, "pt", if_none_match=first.headers["etag"]).status == 200
    assert ask(served, target, if_none_match='"other"').status == 200
    assert ask(served, target).body == first.body


def test_pages_with_restricted_access_are_not_cached_by_others(served: Served) -> None:
    assert ask(served, f"/-/item/{EMBARGOED}").headers["cache-control"] == "private, no-cache"


def test_a_page_is_another_one_as_soon_as_its_item_is_edited(changing: Served) -> None:
    before = ask(changing, f"/-/item/{BARE}")
    edit(changing.archive.item_store, parse_name(BARE), {"metadata": {"title": "Now it has one"}}, "maria")
    after = ask(changing, f"/-/item/{BARE}", if_none_match=before.headers["etag"])
    assert (after.status, Page(after.body).heading) == (200, "Now it has one")
    assert "Now it has one" in Page(ask(changing, "/").body).words


def test_visits_alone_make_no_other_page(changing: Served) -> None:
    first = ask(changing, f"/-/item/{ITEM}")
    tell_more(changing.archive)
    changing.archive.clock.now += 601
    later = ask(changing, f"/-/item/{ITEM}")
    assert later.body != first.body
    assert later.headers["etag"] == first.headers["etag"]
