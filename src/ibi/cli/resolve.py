"""`ibi resolve TEXT`: asks where a persistent URL leads, without being counted as a reader."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from ibi.cli.common import argument, flag, quiet_option
from ibi.cli.progress import Progress
from ibi.client.answers import Refused, members_of, refusal_of
from ibi.client.resolver import Resolver
from ibi.client.transport import PROBLEM, Retries
from ibi.errors import IbiError, PeerGarbled
from ibi.http.response import visible
from ibi.protocol.persistent_url import persistent_path
from ibi.runtime.environment import environment_resolver
from ibi.runtime.i18n import reader_language, say

if TYPE_CHECKING:
    import argparse

ONCE = Retries(attempts=1)
"""A person is told at once what has failed."""

_SECONDS = 15  # timeout; every resolution takes less


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `resolve` to the commands."""
    parser = commands.add_parser("resolve", help="ask a resolver where a persistent URL leads")
    argument(parser, "text TEXT", "a persistent URL, an IBI, or a text with one in it")
    known = environment_resolver()
    text = "the root URL of the resolver; without it, what IBI_RESOLVER says in the environment"
    argument(parser, "--resolver URL", text, default=known, required=known is None)
    flag(parser, "--explain", "tell who was asked and who answered what")
    argument(parser, "--language RANGES", "what a browser would send as Accept-Language")
    flag(parser, "--json", "one JSON document: the explanation")
    quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the URL, or the explanation. Raises IbiError if the resolver gives no URL."""
    target = persistent_path(args.text)
    asking = Progress(say("asking {url}", url=args.resolver))
    with asking, resolver_at(args.resolver, args.language) as resolver:
        try:
            if args.explain or args.json:
                return _explain(resolver, target, as_json=args.json)
            print(visible(resolver.resolve(target).url))
        except Refused as refused:
            raise _with_counts(refused) from None
    return 0


def resolver_at(url: str, language: str | None = None) -> Resolver:
    """Return a client of a resolver for one command. Raises SetupError."""
    return Resolver(url, language=language or reader_language(), timeout=_SECONDS, retries=ONCE)


def _explain(resolver: Resolver, target: str, *, as_json: bool) -> int:
    wanted = "application/json" if as_json else "text/plain"
    reply = resolver.ask("GET", f"/-/explain{target}", wanted)
    if reply.kind == PROBLEM:
        raise refusal_of(reply, resolver.host)
    if reply.status != HTTPStatus.OK or reply.kind != wanted:
        raise PeerGarbled("this resolver does not explain what it does")
    if as_json:
        print(json.dumps(members_of(reply, resolver.host).all, ensure_ascii=False, indent=1))
    else:
        print(reply.body.decode("utf-8", "replace"), end="")
    return 0 if reply.outcome == HTTPStatus.FOUND else 1


def _with_counts(refused: Refused) -> IbiError:
    """Return a refusal as an error of one line, with the number of Archives that were asked."""
    counts = refused.facts.get("archives")
    if not isinstance(counts, dict):
        return refused
    sentence = "Archives queried: {asked}; answered: {answered}"
    sentences = say(sentence, asked=counts.get("asked"), answered=counts.get("answered"))
    return IbiError("{line}", line=f"{refused} {sentences}")
