"""`ibi mint recover`: repair of a lost, damaged or copied state, and what was found on the way."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.errors import ParseError, SetupError
from ibi.texts import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from ibi.cli.arguments import Parser
    from ibi.identifier.forms import IBI

_LABEL = re.compile(r"[A-Za-z0-9.@-]+(?:/[A-Za-z0-9.@-]+)+")


def add_word(mint: Parser) -> None:
    """Add `recover` to the words of `ibi mint`."""
    parser = mint.add_word("recover", "repair a state of minting that is lost, damaged, old or copied")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="where the last date was kept"
    )
    parser.add_argument(
        "--given",
        type=Path,
        metavar="FILE",
        help="a text with labels that were given; none of them comes again",
    )
    parser.add_argument(
        "--moved",
        action="store_true",
        help="the directory was moved here, and nobody else mints from it any more",
    )
    parser.add_argument(
        "--accept-clock",
        action="store_true",
        help="the clock of this machine is right, although it has leapt",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Repair, and say what was found. Raises LostState, ClockError or SetupError where that cannot be done."""
    from ibi.identifier.dates import date_text
    from ibi.minting.machine import this_machine
    from ibi.minting.recovery import recover
    from ibi.minting.state import SENTENCES

    latest = None
    for source, labels in _sources(args):
        count, date = _latest(labels)
        print(say("{source}: {count} labels", source=source, count=count))
        if date is not None:
            print("    " + say("the latest: {date}", date=date_text(date)))
        latest = max(filter(None, (latest, date)), default=None)
    done = recover(args.data, this_machine(), latest, moved=args.moved, clock_right=args.accept_clock)
    if done.fault:
        print(say(SENTENCES[done.fault], directory=args.data))
    for name, date in (
        ("the last date in the state: {date}", done.state),
        ("in its witness: {date}", done.witness),
    ):
        print(say(name, date=date_text(date) if date else "-"))
    print(say("repaired: the next label is later than {date}", date=date_text(done.last)))
    if done.fault and not (done.state or done.witness or latest):
        sentence = (
            "nothing but the clock tells this: it must not be behind the clock of the labels given before"
        )
        print(say(sentence), file=sys.stderr)
    return 0


def _sources(args: argparse.Namespace) -> Iterator[tuple[str, Iterable[IBI]]]:
    """Where labels are known from, and the labels."""
    from ibi.settings import ArchiveSettings

    if ArchiveSettings.exists(args.data):
        from ibi.archive.directory import ArchiveDirectory
        from ibi.minting.machine import this_machine

        yield say("items held"), ArchiveDirectory(args.data, this_machine()).own_labels()
    if args.given:
        yield str(args.given), _labels_in(args.given)


def _latest(labels: Iterable[IBI]) -> tuple[int, int | None]:
    """How many labels, and the latest date among them, in ticks."""
    count, latest = 0, None
    for label in labels:
        count += 1
        latest = max(filter(None, (latest, label.date.ticks)), default=None)
    return count, latest


def _labels_in(path: Path) -> Iterator[IBI]:
    """The labels in a text, whatever stands between them. Raises SetupError if there is none."""
    from ibi.identifier.forms import parse_ibi

    found = False
    with path.open(encoding="utf-8", errors="replace") as text:
        for line in text:
            for word in _LABEL.findall(line):
                try:
                    yield parse_ibi(word.strip("."))
                except ParseError:
                    continue
                found = True
    if not found:
        raise SetupError("there is no label in {path}", path=path)
