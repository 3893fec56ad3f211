"""Archives as a registry knows them, and their responses to the machine that resolves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.identifier.forms import parse_ibi
from ibi.resolver.model.archive import Archive, ArchiveResponse

if TYPE_CHECKING:
    from ibi.errors import IbiError
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.resolve.resolution import Redirect, Resolution


def archive_of(
    service: str, address: str = "a.example", *, confirmed: bool = True, url_hosts: tuple[str, ...] = ()
) -> Archive:
    return Archive(parse_ibi(service), address, confirmed=confirmed, url_hosts=url_hosts)


def hear(resolution: Resolution, archive: Archive, answer: UrlList) -> Redirect | None:
    return resolution.hear(ArchiveResponse(archive, answer))


def fail(resolution: Resolution, archive: Archive, error: IbiError) -> Redirect | None:
    return resolution.hear(ArchiveResponse(archive, None, error))
