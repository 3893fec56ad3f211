"""The editions of an item as its states in time (Memento, RFC 7089), as far as this Archive holds them.

    /-/timegate/<ibi>    to the edition that was the last one at a time (Accept-Datetime)
    /-/timemap/<ibi>     all of them: application/link-format, or JSON

What has states is the persistent URL that leads to the last edition, that of the first one with "!"; each edition is
one of its states, seen on its page. An edition dates from when it got its name, as the name tells for ever.
"""

from __future__ import annotations

import json
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.ledgers import about
from ibi.errors import NotHeld, ParseError
from ibi.exchange import JSON, NO_STORE, Response, visible
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.exchange import Asked, Headers
    from ibi.identifier.forms import IBIForms

    Page = Callable[[Asked, Holding], Response]

MOST_EDITIONS: Final = 256
"""Editions that are followed."""

LINK_FORMAT: Final = "application/link-format"

_FOR_A_MINUTE: Final = (("cache-control", "public, max-age=60"),)
_EARLIER: Final = 16  # items that say to be followed by the same one


class Memento(NamedTuple):
    """One edition: its page, and since when it is there, in POSIX seconds."""

    holding: Holding
    url: str
    seconds: int

    @property
    def date(self) -> str:
        """As headers write it."""
        return formatdate(self.seconds, usegmt=True)


class Line(NamedTuple):
    """The editions of an item that are here, the oldest first. `first`: the name of the oldest one that is known.

    `beyond`: the name of the next one, where that is in another Archive; None where the line ends here.
    """

    first: IBIForms
    mementos: tuple[Memento, ...]
    beyond: IBIForms | None


