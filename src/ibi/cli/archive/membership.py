"""`ibi archive join`, `leave`, `switch`, and `show` without an IBI: the Archive itself, and its place in networks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ibi.cli.archive.common import directory, tell
from ibi.cli.archive.founding import print_registration
from ibi.errors import SetupError
from ibi.texts import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.archive.catalogue import Run
    from ibi.archive.directory import ArchiveDirectory
    from ibi.archive.ledgers.memberships import Member
    from ibi.archive.networking.joining import Resolvers
    from ibi.cli.archive.common import Actions

_STANDINGS: Final = {
    "waiting": "waiting",
    "included": "included",
    "included, not confirmed": "included, not confirmed",
    "refused": "refused",
    "excluded": "excluded",
}
"""How an Archive stands at a resolver, in words."""

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

    joined = Resolvers.read(args.data).joining(args.resolver, args.key, also=args.also)
    joined.write(args.data)
    url = root(args.resolver)
    for warning in key_warnings(url, joined.keys[url]):
        tell(say(warning))
    print_registration(joined.settings, joined.keys[url], as_json=args.json)
    return 0


def _leave(args: argparse.Namespace) -> int:
    from ibi.archive.networking.joining import Resolvers, root

    url = root(args.resolver)
    before = Resolvers.read(args.data)
    left = before.leaving(url)
    with nobody_serving(directory(args)) as nobody:
        left.write(args.data)
        if nobody:
            say_goodbye(directory(args), before, [url], for_good=True)
    tell(say("this Archive has left {url}", url=url))
    return 0


def _switch(args: argparse.Namespace) -> int:
    from ibi.archive.networking.joining import Resolvers

    resolvers = Resolvers.read(args.data)
    on = args.which == "on"
    if resolvers.settings.retired:
        raise SetupError("this Archive has retired, and stays switched off")
    here = directory(args)
    with nobody_serving(here) as nobody:
        replace(resolvers.settings, switched_on=on).write(args.data)
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
    line = f"{member.resolver}: {say(_STANDINGS[member.standing])}"
    return f"{line} ({say(member.problem)})" if member.problem else line


def show_archive(args: argparse.Namespace) -> int:
    """Show the Archive itself: who it is, what it holds, how it stands at its resolvers, what goes on."""
    from ibi.archive.networking.joining import Resolvers

    here = directory(args)
    resolvers = Resolvers.read(args.data)
    with nobody_serving(here) as nobody:
        pass  # only asked, so that nobody who begins to serve is held up
    with here.catalogue() as catalogue, catalogue.reading() as run:
        value = {**_identity(resolvers), "served": not nobody}
        for name, facts in _SECTIONS.items():
            value[name] = facts(run, resolvers)
    if args.json:
        print(json.dumps(value, ensure_ascii=False))
        return 0
    for name, each in value.items():
        for number, line in enumerate(_shown(each)):
            print(f"{name if number == 0 else '':<13} {line}")
    return 0


def _identity(resolvers: Resolvers) -> dict[str, Any]:
    from ibi.archive.oai.provider import OAI

    settings = resolvers.settings
    return {
        "service": str(settings.service),
        "address": settings.address,
        "oai": f"http://{settings.address}{OAI}",
        "aliases": list(settings.aliases),
        "ip": settings.ip,
        "admin": settings.admin,
        "labels": settings.mint_host,
        "switched_on": settings.switched_on,
        "retired": settings.retired,
    }


def _shown(value: Any) -> list[str]:
    """One value for a person, one line or several."""
    if isinstance(value, bool):
        return [say("yes") if value else say("no")]
    if isinstance(value, dict):
        return [", ".join(f"{name} {each}" for name, each in value.items() if each not in {None, ""}) or "-"]
    if isinstance(value, list):
        return [line for each in value for line in _shown(each)] or ["-"]
    return [str(value) or "-"]


def _items(run: Run, _all: Resolvers) -> dict[str, int]:
    from ibi.archive.ledgers.inventory import states

    return {state.value: count for state, count in states(run).items()}


def _resolvers(run: Run, resolvers: Resolvers) -> list[dict[str, str]]:
    from ibi.archive.ledgers.memberships import members

    known = members(run)
    found = []
    for url in (*resolvers.keys, *(known.keys() - resolvers.keys.keys())):
        member = known.get(url)
        found.append({
            "url": url,
            "standing": say(_STANDINGS[member.standing]) if member else say("not asked yet"),
            "since": member.since if member else "",
            "heard": member.heard if member else "",
            "problem": say(member.problem) if member and member.problem else "",
        })  # fmt: skip
    return found


def _transfers(run: Run, _all: Resolvers) -> list[dict[str, str]]:
    from ibi.archive.ledgers.transfers import main_name, open_givings

    return [
        {
            "item": main_name(run, giving.item),
            "to": giving.address,
            "stage": giving.stage.value,
            "since": giving.moment,
            "problem": say(giving.problem) if giving.problem else "",
        }
        for giving in open_givings(run)
    ]


def _copies(run: Run, _all: Resolvers) -> dict[str, int | str]:
    from ibi.archive.ledgers.inventory import lagging

    count, since = lagging(run)
    return {"lagging": count, "since": since}


def _audit(run: Run, _all: Resolvers) -> dict[str, int | str]:
    from ibi.archive.care.audit_duty import WALK
    from ibi.archive.item_lines import timestamp_text
    from ibi.archive.ledgers.fixity import faults, place_of, total

    place = place_of(run, WALK)
    return {
        "files": total(run)[0],
        "faults": len(faults(run)),
        "begun": timestamp_text(int(place.begun)) if place else "",
        "ended": say("yes") if place and place.ended else say("no"),
    }


_SECTIONS: Final[dict[str, Callable[[Run, Resolvers], Any]]] = {
    "items": _items,
    "resolvers": _resolvers,
    "transfers": _transfers,
    "copies": _copies,
    "audit": _audit,
}
"""What the ledgers tell, in the order in which it is shown: each gives a dict, or a list of them."""
