"""What a minting service answers, whole, without a socket: its answers, its refusals, its log and its counts.

How it behaves over real connections is in `tests/service/minting/test_service.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ibi.accounts.tokens import Tokens
from ibi.errors import ClockError, IbiError, LostState, MintingNotAllowed, SetupError
from ibi.http.request import Request
from ibi.http.response import PLAIN, Refusal, Response
from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import Batch
from ibi.identifier.generator import LabelGenerator
from ibi.minting.batcher import STALL_SECONDS, LabelBatcher
from ibi.minting.metrics import MintMetrics, kind_of_request
from ibi.minting.order import MOST_LABELS, LabelOrder
from ibi.minting.service import (
    MOST_LABELS_PER_CLIENT,
    MOST_REQUESTS_PER_CLIENT,
    SENDING_SECONDS,
    MintingService,
)
from support.clock import run_with_false_clock
from support.machine import START
from support.minting.scripted import ScriptedWaitingRoom, batch_of, happened

MADE = "2026-11-21T20:50:14Z"
BOTH = LabelGenerator("mint.example.org", ip="150.163.34.243")
ALWAYS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
STOPPING = "this service is stopping; ask again later"
NOT_NOW = "no label can be given now; ask again later"
DISK = "the disk of this service fails, so no label is given; ask again later"
REPAIR = "no label is given until the minting state is repaired: ibi mint recover"


class Answer(NamedTuple):
    """What was sent."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def short(self) -> tuple[int, str, dict[str, str]]:
        """Status, sentence and the headers that not every problem has; the rest is compared here."""
        problem = json.loads(self.body)
        assert problem == {"type": "about:blank", "status": self.status, "detail": problem["detail"]}
        headers = dict(self.headers)
        usual = {
            **ALWAYS,
            "content-type": "application/problem+json",
            "content-length": str(len(self.body)),
            "cache-control": "no-store",
            "content-language": "en",
            "vary": "accept-language",
        }
        assert {name: headers.pop(name, None) for name in usual} == usual
        return self.status, problem["detail"], headers


class Play:
    """A service of one batcher over a waiting room with a script."""

    def __init__(self, data: Path, choose: Callable[[LabelOrder], None] = lambda _: None) -> None:
        self.waiting_room = ScriptedWaitingRoom()
        self.batcher = LabelBatcher(self.waiting_room, BOTH, 1)
        (data / "minting").mkdir()
        self.metrics = MintMetrics(data)
        tokens = Tokens(data / "minting")
        self.tokens = [tokens.make(name, MADE) for name in ("first", "second")]

        def chosen(order: LabelOrder) -> LabelBatcher:
            choose(order)
            return self.batcher

        pages = {"/-/more": lambda _: Response(418, b"a page", PLAIN)}
        self.app = MintingService([self.batcher], tokens, chosen, pages, self.metrics)

    async def ask(
        self,
        line: str,
        body: bytes = b"",
        send: Callable[[dict[str, Any]], Awaitable[None]] | None = None,
        **headers: str,
    ) -> Answer | None:
        method, _, path = line.partition(" ")
        sent = list[dict[str, Any]]()
        scope = {
            "type": "http", "method": method, "raw_path": path.encode(), "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def keep(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send or keep)
        if not sent:
            return None
        named = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], named, b"".join(message["body"] for message in sent[1:]))

    async def answer(self, line: str, body: bytes = b"", **headers: str) -> Answer:
        answer = await self.ask(line, body, None, **headers)
        assert answer is not None
        return answer

    async def mint(self, order: str = "", token: int = 0, **headers: str) -> Answer:
        kind = {"content_type": "application/json"} if order else {}
        return await self.answer(
            "POST /-/api/mint",
            order.encode(),
            **kind,
            **headers,
            authorization=f"Bearer {self.tokens[token]}",
        )

    def counted(self) -> dict[str, float]:
        """What the metrics of labels and refusals count."""
        pairs = (line.rpartition(" ") for line in self.metrics.text().decode().splitlines() if line[0] != "#")
        begins = ("ibi_mint_labels", "ibi_mint_refused_total")
        return {name: float(value) for name, _, value in pairs if name.startswith(begins) and float(value)}


def refused(reason: str, count: int = 1) -> dict[str, float]:
    return {f'ibi_mint_refused_total{{reason="{reason}"}}': count}


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    play = Play(tmp_path)
    yield play
    play.metrics.close()


