"""How a page becomes bytes: templates, languages, and the headers that keep it quiet.

A page is whole without any script, and fetches nothing but its own service's style sheet, mark and pictures (`assets`).
The policy names the scripts of ours by their digests: what an Archive keeps for others runs on no page.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.ext import Extension
from markupsafe import Markup, escape

from ibi.protocol.language import LanguagePreference
from ibi.texts import LANGUAGES, say
from ibi.web import wording
from ibi.web.assets import address_of, assets, integrity_of
from ibi.web.wording import web_link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping
    from types import CodeType

_HERE = Path(__file__).parent
_MOST_KNOWN: Final = 4096
_PIECE: Final = re.compile(r"""\{% include "(_[a-z_]+\.html)" %\}""")
_SENTENCE: Final = re.compile(r"""\{\{ _\("([^"\\{}]*)"\) \}\}""")
_WORDS: dict[str, Callable[..., str]] = {
    "moment": wording.moment,
    "day": wording.day,
    "month": wording.month,
    "size": wording.size,
    "number": wording.number,
    "language_name": wording.language_name,
    "relation_name": wording.relation_name,
}


@cache
def _policy() -> str:
    """The content security policy: our own style sheet, pictures and scripts, and nothing else.

    Forms go to the resolver, which sends their sender on to an Archive; browsers hold `form-action` against that too.
    """
    scripts = " ".join(f"'{each.integrity}'" for name, each in assets().items() if name.endswith(".js"))
    return (
        f"default-src 'none'; style-src 'self'; script-src {scripts}; img-src 'self' data:; "
        "form-action 'self' http: https:; base-uri 'none'; frame-ancestors 'none'"
    )


class _Ready(Extension):
    """What is always the same in a template is put in when it is read, and not each time that it is filled.

    Its pieces, whose names begin with an underscore, as they stand there; and the sentences that have no places.
    """

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:  # noqa: ARG002 - Jinja's
        """The template with its pieces, and with its plain sentences in the language of its environment."""
        while _PIECE.search(source):
            source = _PIECE.sub(lambda found: _piece(found[1]), source)
        return _SENTENCE.sub(self._said, source)

    def _said(self, found: re.Match[str]) -> str:
        said = str(escape(say(found[1], str(self.environment.globals["language"]))))
        return found[0] if "{" in said else said


class _Filled(Template):
    """A template that is filled with plain texts: what it writes is joined at once, and needs no types of its own."""

    @classmethod
    def from_code(
        cls,
        environment: Environment,
        code: CodeType,
        globals: MutableMapping[str, Any],  # noqa: A002 - Jinja's name
        uptodate: Callable[[], bool] | None = None,
    ) -> Template:
        """The template of this code, which escapes as we do."""
        template = super().from_code(environment, code, globals, uptodate)
        template.root_render_func.__globals__["escape"] = _escaped
        return template


def _escaped(value: Any) -> str:
    """A value as HTML: as markupsafe writes it, and three times as fast for a text."""
    if type(value) is not str:
        return value if type(value) is Markup else escape(value)
    if value.isalnum():
        return value
    quoted = value.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;")
    return quoted.replace("'", "&#39;").replace('"', "&#34;")


def _piece(name: str) -> str:
    return (_HERE / "templates" / name).read_text(encoding="utf-8").rstrip("\n")


@cache
def _environment(language: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.template_class = _Filled
    environment.globals |= _words(language)
    environment.add_extension(_Ready)
    environment.globals |= {"href": web_link, "capital": capital, "languages": LANGUAGES}
    environment.globals |= {"asset": address_of, "integrity": integrity_of, "own_name": wording.own_name}
    links = environment.from_string(_piece("languages.html")).render()
    environment.globals["language_links"] = Markup(links)  # noqa: S704 - a template's
    return environment


def html(template: str, language: str, **values: object) -> bytes:
    """A page in one of our languages.

    In a template, `_` says a sentence in it; `moment`, `day`, `month`, `size`, `number`, `language_name` and
    `relation_name` word values for its reader; `asset` tells where a file of ours is.
    """
    text = _environment(language).get_template(template).render(values)
    return text.encode("utf-8", "replace")


@cache
def _words(language: str) -> dict[str, Any]:
    """What a template can say in a language. Each value is worded once, as long as there are not too many."""
    plain = lru_cache(_MOST_KNOWN)(partial(say, language=language))

    def said(sentence: str, **details: object) -> str:
        return (
            plain(sentence) if not details and type(sentence) is str else say(sentence, language, **details)
        )

    words = {name: lru_cache(_MOST_KNOWN)(partial(word, language=language)) for name, word in _WORDS.items()}
    return {"language": language, "_": said, **words}


def sayer(language: str) -> Callable[[str, Mapping[str, object]], str]:
    """How a sentence of ours is said in a language, the values of its places given as one mapping."""

    def said(sentence: str, details: Mapping[str, object]) -> str:
        return say(sentence, language, **details)

    return said


@lru_cache(_MOST_KNOWN)
def page_language(accept_language: str) -> str:
    """The one of our languages that a reader prefers, by the header Accept-Language; English if none of them."""
    return LanguagePreference.parse(accept_language).choose(LANGUAGES) or LANGUAGES[0]


def capital(sentence: str) -> str:
    """A sentence on its own line begins with a capital letter; elsewhere ours do not."""
    return sentence[:1].upper() + sentence[1:]


@cache
def page_headers(language: str) -> tuple[tuple[str, str], ...]:
    """The headers that belong to every page of ours besides its type."""
    return (
        ("content-security-policy", _policy()),
        ("content-language", language),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("vary", "Accept, Accept-Language"),
    )
