"""How a page becomes bytes: templates, the one style sheet, languages, and the headers that keep it quiet.

A page holds no script and fetches nothing: its style sheet stands inside it and the policy names that sheet's hash.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ibi.protocol.language import LanguagePreference
from ibi.texts import LANGUAGES, say
from ibi.web import wording

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HERE = Path(__file__).parent
_WORDS: dict[str, Callable[..., str]] = {
    "moment": wording.moment,
    "size": wording.size,
    "number": wording.number,
    "language_name": wording.language_name,
    "relation_name": wording.relation_name,
}


@cache
def style_sheet() -> str:
    """The one style sheet of all pages."""
    return (_HERE / "static" / "style.css").read_text(encoding="utf-8")


@cache
def _policy() -> str:
    """The content security policy: our own style sheet and nothing else.

    Forms go to the resolver, which sends their sender on to an Archive; browsers hold `form-action` against that too.
    """
    digest = b64encode(hashlib.sha256(style_sheet().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self' http: https:; "
        "base-uri 'none'; frame-ancestors 'none'"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"href": web_link, "capital": capital}
    environment.globals["sheet"] = Markup(style_sheet())  # noqa: S704 - our own file, no text of others
    return environment


def html(template: str, language: str, **values: object) -> bytes:
    """A page in one of our languages.

    In a template, `_` says a sentence in it; `moment`, `size`, `number`, `language_name` and `relation_name` word
    values for its reader.
    """
    words = {name: partial(word, language=language) for name, word in _WORDS.items()}
    text = (
        _environment()
        .get_template(template)
        .render(language=language, _=partial(_say, language), **words, **values)
    )
    return text.encode("utf-8", "replace")


def _say(language: str, sentence: str, **details: object) -> str:
    return say(sentence, language, **details)


def sayer(language: str) -> Callable[[str, Mapping[str, object]], str]:
    """How a sentence of ours is said in a language, the values of its places given as one mapping."""

    def said(sentence: str, details: Mapping[str, object]) -> str:
        return say(sentence, language, **details)

    return said


def page_language(accept_language: str) -> str:
    """The one of our languages that a reader prefers, by the header Accept-Language; English if none of them."""
    return LanguagePreference.parse(accept_language).choose(LANGUAGES) or LANGUAGES[0]


def capital(sentence: str) -> str:
    """A sentence on its own line begins with a capital letter; elsewhere ours do not."""
    return sentence[:1].upper() + sentence[1:]


def web_link(url: str) -> str:
    """A URL of others as the target of a link: itself if it is of the Web, else nothing (no `javascript:`)."""
    return url if url.lower().startswith(("http://", "https://")) else ""


def page_headers(language: str) -> tuple[tuple[str, str], ...]:
    """The headers that belong to every page of ours besides its type."""
    return (
        ("content-security-policy", _policy()),
        ("content-language", language),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("vary", "Accept, Accept-Language"),
    )
