"""Pages of records for harvesters: what the first page costs, and one far behind, as the list grows.

    python -m bench.harvesting [--dir DIR] [--full]

The repository answers in this process, as it does in a thread of a served Archive; what is told is processor time.
Items have the metadata of a report. The page behind is asked for as a harvester asks who has come so far, with a token
of that place. `--full` asks among 1,000,000 records, and takes a quarter of an hour, most of it for making them;
without it, among 10,000 and 50,000.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from bench.answers import _item
from bench.disk import add_option, surroundings, workplace
from bench.figures import figure, table
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.finding.index import Index
from ibi.archive.intake.importing import Importer
from ibi.archive.oai.lists import HEADERS, RECORDS
from ibi.archive.oai.provider import Provider
from ibi.archive.oai.tokens import Place, Tokens
from ibi.assembly.archive_finding import indexer
from ibi.identifier.forms import IBIForms
from ibi.minting.machine import this_machine
from ibi.settings import ArchiveSettings
from ibi.web.formats.oai import RECORD_FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 15
SHORT, FULL = (10_000, 50_000), (10_000, 1_000_000)
_SECRET = "ab" * 32
_ASKED = (
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.harvesting", description=__doc__)
    parser.add_argument("--full", action="store_true", help="among 1,000,000 records")
    add_option(parser)
    args = parser.parse_args()
    with workplace(args.dir) as place:
        print(
            f"\nOAI-PMH, processor milliseconds of one page, median of {RUNS} (least to most)\n{surroundings(place)}"
        )
        lines = [line for count in (FULL if args.full else SHORT) for line in _measured(count, place)]
        table(
            ("records, and what is asked", "first page", "last page but one", "number of that page", "ratio"),
            lines,
        )


def _measured(count: int, place: Path) -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        directory = _filled(Path(folder) / "archive", count)
        with directory.catalogue() as catalogue, closing(Index(directory.path)) as index:
            provider = Provider(directory.settings(), catalogue, index, RECORD_FORMATS, time.time)
            for verb, prefix, size in _ASKED:
                behind = (count // size - 2) * size
                question = _question(_Page(verb, prefix, behind), index, count)
                first = urlencode({"verb": verb, "metadataPrefix": prefix})
                pairs = [(_cost(provider, first), _cost(provider, question)) for _ in range(RUNS + 1)][1:]
                here, there = figure(pair[0] for pair in pairs), figure(pair[1] for pair in pairs)
                yield (
                    f"{count:,}: {size} by {verb}, {prefix}",
                    here.times(1e3).text(1),
                    there.times(1e3).text(1),
                    f"{behind // size + 1:,}",
                    (there / here).text(2),
                )


def _filled(data: Path, count: int) -> ArchiveDirectory:
    """An Archive with so many items, and its index."""
    directory = ArchiveDirectory(data, this_machine())
    directory.begin()
    service = IBIForms.parse("rep archive.example/w/2020/01.01.00.00")
    directory.make(
        ArchiveSettings(
            address="127.0.0.1", ip="127.0.0.1", service=service, key="1" * 20, secret=_SECRET,
            admin="admin@archive.example",
        )
    )  # fmt: skip
    path = data / "items.jsonl"
    with path.open("w") as lines:
        lines.writelines(f"{json.dumps(_item('large', number))}\n" for number in range(count))
    with directory.keeper() as keeper:
        Importer(keeper, "bench", lambda refused: print(refused.why)).run(path)
    path.unlink()
    begun = time.perf_counter()
    with directory.catalogue() as catalogue, closing(indexer(directory, catalogue)) as writes:
        writes.bring_up_to_date()
    print(f"{count:,} items indexed at {count / (time.perf_counter() - begun):,.0f} a second", flush=True)
    return directory


def _question(page: _Page, index: Index, count: int) -> str:
    """How a harvester asks who has seen so many records."""
    after, left = (0, 0), page.behind + 1  # the Archive's own service item, the first, is passed over
    while left:
        found = index.changed(after, None, None, "data", min(left, _STEP))
        after, left = (found[-1].stamp, found[-1].number), left - len(found)
    tokens = Tokens(bytes.fromhex(_SECRET), time.time)
    place = Place(page.verb, page.prefix, "", None, None, *after, page.behind, count, tokens.expiry())
    return urlencode({"verb": page.verb, "resumptionToken": tokens.write(place)})


def _cost(provider: Provider, question: str) -> float:
    """Seconds of a processor for one answer."""
    begun = time.process_time()
    answer = provider.answer(question)
    seconds = time.process_time() - begun
    if b"<resumptionToken expirationDate" not in answer:
        raise SystemExit(answer[:2000].decode())
    return seconds


if __name__ == "__main__":
    main()
