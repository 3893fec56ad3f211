"""Whom to ask first: a pure plan over the included Archives."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ibi.identifier.forms import IBI, parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.resolver.plan import MOST_LIKELY, Members, everybody, likely_first
from ibi.resolver.policy import Policy

ITEM = parse_ibi("example.org/a@80/2020/01.02.00.00")


@dataclass(frozen=True)
class Archive:
    service_ibi: IBI
    confirmed: bool = True


class Published:
    """What some Archives publish about what they hold."""

    def __init__(self, *services: str) -> None:
        self.services = services

    def may_hold(self, canonical: str) -> tuple[str, ...]:
        return self.services if canonical == ITEM.canonical else ()


def archive(text: str, *, confirmed: bool = True) -> Archive:
    return Archive(parse_ibi(text), confirmed)


A = archive("example.org/A@80/2019/01.01.00.00")
B = archive("example.org/b/2019/01.01.00.00")
C = archive("example.org/c/2019/01.01.00.00")
NEW = archive("example.org/d/2019/01.01.00.00", confirmed=False)
MEMBERS = Members.of((A, B, C, NEW), probation=True)


def service(found: Archive) -> str:
    return found.service_ibi.canonical


@pytest.mark.proves("RES-04")
def test_everybody_is_asked_at_once_and_those_on_probation_keep_nobody_waiting() -> None:
    plan = everybody(MEMBERS)
    assert (plan.first, plan.why) == ((A, B, C), "everybody")


def test_hinted_archives_come_first_in_the_order_of_the_hints_and_the_rest_afterwards() -> None:
    plan = likely_first(MEMBERS, ITEM, [service(C), "gone/x/2019/01.01.00.00", service(B)], None)
    assert (plan.first, plan.why) == ((C, B), "hint")


def test_a_hint_may_lead_to_an_archive_on_probation() -> None:
    plan = likely_first(MEMBERS, ITEM, [service(NEW)], None)
    assert plan.first == (NEW,)


def test_without_a_hint_those_come_first_who_publish_that_they_may_hold_it() -> None:
    plan = likely_first(MEMBERS, ITEM, [], Published(service(B)))
    assert (plan.first, plan.why) == ((B,), "filter")


def test_filters_that_say_yes_of_too_many_help_nobody() -> None:
    many = [archive(f"many.example/m{n}/2019/01.01.00.00") for n in range(MOST_LIKELY + 1)]
    plan = likely_first(Members.of(many, probation=True), ITEM, [], Published(*map(service, many)))
    assert (plan.first, plan.why) == (tuple(many), "everybody")


@pytest.mark.proves("GEN-05")
def test_then_the_archive_whose_service_shares_the_prefix_whatever_its_case() -> None:
    plan = likely_first(MEMBERS, ITEM, [], Published())
    assert (plan.first, plan.why) == ((A,), "prefix")


def test_nobody_likely_means_everybody() -> None:
    plan = likely_first(MEMBERS, parse_ibi("elsewhere.example/x/2020/01.02.00.00"), [], None)
    assert (plan.first, plan.why) == ((A, B, C), "everybody")


@pytest.mark.proves("RES-08")
@pytest.mark.parametrize(("policy", "required"), [(Policy(), True), (Policy(strict=True), False)])
def test_hints_count_neither_for_originals_nor_in_the_strict_policy(policy: Policy, required: bool) -> None:
    members = policy.members((A, B, C, NEW))
    request = UrlRequest(("192.0.2.1",), ITEM)
    plan = policy.plan(members, request, [service(C)], Published(service(B)), original_required=required)
    assert (plan.first, plan.why) == (members.regular, "everybody")


def test_the_strict_policy_knows_no_probation() -> None:
    members = Policy(strict=True).members((A, NEW))
    assert (members.regular, members.aside) == ((A, NEW), ())


def test_the_same_archives_have_the_same_mark_and_others_another_one() -> None:
    assert Members.of((A, B), probation=True).mark == Members.of((A, B), probation=False).mark
    assert Members.of((A, B), probation=True).mark != Members.of((A,), probation=True).mark


def test_each_difference_of_the_hardened_policy_is_named_once() -> None:
    names = [difference.name for difference in Policy().differences]
    assert len(set(names)) == len(names) >= 5
    assert Policy(strict=True).differences == ()