class Mementos:
    """Tells the editions of one Archive's items. `base` begins its pages, `root` persistent URLs."""

    def __init__(self, catalogue: Catalogue, base: str, root: str) -> None:
        self._catalogue = catalogue
        self._base = base
        self._root = root
        self.pages: Mapping[str, Page] = {"timegate": self.gate, "timemap": self.map}
        """What answers about an item, by the first word of its path."""

    def gate(self, asked: Asked, holding: Holding) -> Response:
        """302 to the edition of the time that is asked for; without one, to the last. Raises ParseError, NotHeld."""
        line = self._some(holding)
        wish = asked.header(b"accept-datetime").strip()
        chosen = line.mementos[-1]
        if wish:
            moment = _seconds(wish)
            chosen = next(
                (each for each in reversed(line.mementos) if each.seconds <= moment), line.mementos[0]
            )
        links = ", ".join([*self._known(line), *self._ends(line)])
        where = ("location", visible(chosen.url))
        return Response(302, headers=(where, ("vary", "accept-datetime"), ("link", links), *NO_STORE))

    def map(self, asked: Asked, holding: Holding) -> Response:
        """All editions, in the form that is asked for. Raises NotHeld, or ParseError for a query that is none."""
        line = self._some(holding)
        wanted = dict(read_query(asked.query)).get("format", "json" if asked.form == "json" else "link")
        headers: Headers = (("vary", "accept"), *_FOR_A_MINUTE)
        if wanted == "json":
            return Response(200, self._json(line), JSON, headers)
        return Response(200, self._links(line), LINK_FORMAT, headers)

    def headers(self, holding: Holding) -> Headers:
        """What the page of an edition says of itself; nothing for an item that is the only one of its line."""
        if holding.next_edition is None and not self._before(holding):
            return ()
        line = self.line(holding)
        mine = next((each for each in line.mementos if each.holding.number == holding.number), None)
        if mine is None or (len(line.mementos) == 1 and line.beyond is None):
            return ()
        return (("memento-datetime", mine.date), ("link", ", ".join(self._known(line))))

    def line(self, holding: Holding) -> Line:
        """All editions that lead to the last one that is known here: so the line is the same for each of them."""
        found, last = self._later(holding)
        seen = {each.number for each in found}
        waiting = list(found)
        with self._catalogue.reading() as run:
            while waiting and len(found) <= MOST_EDITIONS:
                for forms in about.earlier(run, waiting.pop().forms, _EARLIER):
                    before = self._held(forms)
                    if before is not None and before.number not in seen:
                        seen.add(before.number)
                        found.append(before)
                        waiting.append(before)
        found.sort(key=_age)
        return Line(found[0].forms, tuple(self._memento(each) for each in found if not each.deleted), last)

    def _before(self, holding: Holding) -> list[IBIForms]:
        with self._catalogue.reading() as run:
            return about.earlier(run, holding.forms, 1)

    def _later(self, holding: Holding) -> tuple[list[Holding], IBIForms | None]:
        """An item and the editions after it, and the name of the next one that is not here."""
        found, seen = [holding], {holding.number}
        following = holding.next_edition
        while following is not None and len(found) < MOST_EDITIONS:
            after = self._held(following)
            if after is None:
                return found, following
            if after.number in seen:
                break
            seen.add(after.number)
            found.append(after)
            following = after.next_edition
        return found, None

    def _some(self, holding: Holding) -> Line:
        line = self.line(holding)
        if not line.mementos:
            raise NotHeld("this Archive does not hold {name}", name=holding.forms.main)
        return line

    def _memento(self, holding: Holding) -> Memento:
        return Memento(holding, f"{self._base}/-/item/{holding.forms.main}", _age(holding))

    def _held(self, forms: IBIForms) -> Holding | None:
        found = self._catalogue.holding(forms.main)
        return self._catalogue.holding(forms.ibip) if found is None and forms.rep and forms.ibip else found

    def _urls(self, line: Line) -> tuple[str, str, str]:
        """What has states, its time gate and its time map."""
        name = str(line.first.main)
        return f"{self._root}/{name}!", f"{self._base}/-/timegate/{name}", f"{self._base}/-/timemap/{name}"

    def _known(self, line: Line) -> list[str]:
        original, gate, times = self._urls(line)
        return [
            f'<{visible(original, "<>")}>; rel="original"',
            f'<{visible(gate, "<>")}>; rel="timegate"',
            f'<{visible(times, "<>")}>; rel="timemap"; type="{LINK_FORMAT}"',
        ]

    @staticmethod
    def _ends(line: Line) -> list[str]:
        """The first and the last edition, which may be one."""
        first, last = line.mementos[0], line.mementos[-1]
        if first is last:
            return [_link(first, "first last memento")]
        return [_link(first, "first memento"), _link(last, "last memento")]

    def _links(self, line: Line) -> bytes:
        original, gate, times = self._urls(line)
        first, last = line.mementos[0], line.mementos[-1]
        lines = [
            f'<{visible(original, "<>")}>; rel="original"',
            f'<{visible(gate, "<>")}>; rel="timegate"',
            f'<{visible(times, "<>")}>; rel="self"; type="{LINK_FORMAT}"; from="{first.date}"; until="{last.date}"',
        ]
        if line.beyond is not None:
            lines.append(f'<{self._root}/-/timemap/{line.beyond.main}>; rel="timemap"; type="{LINK_FORMAT}"')
        inner = [_link(each, "memento") for each in line.mementos[1:-1]]
        ends = self._ends(line)
        return (",\n".join([*lines, ends[0], *inner, *ends[1:]]) + "\n").encode("ascii")

    def _json(self, line: Line) -> bytes:
        original, gate, times = self._urls(line)
        told = [{"datetime": each.date, "uri": each.url} for each in line.mementos]
        value = {
            "original_uri": original,
            "timegate_uri": gate,
            "timemap_uri": {"link_format": times, "json_format": f"{times}?format=json"},
            "mementos": {"first": told[0], "last": told[-1], "list": told},
            "beyond": f"{self._root}/-/timemap/{line.beyond.main}" if line.beyond else None,
        }
        return json.dumps(value, indent=1).encode()


def _age(holding: Holding) -> int:
    """When an edition got its name, in POSIX seconds; 0 where its name tells no date that a calendar has."""
    return holding.forms.main.date.seconds or 0


def _link(memento: Memento, relation: str) -> str:
    return f'<{visible(memento.url, "<>")}>; rel="{relation}"; datetime="{memento.date}"'


def _seconds(text: str) -> float:
    """A date as headers write it. Raises ParseError."""
    try:
        read = parsedate_to_datetime(text) if text.endswith("GMT") else None
        if read is not None:
            return read.timestamp()
    except (ValueError, OverflowError, TypeError):
        pass
    raise ParseError("Accept-Datetime", text[:100], "a date is written like Thu, 31 May 2007 20:35:00 GMT")
