"""How an institution presents itself on the pages of its Archive or resolver: DIR/institution.toml.

A text may have a second wording for pages in Portuguese, `name_pt` beside `name`. Where one is missing, the other is
shown. A picture is kept as a data URL, so that the whole file is changed at once and is in every backup.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

from ibi.errors import SetupError
from ibi.runtime.settings.rules import is_mail_address
from ibi.runtime.settings.toml_file import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ibi.runtime.settings.rules import Rule

LONGEST_LINES: Final = {"name": 200, "subtitle": 200, "publisher": 200, "contact": 254}
"""Characters of the texts of one line."""
LONGEST_TEXTS: Final = {
    "welcome": 2_000,
    "about": 20_000,
    "privacy": 20_000,
    "policies": 20_000,
    "postal_address": 500,
}
"""Characters of the texts that may have several lines."""
IN_PORTUGUESE: Final = "_pt"
"""The end of the name of a second wording."""
TWICE: Final = ("name", "subtitle", "welcome", "about", "privacy", "policies")
"""The texts that may have one."""
LARGEST_PICTURES: Final = {"logo": 65_536, "cover": 262_144}
"""Bytes of the pictures."""
FONTS: Final = ("ours", "system")
"""Whether pages fetch a font that tells 0 from O and 1 from l, or use a font of the reader's machine."""

_BEGINNINGS: Final[Mapping[str, bytes]] = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/webp": b"RIFF",
}
_SVG: Final = "image/svg+xml"
_SVG_ELEMENT: Final = re.compile(rb"<(?:[A-Za-z]+:)?svg[\s>]")
_KINDS: Final = {"logo": (_SVG, "image/png"), "cover": (_SVG, "image/png", "image/jpeg", "image/webp")}
_DATA_URL: Final = re.compile(r"data:(image/[a-z+]+);base64,([A-Za-z0-9+/=]*)")
_COLOUR: Final = re.compile(r"[0-9a-f]{6}")


class Picture(NamedTuple):
    """A picture and its media type."""

    kind: str
    content: bytes


def _check_line(name: str, text: str) -> None:
    """Refuse a text that is too long, or not one line of printable characters. Raises SetupError."""
    most = LONGEST_LINES[name.removesuffix(IN_PORTUGUESE)]
    if len(text) > most or not text.isprintable():
        raise SetupError("{name} is one line of at most {most} characters", name=name, most=most)


def _check_text(name: str, text: str) -> None:
    """Refuse a text that is too long, or has characters that cannot be shown. Raises SetupError."""
    most = LONGEST_TEXTS[name.removesuffix(IN_PORTUGUESE)]
    if len(text) > most or not text.replace("\n", "").isprintable():
        raise SetupError("{name} is a text of at most {most} characters", name=name, most=most)


def _check_contact(name: str, text: str) -> None:
    _check_line(name, text)
    if text and not is_mail_address(text) and not text.startswith(("https://", "http://")):
        raise SetupError("{name} is a mail address or the URL of a page", name=name)


def _check_colour(_name: str, text: str) -> None:
    if text:
        canonical_colour(text)


def _check_font(name: str, text: str) -> None:
    if text not in FONTS:
        raise SetupError("{name} is one of: {words}", name=name, words=", ".join(FONTS))


def _check_picture(name: str, text: str) -> None:
    read_picture(name, text)


def canonical_colour(text: str) -> str:
    """Return "#rrggbb" for a colour in this form or as "#rgb", in any case. Raises SetupError for anything else."""
    digits = text.strip().lower().removeprefix("#")
    if len(digits) == len("rgb"):
        digits = "".join(2 * each for each in digits)
    if not _COLOUR.fullmatch(digits):
        problem = "a colour is # and six hexadecimal digits, such as #0b6b5d, and this is not: {text}"
        raise SetupError(problem, text=text[:80])
    return f"#{digits}"


def read_picture(name: str, text: str) -> Picture | None:
    """Read the data URL of a picture; None for "". Raises SetupError. `name`: "logo" or "cover"."""
    if not text:
        return None
    found = _DATA_URL.fullmatch(text)
    kinds = ", ".join(each.removeprefix("image/").removesuffix("+xml").upper() for each in _KINDS[name])
    problem = "{name} is a picture of one of these kinds: {words}"
    if found is None or found[1] not in _KINDS[name]:
        raise SetupError(problem, name=name, words=kinds)
    try:
        content = b64decode(found[2], validate=True)
    except binascii.Error:
        content = b""
    if not _is_of_kind(found[1], content):
        raise SetupError(problem, name=name, words=kinds)
    if len(content) > LARGEST_PICTURES[name]:
        raise SetupError("{name} is larger than {most} bytes", name=name, most=LARGEST_PICTURES[name])
    return Picture(found[1], content)


