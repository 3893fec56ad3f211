"""Two resolver nodes with one store behind HAProxy, with real Archives and a real PostgreSQL, as in operation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Scope, Tokens
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.shared.store import close_store
from proofs.common.environment import environment
from proofs.common.served_archive import Served
from proofs.freshness.field import do, put, set_up
from support.archive.administration_fixture import PASSWORD, Librarian
from support.concurrency.forked import start_ibi
from support.engines.haproxy import balancer, haproxy_program
from support.engines.postgresql import PostgreSQL, programs
from support.network.up import Answer, get
from support.ports import free_port

MADE = "2026-11-22T10:00:00Z"
SERVICE = "J8LNKB5R7W/3FUQHC5"
KEY = "12345678901234567890"
READERS = 4


class Node:
    """One node: its data directory, and the process that serves it."""

    def __init__(self, data: Path, port: int) -> None:
        self.data = data
        self.port = port
        self.process: subprocess.Popen[str] | None = None

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        words = ["resolver", "serve", "--data", str(self.data), "--bind", f"127.0.0.1:{self.port}"]
        words += ["--workers", "2", "--trusted-proxy", "127.0.0.1"]
        with (self.data / "written").open("ab") as log:
            self.process = start_ibi(
                words,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
                start_new_session=True,
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready"), (self.data / "written").read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            if how is signal.SIGKILL:
                os.killpg(self.process.pid, how)
            else:
                self.process.send_signal(how)
            self.process.wait(30)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None


class Field:
    """PostgreSQL, two nodes, the balancer before them, and two Archives that both say they have one original."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.stack = stack
        self.postgresql = PostgreSQL(durable=True)
        stack.callback(self.postgresql.remove)
        self.postgresql.start()
        self.port, ports = free_port(), [free_port(), free_port()]
        self.root, url = f"http://127.0.0.1:{self.port}", self.postgresql.new_database()
        self.nodes = [Node(folder / f"node{number}", port) for number, port in enumerate(ports)]
        first = ["--address", f"127.0.0.1:{self.port}", "--service-ibi", SERVICE, "--allow-private-archives"]
        for node in self.nodes:
            do("resolver", "init", "--data", node.data, "--store", url, *first)
            first = []
        here = self.nodes[0].data
        do(
            "resolver",
            "set",
            "--data",
            here,
            "request_rate",
            "0",
            "aliases",
            ",".join(f"127.0.0.1:{p}" for p in ports),
        )
        Accounts(here).add("root", Role.ADMINISTRATOR, PASSWORD, MADE)
        self.token = Tokens(here).make("reader", MADE, [Scope.READ, Scope.ADMIN])
        for node in self.nodes:
            node.start()
            stack.callback(node.end)
        stack.enter_context(balancer(folder, self.port, ports, f"127.0.0.1:{self.port}"))
        self.archives = [self.archive(folder, name) for name in ("a", "b")]

    def archive(self, folder: Path, name: str) -> Served:
        """An Archive that is registered at the first node and joins by the balancer."""
        archive = Served(name, folder / name, free_port())
        archive.make()
        set_up(archive, resolver=self.root, resolver_service=SERVICE, key=KEY)
        words = ["--archive-service", archive.service_path, "--key", KEY]
        do("resolver", "register", "--data", self.nodes[0].data, *words)
        archive.start()
        self.stack.callback(archive.stop)
        archive.wait()
        until(
            lambda: all(archive.service_path.encode() in get(f"{n.root}/-/status").body for n in self.nodes)
        )
        return archive

    def ask(self, node: Node, path: str) -> Any:
        """The JSON interface of one node."""
        answer = get(f"{node.root}/-/api{path}", authorization=f"Bearer {self.token}")
        assert answer.status == 200, answer
        return json.loads(answer.body)


def until(truth: Callable[[], object], seconds: float = 60.0) -> float:
    """Wait until it is so; return how many seconds that took."""
    begun = time.monotonic()
    while not truth():
        assert time.monotonic() - begun < seconds, "it never came"
        time.sleep(0.01)
    return time.monotonic() - begun


def place(number: int, version: int = 1) -> str:
    return f"http://far.example/{version}/{number}"


def name(number: int) -> str:
    return f"nodes.example/item-{number}/2020/01.01.00.00"


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    if programs() is None or haproxy_program() is None:
        pytest.skip("needs PostgreSQL and HAProxy")
    with ExitStack() as stack:
        made = Field(tmp_path_factory.mktemp("nodes"), stack)
        put(made.archives[0], *({"rep": name(number), "url": place(number)} for number in range(20)))
        until(lambda: led(made, 0) == place(0))
        yield made
        for node in made.nodes:
            close_store(node.data)


def until_led(field: Field, number: int, where: str, seconds: float = 60.0) -> None:
    """Wait until every node leads the readers of an item there."""
    until(lambda: all(get(f"{node.root}/{name(number)}").location == where for node in field.nodes), seconds)


def until_all_led(field: Field, number: int, where: str) -> None:
    """Wait until every process of every node leads there: for two seconds, no click was led elsewhere.

    One process may have no earlier answer of the Archive, and so lead right before the node has heard of the change,
    while another one uses its earlier answer, which it may do for about a second.
    """
    end, right_since = time.monotonic() + 60, time.monotonic()
    while time.monotonic() - right_since < 2:
        assert time.monotonic() < end, "it never came"
        if any(
            get(f"{node.root}/{name(number)}").location != where for node in field.nodes for _ in range(4)
        ):
            right_since = time.monotonic()
        time.sleep(0.05)


def led(field: Field, number: int) -> str:
    return get(f"{field.root}/{name(number)}").location


