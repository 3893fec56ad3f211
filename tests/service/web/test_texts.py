"""Nothing that a person reads is left untranslated, and the catalogue that is installed is the one that is written."""

from __future__ import annotations

import gettext
import string
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po

from ibi.errors import ParseError, PeerSilent
from ibi.runtime import i18n
from ibi.runtime.i18n import our_language, reader_language, say
from support.web import sentences

CATALOGUE = Path(i18n.__file__).parent / "locale" / "pt_BR" / "LC_MESSAGES"


@pytest.fixture(scope="module")
def portuguese() -> Catalog:
    with (CATALOGUE / "ibi.po").open("rb") as file:
        return read_po(file, locale="pt_BR")


def _places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


def test_every_sentence_for_people_has_a_translation(portuguese: Catalog) -> None:
    translated = {str(message.id) for message in portuguese if message.id and message.string}
    missing = [
        f"{place}: {sentence}"
        for sentence, place in sentences.of_source().items()
        if sentence not in translated
    ]
    assert missing == [], "\n".join(missing)


def test_no_translation_is_kept_of_a_sentence_that_is_not_used(portuguese: Catalog) -> None:
    used = sentences.of_source()
    assert [message.id for message in portuguese if message.id and message.id not in used] == []


def test_a_translation_has_the_same_places_as_its_sentence(portuguese: Catalog) -> None:
    wrong = [m.id for m in portuguese if m.id and _places(str(m.id)) != _places(str(m.string))]
    assert wrong == []


def test_a_translation_begins_and_ends_like_its_sentence(portuguese: Catalog) -> None:
    """Capital letter and full stop tell whether a sentence stands alone or inside another one."""
    wrong = [
        m.id
        for m in portuguese
        if m.id
        and (
            str(m.id).endswith(".") != str(m.string).endswith(".")
            or (str(m.id)[0].islower() and str(m.string)[:2].istitle())
        )
    ]
    assert wrong == []


def test_errors_are_made_of_sentences_that_can_be_found() -> None:
    """Where a sentence is only passed on, the module that made it is searched instead."""
    assert {place.partition(":")[0] for place in sentences.unresolved()} <= sentences.PASSED_ON


def test_the_installed_catalogue_is_made_from_the_written_one(portuguese: Catalog) -> None:
    """After a change: python -m babel.messages.frontend compile -D ibi -d src/ibi/runtime/locale"""
    written = {str(message.id): str(message.string) for message in portuguese if message.id}
    with (CATALOGUE / "ibi.mo").open("rb") as file:
        installed = gettext.GNUTranslations(file)
        assert {sentence: installed.gettext(sentence) for sentence in written} == written
        file.seek(0)
        assert len(read_mo(file)) == len(written)


@pytest.mark.parametrize(
    ("text", "language"),
    [("pt_BR.UTF-8", "pt-BR"), ("pt", "pt-BR"), ("pt-PT", "pt-BR"), ("PT_BR", "pt-BR"), ("en_US", "en"), ("fr", "en"),
     (None, "en"), ("", "en"), ("ptarmigan", "en")],
)  # fmt: skip
def test_any_portuguese_is_ours_and_everything_else_is_english(text: str | None, language: str) -> None:
    assert our_language(text) == language


def test_a_sentence_is_said_in_both_languages_with_its_places_filled() -> None:
    assert (
        say("cannot listen on {bind}: {why}", "en", bind="[::1]:80", why="no")
        == "cannot listen on [::1]:80: no"
    )
    assert (
        say("cannot listen on {bind}: {why}", "pt-BR", bind="x", why="y") == "não é possível escutar em x: y"
    )


def test_an_error_brings_its_own_details_and_says_its_cause_in_the_same_language() -> None:
    cause = PeerSilent("the name {host} has no address", host="archive.example")
    error = ParseError("address", "x", "{where}: {reason}", where="archive.toml", reason=cause)
    assert say(error, "pt-BR") == "archive.toml: o nome archive.example não tem endereço"
    assert say(error, "en") == "archive.toml: the name archive.example has no address"


def test_a_sentence_without_a_translation_stays_english() -> None:
    assert say("the {part} is a {thing}", "pt-BR", part="moon", thing="stone") == "the moon is a stone"


def test_braces_in_quoted_words_are_not_changed() -> None:
    assert say("{path} cannot be read: {reason}", "en", path="{x}", reason="{}") == "{x} cannot be read: {}"
    assert say("use {} for none", "en") == "use {} for none"


def test_the_language_of_the_terminal_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    assert reader_language() == "en"
    monkeypatch.setenv("LANG", "pt_BR.UTF-8")
    assert reader_language() == "pt-BR"
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert reader_language() == "en"
