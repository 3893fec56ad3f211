"""One visit to a data directory: every check that applies, none for longer than its time."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

from ibi.checkup import reach
from ibi.checkup.archive import check_memberships, check_service, resolvers_of
from ibi.checkup.certificate import check_certificate, check_certificate_file, https_address
from ibi.checkup.clock import check_clock, check_minting
from ibi.checkup.disk import check_disk
from ibi.checkup.finding import Finding, Verdict
from ibi.checkup.resolver import check_evidence, check_policy
from ibi.checkup.stores import (
    Kind,
    check_database,
    check_settings,
    check_subsystems,
    kinds_of,
    registered_archives,
    subsystems_of,
)
from ibi.errors import IbiError, SetupError
from ibi.identifier.dates import TICKS
from ibi.nonce import Nonce
from ibi.settings import ArchiveSettings, ResolverSettings
from ibi.transport import AddressPolicy, Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from ibi.minting.machine import Machine
    from ibi.transport.client import Names

    Look = Callable[[], Iterable[Finding]]

_Known = TypeVar("_Known", ArchiveSettings, ResolverSettings)

_SECONDS: Final = {
    "settings": 2.0,
    "clock": 1.0,
    "disk": 5.0,
    "minting": 3.0,
    "database": 7.0,
    "evidence": 5.0,
    "network": 7.0,
    "certificate": 5.0,
}
"""How long each part of a visit may take: 35 together."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the files of a directory do not tell.

    A host name with its port, an IP address, an https URL, and the file of the certificate that is served.
    """

    host: str = ""
    port: int = 80
    ip: str = ""
    url: str = ""
    certificate: Path | None = None

    def addresses(self) -> list[str]:
        """What should lead to the directory's service, as "host[:port]"."""
        return [reach.host_port(host, self.port) for host in (self.host, self.ip) if host]


class Visit:
    """A visit to one data directory. `names` stands in for this machine's own look-up of host names.

    Raises SetupError for a directory that is none of ours and a URL that is no https root.
    """

    def __init__(self, data: Path, machine: Machine, wishes: Wishes, names: Names | None = None) -> None:
        self.kinds = kinds_of(data)
        if not self.kinds:
            raise SetupError("nothing of ours is in {path}: no Archive, no resolver, no labels", path=data)
        if wishes.url:
            https_address(wishes.url)
        self._data = data
        self._subsystems = subsystems_of(data, machine)
        self._machine = machine
        self._wishes = wishes
        self._names = names
        self._nonce = Nonce(data, lambda: machine.now() / TICKS)

    def findings(self, *, served: bool = True) -> list[Finding]:
        """What every check found, in order; it takes little more than half a minute at most.

        Without a service that runs (not `served`) it is not asked whether names lead here.
        """
        parts: dict[str, Mapping[str, Look]] = {
            "settings": {"": self._settings},
            "clock": {"": lambda: check_clock(self._machine)},
            "disk": {"": lambda: check_disk(self._data)},
            "minting": self._minting(),
            "database": {"": self._databases},
            "network": {"": partial(self._network, served=served)},
            "certificate": {"": self._certificate},
        }
        if Kind.RESOLVER in self.kinds:
            parts["evidence"] = {"": lambda: check_evidence(self._data)}
        return [finding for name, looks in parts.items() for finding in _in_time(name, looks)]

    def _stored(self) -> list[Kind]:
        return [kind for kind in self.kinds if kind is not Kind.MINTING]

    def _settings(self) -> Iterable[Finding]:
        found = [finding for kind in self._stored() for finding in check_settings(self._data, kind)]
        found += check_policy(self._data) if Kind.RESOLVER in self.kinds else []
        return [*found, *check_subsystems(self._data, self._machine)]

    def _minting(self) -> Mapping[str, Look]:
        """A look at each subsystem that is listed, or at the one that the directory is."""
        if not self._subsystems:
            expected = Kind.ARCHIVE in self.kinds
            return {"": partial(check_minting, self._data, self._machine, expected=expected)}
        return {
            name: partial(check_minting, self._data / name, self._machine, expected=False)
            for name in self._subsystems
        }

    def _databases(self) -> Iterable[Finding]:
        kinds = self._stored()
        seconds = (_SECONDS["database"] - 1) / max(1, len(kinds))
        found = [finding for kind in kinds for finding in check_database(self._data, kind, seconds)]
        return [*found, *check_service(self._data)] if Kind.ARCHIVE in self.kinds else found

    def _network(self, *, served: bool) -> Iterable[Finding]:
        found = asyncio.run(self._reached(served=served))
        return [*found, *check_memberships(self._data)] if Kind.ARCHIVE in self.kinds else found

    async def _reached(self, *, served: bool) -> list[Finding]:
        """Who can be reached, all asked at once."""
        archive, resolver = _known(ArchiveSettings, self._data), _known(ResolverSettings, self._data)
        addresses = self._wishes.addresses()
        addresses += reach.addresses_of_archive(archive) if archive else []
        addresses += reach.addresses_of_resolver(resolver) if resolver else []
        for subsystem in self._subsystems.values():
            addresses += reach.addresses_of_subsystem(subsystem)
        # An operator asks about what is his; an Archive names its own address, so there the resolver's policy holds.
        own = Client(AddressPolicy(allow_private=True), self._names)
        strangers = Client(
            AddressPolicy(allow_private=bool(resolver and resolver.allow_private_archives)), self._names
        )
        parts = [self._proofs(own, list(dict.fromkeys(addresses)))] if served else []
        parts += [reach.check_resolver(own, url) for url in resolvers_of(self._data)]
        if resolver:
            parts.append(reach.check_archives(strangers, registered_archives(self._data)))
        try:
            return [finding for part in await asyncio.gather(*parts) for finding in part]
        finally:
            await own.close()
            await strangers.close()

    async def _proofs(self, client: Client, addresses: list[str]) -> list[Finding]:
        if not addresses:
            sentence = IbiError("which names and addresses should lead here is not known")
            advice = IbiError("give them: --host HOST --ip IP")
            return [Finding("address", Verdict.NOT_PROVEN, sentence, advice)]
        try:
            with self._nonce.laid_out() as nonce:
                return await asyncio.gather(*(reach.prove(client, address, nonce) for address in addresses))
        except SetupError as error:
            return [_without_nonce(error)]

    def _certificate(self) -> Iterable[Finding]:
        now, file = self._machine.now() / TICKS, self._wishes.certificate
        found = [*check_certificate_file(file, now)] if file is not None else []
        if not self._wishes.url:
            return found
        try:
            with self._nonce.laid_out() as nonce:
                return [*found, *check_certificate(self._wishes.url, nonce, now)]
        except SetupError as error:
            return [*found, _without_nonce(error)]


