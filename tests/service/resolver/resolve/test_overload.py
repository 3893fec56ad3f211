"""Under overload: no Archive is asked in vain, none is blamed, and questions are shared."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ibi.errors import PeerUnreachable
from ibi.http.limits import fair_queue
from ibi.http.limits.fair_queue import FairQueue
from ibi.http.request import Request
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.verb_list import VerbList
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.change_requests import ChangesRequester
from ibi.resolver.cache.rows import Snapshot, question
from ibi.resolver.metrics.metrics import ResolverMetrics
from ibi.resolver.model.archive import Archive, Members
from ibi.resolver.resolve import queries
from ibi.resolver.resolve.breaker import FAILURES, HOUR, OPEN_SECONDS, CircuitBreakers
from ibi.resolver.resolve.policy import Plan, Policy
from ibi.resolver.resolve.queries import InFlight, Queries
from ibi.resolver.resolve.resolver import Resolver
from ibi.resolver.resolve.round import Round, Terms
from support.clock import FalseClockLoop, run_with_false_clock
from support.resolver.parts import TIMES
from support.resolver.running_resolver import resolver
from support.resolver.scripted_peers import BODY, among, archive
from support.scripted_archive import Behaviour

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ibi.http.client import Client


@asynccontextmanager
async def questions(client: Client, health: CircuitBreakers) -> AsyncIterator[Queries]:
    with tempfile.TemporaryDirectory() as folder:
        memory, metrics = AnswerCache(Path(folder) / "memory", lambda: 1e9), ResolverMetrics(Path(folder))
        yield Queries(client, health, memory, metrics, ChangesRequester(client, memory, tuple))
        memory.close()
        metrics.close()


def round_of_all(
    asking: Queries,
    archives: Sequence[Archive],
    number: int,
    left: float,
    *,
    reuse: bool = False,
    members: Members | None = None,
) -> Round:
    members = members or Members.of(archives, probation=False)
    item = parse_ibi(f"example.org/a/2020/01.02.00.{number:02}")
    query = UrlRequest(("192.0.2.1",), item, verbs=VerbList(()))
    deadline = asyncio.get_running_loop().time() + left
    terms = Terms(deadline, Snapshot(-1, -1), reuse, client=f"192.0.2.{number}")
    return Round(asking, TIMES, lambda: members, Plan(members.regular), query, terms)


async def finish(held: Round) -> None:
    async with aclosing(held.responses()) as responses:
        async for _ in responses:
            pass


def test_an_archive_whose_circuit_is_open_costs_a_client_nothing() -> None:
    async def main() -> None:
        async with among(archive("a", Behaviour()), archive("b", Behaviour(), 2)) as (client, archives):
            breakers = CircuitBreakers()
            now = asyncio.get_running_loop().time()
            for _ in range(FAILURES):
                breakers.failed(archives[0].service_ibi.canonical, now, PeerUnreachable("no connection"))
            async with questions(client, breakers) as asking:
                held = round_of_all(asking, archives, 1, left=5.0)
                await finish(held)
                assert (len(held.queried), held.sent) == (2, 1)

    asyncio.run(main())


def test_an_archive_on_probation_whose_circuit_is_open_does_not_count_as_asked() -> None:
    async def main() -> None:
        async with among(archive("a", Behaviour()), archive("new", Behaviour(), 2)) as (client, archives):
            new = replace(archives[1], confirmed=False)
            breakers = CircuitBreakers()
            for _ in range(FAILURES):
                breakers.failed(
                    new.service, asyncio.get_running_loop().time(), PeerUnreachable("no connection")
                )
            async with questions(client, breakers) as asking:
                members = Members.of((archives[0], new), probation=True)
                held = round_of_all(asking, archives, 1, left=5.0, members=members)
                await finish(held)
                assert (held.queried, held.silent, held.sent) == ([archives[0]], [], 1)

    asyncio.run(main())


def test_silence_while_this_process_was_late_is_not_held_against_an_archive() -> None:
    """Only what was sent before counts as late: to an Archive that is asked right after, the process listens again."""

    async def main() -> None:
        both = [archive(name, Behaviour(lie="silence"), number) for number, name in enumerate("ab", 1)]
        clock = cast("FalseClockLoop", asyncio.get_running_loop()).clock
        async with among(*both) as (client, [before, after]):
            health = CircuitBreakers()
            async with questions(client, health) as asking:
                under_way = asyncio.create_task(finish(round_of_all(asking, [before], 1, left=5.0)))
                await asyncio.sleep(0.1)
                clock.now += 1.0  # something else was at work
                await finish(round_of_all(asking, [after], 2, left=5.0))
                await under_way
                assert health.circuits.get(before.service) is None
                circuit = health.circuits.get(after.service)
                assert circuit is not None
                assert circuit.failures == 1

    run_with_false_clock(main())


def test_silence_in_less_than_half_the_time_is_not_held_against_an_archive() -> None:
    async def main() -> None:
        async with among(archive("a", Behaviour(lie="silence"))) as (client, archives):
            service = archives[0].service_ibi.canonical
            health = CircuitBreakers()
            async with questions(client, health) as asking:
                for number in range(2 * FAILURES):
                    await finish(round_of_all(asking, archives, number, left=1.0))
                assert health.circuits.get(service) is None
                await finish(round_of_all(asking, archives, 30, left=5.0))
                circuit = health.circuits.get(service)
                assert circuit is not None
                assert circuit.failures == 1

    run_with_false_clock(main())


def test_a_query_that_waited_for_a_probe_too_long_is_not_sent() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(after=2.0))
        async with among(one) as (client, archives):
            breakers, now = CircuitBreakers(), asyncio.get_running_loop().time()
            for _ in range(FAILURES):
                breakers.failed(archives[0].service, now, PeerUnreachable("no connection"))
            async with questions(client, breakers) as asking:
                await asyncio.sleep(OPEN_SECONDS + 1)
                async with aclosing(round_of_all(asking, archives, 1, left=5.0).responses()) as responses:
                    errors = [str(each.error) async for each in responses]
        assert errors == ["not enough time was left to ask it"]
        assert len(one.received) == 1  # the probe

    run_with_false_clock(main())


def test_answers_are_counted_in_the_hours_in_which_count_would_count_them() -> None:
    """`Queries` has `CircuitBreakers.count` inlined, for an hour that has a count already."""

    async def main() -> None:
        async with among(archive("a", Behaviour())) as (client, archives):
            service, breakers, plain = archives[0].service, CircuitBreakers(), CircuitBreakers()
            async with questions(client, breakers) as asking:
                for number, pause in enumerate((0, 1, HOUR, 1, 24 * HOUR, 1, 25 * HOUR)):
                    await asyncio.sleep(pause)
                    await finish(round_of_all(asking, archives, number, left=5.0))
                    plain.count(service, breakers.heard_at[service], answered=True)
                    assert breakers.hours == plain.hours

    run_with_false_clock(main())


def test_a_query_whose_turn_comes_too_late_is_refused_and_no_archive_is_asked() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives), questions(client, CircuitBreakers()) as asking:
            busy = InFlight(10**6, of_rounds=10**6)
            asking.fair_queue = FairQueue(busy)
            early = round_of_all(asking, archives, 1, left=5.0)
            late = round_of_all(asking, archives, 2, left=4.0)
            both = [asyncio.create_task(finish(each)) for each in (early, late)]
            await asyncio.sleep(3.0)
            busy.total = busy.of_rounds = 0
            asking.fair_queue.serve()  # it is the turn of both; one has two seconds left, the other a single one
            assert (early.refused, len(early.queried)) == (False, 1)
            assert (late.refused, late.queried) == (True, [])
            await asyncio.gather(*both)
        assert len(one.received) == 1

    run_with_false_clock(main())


def test_while_a_round_waits_for_its_turn_expired_answers_are_used(tmp_path: Path) -> None:
    async def main() -> None:
        one, busy = archive("a", Behaviour(BODY)), InFlight(10**6, of_rounds=10**6)
        async with among(one, archive("b", Behaviour(BODY), 2)) as (client, archives):
            memory, metrics = AnswerCache(tmp_path / "memory", lambda: 1e9), ResolverMetrics(tmp_path)
            asking = Queries(
                client, CircuitBreakers(), memory, metrics, ChangesRequester(client, memory, tuple)
            )
            asking.fair_queue = FairQueue(busy)
            held = round_of_all(asking, archives, 1, left=5.0, reuse=True)
            memory.put(archives[0].service, question(held.query), BODY, 60.0)
            async with aclosing(held.responses()) as responses:
                heard = [(each.archive.address, each.source, held_for(held)) async for each in responses]
            (stale,) = heard
            assert stale[:2] == ("a.example", "stale")
            assert stale[2] == pytest.approx(TIMES.stale_after, abs=0.01)
            assert held.refused
            assert held_for(held) == pytest.approx(5.0, abs=0.01)
            memory.close()
            metrics.close()
        assert one.received == []

    run_with_false_clock(main())


def held_for(held: Round) -> float:
    return asyncio.get_running_loop().time() - held.began


async def first_known(held: Round) -> float | None:
    """After how many seconds the first answer with pairs came, upon which the round is left."""
    async with aclosing(held.responses()) as responses:
        async for response in responses:
            if response.answer is not None and response.answer.pairs:
                return asyncio.get_running_loop().time() - held.began
    return None


@pytest.mark.parametrize(
    ("most", "many"),
    [
        pytest.param(fair_queue.MOST_IN_FLIGHT, fair_queue.MANY_IN_FLIGHT, id="few Archives"),
        pytest.param(60, 30, id="as many as fill the process"),
    ],
)
def test_archives_that_begin_to_hang_delay_no_round_that_another_answers(
    most: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round would leave three queries in flight for three seconds: of eight rounds at once, none would be left."""
    monkeypatch.setattr(fair_queue, "MOST_IN_FLIGHT", most)
    monkeypatch.setattr(queries, "MANY_IN_FLIGHT", many)
    hanging = [archive(f"h{number}", Behaviour(lie="silence"), number) for number in range(1, 4)]
    others = [archive(f"o{number}", Behaviour(after=0.01), number) for number in range(4, 10)]
    holder = archive("a", Behaviour(BODY, after=0.02), 10)

    async def main() -> None:
        async with (
            among(*hanging, *others, holder) as (client, archives),
            questions(client, CircuitBreakers()) as asking,
        ):
            rounds = []
            for number in range(200):
                held = round_of_all(asking, archives, number % 60, left=5.0)
                rounds.append(asyncio.create_task(first_known(held)))
                await asyncio.sleep(0.01)
            for waited in await asyncio.gather(*rounds):
                assert waited == pytest.approx(0.02, abs=0.005)
            assert all(FAILURES < len(each.received) <= 32 for each in hanging)
            assert all(len(each.received) == 200 for each in (*others, holder))

    run_with_false_clock(main())


