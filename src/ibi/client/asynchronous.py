"""The same clients for asyncio: each call runs in a thread, and is not broken off with the task that waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ibi.client.archive import Archive
from ibi.client.minting import Minting
from ibi.client.resolver import Resolver
from ibi.client.transport import USUAL, Client

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from ibi.client.answers import Metadata
    from ibi.client.archive import Change, Elements, FoundItem, Item
    from ibi.client.minting import Label
    from ibi.client.resolver import HandleValue, Resolution
    from ibi.client.transport import Retries
    from ibi.identifier.forms import Name
    from ibi.protocol.persistent_url import PersistentURL

_Sync = TypeVar("_Sync", bound=Client)


class _AsyncClient(Generic[_Sync]):
    """A client whose calls run in threads; it takes what that client takes."""

    _kind: type[_Sync]

    def __init__(
        self,
        root: str,
        token: str | None = None,
        *,
        language: str = "en",
        timeout: float = 30,
        retries: Retries = USUAL,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._client = self._kind(
            root, token, language=language, timeout=timeout, retries=retries, context=context
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()


class AsyncResolver(_AsyncClient[Resolver]):
    """`Resolver` for asyncio."""

    _kind = Resolver

    async def resolve(self, name: str | Name | PersistentURL) -> Resolution:
        """See `Resolver.resolve`."""
        return await asyncio.to_thread(self._client.resolve, name)

    async def explain(self, name: str | Name | PersistentURL) -> Mapping[str, Any]:
        """See `Resolver.explain`."""
        return await asyncio.to_thread(self._client.explain, name)

    async def metadata(self, name: str | Name | PersistentURL, format: str = "oai_dc") -> Metadata:  # noqa: A002 - the word of the interface
        """See `Resolver.metadata`."""
        return await asyncio.to_thread(self._client.metadata, name, format)

    async def handle_values(self, name: str | Name, *, everywhere: bool = False) -> list[HandleValue]:
        """See `Resolver.handle_values`."""
        return await asyncio.to_thread(self._client.handle_values, name, everywhere=everywhere)


class AsyncArchive(_AsyncClient[Archive]):
    """`Archive` for asyncio."""

    _kind = Archive

    async def item(self, name: str | Name) -> Item:
        """See `Archive.item`."""
        return await asyncio.to_thread(self._client.item, name)

    async def metadata(self, name: str | Name, format: str = "oai_dc") -> Metadata:  # noqa: A002 - the word of the interface
        """See `Archive.metadata`."""
        return await asyncio.to_thread(self._client.metadata, name, format)

    async def search(
        self, text: str = "", *, person: str = "", year: int | None = None, language: str = "", kind: str = ""
    ) -> AsyncIterator[FoundItem]:
        """See `Archive.search`."""
        found = self._client.search(text, person=person, year=year, language=language, kind=kind)
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            yield each

    async def changes(self, after: str | None = None) -> AsyncIterator[Change]:
        """See `Archive.changes`."""
        found = self._client.changes(after)
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            yield each

    async def deposit(
        self,
        title: str = "",
        *,
        metadata: Elements | None = None,
        files: Mapping[str, bytes | Path] | None = None,
        edition_of: str | Name = "",
        key: str | None = None,
        **fields: object,
    ) -> Item:
        """See `Archive.deposit`."""
        return await asyncio.to_thread(
            self._client.deposit,
            title,
            metadata=metadata,
            files=files,
            edition_of=edition_of,
            key=key,
            **fields,
        )


class AsyncMinting(_AsyncClient[Minting]):
    """`Minting` for asyncio."""

    _kind = Minting

    async def mint(self, count: int = 1, *, forms: str = "", collection: str = "") -> list[Label]:
        """See `Minting.mint`."""
        return await asyncio.to_thread(self._client.mint, count, forms=forms, collection=collection)
