"""The benchmarks' own program: rows run and are kept, a run can be gone on with, and figures get into the document."""

from __future__ import annotations

import asyncio
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.against import ComparedLine
from bench.against_rows import Turn
from bench.document import filled
from bench.figures import Aim, figure
from bench.open_loop import open_loop
from bench.processes import NotStarted
from bench.questions import Questions
from bench.results import Result, path_of
from bench.rows import ROWS
from bench.stub_changes import LoggedArchive, notices_of, place_of
from bench.trace_load import Truth, clicks_by_second
from bench.turns import turn_about

from ibi.protocol.extensions.changes import ChangesReply, ChangesRequest, Validity
from ibi.protocol.messages import ChangeNotification, read_request
from ibi.protocol.url_list import UrlList
from support.style.layers import ROOT

ANSWER = b"HTTP/1.1 302 Found\r\nLocation: http://far.example/\r\nContent-Length: 2\r\n\r\nok"


def _bench(tmp_path: Path, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(["src", "."])}
    env["PATH"] = env["PATH"] if path is None else path
    command = [sys.executable, "-m", "bench", "--tiny", "--dir", str(tmp_path), "--results", str(tmp_path)]
    return subprocess.run([*command, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_a_row_is_measured_and_kept_and_a_run_that_is_gone_on_with_leaves_it_out(tmp_path: Path) -> None:
    first = _bench(tmp_path, "--only", "codecs")
    assert (first.returncode, first.stderr) == (0, "")
    kept = json.loads(path_of(tmp_path, "tiny", "codecs").read_text())
    assert kept["text"] in first.stdout
    assert "| parse: IBIp |" in kept["text"]
    assert kept["versions"]["CPython"] == ".".join(map(str, sys.version_info[:3]))
    assert kept["command"] == "python -m bench --tiny --only codecs"
    path_of(tmp_path, "tiny", "codecs").write_text("{}")
    again = _bench(tmp_path, "--resume", "--only", "codecs")
    assert (again.returncode, "codecs: measured already" in again.stdout) == (0, True)
    assert path_of(tmp_path, "tiny", "codecs").read_text() == "{}"


def test_a_row_whose_programs_are_missing_says_so_and_has_no_figure(tmp_path: Path) -> None:
    done = _bench(tmp_path, "--only", "pages", path=str(tmp_path))
    assert done.returncode == 0
    kept = json.loads(path_of(tmp_path, "tiny", "pages").read_text())
    assert kept["text"] == "not measured: wrk is not here (Debian package wrk)"


def _result(row: str, began: str, text: str, *aims: Aim) -> Result:
    return Result(row, "short", began, 61.0, "python -m bench", "a machine", {"nginx": "1.2"}, text, aims)


def test_only_what_stands_between_the_marks_of_a_row_that_was_measured_is_written_anew(
    tmp_path: Path,
) -> None:
    held, missed = Aim("speed", "at least 2", "3", held=True), Aim("size", "at most 2", "3", held=False)
    _result("pages", "2026-01-02T00:00:00Z", "| new |", held, missed).write(
        path_of(tmp_path, "short", "pages")
    )
    _result("pages", "2026-01-01T00:00:00Z", "| older |").write(path_of(tmp_path, "full", "pages"))
    text = (
        "By hand.\n\n<!-- bench: aims -->\n<!-- end -->\n\n# Pages\n\n<!-- bench: pages -->\n| old |\n<!-- end -->\n"
        "\nMore.\n\n<!-- bench: files -->\n| stays |\n<!-- end -->\n"
    )
    written = filled(text, tmp_path)
    assert "| speed | pages | at least 2 | 3 | yes |\n| size | pages | at most 2 | 3 | **no** |" in written
    assert "Versions: nginx 1.2." in written
    assert (
        "<!-- bench: pages -->\n\n2026-01-02, `python -m bench`, 61 s; a machine.\n\n| new |\n\n" in written
    )
    assert written.startswith("By hand.\n")
    assert written.endswith("More.\n\n<!-- bench: files -->\n| stays |\n<!-- end -->\n")
    assert "old" not in written
    assert filled(written, tmp_path) == written


def test_the_results_have_a_place_for_every_row() -> None:
    text = (ROOT / "bench/RESULTS.md").read_text()
    assert [row for row in (*ROWS, "aims") if text.count(f"<!-- bench: {row} -->\n") != 1] == []
    assert text.count("<!-- bench: ") == text.count("<!-- end -->")


def test_those_that_are_compared_work_turn_about() -> None:
    order = list[str]()
    found = turn_about({name: lambda name=name: order.append(name) for name in "abc"}, 3)  # type: ignore[misc]  # bound as it is now
    assert "".join(order) == "abccbaabc"
    assert {name: len(runs) for name, runs in found.items()} == {"a": 3, "b": 3, "c": 3}


def test_a_ratio_is_taken_run_by_run() -> None:
    assert (figure([2.0, 9.0]) / figure([1.0, 3.0])).runs == (2.0, 3.0)


def test_a_checkout_that_needs_half_the_processor_in_the_same_time_has_a_ratio_of_two_by_the_processor_alone() -> (
    None
):
    line = ComparedLine("minting", "label", then=(Turn(100, 2.0, 4.0),), today=(Turn(100, 1.0, 4.0),))
    assert (line.by_processor.runs, line.by_clock.runs) == ((2.0,), (1.0,))


def test_turns_in_which_others_had_the_core_do_not_count_unless_most_of_them_were_so() -> None:
    calm, disturbed = Turn(100, 1.0, 1.0, held_up=0.1), Turn(100, 2.0, 9.0, held_up=2.0)
    assert ComparedLine("a", "b", (calm, calm, calm), (calm, disturbed, calm)).by_processor.runs == (1.0, 1.0)
    assert ComparedLine("a", "b", (calm,) * 3, (calm, disturbed, disturbed)).by_processor.runs == (1.0, 0.5)


@pytest.mark.long
def test_today_and_a_commit_are_measured_turn_about_and_the_repository_stays_as_it_is(tmp_path: Path) -> None:
    kept, git = tmp_path / "kept.json", ["git", "-C", str(ROOT), "worktree", "list"]
    before = subprocess.run(git, capture_output=True, check=True).stdout
    words = f"HEAD --tiny --only minting --turns 1 --dir {tmp_path} --json {kept}".split()
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(["src", "."])}
    command = [sys.executable, "-m", "bench.against", *words]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = json.loads(kept.read_text())["lines"]
    assert [f"| minting: {line['name']} |" in done.stdout for line in lines] == [True] * 3
    turns = [turn for line in lines for side in ("then", "today") for turn in line[side]]
    assert len(turns) == 6
    assert all(turn["count"] > 0 and turn["worked"] > 0 for turn in turns)
    assert subprocess.run(git, capture_output=True, check=True).stdout == before
    assert list(tmp_path.iterdir()) == [kept]


@contextmanager
def _server(answer: bytes, stop_for: float = 0.0) -> Iterator[int]:
    """Answers one connection after the other; when the first comes, it does nothing for so many seconds."""

    def serve() -> None:
        lines = list[socket.socket]()
        while not over.is_set():
            for each in (listener, *lines):
                try:
                    if each is listener:
                        lines.append(listener.accept()[0])
                        lines[-1].setblocking(False)
                        time.sleep(stop_for if len(lines) == 1 else 0)
                    elif each.recv(65_536):
                        each.sendall(answer)
                except BlockingIOError:
                    time.sleep(0.0005)
        for line in lines:
            line.close()

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        listener.setblocking(False)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()


def test_the_open_loop_charges_a_server_that_stops_with_all_who_would_have_come_meanwhile() -> None:
    with _server(ANSWER, stop_for=0.5) as port:
        waits = open_loop(port, Questions(("/a", "/b"), status=302), rate=100, seconds=0.5).sorted
    assert len(waits) == 50
    assert (
        sum(wait > 0.2 for wait in waits) >= 25
    )  # those that were due in the first three tenths of a second
    assert max(waits) >= 0.4


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER.replace(b"302", b"200"),
        b"HTTP/1.1 302 Found\r\n\r\n",
    ],
    ids=["another status", "no length"],
)
def test_an_answer_that_is_not_as_it_must_be_is_no_figure(answer: bytes) -> None:
    questions = Questions(("/a",), status=302)
    with _server(answer) as port, pytest.raises(NotStarted):
        questions.check(port)
    with _server(answer) as port, pytest.raises(NotStarted):
        open_loop(port, questions, rate=10, seconds=0.1)


