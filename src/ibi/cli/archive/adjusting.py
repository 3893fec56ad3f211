"""`ibi archive set`: settings that an administrator changes later; the service IBI is none of them (ARC-10)."""

from __future__ import annotations

import json
from argparse import SUPPRESS, ArgumentTypeError
from typing import TYPE_CHECKING, Final

from ibi.cli.archive.common import tell
from ibi.cli.arguments import port
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.texts import say

if TYPE_CHECKING:
    import argparse

    from ibi.cli.archive.common import Actions

_NUMBERS: Final = {
    "reuse-seconds": ("N", "how long resolvers may reuse an answer; 0: not at all"),
    "largest-upload": ("N", "bytes of the largest file that is taken in over HTTP"),
    "audit-days": ("N", "within how many days every file is read again and compared; 0: only on demand"),
    "refresh-hours": ("N", "how often copies are compared with their originals; 0: only on demand"),
    "page-burst": ("N", "how many pages about items one reader may have at once"),
    "costly-burst": ("N", "how many searches, feeds and the like one reader may have at once"),
}
_RATES: Final = {
    "page-rate": ("N", "pages about items a second that one reader may have; 0: nobody is limited"),
    "costly-rate": ("N", "searches, feeds and the like a second that one reader may have; 0: no limit"),
}
_TRUTHS: Final = {
    "filter-answers": ("yes|no", "whether answers hold only what a request needs"),
    "for-trying": ("yes|no", "whether labels may be made under names that nobody owns"),
}
_LISTS: Final = {
    "alias": ("aliases", "HOST[:PORT]", "another name under which it answers"),
    "network": ("networks", "CIDR", "a network whose readers may have what is restricted"),
    "trusted-resolver": (
        "trusted_resolvers",
        "CIDR",
        "a resolver whose word about readers' addresses is believed",
    ),
    "trusted-proxy": (
        "trusted_proxies",
        "CIDR",
        "a proxy before this Archive whose X-Forwarded-For is believed",
    ),
}


def add(actions: Actions) -> None:
    """Add the subcommand."""
    parser = actions.add("set", "change settings; a running server follows within a second", _set)
    texts = {
        "address": ("HOST[:PORT]", "where it answers from now on; the old address goes on being answered"),
        "ip": ("IP", "the IP address of its server"),
        "admin": ("MAIL", "the administrator's mail address"),
        "mint-host": ("H", "the host name in new labels; '' for no labels"),
        "mint-ip": ("A", "the IP address in new IBIps; '' for labels without them"),
        "granularity": ("S", "seconds between labels: 60, 1, 0.1, … or auto"),
        "geo-database": ("FILE", "a MaxMind database that tells readers' countries; '' for none"),
        "accel-prefix": ("PATH", "the internal location under which nginx serves DIR/col; '' for none"),
    }
    for name, (shown, text) in texts.items():
        parser.add_argument(f"--{name}", metavar=shown, default=SUPPRESS, help=text)
    for name in ("mint-port", "mint-ip-port"):
        parser.add_argument(f"--{name}", type=port, metavar="P", default=SUPPRESS, help="and its port")
    parser.add_argument(
        "--platform-software", type=_forms, metavar="IBI", default=SUPPRESS, help="the IBI of the software"
    )
    for name, (setting, shown, text) in _LISTS.items():
        more = f"{text}; may be repeated, and replaces what was there; '' for none"
        parser.add_argument(
            f"--{name}", dest=setting, action="append", metavar=shown, default=SUPPRESS, help=more
        )
    for name, (shown, text) in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=_number, metavar=shown, default=SUPPRESS, help=text)
    for name, (shown, text) in _RATES.items():
        parser.add_argument(f"--{name}", type=_rate, metavar=shown, default=SUPPRESS, help=text)
    for name, (shown, text) in _TRUTHS.items():
        parser.add_argument(f"--{name}", type=_truth, metavar=shown, default=SUPPRESS, help=text)
    parser.add_argument("--json", action="store_true", help="one JSON document with what has changed")


def _set(args: argparse.Namespace) -> int:
    from ibi.archive.networking.adjusting import adjusted
    from ibi.settings import ArchiveSettings, changing

    ours = {"data", "json", "do", "run", "action"}
    given = {name: value for name, value in vars(args).items() if name not in ours}
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if not changes:
        raise SetupError("nothing to change was given; see: ibi archive set --help")
    with changing(args.data):
        found = adjusted(ArchiveSettings.read(args.data), changes)
        if found.changed:
            found.settings.write(args.data)
    for note in found.notes:
        tell(say(note))
    values = {name: getattr(found.settings, name) for name in found.changed}
    if args.json:
        print(json.dumps({name: _plain(value) for name, value in values.items()}))
        return 0
    for name, value in values.items():
        print(f"{name}: {json.dumps(_plain(value), ensure_ascii=False)}")
    if not values:
        tell(say("nothing has changed"))
    return 0


def _plain(value: object) -> object:
    return str(value) if isinstance(value, IBIForms) else value


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):  # noqa: PLR2004 - more than any setting takes
        raise ArgumentTypeError(f"not a number: {text}")
    return int(text)


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"not a number: {text}") from None


def _truth(text: str) -> bool:
    if text not in {"yes", "no"}:
        raise ArgumentTypeError(f"not yes or no: {text}")
    return text == "yes"


def _forms(text: str) -> IBIForms:
    try:
        return IBIForms.of(parse_ibi(text))
    except ValueError as error:
        raise ArgumentTypeError(f"{error}: {text}") from None
