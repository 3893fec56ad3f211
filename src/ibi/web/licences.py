"""Licences of Creative Commons by name and in words; other licences are known by their URLs alone."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_CREATIVE_COMMONS: Final = re.compile(
    r"https?://(?:www\.)?creativecommons\.org/(?:licenses|publicdomain)/([a-z-]{2,10})/([0-9]\.[0-9])(?:[/#?].*)?",
    re.ASCII | re.IGNORECASE,
)

WORDS: Final = {
    "by": "You may copy, change and pass it on, with credit to the authors.",
    "by-sa": "You may copy, change and pass it on, with credit to the authors and under the same licence.",
    "by-nc": "You may copy, change and pass it on, with credit to the authors, but not to earn money.",
    "by-nc-sa": "You may copy, change and pass it on, with credit to the authors and under the same licence, "
    "but not to earn money.",
    "by-nd": "You may copy it and pass it on unchanged, with credit to the authors.",
    "by-nc-nd": "You may copy it and pass it on unchanged, with credit to the authors, but not to earn money.",
    "zero": "No rights are reserved. A citation is welcome.",
    "mark": "As far as is known, no rights are reserved any more.",
}
"""Kind of a licence of Creative Commons -> what it permits."""


class Licence(NamedTuple):
    """A licence by its name ("CC BY 4.0", or its URL) and in words, "" if they are not known."""

    name: str
    words: str = ""


def licence_of(url: str) -> Licence:
    """Return the licence at a URL."""
    found = _CREATIVE_COMMONS.fullmatch(url.strip())
    kind = found[1].lower() if found else ""
    if found is None or kind not in WORDS:
        return Licence(url)
    name = "CC0" if kind == "zero" else "Public Domain Mark" if kind == "mark" else f"CC {kind.upper()}"
    return Licence(f"{name} {found[2]}", WORDS[kind])
