"""Visits, counted by the rules of COUNTER, without a word about who the readers were."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from ibi.archive.pages.statistics import Statistics, usage_json
from ibi.archive.pages.visits import MANY, CountryLookup, ItemVisit, VisitCounter, is_program
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.tables import usage as usage_table
from ibi.archive.store.tables.usage import UsageCounts
from ibi.cli import main
from ibi.errors import ParseError
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_name
from ibi.protocol.messages import Acknowledgment, UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import NOW, WHEN, NewArchive, Served, listener, serving
from support.engines import by_hand
from support.web.unnamed import RENDERER

IBI, LINKED = "a.example/b/2010/01.01.00.00", "a.example/b/2011/01.01.00.00"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
SAFARI = f"{MAC} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15"
CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0"
ITEMS = (
    {
        "rep": IBI,
        "files": {"x.txt": "x", "page.html": "x", "p.png": "x", "s.css": "x"},
        "target": "x.txt",
        "metadata": {"title": ["T"]},
        "timestamp": WHEN,
    },
    {"rep": LINKED, "url": "http://far.example/", "timestamp": WHEN},
    {"rep": "a.example/b/2012/01.01.00.00", "files": {"x": "x"}, "access": "closed", "timestamp": WHEN},
)
FILE = f"/col/{IBI}/doc/x.txt"


@contextmanager
def _serving(archive: NewArchive) -> Iterator[Served]:
    """Serve an Archive that counts its visits; once that ends, all of them are counted."""
    visits = VisitCounter(archive.catalogue, archive.clock.seconds, archive.settings.geo_database)
    app = ArchiveService(
        archive.settings,
        archive.catalogue,
        archive.file_store,
        archive.clock.seconds,
        RENDERER,
        visits=visits,
    )
    with serving(archive, listener(), Service(app, close=app.close)) as served:
        yield served


@pytest.fixture
def filled(new_archive: Callable[..., NewArchive]) -> NewArchive:
    archive = new_archive("127.0.0.1", trusted_proxies=("127.0.0.1/32",))
    (archive.data / "x").write_bytes(b"x" * 100)
    assert archive.load(*ITEMS).added == len(ITEMS)
    return archive


def _visit(served: Served, target: str, method: str = "GET", **headers: str) -> int:
    usual = {"user_agent": FIREFOX, "x_forwarded_for": "192.0.2.1", "accept": "text/html"}
    return served.get(target, method, **(usual | headers)).status


def _counted(archive: NewArchive, name: str = IBI) -> UsageCounts:
    holding = archive.catalogue.holding(parse_name(name))
    assert holding is not None
    lines = Statistics(archive.catalogue).of_item(holding)
    assert [line.month for line in lines] in ([], ["2023-11"])
    return lines[0].counts if lines else UsageCounts()


def test_pages_are_investigations_and_a_file_is_a_request_too(filled: NewArchive) -> None:
    with _serving(filled) as served:
        for target in (f"/-/item/{IBI}", f"/-/metadata/{IBI}", f"/-/metadata/{IBI}?format=oai_dc", FILE):
            assert _visit(served, target) == 200
    assert _counted(filled) == UsageCounts(4, 1, 1, 1)


def test_a_second_click_within_thirty_seconds_is_the_first_one_again(filled: NewArchive) -> None:
    with _serving(filled) as served:
        for seconds in (0, 29, 29, 31):  # the third is near the second, and so none of its own
            filled.clock.now += seconds
            _visit(served, FILE)
        _visit(served, FILE, user_agent=SAFARI)
        _visit(served, FILE, x_forwarded_for="192.0.2.2")
    assert _counted(filled) == UsageCounts(4, 3, 4, 3)


def test_a_session_lasts_as_long_as_the_hour_of_the_day(filled: NewArchive) -> None:
    with _serving(filled) as served:
        for seconds in (0, 60, 3600):
            filled.clock.now += seconds
            _visit(served, FILE)
    assert _counted(filled) == UsageCounts(3, 2, 3, 2)


def test_requests_that_are_no_reading_count_for_nothing(filled: NewArchive) -> None:
    with _serving(filled) as served:
        _visit(served, FILE, "HEAD")
        _visit(served, FILE, sec_purpose="prefetch")
        _visit(served, FILE, user_agent="Mozilla/5.0 (compatible; Googlebot/2.1)")
        _visit(served, FILE, user_agent="GPTBot/1.2")
        _visit(served, FILE, user_agent="curl/8.9.0")
        _visit(served, FILE, user_agent="")
        _visit(served, FILE, range="bytes=5-9")
        _visit(served, FILE, range="bytes=500-")
        _visit(served, f"/col/{IBI}/doc/absent")
        _visit(served, f"/col/{IBI}/doc/p.png", sec_fetch_dest="image")
        _visit(served, f"/col/{IBI}/doc/p.png", accept="image/avif,image/webp,*/*;q=0.8")
        _visit(served, f"/col/{IBI}/doc/s.css", accept="*/*")
        assert _visit(served, "/-/item/a.example/b/2012/01.01.00.00") == 200
        assert _visit(served, "/col/a.example/b/2012/01.01.00.00/doc/x") == 403
    assert _counted(filled) == UsageCounts()
    assert _counted(filled, "a.example/b/2012/01.01.00.00") == UsageCounts(1, 1)


def test_a_first_part_and_what_a_reader_has_already_are_requests(filled: NewArchive) -> None:
    with _serving(filled) as served:
        assert _visit(served, FILE, range="bytes=0-9") == 206
        assert _visit(served, f"{FILE}?again", if_none_match="*") == 304
        assert _visit(served, f"/col/{IBI}/doc/p.png", sec_fetch_dest="document") == 200
        assert _visit(served, f"/-/zip/{IBI}") == 200
    assert _counted(filled) == UsageCounts(4, 1, 4, 1)


@pytest.mark.proves("SVC-20", "SVC-21")
def test_acknowledgments_count_for_items_that_are_read_elsewhere(filled: NewArchive) -> None:
    with _serving(filled) as served:
        path = f"/{filled.settings.service.main}"
        for name, acknowledged in ((IBI, 2), (LINKED, 2)):
            request = UrlRequest(("192.0.2.1",), parse_name(name), "", VerbList.parse(""))
            key = UrlList.read(served.get(f"{path}?{request.query()}").body).url_key or ""
            message = Acknowledgment(
                ("192.0.2.1",),
                ContentType.DATA,
                ItemState.ORIGINAL,
                "http://f.example/",
                "http://r.example/",
                key,
            )
            for _ in range(acknowledged):
                assert served.get(f"{path}?{message.query()}").status == 200
    assert _counted(filled) == UsageCounts()
    assert _counted(filled, LINKED) == UsageCounts(1, 1)


def test_no_address_is_kept_and_nothing_for_longer_than_an_hour(filled: NewArchive) -> None:
    with _serving(filled) as served:
        _visit(served, FILE, x_forwarded_for="203.0.113.77")
        _visit(served, f"/-/item/{IBI}", x_forwarded_for="2001:db8::7777")
    kept = by_hand.everything(filled.data)
    for trace in (b"203.0.113.77", b"2001:db8::7777", FIREFOX.encode()):
        assert trace not in kept
    ((last,),) = by_hand.run(filled.data, "SELECT max(until) FROM visit_mark")
    assert NOW < last <= NOW + 3600
    filled.clock.now += 3601
    VisitCounter(filled.catalogue, filled.clock.seconds)  # as when a process starts
    assert by_hand.run(filled.data, "SELECT count(*) FROM visit_mark") == [(0,)]


def test_each_day_has_a_key_of_its_own_on_which_all_processes_agree(filled: NewArchive) -> None:
    with filled.catalogue.writing() as writer:
        first = usage_table.key_of_day(writer.run, "2023-11-14", b"one")
        again = usage_table.key_of_day(writer.run, "2023-11-14", b"two")
        next_day = usage_table.key_of_day(writer.run, "2023-11-15", b"three")
        left = writer.run("SELECT count(*) FROM visit_key").fetchone()[0]
    assert (first, again, next_day, left) == (b"one", b"one", b"three", 1)


def test_several_processes_count_a_double_click_once(filled: NewArchive) -> None:
    holding = filled.catalogue.holding(parse_name(IBI))
    assert holding is not None

    async def hear(seconds: float) -> None:
        visits = VisitCounter(filled.catalogue, filled.clock.seconds)
        visits.add(ItemVisit(holding.number, True, FILE, lambda: "192.0.2.1", FIREFOX, NOW + seconds))
        await visits.close()

    threads = [threading.Thread(target=lambda s=s: asyncio.run(hear(s))) for s in (0, 1, 2, 40)]
    for thread in threads:
        thread.start()
        thread.join()
    assert _counted(filled) == UsageCounts(2, 1, 2, 1)


def test_more_visits_than_can_wait_are_lost_and_the_log_says_so(
    filled: NewArchive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ibi.archive.pages.visits.MOST_WAITING", 2)

    async def hear() -> None:
        visits = VisitCounter(filled.catalogue, filled.clock.seconds)
        for number in range(4):
            visits.add(ItemVisit(2, True, f"/{number}", lambda: "192.0.2.1", FIREFOX, NOW))
        await visits.close()

    asyncio.run(hear())
    assert "too many are waiting" in caplog.text
    with filled.catalogue.reading() as run:
        assert [
            line.counts.requests for line in usage_table.usage_by_month(run, None, "", "2023-01", "2023-12")
        ] == [2]


def test_many_visits_are_counted_before_their_second_has_passed(
    filled: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted all at once, the visits of a busy second would hold readers up."""
    monkeypatch.setattr("ibi.archive.pages.visits.COUNT_AFTER", 60.0)
    holding = filled.catalogue.holding(parse_name(IBI))
    assert holding is not None

    async def count() -> None:
        visits = VisitCounter(filled.catalogue, filled.clock.seconds)
        for turn in (1, 2):
            for number in range(MANY):
                url = f"/{turn}/{number}"
                visits.add(ItemVisit(holding.number, True, url, lambda: "192.0.2.1", FIREFOX, NOW))
            async with asyncio.timeout(30):
                while _counted(filled).requests < turn * MANY:  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.01)
        visits.add(ItemVisit(holding.number, True, "/last", lambda: "192.0.2.1", FIREFOX, NOW))
        await visits.close()

    asyncio.run(count())
    assert _counted(filled).requests == 2 * MANY + 1


