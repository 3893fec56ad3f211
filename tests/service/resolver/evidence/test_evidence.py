"""The evidence: real files, several real processes, and what a crash or a hand from outside leaves behind."""

from __future__ import annotations

import ast
import fcntl
import hashlib
import inspect
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ibi
from ibi.errors import ParseError, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.cache.hints import HintCache
from ibi.resolver.evidence import daily_limit
from ibi.resolver.evidence.chain import (
    CHAIN_START,
    HEAD_WIDTH,
    Anchor,
    Entry,
    LogHead,
    NewEntry,
    read_line,
    write_line,
)
from ibi.resolver.evidence.files import EvidenceFiles
from ibi.resolver.evidence.kept import log_at
from ibi.resolver.evidence.log import EVIDENCE_FILE, FACTS, LONGEST_FACT, Evidence
from ibi.resolver.evidence.reading import rebuild_hints
from support.checks.flushed_files import flushes
from support.engines.shared_store import on_both_stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SERVICE, OTHER = "J8LNKB5R7W/3FUQHC5", "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
ITEM = IBIForms.parse("rep dpi.inpe.br/banon-pc@80/2008/04.28.18.07 ibip 8JMKD3MGP8W/35MMLL8")
MOMENT = 1_790_000_000.25
SOURCE = str(Path(ibi.__file__).parents[1])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on both stores, unless it looks at the files themselves."""
    named = inspect.signature(metafunc.function).parameters
    on_both_stores(metafunc, but=bool({"path", "tmp_path"} & named.keys()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / EVIDENCE_FILE


@pytest.fixture
def evidence(data: Path) -> Iterator[Evidence]:
    evidence = Evidence(data / EVIDENCE_FILE, lambda: MOMENT)
    yield evidence
    evidence.close()


def filled(path: Path, count: int = 5) -> list[bytes]:
    """A log of so many entries, and its lines."""
    EvidenceFiles(path).append(
        [
            NewEntry("2026-11-22T10:00:00.000Z", "excluded", {"ibi": SERVICE, "number": n})
            for n in range(count)
        ]
    )
    return path.read_bytes().splitlines(keepends=True)


def whats(evidence: Evidence) -> list[tuple[str, dict[str, str | int]]]:
    return [(entry.what, dict(entry.facts)) for entry in evidence.entries()]


def fault(evidence: Evidence, since: Anchor | None = None) -> str:
    """What is found wrong; "" if nothing is."""
    found = evidence.verify(since).fault
    return "" if found is None else str(found)


def soon(truth: Callable[[], bool]) -> None:
    """Wait until it is so; a slow machine has half a minute."""
    for _ in range(600):
        if truth():
            return
        time.sleep(0.05)
    raise AssertionError("it never came")


# ---- what an entry is


def test_each_line_carries_the_hash_of_the_one_before_as_any_program_can_compute_it(
    evidence: Evidence, path: Path
) -> None:
    evidence.write("registered", ibi=SERVICE, by="command")
    evidence.write("included", ibi=SERVICE, address="archive.example", confirmed=True)
    evidence.write("unregistered", ibi=SERVICE)
    before = "0" * 64
    for number, line in enumerate(path.read_text("ascii").splitlines(), 1):
        entry: dict[str, Any] = json.loads(line)
        assert list(entry) == ["number", "moment", "what", "facts", "previous", "hash"]
        assert (entry["number"], entry["previous"]) == (number, before)
        before = hashlib.sha256(line.partition(',"hash"')[0].encode()).hexdigest()
        assert entry["hash"] == before
        assert entry["moment"] == "2026-09-21T14:13:20.250Z"
    assert whats(evidence)[1] == (
        "included",
        {"ibi": SERVICE, "address": "archive.example", "confirmed": 1},
    )
    assert evidence.head() == Anchor(3, before) == evidence.verify().last


def test_a_log_that_was_never_written_to_is_whole_and_empty(evidence: Evidence, tmp_path: Path) -> None:
    assert (list(evidence.entries()), evidence.head(), fault(evidence)) == ([], CHAIN_START, "")
    assert "missing" in fault(evidence, Anchor(1, "0" * 64))
    assert list(tmp_path.iterdir()) == []


def test_the_head_tells_the_size_of_the_log_from_its_beginning_on(evidence: Evidence, data: Path) -> None:
    log = log_at(data / EVIDENCE_FILE)
    assert log.head() == LogHead(CHAIN_START, 0)
    for _ in range(2):
        evidence.write("registered", ibi=SERVICE)
        assert log.head() == LogHead(evidence.head(), sum(map(len, evidence.lines())))


def test_only_the_owner_reads_the_files(evidence: Evidence, path: Path) -> None:
    evidence.write("registered", ibi=SERVICE)
    assert [file.stat().st_mode & 0o777 for file in (path, path.with_suffix(".head"))] == [0o600, 0o600]


@pytest.mark.parametrize(
    ("fact", "kept"),
    [
        ("8JMKD3MGP8W/35MMLL8?secret=1", "8JMKD3MGP8W/35MMLL8"),
        ("a\r\n\u2028\ud800ü", "a....."),
        ("x" * 10_000, "x" * LONGEST_FACT),
        (" ".join(['"\\'] * 10_000), None),
    ],
)
def test_a_fact_is_plain_text_of_bounded_length_without_a_query(
    evidence: Evidence, fact: str, kept: str | None
) -> None:
    evidence.write("alert", kind=fact, ibi=fact, archives=fact)
    [(_, facts)] = whats(evidence)
    assert set(facts.values()) == {fact[:LONGEST_FACT] if kept is None else kept}
    assert fault(evidence) == ""


def test_what_is_no_fact_of_an_entry_never_reaches_the_disk(
    evidence: Evidence, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evidence.write("registered", ibi=SERVICE, key="12345678901234567890")
    evidence.write("unheard-of", ibi=SERVICE)
    assert whats(evidence) == [("registered", {"ibi": SERVICE}), ("unheard-of", {})]
    assert b"123456" not in path.read_bytes()
    assert "123456" not in caplog.text
    assert "left out of an entry registered: key" in caplog.text


def test_the_modules_of_the_resolver_record_only_known_facts() -> None:
    strange = []
    modules = Path(SOURCE, "ibi")
    for file in (*modules.glob("resolver/**/*.py"), *modules.glob("cli/resolver*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            named = [*call.args[:1], call.func]  # asyncio.to_thread(self._witness.write, "excluded", …)
            written = any(isinstance(f, ast.Attribute) and f.attr in {"write", "note"} for f in named)
            words = [a.value for a in call.args[:2] if isinstance(a, ast.Constant) and type(a.value) is str]
            if written and words and (call.keywords or words[0] in FACTS):
                facts = {keyword.arg for keyword in call.keywords if keyword.arg}
                strange += [f"{file.name}: {words[0]} {facts}"] if facts - FACTS.get(words[0], set()) else []
    assert strange == []


@given(st.binary(max_size=300))
def test_any_bytes_are_an_entry_or_none(data: bytes) -> None:
    for chained in (data, *_chained(data), *_chained(b'{"number":' + data)):
        entry = read_line(chained)
        assert entry is None or isinstance(entry, Entry)
    assert LogHead.read(data) is None
    assert LogHead.read(data.ljust(HEAD_WIDTH - 1) + b"\n") is None


def _chained(body: bytes) -> list[bytes]:
    return [body + b',"hash":"%b"}\n' % hashlib.sha256(body).hexdigest().encode()]


@pytest.mark.parametrize(
    "body",
    [
        b'{"number":1,"moment":"","what":"a","facts":{"a":{}},"previous":""',
        b'{"number":1.0,"moment":"","what":"a","facts":{},"previous":""',
        b'{"number":true,"moment":"","what":"a","facts":{},"previous":""',
        b'{"number":1,"moment":"","what":"a","facts":[],"previous":""',
        b'{"number":1,"moment":"","what":null,"facts":{},"previous":""',
        b'{"number":1,"moment":"","what":"a","facts":{},"previous":"","hash":"","more":1',
        b'{"number":' + b"9" * 5_000,
        b"[" * 60_000,
        b"1",
        b"",
    ],
)
def test_a_line_with_a_right_hash_may_still_be_no_entry(body: bytes) -> None:
    assert [read_line(line) for line in _chained(body)] == [None]


@pytest.mark.parametrize(
    "text",
    ["", "1", "1:", ":" + "0" * 64, "01:" + "0" * 64, "1:" + "A" * 64, "-1:" + "0" * 64, "0:" + "1" * 64],
)
def test_what_is_no_anchor_is_an_error(text: str) -> None:
    with pytest.raises(ParseError, match="an anchor is a number"):
        Anchor.parse(text)


# ---- in the background


def test_a_note_is_there_soon_without_being_waited_for(evidence: Evidence) -> None:
    evidence.note("unregistered", ibi=SERVICE)
    soon(lambda: whats(evidence) == [("unregistered", {"ibi": SERVICE})])


def test_closing_writes_what_waits_and_later_notes_are_counted(evidence: Evidence) -> None:
    for _ in range(2_500):  # more than one batch
        evidence.note("unregistered", ibi=SERVICE)
    evidence.close()
    assert (len(whats(evidence)), evidence.overflow) == (2_500, 0)
    evidence.note("unregistered", ibi=SERVICE)
    assert (len(whats(evidence)), evidence.overflow) == (2_500, 1)


def test_entries_beyond_the_capacity_are_counted_and_the_log_records_it(path: Path) -> None:
    evidence = Evidence(path, lambda: MOMENT, most=3)
    evidence.write("registered", ibi=SERVICE)
    with path.with_suffix(".head").open("rb") as head:
        fcntl.flock(head, fcntl.LOCK_EX)  # blocks every writer
        given = 0
        while evidence.overflow < 2 and given < 50:
            evidence.note("unregistered", ibi=SERVICE)
            given += 1
            time.sleep(0.1)  # the thread takes up to three, once: it waits for the lock then
    evidence.close()
    assert evidence.overflow == 2
    assert 3 + 2 < given <= 2 * 3 + 2
    written = whats(evidence)[1:]
    assert written.count(("unregistered", {"ibi": SERVICE})) == given - 2
    assert [each for each in written if each[0] != "unregistered"] == [("overflow", {"count": 2})]


def test_held_moves_are_noted_once_an_hour_for_each_address_and_only_so_many_a_day(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily_limit, "MOST_A_DAY", 3)
    evidence = Evidence(path, lambda: MOMENT)

    def hold(service: str, address: str) -> bool:
        return evidence.note("moved-address", ibi=service, outcome="held", address=address)

    for address in ("b.example", "c.example", "d.example") * 2:
        assert hold(SERVICE, address)
    assert evidence.flush()
    assert not hold(SERVICE, "e.example")
    assert hold(OTHER, "e.example")
    evidence.write("moved-address", ibi=SERVICE, outcome="done", address="e.example")  # has no limit
    evidence.close()
    found = [(facts.get("ibi"), facts.get("address"), facts.get("count")) for _, facts in whats(evidence)]
    assert sorted(found, key=str) == [
        (SERVICE, "b.example", None),
        (SERVICE, "c.example", None),
        (SERVICE, "d.example", None),
        (SERVICE, "e.example", None),
        (OTHER, "e.example", None),
        (None, None, 1),
    ]


def test_the_same_alert_original_or_removal_is_noted_once_an_hour(path: Path) -> None:
    now = [MOMENT]
    evidence = Evidence(path, lambda: now[0])
    for _ in range(3):
        evidence.original(ITEM, SERVICE)
        evidence.alert("suspect-originals", ITEM.main.canonical, [SERVICE, OTHER], ITEM.canonicals)
        evidence.alert("suspect-originals", ITEM.main.canonical, [OTHER, SERVICE], ITEM.canonicals)
        evidence.migrated(ITEM, SERVICE, OTHER)  # it may go to and fro
    evidence.deleted(ITEM, SERVICE)
    now[0] += 3_600
    evidence.deleted(ITEM, SERVICE)
    evidence.close()
    assert sorted(what for what, _ in whats(evidence)) == [
        "alert",
        "deleted",
        "deleted",
        "migrated",
        "migrated",
        "migrated",
        "original",
    ]


def test_what_was_noted_again_after_an_hour_is_remembered_longer_than_what_was_noted_once(path: Path) -> None:
    now = [MOMENT]
    evidence = Evidence(path, lambda: now[0], most=2)

    def note(archive: str) -> None:
        evidence.deleted(ITEM, archive)
        assert evidence.flush()

    note(SERVICE)
    now[0] += 3_599
    note(OTHER)
    now[0] += 1
    note(SERVICE)
    note("third.example/a/2020/01.01.00.00")  # two are remembered: OTHER was noted before the others
    note(SERVICE)
    evidence.close()
    noted = [facts["archive"] for _, facts in whats(evidence)]
    assert noted == [SERVICE, OTHER, SERVICE, "third.example/a/2020/01.01.00.00"]


def test_the_first_entry_survives_a_power_cut_with_the_names_of_both_files(path: Path) -> None:
    with flushes() as flushed:
        filled(path, 1)
    assert flushed.lacking(path.parent) == []


def test_the_head_is_on_the_disk_before_the_first_entry(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a log without a head is always damage."""
    flushed, flush = [], os.fsync

    def noting(handle: int) -> None:
        flush(handle)
        flushed.append(Path(f"/proc/self/fd/{handle}").readlink())

    monkeypatch.setattr(os, "fsync", noting)
    filled(path, 1)
    assert flushed[0] == EvidenceFiles(path).head_path
    assert flushed[1] == path


