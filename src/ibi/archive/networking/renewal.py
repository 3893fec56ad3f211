"""A running Archive follows its settings, and the list of its further resolvers: see `ibi.renewing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ibi import renewing
from ibi.archive.networking.joining import Resolvers
from ibi.errors import SetupError
from ibi.settings import ArchiveSettings, JoinedResolver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class Answering(renewing.Answering, Protocol):
    """What answers as the settings are at one time, some requests without waiting."""

    def at_once(
        self, target: bytes, headers: Sequence[tuple[bytes, bytes]], peer: str, /
    ) -> tuple[int, bytes, None] | None:
        """See `ibi.serving.express`."""


class Watched(renewing.Watched[Resolvers]):
    """The settings of a data directory, and the further resolvers; the service IBI may never change (ARC-10)."""

    def __init__(self, data: Path) -> None:
        files = [data / name for name in (ArchiveSettings.FILE, JoinedResolver.FILE)]
        super().__init__(files, lambda: Resolvers.read(data), _refuse_another_service)


def _refuse_another_service(before: Resolvers, found: Resolvers) -> None:
    if found.settings.service != before.settings.service:
        raise SetupError("the IBI of an Archive's service never changes")


class Renewing(renewing.Renewing[ArchiveSettings, Answering]):
    """The ASGI application of an Archive, made anew when its settings have changed."""

    def __init__(self, watched: Watched, make: Callable[[ArchiveSettings], Answering]) -> None:
        super().__init__(lambda: watched.look().settings, make)

    def at_once(
        self, target: bytes, headers: Sequence[tuple[bytes, bytes]], peer: str
    ) -> tuple[int, bytes, None] | None:
        """Answer one request as the settings are now, if it needs no waiting."""
        return self.current().at_once(target, headers, peer)
