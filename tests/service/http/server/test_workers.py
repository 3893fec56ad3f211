"""Workers that are killed are started again, and no other request fails; a service whose workers cannot live ends."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

PROGRAM = r"""
import os, signal, sys, time
from pathlib import Path
from ibi.http.server.service import Service
from ibi.http.server import workers
from ibi.http.server.workers import serve

async def app(scope, receive, send):
    if scope["raw_path"] == b"/die":
        os.kill(os.getpid(), signal.SIGKILL)
    body = str(os.getpid()).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

async def started():
    os.write(1, b"started %d\n" % os.getpid())

def make():
    if sys.argv[1:] == ["broken"]:
        raise ValueError("this cannot begin")
    return [Service(app, started)]

if sys.argv[1:] == ["steady"]:
    workers.STEADY_SECONDS = 1.0
if sys.argv[1:] == ["stranger"] and os.fork() == 0:  # as orphans are of the first process of a container
    time.sleep(1)
    os._exit(0)
serve(make, ["127.0.0.1:0"], lambda urls: print("ready", *urls, flush=True), 3)
"""


class ThreeWorkers:
    """A service of three workers in processes of its own."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4] / "src")},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ready(self) -> int:
        """Wait until it is ready; its port."""
        first = self.line()
        assert first.startswith("ready http://127.0.0.1:"), self.process.communicate()
        return int(first.rpartition(":")[2])

    def workers(self) -> list[int]:
        pid = self.process.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def three_again(self, without: int) -> list[int]:
        """Wait for three workers without the one that has ended; their process ids, the newest last."""
        end = time.monotonic() + 20
        while len(found := [pid for pid in self.workers() if pid != without]) < 3:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)
        return found


@pytest.fixture
def three() -> Iterator[ThreeWorkers]:
    made = ThreeWorkers()
    yield made
    if made.process.poll() is None:
        made.process.terminate()
    made.process.communicate(timeout=20)


class Reader(threading.Thread):
    """Asks without a pause over one connection after another; notes by whom it was answered, and who broke off."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.stop = threading.Event()
        self.answered: list[int] = []
        self.broken: list[int | None] = []

    def run(self) -> None:
        while not self.stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            worker = None
            try:
                for _ in range(50):
                    connection.request("GET", "/")
                    worker = int(connection.getresponse().read())
                    self.answered.append(worker)
            except (OSError, http.client.HTTPException):
                self.broken.append(worker)
            finally:
                connection.close()


def test_a_killed_worker_is_started_again_and_the_requests_of_others_are_answered(
    three: ThreeWorkers,
) -> None:
    port = three.ready()
    word, first = three.line().split()
    assert word == "started"
    readers = [Reader(port) for _ in range(6)]
    for reader in readers:
        reader.start()
    before = after = three.three_again(0)
    try:
        for victim in (int(first), next(pid for pid in before if pid != int(first))):
            os.kill(victim, signal.SIGKILL)
            after = three.three_again(victim)
            _wait_until_all_answer(readers, after)
    finally:
        for reader in readers:
            reader.stop.set()
        for reader in readers:
            reader.join(30)
    broken = {worker for reader in readers for worker in reader.broken}
    # None: a connection that the victim had accepted, and had not answered yet.
    assert broken <= {int(first), next(pid for pid in before if pid != int(first)), None}
    assert sum(len(reader.broken) for reader in readers) <= 2 * len(readers)
    word, again = three.line().split()  # the new first worker speaks for the service
    assert (word, int(again) in after) == ("started", True)
    three.process.terminate()
    rest, _ = three.process.communicate(timeout=20)
    assert (rest, three.process.returncode) == ("", 0)  # and is ready without a second word


def _wait_until_all_answer(readers: list[Reader], workers: list[int]) -> None:
    end = time.monotonic() + 20
    while not set(workers) <= {worker for reader in readers for worker in reader.answered}:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_service_whose_workers_end_at_once_again_and_again_ends(three: ThreeWorkers) -> None:
    port = three.ready()
    end = time.monotonic() + 60
    while three.process.poll() is None:
        assert time.monotonic() < end
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/die")
            connection.getresponse()
    _, written = three.process.communicate(timeout=20)
    assert three.process.returncode == 1
    assert "a worker process ended unexpectedly" in written.splitlines()[-1]


def test_the_end_of_a_child_that_is_no_worker_ends_nothing() -> None:
    strange = ThreeWorkers("stranger")
    try:
        strange.ready()
        worker = strange.three_again(0)[-1]  # the stranger is the oldest
        time.sleep(1.5)
        assert strange.process.poll() is None
        os.kill(worker, signal.SIGKILL)
        strange.three_again(worker)
        strange.process.terminate()
        assert strange.process.wait(10) == 0
    finally:
        strange.process.kill()
        strange.process.communicate()


def test_a_worker_that_ends_at_once_again_and_again_is_started_later_each_time(three: ThreeWorkers) -> None:
    three.ready()
    victim = three.three_again(0)[0]
    pauses = []
    for _ in range(4):
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        victim = three.three_again(victim)[-1]
        pauses.append(time.monotonic() - killed)
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True)), pauses


def test_the_end_of_a_worker_that_has_lived_for_long_is_not_counted() -> None:
    steady = ThreeWorkers("steady")
    try:
        steady.ready()
        victim = steady.three_again(0)[0]
        time.sleep(1.2)
        for _ in range(6):  # the first end is that of a steady one; the sixth at once would end the service
            os.kill(victim, signal.SIGKILL)
            victim = steady.three_again(victim)[-1]
        time.sleep(0.2)
        assert steady.process.poll() is None
    finally:
        steady.process.kill()
        steady.process.communicate()


def test_a_stop_while_a_worker_waits_to_be_started_again_ends_the_service(three: ThreeWorkers) -> None:
    three.ready()
    victim = three.three_again(0)[0]
    for _ in range(4):
        os.kill(victim, signal.SIGKILL)
        victim = three.three_again(victim)[-1]
    os.kill(victim, signal.SIGKILL)
    time.sleep(0.1)  # the next one is started after 1.6 seconds
    three.process.terminate()
    assert three.process.wait(10) == 0
    assert three.process.returncode == 0


def test_workers_that_fail_at_the_start_end_the_service_at_once() -> None:
    broken = ThreeWorkers("broken")
    started = time.monotonic()
    _, written = broken.process.communicate(timeout=20)
    assert broken.process.returncode == 1
    assert time.monotonic() - started < 10
    assert "this cannot begin" in written
