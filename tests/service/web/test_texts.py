"""Nothing that a person reads is left untranslated, and the catalogue that is installed is the one that is written."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po

import sentences
from support.style.places import unfilled

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=sentences.catalogues(), ids=lambda each: each[1].locale_identifier)
def written(request: pytest.FixtureRequest) -> tuple[Path, Catalog]:
    """Each catalogue and its file."""
    found: tuple[Path, Catalog] = request.param
    return found


def _forms(message: Message) -> list[tuple[str, str]]:
    """Each form of a translation beside the English sentence that it stands for: the last one for many."""
    if isinstance(message.id, str):
        return [(message.id, str(message.string))]
    (one, many), (first, *others) = message.id, list(message.string or ())
    return [(one, first), *((many, other) for other in others)]


@pytest.fixture
def forms(written: tuple[Path, Catalog]) -> list[tuple[str, str]]:
    return [pair for message in written[1] if message.id for pair in _forms(message)]


def _places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


def test_a_catalogue_has_the_sentences_of_the_source_and_no_others(written: tuple[Path, Catalog]) -> None:
    """After a change: make messages."""
    assert {str(each.id) for each in written[1]} == {str(each.id) for each in sentences.template()}


def test_every_sentence_for_people_has_a_translation_in_each_form(forms: list[tuple[str, str]]) -> None:
    assert [sentence for sentence, translation in forms if not translation] == []


def test_a_translation_has_the_same_places_as_its_sentence(forms: list[tuple[str, str]]) -> None:
    assert [sentence for sentence, other in forms if _places(sentence) != _places(other)] == []


def test_a_translation_begins_and_ends_like_its_sentence(forms: list[tuple[str, str]]) -> None:
    """Capital letter and full stop tell whether a sentence stands alone or inside another one."""
    wrong = [
        sentence
        for sentence, other in forms
        if sentence.endswith(".") != other.endswith(".") or (sentence[0].islower() and other[:2].istitle())
    ]
    assert wrong == []


def test_errors_are_made_of_sentences_that_can_be_found() -> None:
    """Where a sentence is only passed on, the module that made it is searched instead."""
    assert {place.partition(":")[0] for place in sentences.unresolved()} == sentences.PASSED_ON


def test_every_place_of_a_sentence_is_filled_where_it_is_made() -> None:
    empty = [
        f"{path.relative_to(sentences.SOURCE)}:{line}: {sentence}"
        for path in sorted(sentences.SOURCE.rglob("*.py"))
        for line, sentence in unfilled(path.read_text(encoding="utf-8"))
    ]
    assert empty == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('raise SetupError("{path} is missing", path=path)', 0),
        ('raise SetupError("{path} is missing")', 1),
        ('raise SetupError("{path} is missing", file=path)', 1),
        ('raise SetupError("{path} is missing", **details)', 0),
        ('raise ParseError("label", text, "at most {most}", most=9)', 0),
        ('raise ParseError("label", text, "at most {most}", 0, 9)', 1),
        ('problem = "no {name}"; x = 1\n    raise errors.NotHeld(problem, name=x)', 0),
        ('problem = "no {name}"\n    raise NotHeld(problem)', 1),
        ('problem = "no {name}"\n    problem = "none"\n    raise NotHeld(problem)', 0),
        ('raise NotHeld("no {name}" if here else "none here")', 1),
        ('with setup_errors("{path}: {reason}", under=path): pass', 0),
        ('with setup_errors("{path}: {reason}"): pass', 1),
        ('say_count(n, "{count} item of {all}", "{count} items of {all}", language, all=9)', 0),
        ('say_count(n, "{count} item of {all}", "{count} items of {all}", language)', 2),
        ('say("Round {number}", {"number": 1})', 0),
        ('say("Round {number}", {"wanted": 1})', 1),
        ('say("Round {number}", values)', 0),
    ],
)
def test_a_place_that_stays_empty_is_found(code: str, found: int) -> None:
    assert len(list(unfilled(f"def act():\n    {code}\n"))) == found


def test_the_installed_catalogue_is_made_from_the_written_one(written: tuple[Path, Catalog]) -> None:
    path, catalogue = written
    with path.with_suffix(".mo").open("rb") as file:
        installed = dict(pair for message in read_mo(file) if message.id for pair in _forms(message))
    assert installed == dict(pair for message in catalogue if message.id for pair in _forms(message))


def test_a_sentence_of_which_a_form_is_missing_is_found(tmp_path: Path) -> None:
    """A new language starts with every sentence, and none of them translated."""
    path = tmp_path / "es" / "LC_MESSAGES" / "ibi.po"
    sentences.write(path, Catalog(locale="es"))
    with path.open("rb") as file:
        started = read_po(file, locale="es")
    missing = [pair for message in started if message.id for pair in _forms(message) if not pair[1]]
    assert len(missing) > len(started)
    before = path.read_bytes()
    sentences.write(path, started)
    assert path.read_bytes() == before
