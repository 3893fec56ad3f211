"""Whether the code of today is slower than that of an earlier commit: both measured turn about, in one run.

    python -m bench.against COMMIT [--only ROW ...] [--turns N] [--json FILE]

The source of COMMIT, and that of this checkout as it lies there, are copied into a temporary directory, and their
servers run beside each other on one core, where only one of them is asked at a time; the load is on the other core. A
ratio above 1 says that today's code does more. That by the processor counts what the servers worked, and is the one to
go by, as it depends less on what else the machine does; that by the clock sees waiting, too, such as for the disk.

Turns in which others kept a server from its core do not count, unless those were more than half: then the calmer half
counts. The median of n turns is uncertain by about the width of its middle half divided by the root of n: on a busy
machine that is much, and more turns are needed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.against_rows import ROWS, Setting, Side, Turn
from bench.disk import add_option, workplace
from bench.figures import figure, table
from bench.load import Refused
from bench.processes import NotHere, NotStarted, hold_this_process, run
from bench.resolving_load import NotRedirected
from bench.scale import SHORT, TINY
from bench.surroundings import machine
from bench.turns import turn_about

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.figures import Figure
    from bench.scale import Scale

ROOT: Final = Path(__file__).parent.parent
TURNS: Final = 12
STARTS: Final = 4
"""How often servers are started anew: two processes of the same program differ by a percent or two all their lives."""

CALM: Final = 0.2
"""A turn is calm where the server waited for a processor for at most this share of the time for which it had one."""

_THEN, _TODAY = "then", "today"
_HEADS: Final = (
    *("row", "µs of a processor for one, then", "today", "today to then, by the processor", "middle half"),
    *("by the clock", "middle half", "turns that count", "held up in them"),
)


@dataclass(frozen=True)
class ComparedLine:
    """The turns of one line of a row, of both sides, in the order in which they were taken."""

    row: str
    name: str
    then: tuple[Turn, ...]
    today: tuple[Turn, ...]

    @property
    def by_processor(self) -> Figure:
        """How many today's code does in a second of a processor, to how many the other one does, turn by turn."""
        return figure(today.count / today.worked * then.worked / then.count for then, today in self._calm())

    @property
    def by_clock(self) -> Figure:
        """The same in a second of the clock."""
        return figure(today.count / today.seconds * then.seconds / then.count for then, today in self._calm())

    @property
    def disturbed(self) -> float:
        """For how long the servers were held up in the turns that count, of the time for which they worked."""
        return statistics.median(_disturbed(pair) for pair in self._calm())

    def _calm(self) -> list[tuple[Turn, Turn]]:
        """The turns of both that go by: those in which neither was held up for long, or else the calmer half.

        What others do to the caches of a processor makes the same work cost twice as much, and not of both alike.
        """
        pairs = sorted(zip(self.then, self.today, strict=True), key=_disturbed)
        calm = sum(_disturbed(pair) <= CALM for pair in pairs)
        return pairs[: max(calm, (len(pairs) + 1) // 2)]

    def columns(self) -> tuple[str, ...]:
        """As the table has it."""
        costs = [
            figure(turn.worked / turn.count * 1e6 for turn in turns) for turns in (self.then, self.today)
        ]
        ratios = (self.by_processor, self.by_clock)
        return (
            f"{self.row}: {self.name}",
            *(f"{cost.median:,.1f}" for cost in costs),
            *(text for ratio in ratios for text in (f"{ratio.median:.3f}", _middle_half(ratio))),
            f"{len(ratios[0].runs)} of {len(self.then)}",
            f"{self.disturbed:.0%}",
        )


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a row failed."""
    args = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and directories go with us
    then = git("rev-parse", "--verify", f"{args.commit}^{{commit}}").decode().strip()
    today, began = git("describe", "--always", "--dirty").decode().strip(), time.monotonic()
    print(f"today ({today}) to {then[:7]}; {machine()}")
    print(
        f"{args.turns} turns of each or twice as many, turn about: medians, and the middle half", flush=True
    )
    hold_this_process()
    with workplace(args.dir, on_a_disk=not args.tiny) as place:
        sides = (source_of(then, place / _THEN), source_of_today(place / _TODAY))
        comparison = Comparison(place, sides, TINY if args.tiny else SHORT, args.turns)
        table(_HEADS, (line.columns() for line in comparison.lines(args.only or [*ROWS])))
    if any(line.disturbed > CALM for line in comparison.measured):
        print(
            f"\nWhere servers were held up for more than {CALM:.0%}, measure again when the machine is quiet."
        )
    print(f"\n{(time.monotonic() - began) / 60:.1f} minutes")
    for row, why in comparison.failed.items():
        print(f"{row} has no figures, or not all: {why}", file=sys.stderr)
    if args.json is not None:
        kept = {"then": then, "today": today, "lines": [asdict(line) for line in comparison.measured]}
        args.json.write_text(json.dumps(kept, indent=1))
    return 1 if comparison.failed else 0


@dataclass
class Comparison:
    """Two sides, and what has been measured of them so far."""

    place: Path
    sides: Sequence[Side]
    scale: Scale
    turns: int
    measured: list[ComparedLine] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Of rows: why."""

    def lines(self, rows: Sequence[str]) -> Iterator[ComparedLine]:
        """Measure these rows; a line as soon as it is there."""
        for row in rows:
            try:
                for line in self._lines_of(row):
                    self.measured.append(line)
                    yield line
            except (NotHere, NotStarted, NotRedirected, Refused, OSError) as error:
                self.failed[row] = str(error) or type(error).__name__

    def _lines_of(self, row: str) -> Iterator[ComparedLine]:
        found = dict[str, dict[str, list[Turn]]]()
        place = self.place / row
        place.mkdir()
        with ExitStack() as stack:
            starts = ROWS[row].prepare(Setting(stack, place, self.sides, self.scale))
            for at, turns in enumerate(self._shares(ROWS[row].factor)):
                names = [side.name for side in self.sides][:: -1 if at % 2 else 1]
                with ExitStack() as running:
                    runs = {name: starts[name](running) for name in names}
                    for line in runs[_TODAY]:
                        done = turn_about({name: runs[name][line] for name in names}, turns)
                        kept = found.setdefault(line, {name: [] for name in names})
                        for name in names:
                            kept[name] += done[name]
        shutil.rmtree(place)
        for line, sides in found.items():
            yield ComparedLine(row, line, tuple(sides[_THEN]), tuple(sides[_TODAY]))

    def _shares(self, factor: int) -> list[int]:
        """How many turns are taken after each start."""
        starts = min(STARTS, self.turns)
        return [factor * (self.turns // starts + (at < self.turns % starts)) for at in range(starts)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.against", description="whether today's code is slower than that of a commit"
    )
    parser.add_argument("commit", metavar="COMMIT", help="the earlier commit")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=[*ROWS], help=", ".join(ROWS))
    parser.add_argument(
        "--turns",
        type=_turns,
        default=TURNS,
        metavar="N",
        help=f"of each line; twice as many of short ones (default: {TURNS})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every turn in this file")
    parser.add_argument("--tiny", action="store_true", help="only show that the rows run; no figure is one")
    add_option(parser)
    return parser


def _turns(text: str) -> int:
    if (turns := int(text)) < 1:
        raise ValueError(text)
    return turns


def source_of(commit: str, folder: Path) -> Side:
    """The source of a commit. Nothing is written into the repository, as a worktree would be."""
    with tarfile.open(fileobj=BytesIO(git("archive", "--format=tar", commit, "src"))) as archive:
        archive.extractall(folder, filter="data")
    return _ready(Side(_THEN, folder / "src"))


def source_of_today(folder: Path) -> Side:
    """The source of this checkout as it lies there, with what is not committed; it may be edited meanwhile."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return _ready(Side(_TODAY, folder / "src"))


def _ready(side: Side) -> Side:
    """Compile its source, and make sure that it is what runs. Raises SystemExit where it is not."""
    run((sys.executable, "-m", "compileall", "-q", side.source))
    found = run((sys.executable, "-c", "import ibi; print(ibi.__file__)"), side.env).strip()
    if not Path(found).is_relative_to(side.source):
        raise SystemExit(f"the source of {side.name} would not be measured, but {found}")
    return side


def git(*words: str) -> bytes:
    """What git says about this checkout. Raises SystemExit where it says nothing."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)  # noqa: S603, S607 - our own command; wherever git lies
    if done.returncode:
        raise SystemExit(f"git {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _disturbed(pair: tuple[Turn, Turn]) -> float:
    """For how long the more disturbed one was held up, of the time for which it worked."""
    return max(turn.held_up / turn.worked for turn in pair)


def _middle_half(ratio: Figure) -> str:
    low, _, high = statistics.quantiles(ratio.runs) if len(ratio.runs) > 1 else ratio.runs * 3
    return f"{low:.3f} to {high:.3f}"


if __name__ == "__main__":
    sys.exit(main())
