"""A reader chooses the language of every page of a resolver, and the choice never changes what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from ibi.app.resolver import site_pages
from ibi.http.request import Request
from ibi.resolver.pages.page_language import PageLanguage, page_language, read_request_in_language
from support.resolver.one_item import IBI, M16C, REP, answer_of, body, item, m16c, play
from support.resolver.running_resolver import Running
from support.web.html_page import Page

if TYPE_CHECKING:
    from pathlib import Path

AS_PAGE = "Accept: text/html"
ORIGINAL = "ibiurl.requireditemstatus=Original"
PATHS = ("/", "/sitemap.xml", "/-/status")


@pytest.mark.parametrize("path", ["/", "/-/find", "/-/find?text=x+y", "/-/status", "/-/about", "/-/nothing"])
def test_pages_of_the_resolver_keep_a_language_in_their_links(tmp_path: Path, path: str) -> None:
    chosen = f"{path}{'&' if '?' in path else '?'}lang=pt-BR"
    answer = answer_of(tmp_path, [m16c(item())], chosen, AS_PAGE, pages=site_pages())
    page = Page(answer.body)
    assert page.language == answer.headers["content-language"] == "pt-BR"
    assert "/-/status?lang=pt-BR" in page.links
    assert "/?lang=pt-BR" in page.links
    assert not {"/", "/-/status", "/-/about"} & page.links.keys()
    assert chosen.partition("?")[2].replace("pt-BR", "en") in {link.partition("?")[2] for link in page.links}


@pytest.mark.parametrize(
    "target", [f"/{IBI}+(fr)?x=1&{ORIGINAL}", f"/-/explain/{IBI}!?{ORIGINAL}", f"/{IBI}/no.pdf"]
)
def test_an_alert_is_read_in_another_language_without_asking_another_question(
    tmp_path: Path, target: str
) -> None:
    archive = m16c(body(state="Copy"), "GetTranslation(fr)", path="/no.pdf")

    async def scene(running: Running) -> None:
        first = await running.ask(target, AS_PAGE, "Accept-Language: en")
        links = Page(first.body).links
        there = f"/-/in/pt-BR{target}"
        assert there in links
        second = await running.ask(there, AS_PAGE, "Accept-Language: en")
        assert second.status == first.status
        page = Page(second.body)
        assert page.language == second.headers["content-language"] == "pt-BR"
        assert f"/-/in/en{target}" in page.links
        assert "/?lang=pt-BR" in page.links
        # What was asked for is the same.
        if not target.startswith("/-/explain"):  # which shows it in parts
            assert f"http://urlib.net{target}" in page.words
        assert second.headers.get("ibi-outcome") == first.headers.get("ibi-outcome")

    play(tmp_path, [archive], scene, pages=site_pages())


def test_a_link_in_a_chosen_language_redirects_as_the_persistent_url_does(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        plain = await running.ask(f"/{IBI}", AS_PAGE)
        chosen = await running.ask(f"/-/in/pt-BR/{IBI}", AS_PAGE)
        assert (chosen.status, chosen.headers["location"]) == (plain.status, plain.headers["location"])
        assert chosen.headers["link"] == plain.headers["link"]

    play(tmp_path, [m16c(item())], scene, pages=site_pages())


@pytest.mark.parametrize(
    "path",
    ["/-/in/pt-BR", "/-/in/pt-BR/", "/-/in/xx/a.b/c/2010/01.01.00.00", "/-/in/pt-BR/-/status",
     "/-/in/pt-BR/-/in/en/a.b/c/2010/01.01.00.00", "/-/in//a", "/-/in/pt-BR/sitemap.xml", f"/{REP}"],
)  # fmt: skip
def test_nothing_else_is_shown_in_a_language(path: str) -> None:
    assert read_request_in_language(Request("GET", path, "", {}), PATHS) is None


def test_a_link_keeps_a_chosen_language_where_it_belongs() -> None:
    chosen = PageLanguage("pt-BR", chosen=True)
    assert chosen.to("/-/status") == "/-/status?lang=pt-BR"
    assert chosen.to("/-/find?text=a") == "/-/find?text=a&lang=pt-BR"
    assert chosen.to(f"/{IBI}?{ORIGINAL}") == f"/-/in/pt-BR/{IBI}?{ORIGINAL}"
    assert chosen.to(f"/-/explain/{IBI}") == f"/-/in/pt-BR/-/explain/{IBI}"
    assert PageLanguage("pt-BR").to("/-/status") == "/-/status"


def test_the_browser_decides_where_nothing_was_chosen() -> None:
    request = Request("GET", "/-/status", "lang=xx", {b"accept-language": b"pt"})
    assert page_language(request, PATHS) == PageLanguage("pt-BR")
    assert page_language(Request("GET", f"/{M16C}", "a=1", {}), PATHS) == PageLanguage(
        "en", target=f"/{M16C}?a=1"
    )


@pytest.mark.parametrize(
    ("text", "location"),
    [
        (IBI, f"/{IBI}"),
        (f" {IBI}!:(oai_dc)", f"/{IBI}!:(oai_dc)"),
        (f"ibi:{IBI}", f"/{IBI}"),
        (f"http://urlib.net/{IBI}!", f"/{IBI}!"),
        (f"see {IBI}", ""),
        (f"Reis, T. A report. {IBI}.", ""),
        (f"{IBI} {IBI[:-1]}9", ""),
    ],
)
def test_a_reader_who_types_an_identifier_alone_is_led_to_its_item(
    tmp_path: Path, text: str, location: str
) -> None:
    archive = m16c()
    target = f"/-/find?text={quote(text)}"
    answer = answer_of(tmp_path, [archive], target, AS_PAGE, pages=site_pages())
    assert (answer.status, answer.location or "") == ((303, location) if location else (200, ""))
    chosen = answer_of(tmp_path, [archive], f"{target}&lang=pt-BR", AS_PAGE, pages=site_pages())
    assert (chosen.location or "") == (f"/-/in/pt-BR{location}" if location else "")
    assert archive.received == []
