"""What an alert shows besides its title, as whole values: who may help, who was away, what each Archive answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ibi.errors import IbiError, ParseError, PeerSilent, QueryNotSent
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ArchiveTitles, UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.resolver.model.alert import Alert, AlertKind, Coverage
from ibi.resolver.model.archive import NOT_KNOWN, Archive, ArchiveResponse, AwayArchive
from ibi.resolver.model.statements import ArchiveStatement, RoundStatements, Statements
from ibi.resolver.model.suggestion import Absence, Responsible, SuggestedLink, Suggestions, parse_request
from ibi.resolver.pages.alert_details import (
    WAYS,
    ResponsibleArchives,
    with_absences,
    with_responses,
    with_suggestions,
)
from ibi.resolver.pages.explanation import Explanation
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolver import RoundTrace, Trace

ITEM = "a.example/b/2020/01.02.00.00"
URL = f"http://urlib.net/{ITEM}"
NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z"""


def archive(number: int, prefix: str = "a.example/b", mail: str = "") -> Archive:
    service = parse_ibi(f"{prefix}/2020/01.01.00.{number:02}")
    return Archive(
        service, f"{number}.example", admin_mail=mail, included_at=60.0 * number,
        titles=ArchiveTitles("", f"Arquivo {number}"),
    )  # fmt: skip


ONE, TWO, FAR = (
    archive(1, mail="one@a.example"),
    archive(2, mail="no mail"),
    archive(3, "c.example/d", "x@c.example"),
)


def shown(one: Archive, mail: str = "", since: str = "") -> Responsible:
    return Responsible(one.name, one.address, mail, one.titles, since)


SHOWN_ONE = shown(ONE, "one@a.example", "1970-01-01T00:01:00Z")
SHOWN_TWO = shown(TWO, "", "1970-01-01T00:02:00Z")
SHOWN_FAR = shown(FAR, "x@c.example", "1970-01-01T00:03:00Z")


def suggested(alert: Alert, roots: dict[str, str] | None = None) -> Suggestions | None:
    return with_suggestions(alert, ResponsibleArchives([ONE, TWO, FAR]), roots or {}, NOW).suggestions


def expected(url: str, *ways: SuggestedLink, **more: object) -> Suggestions:
    parsed = parse_request(url)
    assert parsed is not None
    explain = SuggestedLink(WAYS["explain"], f"/-/explain/{url.removeprefix('http://urlib.net/')}")
    return Suggestions(parsed, ways=(*ways, explain), **more)  # type: ignore[arg-type]  # passed on


def test_who_knows_of_a_removed_item_is_named_and_told_before_the_administrator_of_the_resolver() -> None:
    alert = Alert(
        AlertKind.DELETED, URL, archives=(FAR.name, "gone.example/x/2020/01.01.00.00", TWO.name),
        contact="me@urlib.net",
    )  # fmt: skip
    assert suggested(alert, {FAR.name: "https://3.example:8443"}) == expected(
        URL,
        SuggestedLink(WAYS["archive"], f"https://3.example:8443/-/item/{ITEM}"),
        SuggestedLink(WAYS["archive"], f"http://2.example/-/item/{ITEM}"),
        responsible=(SHOWN_FAR, SHOWN_TWO),
        to=("x@c.example", "me@urlib.net"),
    )
    for kind in (AlertKind.BUSY, AlertKind.TOO_MANY):
        assert suggested(replace(alert, kind=kind)) == replace(
            expected(URL, SuggestedLink(WAYS["again"], f"/{ITEM}")),
            ways=(SuggestedLink(WAYS["again"], f"/{ITEM}"),),
        )