ITEM = "h0007.example/b@80/2010/01.01.00.00.27"


def test_a_redirect_is_right_by_where_its_item_was_when_the_click_was_sent() -> None:
    truth = Truth()
    assert truth.age(ITEM, place_of(ITEM, 0), 1.0, 1.1) == 0
    assert truth.age(ITEM, place_of(ITEM, 1), 1.0, 1.1) == math.inf
    assert truth.next_place(ITEM, 10.0) == place_of(ITEM, 1)
    truth.acknowledge(ITEM, 10.5)
    assert truth.age(ITEM, place_of(ITEM, 0), 10.4, 13.0) == 0
    assert truth.age(ITEM, place_of(ITEM, 0), 12.0, 12.1) == 1.5
    assert truth.age(ITEM, place_of(ITEM, 1), 9.0, 9.9) == math.inf
    assert truth.age(ITEM, place_of(ITEM, 1), 9.0, 10.1) == 0
    assert truth.age(ITEM, "", 9.0, 10.1) == math.inf
    assert list(truth.recent) == [ITEM]


def test_clicks_are_counted_by_the_second_also_when_none_went_out_for_a_while() -> None:
    steady = [each / 10 for each in range(21)]
    assert list(clicks_by_second(steady, 50)) == pytest.approx([500, 500])
    stopped = [*(each / 10 for each in range(11)), 3.0, *(3 + each / 10 for each in range(1, 11))]
    assert list(clicks_by_second(stopped, 50)) == pytest.approx([500, 25, 25, 500])


