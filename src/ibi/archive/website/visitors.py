"""What is told about a visitor so that visits can be counted: whether it is a program, and in which country.

The lists of COUNTER and of the crawlers' own names are read once, when the first visit is counted; both or neither
are there. Most of what they list are plain words, which are looked for as such: that takes a tenth of the time.
"""

from __future__ import annotations

import json
import logging
import re
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_AGENT: Final = 500
_PLAIN = re.compile(r"(?:[^\\^$.|?*+()\[\]{}]|\\[^A-Za-z0-9])+")
_COUNTRY = re.compile(r"[A-Z]{2}")

_log = logging.getLogger(__name__)


@lru_cache(maxsize=10_000)
def is_program(agent: str) -> bool:
    """Whether the header User-Agent is that of a crawler or another program; one that is not sent counts as such."""
    lowered = agent[:_LONGEST_AGENT].lower()
    words, patterns = _lists()
    return not lowered.strip() or any(word in lowered for word in words) or bool(patterns.search(lowered))


@cache
def _lists() -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Plain words in lower case, none of which holds another, and one pattern of all that is no plain word."""
    listed = set(_listed())
    plain = {re.sub(r"\\(.)", r"\1", pattern).lower() for pattern in listed if _PLAIN.fullmatch(pattern)}
    words: list[str] = []
    for word in sorted(plain, key=lambda word: (len(word), word)):
        if not any(shorter in word for shorter in words):
            words.append(word)
    rest = sorted(pattern for pattern in listed if not _PLAIN.fullmatch(pattern))
    return tuple(words), re.compile("|".join(f"(?:{pattern})" for pattern in rest), re.IGNORECASE)


def _listed() -> Iterator[str]:
    """Every pattern of both lists."""
    crawlers = json.loads((files("crawleruseragents") / "crawler-user-agents.json").read_bytes())
    yield from (crawler["pattern"] for crawler in crawlers)
    for name in ("robot.txt", "machine.txt"):
        yield from filter(None, (files("counter_robots") / "data" / name).read_text("utf-8").splitlines())


class Countries:
    """The countries of addresses, as a file in MaxMind's format tells them; without a path it tells none."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._reader: Any = None

    def of(self, address: str) -> str:
        """Two letters, or "" where nothing is known."""
        if not self._path or not address:
            return ""
        try:
            if self._reader is None:
                import maxminddb

                self._reader = maxminddb.open_database(self._path)
            found = self._reader.get(address)
        except (OSError, ValueError) as error:  # ValueError: no address, or an odd one for this database
            return self._give_up(error) if self._reader is None else ""
        except Exception as error:  # noqa: BLE001 - InvalidDatabaseError and whatever a damaged file makes of itself
            return self._give_up(error)
        code = ((found or {}).get("country") or {}).get("iso_code") if isinstance(found, dict) else None
        return code if isinstance(code, str) and _COUNTRY.fullmatch(code) else ""

    def _give_up(self, error: Exception) -> str:
        _log.warning("countries are not told any more: %s: %s", self._path, error)
        self._path = ""
        return ""