@pytest.mark.parametrize(
    ("kind", "to"),
    [
        (AlertKind.NOT_FOUND, ("me@urlib.net", "x@c.example")),
        (AlertKind.NO_ORIGINAL, ("x@c.example", "me@urlib.net")),
        (AlertKind.NO_TRANSLATION, ("x@c.example", "me@urlib.net")),
        (AlertKind.SUSPECT_ORIGINALS, ("me@urlib.net", "x@c.example")),
    ],
)
def test_claimants_have_their_pages_and_a_report_goes_first_to_who_can_put_it_right(
    kind: AlertKind, to: tuple[str, ...]
) -> None:
    alert = Alert(
        kind, URL, archives=(FAR.name,), contact="me@urlib.net", coverage=Coverage(5, (("x", IbiError("y")),))
    )
    places = ((FAR.name, f"http://3.example/-/item/{ITEM}"),) if kind is AlertKind.SUSPECT_ORIGINALS else ()
    assert suggested(alert) == expected(URL, responsible=(SHOWN_FAR,), to=to, others=3, places=places)
    assert suggested(replace(alert, contact="")) == expected(
        URL, responsible=(SHOWN_FAR,), to=("x@c.example",), others=3, places=places
    )


def test_an_alert_without_a_persistent_url_gets_no_suggestions() -> None:
    fault = ParseError("persistent URL", "", "no")
    for alert in (Alert(AlertKind.BAD_URL), Alert(AlertKind.BAD_URL, URL, problem=fault)):
        assert with_suggestions(alert, ResponsibleArchives([ONE]), {}, NOW) is alert


@pytest.mark.parametrize(("answered", "others"), [(0, 0), (1, 0), (2, 1)])
def test_archives_that_an_alert_is_about_are_not_among_those_that_offer_nothing(
    answered: int, others: int
) -> None:
    alert = Alert(AlertKind.UNSAFE_URL, URL, archives=(ONE.name, ONE.name), coverage=Coverage(answered))
    found = suggested(alert)
    assert found is not None
    assert found.others == others


def test_where_an_alert_names_no_archive_those_with_the_prefix_of_the_item_are_shown_and_few_of_many() -> (
    None
):
    many = [archive(number, "A.example/B", f"{number}@a.example") for number in range(6)]
    alert = Alert(AlertKind.UNSAFE_URL, URL, contact="me@urlib.net")
    found = with_suggestions(alert, ResponsibleArchives([FAR, *many]), {}, NOW).suggestions
    assert found is not None
    assert [each.service_ibi for each in found.responsible] == [each.name for each in many[:5]]
    assert found.to == tuple(each.admin_mail for each in many[:5])
    assert found.responsible[0].since == ""  # it was never included
    assert suggested(replace(alert, url=f"http://urlib.net/{ITEM.replace('a.', 'b.')}")) == expected(
        f"http://urlib.net/{ITEM.replace('a.', 'b.')}", to=("me@urlib.net",)
    )


def test_a_service_with_a_coded_name_has_the_prefix_of_its_items() -> None:
    coded = Archive(parse_ibi("LK47B6W/2"), "4.example")
    archives = ResponsibleArchives([ONE, coded])
    for item, found in (("lk47b6w/362SFKH", shown(coded)), (ITEM, SHOWN_ONE)):
        assert archives.of(Alert(AlertKind.NOT_FOUND), parse_ibi(item)) == (found,)


NO_DATE, TOO_OLD = IbiError("no calendar has this date"), IbiError("no label is older than August 1995")
OPAQUE = IbiError("this is an opaque id from before the standard: upper and lower case matter")


@pytest.mark.parametrize(
    ("name", "typos"),
    [
        ("a.example/b/2020/13.02.00.00", [NO_DATE]),
        ("a.example/b/1995/07.31.23.59.59", [TOO_OLD]),
        ("a.example/b/1995/08.01.00.00", []),
        ("a.example/b/2027/01.16.08.00", []),  # a day after NOW
        (
            "a.example/b/2027/01.16.08.00.01",
            [IbiError("its date, {date}, has not come yet", date="2027-01-16T08:00:01Z")],
        ),
        ("6RPa7umaZ/UaJFT", [OPAQUE]),
        ("22222222222222W/22", [IbiError("the prefix spells no IP address")]),
        ("LK47B6W/362SFKH", []),
    ],
)
def test_what_looks_wrong_in_a_name_is_said_where_no_archive_knows_it(
    name: str, typos: list[IbiError]
) -> None:
    def shown(alert: Alert) -> list[tuple[str, object]]:
        found = suggested(alert)
        assert found is not None
        return [(each.problem, each.details) for each in found.typos]

    alert = Alert(AlertKind.NOT_FOUND, f"http://urlib.net/{name}")
    assert shown(alert) == [(each.problem, each.details) for each in typos]
    assert shown(replace(alert, known=True)) == shown(replace(alert, kind=AlertKind.NO_ORIGINAL)) == []


