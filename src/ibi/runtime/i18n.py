"""Sentences for people, in the reader's language: English, or one with a catalogue (Brazilian Portuguese).

Every sentence is written in English where it is raised or shown; that English sentence is also its key in the
gettext catalogue. A sentence may have placeholders, ``"the {part} is empty"``, filled after translation.
An error has one form only, so a number stands at the end of its sentence ("files were left in staging: {count}").
Where singular and plural differ, `say_count` has both, and templates have `_n`.
"""

import gettext
import re
from functools import cache, lru_cache
from math import ceil
from pathlib import Path
from typing import Final

from ibi.errors import IbiError
from ibi.protocol.language import LanguagePreference

_CATALOGUES = Path(__file__).parent / "locale"
LANGUAGES = ("en", *sorted(each.name.replace("_", "-") for each in _CATALOGUES.iterdir() if each.is_dir()))
"""The languages of all sentences, as RFC 5646 tags; the first one needs no catalogue."""
_CHOICE: Final = re.compile(r"(?:^|&)lang=([A-Za-z]{2}(?:-[A-Za-z]{2})?)(?:&|$)")
_OURS: Final = {
    name: tag for tag in LANGUAGES for name in (tag.lower(), tag.partition("-")[0].lower())
}  # "pt", too
_LONGEST_SHOWN: Final = 90
"""Seconds up to which a wait is said in seconds, and minutes up to which it is said in minutes."""


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    """Return the catalogue of a language; an empty one (English) if it has none."""
    names = [language.replace("-", "_")]
    return gettext.translation("ibi", _CATALOGUES, languages=names, fallback=True)


def our_language(text: str | None) -> str:
    """Return the one of LANGUAGES for a tag or a locale name ("pt", "pt_BR.UTF-8", "pt-PT"); else English."""
    tag = (text or "").partition(".")[0].replace("_", "-").lower()
    same = [each for each in LANGUAGES if each.lower() == tag]
    near = [each for each in LANGUAGES if each.lower().partition("-")[0] == tag.partition("-")[0]]
    return (same or near or LANGUAGES)[0]


def chosen_language(query: str) -> str:
    """Return the one of LANGUAGES that a query chooses ("lang=pt-BR"), "" if it chooses none."""
    found = _CHOICE.search(query) if query else None
    return _OURS.get(found[1].lower(), "") if found else ""


@lru_cache(4096)
def preferred_language(accept_language: str) -> str:
    """Return the member of LANGUAGES that an Accept-Language header prefers; English if there is none."""
    return LanguagePreference.parse(accept_language).choose(LANGUAGES) or LANGUAGES[0]


def reader_language() -> str:
    """Return the one of LANGUAGES that the environment names for the person at the terminal."""
    from ibi.runtime.environment import environment_language

    return our_language(environment_language())


def printable(text: str) -> str:
    """Return a text in which characters that control a terminal (colours, cursor, title) are "?"."""
    # Half a character (a lone surrogate) stays: it is escaped when it is written.
    return "".join(
        char if char.isprintable() or char == "\n" or "\ud800" <= char <= "\udfff" else "?" for char in text
    )


def say(message: IbiError | str, language: str | None = None, **details: object) -> str:
    """Translate one sentence into the reader's language and fill its placeholders.

    ``message`` is an error, which brings its own details, or an English sentence, whose placeholders are
    filled from ``details``. A detail that is an error itself is translated, too. ``language`` is any tag;
    ``None`` means the language of the terminal. A sentence without translation stays English.
    """
    chosen = our_language(language) if language is not None else reader_language()
    if isinstance(message, IbiError):
        details = {**message.details, **details}
        message = message.problem
    if not message:
        return ""
    filled = {name: _localized(value, chosen) for name, value in details.items()}
    sentence = _catalogue(chosen).gettext(message)
    return sentence.format(**filled) if filled else sentence


class _WithComma(float):
    """A number that is written as in Portuguese: "0,05"."""

    def __format__(self, shape: str) -> str:
        return super().__format__(shape).replace(".", ",")


def _localized(value: object, language: str) -> object:
    """Return a detail of a sentence as its language writes it."""
    if isinstance(value, IbiError):
        return say(value, language)
    # Babel would do the same, and is not imported here: each command would start later by 0.1 s.
    return _WithComma(value) if isinstance(value, float) and language != LANGUAGES[0] else value


def say_count(count: int, one: str, many: str, language: str | None = None, /, **details: object) -> str:
    """Translate one of two sentences by a number, which fills `{count}`; a language may have more forms."""
    chosen = our_language(language) if language is not None else reader_language()
    return _catalogue(chosen).ngettext(one, many, count).format(**{"count": count, **details})


def say_wait(seconds: int, language: str | None = None) -> str:
    """Say when to try again: in seconds, minutes from 91 seconds on, or hours from 91 minutes on, rounded up."""
    if seconds <= _LONGEST_SHOWN:
        return say_count(
            seconds, "Please try again in {count} second.", "Please try again in {count} seconds.", language
        )
    minutes = ceil(seconds / 60)
    if minutes <= _LONGEST_SHOWN:
        return say_count(
            minutes, "Please try again in {count} minute.", "Please try again in {count} minutes.", language
        )
    hours = ceil(minutes / 60)
    return say_count(
        hours, "Please try again in {count} hour.", "Please try again in {count} hours.", language
    )
