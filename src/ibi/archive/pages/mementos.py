"""Serve the editions of an item as its states in time (Memento, RFC 7089), as far as this Archive holds them.

    /-/timegate/<ibi>    (or http://<address>/<ibi>) redirects to the last edition at a time (Accept-Datetime)
    /-/timemap/<ibi>     lists all editions: application/link-format, or JSON

The original resource (in the terms of Memento) is the persistent URL of the first edition with "!", which
leads to the last edition. The page of each edition is a memento, dated by the moment in the edition's name.
"""

from __future__ import annotations

import json
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.model.relations import held_by
from ibi.archive.store.tables import listings
from ibi.errors import NotHeld, ParseError
from ibi.http.memento import LINK_FORMAT, LINKS, LONGEST_NAME
from ibi.http.response import JSON, NO_STORE, Response, visible
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.request import Request
    from ibi.http.response import Headers
    from ibi.identifier.forms import IBIForms

MOST_EDITIONS: Final = 256
"""Editions of a series that are looked up."""

_FOR_A_MINUTE: Final = (("cache-control", "public, max-age=60"),)
_EARLIER: Final = 16  # items that have the same next edition


class Memento(NamedTuple):
    """One edition: the URL of its page, and when it got its name, in POSIX seconds."""

    holding: Holding
    url: str
    seconds: int

    @property
    def date(self) -> str:
        """The date in the form of HTTP headers."""
        return formatdate(self.seconds, usegmt=True)


class EditionSeries(NamedTuple):
    """The editions of an item that are held here, the oldest first. `first`: the oldest known name.

    `beyond`: the name of the edition after the last one held here, if another Archive holds it, else None.
    """

    first: IBIForms
    mementos: tuple[Memento, ...]
    beyond: IBIForms | None