class Readers:
    """Readers who click all the while; what they were answered, and each that was led elsewhere than it should be."""

    def __init__(self, field: Field) -> None:
        self.statuses = Counter[int]()
        self.wrong: list[tuple[int, Answer]] = []
        self._field = field
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._click, args=[n]) for n in range(READERS)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def _click(self, number: int) -> None:
        while not self._over.is_set():
            number = (number + 1) % 20
            try:
                answer = get(f"{self._field.root}/{name(number)}")
            except OSError:
                self.statuses[0] += 1
                continue
            if answer.status in {
                502,
                504,
            }:  # the balancer's, for a request in flight on a node that was killed
                self.statuses[0] += 1
                continue
            self.statuses[answer.status] += 1
            refused = answer.status == 503 and "retry-after" in answer.headers
            if answer.location != place(number) and not refused:
                self.wrong.append((number, answer))
            time.sleep(0.005)


def test_an_archive_that_is_registered_at_one_node_is_known_at_the_other_within_a_second(
    field: Field,
) -> None:
    here, there = field.nodes
    service = "late.example/w/2020/01.01.00.00"
    do("resolver", "register", "--data", here.data, "--archive-service", service)
    assert until(lambda: service in json.dumps(field.ask(there, "/registrations"))) < 1.0


def test_a_setting_that_is_changed_at_one_node_holds_at_the_other(field: Field) -> None:
    do("resolver", "set", "--data", field.nodes[0].data, "admin", "new@resolver.example")
    until(
        lambda: all(b"new@resolver.example" in get(f"{node.root}/-/about").body for node in field.nodes), 3.0
    )
    assert ResolverSettings.read(field.nodes[1].data).admin == "new@resolver.example"


def test_who_signs_in_at_one_node_is_signed_in_at_the_other(field: Field) -> None:
    here, there = field.nodes
    browser = Librarian(here.port)
    # As the balancer says it: to a trusted proxy, a password goes by https alone.
    assert browser.sign_in("root", x_forwarded_proto="https").status == 303
    other = Librarian(there.port, cookies=browser.cookies)
    assert other.ask("GET", "/-/admin", x_forwarded_proto="https").status == 200
    assert Librarian(there.port).ask("GET", "/-/admin", x_forwarded_proto="https").status == 303


def test_an_alert_that_is_seen_by_one_node_is_in_the_evidence_pages_of_the_other(field: Field) -> None:
    here, there = field.nodes
    for archive in field.archives:
        put(archive, {"rep": name(500), "url": place(500)})
    target = f"{here.root}/{name(500)}?ibiurl.requireditemstatus=Original"
    until(lambda: get(target).status == 409)
    until(lambda: alerts(field, there), 3.0)
    (alert,) = alerts(field, there)
    assert alert["ibi"] == name(500)
    assert {each["archive"] for each in alert["claimants"]} == {a.service_path for a in field.archives}
    assert field.ask(there, "/log/verify")["whole"]


def alerts(field: Field, node: Node) -> list[dict[str, Any]]:
    found = field.ask(node, "/alerts")["alerts"]
    return [each for each in found if each["ibi"] == name(500)]


def test_a_change_that_one_node_hears_of_is_followed_by_the_other(field: Field) -> None:
    until_led(field, 19, place(19))
    do("archive", "edit", "--data", field.archives[0].data, name(19), "--url", place(19, 2))
    try:
        until_led(field, 19, place(19, 2), 3.0)
    finally:
        do("archive", "edit", "--data", field.archives[0].data, name(19), "--url", place(19))
        until_all_led(field, 19, place(19))


def test_when_a_node_is_killed_under_readers_none_is_led_wrong(field: Field) -> None:
    here, there = field.nodes
    with Readers(field) as readers:
        time.sleep(1)
        here.end(signal.SIGKILL)
        time.sleep(1)
        here.start()
        time.sleep(1)
    assert readers.wrong == [], readers.wrong[:5]
    assert readers.statuses[302] > 100
    assert readers.statuses[0] <= READERS, "at most the requests in flight fail"
    assert field.ask(there, "/log/verify")["whole"]


def test_when_postgresql_is_started_again_under_readers_none_is_led_wrong(field: Field) -> None:
    with Readers(field) as readers:
        time.sleep(1)
        field.postgresql.restart()
        time.sleep(2)
    assert readers.wrong == [], readers.wrong[:5]
    assert readers.statuses[0] == 0
    until(lambda: all(get(f"{node.root}/-/readyz").status == 200 for node in field.nodes))
    until_led(field, 1, place(1))


def test_while_postgresql_is_away_nodes_say_not_ready_and_what_is_asked_of_them_is_still_right(
    field: Field,
) -> None:
    here, _ = field.nodes
    field.postgresql.stop()
    try:
        until(lambda: all(get(f"{node.root}/-/readyz").status == 503 for node in field.nodes))
        assert get(f"{here.root}/{name(2)}").location == place(2), "it answers from what it has"
        until(lambda: led(field, 2) == "")  # the balancer has no node any more
        refused = get(f"{field.root}/{name(2)}")
        assert (refused.status, refused.headers["retry-after"]) == (503, "2")
        begun = time.monotonic()
        assert get(f"{here.root}/-/api/registrations", authorization=f"Bearer {field.token}").status == 503
        assert time.monotonic() - begun < 2
    finally:
        field.postgresql.start()
    until(lambda: all(get(f"{node.root}/-/readyz").status == 200 for node in field.nodes))
    until(lambda: led(field, 2) == place(2))
    # A worker may find the store again a moment after the one that said ready.
    until(
        lambda: get(f"{here.root}/-/api/registrations", authorization=f"Bearer {field.token}").status == 200
    )
    assert len(field.ask(here, "/registrations")["registrations"]) >= 2
