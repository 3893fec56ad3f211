"""Names of machines to addresses that may be contacted, in the shape that aiohttp asks for (threats T01 and T02)."""

from __future__ import annotations

import os
import socket
from errno import ENODATA
from typing import TYPE_CHECKING, Final

from aiohttp.abc import AbstractResolver, ResolveResult

if TYPE_CHECKING:
    from ibi.transport.address import AddressPolicy
    from ibi.transport.client import Names

_MOST_ADDRESSES: Final = 4  # of one name that are tried


class JudgedNames(AbstractResolver):
    """Names of machines to addresses; a name with one forbidden address is forbidden altogether."""

    def __init__(self, policy: AddressPolicy, names: Names) -> None:
        self._policy = policy
        self._names = names

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - its wish
    ) -> list[ResolveResult]:
        """The addresses of a host, for aiohttp. Raises ForbiddenAddress, and OSError where there are none."""
        found = await self._names(host, port)
        for ip, _ in found:
            self._policy.check(ip)
        if not found:
            raise OSError(ENODATA, os.strerror(ENODATA))
        return [
            ResolveResult(
                hostname=host,
                host=ip,
                port=to,
                family=socket.AF_INET6 if ":" in ip else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for ip, to in found[:_MOST_ADDRESSES]
        ]

    async def close(self) -> None:
        """Nothing is open."""
