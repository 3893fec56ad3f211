"""`ibi mint recover`: repairs a lost, damaged or copied state of minting, and prints what it found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ibi.cli.common import argument, data_option, flag, listed_subsystems, quiet_option, tell, tell_line
from ibi.errors import IbiError, ParseError, SetupError
from ibi.identifier.dates import date_text
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.unwrapping import MAX_TEXT, unwrap
from ibi.runtime.i18n import say, say_count
from ibi.runtime.settings import ArchiveSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from ibi.cli.parser import Parser
    from ibi.identifier.forms import IBI
    from ibi.minting.state_row import StateRow

_WORD = re.compile(r"""[^\s"'<>(){}\[\],;|]+""")
_LONGEST_LABEL = 512  # characters of a line that may hold a label


def add_word(mint: Parser) -> None:
    """Add `recover` to the subcommands of `ibi mint`."""
    parser = mint.add_word("recover", "repair a state of minting that is lost, damaged, old or copied")
    data_option(parser, "where the last date was kept")
    argument(parser, "--subsystem NAME", "this one only of those that DIR/subsystems.toml lists")
    text = "a text file with labels that were given, bare or in links; none of them comes again"
    argument(parser, "--given FILE", text, type=Path)
    flag(parser, "--moved", "the directory was moved here, and no other machine mints from it any more")
    flag(parser, "--accept-clock", "the clock of this machine is right, although it has leapt")
    quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Repair, and print what was found. Raises LostState, ClockError or SetupError if it cannot be repaired.

    Of several subsystems, one that cannot be repaired is reported, the others are repaired; the status is 1.
    """
    from ibi.minting.clock import ClockLimits
    from ibi.minting.state import FOLDER

    names = listed_subsystems(args.data, ClockLimits(), args.subsystem)
    latest = _latest_known(args)
    if not names:
        _repair(args, args.data, latest)
    status = 0
    for name in names:
        directory = args.data / name
        print(f"{name}:")
        if not (directory / FOLDER).exists():
            print(say("no label has been given here yet"))
            continue
        try:
            _repair(args, directory, latest)
        except IbiError as error:
            tell_line(f"ibi: {name}: {say(error)}")
            status = 1
    return status


def _repair(args: argparse.Namespace, directory: Path, latest: int | None) -> None:
    from ibi.minting.machine import this_machine
    from ibi.minting.recovery import recover
    from ibi.minting.state import FOLDER, SENTENCES
    from ibi.runtime.shared.store import store_url

    row = row_of(directory)
    if row is None and store_url(directory) and not (directory / FOLDER).exists():
        # A node of a resolver: a waiting room here would be a second one beside that of the node that made it.
        raise SetupError("there is nothing to recover in {path}: no label was given there", path=directory)
    done = recover(
        directory, this_machine(), latest, moved=args.moved, clock_right=args.accept_clock, row=row
    )
    if done.fault:
        print(say(SENTENCES[done.fault], directory=directory if row is None else row.name))
    for name, date in (
        ("the last date in the state: {date}", done.state),
        ("in its replica: {date}", done.replica),
    ):
        print(say(name, date=date_text(date) if date else "-"))
    print(say("repaired: the next label is later than {date}", date=date_text(done.last)))
    if done.fault and not (done.state or done.replica or latest):
        tell("only the clock determines this: it must not be behind the clock of the labels given before")


def row_of(directory: Path) -> StateRow | None:
    """Return the row that an Archive mints from, if its store is a database that nodes share."""
    if not ArchiveSettings.exists(directory):
        return None
    from ibi.archive.store.data_directory import minting_row

    return minting_row(directory)


def _latest_known(args: argparse.Namespace) -> int | None:
    """Return the latest date, in ticks, of all labels in other sources; prints what each source has."""
    latest = None
    for source, lines in _sources(args):
        count, without, date = 0, 0, None
        for labels in lines:
            count += len(labels)
            without += not labels
            date = max(filter(None, (date, *(label.date.ticks for label in labels))), default=None)
        print(say_count(count, "{source}: {count} label", "{source}: {count} labels", source=source))
        if without:
            print("    " + say("lines without a label: {count}", count=without))
        if date is not None:
            print("    " + say("the latest: {date}", date=date_text(date)))
        latest = max(filter(None, (latest, date)), default=None)
    return latest


def _sources(args: argparse.Namespace) -> Iterator[tuple[str, Iterable[Sequence[IBI]]]]:
    """Yield each source of known labels, by name, with its labels, line by line."""
    if ArchiveSettings.exists(args.data):
        from ibi.archive.store.data_directory import DataDirectory
        from ibi.minting.machine import this_machine

        held = DataDirectory(args.data, this_machine()).own_labels()
        yield say("items held"), ((label,) for label in held)
    if args.given:
        yield str(args.given), _listed(args.given)


def _listed(path: Path) -> Iterator[Sequence[IBI]]:
    """Yield the labels of each line that is not blank. Raises SetupError if the text has no label."""
    found = False
    with path.open(encoding="utf-8", errors="replace") as text:
        for line in text:
            if not line.isspace():
                labels = list(_labels_in(line))
                found = found or bool(labels)
                yield labels
    if not found:
        raise SetupError("there is no label in {path}", path=path)


def _labels_in(line: str) -> Iterator[IBI]:
    """Yield the labels in a line, bare or in links; long words are read in pieces that overlap by a label."""
    for match in _WORD.finditer(unquote(line)):
        word = match[0]
        if "/" in word:
            for start in range(0, max(1, len(word) - _LONGEST_LABEL), MAX_TEXT - _LONGEST_LABEL):
                yield from _labels_of(word[start : start + MAX_TEXT])


def _labels_of(word: str) -> Iterator[IBI]:
    """Yield the labels in a word that a subsystem can have made, such as IBIps that spell an address."""
    try:
        unwrapped = unwrap(word)
    except ParseError:
        return
    for name in (unwrapped.ibi, *unwrapped.others):
        if not isinstance(name, LegacyId) and not (isinstance(name, IBIp) and name.ip is None):
            yield name