def test_a_stub_archive_announces_many_names_in_several_notices() -> None:
    names = [f"h0007.example/b@80/2010/01.01.00.{number:02}.27" for number in range(60)]
    queries = notices_of("h0007.example/b@80/2020/01.01.00.00", [*names, names[0]])
    notices = [read_request(query) for query in queries]
    assert [len(each.changed) for each in notices if isinstance(each, ChangeNotification)] == [50, 10]


def test_a_stub_archive_tells_what_it_has_changed() -> None:
    archive = LoggedArchive("127.0.0.1:1", "h0007.example/b@80/2020/01.01.00.00", bool)

    def reply(after: str) -> ChangesReply:
        message = ChangesRequest("0" * 16, after)
        sent = f"GET /h0007.example/b@80/2020/01.01.00.00?{message.query()} HTTP/1.1\r\n\r\n".encode()
        return ChangesReply.read(archive.reply(sent).partition(b"\r\n\r\n")[2], message.word)

    def answer() -> UrlList:
        return UrlList.read(archive.answer(ITEM).partition(b"\r\n\r\n")[2])

    async def change() -> None:
        archive.change(ITEM)

    first = Validity.of(answer().pairs)
    assert first is not None
    assert (reply("").names, reply("").to, reply(first.position).names) == (None, first.position, ())
    asyncio.run(change())
    changed = reply(first.position)
    assert changed.names == (ITEM,)
    assert Validity.of(answer().pairs) == Validity(changed.to)
    assert answer().entry().url == place_of(ITEM, 1)
