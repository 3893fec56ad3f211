"""What finding costs: an import while the index is kept up to date beside it, the index itself, and questions to it.

Items have the metadata of a thesis: a title of nine words, up to four people of a thousand, four subjects, an abstract
of a hundred words, a year, a language, a kind. Of the words a few are in nearly every item and most in a handful. Every
import is a process of its own, as `ibi archive import` is; the index is kept by another one, as by the first process of
a running Archive, and is looked at until it has caught up. Questions are asked in this process, one after the other,
each with the catalogue's facts of the twenty items that a page shows; their times are of a processor.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.archive import made
from bench.figures import figure, table
from bench.importing import taken_in
from ibi.app.archive import indexer
from ibi.archive.search import feeds
from ibi.archive.search import search as looking
from ibi.archive.search.index import FILE, IndexNotReady, SearchIndex
from ibi.archive.search.search import hits
from ibi.archive.search.words import SearchQuery
from ibi.archive.store.data_directory import DataDirectory
from ibi.minting.machine import this_machine
from ibi.runtime.tasks import PeriodicTasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.scale import Scale
    from ibi.archive.store.tables.catalogue import Catalogue

_WORDS = 20_000
_SYLLABLES = (
    "a be ca da e fi go hu i ja lo ma ne o pi qua ra se ti u va xe zi ção mento ria sen são tra são".split()
)
_PEOPLE = 1_000
_RUNS = 40
_IMPORTS = ("import", "items a second", "of a processor for the index meanwhile", "the index has all")
_KINDS = ("tese", "dissertação", "artigo", "livro", "capítulo", "relatório", "conjunto de dados", "mapa")


def _vocabulary() -> list[str]:
    """Words that look like words, all different, the most frequent first."""
    chance, found = random.Random(5), dict[str, None]()
    while len(found) < _WORDS:
        found["".join(chance.choices(_SYLLABLES, k=chance.randint(2, 6)))] = None
    return list(found)


_VOCABULARY = _vocabulary()
_W = _VOCABULARY.__getitem__
_QUESTIONS = {
    "a rare word": SearchQuery(text=_W(5003)),
    "two words": SearchQuery(text=f"{_W(40)} {_W(90)}"),
    "a word of one item in fifteen": SearchQuery(text=_W(60)),
    "a word of nearly every item": SearchQuery(text=_W(0)),
    "three words that most items have": SearchQuery(text=f"{_W(0)} {_W(1)} {_W(2)}"),
    "a phrase of such words": SearchQuery(text=f'"{_W(0)} {_W(1)} {_W(2)}"'),
    "three letters a word begins with": SearchQuery(text="sen"),
    "five letters a word begins with": SearchQuery(text="mento"),
    "a word, a year and a language": SearchQuery(text=_W(3), year=2011, language="pt"),
    "a person": SearchQuery(person="Person77, Given Name"),
    "a word and a person": SearchQuery(text=_W(9), person="Person77 Given"),
    "a year": SearchQuery(year=2011),
    "a language": SearchQuery(language="pt"),
    "a word that no item has": SearchQuery(text="nowhere"),
}


def measure(place: Path, scale: Scale) -> None:
    """Measure and print."""
    items = scale(300, 20_000, 100_000)
    lines = place / "items.jsonl"
    _write(lines, items)
    print(f"{items:,} items, one run of imports, {_RUNS} of each question (least to most)")
    table(_IMPORTS, _imports(place, lines, items))
    data = place / "kept"
    size = sum(path.stat().st_size for path in data.glob(f"{FILE}*")) / items
    print(f"\nThe index: {size:,.0f} bytes of disk for an item.")
    with _catalogue(data) as catalogue, closing(SearchIndex(data)) as index:
        table(("question", "found", "ms"), _questions(index, catalogue))


def _write(path: Path, count: int) -> None:
    chance = random.Random(6)
    with path.open("w", encoding="utf-8") as lines:
        for number in range(count):
            lines.write(f"{json.dumps(_item(chance, number))}\n")


def _item(chance: random.Random, number: int) -> dict[str, Any]:
    def words(count: int) -> str:
        return " ".join(_VOCABULARY[min(int(chance.paretovariate(0.7)), _WORDS) - 1] for _ in range(count))

    minute = f"{number // 1440 % 28 + 1:02}.{number // 60 % 24:02}.{number % 60:02}"
    rep = f"bench.example.org/ibi/{1996 + number // 483_840}/{number // 40_320 % 12 + 1:02}.{minute}"
    people = chance.sample(range(_PEOPLE), chance.randint(1, 4))
    return {
        "rep": rep,
        "url": f"http://bench.example.org/{number}",
        "language": chance.choice(("pt", "pt", "en", "es")),
        "metadata": {
            "title": [words(9)],
            "creator": [f"Person{each}, Given Name" for each in people],
            "subject": words(4).split(),
            "description": [words(100)],
            "date": [str(chance.randint(1980, 2026))],
            "type": [chance.choice(_KINDS)],
        },
    }


def _imports(folder: Path, lines: Path, count: int) -> Iterator[tuple[str, str, str, str]]:
    """The same import without and with an index beside it, and an index that is made of a full catalogue."""
    made(folder / "alone")
    alone = taken_in(folder / "alone", lines)["seconds"]
    yield ("alone", f"{count / alone:,.0f}", "", "")
    made(folder / "kept")
    with _following(folder / "kept") as process:
        _await(folder / "kept", 1)
        before = _processor_seconds(process.pid)
        seconds = taken_in(folder / "kept", lines)["seconds"]
        ended, worked = time.perf_counter(), _processor_seconds(process.pid) - before
        _await(folder / "kept", count + 1)
        behind = time.perf_counter() - ended
    yield (
        "with the index kept beside it",
        f"{count / seconds:,.0f}",
        f"{worked / seconds:.0%}",
        f"{behind:,.1f} s after its end",
    )
    begun = time.perf_counter()
    with _catalogue(folder / "alone") as catalogue:
        making = indexer(DataDirectory(folder / "alone", this_machine()), catalogue)
        making.bring_up_to_date()
        making.close()
    yield ("none: the index of all made anew", "", "", f"after {time.perf_counter() - begun:,.1f} s")


def _questions(index: SearchIndex, catalogue: Catalogue) -> Iterator[tuple[str, str, str]]:
    def page(question: SearchQuery) -> str:
        found = looking.search(index, question)
        hits(catalogue, found.entries)
        return f"more than {found.count:,}" if found.many else f"{found.count:,}"

    for name, question in _QUESTIONS.items():
        yield (name, page(question), _times(lambda question=question: page(question)))  # type: ignore[misc]  # bound as it is now
    yield ("what changed last", "50", _times(lambda: index.rows(looking.NEWS, {"most": 50})))
    yield ("years, languages, kinds, letters", "", _times(lambda: _browse(index)))
    yield ("a sheet of the sitemap", "", _times(lambda: feeds.write_sheet(index, "http://x", 1, 0.0)))


def _browse(index: SearchIndex) -> None:
    looking.facet_values(index, "year", 300)
    looking.facet_values(index, "language", 100)
    looking.facet_values(index, "kind", 100)
    looking.facet_values(index, "letter", 200)


def _times(ask: Callable[[], object]) -> str:
    runs = []
    for _ in range(_RUNS):
        begun = time.process_time()
        ask()
        runs.append((time.process_time() - begun) * 1000)
    return figure(runs).text(1)


def _await(data: Path, count: int) -> None:
    """Wait until so many items are in the index."""
    with closing(SearchIndex(data)) as index:
        while True:
            with suppress(IndexNotReady):
                if index.size(None, None, "") >= count:
                    return
            time.sleep(0.05)


@contextmanager
def _catalogue(data: Path) -> Iterator[Catalogue]:
    with DataDirectory(data, this_machine()).catalogue() as catalogue:
        yield catalogue


@contextmanager
def _following(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that keeps the index, as the first process of a running Archive does."""
    command = [sys.executable, "-m", "bench.finding", str(data)]
    process = subprocess.Popen(command)  # noqa: S603 - our own command
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _processor_seconds(pid: int) -> float:
    """What a process has taken of processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _follow(data: Path) -> None:
    directory = DataDirectory(data, this_machine())
    with directory.catalogue() as catalogue:
        listed = [indexer(directory, catalogue).task()]
        await PeriodicTasks(lambda: listed).run()


if __name__ == "__main__":
    asyncio.run(_follow(Path(sys.argv[1])))
