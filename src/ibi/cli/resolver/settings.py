"""`ibi resolver set KEY VALUE ...`: changes settings, even while the resolver runs.

`ibi resolver move-store`: moves it into a store that nodes share, or back.

`ibi resolver institution`: shows and changes how the institution presents itself on the pages.

`ibi resolver token add`, `list`, `remove`: tokens of programs that may do over HTTP what the pages do.

`ibi resolver account add`, `list`, `remove`, `password`: people who may sign in at the pages under /-/admin.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from ibi.api.fields import described, given, read_texts
from ibi.cli import accounts
from ibi.cli.common import argument, flag, print_changes, tell
from ibi.cli.institution import add_institution
from ibi.errors import SetupError
from ibi.resolver.operations.settings import SettingsFields
from ibi.runtime.i18n import say
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ibi.accounts.tokens import Scope
    from ibi.cli.common import CommandGroup


_FOR_THE_COMMAND: Final = {
    "aliases": "Other names under which it answers, with commas between them; '' for none",
    "allow_private_archives": "yes or no: whether Archives at addresses that are not public are contacted",
    "public_url": "The root of the URLs that readers and programs get, such as https://urlib.net; '' for http://",
    "metrics_networks": "Networks from which /-/metrics may be read, with commas between them; '' for none",
}
"""Settings that only the command can change, not the pages or the JSON interface."""


def _settings() -> str:
    """Return the list of settings and their meanings for the help of `set`."""
    texts = {each.name: each.text for each in described(SettingsFields)} | _FOR_THE_COMMAND
    return "\n".join([say("settings:"), *(f"  {name:<23}  {say(text)}" for name, text in texts.items())])


def _set(args: argparse.Namespace) -> int:
    from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
    from ibi.resolver.members.settings_changes import CHANGEABLE_BY_COMMAND, change_settings, setting_text

    if len(args.words) % 2:
        raise SetupError("give a value for each setting: ibi resolver set --data DIR KEY VALUE")
    changes: dict[str, Any] = dict(zip(args.words[::2], args.words[1::2], strict=True))
    fields = {name: [text] for name, text in changes.items() if name in SettingsFields.__struct_fields__}
    changes |= given(read_texts(SettingsFields, fields))
    with closing(Evidence(args.data / EVIDENCE_FILE, time.time)) as evidence:
        found = change_settings(args.data, changes, CHANGEABLE_BY_COMMAND, evidence, "command")
    for note in found.notes:
        tell(note)
    values = {name: getattr(found.settings, name) for name in found.changed}
    return print_changes(values, setting_text, as_json=args.json)


_SCOPES: Final = """\
scopes:
  read       who is registered and how they are, alerts, the log, the settings
  admin      all of these, and whatever administrators decide
  resolve    none of these: a resolver that asks this one counts by its token, and may ask 16 times as much as a reader
"""


_ROLES = """\
roles:
  administrator    decides about who takes part: applications, moves, accounts
"""


def _scopes() -> Sequence[Scope]:
    from ibi.app.resolver_admin import SCOPES  # imported late: it is slow, and only one command needs it

    return SCOPES


def _move_store(args: argparse.Namespace) -> int:
    from ibi.app.resolver_moving import move_to_files, move_to_store
    from ibi.runtime.settings.rules import check_store

    if args.to in {"files", "file"}:  # the second is the word of the Archive's command
        move_to_files(args.data)
    else:
        check_store("--to", args.to)
        move_to_store(args.data, args.to)
    print(say("moved; what was there before stays where it is"))
    return 0


def add(actions: CommandGroup) -> None:
    """Add `account`, `token`, `institution`, `set` and `move-store`."""
    service = accounts.Service(ResolverSettings.read, ("administrator",), _scopes)
    accounts.add_accounts(actions, service, _ROLES)
    text = "say which programs may do over HTTP what the pages under /-/admin do"
    accounts.add_token_words(actions.add_group("token", text, "WORD"), service, _SCOPES)
    add_institution(actions)
    text = "change settings; a running resolver follows within a second"
    changing = actions.add("set", text, _set, _settings())
    changing.description = text
    text = "a setting and what it shall be; several may be given, one after the other"
    argument(changing, "words KEY VALUE", text, nargs="+")
    flag(changing, "--json", "one JSON document with what has changed")
    text = "move the resolver into a database that nodes share, or back into files; nothing may run meanwhile"
    moving = actions.add("move-store", text, _move_store)
    argument(
        moving, "--to URL", "the database, postgresql://user:password@host/name, or: files", required=True
    )
