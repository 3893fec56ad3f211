"""`ibi archive retire`: everything moves to another Archive, and the first one leaves its networks for good."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from ibi.cli import main
from ibi.runtime.settings import ArchiveSettings
from support.cli.archive_commands import Resolver, get, ibi, make_archive, serving, shown, until
from support.concurrency.threads import waits_for
from support.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("english")]

NAMES = [f"a.archive.example/b/2010/01.01.00.0{number}" for number in range(5)]
GONE, STAYS = "a.archive.example/b/2010/01.01.00.08", "a.archive.example/b/2010/01.01.00.09"


@pytest.fixture
def resolver(tmp_path: Path) -> Resolver:
    return Resolver(tmp_path / "r")


@pytest.fixture
def two(
    tmp_path: Path, resolver: Resolver, capsys: pytest.CaptureFixture[str]
) -> dict[str, tuple[Path, int, str]]:
    """An Archive with items, and an empty one that will take them; both know each other and the resolver."""
    found = {}
    for name in "ab":
        data, port = tmp_path / name, free_port()
        service = make_archive(data, port, "--resolver", resolver.url)
        resolver.register(service, ArchiveSettings.read(data).key)
        found[name] = (data, port, service)
    (tmp_path / "x.txt").write_text("whatever it is")
    lines = [{"rep": name, "files": {"x.txt": "x.txt"}, "target": "x.txt"} for name in NAMES]
    lines.append({"rep": GONE, "state": "Deleted", "timestamp": "2012-01-01T00:00:00Z"})
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ibi("archive", "import", "--data", found["a"][0], tmp_path / "items.jsonl")
    capsys.readouterr()
    ibi("archive", "token", "--data", found["b"][0], "--name", "a", "--scope", "transfer")
    token = capsys.readouterr().out.strip()
    ibi(
        "archive",
        "peer",
        "--data",
        found["b"][0],
        "--name",
        "a",
        "--address",
        f"http://127.0.0.1:{found['a'][1]}",
    )
    ibi(
        "archive", "peer", "--data", found["a"][0], "--name", "b",
        "--address", f"http://127.0.0.1:{found['b'][1]}", "--token", token,
    )  # fmt: skip
    return found


def _serve(where: tuple[Path, int, str]) -> tuple[object, ...]:
    return "--data", where[0], "--bind", f"127.0.0.1:{where[1]}"


def _states(data: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    found: dict[str, int] = shown(data, capsys)["items"]
    return found


@pytest.fixture
def retire(
    two: dict[str, tuple[Path, int, str]], capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    def run(*more: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main(["archive", "retire", "--data", str(two["a"][0]), "--to", "b", *more])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


@pytest.mark.proves("ARC-03", "ARC-08", "REG-07")
def test_everything_moves_although_the_other_archive_is_down_at_first(
    two: dict[str, tuple[Path, int, str]],
    resolver: Resolver,
    retire: Callable[..., tuple[int, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    a, b = two["a"], two["b"]
    with resolver.running(), serving(*_serve(a)):
        until(lambda: a[2] in resolver.included)
        status, output = retire()
        assert status == 1
        assert "has not retired yet" in output
        assert _states(a[0], capsys) == {"Original": 6, "Copy": 0, "Deleted": 1}
        assert a[2] in resolver.included
        with serving(*_serve(b)):
            until(lambda: b[2] in resolver.included)
            status, output = retire()
            assert (status, "has retired" in output) == (0, True), output
            assert _states(a[0], capsys) == {"Original": 1, "Copy": 5, "Deleted": 1}
            assert _states(b[0], capsys) == {"Original": 6, "Copy": 0, "Deleted": 0}
            assert a[2] not in resolver.included
            for name in NAMES:
                status, _ = get(resolver.port, f"/{name}")
                assert status == 302
                assert get(b[1], f"/-/item/{name}")[0] == 200
    settings = ArchiveSettings.read(a[0])
    assert (settings.retired, settings.switched_on) == (True, False)
    _check_retired(two, resolver, retire, capsys)


def _check_retired(
    two: dict[str, tuple[Path, int, str]],
    resolver: Resolver,
    retire: Callable[..., tuple[int, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It remembers, answers and takes part nowhere; to retire once more changes nothing."""
    a = two["a"]
    assert main(["archive", "switch", "on", "--data", str(a[0])]) == 1
    assert "has retired" in capsys.readouterr().err
    status, output = waits_for(a[0], retire)
    assert (status, output.splitlines()[0]) == (0, "0 handed over, 0 left here")
    with resolver.running(), serving(*_serve(a)):
        assert get(a[1], f"/-/item/{GONE}")[0] in {200, 410}
        assert get(a[1], f"/{NAMES[0]}")[0] == 302
        assert resolver.included == {}
    assert main(["doctor", "--data", str(a[0])]) == 0
    assert "has retired" in capsys.readouterr().out


