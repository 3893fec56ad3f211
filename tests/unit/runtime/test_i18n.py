"""Sentences in the reader's language: which language that is, which form a number has, what is put into a sentence."""

from __future__ import annotations

import pytest

from ibi.errors import IbiError, ParseError, PeerSilent, SetupError
from ibi.runtime.i18n import (
    LANGUAGES,
    chosen_language,
    our_language,
    preferred_language,
    printable,
    reader_language,
    say,
    say_count,
    say_wait,
)

TERMINAL = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a terminal that names no language yet."""
    for name in TERMINAL:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_english_is_the_first_language() -> None:
    assert LANGUAGES == ("en", "pt-BR")


@pytest.mark.parametrize(
    ("text", "language"),
    [("pt_BR.UTF-8", "pt-BR"), ("pt", "pt-BR"), ("pt-PT", "pt-BR"), ("PT_BR", "pt-BR"), ("en_US", "en"), ("fr", "en"),
     (None, "en"), ("", "en"), ("ptarmigan", "en"), ("xx-pt", "en")],
)  # fmt: skip
def test_any_portuguese_is_ours_and_everything_else_is_english(text: str | None, language: str) -> None:
    assert our_language(text) == language


@pytest.mark.parametrize(
    ("query", "language"),
    [("lang=pt-BR", "pt-BR"), ("lang=pt", "pt-BR"), ("lang=PT-br", "pt-BR"), ("lang=en", "en"),
     ("a=b&lang=pt&c", "pt-BR"), ("lang=pt&lang=en", "pt-BR"), ("", ""), ("lang=", ""), ("lang=fr", ""),
     ("lang=pt-PT", ""), ("lang=pt-BRA", ""), ("lang=por", ""), ("olang=pt", ""), ("lang=pt;a", ""), ("a=lang=pt", "")],
)  # fmt: skip
def test_a_query_chooses_a_language_of_ours_or_none(query: str, language: str) -> None:
    assert chosen_language(query) == language


@pytest.mark.parametrize(
    ("header", "language"), [("pt-BR,en;q=0.5", "pt-BR"), ("en-GB,pt;q=0.9", "en"), ("fr", "en"), ("", "en")]
)
def test_a_browser_prefers_a_language_of_ours_or_gets_english(header: str, language: str) -> None:
    assert preferred_language(header) == language


def test_the_language_of_the_terminal_is_that_of_sentences_without_another(
    terminal: pytest.MonkeyPatch,
) -> None:
    forms = "{count} difference", "{count} differences"
    for locale, language, one, wait in (
        ("en_US.UTF-8", "en", "1 difference", "Please try again in 1 second."),
        ("pt_BR.UTF-8", "pt-BR", "1 diferença", "Tente de novo em 1 segundo."),
    ):
        terminal.setenv("LANG", locale)
        assert reader_language() == language
        assert say_count(1, *forms) == one
        assert say_wait(1) == wait
        assert say(IbiError("Connection refused")) == say(IbiError("Connection refused"), language)
        assert say("Connection refused", "pt-BR") == "conexão recusada"
    assert say_count(1, *forms, "en") == "1 difference"
    assert say("Connection refused", "en") == "Connection refused" != say("Connection refused")


def test_what_controls_a_terminal_is_shown_as_a_question_mark() -> None:
    assert printable("a\x1b[31m\x9b\u202e\nb\ud7ff\ud800\udfff\ue000") == "a?[31m??\nb?\ud800\udfff?"


def test_a_sentence_is_filled_after_it_was_translated() -> None:
    sentence = "cannot listen on {bind}: {why}"
    assert say(sentence, "en", bind="[::1]:80", why="no") == "cannot listen on [::1]:80: no"
    assert say(sentence, "pt-BR", bind="x", why="y") == "não é possível escutar em x: y"
    assert say("the {part} is a {thing}", "pt-BR", part="moon", thing="stone") == "the moon is a stone"
    assert say("{path} cannot be read: {reason}", "en", path="{x}", reason="{}") == "{x} cannot be read: {}"
    assert say("use {} for none", "en") == "use {} for none"
    assert say("", "pt-BR") == "", "the catalogue has its own head under it"


def test_an_error_brings_its_details_and_says_its_cause_in_the_same_language() -> None:
    cause = PeerSilent("the name {host} has no address", host="archive.example")
    error = ParseError("address", "x", "{where}: {reason}", where="archive.toml", reason=cause)
    assert say(error, "pt-BR") == "archive.toml: o nome archive.example não tem endereço"
    assert say(error, "en") == "archive.toml: the name archive.example has no address"
    assert say(error, "en", where="here") == "here: the name archive.example has no address"


def test_a_fraction_has_a_comma_in_portuguese() -> None:
    problem = SetupError("{name} is a number from {least} to {most}", name="x", least=0.05, most=30)
    assert say(problem, "en") == "x is a number from 0.05 to 30"
    assert say(problem, "pt-BR") == "x é um número de 0,05 a 30"
    late = IbiError("no whole answer within {seconds:g} s", seconds=2.5)
    assert say(late, "pt-BR") == "nenhuma resposta completa em 2,5 s"


def test_a_number_chooses_the_form_of_its_sentence() -> None:
    forms = "{count} difference", "{count} differences"
    assert [say_count(count, *forms, "en") for count in (0, 1, 2)] == [
        "0 differences", "1 difference", "2 differences",
    ]  # fmt: skip
    assert [say_count(count, *forms, "pt-BR") for count in (0, 1, 2)] == [
        "0 diferença", "1 diferença", "2 diferenças",
    ]  # fmt: skip
    assert say_count(1234, *forms, "en", count="1,234") == "1,234 differences"


@pytest.mark.parametrize(
    ("seconds", "english", "portuguese"),
    [
        (1, "in 1 second.", "em 1 segundo."),
        (90, "in 90 seconds.", "em 90 segundos."),
        (91, "in 2 minutes.", "em 2 minutos."),
        (120, "in 2 minutes.", "em 2 minutos."),
        (121, "in 3 minutes.", "em 3 minutos."),
        (5_400, "in 90 minutes.", "em 90 minutos."),
        (5_401, "in 2 hours.", "em 2 horas."),
        (7_200, "in 2 hours.", "em 2 horas."),
        (7_201, "in 3 hours.", "em 3 horas."),
    ],
)
def test_when_to_try_again_is_said_in_the_unit_that_people_use(
    seconds: int, english: str, portuguese: str
) -> None:
    assert say_wait(seconds, "en") == f"Please try again {english}"
    assert say_wait(seconds, "pt-BR") == f"Tente de novo {portuguese}"
