"""The known holder of an original stays so while it restarts, is silent or has forgotten, whatever a liar claims.

Threat T04, under the policy `hardened`: Archives on real sockets, and their own requests for inclusion and exclusion.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from ibi.app.resolver import check_resolver
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ExclusionRequest, InclusionRequest
from ibi.runtime.settings import ArchiveSettings
from support.cli.archive_commands import Resolver, ibi, make_archive, serving
from support.cli.archive_commands import until as wait_until
from support.ports import free_port
from support.resolver.running_resolver import KEY, SERVICE, Running, resolver, until
from support.resolver.shared_files import empty_pages
from support.scripted_archive import Behaviour, ReceivedRequest, ScriptedArchive

if TYPE_CHECKING:
    from pathlib import Path

    from support.resolver.running_resolver import Answer

ITEMS = [f"example.org/w@80/2020/01.02.00.{minute:02}" for minute in range(20)]
FURTHER = ["example.org/w@80/2020/01.02.01.00", "example.org/w@80/2020/01.02.01.01"]
DEMANDED = "?ibiurl.requireditemstatus=Original"


class Claimant(ScriptedArchive):
    """An Archive that says the same of each item that it is asked for; without a state, that it knows none."""

    def __init__(self, name: str, number: int, state: str = "Original", after: float = 0.0) -> None:
        service = f"example.org/{name}@80/2020/01.01.00.00"
        super().__init__(name, f"{name}.example", service, f"127.77.0.{number}")
        self.state = state
        self.after = after
        self.silent = False

    def behaviour_for(self, request: ReceivedRequest) -> Behaviour:
        item = request.pairs.get("parsedibiurl.ibi")
        if item is None:
            return super().behaviour_for(request)
        if self.silent:
            return Behaviour(lie="reset")
        url = f"\r\nurl http://{self.address}/{item}\r\nurlkey 1234567890"
        body = (
            f"ibi {{rep {item}}}\r\nibi.archiveservice {{rep {self.service}}}\r\nstate {self.state}"
            f"{'' if self.state == 'Deleted' else url}"
        )
        return Behaviour(body.encode() if self.state else b"", after=self.after)


async def switch(running: Running, archive: Claimant, *, on: bool, end: str = "") -> None:
    """The Archive asks for inclusion, or for exclusion."""
    facts = (archive.address, parse_ibi(archive.service), archive.ip, "1", "keeper@archive.example", KEY)
    request = InclusionRequest(*facts) if on else ExclusionRequest(*facts, end=end)
    answer = await running.ask(f"/{SERVICE.main}?{request.query()}")
    assert answer.body.startswith(b"status.archive included" if on else b"status.archive excluded")


async def led(running: Running, name: str) -> int:
    """How many of the items lead to the Archive of this name."""
    answers = await asyncio.gather(*(running.ask(f"/{item}") for item in ITEMS))
    return sum(
        each.location == f"http://{name}.example/{item}" for each, item in zip(answers, ITEMS, strict=True)
    )


async def known(running: Running, archive: Claimant | None, items: list[str] = ITEMS) -> None:
    """Wait until this Archive is the known holder of all items."""
    service = archive and archive.service
    await until(lambda: all(running.knows.hints.of(item).original == service for item in items))


def evidence(running: Running) -> list[str]:
    return [entry.what for entry in running.knows.evidence.entries()]


def in_a_minute() -> str:
    return (datetime.now(UTC) + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.alone
@pytest.mark.proves("REG-07", "ARC-12")
@pytest.mark.parametrize("end", ["", "a minute"])
def test_a_restart_gives_no_original_away(tmp_path: Path, end: str) -> None:
    holder, liar = Claimant("holder", 1, after=0.02), Claimant("liar", 2)

    async def scene() -> None:
        async with resolver(tmp_path, [holder, liar], included=False, request_rate=0) as running:
            await switch(running, holder, on=True)
            assert await led(running, "holder") == len(ITEMS)
            await known(running, holder)
            await switch(running, liar, on=True)
            for _ in range(2):
                await switch(running, holder, on=False, end=end and in_a_minute())
                assert await led(running, "liar") == len(ITEMS)  # who satisfies is followed (RES-05)
                answer = await running.ask(f"/{ITEMS[0]}{DEMANDED}")
                assert (answer.status, answer.headers["ibi-incomplete"]) == (302, "1 of 2")
                await switch(running, holder, on=True)
                assert await led(running, "holder") == len(ITEMS)
            await known(running, holder)
            assert (await running.ask(f"/{ITEMS[0]}{DEMANDED}")).status == 409
            assert "migrated" not in evidence(running)

    asyncio.run(scene())


def test_no_original_is_given_away_by_a_restart_after_the_hints_were_damaged_and_filled_by_clicks(
    tmp_path: Path,
) -> None:
    holder, liar = Claimant("holder", 1, after=0.02), Claimant("liar", 2)
    ibi("resolver", "init", "--data", tmp_path, "--address", "urlib.net")

    async def before() -> None:
        async with resolver(tmp_path, [holder], request_rate=0) as running:
            assert await led(running, "holder") == len(ITEMS)
            await known(running, holder)
            running.knows.hints.flush()
            empty_pages(tmp_path / "hints")
            await running.ask(f"/{FURTHER[0]}")
            await until((tmp_path / "hints.damaged").exists)
            await running.ask(f"/{FURTHER[1]}")
            await known(running, holder, [FURTHER[1]])
            assert running.knows.hints.of(ITEMS[0]).original is None

    async def after() -> None:
        async with resolver(tmp_path, [holder, liar], request_rate=0) as running:
            assert await led(running, "holder") == len(ITEMS)
            await known(running, holder)

    asyncio.run(before())
    check_resolver(tmp_path)
    asyncio.run(after())


@pytest.mark.proves("ARC-12")
def test_silence_and_nothing_known_give_no_original_away_and_its_own_word_does(tmp_path: Path) -> None:
    holder, other = Claimant("holder", 1), Claimant("other", 2)

    async def scene() -> None:
        async with resolver(tmp_path, [holder, other], included=False, request_rate=0) as running:
            await switch(running, holder, on=True)
            await led(running, "holder")
            await known(running, holder)
            await switch(running, other, on=True)
            holder.state = ""
            assert await led(running, "other") == len(ITEMS)
            holder.silent = True
            assert (await running.ask(f"/{ITEMS[0]}")).location == f"http://other.example/{ITEMS[0]}"
            holder.silent, holder.state = False, "Original"
            assert await led(running, "holder") == len(ITEMS)
            await known(running, holder)
            assert "migrated" not in evidence(running)
            holder.state = "Deleted"
            assert await led(running, "other") == len(ITEMS)
            await known(running, other)
            await until(lambda: evidence(running).count("migrated") == len(ITEMS))

    asyncio.run(scene())


@pytest.mark.proves("ARC-12", "ARC-13")
@pytest.mark.parametrize("announced", [True, False])
def test_a_holder_that_kept_a_copy_leads_readers_to_the_archive_that_has_the_original_now(
    tmp_path: Path, *, announced: bool
) -> None:
    # The new holder is slower, and a third Archive has a copy, too.
    holder, other, third = (
        Claimant("holder", 1),
        Claimant("other", 2, after=0.05),
        Claimant("third", 3, "Copy"),
    )
    archives = [holder, other, third]

    async def scene() -> None:
        async with resolver(tmp_path, archives, included=False, request_rate=0) as running:
            await switch(running, holder, on=True)
            assert await led(running, "holder") == len(ITEMS)
            await known(running, holder)
            await switch(running, other, on=True)
            await switch(running, third, on=True)
            holder.state = "Copy"
            if announced:
                running.knows.note_changed(ITEMS, other.service)
            # The first reader may get a copy (RES-05), of the third Archive if the known one is slow to answer.
            for _ in range(100):
                if await led(running, "other") == len(ITEMS):
                    break
                await asyncio.sleep(0.1)
            await known(running, other)
            assert await led(running, "other") == len(ITEMS)
            await until(lambda: evidence(running).count("migrated") == len(ITEMS))

    asyncio.run(scene())


@pytest.mark.proves("REG-07", "RES-13")
def test_what_an_archive_that_is_away_holds_is_not_denied(tmp_path: Path) -> None:
    holder, other = Claimant("holder", 1), Claimant("other", 2, state="")

    async def ask(running: Running, item: str = ITEMS[0]) -> Answer:
        return await running.ask(f"/{item}", "Accept: application/json")

    async def scene() -> None:
        async with resolver(tmp_path, [holder, other], included=False) as running:
            await switch(running, holder, on=True)
            await switch(running, other, on=True)
            assert (await ask(running)).status == 302
            await known(running, holder, ITEMS[:1])
            later = ("2099-01-01T00:00:00Z", 3600, 3600)
            for end, least, most in [
                (in_a_minute(), 30, 60),
                ("", 30, 30),
                ("2014-01-01T00:00:00Z", 30, 30),
                later,
            ]:
                await switch(running, holder, on=False, end=end)
                answer = await ask(running)
                assert (answer.status, holder.service.encode() in answer.body) == (503, True)
                assert least <= int(answer.headers["retry-after"]) <= most
                assert (await ask(running, ITEMS[1])).status == 404  # it was never seen to hold this one
                await switch(running, holder, on=True)
                assert (await ask(running)).status == 302
            await switch(running, holder, on=False, end="never")
            assert (await ask(running)).status == 404
            await switch(running, holder, on=True)
            assert (await ask(running)).status == 302
            await switch(running, holder, on=False)
            assert (await ask(running)).status == 503
            running.registry.unregister(parse_ibi(holder.service))
            await until_status(running, 404)

    async def until_status(running: Running, status: int) -> None:
        end = time.monotonic() + 5
        while (await ask(running)).status != status:
            assert time.monotonic() < end
            await asyncio.sleep(0.1)

    asyncio.run(scene())


def test_an_exclusion_that_ends_at_no_moment_is_refused_as_it_is_written(tmp_path: Path) -> None:
    holder = Claimant("holder", 1)

    async def scene() -> None:
        async with resolver(tmp_path, [holder]) as running:
            facts = (holder.address, parse_ibi(holder.service), holder.ip, "1", "keeper@a.example", KEY)
            for end in ("tomorrow", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "9" * 400):
                answer = await running.ask(f"/{SERVICE.main}?{ExclusionRequest(*facts, end=end).query()}")
                assert (answer.status, answer.body[:5]) == (400, b"error")
            assert len(running.registry.archives()) == 1

    asyncio.run(scene())


@pytest.mark.proves("GEN-05", "ARC-12")
def test_at_first_sight_the_archive_of_the_prefix_goes_before_a_faster_one(tmp_path: Path) -> None:
    home, liar = Claimant("w", 1, after=0.15), Claimant("liar", 2)

    async def scene() -> None:
        async with resolver(tmp_path, [home, liar], grace_seconds=2.0) as running:
            assert (await running.ask(f"/{ITEMS[0]}")).location == f"http://w.example/{ITEMS[0]}"
            await known(running, home, ITEMS[:1])
            explained = await running.ask(f"/-/explain/{ITEMS[1]}", "Accept: application/json")
            assert b"whose service has the prefix of the item" in explained.body
            # While it is silent or away, who claims an item that was never seen does not become its holder.
            home.silent = True
            assert (await running.ask(f"/{ITEMS[2]}")).location == f"http://liar.example/{ITEMS[2]}"
            home.silent = False
            await switch(running, home, on=False)
            assert (await running.ask(f"/{ITEMS[3]}")).location == f"http://liar.example/{ITEMS[3]}"
            await switch(running, home, on=True)
            for item in ITEMS[2:4]:
                assert (await running.ask(f"/{item}")).location == f"http://w.example/{item}"
            await known(running, home, ITEMS[2:4])
            # Where it has said that it knows nothing of an item, another one is asked alone from then on.
            home.state = ""
            assert (await running.ask(f"/{ITEMS[4]}")).location == f"http://liar.example/{ITEMS[4]}"
            await known(running, liar, ITEMS[4:5])
            questions = len(home.questions)
            assert (await running.ask(f"/{ITEMS[4]}")).location == f"http://liar.example/{ITEMS[4]}"
            assert len(home.questions) == questions

    asyncio.run(scene())


@pytest.mark.proves("RES-10", "ARC-12")
def test_after_an_alert_of_two_originals_neither_is_known(tmp_path: Path) -> None:
    holder, liar = Claimant("holder", 1, after=0.05), Claimant("liar", 2)
    item = ITEMS[0]

    async def scene() -> None:
        async with resolver(tmp_path, [holder, liar], included=False) as running:
            await switch(running, liar, on=True)
            assert (await running.ask(f"/{item}")).status == 302
            await known(running, liar, [item])
            await switch(running, holder, on=True)
            for _ in range(2):
                answer = await running.ask(f"/{item}{DEMANDED}", "Accept: application/json")
                assert (answer.status, f'"first": "{liar.service}"'.encode() in answer.body) == (409, True)
            for silent in (liar, holder):  # neither becomes the holder by the other's silence
                silent.silent = True
                assert (await running.ask(f"/{item}")).status == 302
                silent.silent = False
            explained = await running.ask(f"/-/explain/{item}", "Accept: application/json")
            assert b"known to hold the original" not in explained.body
            await until(lambda: evidence(running).count("alert") == 1)
            assert running.knows.hints.of(item).original == ""
            assert evidence(running).count("original") == 1

    asyncio.run(scene())


@pytest.mark.long
@pytest.mark.proves("REG-03", "REG-07")
def test_an_archive_of_ours_that_is_stopped_is_waited_for_until_it_leaves(tmp_path: Path) -> None:
    """A resolver and an Archive of ours, and the Archive is a process of its own."""
    network = Resolver(tmp_path / "r")
    data, port = tmp_path / "a", free_port()
    service = make_archive(data, port, "--resolver", network.url)
    network.register(service, ArchiveSettings.read(data).key)
    listed = tmp_path / "items.jsonl"
    listed.write_text(json.dumps({"rep": ITEMS[0], "url": "http://far.example/x"}))
    ibi("archive", "import", "--data", data, listed)

    def ask() -> tuple[int, str, bytes]:
        connection = HTTPConnection("127.0.0.1", network.port, timeout=30)
        with closing(connection):
            connection.request("GET", f"/{ITEMS[0]}", headers={"Accept": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.headers.get("retry-after", ""), reply.read()

    with network.running():
        with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
            wait_until(lambda: service in network.included)
            wait_until(lambda: ask()[0] == 302)
        status, seconds, body = ask()
        assert (status, service.encode() in body, 30 < int(seconds) <= 60) == (503, True, True)
        with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
            wait_until(lambda: ask()[0] == 302)
        assert ask()[0] == 503
        ibi("archive", "leave", "--data", data, "--resolver", network.url)
        wait_until(lambda: service.encode() not in ask()[2])