def test_a_visit_that_cannot_be_counted_ends_no_counting(
    filled: NewArchive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ibi.archive.pages.visits.COUNT_AFTER", 0.05)
    holding = filled.catalogue.holding(parse_name(IBI))
    assert holding is not None

    def fault() -> str:
        raise ValueError("203.0.113.9 is an address that was not foreseen")

    async def count() -> None:
        visits = VisitCounter(filled.catalogue, filled.clock.seconds)
        for reader in (fault, lambda: "203.0.113.9"):
            visits.add(ItemVisit(holding.number, True, FILE, reader, FIREFOX, NOW))
            await asyncio.sleep(0.3)
        await visits.close()

    asyncio.run(count())
    assert _counted(filled) == UsageCounts(1, 1, 1, 1)
    assert "1 visits were not counted: ValueError" in caplog.text
    assert "203.0.113.9" not in caplog.text


@pytest.mark.long
def test_workers_agree_and_a_kill_loses_the_last_second_of_visits_only(filled: NewArchive) -> None:
    command = [
        sys.executable,
        "-m",
        "ibi",
        "archive",
        "serve",
        "--data",
        str(filled.data),
        "--bind",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(
        [*command, "--workers", "2"], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            served = Served(filled, int(process.stdout.readline().strip().rpartition(":")[2]))
            for _ in range(20):  # new connections, which the two workers share
                assert _visit(served, FILE) == 200
            end = time.monotonic() + 20
            while not _all_requests(filled) and time.monotonic() < end:
                time.sleep(0.1)
            time.sleep(1.5)  # the other worker has counted by then, too
            of_all = served.get("/-/api/statistics").body
            of_item = served.get(f"/-/api/items/{IBI}/statistics?from=2026-01").body
            wrong = ("/-/api/statistics?from=soon", "/-/api/items/a.example/b/2030/01.01.00.00/statistics")
            refused = [served.get(target).status for target in wrong]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert _all_requests(filled) == [1]
    month = f"{datetime.now(UTC):%Y-%m}"
    line = {"month": month} | UsageCounts(1, 1, 1, 1)._asdict()
    assert json.loads(of_all) == {"months": [line]}
    assert json.loads(of_item) == {"ibi": IBI, "months": [line]}
    assert refused == [422, 404]


def _all_requests(archive: NewArchive) -> list[int]:
    return [line.counts.requests for line in Statistics(archive.catalogue).of_all()]


# Who is a program, and where a reader is


@pytest.mark.parametrize(
    "agent",
    [
        "", " ", "-", "Googlebot/2.1 (+http://www.google.com/bot.html)", "Mozilla/5.0 (compatible; bingbot/2.0)",
        "CCBot/2.0", "ClaudeBot/1.0", "Bytespider", "python-requests/2.32", "Wget/1.21", "curl/8", "Java/17.0.1",
        "facebookexternalhit/1.1", "Mozilla/5.0 (compatible; AhrefsBot/7.0)", "okhttp/4.9", "GOOGLEBOT",
    ],
)  # fmt: skip
def test_programs_are_known_by_their_names(agent: str) -> None:
    assert is_program(agent)


@pytest.mark.parametrize(
    "agent",
    [
        FIREFOX,
        SAFARI,
        f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {CHROME} Safari/537.36",
        f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {CHROME} Safari/537.36 Edg/138.0",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
        f"Mozilla/5.0 (Linux; Android 15; Pixel 9) {CHROME} Mobile Safari/537.36",
    ],
)
def test_people_are_no_programs(agent: str) -> None:
    assert not is_program(agent)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that knows two countries."""
    path = tmp_path_factory.mktemp("geo") / "countries.mmdb"
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True)
    writer.insert_network(IPSet(["192.0.2.0/24"]), {"country": {"iso_code": "BR"}})
    writer.insert_network(IPSet(["2001:db8::/32"]), {"country": {"iso_code": "PT"}})
    writer.insert_network(IPSet(["198.51.100.0/24"]), {"country": {"iso_code": "not one"}})
    writer.to_db_file(str(path))
    return path


def test_countries_are_told_only_by_a_local_database(
    new_archive: Callable[..., NewArchive], world: Path
) -> None:
    archive = new_archive("127.0.0.1", trusted_proxies=("127.0.0.1/32",), geo_database=str(world))
    (archive.data / "x").write_bytes(b"x")
    archive.load(*ITEMS)
    with _serving(archive) as served:
        for address in ("192.0.2.1", "2001:db8::1", "2001:db8::2", "203.0.113.1"):
            _visit(served, FILE, x_forwarded_for=address)
    lines = [usage_json(line) for line in Statistics(archive.catalogue).of_each()]
    assert [(line.get("country"), line["requests"]) for line in lines] == [(None, 1), ("BR", 1), ("PT", 2)]
    assert {line["ibi"] for line in lines} == {IBI}


def test_a_country_that_cannot_be_told_is_left_open(
    world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    countries = CountryLookup(str(world))
    assert [countries.of(text) for text in ("192.0.2.9", "198.51.100.1", "8.8.8.8", "nonsense", "")] == [
        "BR",
        "",
        "",
        "",
        "",
    ]
    assert CountryLookup("").of("192.0.2.9") == ""
    assert caplog.text == ""
    damaged = tmp_path / "damaged.mmdb"
    damaged.write_bytes(world.read_bytes()[:-100])
    for path in (damaged, tmp_path / "absent"):
        caplog.clear()
        broken = CountryLookup(str(path))
        assert [broken.of("192.0.2.9"), broken.of("192.0.2.9")] == ["", ""]
        assert caplog.text.count("countries are not told any more") == 1


# What is told


@pytest.fixture
def counted(filled: NewArchive) -> NewArchive:
    """Two items over three months and two countries."""
    numbers = [holding.number for holding in filled.catalogue.all() if "/b/" in str(holding.forms.main)]
    with filled.catalogue.writing() as writer:
        for month in ("2023-10", "2023-11", "2024-01"):
            for country in ("", "BR"):
                usage_table.count_visits(writer.run, numbers[0], month, country, UsageCounts(4, 3, 2, 1))
        usage_table.count_visits(writer.run, numbers[1], "2023-11", "", UsageCounts(1, 1))
        usage_table.count_visits(writer.run, numbers[1], "2023-11", "", UsageCounts(1, 0))
    return filled


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["archive", "statistics", *words])
    written = capsys.readouterr()
    return status, written.out, written.err


def test_the_command_shows_months_to_people_and_lines_to_programs(
    counted: NewArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ("--data", str(counted.data))
    status, table, _ = _run(capsys, *data)
    assert status == 0
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["2023-10", "8", "6", "4", "2"],
        ["2023-11", "10", "7", "4", "2"],
        ["2024-01", "8", "6", "4", "2"],
    ]
    _, lines, _ = _run(capsys, *data, "--csv", "--from", "2023-11", "--to", "2023-12")
    rows = list(csv.reader(io.StringIO(lines)))
    assert rows[0] == ["ibi", "month", "country", *UsageCounts._fields]
    assert rows[1:] == [
        [IBI, "2023-11", "", "4", "3", "2", "1"],
        [IBI, "2023-11", "BR", "4", "3", "2", "1"],
        [LINKED, "2023-11", "", "2", "1", "0", "0"],
    ]
    _, text, _ = _run(capsys, *data, IBI, "--json", "--from", "2024-01")
    assert [json.loads(line) for line in text.splitlines()] == [
        {"ibi": IBI, "month": "2024-01"} | UsageCounts(4, 3, 2, 1)._asdict(),
        {"ibi": IBI, "month": "2024-01", "country": "BR"} | UsageCounts(4, 3, 2, 1)._asdict(),
    ]
    assert _run(capsys, *data, LINKED, "--to", "2020-01") == (0, "", "no use was counted\n")


def test_an_item_or_a_month_that_is_none_is_one_sentence(
    counted: NewArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("a.example/b/2019/01.01.00.00",), ("--from", "2024-13"), ("--to", "soon")):
        status, out, err = _run(capsys, "--data", str(counted.data), *words)
        assert (status, out) == (1, "")
        assert "Traceback" not in err
    with pytest.raises(ParseError):
        Statistics(counted.catalogue, "2024-1")


def test_a_report_of_many_items_is_read_page_by_page(
    filled: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.archive.store.tables.usage._PAGE", 3)
    with filled.catalogue.writing() as writer:
        for month in range(1, 11):
            usage_table.count_visits(writer.run, 1 + month % 3, f"2023-{month:02}", "", UsageCounts(month))
    lines = list(Statistics(filled.catalogue).of_each())
    assert sorted(line.counts.investigations for line in lines) == list(range(1, 11))
