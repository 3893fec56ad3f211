"""A resolver as its operator runs it: it follows its settings, says whether it is ready, and counts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.cli import main
from ibi.runtime.settings import ResolverSettings
from support.network.up import Answer, get

CANARY = "canary7"
ITEM = "archive.example/w/2021/01.01.00.00"


class Running:
    """A resolver of two processes, at a socket that the test holds."""

    def __init__(self, data: Path, listener: socket.socket) -> None:
        self.data = data
        self.written = data / "written"
        self.root = f"http://127.0.0.1:{listener.getsockname()[1]}"
        words = f"resolver serve --data {data} --bind fd://{listener.fileno()} --workers 2 --log-format json"
        with self.written.open("wb") as written:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ibi", *words.split(), "--access-log"],
                stdout=subprocess.PIPE,
                stderr=written,
                text=True,
                pass_fds=[listener.fileno()],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4] / "src"), "LANGUAGE": "en"},
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"ready {self.root}\n"

    def get(self, path: str, **headers: str) -> Answer:
        return get(f"{self.root}{path}", **headers)

    def change(self, **settings: object) -> None:
        replace(ResolverSettings.read(self.data), **settings).write(self.data)  # type: ignore[arg-type]  # by name

    def numbers(self) -> dict[str, float]:
        lines = self.get("/-/metrics").body.decode().splitlines()
        pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name.removeprefix("ibi_resolver_"): float(value) for name, _, value in pairs}

    def end(self) -> list[dict[str, object]]:
        """Stop it; the events that it wrote."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.written.read_text()
        return self.events()

    def events(self) -> list[dict[str, object]]:
        """What it wrote so far, the line that it is writing left out."""
        lines = self.written.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


def until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    words = "--address resolver.test --service-ibi J8LNKB5R7W/3FUQHC5 --allow-private-archives"
    assert main(["resolver", "init", "--data", str(tmp_path), *words.split()]) == 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Running(tmp_path, listener)
        yield made
        if made.process.poll() is None:
            made.process.terminate()
        made.process.communicate(timeout=60)


def admins(running: Running) -> set[str | None]:
    """Whom its processes name; each connection may come to another one."""
    return {json.loads(running.get("/-/about").body)["admin"] for _ in range(20)}


def messages(events: list[dict[str, object]], level: str) -> list[str]:
    """What is said of the settings."""
    found = [event for event in events if event["logger"] == "ibi.runtime.reload"]
    return [str(event["message"]) for event in found if event["level"] == level]


def test_what_is_written_into_its_settings_counts_in_every_process_and_nothing_else_does(
    running: Running,
) -> None:
    running.change(admin="a@resolver.test")
    until(lambda: admins(running) == {"a@resolver.test"})
    running.process.send_signal(signal.SIGHUP)  # all connections may have come to one process
    until(lambda: messages(running.events(), "INFO") == ["the settings were changed"] * 2)
    broken = running.data / "broken"
    broken.write_text("address = ")
    broken.replace(
        running.data / ResolverSettings.FILE
    )  # at once, or an empty file is one more thing to complain of
    running.process.send_signal(signal.SIGHUP)
    until(lambda: len(messages(running.events(), "WARNING")) == 2)
    assert admins(running) == {"a@resolver.test"}
    complaints = messages(running.end(), "WARNING")
    assert len(complaints) == 2
    assert all("cannot be used" in complaint for complaint in complaints)


def test_a_signal_reloads_the_settings_without_a_request(running: Running) -> None:
    running.change(admin="a@resolver.test")
    running.process.send_signal(signal.SIGHUP)
    until(lambda: messages(running.events(), "INFO") == ["the settings were changed"] * 2)


def test_numbers_of_all_processes_are_told_to_this_machine_alone(running: Running) -> None:
    for _ in range(12):
        assert running.get(f"/{ITEM}", host="resolver.test").status == 503
    seen = running.numbers()
    assert seen['resolutions_total{outcome="incomplete"}'] == seen["resolution_seconds_count"] == 12
    assert (seen["workers"], seen["in_flight"]) == (2, 0)
    assert running.get("/-/metrics", x_forwarded_for="203.0.113.7").status == 404
    running.change(metrics_networks=("203.0.113.0/24",))
    until(lambda: running.get("/-/metrics").status == 404)


@pytest.mark.proves("REG-08")
def test_nothing_of_a_reader_or_of_a_key_is_written_down(running: Running) -> None:
    key = "98765432109876543210"
    service = "J8LNKB5R7W/3FUQHC5"
    query = f"servicesubject=inclusionRequest&archiveaddress={CANARY}.test&registrationkey={key}"
    for path in (
        f"/{ITEM}?q={CANARY}",
        f"/{service}?{query}",
        f"/-/explain/{ITEM}?{CANARY}",
        f"/-/find?text={CANARY}",
    ):
        running.get(path, host="resolver.test", x_forwarded_for="203.0.113.7", cookie=CANARY)
    written = json.dumps(running.end())
    assert written.count("ibi.access") == 4
    assert not re.search(rf"{CANARY}|{key}|203\.0\.113|127\.0\.0\.1", written)


def test_a_request_is_found_in_the_log_by_its_id(running: Running) -> None:
    given = running.get("/-/about", x_request_id="from-the-gate")
    assert "x-request-id" not in running.get("/-/about").headers
    assert given.headers["x-request-id"] == "from-the-gate"
    # Two processes write the log, each at its own pace.
    ids = {str(event["request_id"]) for event in running.end() if event["logger"] == "ibi.access"}
    assert "from-the-gate" in ids
    assert [len(made) for made in ids - {"from-the-gate"}] == [16]


def test_a_command_tells_how_the_archives_of_a_running_resolver_are(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["resolver", "status", "--data", str(running.data), "--resolver", running.root]
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["archives"]["included"], shown["members"]) == (0, [])
    assert main(words) == 0
    assert capsys.readouterr().out.strip()
    running.end()
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("ibi: 127.0.0.1 cannot be reached")


def test_a_server_goes_by_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "--address resolver.test --service-ibi J8LNKB5R7W/3FUQHC5 --allow-private-archives"
    assert main(["resolver", "init", "--data", str(tmp_path), *words.split()]) == 0
    monkeypatch.setenv("IBI_RESOLVER_ADMIN", "container@resolver.test")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = Running(tmp_path, listener)
        assert admins(running) == {"container@resolver.test"}
        running.end()
    assert "container" not in (tmp_path / ResolverSettings.FILE).read_text()