# --- what is given --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "kind"), [("*/*", "application/json"), ("text/plain", "text/plain; charset=utf-8")]
)
def test_labels_are_given_and_counted(play: Play, accept: str, kind: str) -> None:
    play.waiting_room.script.put(batch_of(2, START))
    play.waiting_room.clock.at += TICKS
    answer = asyncio.run(play.mint('{"count": 2}', accept=accept))
    labels = [BOTH.label(START + number) for number in range(2)]
    if kind == PLAIN:
        body = "".join(f"{each.rep} {each.ibip}\n" for each in labels)
    else:
        rows = [
            {"rep": str(each.rep), "ibip": str(each.ibip), "datetime": each.main.date.text} for each in labels
        ]
        body = json.dumps({"labels": rows}, separators=(",", ":"))
    assert answer == Answer(
        200,
        {
            **ALWAYS,
            "content-type": kind,
            "content-length": str(len(body)),
            "cache-control": "no-store",
            "vary": "accept",
        },
        body.encode(),
    )
    assert play.counted() == {"ibi_mint_labels_total": 2}


def test_many_labels_are_sent_in_pieces(play: Play) -> None:
    sent = list[dict[str, Any]]()

    async def keep(message: dict[str, Any]) -> None:
        sent.append(message)

    async def ask() -> None:
        play.waiting_room.script.put(batch_of(MOST_LABELS, START - MOST_LABELS))
        who = f"Bearer {play.tokens[0]}"
        order = b'{"count": %d}' % MOST_LABELS
        await play.ask("POST /-/api/mint", order, keep, authorization=who, content_type="application/json")

    asyncio.run(ask())
    bodies = [message["body"] for message in sent[1:] if message["body"]]
    whole = b"".join(bodies)
    assert len(json.loads(whole)["labels"]) == MOST_LABELS
    assert {len(piece) for piece in bodies[:-1]} == {256 * 1024}
    headers = {
        **ALWAYS,
        "content-type": "application/json",
        "content-length": str(len(whole)),
        "cache-control": "no-store",
        "vary": "accept",
    }
    assert {name.decode(): value.decode() for name, value in sent[0]["headers"]} == headers


def test_pages_tell_that_it_runs_and_what_it_mints_under(tmp_path: Path) -> None:
    trial = LabelGenerator("a.localhost", 8080, "10.0.0.1", 8081, for_trying=True)
    generators = (BOTH, trial, LabelGenerator("names.example.org"))
    batchers = [
        LabelBatcher(ScriptedWaitingRoom(), each, step)
        for each, step in zip(generators, (TICKS // 10, None, 60 * TICKS), strict=True)
    ]
    play = Play(tmp_path)
    app = MintingService(batchers, Tokens(tmp_path), lambda _: batchers[0], {}, play.metrics)
    more, play.app = play.app, app

    names = ("host", "port", "ip", "ip_port", "granularity", "for_trying")
    subsystems = (
        ("mint.example.org", 80, "150.163.34.243", 800, "0.1", False),
        ("a.localhost", 8080, "10.0.0.1", 8081, "auto", True),
        ("names.example.org", 80, None, None, "60", False),
    )

    async def ask() -> None:
        health = await play.answer("GET /-/healthz")
        kept = {**ALWAYS, "content-type": "application/json", "cache-control": "no-store"}
        assert health == Answer(200, {**kept, "content-length": "16"}, b'{"status": "ok"}')
        about = await play.answer("GET /-/about")
        facts = {
            "role": "mint",
            "subsystems": [dict(zip(names, each, strict=True)) for each in subsystems],
            "most_labels": 10_000,
        }
        body = json.dumps(facts, indent=1).encode()
        assert about == Answer(200, {**kept, "content-length": str(len(body))}, body)
        assert await play.answer("HEAD /-/about") == Answer(200, about.headers, b"")
        play.app = more
        assert (await play.answer("GET /-/more")).status == 418

    asyncio.run(ask())
    play.metrics.close()


# --- what is refused ------------------------------------------------------------------------------------------------

NO_TOKEN = 401, "minting needs a token: Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"}
BAD_TOKEN = (
    401,
    "this token is unknown, or was revoked",
    {"www-authenticate": 'Bearer error="invalid_token"'},
)


@pytest.mark.parametrize(
    ("authorization", "problem"),
    [
        ("", NO_TOKEN),
        ("Bearer", NO_TOKEN),
        ("Bearer  ", NO_TOKEN),
        ("Basic abc", NO_TOKEN),
        ("Bearer abc", BAD_TOKEN),
        ("bearer  abc ", BAD_TOKEN),
    ],
)
def test_without_a_known_token_nothing_is_given(
    play: Play, authorization: str, problem: tuple[int, str, dict[str, str]]
) -> None:
    answer = asyncio.run(play.answer("POST /-/api/mint", authorization=authorization))
    assert answer.short == problem
    assert play.counted() == refused("token")


def test_the_scheme_counts_in_any_case_and_blanks_around_a_token_do_not(play: Play) -> None:
    play.waiting_room.script.put(batch_of(1))
    asking = play.answer("POST /-/api/mint", authorization=f"bEARER  {play.tokens[0]} ")
    assert asyncio.run(asking).status == 200


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "GET /-/api/mint",
            (405, "only POST mints; GET for the standard's older clients is not offered", {"allow": "POST"}),
        ),
        ("POST /-/about", (405, "only GET and HEAD are understood here", {"allow": "GET, HEAD"})),
        ("GET /-/nothing", (404, "there is no such page here", {})),
        ("POST /-/nothing", (404, "there is no such page here", {})),
        ("GET /-/metrics", (404, "there is no such page here", {})),
    ],
)
def test_what_is_no_order_is_a_problem_and_counts_as_no_refused_order(
    play: Play, line: str, problem: tuple[int, str, dict[str, str]]
) -> None:
    answer = asyncio.run(play.answer(line, via="1.1 proxy"))
    assert answer.short == problem
    assert play.counted() == {}


