"""The pages, feeds and sitemaps on which an Archive's items are found, of a running Archive."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest

from ibi.app.archive import archive_service, indexer
from ibi.archive.pages import search_pages as finding_site
from ibi.archive.search import feeds
from ibi.archive.search import index as index_module
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import edit
from ibi.identifier.forms import parse_ibi
from support.archive.archive_fixture import Answer, NewArchive, Served, listener, serving
from support.archive.search_fixture import item

ATOM = "{http://www.w3.org/2005/Atom}"
MAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
EVIL = "</title><script>alert('1')</script> & \"quoted\" ]]> \u202e\ud7ff"
BROWSER = {"accept": "text/html"}
LINES = (
    item(1, "Sensoriamento remoto", creator=["Câmara, Gilberto", "Evil <b>, \"Eve\" & 'Co'"], date="2011",
         type="tese", language=["pt"]),
    item(2, EVIL, creator=["Banon, Gerald"], description=["<img src=x onerror=alert(1)>"], date="2012"),
    item(3, "Copy of rivers", state="Copy", date="2012", type="article"),
    {"rep": item(4)["rep"], "state": "Deleted", "metadata": {"title": "A removed item"}},
)  # fmt: skip


@contextmanager
def running(make: Callable[..., NewArchive], *lines: object, ready: bool = True) -> Iterator[Served]:
    """Serve a new Archive with these items, as it is assembled."""
    made = listener()
    archive = make(f"127.0.0.1:{made.getsockname()[1]}")
    if lines:
        assert archive.load(*lines).refused == 0
    with serving(archive, made, archive_service(archive.data)) as served:
        if ready:
            until(served, "/-/search?text=x", lambda answer: answer.status == 200)
        yield served


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from support.archive.archive_fixture import make_archive

    def make(address: str) -> NewArchive:
        return make_archive(tmp_path_factory.mktemp("found") / "archive", address, {})

    with running(make, *LINES) as served, closing(served.archive.catalogue):
        yield served


def until(served: Served, target: str, holds: Callable[[Answer], bool]) -> Answer:
    """Ask until the answer is as it should be; a loaded machine may take its time."""
    end = time.monotonic() + 60
    while True:
        answer = served.get(target, **BROWSER)
        if holds(answer) or time.monotonic() > end:
            assert holds(answer), answer
            return answer
        time.sleep(0.05)


def links(answer: Answer) -> list[str]:
    return re.findall(r'<a[^>]* href="(/-/item/[^"]*)"', answer.text)


def test_a_page_of_results_tells_what_each_item_is_and_leads_there(full: Served) -> None:
    answer = full.get("/-/search?text=sensoriamento", **BROWSER)
    assert answer.status == 200
    assert links(answer) == [f"/-/item/{item(1)['rep']}"]
    for shown in (
        "Sensoriamento remoto",
        "Câmara, Gilberto",
        "2011",
        "Portuguese",
        "Thesis or dissertation",
        "1 item",
    ):
        assert shown in answer.text
    assert full.get(links(answer)[0], **BROWSER).status == 200
    assert full.get("/-/search?text=rivers", **BROWSER).text.count("Copy") > 1
    portuguese = full.get("/-/search?text=sensoriamento", accept_language="pt-BR", **BROWSER)
    assert 'lang="pt-BR"' in portuguese.text


def test_titles_and_names_never_leave_their_places(full: Served) -> None:
    for target in ("/-/search?year=2012", "/-/browse", "/-/browse?letter=e", f"/-/search?text={quote(EVIL)}",
                   f"/-/search?person={quote(EVIL)}&year=2012", f"/-/browse?letter={quote(EVIL)}",
                   "/-/search?person=%22%3E%3Cscript%3E&lang=%22%3E"):  # fmt: skip
        answer = full.get(target, **BROWSER)
        assert answer.status in {200, 404}
        assert not re.search(r"<(script|img|b)[ >]", answer.text), target
        assert len(answer.body) < 60_000
    answer = full.get("/-/search?year=2012", **BROWSER)
    assert "&lt;/title&gt;&lt;script&gt;" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_nothing_found_says_what_to_do_and_an_identifier_leads_to_its_item(full: Served) -> None:
    nothing = full.get("/-/search?text=nowhere&year=2011", **BROWSER).text
    assert "Nothing was found" in nothing
    assert 'href="/-/search?text=nowhere"' in nothing
    assert 'href="/-/browse"' in nothing
    name = item(1)["rep"]
    found = full.get(f"/-/search?text={quote(f'see {name}.')}", **BROWSER).text
    assert f'href="/-/item/{name}"' in found
    elsewhere = full.get("/-/search?text=8JMKD3MGP8W%2F35MMLL8", **BROWSER).text
    assert 'href="/8JMKD3MGP8W/35MMLL8"' in elsewhere


def test_a_misspelt_identifier_is_spelt_rightly_where_nothing_else_is_found(full: Served) -> None:
    meant = 'Did you mean <a class="name" href="/8JMKD3MGP8W/34PGRBL">8JMKD3MGP8W/34PGRBL</a>'
    assert meant in full.get("/-/search?text=8JMKD3MGP8W%2F34PGRB1", **BROWSER).text
    misspelt = "8JMKD3MGP8W%2F34PGRBO"  # any of several characters may be meant
    assert "Did you mean" not in full.get(f"/-/search?text={misspelt}", **BROWSER).text


def test_nothing_found_offers_another_spelling_in_both_languages_and_to_programs(full: Served) -> None:
    target = "/-/search?text=sensoriamneto&year=2011"
    page = full.get(f"{target}&lang=en", **BROWSER).text
    spelled = 'href="/-/search?text=sensoriamento&amp;year=2011&amp;lang=en" rel="nofollow">sensoriamento</a>'
    assert "Did you mean" in page
    assert "<h1>Search: sensoriamneto</h1>" in page  # on paper, where no form is, too
    assert spelled in page
    assert "Você quis dizer" in full.get(f"{target}&lang=pt-BR", **BROWSER).text
    hints = json.loads(full.get("/-/api/search?text=sensoriamneto&year=2011").body)["hints"]
    one = {"text": "sensoriamento", "count": 1, "more": False}
    assert hints["spellings"] == [{**one, "search": "/-/api/search?text=sensoriamento&year=2011"}]
    assert hints["without"] == []
    narrowed = json.loads(full.get("/-/api/search?text=remoto&year=1999").body)["hints"]["without"]
    assert narrowed == [
        {"condition": "year", "count": 1, "more": False, "search": "/-/api/search?text=remoto"}
    ]
    assert "hints" not in json.loads(full.get("/-/api/search?text=remoto").body)


@pytest.mark.parametrize(
    ("target", "kept"),
    [("/-/search", True), ("/-/search?year=2012", True), ("/-/browse", True), ("/-/search?text=remoto", False),
     ("/-/search?year=2012&kind=Other", False), ("/-/search?year=1066", False)],
)  # fmt: skip
def test_search_engines_keep_lists_and_no_searches(full: Served, target: str, kept: bool) -> None:
    answer = full.get(target, **BROWSER)
    assert answer.status == 200
    assert ('<meta name="robots" content="noindex">' not in answer.text) is kept
    assert ("x-robots-tag" not in answer.headers) is kept


def test_bad_requests_get_one_sentence(full: Served) -> None:
    for target in ("/-/search?year=x", "/-/search?page=99", f"/-/search?text={'x' * 501}", "/-/feed?year=x"):
        answer = full.get(target, **BROWSER)
        assert answer.status == 400, target
    for target in ("/-/search/x", "/-/browse/x", "/-/browse?letter=q", "/-/sitemap/0.xml", "/-/sitemap/2.xml",
                   "/-/sitemap", "/-/sitemap/1", "/-/sitemap/../1.xml", "/-/feed/x"):  # fmt: skip
        assert full.get(target, **BROWSER).status == 404, target
    assert full.get("/-/search?text=x", method="POST").status == 405
    assert full.get("/-/search?text=%FF%FE&person=%00", **BROWSER).status == 200


def test_the_front_page_leads_to_searching_and_browsing(full: Served) -> None:
    front = full.get("/", **BROWSER).text
    for link in ('action="/-/search"', 'href="/-/browse"', 'type="application/atom+xml" href="/-/feed"'):
        assert link in front


def test_browsing_lists_what_there_is(full: Served) -> None:
    answer = full.get("/-/browse", **BROWSER)
    for path in (
        "/-/search?year=2012",
        "/-/search?kind=Dissertation",
        "/-/search?language=pt",
        "/-/browse?letter=c",
    ):
        assert f'href="{path}"' in answer.text
    people = full.get("/-/browse?letter=C", **BROWSER).text
    person = re.search(r'href="(/-/search\?person=[^"]*)"', people)
    assert person is not None
    assert links(full.get(person[1], **BROWSER)) == [f"/-/item/{item(1)['rep']}"]


def test_a_feed_tells_what_is_new_and_is_sent_once(full: Served) -> None:
    answer = full.get("/-/feed")
    assert answer.headers["content-type"] == "application/atom+xml; charset=utf-8"
    feed = ET.fromstring(answer.body)  # noqa: S314 - our own document
    entries = feed.findall(f"{ATOM}entry")
    ids = sorted(str(entry.findtext(f"{ATOM}id")).partition("//")[2].partition("/")[2] for entry in entries)
    assert ids == [item(number)["rep"] for number in (1, 2, 3)]
    titles = [str(entry.findtext(f"{ATOM}title")) for entry in entries]
    assert any(title.startswith("</title><script>") for title in titles)
    assert "\u202e" not in answer.text
    again = full.get("/-/feed", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert full.get("/-/feed", if_modified_since=answer.headers["last-modified"]).status == 304
    assert full.get("/-/feed", if_modified_since="Sat, 01 Jan 2000 00:00:00 GMT").status == 200
    of_search = full.get("/-/feed?text=remoto", accept_language="pt-BR")
    assert of_search.headers["content-language"] == "pt-BR"
    assert len(ET.fromstring(of_search.body).findall(f"{ATOM}entry")) == 1  # noqa: S314 - our own document
    page = full.get("/-/search?text=remoto", **BROWSER).text
    assert '<link rel="alternate" type="application/atom+xml" href="/-/feed?text=remoto"' in page


def test_a_sitemap_lists_every_page_once(full: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    base = f"http://{full.archive.settings.address}"
    forbidden = [line for line in full.get("/robots.txt").text.splitlines() if line.startswith("Disallow")]
    assert "Disallow: /-/zip/" in forbidden
    assert not [line for line in forbidden if "linkset" in line or "files" in line]
    assert f"Sitemap: {base}/sitemap.xml\n" in full.get("/robots.txt").text
    sheets = ET.fromstring(full.get("/sitemap.xml").body).findall(f"{MAP}sitemap")  # noqa: S314 - our own document
    assert [sheet.findtext(f"{MAP}loc") for sheet in sheets] == [f"{base}/-/sitemap/1.xml"]
    assert sheets[0].findtext(f"{MAP}lastmod")
    pages = ET.fromstring(full.get("/-/sitemap/1.xml").body).findall(f"{MAP}url")  # noqa: S314 - our own document
    found = [str(page.findtext(f"{MAP}loc")) for page in pages]
    assert found == [f"{base}/-/item/{item(number)['rep']}" for number in (1, 2, 3)]
    assert all(full.get(url.removeprefix(base), **BROWSER).status == 200 for url in found)
    monkeypatch.setattr(feeds, "SHEET", 2)
    assert [full.get(f"/-/sitemap/{n}.xml").text.count("<url>") for n in (1, 2)] == [1, 2]


def test_programs_search_too(full: Served) -> None:
    answer = json.loads(full.get("/-/api/search?text=remoto&year=2011").body)
    assert (answer["count"], answer["more"], answer["exact"]) == (1, False, True)
    assert answer["items"] == [
        {
            "ibi": item(1)["rep"], "title": "Sensoriamento remoto", "year": 2011, "language": "pt", "state": "Original",
            "people": ["Câmara, Gilberto", "Evil <b>, \"Eve\" & 'Co'"], "kind": "Dissertation",
            "timestamp": answer["items"][0]["timestamp"], "page": f"/-/item/{item(1)['rep']}",
        }
    ]  # fmt: skip
    assert answer["facets"]["kind"] == [{"value": "Dissertation", "items": 1}]
    refused = full.get("/-/api/search?year=x")
    assert (refused.status, refused.headers["content-type"]) == (400, "application/problem+json")
    assert "/search" in json.loads(full.get("/-/api/openapi.json").body)["paths"]


def test_changes_are_found_and_a_removed_item_is_not(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, item(1, "Water")) as served:
        archive = served.archive
        archive.load(item(2, "Rivers"))
        until(served, "/-/search?text=rivers", lambda answer: len(links(answer)) == 1)
        name = parse_ibi(str(item(1)["rep"]))
        edit(archive.item_store, name, {"metadata": {"title": ["Wine"]}}, "maria")
        until(served, "/-/search?text=wine", lambda answer: len(links(answer)) == 1)
        assert links(served.get("/-/search?text=water", **BROWSER)) == []
        with archive.item_store.unit_of_work("maria") as work:
            work.remove(work.get(name))
        assert (
            links(served.get("/-/search?text=wine", **BROWSER)) == []
        )  # at once, whatever the index still says
        assert str(name) not in served.get("/-/feed").text
        until(served, "/-/sitemap/1.xml", lambda answer: str(name) not in answer.text)


def test_while_the_index_is_made_a_search_says_so(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ibi.archive.search.indexing import Indexer

    with monkeypatch.context() as patch:
        patch.setattr(Indexer, "portion", lambda _self: False)
        with running(new_archive, item(1, "Water"), ready=False) as served:
            for target in (
                "/-/search?text=water",
                "/-/browse",
                "/-/feed",
                "/sitemap.xml",
                "/-/sitemap/1.xml",
            ):
                answer = served.get(target, **BROWSER)
                assert (answer.status, answer.headers["retry-after"]) == (503, "5"), target
                assert "being made" in answer.text
            shown = served.get("/-/api/search?text=water")
            assert (shown.status, shown.headers["retry-after"]) == (503, "5")
            assert served.get("/-/search", **BROWSER).status == 200  # the form is there
            patch.undo()
            until(served, "/-/search?text=water", lambda answer: len(links(answer)) == 1)


def test_a_damaged_index_comes_back_by_itself(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, item(1, "Water")) as served:
        path = served.archive.data / index_module.FILE
        path.with_name(f"{path.name}.aside").write_bytes(b"this is no database\n" * 1000)
        path.with_name(f"{path.name}.aside").replace(path)
        until(served, "/-/search?text=water", lambda answer: len(links(answer)) == 1)
        assert served.get("/-/healthz").status == 200


def test_too_many_searches_at_once_are_told_to_come_later(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ibi.archive.pages.models import SiteContext
    from ibi.archive.search.index import SearchIndex
    from ibi.http.request import Request
    from support.web.unnamed import RENDERER

    monkeypatch.setattr(finding_site, "MOST_WAITING", 0)
    search_pages = finding_site.SearchPages(
        SiteContext(),
        "archive.example",
        archive.catalogue,
        SearchIndex(archive.data),
        RENDERER,
        time.time,
        "",
    )

    async def scenario() -> None:
        answer = await search_pages.handlers()["/-/search"](
            Request("GET", "/-/search", "text=x", {}), lambda: asyncio.sleep(0)
        )
        assert (answer.status, dict(answer.headers)["retry-after"]) == (503, "5")
        await search_pages.close()

    asyncio.run(scenario())


def test_a_backup_leaves_the_index_out(archive: NewArchive, tmp_path: Path) -> None:
    from ibi.archive.preservation.backup import Backup
    from ibi.archive.preservation.backup_store import BackupStore

    making = indexer(_directory(archive), archive.catalogue)
    making.bring_up_to_date()
    making.close()
    assert (archive.data / index_module.FILE).exists()
    done = Backup(_directory(archive), BackupStore(tmp_path / "backups")).run(keep=1)
    saved = [path.name for path in (tmp_path / "backups" / done.name).rglob("*")]
    assert "archive.toml" in saved
    assert [name for name in saved if name.startswith("finding.")] == []


def _directory(archive: NewArchive) -> DataDirectory:
    return DataDirectory(archive.data, archive.clock.machine)


def test_a_feed_of_nothing_is_one_too_and_tells_when_it_was_looked_for(full: Served) -> None:
    answer = full.get("/-/feed?text=nothingofthekind")
    feed = ET.fromstring(answer.body)  # noqa: S314 - our own document
    assert feed.findall(f"{ATOM}entry") == []
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(feed.findtext(f"{ATOM}updated")))


def test_the_front_page_and_the_statistics_count_the_items_that_readers_find(full: Served) -> None:
    for path in ("/", "/-/statistics"):
        page = full.get(path, **BROWSER).body.decode()
        assert re.search("<b>3</b> items", page), path


def test_results_lead_to_their_other_orders(full: Served) -> None:
    page = full.get("/-/search?year=2012", **BROWSER).body.decode()
    assert "<strong>Latest deposits</strong>" in page
    assert re.findall(r'href="([^"]*order=[^"]*)"', page) == [
        "/-/search?year=2012&amp;order=date", "/-/search?year=2012&amp;order=title"
    ]  # fmt: skip
    by_title = full.get("/-/search?year=2012&order=title", **BROWSER)
    assert by_title.headers["x-robots-tag"] == "noindex"
    assert 'href="/-/search?year=2012"' in by_title.body.decode()
