"""`ibi resolver export-registry` and `import-registry`: a resolver's Archives, signed, for other resolvers to ask."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.errors import ForbiddenAddress, SetupError
from ibi.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.resolver.mirror import RegistryList
    from ibi.resolver.registry.mirroring import Mirrored
    from ibi.transport import HostPort


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both to the subcommands of `resolver`."""
    export = actions.add_parser("export-registry", help="write the signed list of the included Archives")
    _add_data(export)
    export.add_argument("file", metavar="FILE", help="where to write it; - is the standard output")
    export.set_defaults(run=_export)
    take = actions.add_parser("import-registry", help="ask the Archives of another resolver too")
    _add_data(take)
    take.add_argument(
        "list",
        nargs="?",
        metavar="LIST",
        help="a file, its URL, or the root URL of the resolver",
    )
    take.add_argument(
        "--key", required=True, metavar="PUBLICKEY", help="its key: 64 digits, as it tells it at /-/about"
    )
    take.add_argument(
        "--forget", action="store_true", help="ask none of the Archives that came with its lists any more"
    )
    take.add_argument("--json", action="store_true", help="one JSON document")
    take.set_defaults(run=_import)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the resolver's data directory"
    )


def _export(args: argparse.Namespace) -> int:
    from ibi import assembly
    from ibi.resolver.mirror import Publisher
    from ibi.settings import ResolverSettings
    from ibi.signing import signer

    settings = ResolverSettings.read(args.data)
    registry = assembly.registry(args.data)
    try:
        made = signer(args.data)
        text = Publisher(registry, settings.service, settings.address, lambda: made, time.time).text()
    finally:
        registry.close()
    if args.file == "-":
        sys.stdout.buffer.write(text)
        return 0
    Path(args.file).write_bytes(text)
    print(say("the list is in {path}, signed with this key:", path=args.file), file=sys.stderr)
    print(made.public)
    return 0


def _import(args: argparse.Namespace) -> int:
    from ibi import assembly
    from ibi.resolver.mirror import RegistryList, read_list, take
    from ibi.settings import ResolverSettings

    settings = ResolverSettings.read(args.data)
    if args.forget == (args.list is not None):
        raise SetupError("give a list to be taken, or --forget")
    key = args.key.strip().lower()
    registry = assembly.registry(args.data)
    try:
        if args.forget:
            found = RegistryList("", registry.mirrored_at(key), ())
        else:
            own = _host_ports((settings.address, *settings.aliases))
            found = read_list(_text(args.list), key, time.time(), own)
        done = take(registry, found, key)
    finally:
        registry.close()
    _tell(args, found, done)
    return 0


def _tell(args: argparse.Namespace, found: RegistryList, done: Mirrored) -> None:
    counts = {
        "added": done.added,
        "changed": done.changed,
        "gone": done.gone,
        "registered_here": done.elsewhere,
        "left_out": found.odd,
    }
    if args.json:
        print(json.dumps({"resolver": found.resolver, "issued": found.issued, **counts}))
        return
    sentence = "Archives: {added} new, {changed} changed, {gone} gone"
    print(say(sentence, added=done.added, changed=done.changed, gone=done.gone))
    if done.elsewhere:
        print(say("known here already, and left as they are: {count}", count=done.elsewhere))
    if found.odd:
        print(say("left out, because they cannot be asked from here: {count}", count=found.odd))


def _text(source: str) -> bytes:
    """The list as it was signed. Raises PeerError, SetupError."""
    from ibi.resolver.mirror import LONGEST

    if source.lower().startswith(("http://", "https://")):
        return asyncio.run(_fetched(source))
    try:
        with Path(source).open("rb") as file:
            return file.read(LONGEST + 1)
    except OSError as error:
        raise SetupError("{path} cannot be read: {reason}", path=source, reason=error.strerror) from None


async def _fetched(url: str) -> bytes:
    from ibi.resolver.mirror import fetch_list
    from ibi.transport import AddressPolicy
    from ibi.transport.download import Downloads

    # Whoever gives the URL runs the resolver, which may mirror one at any address.
    async with Downloads(AddressPolicy(allow_private=True)) as door:
        return await fetch_list(door, url)


def _host_ports(addresses: Iterable[str]) -> list[HostPort]:
    from ibi.transport import HostPort

    found = []
    for address in addresses:
        try:
            found.append(HostPort.parse(address))
        except ForbiddenAddress:
            continue  # no Archive is there either
    return found
