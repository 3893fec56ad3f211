"""What the policy of a whole resolver means for who has the key of an Archive, over real sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ibi.protocol.messages import InclusionRequest
from support.resolver.membership_fixture import SERVICE, archive, switch
from support.resolver.running_resolver import enter, resolver

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("REG-05", "REG-08")
@pytest.mark.parametrize(
    ("policy", "status", "address"),
    [("hardened", 403, "old.example"), ("strict", 200, "new.example")],
)
def test_the_key_alone_moves_an_archive_under_the_strict_policy_only(
    tmp_path: Path, policy: str, status: int, address: str
) -> None:
    old, new = archive("old", "127.0.0.2"), archive("new", "127.0.0.3")
    message = switch(InclusionRequest, new.address)

    async def main() -> None:
        async with resolver(
            tmp_path, [old, new], policy=policy, lease_seconds_at_most=100, included=False
        ) as running:
            enter(running.registry, old)
            answer = await running.ask(f"/{SERVICE.main}?{message.query()}")
            (included,) = running.registry.archives()
            assert (answer.status, included.address) == (status, address), answer.body
            # Under the strict policy, no Archive is asked what has changed: the standard knows no such query.
            assert running.service.changes.most_seconds == (0 if policy == "strict" else 100)

    asyncio.run(main())