def _known(kind: type[_Known], data: Path) -> _Known | None:
    """The settings of a directory, if there are any in order; what is wrong with them is another finding."""
    try:
        return kind.read(data)
    except SetupError:
        return None


def _without_nonce(error: SetupError) -> Finding:
    return Finding("address", Verdict.NOT_PROVEN, error, IbiError("run this as the user of the service"))


def _in_time(name: str, looks: Mapping[str, Look]) -> Iterable[Finding]:
    """What a part of the visit finds in its time; a disk that hangs holds up nothing but itself.

    `looks`, all taken at once, by the name of the subsystem that is looked at; "" where that is nothing special.
    """
    boxes = {subsystem: _begun(name, look) for subsystem, look in looks.items()}
    end = time.monotonic() + _SECONDS[name]
    for subsystem, box in boxes.items():
        for finding in _found(name, box, max(0, end - time.monotonic())):
            sentence = IbiError("{name}: {finding}", name=subsystem, finding=finding.sentence)
            yield replace(finding, sentence=sentence) if subsystem else finding


def _begun(name: str, look: Look) -> SimpleQueue[list[Finding] | BaseException]:
    """Begin to look, and give the box in which the findings will lie."""
    box: SimpleQueue[list[Finding] | BaseException] = SimpleQueue()

    def work() -> None:
        try:
            box.put(list(look()))
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits
            box.put(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return box


def _found(name: str, box: SimpleQueue[list[Finding] | BaseException], seconds: float) -> list[Finding]:
    try:
        found = box.get(timeout=seconds)
    except Empty:
        sentence = IbiError("nothing could be found out within {seconds:g} s", seconds=_SECONDS[name])
        advice = IbiError(
            "something holds it up: a disk or a network that hangs, or somebody who draws labels now"
        )
        return [Finding(name, Verdict.NOT_PROVEN, sentence, advice)]
    if isinstance(found, BaseException):
        raise found
    return found
