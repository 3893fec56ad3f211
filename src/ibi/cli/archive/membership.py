"""`ibi archive join`, `leave`, `switch`, and `show` without an IBI: the Archive itself, and its place in networks."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from ibi.cli.archive.common import directory, tell
from ibi.cli.archive.founding import print_registration
from ibi.errors import SetupError
from ibi.texts import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.archive.directory import ArchiveDirectory
    from ibi.archive.ledgers.memberships import Member
    from ibi.archive.networking.joining import Resolvers
    from ibi.cli.archive.common import Actions

_NEWS_WITHIN: Final = 4.0
"""Seconds that a command waits for what a running server hears from its resolvers."""


def add(actions: Actions) -> None:
    """Add the subcommands."""
    join = actions.add("join", "name a resolver that the Archive takes part in", _join)
    _add_resolver(join)
    join.add_argument("--key", help="the registration key agreed with it, if it is a new one")
    join.add_argument(
        "--also", action="store_true", help="besides the others; without it, in the place of the first one"
    )
    join.add_argument("--json", action="store_true", help="one JSON document")
    leave = actions.add("leave", "take part at a resolver no more", _leave)
    _add_resolver(leave)
    switch = actions.add(
        "switch", "switch the Archive on or off at its resolvers; it goes on answering", _switch
    )
    switch.add_argument("which", choices=("on", "off"), metavar="WHICH", help="on or off")


def _add_resolver(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--resolver", required=True, metavar="URL", help="the root of the resolver: http://host[:port]"
    )


def _join(args: argparse.Namespace) -> int:
    from ibi.archive.networking.joining import Resolvers, key_warnings, root
    from ibi.settings import changing

    with changing(args.data):
        joined = Resolvers.read(args.data).joining(args.resolver, args.key, also=args.also)
        joined.write(args.data)
    url = root(args.resolver)
    for warning in key_warnings(url, joined.keys[url]):
        tell(say(warning))
    print_registration(joined.settings, joined.keys[url], as_json=args.json)
    return 0


def _leave(args: argparse.Namespace) -> int:
    from ibi.archive.networking.joining import Resolvers, root
    from ibi.settings import changing

    url = root(args.resolver)
    with nobody_serving(directory(args)) as nobody:
        with changing(args.data):
            before = Resolvers.read(args.data)
            before.leaving(url).write(args.data)
        if nobody:
            say_goodbye(directory(args), before, [url], for_good=True)
    tell(say("this Archive has left {url}", url=url))
    return 0


def _switch(args: argparse.Namespace) -> int:
    from ibi.archive.networking.joining import Resolvers
    from ibi.settings import changing

    on = args.which == "on"
    here = directory(args)
    with nobody_serving(here) as nobody:
        with changing(args.data):
            resolvers = Resolvers.read(args.data)
            resolvers.switching(on=on).write(args.data)
        if not nobody:
            tell_news(here, resolvers, on=on)
        elif on:
            tell(say("the Archive is switched on; it takes part as soon as it is served"))
        else:
            say_goodbye(here, resolvers, list(resolvers.keys))
            tell(say("the Archive is switched off, and stays so when it is served"))
    return 0


@contextmanager
def nobody_serving(here: ArchiveDirectory) -> Iterator[bool]:
    """Whether nobody serves the Archive; then nobody begins to before the end of the block."""
    with ExitStack() as stack:
        try:
            stack.enter_context(here.serving())
        except SetupError:
            nobody = False
        else:
            nobody = True
        yield nobody


def say_goodbye(
    here: ArchiveDirectory, resolvers: Resolvers, urls: list[str], *, for_good: bool = False
) -> None:
    """Say goodbye to resolvers that still ask this Archive, as after a power cut; what came of it is told."""
    from ibi import assembly
    from ibi.archive.ledgers.memberships import forget

    with here.catalogue() as catalogue:
        for member in assembly.farewell(catalogue, resolvers, urls):
            tell(_line(member))
        if for_good:
            with catalogue.writing() as writer:
                for url in urls:
                    forget(writer.run, url)


def tell_news(here: ArchiveDirectory, resolvers: Resolvers, *, on: bool) -> None:
    """Wait a moment for what the running server hears, and tell it."""
    from ibi.archive.ledgers.memberships import members

    end = time.monotonic() + _NEWS_WITHIN
    with here.catalogue() as catalogue:
        while True:
            with catalogue.reading() as run:
                known = members(run)
            if all(_heard(known.get(url), on=on) for url in resolvers.keys) or time.monotonic() > end:
                break
            time.sleep(0.1)
    sentence = "the Archive is switched on" if on else "the Archive is switched off; it goes on answering"
    tell(say(sentence))
    for url in resolvers.keys:
        tell(_line(known[url]) if url in known else f"{url}: -")


def _heard(member: Member | None, *, on: bool) -> bool:
    """Whether a resolver has said what there is to say, or cannot."""
    included = member is not None and member.standing.included
    failed = member is not None and member.problem is not None
    return included or failed if on else not included or failed


def _line(member: Member) -> str:
    """How the Archive stands at a resolver, for a person."""
    from ibi.archive.care.standing import STANDINGS

    line = f"{member.resolver}: {say(STANDINGS[member.standing])}"
    return f"{line} ({say(member.problem)})" if member.problem else line


def show_archive(args: argparse.Namespace) -> int:
    """Show the Archive itself: who it is, what it holds, how it stands at its resolvers, what goes on."""
    from ibi.archive.care.standing import identity, sections
    from ibi.archive.networking.joining import Resolvers
    from ibi.archive.oai.provider import OAI

    here = directory(args)
    resolvers = Resolvers.read(args.data)
    with nobody_serving(here) as nobody:
        pass  # only asked, so that nobody who begins to serve is held up
    with here.catalogue() as catalogue, catalogue.reading() as run:
        value: dict[str, Any] = {**identity(resolvers.settings), "served": not nobody}
        value["oai"] = f"http://{resolvers.settings.address}{OAI}"
        value |= sections(run, resolvers, say)
    if args.json:
        print(json.dumps(value, ensure_ascii=False))
        return 0
    for name, each in value.items():
        for number, line in enumerate(_shown(each)):
            print(f"{name if number == 0 else '':<13} {line}")
    return 0


def _shown(value: Any) -> list[str]:
    """One value for a person, one line or several."""
    if isinstance(value, bool):
        return [say("yes") if value else say("no")]
    if isinstance(value, dict):
        return [", ".join(f"{name} {each}" for name, each in value.items() if each not in {None, ""}) or "-"]
    if isinstance(value, list):
        return [line for each in value for line in _shown(each)] or ["-"]
    return [str(value) or "-"]
