"""A client among Archives that follow a script, at addresses of their own."""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ibi.http.client import AddressPolicy, Client
from ibi.identifier.forms import parse_ibi
from ibi.protocol.pair_list import write_pairs
from ibi.resolver.model.archive import Archive
from support.scripted_archive import Behaviour, ScriptedArchive, ScriptedArchives

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PUBLIC = AddressPolicy(public=(ipaddress.ip_network("127.77.0.0/16"),))
BODY = write_pairs({"state": "Original", "url": "http://a.example/x"})


def archive(name: str, manner: Behaviour, number: int = 1) -> ScriptedArchive:
    service = f"example/{name}/2020/01.01.00.00"
    return ScriptedArchive(name, f"{name}.example", service, f"127.77.0.{number}", manner=manner)


def known(scripted: ScriptedArchive) -> Archive:
    return Archive(parse_ibi(scripted.service), scripted.address)


@asynccontextmanager
async def among(*archives: ScriptedArchive, absent: str = "") -> AsyncIterator[tuple[Client, list[Archive]]]:
    """A client, and what is known of the Archives around it. Afterwards no task and no connection is left."""
    async with ScriptedArchives(archives, frozenset({absent} if absent else ())) as around:
        client = Client(PUBLIC, around.names)
        yield client, [known(each) for each in archives]
        await client.close()
        await asyncio.sleep(0.01)
        assert [each.name for each in archives if each.still_open] == []
    ours = asyncio.current_task()
    assert [task for task in asyncio.all_tasks() if task is not ours] == []
