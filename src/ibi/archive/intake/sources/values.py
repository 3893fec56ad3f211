"""What other people's records say, in our words: names, addresses, languages (pure)."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from babel import Locale
from babel.core import get_global

from ibi.errors import ParseError
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.peeling import MAX_TEXT, peel
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol.language import canonical_language

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.identifier.forms import Name
    from ibi.identifier.peeling import Peeled

_WEB: Final = re.compile(r"https?://[0-9A-Za-z.\[\]:-]+(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_DOI: Final = re.compile(
    r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*|info:doi/)?(10\.[0-9]{4,9}/\S+)", re.IGNORECASE
)
_IN_A_URL: Final = "!#$%&'()*+,/:;=?@[]~"
_ONLY_AROUND: Final = frozenset({"resolver address", "url scheme", "upn", "ibi scheme", "punctuation"})
_BY_HAND: Final = {
    "american": "en-US", "british": "en-GB", "usenglish": "en-US", "ukenglish": "en-GB", "ngerman": "de",
    "brazil": "pt-BR", "brazilian": "pt-BR", "brazilian portuguese": "pt-BR", "portuguese (brazil)": "pt-BR",
    "português do brasil": "pt-BR", "português (brasil)": "pt-BR", "castilian": "es",
}  # fmt: skip
"""Names of languages that BibTeX and catalogues use, and that no table of languages has."""


def names_in(texts: Iterable[str], *, only_names: bool = False) -> dict[str, Any]:
    """The names of an item in texts that may hold some: the first of each form, every older opaque id.

    As fields of an item: {"rep": …, "ibip": …, "aliases": […]}. With `only_names`, a text that says more than a name
    and the address of its resolver tells none.
    """
    found: dict[str, Any] = {}
    for text in texts:
        peeled = _peeled(text)
        if peeled is None or (only_names and not is_only_a_name(peeled)):
            continue
        name = peeled.ibi
        if isinstance(name, LegacyId):
            found.setdefault("aliases", []).append(str(name))
        elif isinstance(name, UniformRepositoryName):
            found.setdefault("rep", str(name))
        elif name.ip is not None:  # two words with a slash are no name by themselves
            found.setdefault("ibip", str(name))
    return found


def name_in(text: str) -> Name | None:
    """The name in a text, None if there is none that is certain."""
    peeled = _peeled(text)
    if peeled is None or (isinstance(peeled.ibi, IBIp) and peeled.ibi.ip is None):
        return None
    return peeled.ibi


def _peeled(text: str) -> Peeled | None:
    if len(text) > MAX_TEXT:
        return None
    try:
        return peel(text)
    except ParseError:
        return None


def is_only_a_name(peeled: Peeled) -> bool:
    """Whether a text says nothing but a name and at most where its resolver is."""
    kinds = {piece.kind for piece in peeled.peelings}
    wrapped = any(piece.text in {"ibi/", "rep/"} for piece in peeled.peelings)
    return not peeled.after and kinds <= (_ONLY_AROUND | {"archive path"} if wrapped else _ONLY_AROUND)


def is_persistent(url: str) -> bool:
    """Whether a URL is the persistent URL of an item: then it tells its name and not where it lives."""
    peeled = _peeled(url)
    return peeled is not None and is_only_a_name(peeled)


def web_address(text: str) -> str | None:
    """An http or https URL as it may stand in a redirect, None if the text is none."""
    stripped = text.strip()
    if not _WEB.fullmatch(stripped):
        return None
    return quote(" ".join(stripped.split()), safe=_IN_A_URL)


def doi_address(text: str) -> str | None:
    """The URL of a DOI in whatever way it is written, None if the text is none."""
    match = _DOI.fullmatch(text.strip())
    return f"https://doi.org/{quote(match[1], safe=_IN_A_URL)}" if match else None


def language_of(text: str) -> str | None:
    """The tag (pt, pt-BR) of a language by its tag, its code of three letters or its name; None if unknown."""
    said = " ".join(text.replace("_", "-").split()).lower()
    if said in _BY_HAND:
        return _BY_HAND[said]
    first, hyphen, rest = said.partition("-")
    known = _languages().get(said) or get_global("language_aliases").get(first, first) + hyphen + rest
    try:
        return canonical_language(known)
    except ParseError:
        return None


@cache
def _languages() -> dict[str, str]:
    """Codes of two letters by the name of the language in English, Portuguese, Spanish and in itself."""
    codes = [code for code in map(str, Locale("en").languages) if len(code) == len("pt")]
    names: dict[str, str] = {}
    for locale in ("es", "pt", "en"):
        written = Locale(locale).languages
        names |= {written[code].lower(): code for code in codes if code in written}
    return names