# ---- several processes, and kills

WRITER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from ibi.resolver.evidence.log import Evidence
    evidence = Evidence(Path(sys.argv[1]), time.time)
    for number in range(int(sys.argv[3])):
        if number % 2:
            evidence.note("excluded", ibi=sys.argv[2], source=f"note {number}")
        else:
            evidence.write("excluded", ibi=sys.argv[2], source=f"write {number}")
            print(number, flush=True)
    evidence.close()
""")


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": SOURCE})


def test_several_processes_write_one_log(path: Path, evidence: Evidence) -> None:
    processes = [writer(path, f"w/{number}", 100) for number in range(4)]
    while any(process.poll() is None for process in processes):
        assert fault(evidence) == ""  # read while they write
        time.sleep(0.02)
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 4
    assert (fault(evidence), evidence.verify().entries, evidence.verify().damage) == ("", 400, 0)
    for number in range(4):
        mine = [str(facts["source"]) for _, facts in whats(evidence) if facts["ibi"] == f"w/{number}"]
        for kind in ("write", "note"):  # each in its order
            counts = [int(source.split()[1]) for source in mine if source.startswith(kind)]
            assert counts == list(range(0 if kind == "write" else 1, 100, 2))


@pytest.mark.long
def test_what_was_acknowledged_survives_kills_and_nothing_is_merged(path: Path, evidence: Evidence) -> None:
    chance = random.Random(17)
    for turn in range(6):
        processes = [writer(path, f"w/{turn}.{number}", 100_000) for number in range(2)]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(chance.uniform(0, 0.2))
        for process in processes:
            process.send_signal(signal.SIGKILL)
        acknowledged = [process.communicate()[0].split() for process in processes]
        evidence.write("unregistered", ibi=SERVICE)
        assert fault(evidence) == ""
        for number, numbers in enumerate(acknowledged):
            mine = {str(f["source"]) for _, f in whats(evidence) if f.get("ibi") == f"w/{turn}.{number}"}
            assert {f"write {counts}" for counts in ["0", *numbers]} <= mine
    assert {facts["kind"] for what, facts in whats(evidence) if what == "damage"} <= {"torn"}


# ---- what a crash leaves


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_half_a_line_is_cut_off_by_the_next_writer_who_says_so(
    path: Path, evidence: Evidence, cut: int
) -> None:
    lines = filled(path)
    half = write_line(evidence.head(), NewEntry("", "excluded", {}))[0][:cut]
    with path.open("ab") as file:
        file.write(half)
    assert (fault(evidence), evidence.verify().entries) == ("", 5)
    assert b"".join(evidence.lines()) == b"".join(lines)
    evidence.write("unregistered", ibi=SERVICE)
    assert path.read_bytes().startswith(b"".join(lines))
    assert whats(evidence)[5:] == [
        ("damage", {"kind": "torn", "bytes": len(half)}),
        ("unregistered", {"ibi": SERVICE}),
    ]
    assert (fault(evidence), evidence.verify().damage) == ("", 1)


def test_entries_that_the_head_does_not_know_yet_are_kept_as_they_are(path: Path, evidence: Evidence) -> None:
    filled(path)
    head = path.with_suffix(".head").read_bytes()
    filled(path)
    path.with_suffix(".head").write_bytes(head)  # killed between the entries and the head
    assert (fault(evidence), evidence.verify().entries) == ("", 10)
    evidence.write("unregistered", ibi=SERVICE)
    assert (fault(evidence), evidence.verify().entries, evidence.verify().damage) == ("", 11, 0)


def test_a_disk_that_is_full_leaves_the_log_as_it_was(path: Path, evidence: Evidence) -> None:
    lines = filled(path)
    script = textwrap.dedent(f"""
        import resource, signal, sys
        from pathlib import Path
        from ibi.errors import SetupError
        from ibi.resolver.evidence.log import Evidence
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({path.stat().st_size + 50}, resource.RLIM_INFINITY))
        evidence = Evidence(Path({str(path)!r}), lambda: 0.0)
        evidence.note("unregistered", ibi={SERVICE!r})
        try:
            evidence.write("unregistered", ibi={SERVICE!r})
        except SetupError as error:
            print(error)
        evidence.close()
        print(evidence.overflow)
    """)
    environment = {"PYTHONPATH": SOURCE}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == f"{path} cannot be written: File too large\n1\n"
    assert done.stderr.count("cannot be written") in {1, 2}
    assert path.read_bytes() == b"".join(lines)
    evidence.write("unregistered", ibi=SERVICE)
    assert (fault(evidence), evidence.verify().entries, evidence.verify().damage) == ("", 6, 0)


# ---- a hand from outside


def _replaced(line: bytes) -> bytes:
    return line.replace(b'"number":2}', b'"number":7}')


def _resealed(line: bytes) -> bytes:
    return _chained(_replaced(line).rpartition(b',"hash"')[0])[0]


TAMPERED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": lambda lines: [*lines[:2], _replaced(lines[2]), *lines[3:]],
    "changed, with a new hash of its own": lambda lines: [*lines[:2], _resealed(lines[2]), *lines[3:]],
    "removed": lambda lines: [*lines[:2], *lines[3:]],
    "first removed": lambda lines: lines[1:],
    "last removed": lambda lines: lines[:-1],
    "all removed": lambda _: [],
    "exchanged": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "last exchanged": lambda lines: [*lines[:3], lines[4], lines[3]],
    "repeated": lambda lines: [*lines[:3], *lines[2:]],
    "an empty line": lambda lines: [*lines[:3], b"\n", *lines[3:]],
    "a line of its own": lambda lines: [*lines, b"hello\n"],
    "end cut off within a line": lambda lines: [*lines[:4], lines[4][:30]],
    "end cut off, something else there": lambda lines: [*lines[:4], b"x" * 5_000],
    "another line end": lambda lines: [*lines[:4], lines[4][:-1] + b"\r\n"],
}


@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_shows_and_still_shows_after_the_next_entries(
    path: Path, evidence: Evidence, how: str
) -> None:
    lines = filled(path)
    assert fault(evidence) == ""
    path.write_bytes(b"".join(TAMPERED[how](lines)))
    assert fault(evidence)
    for _ in range(2):
        evidence.write("unregistered", ibi=SERVICE)
        assert fault(evidence)
    assert whats(evidence)[-1] == ("unregistered", {"ibi": SERVICE})


def test_a_line_end_that_was_taken_away_is_put_back(path: Path, evidence: Evidence) -> None:
    lines = filled(path)
    path.write_bytes(b"".join(lines)[:-1])
    assert fault(evidence) == "line 5 is not as it was written"
    evidence.write("unregistered", ibi=SERVICE)
    assert path.read_bytes().startswith(b"".join(lines))
    assert (fault(evidence), whats(evidence)[5]) == ("", ("damage", {"kind": "end", "number": 5}))


def test_a_fault_names_its_line(path: Path, evidence: Evidence) -> None:
    lines = filled(path)
    path.write_bytes(b"".join(TAMPERED["changed"](lines)))
    assert fault(evidence) == "line 3 is not as it was written"
    path.write_bytes(b"".join(TAMPERED["removed"](lines)))
    assert fault(evidence).startswith("line 3: entry 4 comes after entry 2:")
    path.write_bytes(b"".join(TAMPERED["changed, with a new hash of its own"](lines)))
    assert fault(evidence).startswith("line 4: entry 4 was written after another entry")
    path.write_bytes(b"".join(lines[:3]))
    assert fault(evidence).startswith("the last entry is number 3, but number 5 was written")
    evidence.write("unregistered", ibi=SERVICE)
    assert whats(evidence)[3:] == [
        ("damage", {"kind": "end", "number": 5}),
        ("unregistered", {"ibi": SERVICE}),
    ]
    assert fault(evidence).startswith("line 4: entry 6 comes after entry 3:")


def _rewritten(lines: list[bytes]) -> list[bytes]:
    """The third entry changed and all later hashes computed anew, as an attacker would do."""
    last, done = CHAIN_START, []
    for line in lines:
        entry = read_line(line)
        assert entry is not None
        facts = entry.facts if entry.number != 3 else {**entry.facts, "ibi": OTHER}
        chained, last = write_line(last, NewEntry(entry.moment, entry.what, facts))
        done.append(chained)
    return done


def test_a_log_that_is_written_anew_is_found_by_the_head(path: Path, evidence: Evidence) -> None:
    path.write_bytes(b"".join(_rewritten(filled(path))))
    assert fault(evidence) == "entry 5 is not the one that evidence.head tells of"
    evidence.write("unregistered", ibi=SERVICE)
    assert fault(evidence).startswith("line 6: entry 6 was written after another entry")


def test_files_that_are_both_written_anew_are_found_only_by_an_anchor_elsewhere(
    path: Path, evidence: Evidence
) -> None:
    lines = filled(path)
    anchor = evidence.head()
    path.write_bytes(b"".join(_rewritten(lines)))
    path.with_suffix(".head").unlink()
    evidence.write("unregistered", ibi=SERVICE)
    assert (fault(evidence), evidence.verify().damage) == ("", 1)  # only that the head was missing
    assert fault(evidence, anchor) == "entry 5 is not the one that the anchor names"


def test_files_that_are_both_set_back_are_found_only_by_an_anchor_elsewhere(
    path: Path, evidence: Evidence
) -> None:
    filled(path)
    files = (path, path.with_suffix(".head"))
    before = [file.read_bytes() for file in files]
    evidence.write("unregistered", ibi=SERVICE)
    anchor = evidence.head()
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)
    assert fault(evidence) == ""
    assert fault(evidence, anchor) == (
        "the last entry is number 5, but number 6 was written: the last ones are missing"
    )
    evidence.write("excluded", ibi=SERVICE)
    assert fault(evidence, anchor) == "entry 6 is not the one that the anchor names"


def test_an_anchor_kept_elsewhere_stays_good_as_the_log_grows(path: Path, evidence: Evidence) -> None:
    filled(path)
    anchor = Anchor.parse(str(evidence.head()))
    filled(path)
    assert (fault(evidence, anchor), fault(evidence, CHAIN_START)) == ("", "")


@pytest.mark.parametrize("content", [None, b"", b"x" * HEAD_WIDTH, b"[]\n"])
def test_a_head_that_is_lost_is_a_fault_until_the_next_entry_tells_of_it(
    path: Path, evidence: Evidence, content: bytes | None
) -> None:
    filled(path)
    head = path.with_suffix(".head")
    if content is None:
        head.unlink()
    else:
        head.write_bytes(content)
    assert fault(evidence).startswith("evidence.head is missing or damaged")
    with pytest.raises(SetupError, match="missing or damaged"):
        evidence.head()
    evidence.write("unregistered", ibi=SERVICE)
    assert (fault(evidence), evidence.verify().damage, evidence.verify().entries) == ("", 1, 7)
    assert whats(evidence)[5] == ("damage", {"kind": "head"})


def test_a_bit_of_the_head_does_no_harm_to_the_entries(path: Path, evidence: Evidence) -> None:
    lines = filled(path)
    head = path.with_suffix(".head")
    content = head.read_bytes()
    for byte in range(0, len(content), 7):
        head.write_bytes(content[:byte] + bytes([content[byte] ^ 1]) + content[byte + 1 :])
        assert fault(evidence).startswith("evidence.head is missing or damaged")
        evidence.write("unregistered", ibi=SERVICE)
        assert path.read_bytes().startswith(b"".join(lines))
        assert (fault(evidence), whats(evidence)[5]) == ("", ("damage", {"kind": "head"}))
        path.write_bytes(b"".join(lines))


def test_with_both_files_put_aside_a_running_writer_begins_a_new_log(path: Path, evidence: Evidence) -> None:
    evidence.write("registered", ibi=SERVICE)
    moved = path.parent / "moved"
    moved.mkdir()
    for file in (path, path.with_suffix(".head")):
        file.rename(moved / file.name)
    evidence.write("unregistered", ibi=SERVICE)
    assert whats(evidence) == [("unregistered", {"ibi": SERVICE})]
    old = Evidence(moved / EVIDENCE_FILE, lambda: MOMENT)
    assert (fault(evidence), fault(old), whats(old)) == ("", "", [("registered", {"ibi": SERVICE})])


# ---- a large log


def test_writing_reads_only_the_end_and_verifying_keeps_no_line(path: Path, evidence: Evidence) -> None:
    filled(path, 4_000)

    def read() -> int:
        counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
        return int(counts["rchar"])

    before = read()
    Evidence(path, lambda: MOMENT).write("unregistered", ibi=SERVICE)
    assert read() - before < 10_000 < path.stat().st_size / 50
    tracemalloc.start()
    try:
        assert evidence.verify().entries == 4_001
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 4
    finally:
        tracemalloc.stop()


def test_a_log_that_cannot_be_read_or_written_is_a_sentence(path: Path, evidence: Evidence) -> None:
    path.mkdir()
    for attempt in (evidence.verify, lambda: list(evidence.entries())):
        with pytest.raises(SetupError, match="cannot be read: Is a directory"):
            attempt()
    with pytest.raises(SetupError, match="cannot be written: Is a directory"):
        evidence.write("registered", ibi=SERVICE)


# ---- who showed an Original first


def test_the_hints_are_made_anew_from_the_log(evidence: Evidence, tmp_path: Path) -> None:
    first, third = (parse_ibi(name).canonical for name in (SERVICE, "QABCDSTQQW/35MMLL8"))
    stays = IBIForms.parse("ibip QABCDSTQQW/3FUQHC5")
    evidence.original(ITEM, OTHER.upper())
    evidence.original(ITEM, SERVICE)  # a later claim changes nothing
    evidence.original(stays, SERVICE)
    evidence.migrated(ITEM, OTHER, third)
    evidence.deleted(stays, OTHER)
    disputed = IBIForms.parse("rep example.org/disputed@80/2020/01.01.00.00")
    evidence.original(disputed, SERVICE)
    evidence.write("alert", kind="suspect-originals", ibi=str(disputed.main), archives=f"{SERVICE} {OTHER}")
    evidence.original(disputed, OTHER)
    evidence.close()
    hints = HintCache(tmp_path / "hints")
    assert not hints.is_complete()
    assert rebuild_hints(hints, evidence.entries()) == 6
    assert hints.is_complete()
    assert {hints.of(canonical).original for canonical in ITEM.canonicals} == {third}
    assert {hints.of(canonical).original for canonical in stays.canonicals} == {first}
    (name,) = disputed.canonicals
    assert (hints.of(name).original, hints.first_holder(name)) == (
        "",
        first,
    )  # neither is known after an alert (T04)
    hints.close()


def test_hints_made_anew_dispute_what_was_disputed_and_not_the_item_of_the_url(path: Path) -> None:
    """A URL with `!` leads from its item to the last edition, whose original two Archives claim."""
    evidence = Evidence(path, lambda: MOMENT)
    edition = IBIForms.parse("rep example.org/edition@80/2021/01.01.00.00 ibip QABCDSTQQW/3FUQHC5")
    evidence.original(ITEM, SERVICE)
    evidence.original(edition, SERVICE)
    evidence.alert("suspect-originals", str(ITEM.main), [SERVICE, OTHER], edition.canonicals)
    evidence.alert("suspect-originals", str(ITEM.main), [SERVICE, OTHER], ())
    evidence.close()
    hints = HintCache(path.parent / "hints")
    rebuild_hints(hints, evidence.entries())
    assert {hints.of(name).original for name in ITEM.canonicals} == {parse_ibi(SERVICE).canonical}
    assert {hints.of(name).original for name in edition.canonicals} == {""}
    hints.close()
