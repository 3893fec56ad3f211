"""Every play of conformance/scenarios, performed by a real resolver among scripted Archives (RES-01 to RES-14)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.clock import run_with_false_clock
from support.conformance.play_words import PlayError
from support.conformance.plays import POLICIES, read_play
from support.conformance.stage import perform
from support.http_answers import LIES

SCENARIOS = Path(__file__).parents[2] / "conformance" / "scenarios"
PLAYS = sorted(SCENARIOS.glob("*.play"))


@pytest.mark.proves(
    "AMB-32",
    "AMB-40",
    "AMB-42",
    "AMB-45",
    "AMB-46",
    "AMB-47",
    "AMB-48",
    "AMB-50",
    "AMB-51",
    "AMB-52",
    "AMB-53",
    "AMB-54",
    "AMB-58",
    "CON-04",
    "GEN-13",
    "MSG-25",
    "MSG-26",
    "MSG-27",
    "RES-02",
    "RES-03",
    "RES-04",
    "RES-05",
    "RES-06",
    "RES-07",
    "RES-08",
    "RES-09",
    "RES-10",
    "RES-11",
    "RES-12",
    "RES-13",
    "SVC-06",
    "SVC-14",
    "URL-03",
    "URL-05",
    "URL-06",
    "URL-07",
    "URL-08",
    "URL-09",
    "URL-11",
    "URL-12",
    "URL-13",
    "URL-14",
    "URL-15",
    "URL-17",
    "URL-18",
    "URL-19",
    "URL-20",
    "URL-21",
)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", PLAYS, ids=lambda path: path.stem)
def test_the_play_is_followed(path: Path, policy: str) -> None:
    play = read_play(path)
    if policy in play.policies:
        run_with_false_clock(perform(play, policy))


def test_the_plays_prove_what_this_module_says_they_prove() -> None:
    markers = vars(test_the_play_is_followed)["pytestmark"]
    proven = {number for marker in markers if marker.name == "proves" for number in marker.args}
    assert proven == {number for path in PLAYS for number in read_play(path).proves}


def test_the_readme_explains_every_lie_that_the_plays_can_tell() -> None:
    readme = (SCENARIOS / "README.md").read_text(encoding="utf-8")
    table = readme.partition("### Lies")[2].partition("### `USER")[0]
    explained = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([a-z0-9.-]+)`", row.split("|")[1])
    }
    assert explained == set(LIES)


# The stage itself: it must be able to say no.

ITEM = "example.org/a/2020/01.02.00.00"
SCENE = f"""
PLAY two Archives, the second with the item
ARCHIVE a AFTER 10 ms
ARCHIVE b ANSWERS {ITEM} AFTER 20 ms url http://b.example/x
USER /{ITEM} LANGUAGE pt-BR,de
EXPECT """
ALERTING = f"""
PLAY nobody has it, and one is silent
ARCHIVE a
ARCHIVE b SILENT
USER /{ITEM}
EXPECT """


def play_out(text: str, folder: Path) -> None:
    path = folder / "a.play"
    path.write_text(text, encoding="utf-8")
    run_with_false_clock(perform(read_play(path), "hardened"))


@pytest.mark.parametrize(
    ("scene", "true", "false"),
    [
        (SCENE, "REDIRECT http://b.example/x", "REDIRECT http://b.example/y"),
        (SCENE, "STATUS 302", "STATUS 404"),
        (SCENE, "ROUNDS 1", "ROUNDS 2"),
        (SCENE, f"ASKED {ITEM}", f"ASKED {ITEM} GetMetadata"),
        (SCENE, f"ASKED {ITEM}", f"ASKED {ITEM} ASKED {ITEM}"),
        (SCENE, "ACKNOWLEDGED b", "ACKNOWLEDGED a"),
        (SCENE, "ACKNOWLEDGED b", "ACKNOWLEDGED nobody"),
        (SCENE, "ACKNOWLEDGED b SAYING state Original", "ACKNOWLEDGED b SAYING state Copy"),
        (SCENE, "WITHIN 21 ms", "WITHIN 19 ms"),
        (SCENE, "NOT BEFORE 20 ms", "NOT BEFORE 21 ms"),
        (SCENE, "NEVER TOLD language", "NEVER TOLD language TOLD AS BEFORE"),
        (ALERTING, "ALERT incomplete", "ALERT not-found"),
        (ALERTING, "ALERT incomplete SILENT b", "ALERT incomplete SILENT a, b"),
        (ALERTING, "UNDER strict ALERT not-found", "UNDER hardened ALERT not-found"),
    ],
)
def test_the_stage_tells_a_true_expectation_from_a_false_one(
    scene: str, true: str, false: str, tmp_path: Path
) -> None:
    play_out(scene + true, tmp_path)
    with pytest.raises(AssertionError):
        play_out(scene + false, tmp_path)


def test_a_secret_that_is_told_ends_the_play(tmp_path: Path) -> None:
    """A reader's own file path holds what must not be told; the resolver passes it on, the Archive cries out."""
    with pytest.raises(AssertionError, match="a was told of required state"):
        play_out(f"PLAY a secret\nARCHIVE a\nUSER /{ITEM}/requireditemstatus\nEXPECT STATUS 404", tmp_path)
    with pytest.raises(AssertionError, match="a was told of language preference"):
        play_out(f"PLAY a secret\nARCHIVE a\nUSER /{ITEM}/x-canari7\nEXPECT STATUS 404", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PLAY without an expectation",
        "EXPECT STATUS 404",
        "SCENE one",
        "PLAY x\nARCHIVE",
        "PLAY x\nARCHIVE a SLEEPS",
        "PLAY x\nARCHIVE a LIES softly",
        "PLAY x\nARCHIVE a SILENT AFTER 40 s",
        "PLAY x\nARCHIVE a ANSWERS",
        f"PLAY x\nARCHIVE a ANSWERS {ITEM} url",
        "PLAY x\nARCHIVE a BOUND a.example",
        "PLAY x\nPROVES everything",
        "PLAY x\nUNDER pressure",
        "PLAY x\nRESOLVER urlib.net",
        "PLAY x\nUSER / HAT green",
        "PLAY x\nEXPECT MIRACLES",
        "PLAY x\nEXPECT STATUS many",
        "PLAY x\nEXPECT NEVER TOLD anything",
        "PLAY x\nEXPECT NOT NOW",
        "PLAY x\nEXPECT TOLD LIES",
    ],
)
def test_a_text_that_is_no_play_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.play"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlayError, match=r"^bad\.play: "):
        read_play(path)
