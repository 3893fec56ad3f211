"""`ibi archive set`: settings that an administrator changes later; the service IBI is none of them (ARC-10).

`ibi archive rotate-key`: a new key at a resolver, for the proof that this Archive answers at its address.

`ibi archive account add`, `list`, `remove`, `password`: people who may sign in at the pages under /-/admin.

`ibi archive token`: who may change an Archive over HTTP, and what each may do.
"""

from __future__ import annotations

import asyncio
import json
import time
from argparse import SUPPRESS, ArgumentTypeError
from typing import TYPE_CHECKING, Final

from ibi.cli import accounts
from ibi.cli.accounts import AccountWords
from ibi.cli.archive.common import directory, directory_at, tell
from ibi.cli.arguments import port
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse

    from ibi.archive.membership.joining import Resolvers
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


def add_set(actions: Actions) -> None:
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
    from ibi.archive.membership.settings_changes import change_settings
    from ibi.runtime.settings import ArchiveSettings, settings_lock

    ours = {"data", "json", "do", "run", "action"}
    given = {name: value for name, value in vars(args).items() if name not in ours}
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if not changes:
        raise SetupError("nothing to change was given; see: ibi archive set --help")
    with settings_lock(args.data):
        found = change_settings(ArchiveSettings.read(args.data), changes)
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


def add_rotate_key(actions: Actions) -> None:
    """Add the subcommand."""
    rotate = actions.add("rotate-key", "get a new key from a resolver; the old one is void", _rotate)
    rotate.add_argument(
        "--resolver", metavar="URL", help="the root of the resolver; without it, the first one"
    )


def _rotate(args: argparse.Namespace) -> int:
    from ibi.archive.membership.joining import Resolvers, root_url
    from ibi.runtime.settings import settings_lock

    resolvers = Resolvers.read(args.data)
    url = root_url(args.resolver) if args.resolver else resolvers.settings.resolver
    if url not in resolvers.keys:
        raise SetupError("this Archive takes no part at {url}", url=url or "-")
    key = asyncio.run(_new_key(args, resolvers, url))
    first = url == resolvers.settings.resolver
    with settings_lock(args.data):
        Resolvers.read(args.data).joining(url, key, also=not first).write(args.data)
    tell(say("this Archive has a new key at {url}", url=url))
    return 0


async def _new_key(args: argparse.Namespace, resolvers: Resolvers, url: str) -> str:
    from ibi.archive.membership.membership import rotate_key
    from ibi.http.client import AddressPolicy
    from ibi.http.client.download import Downloads
    from ibi.runtime.nonce import Nonce

    # The administrator has typed the resolver's address, so it may be a private one.
    async with Downloads(AddressPolicy(allow_private=True)) as downloads:
        nonce = Nonce(args.data, time.time)
        return await rotate_key(downloads, url, resolvers.settings.service.main, nonce)


_ROLES = """\
roles:
  depositor        brings in new items
  keeper           corrects, removes, copies and hands over items too
  administrator    decides about the Archive itself too: accounts, tokens, imports, resolvers
"""


def add_account(actions: Actions) -> None:
    """Add the subcommands."""
    words = AccountWords(
        "the Archive's data directory",
        ("depositor", "keeper", "administrator"),
        _ROLES,
        lambda data: directory_at(data).settings(),
        "do",
    )
    words.add(actions.parsers)


_SCOPES = """\
scopes:
  read       the history of items, and lists of files that are not public
  deposit    new items, and uploads
  edit       facts and files of items
  delete     removal of items
  transfer   what another Archive needs to take items over
  admin      all of these, names of one's own choice, and what administrators decide
"""


def add_token(actions: Actions) -> None:
    """Add the subcommand."""
    parser = actions.add("token", "say who may do what over HTTP", _token, epilog=_SCOPES)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--name", metavar="NAME", help="make a token under this name; it is shown only now")
    what.add_argument(
        "--list", action="store_true", help="the names of the tokens, what each may do, and since when"
    )
    what.add_argument("--revoke", metavar="NAME", help="let nobody use this token any more")
    parser.add_argument("--scope", default="", metavar="SCOPES", help="with --name: such as read,deposit")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def _token(args: argparse.Namespace) -> int:
    from ibi.accounts.tokens import Tokens, scopes_of

    directory(args).settings()  # a token for no Archive is a slip of the finger
    tokens = Tokens(args.data)
    if args.list:
        return accounts.listed(tokens, as_json=args.json)
    if args.revoke is not None:
        return accounts.revoke(tokens, args.revoke, as_json=args.json)
    return accounts.make(tokens, args.name, scopes_of(args.scope), as_json=args.json)
