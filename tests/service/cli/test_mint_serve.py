"""`ibi mint serve` and `ibi mint token` as an operator types them: real directories, processes and sockets."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ibi
from ibi.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = ("--host", "mint.example.org", "--ip", "150.163.34.243")
FINE = ("--granularity", "0.000001")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ibi.__file__).parents[1]), "LANGUAGE": "en"}


def token(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ibi", "mint", "token", "--data", str(data), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT)


def made(data: Path, name: str = "first") -> str:
    return token(data, "--name", name).stdout.strip()


def serving(data: Path, *words: str) -> subprocess.Popen[str]:
    serve = f"mint serve --data {data} --bind 127.0.0.1:0".split()
    command = [sys.executable, "-m", "ibi", *serve, *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


@contextmanager
def served(data: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the URL that it printed."""
    with serving(data, *words) as process:
        try:
            assert process.stdout is not None
            word, _, url = process.stdout.readline().strip().partition(" ")
            assert word == "ready", process.communicate()
            yield process, url
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()


@contextmanager
def client(url: str) -> Iterator[http.client.HTTPConnection]:
    """One connection to a minting service."""
    scheme, _, authority = url.partition("://")
    connection = http.client.HTTPConnection(authority, timeout=60)
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(authority, timeout=20, context=context)
    try:
        yield connection
    finally:
        connection.close()


def ask(
    connection: http.client.HTTPConnection, who: str, count: int, **more: str
) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {who}", "Content-Type": "application/json"}
    connection.request("POST", "/-/api/mint", json.dumps({"count": count, **more}), headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def ask_once(url: str, who: str, count: int = 1) -> tuple[int, dict[str, Any]]:
    with client(url) as connection:
        return ask(connection, who, count)


def forms(answer: dict[str, Any]) -> list[str]:
    """Both forms of each label, one after the other."""
    return [label[form] for label in answer["labels"] for form in ("rep", "ibip")]


def labels(url: str, who: str, count: int = 1) -> list[str]:
    status, answer = ask_once(url, who, count)
    assert status == 200, answer
    return forms(answer)


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_a_token_is_printed_once_and_alone(tmp_path: Path) -> None:
    done = token(tmp_path / "new", "--name", "deposits")
    assert done.returncode == 0
    assert re.fullmatch(r"ibi_[A-Za-z0-9_-]{43}\n", done.stdout)
    assert done.stderr == "the token deposits is shown only now:\n"
    listed = token(tmp_path / "new", "--list")
    assert re.fullmatch(r"deposits  20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z\n", listed.stdout)
    revoked = token(tmp_path / "new", "--revoke", "deposits")
    assert (revoked.returncode, revoked.stdout, revoked.stderr) == (0, "", "")
    assert token(tmp_path / "new", "--list").stdout == ""


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--name", "a b"], 1),
        (["--name", ""], 1),
        (["--name", "taken"], 1),
        (["--revoke", "unknown"], 1),
        (["--name", "a", "--list"], 2),
        (["--name", "a", "--revoke", "a"], 2),
        ([], 2),
    ],
)
def test_bad_words_about_tokens_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int
) -> None:
    assert main(["mint", "token", "--data", str(tmp_path), "--name", "taken"]) == 0
    capsys.readouterr()
    if status == 2:
        with pytest.raises(SystemExit) as ended:
            main(["mint", "token", "--data", str(tmp_path), *words])
        assert ended.value.code == 2
    else:
        assert main(["mint", "token", "--data", str(tmp_path), *words]) == status
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["mint", "token", "--data", str(tmp_path), "--list"]) == 0
    assert capsys.readouterr().out.split()[0] == "taken"


# --- serving ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-08", "GEN-44")
def test_it_serves_labels_to_tokens_and_stops_when_it_is_told(tmp_path: Path) -> None:
    first, second = made(tmp_path), made(tmp_path, "second")
    with served(tmp_path, *HOST, *FINE) as (process, url):
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", url)
        given = labels(url, first, 1000) + labels(url, second)
        assert len(set(given)) == 2002
        assert ask_once(url, "wrong")[0] == 401
        token(tmp_path, "--revoke", "second")
        assert ask_once(url, second)[0] == 401
        third = made(tmp_path, "third")
        given += labels(url, third, 10)
        process.terminate()
        assert process.wait(60) == 0
        assert process.stderr is not None
        log = process.stderr.read()
    assert len(set(given)) == 2022
    assert log == ""
    assert not any(secret in log for secret in (first, second, third))


@pytest.mark.long
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stop_answers_who_has_asked_and_ends(tmp_path: Path, workers: str) -> None:
    who = made(tmp_path)
    with served(tmp_path, *HOST, "--granularity", "1", "--workers", workers) as (process, url):
        answers: list[tuple[int, dict[str, Any]]] = []
        asking = [threading.Thread(target=lambda: answers.append(ask_once(url, who, 3))) for _ in range(3)]
        for thread in asking:
            thread.start()
        time.sleep(1.5)  # they have asked by now, and must wait for some seconds more
        process.terminate()
        assert process.wait(60) == 0
        for thread in asking:
            thread.join(60)
    assert len(answers) == 3
    assert {status for status, _ in answers} <= {200, 503}
    given = [form for status, answer in answers if status == 200 for form in forms(answer)]
    assert len(set(given)) == len(given)


