"""What belongs to every page: languages, headers, and that it fetches and runs nothing."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from typing import Any

import pytest
from markupsafe import Markup, escape

from ibi.archive.pages.models import NO_SITE
from ibi.http.response import HTML, Response
from ibi.resolver.pages.page_language import PageLanguage
from ibi.runtime.i18n import preferred_language
from ibi.web.assets import WithAssets, assets, svg
from ibi.web.rendering import (
    capital,
    day,
    language_name,
    moment,
    month,
    own_name,
    page_headers,
    percent,
    relation_name,
    sayer,
    short_day,
    size,
    web_link,
)
from support.web.unnamed import html


def test_the_policy_allows_our_own_style_sheet_and_the_scripts_that_it_names() -> None:
    policy = dict(page_headers("en"))["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; font-src 'self'; script-src 'sha256-")
    scripts = [asset for name, asset in assets().items() if name.endswith(".js")]
    for asset in scripts:
        digest = base64.b64encode(hashlib.sha256(asset.body).digest()).decode()
        assert f"'sha256-{digest}'" in policy
        assert asset.integrity == f"sha256-{digest}"
    assert policy.count("sha256-") == len(scripts)
    assert "unsafe" not in policy


def test_a_page_fetches_what_is_its_own_services_and_runs_nothing_inside_it() -> None:
    body = html("notice.html", "en", **_notice("x")).decode()
    assert not re.search(r"<script(?![^>]*src=)|<style|@import|url\(|\s(?:on\w+|style)=", body)
    fetched = re.findall(r"<link[^>]*href=\"([^\"]*)\"|src=\"([^\"]*)\"", body)
    assert fetched
    assert all("".join(found).startswith("/-/") for found in fetched)


def test_an_asset_is_kept_for_a_year_under_the_address_that_its_content_gives_it() -> None:
    for name, asset in assets().items():
        digest = hashlib.sha256(asset.body).hexdigest()
        assert asset.address == f"/-/static/{digest[:12]}/{name}"
    asset = assets()["style.css"]
    status, headers, body = asyncio.run(_get(asset.address))
    assert (status, body) == (200, asset.body)
    assert (headers["content-type"], headers["cache-control"]) == (
        "text/css; charset=utf-8",
        "public, max-age=31536000, immutable",
    )
    status, headers, body = asyncio.run(_get("/-/static/000000000000/style.css"))
    assert (status, body, headers["cache-control"]) == (200, asset.body, "public, max-age=60")
    assert asyncio.run(_get(asset.address, "HEAD"))[2] == b""


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/-/static/x/none.css", "GET"),
        ("/-/static/../../etc/passwd", "GET"),
        ("/-/static/x/..%2fstyle.css", "GET"),
        ("/-/static/x/style.css/", "GET"),
        ("/-/item/x", "GET"),
        ("/-/static/x/style.css", "POST"),
    ],
)
def test_whatever_is_no_asset_is_the_applications(path: str, method: str) -> None:
    assert asyncio.run(_get(path, method))[0] == 299


async def _get(path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """What an application with assets answers; the application itself says 299."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def application(_scope: object, _receive: object, send: Any) -> None:
        await Response(299).send(send, head_only=False)

    scope = {"type": "http", "method": method, "raw_path": path.encode(), "query_string": b"", "headers": []}
    await WithAssets(application)(scope, None, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


@pytest.mark.parametrize(
    ("characters", "modules"), [(1, 21), (14, 21), (15, 25), (26, 25), (27, 29), (30, 29)]
)
def test_a_code_is_dark_on_light_and_survives_a_little_dirt(characters: int, modules: int) -> None:
    # So many characters fit into a code of this size at the level M (ISO/IEC 18004).
    drawn, edge = svg("http://resolver.example/".ljust(30, "a")[:characters]).decode(), modules + 8
    assert drawn.startswith(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {4 * edge} {4 * edge}" class="segno">'
        f'<g transform="scale(4)"><path fill="#fff" d="M0 0h{edge}v{edge}h-{edge}z"/>'
        '<path class="qrline" stroke="#000" d="M4 4.5h7'
    )


def test_a_page_tells_its_language_and_what_it_depends_on() -> None:
    head = Response(200, b"", HTML, page_headers("pt-BR")).whole().decode()
    assert "content-language: pt-BR\r\n" in head
    assert "vary: Accept, Accept-Language\r\n" in head
    assert "x-content-type-options: nosniff\r\n" in head


@pytest.mark.proves("URL-11", "AMB-45")
@pytest.mark.parametrize(
    ("header", "language"),
    [("pt-BR,en;q=0.5", "pt-BR"), ("pt", "pt-BR"), ("fr,pt;q=0.3", "pt-BR"), ("en-GB,pt;q=0.9", "en"), ("fr", "en"),
     ("", "en"), ("*", "en"), (";;;q=x,,\x00", "en"), ("pt;q=0,en;q=0.1", "en"), ("a" * 100_000, "en")],
)  # fmt: skip
def test_the_language_of_a_page_is_what_the_browser_prefers(header: str, language: str) -> None:
    assert preferred_language(header) == language


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
        place = NO_SITE
        lang = ""
        elsewhere = ""
        retry_after = None

    return {"page": Page(), "title": "x", "detail": detail, "caret": None, "suggestion": None}


def test_sentences_begin_with_a_capital_letter_on_their_own_line() -> None:
    assert (capital("é assim"), capital(""), capital("IBI")) == ("É assim", "", "IBI")


def test_a_sentence_is_said_with_a_mapping_of_its_places() -> None:
    assert sayer("pt-BR")("Status {status}", {"status": 404}) == "Status 404"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (0.0001, "0.1%"), (0.001, "0.1%"), (0.0099, "1.0%"), (0.01, "1%"), (0.5, "50%"), (1, "100%")],
)
def test_a_share_that_is_something_is_never_shown_as_nothing(share: float, text: str) -> None:
    assert percent(share, "en") == text


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


