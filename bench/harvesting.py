"""Pages of records for harvesters: what the first page costs, and one far behind, as the list grows.

The repository answers in this process, as it does in a thread of a served Archive; what is told is processor time.
Items have the metadata of a report. The page behind is asked for as a harvester asks who has come so far, with a token
of that place.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from bench.archive import SECRET, filled
from bench.figures import aim, figure, table
from bench.turns import turn_about
from ibi.archive.oai.lists import HEADERS, RECORDS, ListPosition, ResumptionTokens
from ibi.archive.oai.provider import OaiProvider
from ibi.archive.search.index import SearchIndex
from ibi.web.formats import RECORD_FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.scale import Scale

RUNS = 15
_REQUESTS = (
    ("ListRecords", "oai_dc", RECORDS),
    ("ListRecords", "oai_datacite", RECORDS),
    ("ListIdentifiers", "oai_dc", HEADERS),
)
_STEP = 10_000


class _Page(NamedTuple):
    """A page as it is asked for, the newest of `behind` records before it."""

    verb: str
    prefix: str
    behind: int


def measure(place: Path, scale: Scale) -> None:
    """Measure and print."""
    counts = scale((1_500,), (10_000, 30_000), (10_000, 1_000_000))
    lines = [line for count in counts for line in _measured(count, place)]
    print(f"milliseconds of a processor; median of {RUNS} (least to most)")
    heads = ("records, and what is asked", "first page", "last page but one", "number of that page", "ratio")
    table(heads, lines)


def _measured(count: int, place: Path) -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        directory = filled(Path(folder) / "archive", "large", count)
        with directory.catalogue() as catalogue, closing(SearchIndex(directory.path)) as index:
            provider = OaiProvider(directory.settings(), catalogue, index, RECORD_FORMATS, time.time)
            for verb, prefix, size in _REQUESTS:
                behind = (count // size - 2) * size
                question = _question(_Page(verb, prefix, behind), index, count)
                first = urlencode({"verb": verb, "metadataPrefix": prefix})
                pages = {"first": first, "behind": question}
                for page in pages.values():
                    _cost(provider, page)
                found = turn_about(
                    {name: partial(_cost, provider, page) for name, page in pages.items()}, RUNS
                )
                here, there = figure(found["first"]).times(1e3), figure(found["behind"]).times(1e3)
                if (verb, prefix) == ("ListRecords", "oai_dc"):
                    aim(f"ms for 100 records of oai_dc among {count:,}", here, at_most=15, decimals=1)
                    aim(f"its last page but one among {count:,}, of the first", there / here, at_most=1.25)
                yield (
                    f"{count:,}: {size} by {verb}, {prefix}",
                    here.text(1),
                    there.text(1),
                    f"{behind // size + 1:,}",
                    (there / here).text(2),
                )


def _question(page: _Page, index: SearchIndex, count: int) -> str:
    """How a harvester asks who has seen so many records."""
    after, left = (0, 0), page.behind + 1  # the Archive's own service item, the first, is passed over
    while left:
        found = index.changed(after, None, None, "data", min(left, _STEP))
        after, left = (found[-1].stamp, found[-1].number), left - len(found)
    tokens = ResumptionTokens(bytes.fromhex(SECRET), time.time)
    place = ListPosition(page.verb, page.prefix, "", None, None, *after, page.behind, count, tokens.expiry())
    return urlencode({"verb": page.verb, "resumptionToken": tokens.write(place)})


def _cost(provider: OaiProvider, question: str) -> float:
    """Seconds of a processor for one answer."""
    begun = time.process_time()
    answer = provider.answer(question)
    seconds = time.process_time() - begun
    if b"<resumptionToken expirationDate" not in answer:
        raise SystemExit(answer[:2000].decode())
    return seconds
