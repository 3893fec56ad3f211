"""`ibi resolve`: asked as a person asks, of a resolver in another process."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from ibi.cli import main
from support.resolver.running_resolver import resolver
from support.scripted_archive import Behaviour, ScriptedArchive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.resolver.running_resolver import Running

ODD_HOSTS = ["http://a:b", "http://a:99999", "http://é.br", "http://a b/"]
IBI = "8JMKD3MGP8W/35MMLL8"
URL = "http://mtc-m16c.sid.inpe.br/col/x/doc/CCSDS%20650.0-B-1.pdf"
SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
ANSWER = (
    f"archiveaddress a.example ibi {{ibip {IBI}}} ibi.archiveservice {{rep {SERVICE}}} contenttype Data "
    f"state Original url {URL} urlkey 1427244889-5349022633744855"
).encode()
KNOWN = (f"archiveaddress a.example ibi {{ibip {IBI}}} ibi.archiveservice {{rep {SERVICE}}}").encode()


@contextmanager
def running(data: Path, archive: ScriptedArchive) -> Iterator[tuple[str, Running]]:
    """A resolver in a thread of its own, with one Archive."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    started: list[Running] = []
    stop = asyncio.Event()

    async def serve() -> None:
        async with resolver(data, [archive]) as there:
            started.append(there)
            ready.set()
            await stop.wait()
            await there.acknowledged()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield f"http://127.0.0.1:{started[0].port}", started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture
def archive() -> ScriptedArchive:
    script = {
        (IBI.lower(), (), ""): Behaviour(ANSWER),
        (IBI.lower(), ("GetTranslation(fr)",), ""): Behaviour(KNOWN),
        (IBI.lower(), ("GetTranslation",), ""): Behaviour(
            KNOWN + b" url.translation(en) http://a.example/en url.translation(pt) http://a.example/pt"
        ),
    }
    return ScriptedArchive("m16c", "mtc-m16c.sid.inpe.br", SERVICE, script=script)


@pytest.mark.parametrize(
    "text", [IBI, f"http://urlib.net/{IBI}", f"  (see http://urlib.net/{IBI}) ", f"ibi:{IBI}"]
)
def test_it_prints_the_url_and_sends_no_acknowledgment(
    tmp_path: Path, archive: ScriptedArchive, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    with running(tmp_path, archive) as (root, there):
        assert main(["resolve", text, "--resolver", f"{root}/"]) == 0
    assert capsys.readouterr().out == f"{URL}\n"
    assert there.acknowledgments.delivered == 0
    assert archive.acknowledgments == []


def test_the_environment_names_the_resolver_and_an_option_another_one(
    tmp_path: Path,
    archive: ScriptedArchive,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running(tmp_path, archive) as (root, _):
        monkeypatch.setenv("IBI_RESOLVER", root)
        assert main(["resolve", IBI]) == 0
        assert capsys.readouterr().out == f"{URL}\n"
        monkeypatch.setenv("IBI_RESOLVER", "http://127.0.0.1:1")
        assert main(["resolve", IBI, "--resolver", root]) == 0
        assert main(["resolve", IBI]) == 1
        monkeypatch.setenv("IBI_RESOLVER", "")
        with pytest.raises(SystemExit, match="2"):
            main(["resolve", IBI])


def test_it_explains(tmp_path: Path, archive: ScriptedArchive, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path, archive) as (root, _):
        assert main(["resolve", IBI, "--resolver", root, "--explain"]) == 0
        text = capsys.readouterr().out
        assert SERVICE in text
        assert URL in text
        assert main(["resolve", IBI, "--resolver", root, "--explain", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["outcome"]["location"] == URL


def test_the_language_is_the_readers(
    tmp_path: Path, archive: ScriptedArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, archive) as (root, _):
        for language, found in (("pt-BR", "http://a.example/pt"), ("en", "http://a.example/en")):
            assert main(["resolve", f"{IBI}+", "--resolver", root, "--language", language]) == 0
            assert capsys.readouterr().out == f"{found}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{IBI}+(fr)", "translation does not exist"),
        ("8JMKD3MGP8W/35MMLL9", "No Archive holds this item"),
        ("sid.inpe.br/nothing/2009/07.21.14.43?ibiurl.requireditemstatus=Original", "No Archive"),
    ],
)
def test_an_alert_is_one_clear_line_and_status_1(
    tmp_path: Path, archive: ScriptedArchive, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    with running(tmp_path, archive) as (root, _):
        assert main(["resolve", text, "--resolver", root]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert words in printed.err
        assert "queried: 1; answered: 1" in printed.err
        assert printed.err.count("\n") == 1
        assert main(["resolve", text, "--resolver", root, "--explain"]) == 1
        assert words in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "nothing", "http://urlib.net/", "\0", "x" * 9000])
def test_a_text_without_an_identifier_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert main(["resolve", text, "--resolver", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("url", ["", "urlib.net", "ftp://urlib.net", "http://", "http://[::1", *ODD_HOSTS])
def test_what_is_no_resolver_url_is_one_clear_line(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert main(["resolve", IBI, "--resolver", url]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err


def test_an_unreachable_resolver_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resolve", IBI, "--resolver", "http://127.0.0.1:9"]) == 1
    assert "cannot be reached" in capsys.readouterr().err


class Stranger(BaseHTTPRequestHandler):
    """A resolver that knows persistent URLs and nothing else."""

    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(f"GET {self.path}")
        self.send_error(404)

    def do_HEAD(self) -> None:
        self.requests.append(f"HEAD {self.path}")
        if IBI in self.path:
            self.send_response(302)
            self.send_header("Location", URL)
        else:
            self.send_response(404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def stranger() -> Iterator[tuple[str, list[str]]]:
    requests: list[str] = []
    handler = type("Handler", (Stranger,), {"requests": requests})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
        server.shutdown()
        thread.join()


def test_a_strange_resolver_is_asked_with_head(capsys: pytest.CaptureFixture[str]) -> None:
    with stranger() as (root, requests):
        assert main(["resolve", IBI, "--resolver", root]) == 0
        assert capsys.readouterr().out == f"{URL}\n"
        assert requests == [f"GET /-/explain/{IBI}", f"HEAD /{IBI}"]
        assert main(["resolve", "8JMKD3MGP8W/35MMLL9", "--resolver", root]) == 1
        assert "404" in capsys.readouterr().err
        assert main(["resolve", IBI, "--resolver", root, "--explain"]) == 1
