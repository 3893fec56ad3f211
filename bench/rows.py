"""The rows of `make bench`: what each is called, what it measures, and how."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from bench.processes import program

if TYPE_CHECKING:
    from pathlib import Path

    from bench.scale import Scale


@dataclass(frozen=True)
class Row:
    """One row: a function of a module of this folder, which prints its tables."""

    what: str
    place: str
    """`module:function` of a directory on the disk and a Scale."""
    part: str = ""
    """Where the function is for several rows: which of them."""
    needs: tuple[str, ...] = ()
    """Programs without which nothing can be measured."""
    short: bool = True
    """Whether it is among those of `make bench`; otherwise only of `make bench-full`, unless it is asked for."""

    def measure(self, place: Path, scale: Scale) -> None:
        """Measure and print. Raises NotHere where something is lacking that nothing can be measured without."""
        for name in self.needs:
            program(name)
        module, _, function = self.place.partition(":")
        work = getattr(import_module(f"bench.{module}"), function)
        if self.part:
            work(place, scale, self.part)
        else:
            work(place, scale)


ROWS: Final = {
    "codecs": Row("reading and writing identifiers and pair lists", "pure:measure"),
    "minting": Row("labels in one process, beside SQLite", "minting:measure"),
    "minting-http": Row("labels over HTTP, beside arklet", "minting_http:measure"),
    "answers": Row("URL requests to an Archive", "answers:measure", needs=("wrk",)),
    "import": Row("items taken in", "importing:measure"),
    "redirect": Row(
        "a warm redirect, beside nginx, uvicorn alone and arklet", "redirect:measure", needs=("wrk", "nginx")
    ),
    "trace": Row(
        "clicks by Zipf's law while items change, beside nginx", "trace:measure", needs=("wrk", "nginx")
    ),
    "hinted": Row("a hinted resolution", "resolving:measure", "latency"),
    "messages": Row("questions for one redirect", "resolving:measure", "messages"),
    "fan-out": Row("all Archives asked, beside other clients", "resolving:measure", "fan-out"),
    "fan-out-sizes": Row("10, 100, 500 Archives asked", "growth:fan_out", needs=("wrk",)),
    "hanging": Row("Archives that hang", "resolving:measure", "hanging", short=False),
    "hints": Row("growth with items: rate, memory, start-up", "growth:hints", needs=("wrk",)),
    "look-up": Row("one look-up of a hint", "hints:measure", short=False),
    "archives": Row("growth with Archives", "growth:archives", needs=("wrk",)),
    "stores": Row("a catalogue in PostgreSQL, beside SQLite", "stores:measure", needs=("wrk",)),
    "store-import": Row("items taken into PostgreSQL, beside SQLite", "stores:imports"),
    "store-growth": Row("a large catalogue in PostgreSQL", "store_sizes:growth", needs=("wrk",)),
    "store-redirect": Row(
        "a warm redirect of a resolver with a store, beside one without",
        "store_sizes:redirects",
        needs=("wrk",),
    ),
    "files": Row("stored files, beside nginx", "files:measure", needs=("wrk", "nginx")),
    "pages": Row("pages about items", "pages:measure", needs=("wrk",)),
    "finding": Row("the index and questions to it", "finding:measure", short=False),
    "harvesting": Row("OAI-PMH", "harvesting:measure"),
}
