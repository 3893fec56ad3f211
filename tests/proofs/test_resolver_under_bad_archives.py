"""The proofs of the resolver among bad Archives and too many readers, in their short forms."""

from __future__ import annotations

import json
import random

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.language import LanguagePreference
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.archive import Archive
from ibi.resolver.pages.explanation import ONLY_ORIGINAL, ONLY_ORIGINAL_HEARD
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Resolution
from proofs.common import lies, numbered
from proofs.common.report import Report, Scale
from proofs.resolver import (
    bombs,
    breakers,
    claims,
    floods,
    hangs,
    liars,
    membership_kills,
    overload,
    request_budget,
    silence,
    soak,
)
from proofs.resolver.asking import Answer
from proofs.resolver.stubs import Stub, Town
from support.resolver.resolution import hear

pytestmark = pytest.mark.alone

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


def held(report: Report) -> bool:
    assert report.broken == [], f"seed {SEED}"
    return report.held


@pytest.mark.long
@pytest.mark.proves("RES-04", "RES-05")
def test_readers_get_to_a_holder_although_others_are_dead_hung_or_lie() -> None:
    report = liars.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["hinted resolutions"] == 300
    assert report.counts["cold resolutions"] == 60


@pytest.mark.long
@pytest.mark.proves("RES-10")
def test_two_claims_of_an_original_are_an_alert_and_one_is_followed() -> None:
    report = claims.prove(Scale.SHORT, SEED)
    assert held(report)
    assert [report.counts[kind] for kind in numbered.KINDS] == [4, 4, 4, 4]


def test_the_judge_of_claims_knows_what_is_wrong() -> None:
    item, two, one = (
        numbered.item(0, numbered.CLAIMED),
        {3: "Original", 5: "Original"},
        {3: "Original", 1: "silent"},
    )
    there = numbered.url(3, item)
    alert = json.dumps(
        {"kind": "suspect-originals", "about": [numbered.service(3), numbered.service(5)]}
    ).encode()
    assert claims.right(Answer(item, 409, "", alert, 0), "", two)
    assert not claims.right(Answer(item, 409, "", alert, 0), "", {**two, 7: "Original"})
    assert not claims.right(Answer(item, 302, there, b"", 0), ONLY_ORIGINAL, two)
    assert claims.right(Answer(item, 302, there, b"", 0), ONLY_ORIGINAL_HEARD, one)
    assert not claims.right(Answer(item, 302, there, b"", 0), ONLY_ORIGINAL, one)
    assert not claims.right(Answer(item, 302, numbered.url(4, item), b"", 0), ONLY_ORIGINAL_HEARD, one)
    assert not claims.right(Answer(item, 302, there, b"", 0), ONLY_ORIGINAL, {3: "Copy"})


@pytest.mark.long
def test_who_hangs_costs_one_question_a_pause_and_is_back_soon_after_it_is_healed() -> None:
    report = breakers.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["probes"] >= 1


@pytest.mark.long
@pytest.mark.proves("RES-04")
def test_one_readers_request_becomes_no_more_questions_than_agreed() -> None:
    report = request_budget.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["questions for a miss"] > 10


@pytest.mark.long
def test_endless_answers_of_all_archives_at_once_cost_little() -> None:
    report = bombs.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["bombs"] >= 1_000


@pytest.mark.long
def test_a_flood_from_one_client_stops_no_other() -> None:
    report = floods.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["honest beside"] > 0


@pytest.mark.long
@pytest.mark.proves("RES-04")
def test_archives_that_begin_to_hang_delay_no_reader_of_what_others_hold() -> None:
    report = hangs.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["they hang: readers"] > 0


@pytest.mark.long
def test_too_many_readers_are_answered_or_told_to_come_again() -> None:
    report = overload.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["ten times: asked"] > 0


@pytest.mark.long
def test_readers_who_come_and_go_leave_nothing_behind() -> None:
    report = soak.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["redirected"] > 0


@pytest.mark.long
@pytest.mark.proves("RES-13")
def test_while_every_holder_is_silent_what_may_be_remembered_is_given_and_nothing_is_denied() -> None:
    report = silence.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["given again"] > 0
    assert report.counts["honest refusals"] > 0


@pytest.mark.long
@pytest.mark.proves("REG-02", "REG-05", "REG-07")
def test_no_acknowledged_change_of_membership_is_lost_whenever_the_resolver_is_killed() -> None:
    report = membership_kills.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["kills"] == 5
    assert report.counts["looks"] == 6 * membership_kills.CLIENTS


def test_no_false_list_leads_a_reader_anywhere() -> None:
    stub, item = Stub(2, Town(1, 5, 1_000, 0.0)), numbered.item(7)
    archive = Archive(
        parse_ibi(numbered.service(2)),
        numbered.host(2),
        "127.0.0.1",
        "HTTP",
        "1",
        "a@b.example",
        True,
        (numbered.host(2),),
    )
    for body in lies.lists(stub.pairs(item), numbered.host(2)):
        machine = Resolution(
            PersistentURL.parse(f"/{item}"),
            item,
            ("192.0.2.1",),
            LanguagePreference.parse(""),
            Policy(private_urls=True),
        )
        try:
            assert hear(machine, archive, UrlList.read(body)) is None, body[:500]
        except ParseError:
            continue


def test_a_trend_is_told_from_noise() -> None:
    level = [(hour, 100 + hour % 2) for hour in range(50)]
    rising = [(hour, y + 3 * hour) for hour, y in level]
    assert sum(soak.trend(level)) < 0.1
    slope, error = soak.trend(rising)
    assert slope - error < 3 < slope + error
