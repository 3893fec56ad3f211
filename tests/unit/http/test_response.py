"""A body that is made part by part leaves nothing behind, however its sending ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ibi.http.response import send_all

LONG = 1 << 20


async def _parts(ended: list[bool]) -> AsyncGenerator[bytes, None]:
    try:
        for _ in range(4):
            yield bytes(LONG // 4)
    finally:
        ended.append(True)


def test_what_makes_the_parts_is_closed_where_the_reader_is_gone() -> None:
    async def refuse(_message: dict[str, Any]) -> None:
        raise ConnectionResetError

    async def scenario() -> None:
        ended = list[bool]()
        parts = _parts(ended)
        with pytest.raises(ConnectionResetError):
            await send_all(parts, LONG, refuse, None)
        assert ended == [True]

    asyncio.run(scenario())


def test_waiting_for_a_reader_to_go_ends_with_the_body() -> None:
    waited = list[str]()

    async def wait() -> dict[str, Any]:
        try:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # it never comes
        except asyncio.CancelledError:
            waited.append("cancelled")
            raise

    async def take(_message: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    async def scenario() -> None:
        await send_all(_parts([]), LONG, take, wait)
        await asyncio.sleep(0)
        assert waited == ["cancelled"]

    asyncio.run(scenario())
