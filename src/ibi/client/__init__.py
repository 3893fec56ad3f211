"""Speak to resolvers, Archives and mints from a program, with nothing but Python.

Entry points: `Resolver`, `Archive` and `Minting`, and with the same methods `AsyncResolver`, `AsyncArchive` and
`AsyncMinting`; all of them are context managers.
"""

from ibi.client.answers import Metadata, NotFound, Refused, Removed, TwoOriginals, Unavailable
from ibi.client.archive import Archive, Change, FoundItem, Item
from ibi.client.asynchronous import AsyncArchive, AsyncMinting, AsyncResolver
from ibi.client.minting import Label, Minting
from ibi.client.resolver import HandleValue, Resolution, Resolver
from ibi.client.transport import Retries

__all__ = [
    "Archive",
    "AsyncArchive",
    "AsyncMinting",
    "AsyncResolver",
    "Change",
    "FoundItem",
    "HandleValue",
    "Item",
    "Label",
    "Metadata",
    "Minting",
    "NotFound",
    "Refused",
    "Removed",
    "Resolution",
    "Resolver",
    "Retries",
    "TwoOriginals",
    "Unavailable",
]
