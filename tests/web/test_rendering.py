"""What belongs to every page: languages, headers, and that it fetches and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from ibi.web.rendering import capital, html, page_headers, page_language, sayer, style_sheet, web_link
from ibi.web.resolver_pages import home
from ibi.web.wording import language_name, moment, relation_name, size


def test_the_policy_allows_the_style_sheet_that_stands_in_the_page_and_no_script() -> None:
    policy = dict(page_headers("en"))["content-security-policy"]
    [sheet] = re.findall(rb"<style>(.*)</style>", home("en"), re.DOTALL)
    assert f"'sha256-{base64.b64encode(hashlib.sha256(sheet).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "script" not in policy
    assert "unsafe" not in policy


def test_a_page_fetches_nothing_and_runs_nothing() -> None:
    body = home("en").decode()
    assert not re.search(r"<script|src=|@import|url\(|\son\w+=", body)
    assert re.findall(r"<link[^>]*>", body) == ['<link rel="icon" href="data:,">']


def test_a_page_tells_its_language_and_what_it_depends_on() -> None:
    headers = dict(page_headers("pt-BR"))
    assert headers["content-language"] == "pt-BR"
    assert headers["vary"] == "Accept, Accept-Language"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.proves("URL-11", "AMB-45")
@pytest.mark.parametrize(
    ("header", "language"),
    [("pt-BR,en;q=0.5", "pt-BR"), ("pt", "pt-BR"), ("fr,pt;q=0.3", "pt-BR"), ("en-GB,pt;q=0.9", "en"), ("fr", "en"),
     ("", "en"), ("*", "en"), (";;;q=x,,\x00", "en"), ("pt;q=0,en;q=0.1", "en"), ("a" * 100_000, "en")],
)  # fmt: skip
def test_the_language_of_a_page_is_what_the_browser_prefers(header: str, language: str) -> None:
    assert page_language(header) == language


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", " http://x", "//x.example", "", "ftp://x"]
)
def test_only_links_to_the_web_are_links(url: str) -> None:
    assert web_link(url) == ""


def test_links_to_the_web_stay_as_they_are() -> None:
    assert web_link("HTTPS://x.example/%f3") == "HTTPS://x.example/%f3"


def test_a_template_that_asks_for_what_is_not_given_fails_instead_of_showing_a_gap() -> None:
    with pytest.raises(Exception, match="undefined"):
        html("archive.html", "en")


def test_bytes_that_are_no_text_do_not_break_a_page() -> None:
    assert b"?" in html("notice.html", "en", **_notice("\udcf3"))


def _notice(detail: str) -> dict[str, object]:
    class Page:
        status = 404
        links = ()

    return {"page": Page(), "title": "x", "detail": detail, "caret": None, "suggestion": None}


def test_sentences_begin_with_a_capital_letter_on_their_own_line() -> None:
    assert (capital("é assim"), capital(""), capital("IBI")) == ("É assim", "", "IBI")


def test_a_sentence_is_said_with_a_mapping_of_its_places() -> None:
    assert sayer("pt-BR")("Status {status}", {"status": 404}) == "Status 404"


@pytest.mark.parametrize(
    "text",
    ["2026-02-30T00:00:00Z", "yesterday", "", "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+10:00"],
)
def test_a_moment_that_no_calendar_has_is_shown_as_it_is(text: str) -> None:
    assert moment(text, "en") == text


def test_moments_sizes_and_languages_are_worded_for_their_reader() -> None:
    assert moment("2009-07-21T13:23:45Z", "pt-BR").startswith("21 de julho de 2009")
    assert (size(0, "en"), size(999, "en"), size(1000, "en"), size(10**16, "pt-BR")) == (
        "0 B",
        "999 B",
        "1.0 kB",
        "10.000,0 TB",
    )
    assert (language_name("pt-BR", "en"), language_name("en", "pt-BR"), language_name("xx", "en")) == (
        "Portuguese (Brazil)",
        "inglês",
        "xx",
    )


@pytest.mark.proves("SVC-06")
def test_relations_are_worded_step_by_step() -> None:
    assert relation_name(".lastedition.translation(pt).metadata(oai_dc)", "en") == (
        "last edition, translation: Portuguese, metadata (oai_dc)"
    )
    assert relation_name(".translation", "pt-BR") == "tradução"
    assert relation_name(".nonsense", "en") == ".nonsense"


def test_the_style_sheet_is_small() -> None:
    assert len(style_sheet()) < 8000
