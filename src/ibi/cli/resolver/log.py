"""`ibi resolver log verify`, `log show` and `alerts`: checking and reading the evidence of a resolver."""

from __future__ import annotations

import json
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.api.fields import UNSET
from ibi.cli.common import argument, flag, number
from ibi.cli.operations import add_operation, fields_of
from ibi.cli.progress import Progress
from ibi.errors import IbiError, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.operations import evidence
from ibi.runtime.i18n import say
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from ibi.cli.common import CommandGroup
    from ibi.resolver.evidence.chain import Entry
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.evidence.reading import OriginalsAlert

_MOST_SHOWN = 1_000_000  # entries that --last may ask for


def add(actions: CommandGroup) -> None:
    """Add `log` with its two subcommands, and `alerts`."""
    text = "what happened to registrations and originals, each entry with the hash of the one before"
    words = actions.add_group("log", text, "WORD", described=False)
    add_operation(words, evidence.VERIFY, _verify, name="verify")
    show = add_operation(words, evidence.LOG, _show, name="show")
    last = number(_MOST_SHOWN)
    argument(show, "--last N", "only the last so many of them", type=last)
    flag(show, "--head", "only the number and the hash of the last entry, NUMBER:HASH, to be kept elsewhere")
    flag(show, "--json", "one JSON object a line")
    alerts = actions.add(
        "alerts", "print the alerts of two originals of one item, with the evidence", _alerts
    )
    argument(
        alerts, "--last N", "only so many of them, the latest (default: %(default)s)", type=last, default=20
    )
    flag(alerts, "--json", "one JSON object a line")


def _evidence(data: Path) -> Evidence:
    """Return the log of a resolver, or a copied log with its head. Raises SetupError if there is neither."""
    from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence

    # A copied log can be checked without the rest of the resolver (T42: missing evidence).
    if not (data / EVIDENCE_FILE).exists():
        ResolverSettings.read(data)
    return Evidence(data / EVIDENCE_FILE, time.time)


def _verify(args: argparse.Namespace) -> int:
    from ibi.resolver.evidence.chain import Anchor

    since = fields_of(args, evidence.VerifyFields).since
    anchor = None if since is UNSET else Anchor.parse(since)
    with Progress(say("checking the entries")):
        verdict = _evidence(args.data).verify(anchor)
    if verdict.fault is not None:
        raise verdict.fault
    if not verdict.entries:
        print(say("there are no entries"))
    elif verdict.damage:
        sentence = (
            "every entry is as it was written, up to {anchor}; entries that tell of earlier damage: {damage}"
        )
        print(say(sentence, anchor=verdict.last, damage=verdict.damage))
    else:
        print(say("every entry is as it was written, up to {anchor}", anchor=verdict.last))
    return 0


def _show(args: argparse.Namespace) -> int:
    fields_of(args, evidence.LogFields)  # refuses what a page and JSON refuse
    log = _evidence(args.data)
    everything = args.what is None and args.ibi is None
    if args.head:
        if not everything or args.last is not None:
            raise SetupError("--head can be combined only with --json")
        head = log.head()
        print(json.dumps(head._asdict()) if args.json else head)
        return 0
    lines: Iterable[bytes] = log.lines()
    if everything and args.last is not None:
        lines = deque(lines, maxlen=args.last)  # earlier lines need not be parsed
    selected: Iterable[tuple[bytes, Entry | None]] = _selected(args, lines)
    if args.last is not None:
        selected = deque(selected, maxlen=args.last)
    changed = 0
    for text, entry in selected:
        if entry is None:
            changed += 1
        elif args.json:
            print(text.decode("ascii"), end="")
        else:
            print(_entry_line(entry))
    if changed:
        raise IbiError("lines that are not as they were written, and are not shown: {count}", count=changed)
    return 0


def _selected(args: argparse.Namespace, lines: Iterable[bytes]) -> Iterator[tuple[bytes, Entry | None]]:
    """Yield the lines that the options select, with their entries, and every damaged line with None."""
    from ibi.resolver.evidence.chain import read_line
    from ibi.resolver.evidence.reading import mentions

    wanted = None if args.ibi is None else parse_ibi(args.ibi).canonical
    for text in lines:
        entry = read_line(text)
        if entry is None or (args.what in {None, entry.what} and (wanted is None or mentions(entry, wanted))):
            yield text, entry


def _alerts(args: argparse.Namespace) -> int:
    from ibi.resolver.evidence.log import EVIDENCE_FILE
    from ibi.resolver.evidence.reading import OriginalsAlerts, alert_facts

    _evidence(args.data)
    found, left, at, unread = OriginalsAlerts(args.data / EVIDENCE_FILE), args.last, 0, 0
    while left:
        page = found.read(at=at)
        for alert in page.alerts[:left]:
            if args.json:
                print(json.dumps(alert_facts(alert)))
            else:
                print(*_alert_lines(alert), sep="\n")
        left, at, unread = max(0, left - len(page.alerts)), page.at, unread + page.unread
        if not at:
            break
    if left == args.last and not args.json:
        print(say("No alerts of two originals lately."))
    if unread:
        raise IbiError("lines that are not as they were written, and are not shown: {count}", count=unread)
    return 0


def _alert_lines(alert: OriginalsAlert) -> Iterator[str]:
    """Yield an alert for people: its time and item, the first holder, and the entries about each claimant."""
    moment = _plain(alert.alert.moment)
    yield f"{moment}  {_plain(alert.item)}"
    if alert.first is not None:
        sentence = "First seen with the original: {archive}, on {moment}"
        archive = _plain(str(alert.first.facts.get("archive")))
        yield f"  {say(sentence, archive=archive, moment=_plain(alert.first.moment))}"
    for archive in alert.claimants:
        yield f"  {_plain(archive)}: {say('claimed the original on {moment}', moment=moment)}"
        for entry in alert.about(archive):
            yield f"    {_entry_line(entry)}"


def _entry_line(entry: Entry) -> str:
    """Return an entry as one line for people; text that is not plain ASCII stays escaped."""
    facts = (f"{name}={_fact(value)}" for name, value in entry.facts.items())
    return "  ".join((str(entry.number), _plain(entry.moment), _plain(entry.what), *facts))


def _fact(value: str | int) -> str:
    return json.dumps(value) if isinstance(value, str) and " " in value else _plain(str(value))


def _plain(text: str) -> str:
    return text if text.isascii() and text.isprintable() else json.dumps(text)
