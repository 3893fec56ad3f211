"""`ibi resolver set KEY VALUE ...`: settings that an administrator changes while the resolver runs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from ibi.errors import SetupError
from ibi.texts import say

_SETTINGS: Final = """\
settings:
  policy                   hardened, or strict for the letter of the standard
  registration             closed, or form where Archives may apply at /-/register
  connect_seconds          how long a connection to an Archive may take
  archive_seconds          how long an Archive's whole answer may take
  overall_seconds          how long a resolution may take
  hedge_seconds            how long likely holders are waited for before everybody is asked
  grace_seconds            how long the known holder of an original is waited for
  stale_after_seconds      after how long an older answer of a silent Archive is used
  stale_seconds            how old that may be; 0: never used; counts once the resolver is started anew
  negative_seconds         how long it is remembered that nobody holds an item; 0: not at all
  request_rate             resolutions a second that one reader may have Archives asked for; 0: no limit
  request_burst            how many of them at once
  admin                    the mail address of whoever runs it; '' for none
  aliases                  other names under which it answers, with commas between them; '' for none
  allow_private_archives   yes or no: whether Archives at addresses that are not public are contacted
  metrics_networks         networks from which /-/metrics may be read, with commas between them; '' for none
"""


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `set` to the subcommands of `resolver`."""
    text = "change settings; a running resolver follows within a second"
    parser = actions.add_parser(
        "set",
        help=text,
        description=text,
        epilog=_SETTINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the resolver's data directory"
    )
    parser.add_argument(
        "words", nargs="+", metavar="KEY VALUE", help="a setting and what it shall be; several may be given"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document with what has changed")
    parser.set_defaults(run=_set)


def _set(args: argparse.Namespace) -> int:
    from ibi.resolver.adjusting import AT_A_TERMINAL, adjust, said
    from ibi.resolver.evidence import FILE, Evidence

    if len(args.words) % 2:
        raise SetupError("give a value for each setting: ibi resolver set --data DIR KEY VALUE")
    changes = dict(zip(args.words[::2], args.words[1::2], strict=True))
    with closing(Evidence(args.data / FILE, time.time)) as evidence:
        found = adjust(args.data, changes, AT_A_TERMINAL, evidence, "command")
    for note in found.notes:
        print(say(note), file=sys.stderr)
    values: dict[str, Any] = {name: getattr(found.settings, name) for name in found.changed}
    if args.json:
        print(json.dumps(values))
        return 0
    for name, value in values.items():
        print(f"{name}: {said(value)}")
    if not values:
        print(say("nothing has changed"), file=sys.stderr)
    return 0