def test_days_and_months_are_worded_and_what_is_none_is_shown_as_it_is() -> None:
    assert (day("2026-09-14T16:40:00Z", "en"), day("2026-09-14", "pt-BR")) == (
        "September 14, 2026",
        "14 de setembro de 2026",
    )
    assert (month("2026-11", "en"), month("2026-11", "pt-BR")) == ("Nov 2026", "nov. de 2026")
    assert (day("2026-02-30", "en"), month("2026-13", "en"), day("", "en")) == ("2026-02-30", "2026-13", "")


def test_a_language_is_called_as_it_calls_itself() -> None:
    assert (own_name("pt-BR"), own_name("fr"), own_name("xx"), own_name("")) == (
        "português (Brasil)",
        "français",
        "xx",
        "",
    )


@pytest.mark.proves("SVC-06")
def test_relations_are_worded_step_by_step() -> None:
    assert relation_name(".lastedition.translation(pt).metadata(oai_dc)", "en") == (
        "last edition, translation: Portuguese, metadata (oai_dc)"
    )
    assert relation_name(".translation", "pt-BR") == "tradução"
    assert relation_name(".nonsense", "en") == ".nonsense"


@pytest.mark.parametrize(
    "value",
    ["plain", "a b", "<b title='x'>\"&amp;\"</b>", Markup("<b>&</b>"), 7, None, "\u202e<\x00>", "ça & là"],
)
def test_values_are_escaped_in_a_page_as_everywhere(value: object) -> None:
    caret = (value, "") if isinstance(value, str) else (str(value), "")
    shown = {
        "asked": value,
        "found": None,
        "problem": "",
        "caret": caret,
        "suggestion": None,
        "kept_query": "",
    }
    page = html("find.html", "en", page=PageLanguage("en"), **shown).decode()
    assert f'value="{escape(value)}" maxlength="2000"' in page
    assert f'<pre tabindex="0"><b class="fault"></b>{escape(caret[0])}\n' in page


@pytest.mark.parametrize("sheet", ["archive.css", "item.css", "resolver.css", "admin.css"])
def test_the_two_sheets_of_a_page_are_small(sheet: str) -> None:
    assert len(assets()["style.css"].body) + len(assets()[sheet].body) < 22_000


def test_a_short_day_is_in_the_style_of_its_language_and_another_text_stays() -> None:
    written = [short_day("2020-01-02T23:00:00Z", each) for each in ("en", "pt-BR", "de")]
    assert written == ["Jan 2, 2020", "2 de jan. de 2020", "02.01.2020"]
    assert short_day("unknown", "de") == "unknown"