def test_a_problem_is_told_in_the_language_of_the_client(play: Play) -> None:
    answer = asyncio.run(play.answer("GET /-/nothing", accept_language="pt"))
    assert answer.headers["content-language"] == "pt-BR"
    assert json.loads(answer.body)["detail"] == "esta página não existe aqui"


def _not_allowed(_: LabelOrder) -> None:
    raise MintingNotAllowed("nothing is named here")


def _refuses(_: LabelOrder) -> None:
    raise Refusal(422, IbiError("not so many"), ("x-limit", "5"))


def _fails(_: LabelOrder) -> None:
    msg = "secret"
    raise RuntimeError(msg)


@pytest.mark.parametrize(
    ("choose", "order", "problem", "counts"),
    [
        (_not_allowed, "", (400, "nothing is named here", {}), refused("order")),
        (_refuses, "", (422, "not so many", {"x-limit": "5"}), refused("order")),
        (_refuses, "[", (400, "the body is not JSON", {}), refused("order")),
        (_fails, "", (503, NOT_NOW, {"retry-after": "10"}), {}),
    ],
)
def test_an_order_that_no_batcher_is_chosen_for_is_a_problem(
    tmp_path: Path,
    choose: Callable[[LabelOrder], None],
    order: str,
    problem: tuple[int, str, dict[str, str]],
    counts: dict[str, float],
    caplog: pytest.LogCaptureFixture,
) -> None:
    play = Play(tmp_path, choose)
    with caplog.at_level(logging.INFO):
        assert asyncio.run(play.mint(order)).short == problem
    assert play.counted() == counts
    logged = [(each.levelname, each.message, each.exc_info is not None) for each in caplog.records]
    assert logged == ([("ERROR", "a request could not be answered", True)] if choose is _fails else [])
    play.metrics.close()


BEHIND = "the clock is {seconds} seconds behind"
FAULTS = {
    "clock": (ClockError(BEHIND, seconds=3), "the clock is 3 seconds behind", {"retry-after": "10"}),
    "state": (LostState("the state in {directory} is lost", directory="/data"), REPAIR, {}),
    "disk": (SetupError("the disk in {directory} is full", directory="/data"), DISK, {"retry-after": "10"}),
}


