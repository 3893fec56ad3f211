"""What programs read that keep a copy of an Archive by ResourceSync: the form that the specification demands.

Sections are those of ANSI/NISO Z39.99-2017. `resync-sync` 2.0.1, a program of the authors of the specification, is
run in tests/service/network/test_https_standards.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from urllib.robotparser import RobotFileParser
from xml.etree import ElementTree as ET

import pytest

from ibi.app.archive import archive_service
from ibi.archive.search import index_writer, resource_sync
from ibi.archive.store.item_changes import edit
from ibi.archive.store.tables.history import ItemEvent, add_event
from ibi.identifier.forms import parse_ibi
from support.archive.archive_fixture import NewArchive, Served, listener, make_archive, serving
from support.archive.search_fixture import item

MAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
RS = "{http://www.openarchives.org/rs/terms/}"
SOURCE, CAPABILITIES = "/.well-known/resourcesync", "/-/resourcesync/capabilitylist.xml"
CHANGES = "/-/resourcesync/changelist.xml"
FIRST, SECOND, GONE, RECORD = (str(item(number)["rep"]) for number in range(1, 5))
LINES = (
    item(1, "One"),
    item(2, "Two & <more>"),
    item(3, "Three"),
    {"rep": RECORD, "contenttype": "Metadata", "metadata": {"title": "of others"}},
)


class Document:
    """A document of ResourceSync, as a client reads it."""

    def __init__(self, served: Served, path: str) -> None:
        self.base = f"http://{served.archive.settings.address}"
        answer = served.get(path)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/xml; charset=utf-8"), (
            path
        )
        assert answer.headers["access-control-allow-origin"] == "*"
        self.root = ET.fromstring(answer.body)  # noqa: S314 - our own document
        assert self.root.tag in {f"{MAP}urlset", f"{MAP}sitemapindex"}
        self.is_index = self.root.tag == f"{MAP}sitemapindex"
        order = [each.tag for each in self.root]  # links and facts come before all entries (7)
        assert order == sorted(order, key=[f"{RS}ln", f"{RS}md", self.kind].index)

    @property
    def kind(self) -> str:
        return f"{MAP}sitemap" if self.is_index else f"{MAP}url"

    @property
    def facts(self) -> dict[str, str]:
        [found] = self.root.findall(f"{RS}md")
        return dict(found.attrib)

    def links(self, relation: str) -> list[str]:
        found = [dict(each.attrib) for each in self.root.findall(f"{RS}ln")]
        return [each["href"].removeprefix(self.base) for each in found if each["rel"] == relation]

    @property
    def entries(self) -> list[tuple[str, dict[str, str]]]:
        """Path and facts of each entry."""
        return [
            (
                str(each.findtext(f"{MAP}loc")).removeprefix(self.base),
                {key: value for found in each.findall(f"{RS}md") for key, value in found.attrib.items()},
            )
            for each in self.root.findall(self.kind)
        ]

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [(path.removeprefix("/-/item/"), facts["change"]) for path, facts in self.entries]


@contextmanager
def running(archive: NewArchive, port: object) -> Iterator[Served]:
    with serving(archive, port, archive_service(archive.data)) as served:  # type: ignore[arg-type]  # a socket
        end = time.monotonic() + 60
        while served.get("/sitemap.xml").status != 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        yield served


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    port = listener()
    archive = make_archive(
        tmp_path_factory.mktemp("synchronized") / "archive", f"127.0.0.1:{port.getsockname()[1]}", {}
    )
    assert archive.load(*LINES).refused == 0
    for name, seconds in ((SECOND, 60), (GONE, 120)):
        archive.clock.now += seconds
        edit(archive.item_store, parse_ibi(name), {"metadata": {"title": ["changed"]}}, "maria")
    archive.clock.now += 60
    with archive.item_store.unit_of_work("maria") as work:
        work.remove(work.get(parse_ibi(GONE)))
    with running(archive, port) as served, closing(archive.catalogue):
        yield served


def test_the_source_leads_to_the_capabilities_and_these_to_the_lists(full: Served) -> None:
    source = Document(full, SOURCE)  # 8
    assert (source.facts, source.links("describedby")) == ({"capability": "description"}, ["/-/about"])
    assert source.entries == [(CAPABILITIES, {"capability": "capabilitylist"})]
    capabilities = Document(full, CAPABILITIES)  # 9
    assert (capabilities.facts, capabilities.links("up")) == ({"capability": "capabilitylist"}, [SOURCE])
    assert capabilities.entries == [
        ("/sitemap.xml", {"capability": "resourcelist"}),
        (CHANGES, {"capability": "changelist"}),
    ]
    for path, facts in capabilities.entries:
        found = Document(full, path)
        assert (found.facts["capability"], found.links("up")) == (facts["capability"], [CAPABILITIES])


def test_the_sitemap_is_the_resource_list(full: Served) -> None:
    assert full.get("/sitemap.xml").headers["cache-control"] == "public, max-age=600"
    index = Document(full, "/sitemap.xml")  # 10.2
    assert index.is_index
    [(path, _)] = index.entries
    listed = Document(full, path)  # 10.1
    assert (listed.links("up"), listed.links("index")) == ([CAPABILITIES], ["/sitemap.xml"])
    assert [path for path, _ in listed.entries] == [f"/-/item/{FIRST}", f"/-/item/{SECOND}"]
    for document in (index, listed):
        age = datetime.now(UTC) - datetime.fromisoformat(document.facts["at"])
        # So old may be a sheet that a cache has kept; later changes are in the change list.
        assert 605 <= age.total_seconds() < 700


def test_the_change_list_tells_each_change_in_order(full: Served) -> None:
    found = Document(full, CHANGES)  # 12.1
    assert not found.is_index
    assert found.changes == [
        (FIRST, "created"),
        (SECOND, "created"),
        (GONE, "created"),
        (SECOND, "updated"),
        (GONE, "updated"),
        (GONE, "deleted"),
    ]
    moments = [facts["datetime"] for _, facts in found.entries]
    assert moments == sorted(moments)
    assert moments[0] >= found.facts["from"]
    assert "until" not in found.facts
    dated = {path for path, _ in found.entries if path != f"/-/item/{GONE}"}
    for entry in found.root.findall(f"{MAP}url"):
        path = str(entry.findtext(f"{MAP}loc")).removeprefix(found.base)
        assert (entry.find(f"{MAP}lastmod") is not None) is (path in dated)
    assert {path: full.get(path, accept="text/html").status for path, _ in found.entries} == {
        **dict.fromkeys(dated, 200),
        f"/-/item/{GONE}": 410,
    }


def test_several_change_lists_have_an_index(full: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Document(full, CHANGES)
    monkeypatch.setattr(resource_sync, "EVENTS", 3)
    index = Document(full, CHANGES)  # 12.2
    assert index.is_index
    assert index.facts == whole.facts
    lists = [Document(full, path) for path, _ in index.entries]
    assert len(lists) > 1
    for (_, facts), each in zip(index.entries, lists, strict=True):
        assert each.facts == {"capability": "changelist"} | facts
        assert (each.links("up"), each.links("index")) == ([CAPABILITIES], [CHANGES])
    assert [change for each in lists for change in each.changes] == whole.changes
    for (_, before), (_, after) in zip(index.entries, index.entries[1:], strict=False):
        assert before["until"] == after["from"]
    assert "until" not in index.entries[-1][1]


def test_a_list_that_has_not_changed_is_sent_once(full: Served) -> None:
    answer = full.get(CHANGES)
    assert answer.headers["cache-control"] == "public, no-cache"
    again = full.get(CHANGES, if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["/-/resourcesync", "/-/resourcesync/", "/-/resourcesync/changes/0.xml", "/-/resourcesync/changes/1.xml",
     "/-/resourcesync/changes/2.xml", "/-/resourcesync/changes/99999999999.xml", f"{SOURCE}/", f"{SOURCE}/x",
     "/-/resourcesync/changes/1", "/-/resourcesync/../resourcesync/changelist.xml"],
)  # fmt: skip
def test_what_is_not_there_is_404(full: Served, path: str) -> None:
    assert full.get(path).status == 404
    assert full.get(CHANGES, method="POST").status == 405


def test_robots_find_the_list_and_may_read_all_of_it(full: Served) -> None:
    rules = RobotFileParser()
    rules.parse(full.get("/robots.txt").text.splitlines())
    assert rules.site_maps() == [f"http://{full.archive.settings.address}/sitemap.xml"]  # 6.3.4
    assert all(rules.can_fetch("any", path) for path in (SOURCE, CAPABILITIES, CHANGES, "/-/sitemap/1.xml"))
    catalog = full.get("/.well-known/api-catalog").text
    assert CAPABILITIES in catalog
    assert SOURCE in catalog


def test_what_happened_in_another_archive_is_no_change_here(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = new_archive()
    assert archive.load(item(1, "One"), item(2, "Two")).refused == 0
    name = parse_ibi(FIRST)
    with archive.catalogue.writing() as writer:
        number = writer.holding(name).number  # type: ignore[union-attr]  # it was added
        there = {"archive": "elsewhere.example/a/2010/01.01.00.00"}
        add_event(writer.run, number, ItemEvent("2011-01-01T00:00:00Z", "otto", "edited", there))
        unsettled = {"since": "2026-01-01T00:00:00Z", "name": SECOND}
        writer.run("UPDATE item SET unsettled = :since WHERE rep = :name", **unsettled)
    base, service = "https://archive.example", str(archive.settings.service.main)
    with archive.catalogue.reading() as run:
        listed = resource_sync.write_change_list(run, base, service, 0.0).decode()
        monkeypatch.setattr(resource_sync, "EVENTS", 1)
        several = [resource_sync.write_changes(run, base, number, service) or b"" for number in range(6)]
    assert listed.count("<url>") == sum(each.count(b"<url>") for each in several) == 1
    assert f'{FIRST}</loc><lastmod>2023-11-14T22:13:20Z</lastmod><rs:md change="created"' in listed
    assert "2011" not in listed


def test_an_item_that_comes_with_its_history_is_created_when_it_comes(
    new_archive: Callable[..., NewArchive],
) -> None:
    archive = new_archive()
    assert archive.load(item(1, "One")).refused == 0
    with archive.catalogue.writing() as writer:
        there = 'UPDATE event SET detail = \'{"archive":"x"}\' WHERE item = :item'
        number = writer.holding(parse_ibi(FIRST)).number  # type: ignore[union-attr]  # it was added
        writer.run(there, item=number)
        add_event(writer.run, number, ItemEvent("2023-11-15T00:00:00Z", "otto", "received", {}))
        add_event(writer.run, number, ItemEvent("2023-11-16T00:00:00Z", "otto", "edited", {}))
    with archive.catalogue.reading() as run:
        listed = resource_sync.write_change_list(
            run, "https://a.example", str(archive.settings.service.main), 0.0
        )
    assert b'change="created" datetime="2023-11-15T00:00:00Z"' in listed
    assert b'change="updated" datetime="2023-11-16T00:00:00Z"' in listed


def test_an_archive_in_which_nothing_has_happened_lists_nothing(
    new_archive: Callable[..., NewArchive],
) -> None:
    archive = new_archive()
    with archive.catalogue.writing() as writer:
        writer.run("UPDATE event SET feed = NULL")
    with archive.catalogue.reading() as run:
        listed = ET.fromstring(resource_sync.write_change_list(run, "https://a.example", "", 0.0))  # noqa: S314 - ours
    assert [each.tag for each in listed] == [f"{RS}ln", f"{RS}md"]
    assert listed[1].attrib == {"capability": "changelist", "from": "1970-01-01T00:00:00Z"}
    assert index_writer.SHEET <= 50_000 >= resource_sync.EVENTS  # 7: so many entries may a document have
