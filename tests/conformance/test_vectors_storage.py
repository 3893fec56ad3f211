"""The laws of storage (ARC-01 to ARC-06): kept by each Archive's catalogue, or brought to light by a resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ibi.archive import schema
from ibi.archive.answer import ArchiveIdentity, url_list
from ibi.archive.catalogue import Catalogue
from ibi.archive.holding import Holding
from ibi.database import migrate, open_engine
from ibi.errors import AlreadyHeld
from ibi.identifier.forms import IBI, IBIForms
from ibi.protocol.language import LanguagePreference
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.vocabulary import State
from ibi.resolver.alerts import Alert, Kind
from ibi.resolver.policy import Policy
from ibi.resolver.resolution import AskAgain, Redirect, Resolution
from support.oracles.vectors import Vector, runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.protocol.url_list import UrlList

BROKEN_LAW = {Kind.SUSPECT_ORIGINALS: "unique-original", Kind.NO_ORIGINAL: "original-exists"}


@dataclass(frozen=True)
class OneArchive:
    """A real catalogue, and the answers made from it."""

    identity: ArchiveIdentity
    catalogue: Catalogue
    url_hosts: tuple[str, ...] = ()

    @property
    def service_ibi(self) -> IBI:
        return self.identity.service.main

    def hold(self, item: str, state: str) -> None:
        name, url = ibi(item), f"http://{self.identity.address}/{item}"
        self.catalogue.put(Holding(forms=name, state=State(state), timestamp="2021-01-01T00:00:00Z", url=url))

    def answer(self, resolution: Resolution) -> UrlList:
        return url_list(self.catalogue.holding, self.identity, resolution.request, "1234567890-1234567890")


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


def demand_the_original(item: str, archives: dict[str, OneArchive]) -> Redirect | Kind:
    url = PersistentURL.parse(f"/{ibi(item).rep}", "ibiurl.requireditemstatus=Original")
    resolution = Resolution(url, f"http://urlib.net{url}", ("192.0.2.1",), LanguagePreference(), Policy())
    for archive in archives.values():
        assert resolution.hear(archive, archive.answer(resolution)) is None
    end = resolution.close_round()
    assert not isinstance(end, AskAgain)
    return end.kind if isinstance(end, Alert) else end