@pytest.mark.parametrize("reason", FAULTS)
def test_why_no_label_is_given_is_told_to_all_and_logged_once_until_labels_come_again(
    play: Play, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    fault, sentence, headers = FAULTS[reason]

    async def ask(next_batch: Batch | Exception) -> Answer:
        play.waiting_room.script.put(next_batch)
        return await play.mint()

    async def ask_all() -> None:
        for _ in range(2):
            assert (await ask(fault)).short == (503, sentence, headers)
        assert (await ask(batch_of(1))).status == 200
        assert (await ask(fault)).status == 503

    with caplog.at_level(logging.INFO):
        asyncio.run(ask_all())
    logged = "ERROR", f"no label can be given: {fault}"
    assert [(each.levelname, each.message) for each in caplog.records] == [logged, logged]
    assert play.counted() == {"ibi_mint_labels_total": 1, **refused(reason, 3)}


def test_another_trouble_is_logged_again_but_not_the_same_clock_with_another_figure(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    faults = [ClockError(BEHIND, seconds=3), ClockError(BEHIND, seconds=4), SetupError("a"), SetupError("b")]

    async def ask_all() -> None:
        for fault in faults:
            play.waiting_room.script.put(fault)
            assert (await play.mint()).status == 503

    asyncio.run(ask_all())
    assert [each.message.rpartition(": ")[2] for each in caplog.records] == [str(faults[0]), "a", "b"]


def test_tokens_that_cannot_be_read_are_the_disk(
    play: Play, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "minting/tokens.json").write_text("damaged")
    assert asyncio.run(play.mint()).short == (503, DISK, {"retry-after": "10"})
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert play.counted() == refused("disk")


def test_who_waits_in_vain_is_told_so_and_counted(play: Play) -> None:
    answer = run_with_false_clock(play.mint())
    assert answer.short == (
        503,
        "no label came in time; ask again later",
        {"retry-after": str(STALL_SECONDS)},
    )
    assert play.counted() == refused("busy")


# --- many requests of one client ------------------------------------------------------------------------------------

TOO_MUCH = (
    429,
    "too much is requested at a time with this token; wait for the labels that are under way",
    {"retry-after": "1"},
)


@pytest.mark.parametrize(
    ("orders", "one_too_many", "freed"),
    [
        ([1] * MOST_REQUESTS_PER_CLIENT, 1, 1),
        ([MOST_LABELS] * (MOST_LABELS_PER_CLIENT // MOST_LABELS), 1, MOST_LABELS),
        ([MOST_LABELS, MOST_LABELS - 5], 6, MOST_LABELS + 5),
    ],
)
def test_each_client_may_wait_for_so_much_at_a_time(
    play: Play, orders: list[int], one_too_many: int, freed: int
) -> None:
    def mint(count: int, token: int = 0) -> asyncio.Future[Answer]:
        return asyncio.ensure_future(play.mint(f'{{"count": {count}}}', token))

    async def ask() -> None:
        waiting = [mint(count) for count in orders]
        await happened(lambda: play.batcher.waiting == sum(orders))
        assert (await mint(one_too_many)).short == TOO_MUCH
        waiting.append(mint(1, token=1))
        await happened(lambda: play.batcher.waiting == sum(orders) + 1)
        # The first is served, which frees its place and no other.
        play.waiting_room.script.put(batch_of(orders[0], START - MOST_LABELS))
        assert (await waiting[0]).status == 200
        if freed <= MOST_LABELS:
            waiting.append(mint(freed))
            await happened(lambda: play.batcher.waiting == sum(orders[1:]) + freed + 1)
            assert (await mint(one_too_many)).short == TOO_MUCH
        play.waiting_room.script.put(batch_of(MOST_LABELS_PER_CLIENT + 2, START - 2 * MOST_LABELS_PER_CLIENT))
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}
        # And all places are free again.
        waiting = [mint(count) for count in orders]
        await happened(lambda: play.batcher.waiting == sum(orders))
        play.waiting_room.script.put(batch_of(sum(orders), START - MOST_LABELS_PER_CLIENT))
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}

    asyncio.run(ask())
    assert play.counted()['ibi_mint_refused_total{reason="too much"}'] == 1 + (freed <= MOST_LABELS)


def test_a_client_that_does_not_read_is_sent_away_and_its_place_is_free(
    play: Play, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.minting.service.MOST_REQUESTS_PER_CLIENT", 1)

    async def never(_: dict[str, Any]) -> None:
        await asyncio.get_running_loop().create_future()

    async def ask() -> float:
        who = f"Bearer {play.tokens[0]}"
        play.waiting_room.script.put(batch_of(1))
        slow = asyncio.ensure_future(play.ask("POST /-/api/mint", b"", never, authorization=who))
        await happened(play.counted)
        assert (await play.mint()).short == TOO_MUCH
        now = asyncio.get_running_loop().time
        began = now()
        assert await slow is None
        waited = now() - began
        play.waiting_room.script.put(batch_of(1, START - 500))
        assert (await play.mint()).status == 200
        return waited

    assert run_with_false_clock(ask()) == pytest.approx(SENDING_SECONDS, abs=0.01)
    logged = [(each.levelname, each.message) for each in caplog.records]
    assert logged == [("WARNING", "a client was too slow to read its labels")]


# --- who goes away, and the end -------------------------------------------------------------------------------------


def test_nothing_is_sent_to_who_has_gone_away_nor_over_another_kind_of_connection(play: Play) -> None:
    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def sent(message: dict[str, Any]) -> None:
        raise AssertionError(message)

    scope = {
        "type": "http", "method": "POST", "raw_path": b"/-/api/mint", "query_string": b"",
        "headers": [(b"authorization", f"Bearer {play.tokens[0]}".encode())],
    }  # fmt: skip
    asyncio.run(play.app(scope, gone, sent))
    asyncio.run(play.app({**scope, "type": "websocket"}, gone, sent))
    assert play.counted() == {}


def test_who_is_cut_off_while_the_server_stops_is_told_so(play: Play) -> None:
    async def ask() -> Answer:
        asking = asyncio.ensure_future(play.mint())
        await happened(lambda: play.batcher.waiting)
        asking.cancel()
        return await asking

    assert asyncio.run(ask()).short == (503, STOPPING, {"retry-after": str(STALL_SECONDS)})


def test_a_service_that_stops_stops_its_batchers(play: Play) -> None:
    async def ask() -> Answer:
        await play.app.stop()
        return await play.mint()

    assert asyncio.run(ask()).short == (503, STOPPING, {"retry-after": str(STALL_SECONDS)})
    assert play.waiting_room.requested == []


# --- metrics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (b"/-/api/mint", "mint"),
        (b"/-/api/mint?x=1", "mint"),
        (b"/-/api/mint/", "other"),
        (b"/-/healthz", "health"),
        (b"/-/metrics?", "health"),
        (b"/-/about", "other"),
        (b"/", "other"),
    ],
)
def test_requests_are_counted_by_kind(target: bytes, kind: str) -> None:
    assert kind_of_request("GET", target) == kind


def inside(**headers: str) -> Request:
    named = {name.encode(): value.encode() for name, value in headers.items()}
    return Request("GET", "/-/metrics", "", named, ("192.0.2.1",))


def test_the_metrics_are_for_the_networks_that_may_read_them(tmp_path: Path) -> None:
    metrics = MintMetrics(tmp_path, ["192.0.2.0/24"])
    assert metrics.respond(inside()).status == 200
    with pytest.raises(Refusal) as refusal:
        metrics.respond(inside(via="1.1 proxy"))
    assert (refusal.value.status, str(refusal.value)) == (404, "there is no such page here")
    metrics.close()


def test_the_metrics_tell_how_much_the_disk_can_take_as_long_as_there_is_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "minting").mkdir(parents=True)
    metrics = MintMetrics(data)
    free = metrics.present()["disk_free_bytes"][""]
    assert free % 512 == 0
    assert free > 0
    data.rename(tmp_path / "elsewhere")
    assert metrics.present() == {}
    metrics.close()


def test_what_is_counted_has_these_names_and_meanings(tmp_path: Path) -> None:
    metrics = MintMetrics(tmp_path)
    lines = metrics.text().decode().splitlines()
    metrics.close()
    meanings = {
        line.split(" ", 3)[2]: line.split(" ", 3)[3] for line in lines if line.startswith("# HELP ibi_mint_")
    }
    assert {
        name: text for name, text in meanings.items() if "request" not in name and "load" not in name
    } == {
        "ibi_mint_labels_total": "Labels that were given.",
        "ibi_mint_refused_total": "Orders of labels that were refused, by reason.",
        "ibi_mint_disk_free_bytes": "Bytes that the disk of the data directory can still take.",
        "ibi_mint_workers": "Processes that answer.",
        "ibi_mint_info": "The version of the program.",
    }
    kinds = {line.partition('kind="')[2].partition('"')[0] for line in lines if 'kind="' in line}
    reasons = {line.partition('reason="')[2].partition('"')[0] for line in lines if 'reason="' in line}
    assert kinds == {"mint", "health", "other"}
    assert reasons == {"clock", "state", "disk", "busy", "too much", "token", "order"}