@pytest.mark.proves("GEN-04", "GEN-46")
def test_several_subsystems_serve_their_collections_and_take_turns(tmp_path: Path) -> None:
    who = made(tmp_path)
    listed = {"one": "a.example.org", "two": "b.example.org", "maps": "maps.example.org"}
    tables = [f'[{name}]\nhost = "{host}"\ngranularity = "0.001"\n' for name, host in listed.items()]
    (tmp_path / "subsystems.toml").write_text("".join(tables) + 'collections = ["maps"]\n')
    with served(tmp_path) as (_, url), client(url) as connection:
        prefixes = [ask(connection, who, 1)[1]["labels"][0]["rep"].rsplit("/", 2)[0] for _ in range(4)]
        status, answer = ask(connection, who, 2, collection="maps")
    assert sorted(prefixes) == ["example.org/a", "example.org/a", "example.org/b", "example.org/b"]
    assert status == 200
    assert {label["rep"].rsplit("/", 2)[0] for label in answer["labels"]} == {"example.org/maps"}
    assert (tmp_path / "maps" / "minting" / "state").exists()


def test_what_is_minted_under_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mint", "token", "--data", str(tmp_path), "--name", "a"]) == 0
    assert main(["mint", "serve", "--data", str(tmp_path)]) == 1
    assert "--host" in capsys.readouterr().err
    (tmp_path / "subsystems.toml").write_text('[a]\nhost = "a.example.org"\ngranularity = "60"\n')
    assert main(["mint", "serve", "--data", str(tmp_path), *HOST]) == 1
    assert "leave out --host" in capsys.readouterr().err
    assert main(["mint", "serve", "--data", str(tmp_path)]) == 1
    assert "60 seconds" in capsys.readouterr().err


def test_without_any_token_it_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mint", "serve", "--data", str(tmp_path / "x"), *HOST]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"ibi mint token add NAME --data {tmp_path / 'x'}" in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "mint.localhost"], "only for trying out"),
        (["--host", "localhost"], ""),
        ([*HOST, "--granularity", "60"], "60 seconds"),
        ([*HOST, "--granularity", "1", "--workers", "11"], "--workers 11"),
        ([*HOST, "--bind", "nowhere"], "cannot listen"),
        ([*HOST, "--tls-cert", "x"], "--tls-key"),
        ([*HOST, "--tls-cert", "x", "--tls-key", "y"], "cannot be used"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(["mint", "token", "--data", str(tmp_path), "--name", "a"]) == 0
    capsys.readouterr()
    assert main(["mint", "serve", "--data", str(tmp_path), *words]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert sentence in printed.err


@pytest.mark.proves("AMB-18")
def test_a_lost_state_is_said_before_anything_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    who = made(tmp_path)
    with served(tmp_path, *HOST) as (_, url):
        labels(url, who)
    (tmp_path / "minting" / "state").unlink()
    assert main(["mint", "serve", "--data", str(tmp_path), *HOST]) == 1
    assert "missing" in capsys.readouterr().err


def test_tokens_over_plain_http_to_other_machines_give_a_warning(tmp_path: Path) -> None:
    made(tmp_path)
    with serving(tmp_path, *HOST, "--bind", "0.0.0.0:nowhere") as process:
        _, errors = process.communicate(timeout=60)
    assert "unencrypted" in errors.splitlines()[0]


def test_it_serves_https_with_a_certificate(tmp_path: Path) -> None:
    who, cert, key = made(tmp_path), tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=mint.example.org", "-days", "2", "-nodes"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command = ["openssl", "req", "-x509", *subject, *kind, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    with served(tmp_path, *HOST, *FINE, "--tls-cert", str(cert), "--tls-key", str(key)) as (_, url):
        assert url.startswith("https://")
        assert len(labels(url, who, 5)) == 10


@pytest.mark.long
@pytest.mark.proves("GEN-41", "GEN-44")
def test_killed_workers_and_services_never_lead_to_a_second_label(tmp_path: Path) -> None:
    who = made(tmp_path)
    seen: list[str] = []
    for victim in ("worker", "all", "none"):
        with served(tmp_path, *HOST, *FINE, "--workers", "2") as (process, url):
            before = len(seen)
            asking = [threading.Thread(target=_ask_until_the_end, args=(url, who, seen)) for _ in range(4)]
            for thread in asking:
                thread.start()
            end = time.monotonic() + 60
            while len(seen) < before + 50:
                assert time.monotonic() < end
                time.sleep(0.02)
            workers = _children(process.pid)
            assert len(workers) == 2
            if victim == "worker":
                os.kill(workers[0], signal.SIGKILL)
                while len({*_children(process.pid)} - {workers[0]}) < 2 or len(seen) < before + 100:
                    assert time.monotonic() < end
                    time.sleep(0.02)
                process.terminate()
                assert process.wait(60) == 0
            elif victim == "all":
                for one in (process.pid, *workers):
                    os.kill(one, signal.SIGKILL)
            else:
                process.terminate()
                assert process.wait(60) == 0
            for thread in asking:
                thread.join(30)
    assert len(seen) > 100
    assert len(set(seen)) == len(seen)


def _ask_until_the_end(url: str, who: str, seen: list[str]) -> None:
    """Ask again and again; what arrived whole was seen."""
    with suppress(OSError, http.client.HTTPException, json.JSONDecodeError), client(url) as connection:
        while True:
            status, answer = ask(connection, who, 20)
            if status == 200:
                seen += forms(answer)


def _children(parent: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
