"""`ibi up`: a whole network with one command, as a stranger meets it first."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.cli import main
from support.network.up import Up, get
from support.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

RESOLVED = 302


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up("--port", str(free_port(3)), temporary=tmp_path_factory.mktemp("up")) as running:
        yield running


def _statuses(up: Up, **headers: str) -> dict[str, int]:
    return {what: get(url, **headers).status for url, what in up.links.items()}


def test_it_says_ready_and_has_tried_one_link_itself_over_http(up: Up) -> None:
    assert up.printed.startswith(f"ready {up.root}\n")
    tried = up.printed.partition("Tried just now:")[2]
    assert f"GET {up.root}/archive.example/first/2026/03.02.10.15!+(pt)" in tried
    assert re.search(
        r"302 -> http://127\.0\.0\.1:\d+/col/archive\.example/second/\S+\n +200, \d+ bytes", tried
    )


def test_every_printed_link_shows_what_its_words_promise(up: Up) -> None:
    expected = {
        what: int(m[1]) if (m := re.search(r"\((4\d\d)\)", what)) else RESOLVED for what in up.links.values()
    }
    expected["who was queried, who answered what, and why"] = 200
    assert _statuses(up) == expected
    assert sorted({status for status in expected.values() if status >= 400}) == [400, 404, 409, 410]


def test_every_redirect_inside_the_network_ends_at_something_to_read(up: Up) -> None:
    ends = []
    for url in up.links:
        target = get(url).location
        if target.startswith("http://127.0.0.1:"):
            ends.append((get(target).status, bool(get(target).body)))
    assert len(ends) >= 9
    assert set(ends) == {(200, True)}


@pytest.mark.proves("URL-11", "RES-07")
@pytest.mark.parametrize(
    ("language", "archive"), [("pt-BR,pt;q=0.9,en;q=0.5", "second"), ("en", "first"), ("fr", "first")]
)
def test_a_bare_translation_follows_the_language_of_the_browser_into_another_archive(
    up: Up, language: str, archive: str
) -> None:
    assert (
        f"/col/archive.example/{archive}/"
        in get(up.link("its translation"), accept_language=language).location
    )


def test_both_names_of_an_item_lead_to_the_same_place(up: Up) -> None:
    assert get(up.link("a text")).location == get(up.link("the same text")).location


def test_real_items_lead_to_the_servers_where_they_were_found(up: Up) -> None:
    host = "http://mtc-m21b.sid.inpe.br"
    assert (
        get(up.link("a real item")).location
        == f"{host}/col/sid.inpe.br/mtc-m21b/2016/11.18.17.34/doc/publicacao.pdf"
    )


def test_the_archives_resolve_what_they_hold_and_pass_on_the_rest(up: Up) -> None:
    first = next(iter(re.findall(r"Archives: (http://\S+)/ ", up.printed)))
    assert "/col/archive.example/first/" in get(f"{first}/archive.example/first/2026/03.02.10.15").location
    elsewhere = get(f"{first}/archive.example/second/2026/03.05.09.30").location
    assert elsewhere == f"{up.root}/archive.example/second/2026/03.05.09.30"


def test_a_list_of_files_that_is_not_public_is_refused_in_words(up: Up) -> None:
    lists = get(f"{up.root}/archive.example/first/2026/06.11.14.30?ibiurl.verblist=GetFileList").location
    answer = get(lists, accept="text/html", accept_language="pt-BR")
    assert answer.status == 403
    assert "não é permitido" in answer.body.decode()


@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
def test_no_printed_link_ends_in_an_error_of_ours(up: Up, accept: str) -> None:
    assert max(_statuses(up, accept=accept, accept_language="pt;q=bad,,;").values()) < 500


def test_it_speaks_portuguese_to_those_who_do(tmp_path: Path) -> None:
    with Up("--port", str(free_port(3)), temporary=tmp_path, language="pt_BR.UTF-8") as up:
        assert "Clique em um destes:" in up.printed
        assert "a sua edição mais recente" in up.links.values()


@pytest.mark.proves("REG-03", "REG-04")
def test_the_archives_switch_themselves_on_and_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def archives() -> list[tuple[bool, object]]:
        capsys.readouterr()
        assert main(["resolver", "archives", "--data", str(tmp_path / "net" / "resolver"), "--json"]) == 0
        return [(each["included"], each.get("confirmed")) for each in json.loads(capsys.readouterr().out)]

    with Up("--data", str(tmp_path / "net"), "--port", str(free_port(3)), temporary=tmp_path) as up:
        assert archives() == [(True, True), (True, True)]
        assert up.stop() == 0
    assert archives() == [(False, None), (False, None)]


def test_a_second_start_on_the_same_data_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port = tmp_path / "net", str(free_port(3))

    def everything() -> tuple[dict[str, bytes], list[str]]:
        settings = {str(path.relative_to(data)): path.read_bytes() for path in sorted(data.rglob("*.toml"))}
        settings |= {
            str(p.relative_to(data)): p.read_bytes() for p in sorted(data.rglob("col/**/*")) if p.is_file()
        }
        capsys.readouterr()
        for name in ("first", "second"):
            assert main(["archive", "list", "--data", str(data / name)]) == 0
        return settings, capsys.readouterr().out.splitlines()

    with Up("--data", str(data), "--port", port, temporary=tmp_path) as up:
        links = up.links
    before = everything()
    with Up("--data", str(data), "--port", port, temporary=tmp_path) as up:
        assert up.links == links
        assert _statuses(up)["its last edition"] == RESOLVED
    assert everything() == before
    assert len(before[1]) > 50


def test_a_taken_port_is_replaced_with_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        with Up("--port", str(port), temporary=tmp_path) as up:
            assert up.root != f"http://127.0.0.1:{port}"
            assert _statuses(up)["its last edition"] == RESOLVED
            assert up.stop() == 0
        assert f"port {port} is taken" in up.complaints


def test_a_port_that_no_archive_may_have_is_replaced_with_a_sentence(tmp_path: Path) -> None:
    with Up("--port", "9091", temporary=tmp_path) as up:  # the next one belongs to a kind of queues
        assert _statuses(up)["its last edition"] == RESOLVED
        assert up.stop() == 0
    assert re.search(r"^port 9092 is not for Archives; \d+ is used instead$", up.complaints, re.MULTILINE)


def test_ports_are_held_from_the_first_moment(tmp_path: Path) -> None:
    """No other program can take a port while the sample items are imported."""
    data, port = tmp_path / "net", free_port(3)
    up = Up("--data", str(data), "--port", str(port), temporary=tmp_path)
    up.start()
    try:
        while not data.exists():
            time.sleep(0.005)
        for each in range(port, port + 3):
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", each))
    finally:
        up.stop(signal.SIGKILL)


def test_kept_data_can_move_to_other_ports(tmp_path: Path) -> None:
    data = str(tmp_path / "net")
    for _ in range(2):
        with Up("--data", data, "--port", str(free_port(3)), temporary=tmp_path) as up:
            assert _statuses(up)["its last edition"] == RESOLVED


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_and_leaves_nothing_behind(tmp_path: Path, by: signal.Signals) -> None:
    with Up("--port", str(free_port(3)), temporary=tmp_path) as up:
        assert list(tmp_path.iterdir())
        assert up.stop(by) == 0
    assert up.complaints == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x"])
def test_a_port_that_is_none_is_one_clear_line(port: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ibi", "up", "--port", port], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "PATH": ""},
    )  # fmt: skip
    assert done.returncode in {1, 2}
    assert "Traceback" not in done.stderr
    assert "port" in done.stderr


def test_a_data_directory_that_cannot_be_made_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert main(["up", "--data", str(tmp_path / "file" / "net"), "--port", str(free_port(3))]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "file" in errors


def test_the_report_of_the_examples_has_metadata(up: Up) -> None:
    found = get(get(f"{up.root}/8JMKD3MGP8W/35MMLL8:").location)
    assert (found.status, b"Open Archival Information System" in found.body) == (200, True)
