"""Alerts as values: every kind has a status, a title and a sentence, in both plain spellings."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import pytest

from ibi.errors import ParseError, PeerSilent
from ibi.identifier.forms import IBIForms
from ibi.protocol.extensions.tombstone import Tombstone
from ibi.resolver.model.alert import (
    ALERT_KINDS,
    MOST_SILENT,
    STATUS,
    TITLE,
    Alert,
    AlertKind,
    Coverage,
    KindProperties,
    in_english,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.proves("RES-13")
@pytest.mark.parametrize("kind", AlertKind)
def test_every_kind_can_be_said(kind: AlertKind) -> None:
    problem = (
        ParseError("IBIp", "abc", "a {size} fault", 1, 2, size="big") if kind is AlertKind.BAD_URL else None
    )
    alert = Alert(kind, url="http://urlib.net/x", problem=problem)
    problem = json.loads(alert.problem_json(in_english))
    assert (problem["status"], problem["kind"], problem["title"]) == (STATUS[kind], kind.value, TITLE[kind])
    assert 400 <= alert.status < 600
    assert alert.status != 500
    assert TITLE[kind] in alert.text(in_english).decode()
    assert problem["detail"] in alert.text(in_english).decode()


def test_every_kind_decides_each_property() -> None:
    assert list(ALERT_KINDS) == list(AlertKind)
    assert [
        each.name
        for each in fields(KindProperties)
        if each.default is not MISSING or each.default_factory is not MISSING
    ] == []


SILENT = Coverage(3, (("service", PeerSilent("no connection within {n} s", n=1)),))
FACTS: dict[str, tuple[object, list[str], dict[str, object]]] = {
    "leads_to": (
        "next",
        ["It leads to next, which no Archive that has answered knows"],
        {"leads_to": "next"},
    ),
    "archives": (("a", "b"), ["It is about: a, b"], {"about": ["a", "b"]}),
    "first_holder": ("a", ["The first to show the original was a"], {"first": "a"}),
    "claimed_since": (
        (("a", "2015-01-02T03:04:05Z"), ("b", "")),
        ["a claims it since 2015-01-02T03:04:05Z"],
        {"claimed_since": {"a": "2015-01-02T03:04:05Z"}},
    ),
    "timestamp": (
        "2015-01-02T03:04:05Z",
        ["Removed on 2015-01-02T03:04:05Z"],
        {"timestamp": "2015-01-02T03:04:05Z"},
    ),
    "tombstone": (
        Tombstone(
            "Springs", "Maria", "2014", "At her request.", IBIForms.parse("rep a.org/w/2020/01.02.00.00")
        ),
        [
            "Springs, Maria, 2014",
            "Reason for the removal: At her request.",
            "It is replaced by a.org/w/2020/01.02.00.00",
        ],
        {
            "removed": {
                "title": "Springs",
                "people": "Maria",
                "date": "2014",
                "reason": "At her request.",
                "replacement": "a.org/w/2020/01.02.00.00",
            }
        },
    ),
    "alternates": (
        (("en", "http://urlib.net/x+(en)"), ("pt", "http://urlib.net/x+(pt)")),
        ["It exists in: en (http://urlib.net/x+(en)), pt (http://urlib.net/x+(pt))"],
        {"alternates": {"en": "http://urlib.net/x+(en)", "pt": "http://urlib.net/x+(pt)"}},
    ),
    "proposals": (
        ("http://urlib.net/y", "http://urlib.net/z"),
        ["Did you mean: http://urlib.net/y, http://urlib.net/z"],
        {"proposals": ["http://urlib.net/y", "http://urlib.net/z"]},
    ),
    "near": (("c", "d"), ["Held, and one typing error away: c, d"], {"near": ["c", "d"]}),
    "coverage": (
        SILENT,
        ["Archives queried: 3; answered: 2", "No answer from service: no connection within 1 s"],
        {
            "archives": {
                "asked": 3,
                "answered": 2,
                "silent": [{"service_ibi": "service", "why": "no connection within 1 s"}],
            }
        },
    ),
    "elsewhere": ("Gone", ["The other resolver says: Gone"], {"elsewhere": "Gone"}),
    "contact": ("m@a", ["Please tell m@a about it"], {"contact": "m@a"}),
}
"""Field of an alert -> a value, and what it adds to the text and to the JSON document, in this order."""


@pytest.mark.proves("RES-13", "RES-10")
@pytest.mark.parametrize("left_out", [None, *FACTS])
def test_an_alert_tells_all_it_knows_and_nothing_else_in_both_spellings(left_out: str | None) -> None:
    known = {name: facts for name, facts in FACTS.items() if name != left_out}
    values: dict[str, Any] = {name: value for name, (value, _, _) in known.items()}
    alert = Alert(AlertKind.NO_ORIGINAL, url="http://urlib.net/x", ibi="x", **values)
    title, detail = (
        "The original is not available",
        "The link requires the original. Archives offer the item, but none claims to hold the original.",
    )
    lines = [
        title,
        "",
        "http://urlib.net/x",
        detail,
        *(line for _, more, _ in known.values() for line in more),
    ]
    assert alert.text(in_english).decode() == "\n".join([*lines, ""])
    expected: dict[str, object] = {
        "type": "/-/about#no-original",
        "kind": "no-original",
        "title": title,
        "status": 404,
        "detail": detail,
        "instance": "http://urlib.net/x",
        "ibi": "x",
        "known": True,
    }
    for _, _, members in known.values():
        expected |= members
    problem = alert.problem_json(in_english).decode()
    assert json.loads(problem) == expected
    assert problem.startswith('{\n "type": ')


def test_a_tombstone_that_says_little_adds_as_little() -> None:
    for tombstone, line, facts in (
        (Tombstone(), [], {}),
        (Tombstone(date="2014"), ["2014"], {"removed": {"date": "2014"}}),
    ):
        alert = Alert(AlertKind.DELETED, tombstone=tombstone)
        sentence = (
            "The Archive that held this item says that it was removed, and no other Archive offers a copy."
        )
        assert alert.sentences(in_english) == [sentence, *line]
        problem = json.loads(alert.problem_json(in_english))
        assert {name: value for name, value in problem.items() if name == "removed"} == facts


@pytest.mark.parametrize("kind", AlertKind)
def test_only_where_an_administrator_can_look_into_it_is_one_named_in_the_text(kind: AlertKind) -> None:
    named = (
        "Please tell m@a about it" in Alert(kind, contact="m@a").sentences(in_english)
        if kind is not AlertKind.BAD_URL
        else False
    )
    assert named == ALERT_KINDS[kind].investigated


def test_that_an_item_is_known_is_told_where_what_was_asked_of_it_is_not_there() -> None:
    for kind, coverage, known, title, detail in (
        (AlertKind.NOT_FOUND, Coverage(1), False, "No Archive holds this item", "Every Archive that was"),
        (AlertKind.NOT_FOUND, Coverage(1), True, "The item is known, but not what", "Every Archive that was"),
        (
            AlertKind.INCOMPLETE,
            Coverage(1),
            False,
            "Not every Archive has answered",
            "Not all Archives could",
        ),
        (AlertKind.INCOMPLETE, Coverage(1), True, "Not every Archive has answered", "Not all Archives could"),
        (AlertKind.INCOMPLETE, Coverage(0), False, "There is no Archive to ask", "No Archive takes part in"),
        (AlertKind.INCOMPLETE, None, False, "Not every Archive has answered", "Not all Archives could"),
        (AlertKind.NOT_FOUND, Coverage(0), False, "No Archive holds this item", "Every Archive that was"),
    ):
        alert = Alert(kind, coverage=coverage, known=known)
        assert alert.title(in_english).startswith(title)
        assert alert.detail(in_english).startswith(detail)
        assert ("the item is known" in alert.detail(in_english).lower()) == (
            known and kind is AlertKind.INCOMPLETE
        )
        assert ("none offers" in alert.detail(in_english)) == (known and kind is AlertKind.NOT_FOUND)


def test_a_retry_is_offered_after_what_the_alert_says_else_after_what_its_kind_says() -> None:
    waits = {AlertKind.INCOMPLETE: 30, AlertKind.BUSY: 5}
    for kind in AlertKind:
        assert Alert(kind).retry_after == waits.get(kind)
        assert Alert(kind, wait=7).retry_after == 7
        assert Alert(kind, wait=0).retry_after == 0


def test_the_fault_of_a_url_is_shown_with_a_caret_and_cannot_break_the_page() -> None:
    fault = ParseError("persistent URL", "/a\r\nb{x}", "here is a fault", 2, 3)
    alert = Alert(AlertKind.BAD_URL, url="/a\r\nb", problem=fault)
    assert "/a??b{x}\n  ^" in alert.text(in_english).decode()
    written = json.loads(alert.problem_json(in_english))
    assert written["fault"] == {"start": 2, "end": 3, "caret": "/a??b{x}\n  ^"}
    assert written["instance"] == "/a\r\nb"
    assert alert.text(in_english).decode() == (
        "This is not a persistent URL\n\n/a??b{x}\n  ^\n\nhere is a fault\n"
    )


def test_an_alert_without_a_url_has_no_line_for_it_and_letters_of_any_alphabet_are_written_as_they_are() -> (
    None
):
    alert = Alert(AlertKind.BUSY, elsewhere="não há")
    title, detail = "This resolver cannot answer now", "Please try again in a moment."
    assert alert.text(in_english).decode() == (f"{title}\n\n{detail}\nThe other resolver says: não há\n")
    assert "não há".encode() in alert.problem_json(in_english)


def test_what_is_said_can_be_said_in_another_language() -> None:
    def shout(sentence: str, details: object) -> str:
        return f"<{sentence}|{details}>"

    text = Alert(AlertKind.NOT_FOUND, coverage=Coverage(1)).text(shout).decode()
    assert "<No Archive holds this item|{}>" in text
    assert "<Archives queried: {asked}; answered: {answered}|{'asked': 1, 'answered': 1}>" in text


@pytest.mark.parametrize("further", [0, 1, 3])
def test_of_many_silent_archives_a_person_is_told_ten_and_how_many_more_a_program_all(further: int) -> None:
    why = PeerSilent("no connection within 1 s")
    silent = tuple((f"service/{number}", why) for number in range(MOST_SILENT + further))
    alert = Alert(AlertKind.INCOMPLETE, coverage=Coverage(len(silent), silent))
    written = list[str]()

    def say(sentence: str, details: Mapping[str, object]) -> str:
        written.append(sentence)
        return in_english(sentence, details)

    text = alert.text(say).decode()
    assert text.count("No answer from") == written.count(why.problem) == MOST_SILENT
    others = [line for line in text.splitlines() if line.startswith("Others")]
    assert others == ([f"Others that did not answer: {further}"] if further else [])
    assert len(json.loads(alert.problem_json(in_english))["archives"]["silent"]) == len(silent)
