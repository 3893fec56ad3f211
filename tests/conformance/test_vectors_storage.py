"""The laws of storage (ARC-01 to ARC-06): kept by each Archive's catalogue, or brought to light by a resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ibi.archive.model.answer import ArchiveIdentity, url_list
from ibi.archive.model.item import Holding
from ibi.archive.store import schema
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.errors import AlreadyHeld
from ibi.identifier.forms import IBIForms
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.model.archive import Archive
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect, Resolution
from ibi.runtime.database import migrate, open_engine
from support.oracles.vectors import Vector, runs
from support.resolver.resolution import hear

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.protocol.url_list import UrlList

BROKEN_LAW = {AlertKind.SUSPECT_ORIGINALS: "unique-original", AlertKind.NO_ORIGINAL: "original-exists"}


@dataclass(frozen=True)
class OneArchive:
    """A real catalogue, and the answers made from it."""

    identity: ArchiveIdentity
    catalogue: Catalogue

    @property
    def known(self) -> Archive:
        return Archive(self.identity.service.main, self.identity.address)

    def hold(self, item: str, state: str) -> None:
        name, url = ibi(item), f"http://{self.identity.address}/{item}"
        self.catalogue.put(
            Holding(forms=name, state=ItemState(state), timestamp="2021-01-01T00:00:00Z", url=url)
        )

    def answer(self, resolution: Resolution) -> UrlList:
        return url_list(self.catalogue.holding, self.identity, resolution.query, "1234567890-1234567890")


def ibi(item: str) -> IBIForms:
    return IBIForms.parse(f"rep example.org/{item}/2020/01.02.00.00")


@pytest.fixture
def archives(tmp_path: Path) -> Iterator[dict[str, OneArchive]]:
    made = {}
    for name in "abc":
        engine = open_engine(tmp_path / f"{name}.sqlite")
        migrate(engine, schema.MIGRATIONS)
        service = IBIForms.parse(f"rep example/{name}/2020/01.01.00.00")
        made[name] = OneArchive(ArchiveIdentity(f"{name}.example", service), Catalogue(engine))
    yield made
    for archive in made.values():
        archive.catalogue.close()


@pytest.mark.proves(
    "ARC-01", "ARC-03", "ARC-04", "ARC-05", "ARC-06", "ARC-14", "RES-08", "RES-10", "AMB-22", "AMB-23"
)
@runs("storage")
def test_storage(vector: Vector, archives: dict[str, OneArchive]) -> None:
    found = set()
    for item, archive, state in vector.input["triples"]:
        try:
            archives[archive].hold(item, state)
        except AlreadyHeld:
            found.add("one-state-per-archive")
    for item in dict.fromkeys(item for item, _, _ in vector.input["triples"]):
        end = demand_the_original(item, archives)
        if not isinstance(end, Redirect):
            found.add(BROKEN_LAW[end])
    assert found == set(vector.expected)


def demand_the_original(item: str, archives: dict[str, OneArchive]) -> Redirect | AlertKind:
    url = PersistentURL.parse(f"/{ibi(item).rep}", "ibiurl.requireditemstatus=Original")
    resolution = Resolution(url, f"http://urlib.net{url}", ("192.0.2.1",), LanguagePreference(), Policy())
    for archive in archives.values():
        assert hear(resolution, archive.known, archive.answer(resolution)) is None
    end = resolution.close_round()
    assert not isinstance(end, UrlRequest)
    return end.kind if isinstance(end, Alert) else end
