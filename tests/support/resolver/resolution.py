"""Archives as a registry knows them, and their responses to the machine that resolves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.errors import PeerSilent
from ibi.identifier.forms import parse_ibi
from ibi.protocol.language import LanguagePreference
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.archive import Archive, ArchiveResponse
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Resolution

if TYPE_CHECKING:
    from ibi.errors import IbiError
    from ibi.protocol.pair_list import PairList
    from ibi.resolver.resolve.resolution import Redirect


def archive_of(
    service: str, address: str = "a.example", *, confirmed: bool = True, url_hosts: tuple[str, ...] = ()
) -> Archive:
    return Archive(parse_ibi(service), address, confirmed=confirmed, url_hosts=url_hosts)


def hear(resolution: Resolution, archive: Archive, answer: UrlList) -> Redirect | None:
    return resolution.hear(ArchiveResponse(archive, answer))


def fail(resolution: Resolution, archive: Archive, error: IbiError) -> Redirect | None:
    return resolution.hear(ArchiveResponse(archive, None, error))


ITEM = "example.org/x/2020/01.02.00.00"


A, B, C = (archive_of(f"example.org/{name}/2020/01.01.00.00") for name in "abc")
NOTHING = UrlList({})
LATE = PeerSilent("no answer in time")


def resolve(text: str, *, strict: bool = False, language: str = "") -> Resolution:
    url = PersistentURL.from_text(f"http://resolver.example/{text}")
    return Resolution(
        url,
        f"http://resolver.example/{text}",
        ("192.0.2.1",),
        LanguagePreference.parse(language),
        Policy(strict),
    )


def says(holder: Archive, ibi: str = ITEM, **pairs: str) -> UrlList:
    """An answer about an item; `_` in a name stands for a dot, `__x` for a parameter."""
    written: PairList = {
        "ibi": ("rep", ibi),
        "ibi.archiveservice": ("rep", str(holder.service_ibi)),
        "urlkey": "1234567890",
    }
    for name, value in pairs.items():
        written[name.replace("_", ".")] = ("rep", value) if name.startswith("ibi") else value
    return UrlList(written)


def offers(holder: Archive, state: str = "Original") -> UrlList:
    return says(
        holder, url=f"http://{holder.service_ibi.prefix.replace('/', '.')}/x", state=state, contenttype="Data"
    )