def data_url(content: bytes) -> str:
    """Return the data URL of a picture, whose kind is seen from its bytes; "" for an empty one."""
    if not content:
        return ""
    known = (kind for kind, beginning in _BEGINNINGS.items() if content.startswith(beginning))
    return f"data:{next(known, _SVG)};base64,{b64encode(content).decode()}"


def _is_of_kind(kind: str, content: bytes) -> bool:
    if kind == _SVG:
        return _SVG_ELEMENT.search(content[:4096]) is not None
    return content.startswith(_BEGINNINGS[kind])


_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(LONGEST_LINES, _check_line),
    **dict.fromkeys(LONGEST_TEXTS, _check_text),
    **{f"{name}{IN_PORTUGUESE}": _check_line if name in LONGEST_LINES else _check_text for name in TWICE},
    **dict.fromkeys(LARGEST_PICTURES, _check_picture),
    "contact": _check_contact,
    "colour": _check_colour,
    "font": _check_font,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Institution(Settings):
    """What an institution says of itself; "" for what it leaves to the program."""

    FILE: ClassVar[str] = "institution.toml"
    RULES: ClassVar[Mapping[str, Rule]] = _RULES
    SHARED: ClassVar[bool] = True

    name: str = ""
    """What readers and harvesters call the Archive or the resolver, "" for its address."""
    name_pt: str = ""
    subtitle: str = ""
    """A line below the name."""
    subtitle_pt: str = ""
    colour: str = ""
    """The one colour that all colours of the pages follow from, "#rrggbb"."""
    logo: str = ""
    """A picture beside the name, SVG or PNG, as a data URL."""
    cover: str = ""
    """A picture on the front page, as a data URL."""
    font: str = FONTS[0]
    """A word of FONTS."""
    welcome: str = ""
    """What the front page says: its first line is the heading."""
    welcome_pt: str = ""
    about: str = ""
    """What the institution and its collection are."""
    about_pt: str = ""
    policies: str = ""
    """What is accepted, how it is kept, who may do what."""
    policies_pt: str = ""
    privacy: str = ""
    """What is recorded of readers."""
    privacy_pt: str = ""
    contact: str = ""
    """Whom readers write to: a mail address or the URL of a page; "": the administrator."""
    postal_address: str = ""
    """Where the institution is, in a few lines."""
    publisher: str = ""
    """The publisher of items that name none, "" for the name."""

    @classmethod
    def of(cls, data: Path) -> Self:
        """Read the institution of a data directory, or the default one if there is no file. Raises SetupError."""
        return cls.read(data) if cls.exists(data) else cls()

    def text(self, name: str, language: str) -> str:
        """Return a text in a language of the pages, or in the other one if it has only that."""
        usual = str(getattr(self, name))
        portuguese = str(getattr(self, f"{name}{IN_PORTUGUESE}"))
        return portuguese or usual if language.startswith("pt") else usual or portuguese

    @property
    def names(self) -> dict[str, str]:
        """What its items bear in other Archives, by language: "" for the usual name, as in `as_publisher`."""
        if self.publisher or not self.name:
            return {"": self.as_publisher} if self.as_publisher else {}
        return {"": self.name} | ({"pt": self.name_pt} if self.name_pt else {})

    @property
    def as_publisher(self) -> str:
        """What citations and metadata call it, "" where it has no name."""
        return self.publisher or self.text("name", "en")

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return the institution with some changes. Raises SetupError for a value that its rule refuses."""
        kept = {name: _tidied(name, value) for name, value in changes.items()}
        for name, value in kept.items():
            self.RULES[name](name, value)
        return replace(self, **kept)


def _tidied(name: str, value: str) -> str:
    """Return a text without what typing and forms leave in it. Raises SetupError for what is no colour."""
    lines = [line.rstrip() for line in value.replace("\r\n", "\n").replace("\r", "\n").strip().split("\n")]
    text = "\n".join(lines)
    return canonical_colour(text) if name == "colour" and text else text
