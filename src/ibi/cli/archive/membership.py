"""`ibi archive join`, `leave`, `switch`, and `show` without an IBI: the Archive itself and its resolvers.

`ibi archive retire`: transferable originals move to another Archive, then this one leaves for good.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.membership.joining import Resolvers, split_base_url
from ibi.archive.operations import exchange
from ibi.archive.operations import membership as operations
from ibi.archive.replication.retiring import originals_of
from ibi.cli.archive.common import context_of, directory
from ibi.cli.archive.founding import print_registration
from ibi.cli.common import argument, flag, remark, remark_line, tell, tell_line
from ibi.cli.operations import add_operation, fields_of
from ibi.cli.progress import Progress
from ibi.errors import SetupError
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.memberships import MembershipRecord
    from ibi.cli.common import CommandGroup


_NEWS_WITHIN: Final = 4.0
"""Seconds that a command waits until a running server has heard from its resolvers."""


def add(actions: CommandGroup) -> None:
    """Add the subcommands."""
    flag(add_operation(actions, operations.JOIN, _join), "--json", "one JSON document")
    add_operation(actions, operations.LEAVE, _leave)
    switch = actions.add(operations.SWITCH.name, operations.SWITCH.summary, _switch)
    argument(switch, "which WHICH", "on or off", choices=("on", "off"))


def _join(args: argparse.Namespace) -> int:
    context = context_of(args)
    joined = operations.join(context, fields_of(args, operations.JoinFields))
    for warning in joined["warnings"]:
        tell_line(warning)
    print_registration(context.directory.settings(), joined["key"], as_json=args.json)
    return 0


def _leave(args: argparse.Namespace) -> int:
    fields = fields_of(args, operations.ResolverFields)
    url, _ = split_base_url(fields.resolver)
    with _not_served(directory(args)) as stopped:
        before = Resolvers.read(args.data)
        operations.leave(context_of(args), fields)
        if stopped:
            _ask_for_exclusion(directory(args), before, [url], for_good=True, forgetting=True)
    remark("this Archive has left {url}", url=url)
    return 0


def _switch(args: argparse.Namespace) -> int:
    on = args.which == "on"
    here = directory(args)
    with _not_served(here) as stopped:
        operations.switch(context_of(args), operations.SwitchFields(switched_on=on))
        resolvers = Resolvers.read(args.data)
        if not stopped:
            _print_outcome(here, resolvers, on=on)
        elif on:
            remark("the Archive is switched on; it takes part as soon as it is served")
        else:
            _ask_for_exclusion(here, resolvers, list(resolvers.keys))
            remark("the Archive is switched off, and stays so when it is served")
    return 0


@contextmanager
def _not_served(here: DataDirectory) -> Iterator[bool]:
    """Yield whether no process serves the Archive; if so, none can start to serve it during the block."""
    with ExitStack() as stack:
        try:
            stack.enter_context(here.serve_lock())
        except SetupError:
            stopped = False
        else:
            stopped = True
        yield stopped


def _ask_for_exclusion(
    here: DataDirectory,
    resolvers: Resolvers,
    urls: list[str],
    *,
    for_good: bool = False,
    forgetting: bool = False,
) -> None:
    """Ask resolvers to exclude this Archive, which a power cut may have left included; prints the outcome."""
    from ibi.app.archive import request_exclusions
    from ibi.archive.store.tables.memberships import forget

    with here.catalogue() as catalogue:
        for member in request_exclusions(catalogue, resolvers, urls, for_good=for_good):
            _print_member(member)
        if forgetting:
            with catalogue.writing() as writer:
                for url in urls:
                    forget(writer.run, url)


def _print_outcome(here: DataDirectory, resolvers: Resolvers, *, on: bool) -> None:
    """Wait a moment until the running server has heard from its resolvers, and print the outcome."""
    from ibi.archive.store.tables.memberships import all_memberships

    end = time.monotonic() + _NEWS_WITHIN
    with here.catalogue() as catalogue:
        while True:
            with catalogue.reading() as run:
                known = all_memberships(run)
            if all(_answered(known.get(url), on=on) for url in resolvers.keys) or time.monotonic() > end:
                break
            time.sleep(0.1)
    sentence = "the Archive is switched on" if on else "the Archive is switched off; it goes on answering"
    remark(sentence)
    for url in resolvers.keys:
        if url in known:
            _print_member(known[url])
        else:
            remark_line(f"{url}: -")


def _answered(member: MembershipRecord | None, *, on: bool) -> bool:
    """Return whether a resolver has made the change, or the request to it has failed."""
    included = member is not None and member.standing.included
    failed = member is not None and member.problem is not None
    return included or failed if on else not included or failed


def _print_member(member: MembershipRecord) -> None:
    print_line = tell_line if member.problem else remark_line
    print_line(_line(member))


def _line(member: MembershipRecord) -> str:
    """Return the membership at a resolver as a line."""
    from ibi.archive.preservation.status import STANDINGS

    line = f"{member.resolver}: {say(STANDINGS[member.standing])}"
    return f"{line} ({say(member.problem)})" if member.problem else line


def show_archive(args: argparse.Namespace) -> int:
    """Show the Archive itself: its identity, what it holds, its memberships, its tasks."""
    from ibi.archive.oai.provider import OAI
    from ibi.archive.preservation.status import identity, sections

    here = directory(args)
    resolvers = Resolvers.read(args.data)
    with _not_served(here) as stopped:
        pass  # the lock is released at once, because it would keep a server from starting
    with here.catalogue() as catalogue, catalogue.reading() as run:
        value: dict[str, Any] = {**identity(resolvers.settings), "served": not stopped}
        value["oai"] = f"{resolvers.settings.root}{OAI}"
        value |= sections(run, resolvers, say)
    if args.json:
        print(json.dumps(value, ensure_ascii=False))
        return 0
    for name, each in value.items():
        for number, line in enumerate(_lines_of(each)):
            print(f"{name if number == 0 else '':<13} {line}")
    return 0


def _lines_of(value: Any) -> list[str]:
    """Return a value for people, as one line or several."""
    if isinstance(value, bool):
        return [say("yes") if value else say("no")]
    if isinstance(value, dict):
        return [", ".join(f"{name} {each}" for name, each in value.items() if each not in {None, ""}) or "-"]
    if isinstance(value, list):
        return [line for each in value for line in _lines_of(each)] or ["-"]
    return [str(value) or "-"]


_ABOUT: Final = """\
Each original is handed over as `ibi archive transfer` does it; what is interrupted goes on when the command is given
again. When nothing is left that may go, the Archive says goodbye to its resolvers and takes part nowhere any more. It
may still be served: removed items, copies, and old links to its own address go on being answered.
"""


def add_retire(actions: CommandGroup) -> None:
    """Add the subcommand."""
    add_operation(actions, exchange.RETIRE, _retire, _ABOUT)


def _retire(args: argparse.Namespace) -> int:
    fields, context = fields_of(args, exchange.RetireFields), context_of(args)
    with Progress(say("originals handed over to {archive}", archive=fields.to)) as progress:
        context.progress = progress.at
        moved = exchange.move_everything(context, fields)
    for each in moved["problems"]:
        tell("{name} stays here. {problem}", name=each["ibi"], problem=each["problem"])
    print(say("{moved} handed over, {left} left here", moved=moved["moved"], left=moved["left"]))
    if moved["problems"]:
        tell("the Archive has not retired yet; the same command goes on where it was")
        return 1
    return _leave_for_good(args)


def _leave_for_good(args: argparse.Namespace) -> int:
    """Retire the Archive. Returns 1 if an original has been added meanwhile, else 0."""
    context = context_of(args)
    with _not_served(context.directory) as stopped:
        resolvers = exchange.leave_for_good(context)
        if stopped:
            _ask_for_exclusion(context.directory, resolvers, list(resolvers.keys), for_good=True)
        else:
            _print_outcome(context.directory, resolvers, on=False)
    with context.catalogue() as catalogue:
        late = next(originals_of(catalogue, transferable=True), None)
    if late is not None:
        tell("{name} came in meanwhile; give the same command again", name=late)
        return 1
    remark("the Archive has retired; what it remembers can still be served")
    return 0
