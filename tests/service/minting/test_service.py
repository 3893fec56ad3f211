"""The minting service over real sockets: what is asked, what is refused, and that no label comes twice."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import socket
import struct
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ibi.accounts.tokens import Tokens
from ibi.errors import IbiError
from ibi.http.request import Request
from ibi.http.response import PLAIN, Response
from ibi.http.server.service import Service, listen, run
from ibi.identifier.dates import TICKS
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.generator import LabelGenerator
from ibi.minting import WaitingRoom
from ibi.minting.batcher import STALL_SECONDS, LabelBatcher
from ibi.minting.machine import this_machine
from ibi.minting.metrics import MintMetrics
from ibi.minting.order import LONGEST_COLLECTION, MOST_LABELS, LabelOrder
from ibi.minting.service import MOST_LABELS_PER_CLIENT, MOST_REQUESTS_PER_CLIENT, MintingService
from ibi.minting.state import FOLDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

MADE = "2026-11-21T20:50:14Z"
BOTH = LabelGenerator("mint.example.org", ip="150.163.34.243")
MICRO = TICKS // 10**6
FAILING_DISK = "the disk of this service fails, so no label is given; ask again later"
NOT_NOW = "no label can be given now; ask again later"
STOPPING = "this service is stopping; ask again later"


@dataclass(frozen=True)
class Answer:
    """What came back, headers by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def labels(self) -> list[dict[str, Any]]:
        assert self.status == 200, self.body
        labels: list[dict[str, Any]] = json.loads(self.body)["labels"]
        return labels

    @property
    def problem(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        answered = json.loads(self.body)
        assert answered["status"] == self.status
        assert answered["type"] == "about:blank"
        return str(answered["detail"])


@dataclass
class Running:
    """A minting service at 127.0.0.1:`port`, and a token for it."""

    port: int
    data: Path
    tokens: Tokens
    token: str
    batchers: list[LabelBatcher]
    stop: asyncio.Event

    async def mint(self, order: object = None, *headers: str, token: str | None = None) -> Answer:
        body = b"" if order is None else json.dumps(order).encode()
        return await self.post(body, *headers, token=token)

    async def post(self, body: bytes, *headers: str, token: str | None = None) -> Answer:
        kind = (
            ()
            if any(h.lower().startswith("content-type") for h in headers)
            else ("Content-Type: application/json",)
        )
        who = f"Authorization: Bearer {token or self.token}"
        return await self.ask("POST /-/api/mint", who, *kind, *headers, body=body)

    async def ask(self, what: str, *headers: str, body: bytes = b"") -> Answer:
        lines = [f"{what} HTTP/1.1", "Host: any.example", f"Content-Length: {len(body)}", *headers]
        return await self.say("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body)

    async def counted(self, name: str) -> dict[str, float]:
        """The numbers of a metric that are not 0, by the value of its label."""
        page = (await self.ask("GET /-/metrics")).body.decode()
        families = {each.name: each for each in text_string_to_metric_families(page)}
        found = {" ".join(each.labels.values()): each.value for each in families[f"ibi_mint_{name}"].samples}
        return {label: value for label, value in found.items() if value}

    async def say(self, raw: bytes) -> Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(raw)
            whole = await asyncio.wait_for(reader.read(), 30)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        head, _, rest = whole.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        return Answer(int(first.split(" ")[1]), {name.lower(): value for name, _, value in pairs}, rest)


class Clock:
    """The clock of this machine, set wrong by so many seconds."""

    def __init__(self) -> None:
        self.wrong = 0.0
        self.machine = replace(this_machine(), now=lambda: time.time_ns() + int(self.wrong * TICKS))


@asynccontextmanager
async def minting(
    data: Path,
    granularity: int | None = MICRO,
    *generators: LabelGenerator,
    clock: Clock | None = None,
    choose: Callable[[list[LabelBatcher]], Callable[[LabelOrder], LabelBatcher]] | None = None,
    pages: Mapping[str, Callable[[Request], Response]] | None = None,
    send_buffer: int = 0,
) -> AsyncIterator[Running]:
    """Run one, with a batcher for each generator (by default one with both forms)."""
    machine = (clock or Clock()).machine
    batchers = []
    for number, generator in enumerate(generators or (BOTH,)):
        with WaitingRoom(data / str(number), machine) as waiting_room:
            batchers.append(LabelBatcher(waiting_room, generator, granularity))
    tokens = Tokens(data / FOLDER)
    token = tokens.make("first", MADE)
    choosing = choose(batchers) if choose else lambda order: order.able(batchers)[0]
    metrics = MintMetrics(data)
    app = MintingService(batchers, tokens, choosing, pages or {}, metrics)
    stop, ready = asyncio.Event(), asyncio.Event()
    listener = listen("127.0.0.1:0")
    if send_buffer:  # those who connect inherit it
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    port = listener.getsockname()[1]
    serving = asyncio.create_task(
        run([Service(metrics.counted(app), draining=app.stop)], [listener], lambda _: ready.set(), stop)
    )
    await ready.wait()
    try:
        yield Running(port, data, tokens, token, batchers, stop)
    finally:
        stop.set()
        await serving


def with_service(data: Path, work: Callable[[Running], Awaitable[None]], *more: Any, **named: Any) -> None:
    """Run a service and do something with it."""

    async def both() -> None:
        async with minting(data, *more, **named) as running:
            await work(running)

    asyncio.run(both())


# --- what is given -----------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-08", "GEN-16", "GEN-41")
def test_an_empty_request_gives_one_label_in_every_form(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        for answer in (await service.mint(), await service.mint({}), await service.post(b" \r\n")):
            (label,) = answer.labels
            assert list(label) == ["rep", "ibip", "datetime"]
            forms = IBIForms.parse(f"rep {label['rep']} ibip {label['ibip']}")
            assert forms.rep is not None
            assert forms.ibip is not None
            assert forms.rep.date.text == forms.ibip.date.text == label["datetime"]
            assert str(forms.rep).startswith("example.org/mint/")
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["cache-control"] == "no-store"

    with_service(tmp_path, work)


@pytest.mark.parametrize("count", [1, 2, 100, 1001, MOST_LABELS])
def test_as_many_labels_come_as_were_asked_for_all_different_and_in_order(tmp_path: Path, count: int) -> None:
    async def work(service: Running) -> None:
        answer = await service.mint({"count": count})
        assert answer.headers["content-type"] == "application/json"
        labels = answer.labels
        moments = [parse_ibi(label["rep"]).date.ticks for label in labels]
        assert len(labels) == count
        assert moments == sorted(set(moments), key=lambda ticks: ticks or 0)
        assert [parse_ibi(label["ibip"]).date.ticks for label in labels] == moments
        assert [parse_ibi(label["rep"]).date.text for label in labels] == [
            each["datetime"] for each in labels
        ]
        assert (moments[-1] or 0) <= time.time_ns()

    with_service(tmp_path, work)


@pytest.mark.parametrize(
    ("forms", "rep", "ibip"), [("both", True, True), ("rep", True, False), ("ibip", False, True)]
)
def test_the_forms_are_those_that_were_asked_for(tmp_path: Path, forms: str, rep: bool, ibip: bool) -> None:
    async def work(service: Running) -> None:
        for label in (await service.mint({"count": 3, "forms": forms})).labels:
            assert (label["rep"] is not None, label["ibip"] is not None) == (rep, ibip)
        text = await service.mint({"count": 3, "forms": forms}, "Accept: text/plain")
        assert {len(line.split()) for line in text.body.splitlines()} == {rep + ibip}

    with_service(tmp_path, work)


def test_without_an_ip_address_there_are_only_repository_names(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        for order in (None, {"forms": "rep"}):
            (label,) = (await service.mint(order)).labels
            assert str(parse_ibi(label["rep"])) == label["rep"]
            assert label["ibip"] is None
        assert len((await service.mint(None, "Accept: text/plain")).body.split()) == 1
        for forms in ("both", "ibip"):
            refused = await service.mint({"forms": forms})
            assert refused.status == 400
            assert "IP address" in refused.problem

    with_service(tmp_path, work, MICRO, LabelGenerator("mint.example.org"))


def test_plain_text_is_one_label_a_line_for_those_who_ask_for_it(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        answer = await service.mint({"count": 2}, "Accept: text/plain")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        for line in answer.body.decode().splitlines():
            rep, ibip = line.split(" ")
            assert parse_ibi(rep).date.text == parse_ibi(ibip).date.text
        assert answer.body.endswith(b"\n")
        for accept in ("*/*", "application/json, text/plain;q=0.5", "text/html"):
            assert (await service.mint(None, f"Accept: {accept}")).headers[
                "content-type"
            ] == "application/json"

    with_service(tmp_path, work)


def test_the_collection_says_which_subsystem_gives_the_label(tmp_path: Path) -> None:
    def choose(batchers: list[LabelBatcher]) -> Callable[[LabelOrder], LabelBatcher]:
        def chosen(order: LabelOrder) -> LabelBatcher:
            if order.collection == "unknown":
                raise IbiError("nothing is minted for the collection {name}", name=order.collection)
            return batchers[order.collection == "teses é livros"]

        return chosen

    async def work(service: Running) -> None:
        for collection, host in ((None, "a"), ("x", "a"), ("teses é livros", "b")):
            order = {} if collection is None else {"collection": collection}
            (label,) = (await service.mint(order)).labels
            assert label["rep"].startswith(f"example.org/{host}/")
        refused = await service.mint({"collection": "unknown"})
        assert (refused.status, refused.problem) == (400, "nothing is minted for the collection unknown")
        assert await service.counted("refused") == {"order": 1}

    hosts = [LabelGenerator(f"{name}.example.org") for name in "ab"]
    with_service(tmp_path, work, MICRO, *hosts, choose=choose)


def test_an_order_goes_to_a_subsystem_that_has_the_forms(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        for forms, host in ((None, "a"), ("rep", "a"), ("both", "mint"), ("ibip", "mint")):
            (label,) = (await service.mint({"forms": forms} if forms else {})).labels
            assert label["rep"] is None or label["rep"].startswith(f"example.org/{host}/")
            assert (label["ibip"] is not None) == (host == "mint")

    with_service(tmp_path, work, MICRO, LabelGenerator("a.example.org"), BOTH)


# --- what is refused ---------------------------------------------------------------------------------------------


def test_without_a_token_nothing_is_given(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        mint, own = "POST /-/api/mint", f"Authorization: Bearer {service.token}"
        for none in ("X: y", "Authorization: Basic abc", "Authorization: Bearer", "Authorization: Bearer "):
            answer = await service.ask(mint, none)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert "Bearer TOKEN" in answer.problem
        for wrong in (["Authorization: Bearer wrong"], ["Authorization: Bearer \xff\xfe"], [own, own]):
            answer = await service.ask(mint, *wrong)
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
            assert service.token.encode() not in answer.body
        assert (await service.ask(mint, f"authorization: bEARER  {service.token}")).status == 200

    with_service(tmp_path, work)
    assert (tmp_path / "0" / "minting" / "state").read_text().split()[4] == "1"


def test_a_running_service_sees_tokens_come_and_go(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        others = Tokens(tmp_path / FOLDER)
        second = others.make("second", MADE)
        assert (await service.mint(token=second)).status == 200
        others.revoke("second")
        assert (await service.mint(token=second)).status == 401
        assert (await service.mint()).status == 200
        (tmp_path / "minting" / "tokens.json").write_text("damaged")
        broken = await service.mint()
        assert (broken.status, broken.headers["retry-after"]) == (503, "10")
        assert broken.problem == FAILING_DISK

    with_service(tmp_path, work)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_post_mints(tmp_path: Path, method: str) -> None:
    async def work(service: Running) -> None:
        answer = await service.ask(f"{method} /-/api/mint", f"Authorization: Bearer {service.token}")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        if method != "HEAD":
            assert "GET for the standard's older clients is not offered" in answer.problem

    with_service(tmp_path, work)


BAD = [
    b"x", b"[]", b"5", b'"count"', b"null", b"\xff", b'{"count": 1', b"[" * 3000, b'{"count": 1} {}', b"\xef\xbb\xbf{}",
    b'{"count": 0}', b'{"count": -1}', b'{"count": 10001}', b'{"count": 1.0}', b'{"count": true}', b'{"count": "1"}',
    b'{"count": null}', b'{"count": NaN}', b'{"count": 1e3}', b'{"count": ' + b"9" * 4000 + b"}", b'{"count": [1]}',
    b'{"forms": "REP"}', b'{"forms": null}', b'{"forms": ["rep"]}', b'{"forms": {}}', b'{"forms": {"count": 1}}',
    b'{"collection": ""}', b'{"collection": 5}', b'{"collection": null}', b'{"collection": "a\\nb"}',
    b'{"collection": "\\ud800"}', b'{"collection": "' + b"x" * (LONGEST_COLLECTION + 1) + b'"}',
    b'{"number": 1}', b'{"Count": 1}', b'{"count": 1, "count": 1}', b'{"\\ud800\\u0000{x}": 1}', b'{"": 1}',
]  # fmt: skip


def test_a_bad_order_is_one_clear_sentence_and_burns_nothing(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        for body in BAD:
            answer = await service.post(body)
            assert answer.status == 400, body
            assert len(answer.problem) > 10
            assert "\n" not in answer.problem
        answer = await service.ask("POST /-/api/mint?count=5", f"Authorization: Bearer {service.token}")
        assert answer.status == 400
        assert "in the body" in answer.problem

    with_service(tmp_path, work)
    assert (tmp_path / "0" / "minting" / "state").read_text().split()[4] == "0"


def test_a_body_that_is_too_long_or_not_json_is_refused_as_such(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        order = b'{"count": 1}'
        assert (await service.post(order.ljust(4096))).status == 200
        assert (await service.post(order.ljust(4097))).status == 413
        who = f"Authorization: Bearer {service.token}\r\nContent-Type: application/json"
        head = f"POST /-/api/mint HTTP/1.1\r\nHost: a\r\n{who}\r\nConnection: close\r\n"
        chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n"
        pieces = b"".join(b"800\r\n" + b" " * 2048 + b"\r\n" for _ in range(3))  # and no end
        assert (await service.say(chunked.encode() + pieces)).status == 413
        good = b'b\r\n{"count": 2\r\n1\r\n}\r\n0\r\n\r\n'
        whole = await service.say(chunked.encode() + good)
        assert whole.status == 200
        for header in (
            "Content-Type: application/x-www-form-urlencoded",
            "Content-Type: text/plain",
            "Content-Type:",
        ):
            assert (await service.post(b"{}", header)).status == 415
        assert (await service.post(b"{}", "Content-Encoding: gzip")).status == 415
        assert (await service.post(b"{}", "Content-Type: Application/JSON; charset=utf-8")).status == 200

    with_service(tmp_path, work)


def test_problems_are_told_in_the_language_of_the_client(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        for language, answered in (
            ("pt-PT,pt;q=0.9,en;q=0.1", "pt-BR"),
            ("en", "en"),
            ("fr", "en"),
            ("", "en"),
        ):
            answer = await service.ask("GET /nothing", f"Accept-Language: {language}")
            assert (answer.status, answer.headers["content-language"]) == (404, answered)
            assert answer.problem == (
                "there is no such page here" if answered == "en" else "esta página não existe aqui"
            )

    with_service(tmp_path, work)


# --- pages -------------------------------------------------------------------------------------------------------


def test_it_tells_that_it_runs_and_what_it_mints_under(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        health = await service.ask("GET /-/healthz")
        assert (health.status, json.loads(health.body)) == (200, {"status": "ok"})
        about = json.loads((await service.ask("GET /-/about")).body)
        assert about["role"] == "mint"
        first, second = about["subsystems"]
        assert first == {
            "host": "mint.example.org", "port": 80, "ip": "150.163.34.243", "ip_port": 800,
            "granularity": "auto", "for_trying": False,
        }  # fmt: skip
        assert (second["ip"], second["ip_port"], second["for_trying"]) == (None, None, True)
        more = await service.ask("GET /-/more")
        assert (more.status, more.body) == (418, b"a page")
        assert (await service.ask("HEAD /-/about")).body == b""
        posted = await service.ask("POST /-/about")
        assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")

    trial = LabelGenerator("a.localhost", for_trying=True)
    pages = {"/-/more": lambda _: Response(418, b"a page", PLAIN)}
    with_service(tmp_path, work, None, BOTH, trial, pages=pages)


def test_it_counts_what_it_gives_and_what_it_refuses_for_those_inside_alone(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        await service.mint({"count": 7})
        await service.mint({"count": 5}, token="wrong")
        await service.mint({"count": "five"})
        await service.post(b"{")
        await service.ask("GET /-/strange?labels=7")
        assert await service.counted("labels") == {"": 7}
        assert await service.counted("refused") == {"token": 1, "order": 2}
        requests = await service.counted("requests")
        assert requests.pop("health 2xx") == 2
        assert requests == {"mint 2xx": 1, "mint 4xx": 3, "other 4xx": 1}
        assert (await service.counted("disk_free_bytes"))[""] > 1
        outside = await service.ask("GET /-/metrics", "X-Forwarded-For: 203.0.113.7")
        assert outside.status == 404
        assert b"ibi_mint" not in outside.body

    with_service(tmp_path, work)


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_faulty_clock_is_503_with_a_sentence_until_it_is_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()

    async def work(service: Running) -> None:
        before = (await service.mint({"count": 5})).labels
        for wrong, sentence in ((-3600.0, "behind"), (2 * 86400.0, "ahead")):
            clock.wrong = wrong
            async with asyncio.timeout(20):
                refused = await asyncio.gather(*[service.mint() for _ in range(10)])
            for answer in refused:
                assert answer.status == 503
                assert int(answer.headers["retry-after"]) > 0
                assert sentence in answer.problem
            clock.wrong *= 2  # the same fault, with another figure
            assert (await service.mint()).status == 503
            assert (await service.ask("GET /-/healthz")).status == 200
        assert await service.counted("refused") == {"clock": 22}
        assert await service.counted("refused_for_load") == {"503": 22}
        clock.wrong = 0.0
        after = (await service.mint({"count": 5})).labels
        assert before[-1]["datetime"] < after[0]["datetime"]

    with_service(tmp_path, work, clock=clock)
    assert [record.levelname for record in caplog.records if "no label can be given" in record.message] == [
        "ERROR",
        "ERROR",
    ]


@pytest.mark.proves("AMB-18")
def test_a_lost_state_is_503_without_a_promise_and_shown_once_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(service: Running) -> None:
        state = tmp_path / "0" / "minting" / "state"
        await service.mint()
        state.rename(state.with_name("kept"))
        for _ in range(3):
            answer = await service.mint()
            assert answer.status == 503
            assert "retry-after" not in answer.headers
            assert answer.problem == "no label is given until the minting state is repaired: ibi mint recover"
        assert await service.counted("refused") == {"state": 3}

    with caplog.at_level(logging.INFO):
        with_service(tmp_path, work)
    assert [record.levelname for record in caplog.records if record.name.startswith("ibi")] == ["ERROR"]
    assert str(tmp_path) in caplog.text


def test_a_disk_that_fails_is_503_and_later_all_is_well_again(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        folder = tmp_path / "0" / "minting"
        folder.rename(tmp_path / "0" / "elsewhere")
        answer = await service.mint()
        assert (answer.status, answer.headers["retry-after"]) == (503, "10")
        assert answer.problem == FAILING_DISK
        assert await service.counted("refused") == {"disk": 1}
        (tmp_path / "0" / "elsewhere").rename(folder)
        assert (await service.mint()).status == 200

    with_service(tmp_path, work)


@pytest.mark.long
def test_while_another_process_holds_the_lock_clients_are_told_to_come_back(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        with (tmp_path / "0" / "minting" / "lock").open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            async with asyncio.timeout(20):
                refused = await asyncio.gather(*[service.mint() for _ in range(5)])
            for answer in refused:
                assert (answer.status, answer.headers["retry-after"]) == (503, str(STALL_SECONDS))
            assert await service.counted("refused") == {"busy": 5}
        assert (await service.mint()).status == 200

    with_service(tmp_path, work)


def test_without_a_thread_it_is_503_and_later_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def work(service: Running) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            answer = await service.mint()
        assert (answer.status, answer.headers["retry-after"]) == (503, "10")
        assert answer.problem == NOT_NOW
        assert (await service.mint()).status == 200

    with_service(tmp_path, work)
    assert "can't start new thread" in caplog.text


def test_a_fault_of_ours_shows_nothing_of_its_insides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def choose(_: list[LabelBatcher]) -> Callable[[LabelOrder], LabelBatcher]:
        def broken(order: LabelOrder) -> LabelBatcher:
            msg = f"secret {order.collection}"
            raise RuntimeError(msg)

        return broken

    async def work(service: Running) -> None:
        answer = await service.mint()
        assert (answer.status, answer.problem) == (503, NOT_NOW)

    with_service(tmp_path, work, choose=choose)
    assert "secret None" in caplog.text


# --- many clients ------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-41", "GEN-44")
def test_many_clients_at_once_never_get_a_label_twice(tmp_path: Path) -> None:
    async def client(service: Running, number: int) -> list[str]:
        given = []
        for _ in range(10):
            labels = (await service.mint({"count": 1 + number % 5})).labels
            given += [label[form] for label in labels for form in ("rep", "ibip")]
        return given

    async def work(service: Running) -> None:
        given = await asyncio.gather(*[client(service, number) for number in range(20)])
        labels = [label for each in given for label in each]
        assert len(labels) == 2 * 10 * sum(1 + number % 5 for number in range(20))
        assert len(set(labels)) == len(labels)

    with_service(tmp_path, work)


def test_a_client_may_not_wait_for_too_much_at_a_time_and_others_do_not_suffer(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        other = service.tokens.make("other", MADE)
        with (tmp_path / "0" / "minting" / "lock").open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiting = [asyncio.ensure_future(service.mint()) for _ in range(MOST_REQUESTS_PER_CLIENT)]
            await _until(lambda: service.batchers[0].waiting == MOST_REQUESTS_PER_CLIENT)
            refused = await service.mint()
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert "with this token" in refused.problem
            assert await service.counted("refused") == {"too much": 1}
            whole = MOST_LABELS_PER_CLIENT // MOST_LABELS
            waiting += [
                asyncio.ensure_future(service.mint({"count": MOST_LABELS}, token=other)) for _ in range(whole)
            ]
            await _until(lambda: service.batchers[0].waiting > MOST_LABELS_PER_CLIENT)
            assert (await service.mint(token=other)).status == 429
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}
        assert (await service.mint()).status == 200
        assert (await service.mint({"count": MOST_LABELS}, token=other)).status == 200

    with_service(tmp_path, work)


def test_a_request_that_is_answered_frees_its_own_place_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.minting.service.MOST_REQUESTS_PER_CLIENT", 2)

    async def work(service: Running) -> None:
        first, second = (asyncio.ensure_future(service.mint({"count": count})) for count in (1, 30))
        await _until(lambda: service.batchers[0].waiting >= 10)
        assert (await service.mint()).status == 429
        assert (await first).status == 200
        third = asyncio.ensure_future(service.mint())
        await asyncio.sleep(0.05)
        assert not second.done()
        assert (await service.mint()).status == 429
        assert [(await one).status for one in (second, third)] == [200, 200]

    with_service(tmp_path, work, TICKS // 10)


def test_a_line_that_is_too_long_is_told_to_come_back(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        with (tmp_path / "0" / "minting" / "lock").open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            first = asyncio.ensure_future(service.mint({"count": 9}))
            await _until(lambda: service.batchers[0].waiting == 9)
            answer = await service.mint({"count": 2})
            assert answer.status == 503
            assert 1 <= int(answer.headers["retry-after"]) <= 10
            assert "more labels" in answer.problem
            service.stop.set()
        await first

    with_service(tmp_path, work, TICKS)


def test_an_order_that_no_subsystem_can_ever_serve_is_told_how_many_it_may_be(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        with WaitingRoom(tmp_path / "finer", this_machine()) as waiting_room:
            service.batchers.append(
                LabelBatcher(waiting_room, LabelGenerator("finer.example.org"), TICKS // 10)
            )
        for order, most in (({"count": 101}, 100), ({"count": 11, "forms": "ibip"}, 10)):
            refused = await service.mint(order)
            assert refused.status == 400
            assert "retry-after" not in refused.headers
            assert f"at most {most} " in refused.problem
        (label, *_) = (await service.mint({"count": 11})).labels
        assert label["rep"].startswith("example.org/finer/")

    with_service(tmp_path, work, TICKS)


@pytest.mark.long
def test_a_client_that_goes_away_burns_its_labels_and_frees_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(service: Running) -> None:
        request = (
            f"POST /-/api/mint HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {service.token}\r\n"
            'Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{"count": 5000}'
        ).encode()
        for cut in (len(request), len(request) - 3, 10):
            for reset in (False, True):
                for _ in range(8):
                    with socket.create_connection(("127.0.0.1", service.port)) as connection:
                        if reset:
                            connection.setsockopt(
                                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                            )
                        connection.sendall(request[:cut])
                    await asyncio.sleep(0)
        await _until(lambda: not service.batchers[0].waiting)
        async with asyncio.timeout(20):
            while (answer := await service.mint({"count": MOST_LABELS})).status == 429:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        assert len({label["rep"] for label in answer.labels}) == MOST_LABELS

    with_service(tmp_path, work)
    assert [record for record in caplog.records if record.name.startswith("ibi")] == []


@pytest.mark.long
def test_a_client_that_does_not_read_keeps_its_place_until_it_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.minting.service.SENDING_SECONDS", 3)

    async def work(service: Running) -> None:
        loop = asyncio.get_running_loop()
        order = json.dumps({"count": MOST_LABELS}).encode()
        request = (
            f"POST /-/api/mint HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {service.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(order)}\r\n\r\n"
        ).encode() + order
        slow = [socket.socket() for _ in range(MOST_LABELS_PER_CLIENT // MOST_LABELS)]
        for connection in slow:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", service.port))
            await loop.sock_sendall(connection, request)
            assert await loop.sock_recv(connection, 9) == b"HTTP/1.1 "  # its labels are there
        assert (await service.mint()).status == 429
        async with asyncio.timeout(20):
            while (await service.mint()).status == 429:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
        for connection in slow:
            connection.close()

    with_service(tmp_path, work, send_buffer=4096)


def test_one_connection_can_mint_many_times(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        request = (
            f"POST /-/api/mint HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {service.token}\r\n\r\n".encode()
        )
        writer.write(request * 5)  # the next before the answer to the first
        seen = set()
        for _ in range(5):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            (label,) = json.loads(await reader.readexactly(length))["labels"]
            seen.add(label["rep"])
        writer.close()
        await writer.wait_closed()
        assert len(seen) == 5

    with_service(tmp_path, work)


# --- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_at_the_end_what_is_reserved_is_handed_out_and_what_waits_is_told_so(tmp_path: Path) -> None:
    async def work(service: Running) -> None:
        await service.mint()
        asking = [asyncio.ensure_future(service.mint({"count": count})) for count in (1, 5)]
        await _until(lambda: service.batchers[0].waiting == 5)
        service.stop.set()
        reserved, waiting = await asyncio.gather(*asking)
        assert len(reserved.labels) == 1
        assert waiting.status == 503
        assert waiting.problem == STOPPING

    with_service(tmp_path, work, TICKS)


@pytest.mark.long
def test_a_server_that_waits_no_longer_says_so(tmp_path: Path) -> None:
    """What lasts longer than the server waits for is cut off."""

    async def work(service: Running) -> None:
        await service.mint()
        service.batchers[0].stop = lambda: None  # type: ignore[method-assign]  # as if it had not been called
        asking = asyncio.ensure_future(service.mint({"count": 9}))
        await _until(lambda: service.batchers[0].waiting == 9)
        service.stop.set()
        answer = await asking
        assert (answer.status, answer.problem) == (503, STOPPING)
        assert answer.headers["retry-after"] == str(STALL_SECONDS)

    with_service(tmp_path, work, TICKS)


async def _until(happened: Callable[[], object]) -> None:
    """Wait for what another task or thread brings about."""
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)
