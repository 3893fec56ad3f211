"""The fuzz in its short form, that it can fail, and what it has found."""

from __future__ import annotations

import asyncio
import io
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import pytest

from ibi.archive.ingest.harvesting import PageReader
from ibi.archive.ingest.sources.bibtex import read_bibtex
from ibi.archive.ingest.sources.table import read_table
from ibi.archive.model.file_names import file_parts
from ibi.archive.replication.fetching import OriginalLocation, etag_of, read_description
from ibi.cli import main
from ibi.errors import BadItem, IbiError, ParseError, PeerGarbled
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_ibi
from ibi.protocol.url_list import UrlList
from ibi.runtime.i18n import printable
from proofs.common.report import Report, Scale
from proofs.fuzz import answers, listed, parsers, requests
from proofs.fuzz.liar import SentTexts
from proofs.fuzz.target import Target
from proofs.fuzz.wire import SocketlessClient, fault_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
@pytest.mark.proves("AMB-32")
def test_every_parser_takes_whatever_comes() -> None:
    report = parsers.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["parsers"] == len(listed.TARGETS)


@pytest.mark.long
def test_both_services_answer_whatever_is_asked() -> None:
    report = requests.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert min(report.counts[f"answers {first}xx"] for first in (2, 3, 4)) > 0


@pytest.mark.long
def test_a_resolver_among_liars_redirects_only_to_answered_locations() -> None:
    report = answers.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["status 302"] > 0
    assert report.counts["lies"] > 100


def test_every_function_that_is_called_a_parser_is_fuzzed_or_has_a_reason() -> None:
    assert listed.parsers() - listed.fuzzed() - listed.EXCEPTIONS.keys() == set()
    assert listed.EXCEPTIONS.keys() - listed.parsers() == set()
    assert listed.EXCEPTIONS.keys() & listed.fuzzed() == set()


# That it can fail


def _index(text: str) -> str:
    if len(text) > 2:
        raise ParseError("text", text, "it is too long")
    return text[1]


def _raises_in_saying(text: str) -> str:
    raise IbiError("there is no {place}", text=text)


def _forgets(text: str) -> str:
    return text[:-1]


def _slow(text: str) -> int:
    """Slow up to its limit, and quick beyond."""
    if len(text) > 1 << 18:
        raise ParseError("text", text, "it is too long")
    return sum(text[:end].count("^") for end in range(0, len(text), 64)) if text.startswith("^") else 0


@pytest.mark.parametrize(
    ("read", "back", "complaint"),
    [
        (_index, None, "IndexError in ?: ''"),
        (_raises_in_saying, None, "its sentence cannot be said"),
        (_forgets, str, "what it has read is read to something else"),
        (int, None, "ValueError in ?"),
    ],
)
@pytest.mark.templates
def test_a_parser_with_a_fault_in_it_is_found(
    read: Callable[[str], Any], back: Callable[[Any], Any] | None, complaint: str
) -> None:
    report = parsers.fuzz(Target("a.parser", read, seeds=("a", "12"), back=back), 300, 1)
    assert any(complaint in sentence for sentence in report.broken)


@pytest.mark.long
def test_a_parser_that_takes_too_long_for_long_texts_is_found() -> None:
    report = parsers.fuzz(Target("a.parser", _slow, seeds=("a",)), 0, 1, timed=True)
    assert any("characters take" in sentence for sentence in report.broken)


def test_a_small_input_is_shown() -> None:
    target = Target("a.parser", lambda text: 1 // (text.count("x") == 0))
    fault = target.fault("aaxaaxaa")
    assert fault == "ZeroDivisionError in ?"
    assert target.smaller("aaxaaxaa", fault) == "x"


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n", "status 500"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\nTraceback (most recent c",
            "an answer shows 'Traceback'",
        ),
        (b"HTTP/1.1 200 OK\r\nx: a\nb\r\n\r\n", "this is no head of an answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nabHTTP", "the answers are not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na", ""),
    ],
)
def test_the_judge_of_answers_sees_what_is_none(written: bytes, fault: str) -> None:
    assert fault_of(written, b"", (b"GET",)).startswith(fault)
    assert bool(fault_of(written, b"", (b"GET",))) == bool(fault)