class Mementos:
    """Time gates and time maps of one Archive's items. `base` begins its pages, `root` persistent URLs."""

    def __init__(self, catalogue: Catalogue, base: str, root: str) -> None:
        self._catalogue = catalogue
        self._base = base
        self._root = root

    def gate(self, request: Request, holding: Holding) -> Response:
        """Redirect to the edition of the requested time, or to the last one. Raises ParseError, NotHeld."""
        series = self._held_series(holding)
        wanted = request.header(b"accept-datetime").strip()
        # Without a requested time, RFC 7089 requires the last edition.
        chosen = series.mementos[-1]
        if wanted:
            moment = _seconds(wanted)
            earlier = (each for each in reversed(series.mementos) if each.seconds <= moment)
            chosen = next(earlier, series.mementos[0])
        links = ", ".join([*self._known(series), *_ends(series)])
        where = ("location", visible(chosen.url))
        return Response(302, headers=(where, ("vary", "accept-datetime"), ("link", links), *NO_STORE))

    def map(self, request: Request, holding: Holding) -> Response:
        """Serve the list of all editions in the requested format. Raises NotHeld, ParseError."""
        series = self._held_series(holding)
        wanted = dict(read_query(request.query)).get("format", "json" if request.form == "json" else "link")
        headers: Headers = (("vary", "accept"), *_FOR_A_MINUTE)
        if wanted != "json":
            return Response(200, self._links(series), LINK_FORMAT, headers)
        original, gate, times = self._urls(series)
        mementos = [{"datetime": each.date, "uri": each.url} for each in series.mementos]
        value = {
            "original_uri": original,
            "timegate_uri": gate,
            "timemap_uri": {"link_format": times, "json_format": f"{times}?format=json"},
            "mementos": {"first": mementos[0], "last": mementos[-1], "list": mementos},
            "beyond": f"{self._root}/-/timemap/{series.beyond.main}" if series.beyond else None,
        }
        return Response(200, json.dumps(value, indent=1).encode(), JSON, headers)

    def headers(self, holding: Holding, left: int) -> Headers:
        """Return the Memento headers of an item's page; it is a memento only if there are other editions.

        `left`: bytes that the links of an item without other editions may take; if they are longer, there are none.
        """
        series = self.series(holding)
        known: Headers = (("link", ", ".join(self._known(series))),)
        mine = next((each for each in series.mementos if each.holding.number == holding.number), None)
        if mine is None or (len(series.mementos) == 1 and series.beyond is None):
            return known if len(known[0][1]) <= left else ()
        return (("memento-datetime", mine.date), *known)

    def links(self, holding: Holding) -> str:
        """Return the links to the gates of an item, for its files and persistent URLs; "" for a very long name."""
        # By its own name: looking for the first edition would cost each reader of a file several look-ups.
        name = str(holding.forms.main)
        long = len(name) > LONGEST_NAME
        return "" if long else LINKS.format(original=f"{self._root}/{name}", base=self._base, name=name)

    def series(self, holding: Holding) -> EditionSeries:
        """Find all editions that lead to the last edition known here."""
        # Searched backwards from the last edition, so that the series is the same for each of its editions.
        editions, beyond = self._later(holding)
        numbers = {each.number for each in editions}
        waiting = list(editions)
        with self._catalogue.reading() as run:
            while waiting and len(editions) <= MOST_EDITIONS:
                for forms in listings.earlier(run, waiting.pop().forms, _EARLIER):
                    before = held_by(self._catalogue.holding, forms)
                    if before is not None and before.number not in numbers:
                        numbers.add(before.number)
                        editions.append(before)
                        waiting.append(before)
        # Once for each: the date is read out of a name, which takes time.
        ages = {each.number: _age(each) for each in editions}
        editions.sort(key=lambda each: ages[each.number])
        mementos = tuple(
            Memento(each, f"{self._base}/-/item/{each.forms.main}", ages[each.number])
            for each in editions
            if not each.deleted
        )
        return EditionSeries(editions[0].forms, mementos, beyond)

    def _later(self, holding: Holding) -> tuple[list[Holding], IBIForms | None]:
        """Return an item with the editions after it, and the name of the next edition not held here."""
        editions, numbers = [holding], {holding.number}
        following = holding.next_edition
        while following is not None and len(editions) < MOST_EDITIONS:
            after = held_by(self._catalogue.holding, following)
            if after is None:
                return editions, following
            # A circle of editions is a mistake, and must not make this loop endless.
            if after.number in numbers:
                break
            numbers.add(after.number)
            editions.append(after)
            following = after.next_edition
        return editions, None

    def _held_series(self, holding: Holding) -> EditionSeries:
        series = self.series(holding)
        if not series.mementos:
            raise NotHeld("this Archive does not hold {name}", name=holding.forms.main)
        return series

    def _urls(self, series: EditionSeries) -> tuple[str, str, str]:
        """Return the URLs of the original resource, of its time gate and of its time map."""
        name = str(series.first.main)
        return f"{self._root}/{name}!", f"{self._base}/-/timegate/{name}", f"{self._base}/-/timemap/{name}"

    def _known(self, series: EditionSeries, of_map: str = "timemap") -> list[str]:
        """Return links to the original resource, time gate and time map (its relation is `of_map`)."""
        original, gate, times = self._urls(series)
        return [
            f'<{visible(original, "<>")}>; rel="original"',
            f'<{visible(gate, "<>")}>; rel="timegate"',
            f'<{visible(times, "<>")}>; rel="{of_map}"; type="{LINK_FORMAT}"',
        ]

    def _links(self, series: EditionSeries) -> bytes:
        first, last = series.mementos[0], series.mementos[-1]
        lines = self._known(series, "self")
        lines[-1] += f'; from="{first.date}"; until="{last.date}"'
        if series.beyond is not None:
            lines.append(
                f'<{self._root}/-/timemap/{series.beyond.main}>; rel="timemap"; type="{LINK_FORMAT}"'
            )
        inner = [_link(each, "memento") for each in series.mementos[1:-1]]
        ends = _ends(series)
        return (",\n".join([*lines, ends[0], *inner, *ends[1:]]) + "\n").encode("ascii")


def _ends(series: EditionSeries) -> list[str]:
    first, last = series.mementos[0], series.mementos[-1]
    if first is last:
        return [_link(first, "first last memento")]
    return [_link(first, "first memento"), _link(last, "last memento")]


def _age(holding: Holding) -> int:
    """Return when an edition got its name, in POSIX seconds; 0 if the name shows no calendar date."""
    return holding.forms.main.date.seconds or 0


def _link(memento: Memento, relation: str) -> str:
    return f'<{visible(memento.url, "<>")}>; rel="{relation}"; datetime="{memento.date}"'


def _seconds(text: str) -> float:
    """Read the date of a header as POSIX seconds. Raises ParseError."""
    try:
        read = parsedate_to_datetime(text) if text.endswith("GMT") else None
        if read is not None:
            return read.timestamp()
    except (ValueError, OverflowError, TypeError):
        pass
    raise ParseError("Accept-Datetime", text[:100], "a date is written like Thu, 31 May 2007 20:35:00 GMT")
