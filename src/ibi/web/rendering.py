"""Render pages: templates, languages, values in the reader's words, and security headers.

A page works without any script, and fetches only the style sheet, logo and pictures of its own service.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime, format_skeleton
from babel.numbers import format_decimal, format_percent
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.ext import Extension
from markupsafe import Markup, escape

from ibi.errors import IbiError, ParseError
from ibi.http.response import common
from ibi.protocol.relation import Relation, StepKind
from ibi.runtime.i18n import LANGUAGES, say, say_count, say_wait
from ibi.web.assets import assets

try:
    from markupsafe._speedups import _escape_inner
except ImportError:  # before markupsafe 3, or without its part in C

    def _escape_inner(s: str, /) -> str:
        quoted = s.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;")
        return quoted.replace("'", "&#39;").replace('"', "&#34;")


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping
    from types import CodeType

    from ibi.web.branding import Branding, BrandingTexts


escape_text: Final = _escape_inner
"""Escapes a text for HTML: a page has more than a hundred, and replacements in Python take eight times as long."""

_THOUSAND: Final = 1000
_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}", re.ASCII)
_SMALL_SHARE, _LEAST_SHARE = 0.01, 0.001
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def moment(text: str, language: str) -> str:
    """Write "2009-07-21T13:23:45Z" in the style of a language; a text that is no moment stays as it is."""
    try:
        # In UTC, because a page is cached for all readers, and their time zones are not known.
        when = datetime.fromisoformat(text).astimezone(UTC)
        return format_datetime(when, "long", tzinfo=UTC, locale=_locale(language))
    except (ValueError, OverflowError):
        return text


def day(text: str, language: str) -> str:
    """Write the day of a moment, or "2009-07-21" or "2009-07", in the style of a language; other texts stay."""
    try:
        if _MONTH.fullmatch(text):
            return format_skeleton("yMMMM", date.fromisoformat(f"{text}-01"), locale=_locale(language))
        return format_date(date.fromisoformat(text[:10]), "long", locale=_locale(language))
    except ValueError:
        return text


def dates_in(error: IbiError, language: str) -> dict[str, str]:
    """Return the date among the details of an error, as `say` takes it, in the style of a language."""
    found = error.details.get("date")
    return {"date": day(found, language)} if isinstance(found, str) else {}


def short_day(text: str, language: str) -> str:
    """Write the day of a moment for a table: "21 Jul 2009"; other texts stay unchanged."""
    try:
        return format_date(date.fromisoformat(text[:10]), "medium", locale=_locale(language))
    except ValueError:
        return text


def month(text: str, language: str) -> str:
    """Write "2026-11" as "Nov 2026"; any other text stays as it is."""
    try:
        return format_skeleton("yMMM", date.fromisoformat(f"{text}-01"), locale=_locale(language))
    except ValueError:
        return text


def size(count: int, language: str) -> str:
    """Write a number of bytes: "1.2 kB"."""
    number, unit = float(count), 0
    while number >= _THOUSAND and unit < len(_UNITS) - 1:
        number, unit = number / _THOUSAND, unit + 1
    shape = "#,##0" if unit == 0 else "#,##0.0"
    return f"{format_decimal(number, shape, locale=_locale(language))} {_UNITS[unit]}"


def number(count: int, language: str) -> str:
    """Write a whole number with its separators."""
    return format_decimal(count, locale=_locale(language))


def percent(share: float, language: str) -> str:
    """Write a share as "12 %" in the style of a language; what is not nothing is never "0 %"."""
    shape = "0.0" if 0 < share < _SMALL_SHARE else "0"
    return format_percent(max(share, _LEAST_SHARE) if share else 0, f"{shape}%", locale=_locale(language))


def language_name(tag: str, language: str) -> str:
    """Return the name of a language ("pt-BR": "Portuguese (Brazil)"); an unknown tag stays as it is."""
    try:
        name = Locale.parse(tag, sep="-").get_display_name(_locale(language))
    except (UnknownLocaleError, ValueError):
        name = None
    return name or tag


@lru_cache(maxsize=1024)
def own_name(tag: str) -> str:
    """Return the name of a language in itself: "pt-BR" is "português (Brasil)"; an unknown tag stays as it is."""
    return language_name(tag, tag)


def relation_name(qualifier: str, language: str) -> str:
    """Return ".lastedition.metadata(oai_dc)" in words: "last edition, metadata (oai_dc)"."""
    try:
        relation = Relation.from_qualifier(qualifier)
    except ParseError:
        return qualifier
    return ", ".join(_step_name(step.kind, step.parameter, language) for step in relation.steps)


def web_link(url: str) -> str:
    """Return a URL from outside if it may be the target of a link, else "": no `javascript:` (T13)."""
    return url if url.lower().startswith(("http://", "https://")) else ""


def _step_name(kind: StepKind, parameter: str | None, language: str) -> str:
    match kind:
        case StepKind.LAST_EDITION:
            return say("last edition", language)
        case StepKind.TRANSLATION:
            name = say("translation", language)
            return f"{name}: {language_name(parameter, language)}" if parameter else name
        case StepKind.METADATA:
            name = say("metadata", language)
            return f"{name} ({parameter})" if parameter else name
        case _:
            assert_never(kind)  # mypy reports a kind that has no case here


def _locale(language: str) -> Locale:
    return Locale.parse(language, sep="-")


_HERE = Path(__file__).parent
_MOST_KNOWN: Final = 4096  # translated sentences of each language that are cached
_PIECE: Final = re.compile(r"""\{% include "(_[a-z_]+\.html)" %\}""")
_SENTENCE: Final = re.compile(r"""\{\{ _\("([^"\\{}]*)"\) \}\}""")
_WORDS: dict[str, Callable[..., str]] = {
    "moment": moment,
    "day": day,
    "short_day": short_day,
    "month": month,
    "size": size,
    "number": number,
    "percent": percent,
    "language_name": language_name,
    "relation_name": relation_name,
    "wait": say_wait,
}