def test_eight_rounds_are_in_flight_at_once_whatever_archives_did_before() -> None:
    """One is slow, then silent: of the queries to it more or fewer count, and in the end as many as began."""

    async def main() -> None:
        cast = [archive(name, Behaviour(), number) for number, name in enumerate("abc", 1)]
        slow, silent = Behaviour(after=0.6), Behaviour(lie="silence")
        async with among(*cast) as (client, archives), questions(client, CircuitBreakers()) as asking:
            rounds: list[asyncio.Task[None]] = []

            async def begin(manner: Behaviour, count: int, every: float, then: float = 0.0) -> list[Round]:
                cast[0].manner, held = manner, []
                for number in range(count):
                    # Silence in so little time is not held against an Archive, so that its circuit stays closed.
                    held.append(round_of_all(asking, archives, number, left=1.4))
                    rounds.append(asyncio.create_task(finish(held[-1])))
                    await asyncio.sleep(every)
                await asyncio.sleep(then)
                return held

            await begin(slow, 4, 0.0, 0.3)
            await begin(slow, 5, 0.0, 0.4)
            await begin(slow, 8, 0.0, 1.5)  # it answers when it has left exactly eight unanswered
            await begin(slow, 14, 0.04, 1.5)
            await begin(slow, 12, 0.05)
            await begin(silent, 20, 0.05, 1.5)  # while eighteen are in flight, it has left eight unanswered
            for _ in range(3):
                await begin(silent, 12, 0.01, 1.5)
            for each in cast:
                each.manner = silent
            held = await begin(silent, 12, 0.01)
            assert [len(each.queried) for each in held] == [3] * 8 + [0] * 4
            await asyncio.gather(*rounds)

    run_with_false_clock(main())


