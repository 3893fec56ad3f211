"""`ibi archive rotate-key`: a new key at a resolver, for the proof that this Archive answers at its address."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ibi.cli.archive.common import tell
from ibi.errors import SetupError
from ibi.texts import say

if TYPE_CHECKING:
    import argparse

    from ibi.archive.networking.joining import Resolvers
    from ibi.cli.archive.common import Actions


def add(actions: Actions) -> None:
    """Add the subcommand."""
    rotate = actions.add("rotate-key", "get a new key from a resolver; the old one is void", _rotate)
    rotate.add_argument(
        "--resolver", metavar="URL", help="the root of the resolver; without it, the first one"
    )


def _rotate(args: argparse.Namespace) -> int:
    from ibi.archive.networking.joining import Resolvers, root
    from ibi.settings import changing

    resolvers = Resolvers.read(args.data)
    url = root(args.resolver) if args.resolver else resolvers.settings.resolver
    if url not in resolvers.keys:
        raise SetupError("this Archive takes no part at {url}", url=url or "-")
    key = asyncio.run(_new_key(args, resolvers, url))
    first = url == resolvers.settings.resolver
    with changing(args.data):
        Resolvers.read(args.data).joining(url, key, also=not first).write(args.data)
    tell(say("this Archive has a new key at {url}", url=url))
    return 0


async def _new_key(args: argparse.Namespace, resolvers: Resolvers, url: str) -> str:
    from ibi.archive.networking.rotating import rotate
    from ibi.nonce import Nonce
    from ibi.transport import AddressPolicy
    from ibi.transport.download import Downloads

    # The administrator has typed the resolver's address, so it may be a private one.
    async with Downloads(AddressPolicy(allow_private=True)) as door:
        nonce = Nonce(args.data, time.time)
        return await rotate(door, url, resolvers.settings.service.main, nonce)
