"""The simulation of resolution in its short form, and that it finds what is wrong."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from ibi.protocol import url_list
from ibi.protocol.relation import Relation
from ibi.protocol.url_list import find_wanted, relations_of
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
from ibi.resolver.model.alert import AlertKind
from ibi.resolver.model.archive import ArchiveResponse
from ibi.resolver.resolve import resolution as resolution_module
from ibi.resolver.resolve import resolver as driver
from ibi.resolver.resolve.learning import Knowledge
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.queries import Queries
from ibi.resolver.resolve.resolution import Resolution
from ibi.resolver.resolve.round import Round
from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.resolution import exhaustive, originals, simulator
from proofs.resolution.wire import VirtualLoop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    virtual = VirtualLoop()
    yield virtual
    virtual.close()


@pytest.mark.long
@pytest.mark.proves("RES-04", "RES-05", "RES-08", "RES-09", "RES-13", "AMB-51", "AMB-52", "AMB-53")
def test_every_story_of_a_few_archives_ends_as_the_standard_wants() -> None:
    report = exhaustive.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["stories"] > 5_000


@pytest.mark.long
@pytest.mark.proves("RES-03", "RES-07", "RES-11", "RES-12", "AMB-46", "AMB-54", "REG-07")
def test_stories_and_plays_of_chance_keep_the_fourteen_laws() -> None:
    report = simulator.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["resolutions"] > 750
    assert report.counts["readers gone"] > 10


@pytest.mark.long
@pytest.mark.proves("RES-08", "RES-10", "AMB-51")
def test_among_two_hundred_archives_two_claims_are_always_seen_and_one_never_is_accused() -> None:
    report = originals.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["several claims"] >= 100


@pytest.mark.parametrize("seed", [1, 4, 46, 327, 501, 2949])
def test_stories_that_once_ended_wrong_end_well(seed: int) -> None:
    report = Report("kept", "")
    simulator.tell(seed, report)
    assert report.broken == []


def test_plays_that_once_ended_wrong_end_well(loop: VirtualLoop) -> None:
    report = Report("kept", "")
    for seed in (
        73,
        165,
        175,
        181,
        466,
        828,
        4516,
        964_969_484_541,
        242_057_629_559,
        855_757_635_529,
        144_464_952_760,
        307_856_745_870,
        563_815_674_191,
        789_218_864_639,
        680_909_343_879,
    ):
        simulator.play(seed, report, loop)
    assert report.broken == []


# That it can fail: machines and modules with a fault in them


class WaitsForWhoHasSpoken(Resolution):
    _awaited = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Wait on for the one that was awaited."""
        if name != "_awaited" or value is not None:
            super().__setattr__(name, value)


class CountsWhatWasRemoved(Resolution):
    def _found(self, answer: Any) -> Any:
        return find_wanted(answer, self._relation, self._preference, answer.relations())


class LetsDeletedHideTheLiving(Resolution):
    def close_round(self, *, may_go_on: bool = True, in_time: bool = True) -> Any:
        gone = [
            heard.archive
            for heard in self._heard
            if heard.answer is not None and heard.answer.state is ItemState.DELETED
        ]
        return (
            self._alert(AlertKind.DELETED, gone)
            if gone
            else super().close_round(may_go_on=may_go_on, in_time=in_time)
        )


class BelievesEveryArchive(Resolution):
    def __init__(self, *given: Any) -> None:
        url, persistent, addresses, preference, _ = given
        super().__init__(url, persistent, addresses, preference, Policy(strict=True))


class TakesTheFirstClaim(Resolution):
    def hear(self, response: Any) -> Any:
        decided, answer = super().hear(response), response.answer
        found = self._found(answer) if self.original_required and answer else None
        if found is not None and found.entry.state is ItemState.ORIGINAL:
            return self.close_round()
        return decided


class AsksTheSameAgain(Resolution):
    def _ask(self, *given: Any) -> Any:
        self._requested = set()
        return super()._ask(*given)


class ForgetsWhoWasSilent(Resolution):
    def _ask(self, *given: Any) -> Any:
        self._silent = {}
        return super()._ask(*given)


class DeniesThoughAnArchiveWasSilent(Resolution):
    def _alert(self, *given: Any) -> Any:
        silent, self._silent = self._silent, {}
        alert = super()._alert(*given)
        self._silent = silent
        return alert


class NotesWhatItDoesNotTake(Resolution):
    def _hear_stale(self, archive: Any, answer: Any) -> Any:
        decided = super()._hear_stale(archive, answer)
        if decided is None and self._found(answer) is not None:
            self._unsafe.append(archive)
        return decided


class ForgetsEarlierAnswers(Resolution):
    def hear(self, response: Any) -> Any:
        return super().hear(ArchiveResponse(response.archive, response.answer, response.error))


@pytest.mark.parametrize(
    "machine",
    [
        WaitsForWhoHasSpoken,
        CountsWhatWasRemoved,
        LetsDeletedHideTheLiving,
        BelievesEveryArchive,
        TakesTheFirstClaim,
        AsksTheSameAgain,
        ForgetsWhoWasSilent,
        DeniesThoughAnArchiveWasSilent,
    ],
)
def test_a_machine_with_a_fault_is_found_out_by_its_stories(machine: type[Resolution]) -> None:
    report = Report("trial", "")
    for seed in range(2_000):
        simulator.tell(seed, report, machine)
        if report.violations:
            break
    assert report.violations


