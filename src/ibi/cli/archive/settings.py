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
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.cli import accounts
from ibi.cli.common import argument, flag, port, print_changes, tell
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.runtime.settings import ArchiveSettings, settings_lock

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ibi.archive.membership.joining import Resolvers
    from ibi.cli.common import CommandGroup

    _Readers = dict[str, tuple[Callable[[str], object] | None, str]]


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


_SETTINGS: Final[_Readers] = {
    "--address HOST[:PORT]": (None, "where it answers from now on; the old address goes on being answered"),
    "--ip IP": (None, "the IP address of its server"),
    "--admin MAIL": (None, "the administrator's mail address"),
    "--mint-host H": (None, "the host name in new labels; '' for no labels"),
    "--mint-ip A": (None, "the IP address in new IBIps; '' for labels without them"),
    "--granularity S": (None, "seconds between labels: 60, 1, 0.1, … or auto"),
    "--geo-database FILE": (None, "a MaxMind database that tells readers' countries; '' for none"),
    "--accel-prefix PATH": (None, "the internal location under which nginx serves DIR/col; '' for none"),
    "--files-group NAME": (None, "the group of a web server that may read the files of items; '' for none"),
    "--mint-port P": (port, "and its port"),
    "--mint-ip-port P": (port, "and its port"),
    "--platform-software IBI": (_forms, "the IBI of the software"),
}
_LISTS: Final = {
    "--alias HOST[:PORT]": ("aliases", "another name under which it answers"),
    "--network CIDR": ("networks", "a network whose readers may have what is restricted"),
    "--trusted-resolver CIDR": (
        "trusted_resolvers",
        "the network of a resolver whose word about readers' addresses is believed",
    ),
    "--trusted-proxy CIDR": (
        "trusted_proxies",
        "the network of a proxy whose X-Forwarded-For is believed",
    ),
}
_LIMITS: Final[_Readers] = {
    "--reuse-seconds N": (_number, "how long resolvers may reuse an answer; 0: not at all"),
    "--largest-upload N": (_number, "bytes of the largest file that is taken in over HTTP"),
    "--audit-days N": (
        _number,
        "within how many days every file is read again and compared; 0: only on demand",
    ),
    "--refresh-hours N": (_number, "how often copies are compared with their originals; 0: only on demand"),
    "--page-burst N": (_number, "how many pages about items one reader may have at once"),
    "--costly-burst N": (_number, "how many searches, feeds and the like one reader may have at once"),
    "--page-rate N": (_rate, "pages about items a second that one reader may have; 0: no limit"),
    "--costly-rate N": (_rate, "searches, feeds and the like a second that one reader may have; 0: no limit"),
    "--filter-answers yes|no": (_truth, "whether answers hold only what a request needs"),
    "--for-trying yes|no": (_truth, "whether labels may be minted under names that no one owns"),
}


def add_set(actions: CommandGroup) -> None:
    """Add the subcommand."""
    parser = actions.add("set", "change settings; a running server follows within a second", _set)
    # Without defaults, so that only what was given is changed.
    for usage, (read, text) in _SETTINGS.items():
        argument(parser, usage, text, type=read, default=SUPPRESS)
    for usage, (setting, text) in _LISTS.items():
        more = f"{text}; may be repeated, and replaces what was there; '' for none"
        argument(parser, usage, more, dest=setting, action="append", default=SUPPRESS)
    for usage, (read, text) in _LIMITS.items():
        argument(parser, usage, text, type=read, default=SUPPRESS)
    flag(parser, "--json", "one JSON document with what has changed")


def _set(args: argparse.Namespace) -> int:
    from ibi.archive.membership.founding import change_settings

    ours = {"data", "json", "run"}
    given = {name: value for name, value in vars(args).items() if name not in ours}
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if not changes:
        raise SetupError("nothing to change was given; see: ibi archive set --help")
    with settings_lock(args.data):
        found = change_settings(ArchiveSettings.read(args.data), changes)
        if found.changed:
            found.settings.write(args.data)
    for note in found.notes:
        tell(note)
    changed = {name: getattr(found.settings, name) for name in found.changed}
    values = {name: str(each) if isinstance(each, IBIForms) else each for name, each in changed.items()}
    return print_changes(values, partial(json.dumps, ensure_ascii=False), as_json=args.json)


def add_rotate_key(actions: CommandGroup) -> None:
    """Add the subcommand."""
    rotate = actions.add("rotate-key", "get a new key from a resolver; the old one is void", _rotate)
    argument(rotate, "--resolver URL", "the root URL of the resolver; without it, the first one")


def _rotate(args: argparse.Namespace) -> int:
    from ibi.archive.membership.joining import Resolvers, root_url

    resolvers = Resolvers.read(args.data)
    url = root_url(args.resolver) if args.resolver else resolvers.settings.resolver
    if url not in resolvers.keys:
        raise SetupError("this Archive takes no part at {url}", url=url or "-")
    key = asyncio.run(_new_key(args, resolvers, url))
    first = url == resolvers.settings.resolver
    with settings_lock(args.data):
        Resolvers.read(args.data).joining(url, key, also=not first).write(args.data)
    tell("this Archive has a new key at {url}", url=url)
    return 0


async def _new_key(args: argparse.Namespace, resolvers: Resolvers, url: str) -> str:
    from ibi.archive.membership.key_rotation import rotate_key
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


def add_account(actions: CommandGroup) -> None:
    """Add the subcommands."""
    roles = ("depositor", "keeper", "administrator")
    accounts.add_account(actions, roles, _ROLES, ArchiveSettings.read)


_SCOPES = """\
scopes:
  read       the history of items, and lists of files that are not public
  deposit    new items, and uploads
  edit       facts and files of items
  delete     removal of items
  transfer   what another Archive needs to take items over
  admin      all of these, names of one's own choice, and what administrators decide
"""


def add_token(actions: CommandGroup) -> None:
    """Add the subcommand."""
    parser = actions.add("token", "say who may do what over HTTP", _token, epilog=_SCOPES)
    what = parser.add_mutually_exclusive_group(required=True)
    argument(what, "--name NAME", "make a token under this name; it is shown only now")
    flag(what, "--list", "the names of the tokens, what each may do, and since when")
    argument(what, "--revoke NAME", "refuse this token from now on")
    argument(parser, "--scope SCOPES", "with --name: such as read,deposit", default="")
    flag(parser, "--json", "one JSON document")


def _token(args: argparse.Namespace) -> int:
    from ibi.accounts.tokens import Tokens, scopes_of

    ArchiveSettings.read(args.data)  # a token for no Archive is a slip of the finger
    tokens = Tokens(args.data)
    if args.list:
        return accounts.list_tokens(tokens, as_json=args.json)
    if args.revoke is not None:
        return accounts.revoke_token(tokens, args.revoke, as_json=args.json)
    return accounts.make_token(tokens, args.name, scopes_of(args.scope), as_json=args.json)