def test_a_service_that_fails_or_never_answers_is_found() -> None:
    async def fails(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ValueError

    async def ends(_scope: Any, _receive: Any, _send: Any) -> None:
        pass

    async def response(app: Any) -> str:
        raw = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
        written, fault = await SocketlessClient(Service(app)).say([raw])
        return fault or fault_of(written, raw, (b"GET",))

    assert asyncio.run(response(fails)) == "status 500"
    assert asyncio.run(response(ends)) == "status 500"


def test_only_what_was_said_counts_as_said() -> None:
    texts = SentTexts()
    texts.say(b"url http://a.example/x", b"HTTP/1.1 200 OK\r\n\r\n5\r\nurl h\r\n11\r\nttp://a.example/y")
    assert texts.has("http://a.example/x")
    assert texts.has("http://a.example/y")
    assert not texts.has("http://evil.example/")


def test_what_is_wrong_with_a_redirect_is_told() -> None:
    report = Report("", "")
    reader = answers.Reader(report, random.Random(1), Service(None), SentTexts())
    raw = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
    reader.judge(
        raw, b"HTTP/1.1 302 Found\r\nlocation: http://evil.example/\r\ncontent-length: 0\r\n\r\n", ""
    )
    reader.judge(
        raw, b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 10\r\n\r\n<x-canary>", ""
    )
    assert "nobody has said" in report.broken[0]
    assert "part of a page" in report.broken[1]


# What it has found


@pytest.mark.parametrize(
    "line", ['{"\\u001b[31mX": 1}', '{"rep": "a.example/b/2010/01.01.00.00", "target": "\\u009b2J"}']
)
def test_a_line_that_is_refused_cannot_steer_the_terminal(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "--address",
        "a.example",
        "--ip",
        "127.0.0.1",
        "--service-ibi",
        "archive.example/w/2020/01.01.00.00",
    )
    assert main(["archive", "init", "--data", str(tmp_path / "data"), *words]) == 0
    (tmp_path / "lines").write_text(line, encoding="ascii")
    main(["archive", "import", "--data", str(tmp_path / "data"), str(tmp_path / "lines")])
    errors = capsys.readouterr().err
    assert "line 1: " in errors
    assert all(char.isprintable() or char == "\n" for char in errors)


def test_half_a_character_is_left_to_be_escaped_where_it_is_written() -> None:
    assert printable("a\x1b[31m\x9b\u202e\nb\udcff") == "a?[31m??\nb\udcff"


def test_half_a_character_in_the_name_of_a_file_is_refused_with_a_sentence() -> None:
    with pytest.raises(BadItem, match="is not percent-encoded"):
        file_parts("\ud800")


def test_an_archive_that_describes_a_file_with_half_a_character_is_garbled() -> None:
    value = {"rep": "a.example/b/2010/01.01.00.00", "files": {"\ud800": {"size": 1, "sha256": "ab" * 32}}}
    with pytest.raises(PeerGarbled):
        read_description(value, parse_ibi(value["rep"]))  # type: ignore[arg-type]  # it is a text


def test_a_byte_of_another_encoding_in_a_url_or_a_file_name_spoils_one_record() -> None:
    good = "@misc{a, title = {é}}\n@misc{b, title = {é}}\n".encode()
    bad = b"@misc{c, title = {T}, url = {http://a.example/\xff}}\n@misc{d, title = {U}}\n"
    read = list(read_bibtex(io.BytesIO(good + bad)))
    assert [isinstance(each.draft, IbiError) for each in read] == [False, False, True, False]
    rows = "title,files\né,\né,\n".encode() + b"x,\xff\ny,\n"
    assert [isinstance(each.draft, IbiError) for each in read_table(io.BytesIO(rows))] == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("tag", ["é", "\udcff", "a\x7f", "x" * 201])
def test_a_tag_that_could_not_be_sent_back_is_none(tag: str) -> None:
    assert etag_of({"etag": tag}) == ""
    assert etag_of({"etag": '"1"'}) == '"1"'


def test_a_moment_that_is_none_is_not_taken_over_from_another_archive() -> None:
    def at(timestamp: str) -> str:
        return OriginalLocation("http://a.example/", (), UrlList({"timestamp": timestamp})).timestamp

    assert at("tomorrow") == ""
    assert at("2014-01-02T17:23:57+01:00") == "2014-01-02T16:23:57Z"


@pytest.mark.long
def test_a_long_word_that_drips_in_is_not_read_from_its_beginning_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = []

    class Parser(SimpleNamespace):
        """Counts what the real one would have to look at."""

        def SetParamEntityParsing(self, _when: int) -> None:  # noqa: N802 - as the library calls it
            """There are no entities."""

        def Parse(self, data: bytes, _last: bool) -> None:  # noqa: N802 - as the library calls it
            pieces.append(len(data))

    monkeypatch.setattr(expat, "ParserCreate", Parser)
    reader = PageReader()
    for _ in range(20_000):
        reader.feed(b"x" * 100)
    reader.close()
    assert sum(pieces) == 2_000_000
    assert len(pieces) < 60


@pytest.mark.parametrize("behind", [b"", b"\0 no request"])
def test_a_body_that_is_too_large_is_refused_once(behind: bytes) -> None:
    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        """It is never asked."""

    head = b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 20000\r\n\r\n"

    async def response() -> tuple[bytes, str]:
        return await SocketlessClient(Service(app, largest_body=1000)).say([head + b"x" * 20_000 + behind])

    written, fault = asyncio.run(response())
    assert (written.count(b"HTTP/1.1 413 "), written.count(b"HTTP/1.1 ")) == (1, 1)
    assert fault == ""
