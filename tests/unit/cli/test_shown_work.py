"""What a terminal shows while something takes long; and which numbers options take."""

from __future__ import annotations

import io
import re
import sys
import time
from argparse import ArgumentTypeError

import pytest

from ibi.cli import progress
from ibi.cli.common import OUTPUT, number, port, workers
from ibi.cli.progress import Progress


class Terminal(io.StringIO):
    """What was written to a terminal."""

    def isatty(self) -> bool:
        return True


def shown(
    title: str, done: int | None, total: int | None, later: int | None = None, *, in_bytes: bool = False
) -> str:
    """What a terminal shows of work of which so much is done, without colours and bars."""
    terminal, results = Terminal(), sys.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        patch.setattr(progress, "SHOWN_AFTER", 0.0)
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "200")
        with Progress(title, total, in_bytes=in_bytes) as working:
            end = time.monotonic() + 10
            while not terminal.getvalue():
                assert time.monotonic() < end
                time.sleep(0.001)
            if done is not None:
                working.at(done, later)
            assert sys.stdout is results  # programs read what is printed there
    assert terminal.getvalue().endswith("\x1b[1A\x1b[2K")  # nothing is left of it
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    last = [line for line in re.split(r"[\r\n]", plain) if line.strip()][-1]
    return " ".join(re.sub(r"[━╸╺]+|-:--:--|0:00:[0-9]+", "", last).split())


@pytest.mark.parametrize(
    ("done", "total", "later", "language", "words"),
    [
        (None, None, None, "en", "[b]work {x}"),
        (1234, None, None, "en", "[b]work {x} 1,234"),
        (1234, 5678, None, "en", "[b]work {x} 1,234 of 5,678"),
        (1234, 5678, None, "pt_BR", "[b]work {x} 1.234 de 5.678"),
        (1234, 5678, 9999, "en", "[b]work {x} 1,234 of 9,999"),
        (0, 5678, None, "en", "[b]work {x} 0 of 5,678"),
    ],
)
def test_how_much_is_done(
    monkeypatch: pytest.MonkeyPatch,
    done: int | None,
    total: int | None,
    later: int | None,
    language: str,
    words: str,
) -> None:
    monkeypatch.setenv("LANGUAGE", language)
    assert shown("[b]work {x}", done, total, later) == words


@pytest.mark.parametrize(("language", "words"), [("en", "1.5 kB of 2.0 MB"), ("pt_BR", "1,5 kB de 2,0 MB")])
def test_how_many_bytes_are_done(monkeypatch: pytest.MonkeyPatch, language: str, words: str) -> None:
    monkeypatch.setenv("LANGUAGE", language)
    assert shown("files", 1500, 2_000_000, in_bytes=True) == f"files {words}"


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_nothing_is_shown_where_no_one_looks(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "SHOWN_AFTER", 0.0)
    monkeypatch.setattr(OUTPUT, "quiet", quiet)
    with Progress("work", 10) as working:
        time.sleep(0.01)
        working.at(5)
    assert stream.getvalue() == ""


def test_what_is_quick_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("work", 10) as working:
        working.at(10)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("read", "most"), [(workers, 256), (port, 65_535), (number(9), 9)], ids=["workers", "port", "number"]
)
def test_whole_numbers_of_options(read: object, most: int) -> None:
    assert callable(read)
    assert (read("1"), read(str(most))) == (1, most)
    for text in ("0", "-1", str(most + 1), "1.0", "²", "", "9" * 5000, "0" * len(str(most)) + "1"):
        with pytest.raises(ArgumentTypeError) as refused:
            read(text)
        assert str(refused.value) == f"a whole number from 1 to {most}"
