"""The fourteen laws of resolution, each a function that tells what is wrong with one scene as it was seen on the wire.

What the machine decided has been compared with the oracle already (`watching`); these laws are about the code around
it: which Archives were queried and when, whether the machine was given the truth, and what was left behind.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from ibi.resolver.model.alert import Alert
from ibi.resolver.resolve.collapsing import LONGEST_HEARD
from ibi.resolver.resolve.resolution import Redirect as Sent
from proofs.resolution.answers import ArchiveAnswer, choose, lives, offered, qualifier, speaks_for_itself
from proofs.resolution.oracle import MOST_EDITIONS, MOST_ROUNDS, satisfies
from proofs.resolution.stage import STALE
from proofs.resolution.watching import text_pairs
from support.resolver.parts import TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proofs.resolution.cast import Archive
    from proofs.resolution.stage import Scene
    from proofs.resolution.watching import Call
    from proofs.resolution.wire import Exchange

MOST_QUERIES = 1_000
_SLACK = 0.2  # seconds
_TINY = 1e-6
_IN_LINE = 0.01  # for a question's turn to go out: the time of a round is counted from its beginning


def i1_at_most_one_outcome(scene: Scene) -> Iterator[str]:
    """And nothing is decided after it."""
    calls = scene.watch.calls if scene.watch else []
    if scene.failed is not None:
        yield f"no outcome but {scene.failed!r}"
    for at, call in enumerate(calls[:-1]):
        older = all(
            later.what == "again" for later in calls[at + 1 :]
        )  # better than an alert, worse than a redirect
        if isinstance(call.decision, Sent) or (isinstance(call.decision, Alert) and not older):
            yield f"after {call.decision}, it goes on with {calls[at + 1].what}"


def i2_a_redirect_leads_to_a_url_of_an_accepted_answer(scene: Scene) -> Iterator[str]:
    """All that the machine heard was said, by an included Archive, to this very question, and in time."""
    shares = scene.reader.hardened and not scene.reader.original
    for call in _heard(scene, "hear"):
        fresh = shares and (_may_be_reused(scene, call, 0.0) or _knew_nothing(scene, call))
        if not fresh and not any(_answers(exchange, call) for exchange in scene.exchanges):
            yield f"{call.archive} is heard to say what it did not say"
    if isinstance(scene.outcome, Sent):
        bodies = [call.answer for call in _heard(scene, "hear", "again") if call.answer is not None]
        if scene.outcome.url not in {value for each in bodies for value in text_pairs(each).values()}:
            yield f"{scene.outcome.url} was in no answer"


def i4_two_claims_that_can_be_reached_are_an_alert(scene: Scene) -> Iterator[str]:
    """Two Archives that claim the original of one relation, or of the item, in answers that came in time."""
    every = {*_claims(scene, probationary=False), *_item_claims(scene, probationary=False)}
    claims = Counter(relation for _, relation in every)
    if max(claims.values(), default=0) > 1 and not (
        isinstance(scene.outcome, Alert) and scene.outcome.status == 409
    ):
        yield f"two claims and no alert: {claims}"


def i5_one_claim_among_complete_answers_is_followed(scene: Scene) -> Iterator[str]:
    """Unless a reader must not be sent there, or another Archive claims the item."""
    claims = _claims(scene, probationary=True)
    others = {archive for archive, _ in _item_claims(scene, probationary=True)} - {each[0] for each in claims}
    if len(claims) == 1 and not others and not _on_probation(scene) and not _silent(scene):
        unsafe = isinstance(scene.outcome, Alert) and scene.outcome.status == 502
        followed = isinstance(scene.outcome, Sent) and str(scene.outcome.archive.service_ibi) == claims[0][0]
        if not followed and not unsafe:
            yield f"one claim, of {claims}, and {scene.outcome}"


def i6_no_archive_is_queried_twice(scene: Scene) -> Iterator[str]:
    """One Archive, one question, one resolution."""
    seen = [(exchange.address, exchange.question) for exchange in scene.exchanges]
    yield from (f"{each} is asked twice" for each in sorted(set(seen)) if seen.count(each) > 1)


def i7_rounds_and_questions_are_bounded(scene: Scene) -> Iterator[str]:
    """At most 32 rounds, and no round after a thousand questions."""
    rounds = len(scene.trace.rounds) if scene.trace else 0
    if rounds > MOST_ROUNDS + MOST_EDITIONS or len(scene.exchanges) > MOST_QUERIES + len(scene.included):
        yield f"{rounds} rounds, {len(scene.exchanges)} questions"


def i8_it_ends_in_time(scene: Scene) -> Iterator[str]:
    """The deadline of all rounds, and a little."""
    if scene.outcome is not None and scene.ended - scene.begun > TIMES.overall + _SLACK + _TINY:
        yield f"it took {scene.ended - scene.begun:.3f} s"


def i9_deleted_never_beats_the_living(scene: Scene) -> Iterator[str]:
    """Nor does absence: nothing that satisfies had come when a reader who takes copies was told of nothing."""
    if isinstance(scene.outcome, Alert) and not scene.reader.original and scene.watch is not None:
        for exchange in _last_round(scene):
            line = _line(scene, exchange)
            if line is not None and satisfies(scene.reader, exchange.question, line) is not None:
                yield f"{scene.outcome.kind} though {exchange.address} had said {line.pairs}"


def i10_the_first_that_satisfies_is_taken_at_once(scene: Scene) -> Iterator[str]:
    """Where copies will do; but for the known holder, whom a faster one waits for a moment (note 7)."""
    if not isinstance(scene.outcome, Sent) or scene.reader.original or scene.outcome.stale:
        return
    good = [
        exchange
        for exchange in _last_round(scene)
        if (line := _line(scene, exchange)) and satisfies(scene.reader, exchange.question, line) is not None
    ]
    first = min((exchange.answered for exchange in good), default=inf)
    if first == inf or scene.outcome.reused:
        return
    archive = str(scene.outcome.archive.service_ibi)
    chosen = next(
        (e.answered for e in _last_round(scene, probationary=True) if name_at(e.address) == archive), inf
    )
    grace = TIMES.grace if scene.watch and scene.watch.oracle.awaited else 0.0
    if chosen > first + grace + _TINY or scene.ended > first + grace + _TINY:
        yield f"taken at {scene.ended:.3f} from an answer of {chosen:.3f}, though one satisfied at {first:.3f}"


def i11_what_goes_out_is_the_same_for_all_readers(scene: Scene) -> Iterator[str]:
    """Bytes and deadlines follow from the question, the address and the moment alone (RES-03, note 8)."""
    verbs = {"!": "GetLastEdition", "+": "GetTranslation", ":": "GetMetadata"}
    for exchange in scene.exchanges:
        spelled = "%20".join(verbs[step[0]] + step[1:] for step in exchange.question.steps)
        pairs = [f"clientinformation.ipaddress={scene.address}", f"parsedibiurl.ibi={exchange.question.name}"]
        pairs += [f"parsedibiurl.verblist={spelled}"] if spelled else []
        right = f"/{name_at(exchange.address)}?{'&'.join(pairs)}&servicesubject=urlRequest"
        if exchange.target.lower().replace("+", "%20") != right.lower():
            yield f"{exchange.target} went out instead of {right}"
        left = min(TIMES.per_archive, scene.begun + TIMES.overall - exchange.begun)
        if not left - _TINY <= exchange.deadline <= left + _IN_LINE:
            yield f"{exchange.address} has {exchange.deadline} s, not {left} s"


def i13_excluded_archives_are_not_queried(
    scene: Scene, history: Sequence[tuple[float, tuple[Archive, ...]]]
) -> Iterator[str]:
    """No question begins after the exclusion."""
    for exchange in scene.exchanges:
        before = [archives for since, archives in history if since < exchange.sent_at - _TINY][-1:]
        now = [archives for since, archives in history if abs(since - exchange.sent_at) <= _TINY]
        if exchange.address not in {archive.address for included in before + now for archive in included}:
            yield f"{exchange.address} is asked at {exchange.sent_at:.3f}, after it was excluded"


def i14_cached_answers_change_no_acceptable_outcome(scene: Scene) -> Iterator[str]:
    """An older answer is used only while its Archive is silent, which allowed it, and said so within a day."""
    for call in _heard(scene, "again"):
        if call.decision is None:
            continue
        here = [
            e for e in scene.exchanges if e.question == call.question and name_at(e.address) == call.archive
        ]
        if any(exchange.counts and exchange.answered < scene.ended - _TINY for exchange in here):
            yield f"an older answer of {call.archive} is used, though it has answered"
        if not _may_be_reused(scene, call, STALE):
            yield f"{call.archive} never said that"
    if isinstance(scene.outcome, Alert) and not (scene.watch and scene.watch.calls):
        yield from (
            f"{archive.name} did not say of late that it knows nothing" for archive in _unheard(scene)
        )


LAWS: tuple[Callable[[Scene], Iterator[str]], ...] = (
    i1_at_most_one_outcome,
    i2_a_redirect_leads_to_a_url_of_an_accepted_answer,
    i4_two_claims_that_can_be_reached_are_an_alert,
    i5_one_claim_among_complete_answers_is_followed,
    i6_no_archive_is_queried_twice,
    i7_rounds_and_questions_are_bounded,
    i8_it_ends_in_time,
    i9_deleted_never_beats_the_living,
    i10_the_first_that_satisfies_is_taken_at_once,
    i11_what_goes_out_is_the_same_for_all_readers,
    i14_cached_answers_change_no_acceptable_outcome,
)
"""Those that look at one scene alone. I3 and I12 look at the whole play, I13 at the registry too."""


def _heard(scene: Scene, *what: str) -> list[Call]:
    return [call for call in (scene.watch.calls if scene.watch else []) if call.what in what]


def name_at(address: str) -> str:
    """The service IBI of the Archive at an address."""
    return f"{address}/service/2020/01.01.00.00"


def _answers(exchange: Exchange, call: Call) -> bool:
    """Whether this is what was heard."""
    here = (
        exchange.counts and name_at(exchange.address) == call.archive and exchange.question == call.question
    )
    return here and call.answer is not None and text_pairs(call.answer) == exchange.conduct.reply.pairs


def _may_be_reused(scene: Scene, call: Call, longer: float) -> bool:
    """Whether an Archive has answered this to any reader, and allows its reuse now, or `longer` ago."""
    return any(
        _answers(exchange, call)
        and exchange.conduct.reuse
        and exchange.conduct.reply.pairs.get("acknowledgment.batch") == "yes"
        and min(scene.wall_clock_begins) < exchange.kept + exchange.conduct.reuse + longer
        for exchange in scene.everything
    )


def _knew_nothing(scene: Scene, call: Call) -> bool:
    """Whether an Archive has answered this to any reader a moment ago, and it was that it knows nothing."""
    return any(
        _answers(exchange, call)
        and not exchange.conduct.reply.pairs
        and exchange.answered > scene.begun - LONGEST_HEARD
        for exchange in scene.everything
    )


def _unheard(scene: Scene) -> list[Archive]:
    """Return the Archives that have not answered within a minute that they do not know the item of this scene."""
    denied = {
        exchange.address
        for exchange in scene.everything
        if exchange.question == scene.question
        and exchange.counts
        and not exchange.conduct.reply.pairs
        and any(
            abs(begin - exchange.kept) <= TIMES.negative + TIMES.overall for begin in scene.wall_clock_begins
        )
    }
    return [archive for archive in scene.included if archive.address not in denied]


def _last_round(scene: Scene, *, probationary: bool = False) -> list[Exchange]:
    """What was answered to the last question before the end; `probationary`: also by those on probation."""
    last = scene.watch.oracle.question if scene.watch else None
    left_out = _on_probation(scene)
    return [
        exchange
        for exchange in scene.exchanges
        if exchange.question == last
        and exchange.counts
        and exchange.answered <= scene.ended
        and (probationary or exchange.address not in left_out)
    ]


def _on_probation(scene: Scene) -> set[str]:
    """Return Archives that need not be awaited, also those included only during this scene."""
    queried = {exchange.address for exchange in scene.exchanges}
    return {
        archive.address
        for archive in scene.archives
        if scene.reader.hardened
        and not archive.confirmed
        and (archive in scene.included or archive.address in queried)
    }


def _line(scene: Scene, exchange: Exchange) -> ArchiveAnswer | None:
    """Return what was replied, if it is an answer."""
    line = ArchiveAnswer(name_at(exchange.address), exchange.conduct.reply.pairs)
    believed = speaks_for_itself(line, exchange.question.name) or not scene.reader.hardened
    return line if believed and lives(line) else None


def _claims(scene: Scene, *, probationary: bool) -> list[tuple[str, str]]:
    """Who claims the original of which relation, where the original is demanded."""
    claims = []
    for exchange in _last_round(scene, probationary=probationary) if scene.reader.original else ():
        line = _line(scene, exchange)
        steps, languages = exchange.question.steps, scene.reader.languages
        found = choose(line.pairs, steps, languages, offered(line, safe=False)) if line else None
        if line and found is not None and line.pairs.get("state" + qualifier(found)) == "Original":
            claims.append((line.archive, qualifier(found)))
    return claims


def _item_claims(scene: Scene, *, probationary: bool) -> list[tuple[str, str]]:
    """Who calls the item itself an original, where that is demanded; the strict policy looks at offers alone."""
    if not (scene.reader.original and scene.reader.hardened):
        return []
    lines = (_line(scene, exchange) for exchange in _last_round(scene, probationary=probationary))
    return [(line.archive, "") for line in lines if line and line.pairs.get("state") == "Original"]


def _silent(scene: Scene) -> bool:
    """Whether an Archive that should have answered the last question did not, or not before."""
    answered = {exchange.address for exchange in _last_round(scene)}
    regular = {
        archive.address for archive in scene.included if archive.confirmed or not scene.reader.hardened
    }
    doubted = scene.watch is None or scene.watch.oracle.silent
    return bool(doubted or regular - answered) or not all(exchange.counts for exchange in scene.exchanges)
