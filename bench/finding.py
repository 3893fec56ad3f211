"""What finding costs: an import while the index is kept up to date beside it, the index itself, and questions to it.

    python -m bench.finding [--dir DIR] [--items N]

Items have the metadata of a thesis: a title of nine words, up to four people of a thousand, four subjects, an abstract
of a hundred words, a year, a language, a kind. Of the words a few are in nearly every item and most in a handful. Every
import is a process of its own, as `ibi archive import` is; the index is kept by another one, as by the first process of
a running Archive, and is looked at until it has caught up. Questions are asked in this process, one after the other,
each with the catalogue's facts of the twenty items that a page shows; their times are of a processor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.disk import add_option, surroundings, workplace
from bench.figures import table
from bench.importing import _archive, _in_a_process
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.finding import search as looking
from ibi.archive.finding import sitemaps
from ibi.archive.finding.index import Index
from ibi.archive.finding.question import Question
from ibi.archive.finding.results import results
from ibi.archive.finding.tables import FILE, BeingMade
from ibi.archive.networking.duties import Duties
from ibi.assembly.archive_finding import indexer
from ibi.minting.machine import this_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.archive.catalogue import Catalogue

ITEMS = 100_000
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
    "a rare word": Question(text=_W(5003)),
    "two words": Question(text=f"{_W(40)} {_W(90)}"),
    "a word of one item in fifteen": Question(text=_W(60)),
    "a word of nearly every item": Question(text=_W(0)),
    "three words that most items have": Question(text=f"{_W(0)} {_W(1)} {_W(2)}"),
    "a phrase of such words": Question(text=f'"{_W(0)} {_W(1)} {_W(2)}"'),
    "three letters a word begins with": Question(text="sen"),
    "five letters a word begins with": Question(text="mento"),
    "a word, a year and a language": Question(text=_W(3), year=2011, language="pt"),
    "a person": Question(person="Person77, Given Name"),
    "a word and a person": Question(text=_W(9), person="Person77 Given"),
    "a year": Question(year=2011),
    "a language": Question(language="pt"),
    "a word that nobody has": Question(text="nowhere"),
}


def main() -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(description="what finding costs")
    add_option(parser)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.follow:
        asyncio.run(_follow(args.follow))
        return
    with workplace(args.dir) as folder:
        print(f"{surroundings(folder)}; one run of imports, {_RUNS} of each question")
        lines = folder / "items.jsonl"
        _write(lines, args.items)
        table(_IMPORTS, _imports(folder, lines, args.items))
        data = folder / "kept"
        size = sum(path.stat().st_size for path in data.glob(f"{FILE}*")) / args.items
        print(f"\n{size:,.0f} bytes of disk for an item\n")
        with _catalogue(data) as catalogue, closing(Index(data)) as index:
            table(("question", "found", "ms", "the slowest"), _questions(index, catalogue))


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
    _archive(folder / "alone")
    alone = _in_a_process(folder / "alone", lines)["seconds"]
    yield ("alone", f"{count / alone:,.0f}", "", "")
    _archive(folder / "kept")
    with _following(folder / "kept") as process:
        _await(folder / "kept", 1)
        before = _processor_seconds(process.pid)
        seconds = _in_a_process(folder / "kept", lines)["seconds"]
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
        making = indexer(ArchiveDirectory(folder / "alone", this_machine()), catalogue)
        making.bring_up_to_date()
        making.close()
    yield ("none: the index of all made anew", "", "", f"after {time.perf_counter() - begun:,.1f} s")


def _questions(index: Index, catalogue: Catalogue) -> Iterator[tuple[str, str, str, str]]:
    def page(question: Question) -> str:
        found = looking.search(index, question)
        results(catalogue, found.entries)
        return f"more than {found.count:,}" if found.many else f"{found.count:,}"

    for name, question in _QUESTIONS.items():
        yield (name, page(question), *_times(lambda question=question: page(question)))  # type: ignore[misc]  # bound as it is now
    yield ("what changed last", "50", *_times(lambda: index.rows(looking.NEWS, {"most": 50})))
    yield ("years, languages, kinds, letters", "", *_times(lambda: _browse(index)))
    yield ("a sheet of the sitemap", "10,000", *_times(lambda: sitemaps.write_sheet(index, "http://x", 1)))


def _browse(index: Index) -> None:
    looking.years(index, 300)
    looking.values(index, "language", 100)
    looking.values(index, "kind", 100)
    looking.letters(index, 200)


def _times(ask: Callable[[], object]) -> tuple[str, str]:
    runs = []
    for _ in range(_RUNS):
        begun = time.process_time()
        ask()
        runs.append((time.process_time() - begun) * 1000)
    return f"{statistics.median(runs):.1f}", f"{max(runs):.1f}"


def _await(data: Path, count: int) -> None:
    """Wait until so many items are in the index."""
    with closing(Index(data)) as index:
        while True:
            with suppress(BeingMade):
                if index.size(None, None, "") >= count:
                    return
            time.sleep(0.05)


@contextmanager
def _catalogue(data: Path) -> Iterator[Catalogue]:
    with ArchiveDirectory(data, this_machine()).catalogue() as catalogue:
        yield catalogue


@contextmanager
def _following(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that keeps the index, as the first process of a running Archive does."""
    command = [sys.executable, "-m", "bench.finding", "--follow", str(data)]
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
    directory = ArchiveDirectory(data, this_machine())
    with directory.catalogue() as catalogue:
        listed = [indexer(directory, catalogue).duty()]
        await Duties(lambda: listed).run()


if __name__ == "__main__":
    main()
