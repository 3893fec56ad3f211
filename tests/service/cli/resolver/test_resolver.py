"""`ibi resolver ...` as an administrator types it: real directories, real processes, real sockets."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ibi
from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import is_key
from support.concurrency.forked import start_ibi

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHIVE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
SERVICE = "J8LNKB5R7W/3FUQHC5"
KEY = "12345678901234567890"


def made(data: Path, *more: str) -> Path:
    words = [
        "resolver",
        "init",
        "--data",
        str(data),
        "--address",
        "urlib.net",
        "--service-ibi",
        SERVICE,
        *more,
    ]
    assert main(words) == 0
    return data


@contextmanager
def served(data: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the URL it printed."""
    source = str(Path(ibi.__file__).parents[1])
    words = ["resolver", "serve", "--data", data, "--bind", "127.0.0.1:0", *more]
    with start_ibi(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PYTHONPATH": source}
    ) as process:
        try:
            assert process.stdout is not None
            word, _, url = process.stdout.readline().strip().partition(" ")
            assert word == "ready"
            yield process, url
        finally:
            process.terminate()  # and its children with it


def get(url: str, target: str, **headers: str) -> tuple[int, bytes]:
    """Status and body of one GET."""
    scheme, _, authority = url.partition("://")
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            authority, timeout=20, context=context
        )
    else:
        connection = http.client.HTTPConnection(authority, timeout=20)
    try:
        connection.request("GET", target, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def inclusion(key: str) -> str:
    return (
        f"/{SERVICE}?servicesubject=inclusionRequest&archiveaddress=mtc-m21.invalid&archiveserviceibi={ARCHIVE}"
        "&archiveip=150.163.34.239&archiveprotocol=HTTP&archiveplatformversion=1"
        f"&archiveadmemailaddress=admin@archive.example&registrationkey={key}"
    )


@pytest.mark.proves("MSG-02")
def test_init_prints_the_base_url_of_the_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path / "new" / "data")
    printed = capsys.readouterr()
    assert printed.out == f"http://urlib.net/{SERVICE}\n"
    data = tmp_path / "new" / "data"
    for command in (
        f"ibi resolver serve --data {data} --bind HOST:PORT",
        f"ibi resolver set --data {data} admin MAIL",
        f"ibi resolver register --data {data} --archive-service IBI",
        f"ibi doctor --data {data}",
    ):
        assert command in printed.err


@pytest.mark.parametrize(
    "address", ["resolver.example.org:8080", "127.0.0.1:8080", "localhost:8080", "[::1]:8080"]
)
def test_init_mints_a_service_ibi_in_its_own_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    words = ["resolver", "init", "--data", str(tmp_path), "--address", address, "--json"]
    assert main(words) == 0
    printed = capsys.readouterr()
    settings = json.loads(printed.out)
    parse_ibi(settings["service_ibi"])
    assert settings["base_url"] == f"http://{address}/{settings['service_ibi']}"
    assert ("trying" in printed.err) is (not address.startswith("resolver"))


def test_init_reads_the_environment_before_it_makes_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IBI_RESOLVER_PUBLIC_URL", "https://urlib.net")
    monkeypatch.setenv("IBI_RESOLVER_ADDRESS", "other.example")
    words = ("resolver", "init", "--data", str(tmp_path / "r"), "--address", "urlib.net")
    assert main([*words]) == 1
    assert "address is decided by IBI_RESOLVER_ADDRESS in the environment" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
    monkeypatch.delenv("IBI_RESOLVER_ADDRESS")
    assert main([*words]) == 0
    assert "https" not in (tmp_path / "r" / "resolver.toml").read_text()


