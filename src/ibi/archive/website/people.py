"""Names of people as Dublin Core holds them, and the ORCID that some carry (pure).

Silva, Maria da (https://orcid.org/0000-0002-1825-0097)
Silva, Maria da [ORCID: 0000-0002-1825-0097]
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_ORCID: Final = re.compile(
    r"[\s,;(\[<]*(?:orcid(?:\s*id)?\s*[:=]?\s*)?(?:https?://)?(?:www\.)?(?:orcid\.org/)?"
    r"(?<![0-9-])(\d{4}-\d{4}-\d{4}-\d{3}[\dX])(?![0-9-])[\s)\]>]*",
    re.ASCII | re.IGNORECASE,
)
_LONGEST: Final = 500
"""Characters of a name in which an ORCID is looked for."""


class Author(NamedTuple):
    """A name as it is to be read, and the person's ORCID ("0000-0002-1825-0097"), "" if none was given."""

    name: str
    orcid: str = ""

    @property
    def url(self) -> str:
        """Where the ORCID leads, "" without one."""
        return f"https://orcid.org/{self.orcid}" if self.orcid else ""


@lru_cache(maxsize=4096)
def author(text: str) -> Author:
    """Read a name. What looks like an ORCID and has the wrong check digit stays part of the name."""
    found = _ORCID.search(text[:_LONGEST])
    if found is None or not _checks(found[1]):
        return Author(text)
    name = f"{text[: found.start()]} {text[found.end() :]}".strip(" \t,;")
    return Author(name or found[1], found[1].upper())


def _checks(orcid: str) -> bool:
    """Whether its last character follows from the others (ISO 7064, MOD 11-2)."""
    digits = orcid.replace("-", "").upper()
    total = 0
    for digit in digits[:-1]:
        total = (total + int(digit)) * 2
    check = (12 - total % 11) % 11
    return digits[-1] == ("X" if check == 10 else str(check))  # noqa: PLR2004 - ISO 7064 writes ten as X
