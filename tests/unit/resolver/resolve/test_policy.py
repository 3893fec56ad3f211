"""Which Archives are asked first: a pure plan over the included Archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.resolver.model.archive import Archive, Members
from ibi.resolver.resolve.policy import DIFFERENCES, MOST_LIKELY, Plan, Policy
from support.resolver.resolution import archive_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.identifier.forms import Name

ITEM = parse_ibi("example.org/a@80/2020/01.02.00.00")


def published(*services: str) -> Callable[[str], Sequence[str]]:
    """What some Archives publish about what they hold."""
    return lambda canonical: services if canonical == ITEM.canonical else ()


def likely_first(
    members: Members, name: Name, hinted: Sequence[str], may_hold: Callable[[str], Sequence[str]] | None
) -> Plan:
    request = UrlRequest(("192.0.2.1",), name)
    return Policy().plan(members, request, hinted, may_hold, original_required=False)


A = archive_of("example.org/A@80/2019/01.01.00.00")
B = archive_of("example.org/b/2019/01.01.00.00")
C = archive_of("example.org/c/2019/01.01.00.00")
NEW = archive_of("example.org/d/2019/01.01.00.00", confirmed=False)
MEMBERS = Members.of((A, B, C, NEW), probation=True)


def service(found: Archive) -> str:
    return found.service


@pytest.mark.proves("RES-04")
def test_all_archives_are_asked_at_once_and_those_on_probation_are_not_waited_for() -> None:
    request = UrlRequest(("192.0.2.1",), ITEM)
    plan = Policy(strict=True).plan(MEMBERS, request, (), None, original_required=False)
    assert (plan.archives, plan.why) == ((A, B, C), "everybody")


def test_hinted_archives_come_first_in_the_order_of_the_hints_and_the_rest_afterwards() -> None:
    plan = likely_first(MEMBERS, ITEM, [service(C), "gone/x/2019/01.01.00.00", service(B)], None)
    assert (plan.archives, plan.why) == ((C, B), "hint")


def test_a_hint_may_lead_to_an_archive_on_probation() -> None:
    plan = likely_first(MEMBERS, ITEM, [service(NEW)], None)
    assert plan.archives == (NEW,)


def test_without_a_hint_those_come_first_who_publish_that_they_may_hold_it() -> None:
    plan = likely_first(MEMBERS, ITEM, [], published(service(B)))
    assert (plan.archives, plan.why) == ((B,), "filter")


def test_filters_that_match_too_many_archives_are_not_used() -> None:
    many = [archive_of(f"many.example/m{n}/2019/01.01.00.00") for n in range(MOST_LIKELY + 1)]
    plan = likely_first(Members.of(many, probation=True), ITEM, [], published(*map(service, many)))
    assert (plan.archives, plan.why) == (tuple(many), "everybody")


@pytest.mark.parametrize("number", [MOST_LIKELY, MOST_LIKELY + 1])
def test_as_many_as_may_be_likely_are_asked_first_and_of_more_all(number: int) -> None:
    many = [archive_of(f"many.example/m{n}/2019/01.01.00.00") for n in range(number)]
    members = Members.of((*many, A), probation=True)
    plan = likely_first(members, ITEM, [], published(*map(service, many)))
    assert plan == (Plan(tuple(many), "filter") if number == MOST_LIKELY else Plan((A,), "prefix"))
    same = [archive_of(f"many.example/m/2019/01.01.00.0{n}") for n in range(number)]
    members = Members.of((*same, A), probation=True)
    plan = likely_first(members, parse_ibi("many.example/m/2020/01.01.00.00"), [], None)
    assert plan == (Plan(tuple(same), "prefix") if number == MOST_LIKELY else Plan(members.regular))


@pytest.mark.proves("GEN-05")
def test_then_the_archive_whose_service_shares_the_prefix_whatever_its_case() -> None:
    plan = likely_first(MEMBERS, ITEM, [], published())
    assert (plan.archives, plan.why) == ((A,), "prefix")


def test_without_a_likely_archive_all_are_asked() -> None:
    plan = likely_first(MEMBERS, parse_ibi("elsewhere.example/x/2020/01.02.00.00"), [], None)
    assert (plan.archives, plan.why) == ((A, B, C), "everybody")


def test_the_only_home_of_a_prefix_goes_before_all_others_that_are_likely() -> None:
    request = UrlRequest(("192.0.2.1",), ITEM)

    def plan(hinted: Sequence[str], may_hold: Sequence[str], *homes: Archive) -> Plan:
        return Policy().plan(MEMBERS, request, hinted, published(*may_hold), homes, original_required=False)

    assert plan([service(B)], [], A) == Plan((A, B), "hint")
    assert plan([service(B), service(A)], [], A) == Plan((B, A), "hint")  # it is likely already
    assert plan([], [service(B)], A) == Plan((A, B), "filter")
    assert plan([], [service(B), service(A)], A) == Plan((B, A), "filter")
    assert plan([service(B)], [], A, C) == Plan((B,), "hint")  # neither of two is the home
    assert plan([], [], A, C) == Plan((A, C), "prefix")


@pytest.mark.proves("RES-08")
@pytest.mark.parametrize(("policy", "required"), [(Policy(), True), (Policy(strict=True), False)])
def test_hints_count_neither_for_originals_nor_in_the_strict_policy(policy: Policy, required: bool) -> None:
    members = Members.of((A, B, C, NEW), probation=not policy.strict)
    request = UrlRequest(("192.0.2.1",), ITEM)
    plan = policy.plan(members, request, [service(C)], published(service(B)), original_required=required)
    assert (plan.archives, plan.why) == (members.regular, "everybody")


def test_the_strict_policy_knows_no_probation() -> None:
    members = Members.of((A, NEW), probation=False)
    assert (members.regular, members.probationary) == ((A, NEW), ())


def test_the_same_archives_have_the_same_version_and_others_another_one() -> None:
    assert Members.of((A, B), probation=True).version == Members.of((A, B), probation=False).version
    assert Members.of((A, B), probation=True).version != Members.of((A,), probation=True).version


def test_each_difference_of_the_hardened_policy_is_named_once() -> None:
    names = [difference.name for difference in Policy().differences]
    assert len(set(names)) == len(names) >= 5
    assert Policy(strict=True).differences == ()


def test_the_strict_policy_remembers_nothing_and_has_no_difference() -> None:
    strict, hardened = Policy(strict=True), Policy()
    assert (strict.name, strict.strict, strict.reuses, strict.differences) == ("strict", True, False, ())
    assert (hardened.name, hardened.strict, hardened.reuses) == ("hardened", False, True)
    assert hardened.differences == DIFFERENCES


def test_only_the_very_places_of_the_resolver_are_its_own() -> None:
    policy = Policy(own={("192.0.2.1", 80), ("8.8.4.4", 80), ("urlib.net", 8080)})
    urls = {
        "http://8.8.4.4/": False,
        "http://134.744.072.4/": False,  # no address that a reader may be sent to
        "http://8.8.8.8/": True,
        "http://8.8.4.4:8080/": True,
        "http://urlib.net:8080/": False,
        "http://urlib.net/": True,
        "http://a.example.org:8080/": True,
        "http://a.example.org/": True,
    }
    assert {url: policy.is_safe(A, url) for url in urls} == urls
