"""Alerts as values: every kind has a status, a title and a sentence, in both plain spellings."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING

import pytest

from ibi.errors import ParseError, PeerSilent
from ibi.resolver.model.alert import (
    KINDS,
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
    assert list(KINDS) == list(AlertKind)
    assert [
        each.name
        for each in fields(KindProperties)
        if each.default is not MISSING or each.default_factory is not MISSING
    ] == []


@pytest.mark.proves("RES-13", "RES-10")
def test_an_alert_tells_all_it_knows_in_both_spellings() -> None:
    alert = Alert(
        AlertKind.NO_TRANSLATION,
        url="http://urlib.net/x+(fr)",
        ibi="x",
        coverage=Coverage(3, (("service", PeerSilent("no connection within 1 s")),)),
        archives=("a", "b"),
        timestamp="2015-01-02T03:04:05Z",
        alternates=(("en", "http://urlib.net/x+(en)"),),
        proposals=("http://urlib.net/y",),
    )
    text = alert.text(in_english).decode()
    for piece in ("a, b", "2015-01-02T03:04:05Z", "en (http://urlib.net/x+(en))", "http://urlib.net/y"):
        assert piece in text
    assert "queried: 3; answered: 2" in text
    assert "No answer from service: no connection within 1 s" in text
    problem = json.loads(alert.problem_json(in_english))
    assert problem["archives"] == {
        "asked": 3,
        "answered": 2,
        "silent": [{"service_ibi": "service", "why": "no connection within 1 s"}],
    }
    assert (problem["about"], problem["alternates"]) == (["a", "b"], {"en": "http://urlib.net/x+(en)"})


def test_the_fault_of_a_url_is_shown_with_a_caret_and_cannot_break_the_page() -> None:
    fault = ParseError("persistent URL", "/a\r\nb{x}", "here is a fault", 2, 3)
    alert = Alert(AlertKind.BAD_URL, url="/a\r\nb", problem=fault)
    assert "/a??b{x}\n  ^" in alert.text(in_english).decode()
    assert json.loads(alert.problem_json(in_english))["fault"]["start"] == 2


def test_what_is_said_can_be_said_in_another_language() -> None:
    def shout(sentence: str, details: object) -> str:
        return f"<{sentence}|{details}>"

    text = Alert(AlertKind.NOT_FOUND, coverage=Coverage(1)).text(shout).decode()
    assert "<No Archive holds this item|{}>" in text
    assert "<Archives queried: {asked}; answered: {answered}|{'asked': 1, 'answered': 1}>" in text


def test_of_many_silent_archives_a_person_is_told_ten_and_how_many_more_a_program_all() -> None:
    why = PeerSilent("no connection within 1 s")
    silent = tuple((f"service/{number}", why) for number in range(MOST_SILENT + 3))
    alert = Alert(AlertKind.INCOMPLETE, coverage=Coverage(len(silent), silent))
    written = list[str]()

    def say(sentence: str, details: Mapping[str, object]) -> str:
        written.append(sentence)
        return in_english(sentence, details)

    text = alert.text(say).decode()
    assert text.count("No answer from") == written.count(why.problem) == MOST_SILENT
    assert "Others that did not answer: 3" in text
    assert len(json.loads(alert.problem_json(in_english))["archives"]["silent"]) == len(silent)