@pytest.mark.proves("ARC-08")
def test_originals_that_must_stay_are_left_behind_only_when_this_is_said(
    two: dict[str, tuple[Path, int, str]],
    resolver: Resolver,
    tmp_path: Path,
    retire: Callable[..., tuple[int, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    a, b = two["a"], two["b"]
    (tmp_path / "stays.jsonl").write_text(
        json.dumps({"rep": STAYS, "transferable": False, "url": "http://far.example/"})
    )
    ibi("archive", "import", "--data", a[0], tmp_path / "stays.jsonl")
    status, output = retire()
    assert status == 1
    assert STAYS in output
    assert not ArchiveSettings.read(a[0]).retired
    with resolver.running(), serving(*_serve(a)), serving(*_serve(b)):
        until(lambda: {a[2], b[2]} <= resolver.included.keys())
        until(lambda: get(resolver.port, f"/{STAYS}")[0] == 302)
        status, output = retire("--leave-them")
        assert (status, output.splitlines()[0]) == (0, "5 handed over, 1 left here"), output
        # It has left for good, and is not waited for.
        until(lambda: get(resolver.port, f"/{STAYS}")[0] == 404)
    assert _states(a[0], capsys) == {"Original": 2, "Copy": 5, "Deleted": 1}


class _TakesAndIsSilent(BaseHTTPRequestHandler):
    """A receiver that has taken the copy, and then never says that it is the owner."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        staged = {
            "reply": "staged",
            "fingerprint": message.get("fingerprint"),
            "service": "c.example/w/2020/01.01.00.00",
        }
        body = json.dumps(staged).encode()
        self.send_response(200 if message["word"] == "propose" else 503)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_hand_over_that_was_begun_before_and_does_not_end_keeps_the_archive_from_retiring(
    two: dict[str, tuple[Path, int, str]], retire: Callable[..., tuple[int, str]]
) -> None:
    a, b = two["a"], two["b"]
    with ThreadingHTTPServer(("127.0.0.1", 0), _TakesAndIsSilent) as silent:
        Thread(target=silent.serve_forever, args=(0.02,), daemon=True).start()
        root = f"http://127.0.0.1:{silent.server_port}"
        ibi("archive", "peer", "--data", a[0], "--name", "c", "--address", root, "--token", "t")
        assert main(["archive", "transfer", "--data", str(a[0]), "--to", "c", NAMES[0]]) == 1
        with serving(*_serve(a)), serving(*_serve(b)):
            status, output = retire()
        silent.shutdown()
    assert (status, output.splitlines()[0]) == (1, "4 handed over, 1 left here"), output
    assert (
        f"{NAMES[0]} stays here. {root} does not take part in hand-overs with us: it answered 503" in output
    )
    assert not ArchiveSettings.read(a[0]).retired


def test_to_whom_is_no_peer_nothing_goes(
    two: dict[str, tuple[Path, int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    data = two["a"][0]
    for to in ("nobody", "http://127.0.0.1:1", "ftp://x"):
        assert main(["archive", "retire", "--data", str(data), "--to", to]) == 1
        assert capsys.readouterr().err
    assert not ArchiveSettings.read(data).retired
