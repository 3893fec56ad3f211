"""What was once answered with a traceback: one sentence on stderr, status 1, and nothing worse."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from ibi.archive.model.item_json import read_line
from support.cli import in_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "a.example/b/2010/01.01.00.00"
SERVICE = "archive.example/w/2020/01.01.00.00"


def ibi(*words: object) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in this process."""
    done = in_process.ibi(*words)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.encode(), done.stderr.encode())


def ibi_apart(*words: object, redirections: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own, its streams as a shell redirects them."""
    command = [sys.executable, "-m", "ibi", *map(str, words)]
    shell = ["sh", "-c", f'exec "$@" {redirections}', "sh", *command]
    return subprocess.run(shell, capture_output=True, timeout=60, check=False)


def is_one_sentence(done: subprocess.CompletedProcess[bytes]) -> bool:
    return done.returncode == 1 and done.stderr.startswith(b"ibi: ") and done.stderr.count(b"\n") == 1


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a new Archive, which each test gets a copy of."""
    path = tmp_path_factory.mktemp("untouched") / "data"
    words = ("--address", "a.example", "--ip", "127.0.0.1", "--service-ibi", SERVICE)
    assert ibi("archive", "init", "--data", path, *words).returncode == 0
    return path


@pytest.fixture
def archive(untouched: Path, tmp_path: Path) -> Path:
    return shutil.copytree(untouched, tmp_path / "data")


def load(archive: Path, *lines: str) -> list[dict[str, object]]:
    """Import lines; what the command said, one object a line."""
    (archive.parent / "lines").write_text("\n".join(lines), encoding="utf-8")
    done = ibi("archive", "import", "--data", archive, "--json", archive.parent / "lines")
    assert b"Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("fields", ['"metadata": {"title": ["\\ud800"]}', '"files": {"\\ud800": "x"}'])
def test_half_a_character_in_one_line_refuses_that_line_alone(archive: Path, fields: str) -> None:
    good = '{"url": "http://b.example/", "rep": "%s"}'
    faulty = f'{{"rep": "{NAME}.02", {fields}}}'
    lines_printed = load(archive, good % NAME, faulty, good % f"{NAME}.01")
    assert lines_printed[0]["line"] == 2
    assert lines_printed[-1] == {"added": 2, "changed": 0, "removed": 0, "unchanged": 0, "refused": 1}


def test_a_link_that_leads_in_a_circle_is_refused_as_a_file(archive: Path) -> None:
    (archive.parent / "circle").symlink_to("circle")
    lines_printed = load(archive, json.dumps({"rep": NAME, "files": {"a": "circle"}}))
    assert lines_printed[-1] == {"added": 0, "changed": 0, "removed": 0, "unchanged": 0, "refused": 1}


def test_a_year_keeps_its_four_digits() -> None:
    assert read_line(b'{"timestamp": "0999-05-05"}').timestamp == "0999-05-05T00:00:00Z"


@pytest.mark.parametrize(
    "action", [("list",), ("show", NAME), ("delete", NAME, "--reason", "x"), ("import", "lines")]
)
def test_a_damaged_catalogue_is_one_sentence(archive: Path, action: tuple[str, ...]) -> None:
    with sqlite3.connect(archive / "catalogue.sqlite") as catalogue:
        catalogue.execute("DROP TABLE name")
    catalogue.close()
    lines = archive.parent / "lines"
    lines.write_text(json.dumps({"rep": NAME}), encoding="utf-8")
    words = [lines if word == "lines" else word for word in action]
    assert is_one_sentence(ibi("archive", words[0], "--data", archive, *words[1:]))


@pytest.mark.parametrize("text", [f"a = {'[' * 100_000}", f"mint_port = {'9' * 10_000}"])
def test_settings_too_deep_or_too_large_are_one_sentence(archive: Path, text: str) -> None:
    (archive / "archive.toml").write_text(text, encoding="ascii")
    assert is_one_sentence(ibi("archive", "list", "--data", archive))


@pytest.mark.parametrize("bind", [os.fsdecode(b"\xff:0"), "[]:0", "127.0.0.1:٠"])
def test_what_is_no_address_is_not_listened_on(archive: Path, bind: str) -> None:
    assert is_one_sentence(ibi_apart("archive", "serve", "--data", archive, "--bind", bind))


def test_a_key_does_not_stand_in_the_refusal_of_another_value(tmp_path: Path) -> None:
    key = "55555555555555555555"
    words = ("--address", "a.example", "--ip", "127.0.0.1", "--service-ibi", SERVICE, "--key", key)
    done = ibi("archive", "init", "--data", tmp_path, *words, "--admin", f"{'a' * 20_000}@b.example")
    assert is_one_sentence(done)
    assert key.encode() not in done.stderr


@pytest.mark.parametrize("redirections", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_fault(redirections: str) -> None:
    done = ibi_apart("inspect", NAME, redirections=redirections)
    assert (done.returncode, done.stderr) == (0, b"")


def test_closed_input_has_no_lines() -> None:
    done = ibi_apart("inspect", "-", redirections="<&-")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def stranger() -> Iterator[ThreadingHTTPServer]:
    """What calls itself a resolver and answers every request with its `answer`: outcome, type and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            outcome, kind, body = self.server.answer  # type: ignore[attr-defined]  # set by the test
            self.send_response(200)
            for name, value in (
                ("ibi-outcome", outcome),
                ("content-type", kind),
                ("content-length", len(body)),
            ):
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("outcome", "kind", "body"),
    [
        ("404", "application/json", b"[]"),
        ("404", "application/json", b'{"outcome": {"alert": null}}'),
        ("404", "application/json", b'{"outcome": {"alert": {"title": "", "detail": "", "archives": 5}}}'),
        ("302", "application/json", b"{}"),
        ("302", "application/json", b'{"outcome": {"location": null}}'),
        ("302", "application/json", b"[" * 100_000),
        ("404", "application/problem+json", b"{}"),
        ("9" * 5000, "application/json", b"{}"),
    ],
)
def test_a_resolver_that_makes_no_sense_is_one_sentence(
    stranger: ThreadingHTTPServer, outcome: str, kind: str, body: bytes
) -> None:
    stranger.answer = (outcome, kind, body)  # type: ignore[attr-defined]  # read by the handler
    done = ibi("resolve", NAME, "--resolver", f"http://127.0.0.1:{stranger.server_port}")
    assert is_one_sentence(done)


def test_a_location_cannot_steer_the_terminal(stranger: ThreadingHTTPServer) -> None:
    body = json.dumps({"outcome": {"location": "http://b.example/\x1b[31m\nx"}}).encode()
    stranger.answer = ("302", "application/json", body)  # type: ignore[attr-defined]  # read by the handler
    done = ibi("resolve", NAME, "--resolver", f"http://127.0.0.1:{stranger.server_port}")
    assert (done.returncode, done.stdout) == (0, b"http://b.example/%1B[31m%0Ax\n")


def test_many_zeros_do_not_hide_many_processes(archive: Path) -> None:
    not_ours = "203.0.113.9:1"  # so that nothing is started whatever becomes of the number
    done = ibi_apart("archive", "serve", "--data", archive, "--bind", not_ours, "--workers", "0000000019999")
    assert done.returncode == 2
