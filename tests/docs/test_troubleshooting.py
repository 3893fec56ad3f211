"""Each sentence of `ibi doctor` that calls for something has an entry in both pages of troubleshooting."""

from __future__ import annotations

import pytest

from ibi.archive.store.s3_client import (
    KEYS_REFUSED,
    NO_BUCKET,
    NO_KEYS,
    NO_PACKAGE,
    NOT_OURS,
    NOT_PREPARED,
    SILENT,
)
from ibi.archive.store.tables.memberships import MembershipStanding
from ibi.errors import IbiError
from ibi.minting.state import SENTENCES
from ibi.runtime.i18n import say
from support.pages.findings import Sentence, entries, sentences, shown

pytestmark = pytest.mark.templates

TREES = {"pt-BR": "pt_BR", "en": "en"}
NO_LABEL = ["labels cannot be made in {path}: {reason}"]
CLOCK = [
    "the clock of this machine says {date}: it has not been set",
    "the clock of this machine is past the year 9998: set it right",
    "the clock is {seconds} seconds behind the moment of the last label; no label is given until it is right",
    (
        "the clock is {days} days ahead of what is expected since the last label; if it is right, confirm it: "
        "ibi mint recover --data DIR --accept-clock"
    ),
]
DATABASE = [
    "{path} is not a database of ours",
    "{path} has version {found}, but this program needs version {newest}: it was written by another version",
    "the database {path} cannot be used: {reason}",
]
MEMBERSHIP = "at {url}: {standing} since {since}"

ERRORS: dict[str, list[str | IbiError]] = {
    "doctor._without_nonce": [IbiError("{path} cannot be written: {reason}", path="…/nonce", reason="…")],
    "machine.check_minting": [*NO_LABEL],
    "machine._lost": [*SENTENCES.values()],
    "machine._disbelief": [*CLOCK],
    "stores._check_file": [],  # of settings: one entry explains them all, see below
    "stores.check_subsystems": [IbiError("{path}: {reason}", path="…/subsystems.toml", reason="…")],
    "stores.check_database": [*DATABASE],
    "shared_store.check_shared_store": [],  # those of a database, as above
    "stores.check_place_of_files": [
        NO_PACKAGE,
        NO_BUCKET,
        NOT_PREPARED,
        NOT_OURS,
        NO_KEYS,
        KEYS_REFUSED,
        SILENT,
    ],
    "stores._judge_membership": [
        IbiError(MEMBERSHIP, url="…", since="…", standing=IbiError(each.value))
        for each in (MembershipStanding.UNCONFIRMED, MembershipStanding.REFUSED)
    ],
    "stores.check_evidence": [IbiError("{path}: {reason}", path="…/evidence.jsonl", reason="…")],
}
"""The sentences of findings that are those of an error, or too general to be looked for: by function."""
GENERAL = {"", "{path}: {reason}", MEMBERSHIP}


def spoken(sentence: str | IbiError, language: str) -> str:
    return say(sentence, language) if isinstance(sentence, IbiError) else shown(say(sentence, language))


def wanted(found: list[Sentence], language: str) -> set[str]:
    """Every entry that a page needs."""
    plain = {spoken(each.text, language) for each in found if each.text not in GENERAL}
    return plain | {spoken(each, language) for several in ERRORS.values() for each in several}


def test_every_general_sentence_is_known() -> None:
    general = {each.where.removeprefix("app.doctor.") for each in sentences() if each.text in GENERAL}
    assert general == ERRORS.keys()


@pytest.mark.parametrize("tree", TREES)
def test_every_finding_has_an_entry(tree: str) -> None:
    assert sorted(wanted(sentences(), TREES[tree]) - set(entries(tree))) == []


@pytest.mark.parametrize("tree", TREES)
def test_every_entry_is_a_finding(tree: str) -> None:
    """But one, of settings: it names two of their many sentences."""
    (settings,) = set(entries(tree)) - wanted(sentences(), TREES[tree])
    for sentence in ("{path}: there is no setting {name}", "{path}: the setting {name} is missing"):
        assert spoken(sentence, TREES[tree]).removeprefix("…: ") in settings


def test_a_finding_without_an_entry_is_seen() -> None:
    new = Sentence("app.doctor.machine.check_new", "the machine has {count} new faults")
    assert wanted([*sentences(), new], "en") - set(entries("en")) == {"the machine has … new faults"}


def test_the_sentences_of_both_ways_of_a_finding_are_found() -> None:
    """The one before `if` and the one in `else`, but none that was assigned for another finding."""
    found = [each.text for each in sentences() if each.where == "app.doctor.reach.judge_answer"]
    assert [text.split("{address} ")[1].split(":")[0] for text in found] == [
        "leads to another directory's service",
        "leads here",
    ]
    assert not any("answers within" in each.text for each in sentences())