def test_a_machine_that_sees_no_contradiction_is_found_out() -> None:
    report = Report("trial", "")
    with patch.object(resolution_module, "contradicting", lambda _claims: []):
        for seed in range(300):
            simulator.tell(seed, report)
    assert any("suspect-originals" in sentence for sentence in report.broken)


def test_languages_of_another_translation_are_found_out() -> None:
    report = Report("trial", "")
    right = url_list._named

    def wrong(answer: Any, _lead: Any, relation: Any, index: int) -> Any:
        steps = relation.steps[:index]
        leads = {Relation(each.steps[:index]) for each in relations_of(answer.pairs, "ibi")}
        fitting = [lead for lead in leads if Relation(steps).accepts(lead)]
        return {name for lead in fitting for name in right(answer, lead, relation, index)}

    with patch.object(url_list, "_named", wrong):
        simulator.tell(501, report)
    assert report.violations


def _asks_whom_it_knew(self: Any) -> Any:
    return vars(self).setdefault("first", _WHO(self))


def _again(self: Any) -> None:
    if self._phase != "all":
        _WIDEN(self)
        self._send(self._plan.archives, self._waiting)


def _impatient(self: Any, *given: Any) -> None:
    queries, times, *others = given
    _ROUND(self, queries, times._replace(per_archive=2.0), *others)


def _endless(self: Any, *given: Any) -> None:
    queries, times, *others, terms = given
    _ROUND(
        self, queries, times._replace(per_archive=30.0), *others, terms._replace(deadline=terms.deadline + 25)
    )


def _for_ever(self: Any, archive: Any, batch: Any, shared: Any) -> str:
    if batch.use_cache:
        for response in self.stale([archive], batch.question):
            batch.deliver(ArchiveResponse(archive, response.answer, None, batch.deadline.begun, "cache"))
            return "nothing"
    return str(_ANSWERED(self, archive, batch, shared))


def _always(*_given: Any) -> bool:
    return True


def _twice(self: Any, *given: Any) -> None:
    _ACKNOWLEDGE(self, *given)
    _ACKNOWLEDGE(self, *given)


_WHO, _WIDEN, _ANSWERED = driver.Resolver._members, Round._widen, Queries._next_step
_ROUND: Any = Round.__init__
_ACKNOWLEDGE = AcknowledgmentQueue.acknowledge


@pytest.mark.parametrize(
    ("module", "name", "wrong", "law"),
    [
        (driver.Resolver, "_members", _asks_whom_it_knew, "i13"),
        (Round, "_widen", _again, "i6"),
        (Round, "__init__", _impatient, "i11"),
        (Round, "__init__", _endless, "i8"),
        (Queries, "_next_step", _for_ever, "i2"),
        (AcknowledgmentQueue, "acknowledge", _twice, "i3"),
        (Knowledge, "is_not_known", _always, "i14"),
    ],
)
def test_a_module_with_a_fault_is_found_out_by_its_plays(
    loop: VirtualLoop, module: Any, name: str, wrong: Any, law: str
) -> None:
    report = Report("trial", "")
    with patch.object(module, name, wrong):
        for seed in range(1_500):
            simulator.play(seed, report, loop)
            if any(sentence.startswith(law) for sentence in report.broken):
                return
    pytest.fail(f"{law}: {report.broken[:3]}")


@pytest.mark.parametrize(("machine", "seed"), [(NotesWhatItDoesNotTake, 27344), (ForgetsEarlierAnswers, 165)])
def test_a_machine_with_a_fault_that_shows_in_the_modules_is_found_out_by_its_plays(
    loop: VirtualLoop, machine: type[Resolution], seed: int
) -> None:
    report, sound = Report("trial", ""), Report("sound", "")
    simulator.play(seed, report, loop, machine)
    simulator.play(seed, sound, loop)
    assert report.violations
    assert not sound.violations


def test_a_task_that_is_left_behind_is_found(loop: VirtualLoop) -> None:
    left: list[asyncio.Task[Any]] = []

    async def stay() -> None:
        await loop.create_future()

    def leaking(self: Any, *given: Any) -> None:
        _ACKNOWLEDGE(self, *given)
        left.append(loop.create_task(stay()))

    report = Report("trial", "")
    with ExitStack() as stack:
        stack.enter_context(patch.object(AcknowledgmentQueue, "acknowledge", leaking))
        for seed in range(10):
            simulator.play(seed, report, loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(_all(left))
    assert any(sentence.startswith("i12") for sentence in report.broken)


async def _all(tasks: list[Any]) -> None:
    for task in tasks:
        try:
            await task
        except BaseException:  # noqa: BLE001, S112 - they were cancelled
            continue


def test_the_command_prints_a_table_and_its_seed() -> None:
    line = [sys.executable, "-m", "proofs.resolution", "--short", "--seed", "3", "P-R4"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "seed 3" in done.stdout
    assert "| P-R4 | several claims 105" in done.stdout
