"""The evidence page by page: which entries stand on each, and what an alert of two originals tells of its item."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence import reading
from ibi.resolver.evidence.chain import CHAIN_START, LONGEST_LINE, Entry, NewEntry, write_line
from ibi.resolver.evidence.reading import (
    LogSlice,
    OriginalsAlerts,
    alert_facts,
    entry_facts,
    entry_filter,
    read_slice,
)

ITEM, OTHER = "J8LNKB5R7W/3FUQHC5", "8JMKD3MGP8W/35MMLL8"
A, B = "a.example/w/2020/01.01.00.00", "b.example/w/2020/01.01.00.00"


class Log:
    """A log that grows; `lines` are those that were written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "evidence.jsonl"
        self.path.touch()
        self.lines: list[bytes] = []
        self._last = CHAIN_START

    def add(self, what: str, **facts: str | int) -> None:
        line, self._last = write_line(self._last, NewEntry(f"moment {len(self.lines) + 1}", what, facts))
        self.lines.append(line)
        self.write(self.lines)

    def write(self, lines: Iterable[bytes]) -> None:
        self.path.write_bytes(b"".join(lines))

    def at(self, number: int) -> int:
        """How many bytes come before the entry with this number."""
        return sum(map(len, self.lines[: number - 1]))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.fixture
def ten(log: Log) -> Log:
    for number in range(1, 11):
        log.add("odd" if number % 2 else "even", count=number)
    return log


def every(_: Entry) -> bool:
    return True


def numbers(entries: Iterable[Entry]) -> list[int]:
    return [entry.number for entry in entries]


