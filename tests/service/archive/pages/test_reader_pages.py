"""The front page, browsing, statistics and the page about the institution, of a running Archive."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from ibi.archive.pages.statistics import UsageReports, last_months
from ibi.archive.search.index import SearchIndex
from ibi.archive.store.tables import usage
from ibi.archive.store.tables.usage import UsageCounts
from ibi.identifier.forms import parse_ibi
from service.archive.pages.test_search_site import BROWSER, links, running, until
from support.archive.archive_fixture import NewArchive, Served, make_archive
from support.archive.search_fixture import indexed, item
from support.web.html_page import Page

MONTHS = list(last_months(datetime.now(UTC).date().isoformat()))
LINES = (
    item(1, "Rivers & lakes", creator=["Silva, Ana"], subject=["Hidrologia", "água"], date="2011", type="tese",
         language=["pt"]),
    item(2, "", creator=["Souza, Rui"], subject=["hidrologia"], date="1999-07", type="dataset"),
    item(3, "Something <b>", subject=["<i>maps</i>"]),
)  # fmt: skip


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    def make(address: str) -> NewArchive:
        return make_archive(tmp_path_factory.mktemp("read") / "archive", address, {})

    with running(make, *LINES) as served, closing(served.archive.catalogue):
        _visit(served.archive, 1, MONTHS[-3:], views=10, downloads=4)
        _visit(served.archive, 2, MONTHS[-1:], views=30, downloads=1)
        yield served


def _visit(archive: NewArchive, number: int, months: list[str], views: int, downloads: int) -> None:
    holding = archive.catalogue.holding(parse_ibi(str(item(number)["rep"])))
    assert holding is not None
    with archive.catalogue.writing() as writer:
        for month in months:
            counts = UsageCounts(views, views, downloads, downloads)
            usage.count_visits(writer.run, holding.number, month, "", counts)


def _page(served: Served, path: str) -> Page:
    return Page(served.get(path, **BROWSER).body)


def test_the_front_page_shows_what_there_is_and_leads_to_it(full: Served) -> None:
    page = _page(full, "/")
    assert page.links["/-/search?kind=Dissertation"] == "Theses and dissertations"
    assert page.links["/-/search?subject=hidrologia"] == "hidrologia hidrologia 2"
    assert {"/-/search?year=2011", "/-/search?person=Souza%2C+Rui"} <= set(page.links)
    assert {"Rivers & lakes", "Silva, Ana", "Open access", "Something <b>"} <= page.words
    for path in ("/-/search?subject=HIDROLOGIA", "/-/search?kind=Dissertation"):
        assert links(full.get(path, **BROWSER))
    for path in ("/-/browse", "/-/statistics", "/-/about"):
        assert path in page.links
        assert full.get(path, **BROWSER).status == 200


def test_an_item_without_a_title_is_its_kind_and_date_with_its_name_small(full: Served) -> None:
    page = _page(full, "/")
    assert page.links[f"/-/item/{item(2)['rep']}"] == "Dataset, July 1999"
    assert item(2)["rep"] in page.words


def test_the_front_page_shows_downloads_once_they_were_added_up(full: Served) -> None:
    shown = until(full, "/", lambda answer: "downloads in twelve months" in answer.text)
    assert "13" in Page(shown.body).words
    assert shown.text.count("h14v") == 3


def test_decades_and_years_lead_to_searches_and_nothing_is_out_of_reach(full: Served) -> None:
    page = _page(full, "/-/browse")
    assert "/-/search?year=2011" in page.links
    assert "/-/search?year=1999" not in page.links
    assert "/-/search?year=1999" in _page(full, "/-/browse?decade=1990").links
    assert page.links["/-/search?year=none"] == "without a date"
    assert links(full.get("/-/search?year=none", **BROWSER)) == [f"/-/item/{item(3)['rep']}"]
    assert page.links["/-/search?subject=%3Ci%3Emaps%3C%2Fi%3E"] == "<i>maps</i>"
    for path in ("/-/browse?decade=1985", "/-/browse?decade=x", "/-/browse?decade=9990"):
        assert "/-/search?year=2011" in _page(full, path).links


def test_a_reader_jumps_to_the_beginning_of_a_name(full: Served) -> None:
    assert _page(full, "/-/browse?letter=S").links["/-/search?person=Silva%2C+Ana"] == "Silva, Ana"
    found = _page(full, "/-/browse?letter=sou").links
    assert "/-/search?person=Souza%2C+Rui" in found
    assert "/-/search?person=Silva%2C+Ana" not in found
    nothing = full.get("/-/browse?letter=zz", **BROWSER)
    assert nothing.status == 404
    assert "No name here begins like this." in Page(nothing.body).words


def test_statistics_are_figures_a_chart_the_most_downloaded_and_kinds(full: Served) -> None:
    body = full.get("/-/statistics", **BROWSER).text
    page = Page(body.encode())
    assert {"60", "13", "2", "Theses and dissertations", "Rivers & lakes"} <= page.words
    most = re.findall(r'<td><a href="(/-/item/[^"]*)"', body)
    assert most == [f"/-/item/{item(number)['rep']}" for number in (1, 2)]
    assert "style=" not in body
    csv = full.get("/-/statistics?format=csv")
    assert csv.headers["content-type"] == "text/csv; charset=utf-8"
    lines = csv.text.split()
    assert lines[0] == "month,country,investigations,unique_investigations,requests,unique_requests"
    assert lines[-1] == f"{MONTHS[-1]},,40,40,5,5"


def test_fewer_than_three_months_are_figures_without_a_chart(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, *LINES) as served:
        assert "No use has been counted yet." in _page(served, "/-/statistics").words
    archive = served.archive
    _visit(archive, 1, MONTHS[-2:], views=1, downloads=1)
    with closing(indexed(archive)) as index:
        report = UsageReports(archive.catalogue, index, time.time).report()
    assert (report.is_chart, len(report.months), report.read) == (False, 2, 1)
    assert report.kinds == (("Dissertation", 2),)
    _visit(archive, 1, MONTHS[-3:-2], views=1, downloads=1)
    with closing(indexed(archive)) as index:
        report = UsageReports(archive.catalogue, index, time.time).report()
    assert (report.is_chart, len(report.months)) == (True, 3)


def test_a_report_is_read_again_only_when_it_is_old(archive: NewArchive) -> None:
    moment = [1_000_000.0]
    reports = UsageReports(archive.catalogue, SearchIndex(archive.data), lambda: moment[0])
    assert reports.is_old
    first = reports.report()
    assert reports.report() is first
    moment[0] += 601
    assert reports.is_old
    assert reports.report() is not first
    moment[0] -= 10_000  # a clock that went back
    assert reports.is_old


def test_browsers_get_a_page_about_the_archive_and_programs_json(full: Served) -> None:
    page = _page(full, "/-/about")
    assert str(full.archive.settings.service.main) in page.words
    assert "/-/programs" in page.links
    for accept in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
        answer = full.get("/-/about", **accept)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["vary"] == "Accept"
        assert json.loads(answer.body)["role"] == "archive"


def test_nothing_found_says_without_which_condition_something_is(full: Served) -> None:
    page = _page(full, "/-/search?text=rivers&kind=Dataset&year=2011")
    assert page.links["/-/search?text=rivers&year=2011"].startswith("The same without Kind: Dataset")
    assert "1 item" in " ".join(page.words)
    assert not [words for words in _page(full, "/-/search?year=1066").words if words.startswith("The same")]


def test_chosen_conditions_come_first_and_can_be_removed(full: Served) -> None:
    page = _page(full, "/-/search?subject=hidrologia&kind=Dataset")
    assert page.links["/-/search?subject=hidrologia"] == "Remove Kind"
    assert page.links["/-/search?kind=Dataset"] == "Remove Subject"
    assert any("2 chosen" in words for words in page.words)


def test_found_words_are_marked_and_nothing_becomes_markup(new_archive: Callable[..., NewArchive]) -> None:
    line = item(1, "T", description=["<b>Água</b> & more"], subject=["x"])
    with running(new_archive, line) as served:
        text = until(served, "/-/search?text=agua", lambda answer: bool(links(answer))).text
        assert "&lt;b&gt;<mark>Água</mark>&lt;/b&gt; &amp; more" in text
