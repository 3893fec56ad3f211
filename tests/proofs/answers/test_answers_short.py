"""The proof of answers in its short form, and that its judge finds what is wrong."""

from __future__ import annotations

import random

import pytest

from proofs.answers import requests
from proofs.answers.items import ITEMS
from proofs.answers.judge import AnswerJudge, click_faults, link_faults
from proofs.answers.oracle import Wanted, World
from proofs.answers.served import Reply
from proofs.common.report import Scale

SEED = random.randrange(10**6)  # another one in each run; a failure shows it
SERVICE = "left.example/w/2020/01.01.00.00"
WORLD = World(ITEMS, {"left": "l.example", "right": "r.example", "elsewhere": "e.example"})
FILE = "http://l.example/col/some.example/b/2021/01.01.00.00/doc/text.txt"
ANSWER = f"""archiveaddress l.example
contenttype Data
ibi {{rep some.example/b/2021/01.01.00.00 ibip LK47B6W/3579B}}
ibi.archiveservice {{rep {SERVICE}}}
ibi.platformsoftware {{}}
state Original
timestamp 2022-02-02T02:02:00Z
url {FILE}
urlkey 1795860325-4973232364""".replace("\n", "\r\n")


@pytest.mark.long
def test_what_is_said_of_items_of_every_kind_is_as_the_standard_wants_it() -> None:
    report = requests.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["answers"] == 120
    assert report.counts["redirects"] > 0
    assert report.counts["alerts"] > 0
    assert report.counts["links"] > 100


def faults(text: str) -> list[str]:
    judge = AnswerJudge(WORLD, "left", SERVICE, "file", (), Wanted())
    return list(judge.faults(Reply(200, {"content-type": "text/plain"}, text.encode())))


def test_a_right_answer_has_no_fault() -> None:
    assert faults(ANSWER) == []


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("state Original", "state Copy", "state ('Copy',)"),
        ("contenttype Data", "contenttype Metadata", "contenttype ('Metadata',)"),
        ("02:02:00Z", "02:02:01Z", "timestamp"),
        ("01.01.00.00/doc", "01.01.00.01/doc", "url"),
        ("ibip LK47B6W/3579B", "ibip LK47B6W/3579D", "ibi ("),
        ("urlkey 1795860325-4973232364", "urlkey 12345", "urlkey"),
        ("state Original\r\n", "", "state is missing"),
        ("ibi.platformsoftware {}", "ibi.platformsoftware {x}", "no pair list"),
        (
            "state Original",
            "ibi.nextedition {rep a.example/b/2021/01.01.00.00}\r\nstate Original",
            "nextedition",
        ),
        ("archiveaddress l.example", "archiveaddress r.example", "says of its Archive"),
    ],
)
def test_the_judge_finds_an_answer_that_was_changed(right: str, wrong: str, complaint: str) -> None:
    assert right in ANSWER
    assert complaint in " ".join(faults(ANSWER.replace(right, wrong)))


def test_the_judge_finds_redirects_and_links_that_lead_astray() -> None:
    astray = Reply(302, {"location": FILE.replace("00.00/doc", "00.01/doc")}, b"")
    assert "not to" in " ".join(click_faults(astray, {FILE}))
    assert list(click_faults(Reply(302, {"location": FILE}, b""), {FILE})) == []
    assert "other bytes" in " ".join(
        link_faults(WORLD, FILE, Reply(200, {}, b"text, and more"), licensed=False)
    )
    assert "404, not 200" in " ".join(link_faults(WORLD, FILE, Reply(404, {}, b""), licensed=False))