def test_of_archives_without_an_answer_an_alert_tells_since_when() -> None:
    lost = archive(4)
    why = IbiError("no answer")
    silent = tuple((each.name, why) for each in (ONE, lost, TWO, FAR))
    away = [AwayArchive(FAR, 600.0, None), AwayArchive(TWO, 600.0, 1200.0)]
    alert = Alert(AlertKind.INCOMPLETE, URL, coverage=Coverage(9, silent))

    def absences(alert: Alert, heard: float | None) -> tuple[Absence, ...]:
        return with_absences(alert, ResponsibleArchives([ONE, FAR]), away, lambda _: heard).absences

    switched_off = (
        Absence(SHOWN_TWO, "1970-01-01T00:10:00Z", "1970-01-01T00:20:00Z"),
        Absence(SHOWN_FAR, "1970-01-01T00:10:00Z"),
    )
    assert absences(alert, 0.0) == (Absence(SHOWN_ONE, heard="1970-01-01T00:00:00Z"), *switched_off)
    assert absences(alert, None) == (Absence(SHOWN_ONE), *switched_off)
    for coverage in (None, Coverage(9)):
        assert absences(replace(alert, coverage=coverage), 0.0) == ()
    most = Coverage(9, (*[("x", why)] * 4, *silent))
    assert absences(replace(alert, coverage=most), None) == (Absence(SHOWN_ONE),)


def traced(text: str, responses: list[ArchiveResponse], queried: list[Archive]) -> RoundTrace:
    request = UrlRequest(("192.0.2.1",), parse_ibi(text), verbs=VerbList(()), file_path="/a.pdf")
    return RoundTrace(request, "everybody", 0.0, queried=queried, responses=responses)


def test_each_round_tells_who_has_something_who_was_late_and_what_another_resolver_did() -> None:
    why, upstream = PeerSilent("no answer in time"), QueryNotSent("it did not respond lately")
    holds = UrlList({"url": "http://3.example/x", "state": "Copy"})
    trace = Trace(URL, Policy(), original_required=False)
    trace.rounds += [
        traced(
            ITEM,
            [ArchiveResponse(ONE, NOT_KNOWN, at=0.002), ArchiveResponse(FAR, holds, at=0.003)],
            [ONE, FAR, TWO],
        ),
        traced(f"{ITEM}.01", [ArchiveResponse(TWO, None, why, 3.0)], [TWO]),
    ]
    trace.rounds[1].negatives = [ONE]
    alert = Alert(
        AlertKind.INCOMPLETE, URL,
        coverage=Coverage(4, ((TWO.name, why), ("http://above.example/", upstream))),
    )  # fmt: skip
    shown = with_responses(alert, Explanation(alert, trace)).statements
    assert shown == Statements(
        (
            RoundStatements(
                1, ITEM, (), "/a.pdf",
                (
                    ArchiveStatement(FAR.name, "3.example", "copy", None, 3, "url list"),
                    ArchiveStatement(TWO.name, "", "not waited for"),
                    ArchiveStatement(ONE.name, "1.example", "nothing known", None, 2, "nothing known"),
                ),
                (),
            ),
            RoundStatements(
                2, f"{ITEM}.01", (), "/a.pdf",
                (
                    ArchiveStatement(TWO.name, "2.example", "silent", why, 3000),
                    ArchiveStatement("http://above.example/", "", "not asked", upstream),
                    ArchiveStatement(ONE.name, "1.example", "nothing known"),
                ),
                (),
            ),
        )
    )  # fmt: skip
    for unchanged in (replace(alert, coverage=None), alert):
        rounds = Trace(URL, Policy(), original_required=False) if unchanged is alert else trace
        assert with_responses(unchanged, Explanation(unchanged, rounds)) is unchanged