class _Preprocessor(Extension):
    """Inserts includes and translated sentences without placeholders into a template when it is loaded."""

    # Otherwise each of them would cost a call on every page, although the result is always the same.

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:  # noqa: ARG002 - Jinja's
        """Return the source with its includes, and with plain sentences in the environment's language."""
        while _PIECE.search(source):
            source = _PIECE.sub(lambda found: _piece(found[1]), source)
        return _SENTENCE.sub(self._translated, source)

    def _translated(self, found: re.Match[str]) -> str:
        # A sentence with placeholders is left to each page, which has the values.
        sentence = str(escape(say(found[1], str(self.environment.globals["language"]))))
        return found[0] if "{" in sentence else sentence


class _PlainTextTemplate(Template):
    """A template whose values are escaped by `_escaped` instead of markupsafe, which is slower for plain texts."""

    @classmethod
    def from_code(
        cls,
        environment: Environment,
        code: CodeType,
        globals: MutableMapping[str, Any],  # noqa: A002 - Jinja's name
        uptodate: Callable[[], bool] | None = None,
    ) -> Template:
        """Make the template of this code, and replace its escaping."""
        template = super().from_code(environment, code, globals, uptodate)
        template.root_render_func.__globals__["escape"] = _escaped
        return template


def _escaped(value: Any) -> str:
    """Escape a value for HTML like markupsafe, without making a Markup of each text."""
    if type(value) is str:
        return escape_text(value)
    if type(value) is int:
        return str(value)
    return value if type(value) is Markup else escape(value)


def _piece(name: str) -> str:
    return (_HERE / "templates" / name).read_text(encoding="utf-8").rstrip("\n")


@cache
def _environment(language: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        # An unknown name is a fault of ours: it must fail in a test, not leave a gap on a page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Templates do not change while a service runs, and a check would cost a system call for each page.
        auto_reload=False,
    )
    environment.template_class = _PlainTextTemplate
    environment.globals |= _words(language)
    environment.add_extension(_Preprocessor)
    environment.globals |= {
        "asset": lambda name: assets()[name].address,
        "integrity": lambda name: assets()[name].integrity,
        "href": web_link,
        "capital": capital,
        "own_name": own_name,
        "languages": LANGUAGES,
    }

    # What is around every page of a service changes only with its settings: it is written once for the same values.
    @lru_cache(_MOST_KNOWN)
    def shared(name: str, site: BrandingTexts, lang: str, here: str = "") -> Markup:
        part = environment.get_template(name).render(site=site, lang=lang, here=here)
        return Markup(part)  # noqa: S704 - a template's

    environment.globals["shared"] = shared
    links = environment.from_string(_piece("_languages.html")).render()
    environment.globals["language_links"] = Markup(links)  # noqa: S704 - a template's
    return environment


def html(template: str, language: str, branding: Branding, **values: object) -> bytes:
    """Write a page in one of our languages, with the branding of an institution around it.

    In a template, `_` translates a sentence, `_n` one of two by a number; `moment`, `day`, `short_day`, `month`,
    `size`, `number`, `percent`, `language_name`, `relation_name`, `wait` format values for the reader;
    `asset` returns an asset's path.
    """
    text = _environment(language).get_template(template).render(values, site=branding.texts(language))
    # UTF-8 cannot encode a lone surrogate in old metadata: it becomes a question mark.
    return text.encode("utf-8", "replace")


@cache
def _words(language: str) -> dict[str, Any]:
    """Return the functions that format values in a language; each caches its results."""
    plain = lru_cache(_MOST_KNOWN)(partial(say, language=language))

    def translated(sentence: str, **details: object) -> str:
        return (
            plain(sentence) if not details and type(sentence) is str else say(sentence, language, **details)
        )

    def counted(count: int, one: str, many: str, /, **details: object) -> str:
        return say_count(count, one, many, language, **details)

    words = {name: lru_cache(_MOST_KNOWN)(partial(word, language=language)) for name, word in _WORDS.items()}
    return {"language": language, "_": translated, "_n": counted, **words}


def sayer(language: str) -> Callable[[str, Mapping[str, object]], str]:
    """Return the function that translates a sentence; it gets the values of placeholders as a mapping."""
    return lambda sentence, details: say(sentence, language, **details)


def capital(sentence: str) -> str:
    """Begin a sentence with a capital letter, because our error sentences do not."""
    return sentence[:1].upper() + sentence[1:]


@cache
def page_headers(language: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of every page besides its content type."""
    # Only our own style sheet, pictures and scripts are allowed (T14: injected text). Scripts are allowed by digest
    # and not by 'self', because uploaded files are served from here, too, and must not run on a page.
    scripts = " ".join(f"'{each.integrity}'" for name, each in assets().items() if name.endswith(".js"))
    # Forms go to the resolver, which redirects to an Archive; browsers apply `form-action` to that redirect too.
    policy = (
        f"default-src 'none'; style-src 'self'; font-src 'self'; script-src {scripts}; img-src 'self' data:; "
        "form-action 'self' http: https:; base-uri 'none'; frame-ancestors 'none'"
    )
    return common(
        ("content-security-policy", policy),
        ("content-language", language),
        ("vary", "Accept, Accept-Language"),
    )