@pytest.mark.parametrize(
    ("before", "most", "found"),
    [
        (0, 200, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (0, 3, [10, 9, 8]),
        (5, 2, [4, 3]),
        (1, 2, []),
        (11, 1, [10]),
        (99, 1, [10]),
    ],
)
def test_a_page_has_the_latest_entries_first(ten: Log, before: int, most: int, found: list[int]) -> None:
    page = read_slice(ten.path, every, before, most)
    assert numbers(page.entries) == found
    assert (page.at, page.unread) == (ten.at(found[-1]) if found else 0, 0)


def test_the_next_page_begins_where_the_last_one_ended(ten: Log) -> None:
    pages_read, at = list[list[int]](), 0
    while not pages_read or at:
        page = read_slice(ten.path, lambda entry: entry.what == "even", most=2, at=at)
        pages_read.append(numbers(page.entries))
        at = page.at
    assert pages_read == [[10, 8], [6, 4], [2]]


def test_of_a_long_log_only_the_end_is_read(ten: Log) -> None:
    size = len(ten.lines[-1]) + len(ten.lines[-2])
    for more, found in ((-1, [10]), (0, [10]), (1, [10, 9]), (len(ten.lines[-3]), [10, 9])):
        page = read_slice(ten.path, every, slice_bytes=size + more)
        assert (numbers(page.entries), page.at) == (found, ten.at(found[-1])), more


def test_damaged_lines_are_counted_and_one_that_is_being_written_is_not(ten: Log) -> None:
    ten.write([*ten.lines[:5], b"x" + ten.lines[5][1:], *ten.lines[6:], b'{"number":11'])
    page = read_slice(ten.path, every)
    assert (numbers(page.entries), page.unread) == ([10, 9, 8, 7, 5, 4, 3, 2, 1], 1)
    ten.write([*ten.lines, b"x" * (LONGEST_LINE - 1)])
    assert read_slice(ten.path, every).unread == 0
    ten.write([*ten.lines, b"x" * LONGEST_LINE])
    assert read_slice(ten.path, every).unread == 1
    ten.write([*ten.lines, b"half", b" and whole\n"])
    assert read_slice(ten.path, every).unread == 1


def test_without_a_log_there_is_nothing(tmp_path: Path) -> None:
    assert read_slice(tmp_path / "none", every) == ([], 0, 0)
    assert OriginalsAlerts(tmp_path / "none").read() == ([], 0, 0)


def test_a_number_is_found_in_a_long_log_with_damaged_parts(log: Log) -> None:
    for number in range(1, 60):
        log.add("long", text="x" * 5_000, count=number)
    damaged = [
        b"?" * (len(line) - 1) + b"\n" if 20 <= at < 30 else line for at, line in enumerate(log.lines, 1)
    ]
    for lines in (log.lines, damaged):
        log.write(lines)
        for before in range(2, 61):
            found = read_slice(log.path, every, before, 1, slice_bytes=100_000)
            assert numbers(found.entries) == [
                before - 1 if lines is log.lines or not 20 < before <= 30 else 19
            ]


def test_which_entries_are_about_what(log: Log) -> None:
    log.add("original", ibi=f"rep {A} ibip {ITEM.lower()}", archive=B)
    log.add("excluded", ibi=A, still_answers=1)
    log.add("alert", kind="not-found", ibi="nothing/at all", archives="")
    entries = read_slice(log.path, every).entries
    for what, ibi, found in (
        ("", "", [3, 2, 1]),
        ("alert", "", [3]),
        ("", ITEM, [1]),
        ("", A, [2, 1]),
        ("excluded", ITEM, []),
        ("excluded", A.upper(), [2]),
        ("", OTHER, []),
    ):
        assert numbers(filter(entry_filter(what, ibi), entries)) == found, (what, ibi)
    with pytest.raises(ParseError):
        entry_filter("", "no name")
    assert entry_facts(entries[1]) == {
        "number": 2, "moment": "moment 2", "what": "excluded", "facts": {"ibi": A, "still_answers": 1},
        "previous": entries[2].hash, "hash": entries[1].hash,
    }  # fmt: skip


def dispute(log: Log, item: str = ITEM) -> None:
    log.add("alert", kind="suspect-originals", ibi=item, archives=f"{A} {B}", disputed=item)


def test_an_alert_tells_who_was_first_and_what_each_claimant_did(log: Log) -> None:
    log.add("settled", ibi=ITEM, by="root")
    log.add("original", ibi=ITEM, archive=A)
    log.add("original", ibi=OTHER, archive=B)
    log.add("migrated", ibi=ITEM, **{"from": A, "to": B})
    log.add("included", ibi=A, address="a.example", confirmed=1)
    dispute(log)
    log.add("alert", kind="not-found", ibi=ITEM, archives="")
    log.add("deleted", ibi=ITEM.lower(), archive=B)
    entries = dict(enumerate(reversed(read_slice(log.path, every).entries), 1))
    (alert,) = OriginalsAlerts(log.path).read().alerts
    assert (alert.item, alert.claimants, numbers(alert.history)) == (ITEM, (A, B), [1, 2, 4, 8])
    assert (alert.first, alert.settled) == (entries[2], None)
    assert (numbers(alert.about(A)), numbers(alert.about(B)), alert.about(OTHER)) == ([2, 4], [4, 8], [])
    facts = {
        "ibi": ITEM, "moment": "moment 6", "alert": entry_facts(entries[6]), "first": entry_facts(entries[2]),
        "settled": None,
        "claimants": [
            {"archive": A, "told": [entry_facts(entries[2]), entry_facts(entries[4])]},
            {"archive": B, "told": [entry_facts(entries[4]), entry_facts(entries[8])]},
        ],
    }  # fmt: skip
    assert alert_facts(alert) == facts
    log.add("settled", ibi=ITEM, by="root")
    (alert,) = OriginalsAlerts(log.path).read().alerts
    assert alert.settled is not None
    assert (alert.settled.number, alert_facts(alert)["settled"]) == (9, entry_facts(alert.settled))


def test_an_alert_of_an_item_of_which_nothing_is_known(log: Log) -> None:
    dispute(log)
    log.add("alert", kind="suspect-originals", archives="")
    known, unknown = reversed(OriginalsAlerts(log.path).read().alerts)
    assert (known.first, known.settled, known.history) == (None, None, ())
    assert (unknown.item, unknown.claimants, unknown.history) == ("", (), ())


def test_open_alerts_of_an_item(log: Log) -> None:
    dispute(log)
    dispute(log, OTHER)
    alerts = OriginalsAlerts(log.path)
    canonical = parse_ibi(ITEM).canonical
    assert [numbers([each.alert]) for each in alerts.open_of(canonical)] == [[1]]
    log.add("settled", ibi=ITEM, by="root")
    assert alerts.open_of(canonical) == []
    dispute(log)
    assert [each.alert.number for each in alerts.open_of(canonical)] == [4]


def test_a_page_has_so_many_alerts_and_each_so_much_of_its_item(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(52):
        log.add("original", ibi=ITEM, archive=A, count=number)
    for _ in range(21):
        dispute(log)
    log.add("settled", ibi=ITEM, by="root")
    alerts = OriginalsAlerts(log.path)
    first = alerts.read()
    assert [each.alert.number for each in first.alerts] == [*range(73, 53, -1)]
    assert numbers(first.alerts[0].history) == [*range(1, 51), 74]
    assert [each.alert.number for each in alerts.read(at=first.at).alerts] == [53]
    assert [each.alert.number for each in alerts.read(before=55).alerts] == [54, 53]
    monkeypatch.setattr(reading, "ALERTS_BYTES", len(log.lines[-1]) + 1)
    assert numbers(OriginalsAlerts(log.path).read().alerts[0].history) == [74]


def test_pages_are_read_once_until_the_log_grows_and_only_so_many_are_kept(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispute(log)
    reads: list[tuple[int, int]] = []

    def counted(path: Path, wanted: Callable[[Entry], bool], before: int, most: int, *, at: int) -> LogSlice:
        reads.append((before, at))
        return read_slice(path, wanted, before, most, at=at)

    monkeypatch.setattr(reading, "read_slice", counted)
    alerts = OriginalsAlerts(log.path)
    for before in (0, 0, 1, 2, 3, 0):
        alerts.read(before)
    assert reads == [(0, 0), (1, 0), (2, 0), (3, 0)]
    alerts.read(4)  # a fifth one drops the first
    alerts.read(1)
    alerts.read(0)
    assert reads[4:] == [(4, 0), (0, 0)]
    dispute(log)
    alerts.read(0)
    assert reads[6:] == [(0, 0)]
