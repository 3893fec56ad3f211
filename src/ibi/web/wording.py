"""Dates, sizes, languages and relations in the reader's words."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime, format_skeleton
from babel.numbers import format_decimal

from ibi.errors import ParseError
from ibi.protocol.relation import Kind, Relation
from ibi.texts import say

_THOUSAND: Final = 1000
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def moment(text: str, language: str) -> str:
    """Write "2009-07-21T13:23:45Z" as a person does; a text that is no such moment stays as it is."""
    try:
        when = datetime.fromisoformat(text).astimezone(UTC)
        return format_datetime(when, "long", tzinfo=UTC, locale=_locale(language))
    except (ValueError, OverflowError):
        return text


def day(text: str, language: str) -> str:
    """The day of a moment, or a day "2009-07-21", as a person writes it; any other text stays as it is."""
    try:
        return format_date(date.fromisoformat(text[:10]), "long", locale=_locale(language))
    except ValueError:
        return text


def month(text: str, language: str) -> str:
    """Write "2026-11" as "Nov 2026"; any other text stays as it is."""
    try:
        return format_skeleton("yMMM", date.fromisoformat(f"{text}-01"), locale=_locale(language))
    except ValueError:
        return text


def size(count: int, language: str) -> str:
    """A number of bytes: "1.2 kB"."""
    number, unit = float(count), 0
    while number >= _THOUSAND and unit < len(_UNITS) - 1:
        number, unit = number / _THOUSAND, unit + 1
    shape = "#,##0" if unit == 0 else "#,##0.0"
    return f"{format_decimal(number, shape, locale=_locale(language))} {_UNITS[unit]}"


def number(count: int, language: str) -> str:
    """A whole number with its separators."""
    return format_decimal(count, locale=_locale(language))


def language_name(tag: str, language: str) -> str:
    """Call "pt-BR" "Portuguese (Brazil)"; an unknown tag stays as it is."""
    try:
        name = Locale.parse(tag, sep="-").get_display_name(_locale(language))
    except (UnknownLocaleError, ValueError):
        name = None
    return name or tag


@lru_cache(maxsize=1024)
def own_name(tag: str) -> str:
    """What a language calls itself: "pt-BR" is "português (Brasil)"; an unknown tag stays as it is."""
    try:
        return Locale.parse(tag, sep="-").get_display_name() or tag
    except (UnknownLocaleError, ValueError):
        return tag


def relation_name(qualifier: str, language: str) -> str:
    """Call ".lastedition.metadata(oai_dc)" "last edition, metadata (oai_dc)"."""
    try:
        relation = Relation.from_qualifier(qualifier)
    except ParseError:
        return qualifier
    return ", ".join(_step_name(step.kind, step.parameter, language) for step in relation.steps)


def web_link(url: str) -> str:
    """A URL of others as the target of a link: itself if it is of the Web, else nothing (no `javascript:`)."""
    return url if url.lower().startswith(("http://", "https://")) else ""


def _step_name(kind: Kind, parameter: str | None, language: str) -> str:
    if kind is Kind.LAST_EDITION:
        return say("last edition", language)
    if kind is Kind.TRANSLATION:
        name = say("translation", language)
        return f"{name}: {language_name(parameter, language)}" if parameter else name
    name = say("metadata", language)
    return f"{name} ({parameter})" if parameter else name


def _locale(language: str) -> Locale:
    return Locale.parse(language, sep="-")