def test_init_takes_an_empty_directory_and_no_used_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["resolver", "init", "--data", str(tmp_path), "--address", "other.example"]) == 1
    assert "already holds a resolver" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "address", ["a b", "http://urlib.net", "urlib.net/x", "urlib.net:0", "urlib.net:99999", ""]
)
def test_init_refuses_what_is_no_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert main(["resolver", "init", "--data", str(tmp_path / "data"), "--address", address]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.proves("REG-01", "MSG-21", "MSG-30")
def test_register_makes_a_strong_key_and_prints_it_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    capsys.readouterr()
    assert main(["resolver", "register", "--data", str(tmp_path), "--archive-service", ARCHIVE]) == 0
    printed = capsys.readouterr()
    key = printed.out.strip()
    assert is_key(key)
    assert key not in printed.err
    assert main(["resolver", "archives", "--data", str(tmp_path)]) == 0
    assert key not in capsys.readouterr().out
    assert all(key.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.proves("REG-01", "MSG-21")
def test_a_ten_digit_key_is_registered_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    words = ["resolver", "register", "--data", str(tmp_path), "--archive-service", ARCHIVE, "--key"]
    capsys.readouterr()
    assert main([*words, "1234567890"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "fewer than 20 digits" in printed.err
    assert main([*words, "9999999999"]) == 1
    assert main([*words, "123"]) == 1


def test_archives_lists_what_is_registered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    words = ["resolver", "register", "--data", str(tmp_path), "--archive-service", ARCHIVE, "--key", KEY]
    assert main([*words, "--url-host", "b.example", "a.example"]) == 0
    capsys.readouterr()
    assert main(["resolver", "archives", "--data", str(tmp_path), "--json"]) == 0
    (archive,) = json.loads(capsys.readouterr().out)
    assert (archive["service_ibi"], archive["included"]) == (ARCHIVE, False)
    assert archive["url_hosts"] == ["a.example", "b.example"]
    assert main(["resolver", "unregister", "--data", str(tmp_path), "--archive-service", ARCHIVE]) == 0
    assert main(["resolver", "unregister", "--data", str(tmp_path), "--archive-service", ARCHIVE]) == 1
    capsys.readouterr()
    assert main(["resolver", "archives", "--data", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("action", ["archives", "serve", "register"])
def test_a_directory_without_a_resolver_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    more = ["--archive-service", ARCHIVE] if action == "register" else []
    assert main(["resolver", action, "--data", str(tmp_path), *more]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "more",
    [["--workers", "0"], ["--workers", "x"], ["--trusted-proxy", "nothing"], ["--bind"], ["--unknown"]],
)
def test_wrong_usage_is_status_2(tmp_path: Path, more: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["resolver", "serve", "--data", str(tmp_path), *more])
    assert left.value.code == 2


@pytest.mark.parametrize("bind", ["203.0.113.1:8080", "127.0.0.1:x", "nowhere.invalid:80", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_listened_on_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bind: str
) -> None:
    made(tmp_path)
    capsys.readouterr()
    assert main(["resolver", "serve", "--data", str(tmp_path), "--bind", bind]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.proves("REG-02", "REG-08")
def test_it_serves_takes_in_what_is_registered_meanwhile_and_stops_when_told(
    tmp_path: Path, workers: str
) -> None:
    made(tmp_path)
    with served(tmp_path, "--workers", workers) as (process, url):
        assert get(url, "/-/healthz") == (200, b"ok\n")
        assert get(url, inclusion(KEY))[0] == 403
        words = ["resolver", "register", "--data", str(tmp_path), "--archive-service", ARCHIVE, "--key", KEY]
        assert main(words) == 0
        status, body = get(url, inclusion(KEY))
        assert (status, body) == (200, b"status.archive included status.confirmation unsuccessful")
        for _ in range(8):  # whichever worker answers
            assert json.loads(get(url, "/-/about")[1])["archives"] == 1
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - begun < 10
        assert process.returncode == 0
        assert KEY not in err
        assert "Traceback" not in err


def test_all_workers_count_wrong_keys_together(tmp_path: Path) -> None:
    made(tmp_path)
    words = ["resolver", "register", "--data", str(tmp_path), "--archive-service", ARCHIVE, "--key", KEY]
    assert main(words) == 0
    with served(tmp_path, "--workers", "2") as (_, url):
        statuses = [get(url, inclusion(KEY[::-1]))[0] for _ in range(8)]
        assert statuses == [403] * 5 + [429] * 3


def test_a_request_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    """The call-back of an inclusion hangs while the resolver is told to stop: the Archive still gets its status."""
    made(tmp_path, "--allow-private-archives")
    assert (
        main(["resolver", "register", "--data", str(tmp_path), "--archive-service", ARCHIVE, "--key", KEY])
        == 0
    )
    with socket.create_server(("127.0.0.1", 0)) as silent, served(tmp_path) as (process, url):
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        host, port = url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.request("GET", inclusion(KEY).replace("mtc-m21.invalid", address))
        called, _ = silent.accept()
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        called.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n\r\nconfirmation yes"
        )
        response = connection.getresponse()
        assert response.read() == b"status.archive included status.confirmation successful"
        connection.close()
        called.close()
        process.wait(timeout=60)
        assert process.returncode == 0


def test_it_serves_https(tmp_path: Path) -> None:
    made(tmp_path)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = [
        "-subj",
        "/CN=urlib.net",
        "-days",
        "2",
        "-nodes",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ]
    command = ["openssl", "req", "-x509", *subject, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    with served(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)) as (_, url):
        assert re.fullmatch(r"https://127\.0\.0\.1:[0-9]+", url)
        assert get(url, "/-/healthz") == (200, b"ok\n")


def test_a_certificate_without_its_key_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    capsys.readouterr()
    for more in (["--tls-cert", "x"], ["--tls-key", "x"], ["--tls-cert", "x", "--tls-key", "y"]):
        assert main(["resolver", "serve", "--data", str(tmp_path), *more]) == 1
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("damage", ["other", "short"])
def test_a_damaged_count_of_failures_is_moved_aside_and_failures_are_counted_again(
    tmp_path: Path, damage: str
) -> None:
    made(tmp_path)
    with served(tmp_path) as (_, url):
        assert get(url, inclusion(KEY))[0] == 403
    file = tmp_path / "attempts" / "data.mdb"
    whole = file.read_bytes()
    file.write_bytes(b"\x81" * len(whole) if damage == "other" else whole[: len(whole) // 2])
    with served(tmp_path, "--workers", "2") as (process, url):
        statuses = [get(url, inclusion(KEY))[0] for _ in range(40)]
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert statuses[0] == 403
    assert 429 in statuses
    assert err.count("moved to attempts.damaged") == 1
    assert (tmp_path / "attempts.damaged" / "data.mdb").exists()


@pytest.mark.parametrize("command", ["serve", "archives"])
def test_a_damaged_or_missing_registry_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    registry = made(tmp_path) / "registry.sqlite"
    schema = registry.read_bytes()
    registry.write_bytes(schema.replace(b"CREATE TABLE", b"CREATE \xff\xfe\xb0LE"))
    capsys.readouterr()
    assert main(["resolver", command, "--data", str(tmp_path)]) == 1
    problem = capsys.readouterr().err
    assert (problem.count("\n"), "registry.sqlite cannot be used: malformed" in problem) == (1, True)
    for path in tmp_path.glob("registry.sqlite*"):
        path.unlink()
    assert main(["resolver", command, "--data", str(tmp_path)]) == 1
    problem = capsys.readouterr().err
    assert (problem.count("\n"), "registry.sqlite is missing" in problem) == (1, True)
    assert not registry.exists()


def test_the_service_of_a_resolver_leads_to_its_own_page(tmp_path: Path) -> None:
    made(tmp_path)
    with served(tmp_path) as (_, url):
        metadata = [(":", "*/*"), (":(oai_dc)", "*/*"), (":%28oai_dc%29", "text/html")]
        for modifier, accept, place in (
            ("", "text/html", "/"),
            ("", "application/json", "/-/about"),
            *((modifier, accept, "/-/about?format=oai_dc") for modifier, accept in metadata),
        ):
            connection = http.client.HTTPConnection(url.partition("//")[2], timeout=10)
            connection.request(
                "GET", f"/{SERVICE.lower()}{modifier}", headers={"Host": "urlib.net", "Accept": accept}
            )
            answer = connection.getresponse()
            answer.read()
            connection.close()
            assert (answer.status, answer.headers["location"]) == (302, place)
        oai_dc = get(url, "/-/about?format=oai_dc", Host="urlib.net")[1].decode()
        titles = ["Resolver service of urlib.net", "Serviço de resolução de urlib.net"]
        assert re.findall("<dc:title[^>]*>([^<]*)<", oai_dc) == titles
        assert json.loads(get(url, "/-/about", Host="urlib.net")[1])["title"] == titles[0]
        assert b"ABNT NBR 16066" in get(url, "/", Host="urlib.net", Accept="text/html")[1]
        assert get(url, inclusion(KEY))[0] == 403  # messages to the service are answered as before