def test_an_archive_that_is_slow_and_answers_does_not_get_more_rounds_than_eight() -> None:
    """Until its first answer it may hang as well, and holds up no round."""

    async def main() -> None:
        cast = [archive("a", Behaviour(after=0.6)), archive("b", Behaviour(), 2)]
        async with among(*cast) as (client, archives), questions(client, CircuitBreakers()) as asking:
            rounds = []
            for number, admitted in ((24, True), (24, False)):
                for each in range(number):
                    held = round_of_all(asking, archives, each, left=5.0)
                    rounds.append(asyncio.create_task(finish(held)))
                    await asyncio.sleep(0.02)
                assert bool(asking.fair_queue.queues) is not admitted
                await asyncio.sleep(0.13)  # until the first answers have come
            await asyncio.gather(*rounds)

    run_with_false_clock(main())


def test_of_many_queries_in_flight_none_is_withheld_from_an_archive_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However slowly: only one that has left the last eight unanswered gets none of a ninth round."""
    monkeypatch.setattr(queries, "MANY_IN_FLIGHT", 10)

    async def main() -> None:
        slow, silent = archive("a", Behaviour(after=0.5)), archive("b", Behaviour(lie="silence"), 2)
        async with (
            among(slow, silent) as (client, archives),
            questions(client, CircuitBreakers()) as asking,
        ):
            rounds = []
            for number in range(30):
                held = round_of_all(asking, archives, number, left=5.0)
                rounds.append(asyncio.create_task(finish(held)))
                await asyncio.sleep(0.08)
            await asyncio.sleep(0.1)
            assert (len(slow.received), len(silent.received)) == (30, 8)
            await asyncio.gather(*rounds)

    run_with_false_clock(main())


def test_a_round_enters_past_the_fair_queue_only_if_it_joins_what_is_under_way() -> None:
    """Past half of the time of a query none is joined; nor is any where no answer may be shared."""

    async def main() -> None:
        silent = Behaviour(lie="silence")
        async with (
            among(*(archive(name, silent) for name in "abcdefgh")) as (client, archives),
            questions(client, CircuitBreakers()) as asking,
        ):
            busy = InFlight()
            asking.fair_queue = FairQueue(busy)
            rounds = [asyncio.create_task(finish(round_of_all(asking, archives, 1, 5.0, reuse=True)))]
            await asyncio.sleep(0.1)
            busy.total, busy.of_rounds, held = 10**6, 10**6, []
            for reuse, after in ((True, 0.4), (False, 0.4), (True, 1.6)):
                await asyncio.sleep(after)
                held.append(round_of_all(asking, archives, 1, 5.0, reuse=reuse))
                rounds.append(asyncio.create_task(finish(held[-1])))
                await asyncio.sleep(0.01)
            assert [len(each.queried) for each in held] == [8, 0, 0]
            assert asking.fair_queue.queues
            busy.total = busy.of_rounds = 0
            asking.fair_queue.serve()
            await asyncio.gather(*rounds)

    run_with_false_clock(main())


def test_who_is_included_is_looked_up_once_in_a_turn_of_the_loop(tmp_path: Path) -> None:
    """What no Archive has is answered from the cache, in one turn: so all readers of a turn are counted here."""
    looks, included = 0, (Archive(parse_ibi("example/a/2020/01.01.00.00"), "a.example"),)

    def counted() -> Sequence[Archive]:
        nonlocal looks
        looks += 1
        return included

    async def readers(one: Resolver) -> None:
        url = PersistentURL.parse("/example.org/a/2020/01.02.00.00")
        request = Request("GET", "/", "", {}, ("192.0.2.1",))
        come = [one.resolve(url, str(url), request, "192.0.2.1") for _ in range(10)]
        for outcome in await asyncio.gather(*come):
            assert outcome.cached == "negative"
        await asyncio.sleep(0.01)

    async def main() -> None:
        async with among() as (client, _), resolver(tmp_path) as running:
            version = Members.of(included, probation=True).version
            running.knows.cache.put_not_known(f"example.org/a/2020/01.02.00.00   {version}", 60)
            async with questions(client, CircuitBreakers()) as asking:
                given = asking, counted, Policy(), TIMES, running.knows
                alone = Resolver(*given)  # as where there is no shared memory
                for turn in range(1, 4):
                    await readers(alone)
                    assert looks == turn
                number = [7]
                informed = Resolver(*given, generation=number)
                for turn in range(4, 7):
                    for _ in range(3):
                        await readers(informed)
                    assert looks == turn
                    number[0] += 1

    asyncio.run(main())


def test_what_many_archives_said_is_looked_up_at_once_as_for_each(tmp_path: Path) -> None:
    memory = AnswerCache(tmp_path / "memory", lambda: 1e9)
    question, names = "item/1 getUrl", [f"archive/{number}" for number in range(6)]
    for name in names[:4]:
        memory.put(name, question, name.encode(), 60.0)
    memory.forget("archive/1", "item/1")
    for settled in (False, True):
        if settled:
            memory.close()
            memory = AnswerCache(tmp_path / "memory", lambda: 1e9)
        found = memory.answers(names, question)
        assert {name: kept.body for name, kept in found.items()} == {
            name: name.encode() for name in ("archive/0", "archive/2", "archive/3")
        }
        assert all(memory.answer(name, question) == found.get(name) for name in names)
        assert memory.answers(names, "item/2 getUrl") == {}
    memory.close()
