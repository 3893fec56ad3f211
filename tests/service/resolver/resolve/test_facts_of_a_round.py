"""What a round tells of itself when it has ended: whom it asked, who was silent, and what came of it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ibi.errors import PeerUnreachable
from ibi.http.limits.fair_queue import FairQueue
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.change_requests import ChangesRequester
from ibi.resolver.cache.rows import question
from ibi.resolver.metrics.metrics import ResolverMetrics
from ibi.resolver.model.archive import Archive, Members
from ibi.resolver.resolve.breaker import FAILURES, CircuitBreakers
from ibi.resolver.resolve.policy import Plan
from ibi.resolver.resolve.queries import InFlight, Queries
from ibi.resolver.resolve.round import Round, Terms
from support.clock import run_with_false_clock
from support.resolver.parts import TIMES
from support.resolver.scripted_peers import BODY, among, archive
from support.scripted_archive import Behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ibi.http.client import Client

QUERY = UrlRequest(("192.0.2.1",), parse_ibi("example.org/a/2020/01.02.00.00"))
SILENT = Behaviour(lie="silence")


class Facts(NamedTuple):
    """What a round says of itself; Archives by name. `heard`: each with when it was heard, and from what source."""

    heard: Sequence[tuple[str, float, str]]
    queried: str
    sent: int
    silent: str
    hit: bool | None
    outcome: str
    refused: bool = False
    why: str = "everybody"


@dataclass
class Scene:
    """The parts that rounds of one process need."""

    queries: Queries
    cache: AnswerCache
    breakers: CircuitBreakers

    async def facts(
        self,
        archives: Sequence[Archive],
        first: Sequence[Archive] = (),
        *,
        reuse: bool = False,
        wait_for_all: bool = False,
        overall: float = 5.0,
    ) -> Facts:
        """What a round tells that asks `first` before all others; those not confirmed are probationary."""
        members, now = Members.of(archives, probation=True), asyncio.get_running_loop().time
        plan = Plan(tuple(first), "hint") if first else Plan(members.regular)
        terms = Terms(now() + overall, self.cache.snapshot(), reuse, wait_for_all, "192.0.2.1")
        held = Round(self.queries, TIMES, lambda: members, plan, QUERY, terms)
        async with aclosing(held.responses()) as responses:
            heard = [
                (name(each.archive), round(now() - held.began, 1), each.source) async for each in responses
            ]
        queried, silent = "".join(map(name, held.queried)), "".join(map(name, held.silent))
        return Facts(heard, queried, held.sent, silent, held.hit, held.outcome, held.refused, held.why)


def name(of: Archive) -> str:
    return of.address[0]


@contextmanager
def scene(folder: Path, client: Client) -> Iterator[Scene]:
    cache, metrics, breakers = (
        AnswerCache(folder / "memory", lambda: 1e9),
        ResolverMetrics(folder),
        CircuitBreakers(),
    )
    changes = ChangesRequester(client, cache, tuple)
    yield Scene(Queries(client, breakers, cache, metrics, changes), cache, breakers)
    cache.close()
    metrics.close()


def unconfirmed(one: Archive) -> Archive:
    return replace(one, confirmed=False)


def test_a_round_tells_whom_it_asked_and_what_came_of_it(tmp_path: Path) -> None:
    knows, empty, hangs = (
        archive("a", Behaviour(BODY, 0.3), 1),
        archive("b", Behaviour(b"", 0.1), 2),
        archive("c", SILENT, 3),
    )

    async def main() -> None:
        async with among(knows, empty, hangs) as (client, (a, b, c)):
            with scene(tmp_path, client) as one:
                both, late = [("b", 0.1, "network"), ("a", 0.3, "network")], ("c", 3.0, "network")
                assert await one.facts([a, b, c]) == Facts(
                    [*both, late], "abc", 3, "c", hit=False, outcome="known"
                )
                assert await one.facts([b, c]) == Facts([both[0], late], "bc", 2, "c", False, "not known")
                assert await one.facts([a]) == Facts([both[1]], "a", 1, "", True, "known")
                assert await one.facts([]) == Facts([], "", 0, "", None, "not known")
                first = Facts([*both, late], "cab", 3, "c", False, "known", why="hint")
                assert await one.facts([a, b, c], [c]) == first._replace(
                    heard=[("b", 0.2, "network"), ("a", 0.4, "network"), late]
                )
                # All at the same moment, when the last has come, or its time has ended.
                together = [(each, 3.0, "network") for each in "bac"]
                assert await one.facts([a, b, c], wait_for_all=True) == Facts(
                    together, "abc", 3, "c", False, "known"
                )

    run_with_false_clock(main())


def test_those_on_probation_are_heard_after_all_others_and_awaited_only_while_nothing_is_known(
    tmp_path: Path,
) -> None:
    knows, empty, hangs = (
        archive("a", Behaviour(BODY, 0.3), 1),
        archive("b", Behaviour(b"", 0.1), 2),
        archive("c", SILENT, 3),
    )

    async def main() -> None:
        async with among(knows, empty, hangs) as (client, (a, b, c)):
            with scene(tmp_path, client) as one:
                a1, c1 = unconfirmed(a), unconfirmed(c)
                found = await one.facts([b, a1, c1])
                heard = [("b", 0.1, "network"), ("a", 0.3, "network")]
                # Once it is known, the other one is not waited for any longer than until now.
                assert found == Facts([*heard, ("c", 1.6, "network")], "bac", 3, "c", False, "known")
                assert await one.facts([a1]) == Facts([heard[1]], "a", 1, "", True, "known")
                assert await one.facts([b, c1]) == Facts(
                    [heard[0], ("c", 1.6, "network")], "bc", 2, "c", False, "not known"
                )
                assert await one.facts([a, c1]) == Facts(
                    [heard[1], ("c", 0.3, "network")], "ac", 2, "c", True, "known"
                )

    run_with_false_clock(main())


def test_what_the_cache_or_an_open_circuit_answers_costs_no_query(tmp_path: Path) -> None:
    knows, empty, gone = (
        archive("a", Behaviour(BODY, 0.3), 1),
        archive("b", Behaviour(b"", 0.1), 2),
        archive("c", SILENT, 3),
    )

    async def main() -> None:
        async with among(knows, empty, gone) as (client, (a, b, c)):
            with scene(tmp_path, client) as one:
                one.cache.put(a.service, question(QUERY), BODY, 60.0)
                now = asyncio.get_running_loop().time()
                for _ in range(FAILURES):
                    one.breakers.failed(c.service, now, PeerUnreachable("no connection"))
                cached, closed, late = ("a", 0.0, "cache"), ("c", 0.0, "breaker"), ("b", 0.1, "network")
                assert await one.facts([a, b, c], [a], reuse=True) == Facts(
                    [cached, closed, late], "abc", 1, "c", True, "known", why="hint"
                )
                assert await one.facts([a, b, c], [a]) == Facts(
                    [("c", 0.1, "breaker"), ("b", 0.2, "network"), ("a", 0.3, "network")],
                    "abc", 2, "c", False, "known", why="hint",
                )  # fmt: skip
                # An open circuit of one on probation counts neither way.
                assert await one.facts([b, unconfirmed(c)]) == Facts([late], "b", 1, "", False, "not known")

    run_with_false_clock(main())


def test_a_round_that_finds_no_turn_is_refused_and_says_what_it_has_heard(tmp_path: Path) -> None:
    empty, other = archive("b", Behaviour(b"", 0.1), 2), archive("a", Behaviour(BODY), 1)

    async def main() -> None:
        async with among(other, empty) as (client, (a, b)):
            with scene(tmp_path, client) as one:
                busy = InFlight(10**6, of_rounds=10**6)
                one.queries.fair_queue = FairQueue(busy)
                heard = [("b", 0.1, "network")]
                assert await one.facts([a, b], [b], reuse=True) == Facts(
                    heard, "b", 1, "", False, "refused", refused=True, why="hint"
                )
                assert await one.facts([a, b]) == Facts([], "", 0, "", None, "refused", refused=True)
                one.cache.put(a.service, question(QUERY), BODY, 60.0)
                stale = ("a", 1.6, "stale")
                assert await one.facts([a, b], [b], reuse=True) == Facts(
                    [*heard, stale], "b", 1, "", False, "refused", refused=True, why="hint"
                )
        assert other.received == []

    run_with_false_clock(main())
