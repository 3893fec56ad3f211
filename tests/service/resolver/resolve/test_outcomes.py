"""The whole outcome of a resolution: decision, trace, cost and guess; real sockets, a false clock."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ibi.errors import PeerUnreachable
from ibi.http.request import Request
from ibi.identifier.typos import near_names
from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.change_requests import ChangesRequester
from ibi.resolver.cache.hints import HintCache, HolderHint
from ibi.resolver.cache.lease_table import name_slot
from ibi.resolver.cache.rows import name_digest
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.metrics.metrics import ResolverMetrics
from ibi.resolver.model.alert import Alert, AlertKind, Coverage
from ibi.resolver.model.archive import Archive, AwayArchive
from ibi.resolver.resolve.answer_reader import asks_for_pause
from ibi.resolver.resolve.breaker import FAILURES, CircuitBreakers
from ibi.resolver.resolve.holder_search import SEARCH_EVERY
from ibi.resolver.resolve.learning import Knowledge
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.queries import Queries
from ibi.resolver.resolve.resolver import LOOK_EVERY, MOST_NEAR, MOST_WAIT, Outcome, Resolver
from support.clock import run_with_false_clock
from support.resolver.parts import TIMES
from support.resolver.scripted_peers import among, archive
from support.scripted_archive import Behaviour

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from support.scripted_archive import ScriptedArchive

ITEM = "example.org/w@80/2020/01.02.00.00"
SILENT = Behaviour(lie="silence")


class Seen(NamedTuple):
    """An outcome. `rounds`: of each why, whom it queried, and what it heard: name, source and error."""

    decision: Alert | str
    """The alert, or where the reader is led."""
    rounds: Sequence[tuple[str, str, Sequence[tuple[str, str, str]]]]
    cost: int
    guess: str
    cached: str
    milliseconds: int = 0


class Scene:
    """A resolver of one process, among scripted Archives, of which `included` are included."""

    def __init__(self, folder: Path, client: Any, archives: list[Archive], policy: Policy) -> None:
        self.loop = asyncio.get_running_loop()
        evidence = Evidence(folder / EVIDENCE_FILE, self.now)
        self.knows = Knowledge(
            HintCache(folder / "hints"), AnswerCache(folder / "memory", self.now), evidence, self.now
        )
        self.metrics, self.breakers = ResolverMetrics(folder), CircuitBreakers()
        self.included = tuple(archives)
        self.away: dict[str, AwayArchive] = {}
        self.generation, self.looks = [1], 0
        changes = ChangesRequester(client, self.knows.cache, self.archives)
        self.queries = Queries(client, self.breakers, self.knows.cache, self.metrics, changes)
        self.resolver = Resolver(
            self.queries, self.archives, policy, TIMES, self.knows,
            generation=self.generation, away=lambda: self.away,
        )  # fmt: skip

    def now(self) -> float:
        return 1e9 + self.loop.time()

    def archives(self) -> tuple[Archive, ...]:
        self.looks += 1
        return self.included

    async def outcome(self, text: str = ITEM) -> Outcome:
        url = f"http://resolver.example/{text}"
        request = Request("GET", "/", "", {}, ("192.0.2.1",))
        return await self.resolver.resolve(PersistentURL.from_text(url), url, request, "192.0.2.1")

    async def seen(self, text: str = ITEM) -> Seen:
        found = await self.outcome(text)
        rounds = [
            (
                each.why,
                "".join(one.address[0] for one in each.queried or each.negatives),
                [(one.archive.address[0], one.source, str(one.error or "")) for one in each.responses],
            )
            for each in found.trace.rounds
        ]
        decision = found.decision if isinstance(found.decision, Alert) else found.decision.url
        return Seen(decision, rounds, found.cost, found.guess, found.cached, found.trace.milliseconds)


@asynccontextmanager
async def scene(folder: Path, policy: Policy, *scripted: ScriptedArchive) -> AsyncIterator[Scene]:
    async with among(*scripted) as (client, archives):
        made = Scene(folder, client, archives, policy)
        yield made
        await client.close()
        made.knows.close()
        made.metrics.close()


def play(
    folder: Path, act: Callable[[Scene], Awaitable[None]], *scripted: ScriptedArchive, strict: bool = False
) -> None:
    async def main() -> None:
        async with scene(folder, Policy(strict), *scripted) as made:
            await act(made)

    run_with_false_clock(main())


def holder(
    name: str, number: int, after: float = 0.0, *, reuse: bool = False, state: str = "Original"
) -> ScriptedArchive:
    """It holds ITEM, and knows nothing else."""
    made = archive(name, Behaviour(b"", after), number)
    pairs = {
        "ibi": f"{{rep {ITEM}}}",
        "ibi.archiveservice": f"{{rep {made.service}}}",
        "state": state,
        "url": f"http://{name}.example/x",
        "urlkey": "1234567890-1234567890",
        **({"acknowledgment.batch": "yes"} if reuse else {}),
    }
    body = "\r\n".join(f"{key} {value}" for key, value in pairs.items()).encode()
    made.script[ITEM, (), ""] = Behaviour(
        body, after, headers=("Cache-Control: max-age=60",) if reuse else ()
    )
    return made


def not_found(total: int, near: tuple[str, ...] = ()) -> Alert:
    url = f"http://resolver.example/{ITEM}"
    return Alert(AlertKind.NOT_FOUND, url, ITEM, Coverage(total), near=near)


def test_what_no_archive_has_is_not_asked_for_again_for_a_minute_and_what_is_near_is_proposed(
    tmp_path: Path,
) -> None:
    async def act(made: Scene) -> None:
        a, b = made.included
        near = list(near_names(PersistentURL.parse(f"/{ITEM}").ibi))
        gone, removed, *held = near[: MOST_NEAR + 4]
        made.knows.hints.remember([gone], likely="gone.example/x/2020/01.01.00.00")
        made.knows.hints.remember([removed], original=a.service)
        made.knows.hints.removed([removed], a.service)
        for number, name in enumerate(held):
            holder, likely = (b.service, None) if number else (None, b.service)
            made.knows.hints.remember([name], likely=likely, original=holder)
        nothing = [("a", "network", ""), ("b", "network", "")]
        proposed = tuple(held[:MOST_NEAR])
        first = Seen(not_found(2, proposed), [("everybody", "ab", nothing)], 2, "none", "", 100)
        assert await made.seen() == first
        again = Seen(not_found(2, proposed), [("memory", "ab", [])], 0, "none", "negative")
        assert await made.seen() == again
        await asyncio.sleep(TIMES.negative - 0.2)
        assert await made.seen() == again
        await asyncio.sleep(0.3)
        assert await made.seen() == first
        made.included = (a,)
        made.generation[0] += 1  # others are included: their answer is another one
        alone = [("everybody", "a", nothing[:1])]
        assert await made.seen() == Seen(not_found(1), alone, 1, "none", "", 0)

    play(tmp_path, act, archive("a", Behaviour(b""), 1), archive("b", Behaviour(b"", 0.1), 2))


def test_in_the_strict_policy_nothing_is_kept_and_nothing_proposed(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        (a,) = made.included
        near = next(iter(near_names(PersistentURL.parse(f"/{ITEM}").ibi)))
        made.knows.hints.remember([near, ITEM], likely=a.service)
        rounds = [("everybody", "a", [("a", "network", "")])]
        for _ in range(2):
            assert await made.seen() == Seen(not_found(1), rounds, 1, "none", "", 100)

    play(tmp_path, act, archive("a", Behaviour(b"", 0.1), 1), strict=True)


def test_a_guess_is_right_or_wrong_and_an_answer_is_new_cached_or_expired(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        a, b = made.included
        place = "http://a.example/x"
        heard = [("b", "network", ""), ("a", "network", "")]
        assert await made.seen() == Seen(place, [("everybody", "ab", heard)], 2, "none", "", 300)
        assert await made.seen() == Seen(place, [("hint", "a", [("a", "cache", "")])], 0, "right", "fresh")
        await asyncio.sleep(60.0)
        # After a tenth of a second, which is not enough for its likely holder, all others are asked, too.
        assert await made.seen() == Seen(place, [("hint", "ab", heard)], 2, "wrong", "", 300)
        made.knows.hints.moved([ITEM], b.service)
        found = await made.seen()
        assert (found.rounds[0][:2], found.guess, found.decision) == (("hint", "ba"), "wrong", place)
        for _ in range(FAILURES):
            made.breakers.failed(a.service, made.loop.time(), PeerUnreachable("no connection"))
        await asyncio.sleep(4.0)
        closed = ("a", "breaker", "it did not respond lately, so it is not asked for a while")
        found = await made.seen()
        assert found.rounds[0][2] == [closed, ("b", "network", ""), ("a", "stale", "")]
        assert (found.decision, found.cost, found.guess, found.cached) == (place, 1, "wrong", "stale")
        await asyncio.sleep(60.0)
        made.breakers.pause(a.service, made.loop.time(), asks_for_pause(60))
        paused = ("a", "breaker", "it asked for a pause, so it is not asked for a while")
        assert (await made.seen()).rounds[0][2][0] == paused

    play(tmp_path, act, holder("a", 1, 0.3, reuse=True), archive("b", Behaviour(b"", 0.05), 2))


def test_archives_that_are_switched_off_count_as_silent_where_they_may_hold_the_item(tmp_path: Path) -> None:
    off = "it is switched off"

    async def act(made: Scene) -> None:
        a, b, c = made.included
        made.included = (a,)
        made.knows.hints.remember([ITEM], likely=b.service)

        async def silent(*back: float | None) -> tuple[Any, ...]:
            away = zip((b, c), back, strict=False)
            made.away = {
                each.service: AwayArchive(each, made.now(), None if at is None else made.now() + at)
                for each, at in away
            }
            made.generation[0] += 1
            found = (await made.outcome()).decision
            assert isinstance(found, Alert)
            assert found.coverage is not None
            return found.kind, found.wait, [str(why) for _, why in found.coverage.silent]

        incomplete = AlertKind.INCOMPLETE
        assert await silent(None) == (incomplete, None, [f"{off} for now"])
        assert await silent(-1.0) == (incomplete, None, [f"{off} for now"])
        for seconds, wait in ((90.2, 91), (MOST_WAIT + 10.0, MOST_WAIT)):
            kind, found, (why,) = await silent(seconds)
            assert (kind, found) == (incomplete, wait)
            assert why.startswith(f"{off}, and expects to be back at 2001-09-09T")
        # The other one is not known to hold anything: it does not count.
        assert await silent(60.0, 30.0) == (incomplete, 60, [*(await silent(60.0))[2]])
        made.knows.hints.moved([ITEM], c.service)
        assert (await silent(60.0, 30.0))[:2] == (incomplete, 30)
        assert len((await silent(60.0, 30.0))[2]) == 1  # `moved` names it as the likely one, too
        made.away = {}

    play(tmp_path, act, *(archive(name, Behaviour(b""), n) for n, name in enumerate("abc", 1)))


def test_who_is_included_is_read_again_after_a_change_and_each_half_second(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        await made.outcome()
        looks = [made.looks]
        for after, change in ((LOOK_EVERY - 0.1, 0), (0.2, 0), (0.1, 0), (0.0, 1)):
            await asyncio.sleep(after)
            made.generation[0] += change
            await made.outcome()
            looks.append(made.looks)
        assert [now - was for was, now in pairwise(looks)] == [0, 1, 0, 1]

    play(tmp_path, act, archive("a", Behaviour(b""), 1))


def evidence_of(made: Scene) -> list[tuple[str, str]]:
    """What was recorded, and of which Archives."""
    made.knows.evidence.close()
    facts = [(each.what, each.facts) for each in made.knows.evidence.entries()]
    return [
        (what, str(found.get("archive") or found.get("archives") or found.get("to"))) for what, found in facts
    ]


def test_the_original_of_a_copy_is_searched_in_the_background_and_readers_are_led_there(
    tmp_path: Path,
) -> None:
    copy, original = holder("a", 1, state="Copy"), holder("b", 2, 0.15)

    async def act(made: Scene) -> None:
        a, b = made.included
        versions, slot = made.knows.cache.leases.name_versions, name_slot(name_digest(ITEM))
        assert (await made.seen()).decision == "http://a.example/x"
        assert made.knows.hints.of(ITEM) == HolderHint(a.service, None)
        before = versions[slot]
        await asyncio.sleep(0.5)
        assert made.knows.hints.of(ITEM) == HolderHint(b.service, b.service)
        assert versions[slot] != before
        assert len(original.received) == len(copy.received) == 1
        found = await made.seen()
        assert (found.decision, found.rounds[0][0]) == ("http://b.example/x", "hint")
        assert evidence_of(made) == [("original", b.service)]

    play(tmp_path, act, copy, original)


def test_two_originals_that_a_search_finds_are_recorded_and_neither_is_the_holder(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        a, b, c = made.included
        assert (await made.seen()).decision == "http://a.example/x"
        await asyncio.sleep(0.5)
        assert made.knows.hints.of(ITEM) == HolderHint(a.service, "")
        assert made.knows.disputes == 1
        assert evidence_of(made) == [("alert", f"{b.service} {c.service}")]

    play(tmp_path, act, holder("a", 1, state="Copy"), holder("b", 2, 0.1), holder("c", 3, 0.2))


def test_the_original_of_an_item_is_searched_once_a_minute(
    tmp_path: Path,
) -> None:
    copy, other = holder("a", 1, state="Copy"), archive("b", Behaviour(b"", 0.1), 2)

    async def act(made: Scene) -> None:
        (a, _), counts = made.included, list[int]()
        for after in (0.0, 1.0, SEARCH_EVERY - 2.2, 1.0):
            await asyncio.sleep(after)
            assert (await made.seen()).decision == "http://a.example/x"
            await asyncio.sleep(0.2)
            counts.append(len(other.requests("urlRequest")))
        assert counts == [1, 1, 1, 2]
        assert made.knows.hints.of(ITEM) == HolderHint(a.service, None)

    play(tmp_path, act, copy, other)


def test_a_known_holder_that_says_copy_itself_may_have_handed_the_original_over(tmp_path: Path) -> None:
    """The copy of another Archive says nothing of the known holder, so no original is searched."""
    third = archive("c", Behaviour(b""), 3)

    async def act(made: Scene) -> None:
        a, b, _ = made.included
        for original, searched in ((b, 0), (a, 1)):
            made.knows.hints.moved([ITEM], original.service)
            made.knows.hints.remember([ITEM], likely=a.service)
            third.received.clear()
            assert (await made.seen()).decision == "http://a.example/x"
            await asyncio.sleep(0.5)
            assert len(third.requests("urlRequest")) == searched

    play(tmp_path, act, holder("a", 1, state="Copy"), archive("b", Behaviour(b"", 0.05), 2), third)
