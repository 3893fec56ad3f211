"""Run one checkup of a data directory: every check that applies, each within its time limit (threat T40).

Each check runs in a thread of its own. The thread of a check that hangs is abandoned after its time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ibi.app.doctor import Finding, fault, files, not_proven, reach, stores
from ibi.app.doctor.machine import check_clock, check_disk, check_minting
from ibi.app.doctor.shared_store import check_shared_store
from ibi.app.doctor.stores import DirectoryKind
from ibi.errors import IbiError, SetupError
from ibi.http.client import AddressPolicy, Client
from ibi.identifier.dates import TICKS
from ibi.runtime.nonce import Nonce
from ibi.runtime.settings import ArchiveSettings, ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ibi.http.client.address_policy import HostLookup
    from ibi.minting.machine import Machine

    Check = Callable[[], Iterable[Finding]]

_Known = TypeVar("_Known", ArchiveSettings, ResolverSettings)

SECONDS: Final = {
    "settings": 2.0,
    "clock": 1.0,
    "disk": 5.0,
    "minting": 3.0,
    "database": 7.0,
    "evidence": 5.0,
    "files": 5.0,
    "network": 7.0,
    "certificate": 5.0,
}
"""Seconds that each part of a checkup may take: 40 together."""


@dataclass(frozen=True, slots=True)
class CheckupOptions:
    """Facts that the files of a directory do not contain: further addresses, and the served certificate."""

    host: str = ""
    port: int = 80
    ip: str = ""
    url: str = ""
    certificate: Path | None = None


class Checkup:
    """A checkup of one data directory. `host_lookup` replaces that of this machine.

    Raises SetupError for a directory without files of ours, and for a URL that is no https root.
    """

    def __init__(
        self, data: Path, machine: Machine, options: CheckupOptions, host_lookup: HostLookup | None = None
    ) -> None:
        self.kinds = stores.kinds_of(data)
        if not self.kinds:
            raise SetupError("nothing of ours is in {path}: no Archive, no resolver, no labels", path=data)
        if options.url:
            reach.https_address(options.url)
        self._stored = [kind for kind in self.kinds if kind is not DirectoryKind.MINTING]
        self._data = data
        self._subsystems = stores.subsystems_of(data, machine)
        self._machine = machine
        self._options = options
        self._host_lookup = host_lookup
        self._nonce = Nonce(data, lambda: machine.now() / TICKS)

    def findings(self, *, served: bool = True) -> list[Finding]:
        """Run every check and return the findings in order; this takes at most about 40 seconds.

        Without a running service (not `served`), it is not checked whether its names and public URLs lead here.
        """
        parts: dict[str, Mapping[str, Check]] = {
            "settings": {"": self._settings},
            "clock": {"": lambda: check_clock(self._machine)},
            "disk": {"": self._disk},
            "minting": self._minting(),
            "database": {"": self._databases},
            "files": {"": self._files},
            "network": {"": partial(self._network, served=served)},
            "certificate": {"": partial(self._certificate, served=served)},
        }
        if DirectoryKind.RESOLVER in self.kinds:
            parts["evidence"] = {"": lambda: stores.check_evidence(self._data)}
        return [finding for name, checks in parts.items() for finding in _in_time(name, checks)]

    def _settings(self) -> Iterator[Finding]:
        for kind in self._stored:
            yield from stores.check_settings(self._data, kind)
            yield from stores.check_proxies(self._data, kind)
        if DirectoryKind.RESOLVER in self.kinds:
            yield from stores.check_policy(self._data)
        yield from stores.check_lists(self._data)
        yield from files.check_secrets(self._data)
        yield from files.check_owners(self._data)
        yield from stores.check_subsystems(self._data, self._machine)

    def _disk(self) -> Iterator[Finding]:
        yield from check_disk(self._data)
        yield from files.check_leftovers(self._data, self._machine.now() / TICKS)

    def _minting(self) -> Mapping[str, Check]:
        """Return a check for each listed subsystem, or without a list, one for the directory itself."""
        if not self._subsystems:
            expected = DirectoryKind.ARCHIVE in self.kinds
            return {"": partial(check_minting, self._data, self._machine, expected=expected)}
        return {
            name: partial(check_minting, self._data / name, self._machine, expected=False)
            for name in self._subsystems
        }

    def _databases(self) -> Iterator[Finding]:
        seconds = (SECONDS["database"] - 1) / (len(self._stored) + 1)
        for kind in self._stored:
            if kind is DirectoryKind.RESOLVER and stores.has_store(self._data):
                yield from check_shared_store(self._data)
            else:
                yield from stores.check_database(self._data, kind, seconds)
        if DirectoryKind.ARCHIVE in self.kinds:
            yield from stores.check_service(self._data)
            yield from stores.check_unsettled(self._data)
            yield from files.check_index(self._data, self._machine, seconds)

    def _files(self) -> Iterator[Finding]:
        if DirectoryKind.ARCHIVE in self.kinds:
            yield from stores.check_place_of_files(self._data)

    def _network(self, *, served: bool) -> Iterator[Finding]:
        yield from asyncio.run(self._reached(served=served))
        if DirectoryKind.ARCHIVE in self.kinds:
            yield from stores.check_memberships(self._data)

    async def _reached(self, *, served: bool) -> list[Finding]:
        """Check all names and peers at the same time."""
        archive = _settings_or_none(ArchiveSettings, self._data)
        resolver = _settings_or_none(ResolverSettings, self._data)
        # The operator chose these names, so they may be private. A registered Archive chose its own address,
        # so the resolver's policy applies to it (T01).
        own = Client(AddressPolicy(allow_private=True), self._host_lookup)
        strangers = Client(
            AddressPolicy(allow_private=bool(resolver and resolver.allow_private_archives)), self._host_lookup
        )
        parts = [self._proofs(own, self._addresses(archive, resolver))] if served else []
        if served and archive and archive.files_address:
            parts.append(reach.check_files_address(own, archive.files_address))
        parts += [reach.check_resolver(own, *each) for each in stores.resolvers_of(self._data).items()]
        archives = stores.registered_archives(self._data) if resolver else None
        if archives is not None:
            parts.append(reach.check_archives(strangers, archives))
        try:
            return [finding for part in await asyncio.gather(*parts) for finding in part]
        finally:
            await own.close()
            await strangers.close()

    def _addresses(self, archive: ArchiveSettings | None, resolver: ResolverSettings | None) -> list[str]:
        """List the addresses that should lead to the directory's service, as "host[:port]", each once."""
        given = reach.host_ports(self._options.port, self._options.host, self._options.ip)
        addresses = reach.addresses_of_archive(archive) if archive else []
        addresses += [resolver.address, *resolver.aliases] if resolver else []
        for subsystem in self._subsystems.values():
            addresses += reach.host_ports(subsystem.port, subsystem.host, subsystem.ip)
        return list(dict.fromkeys([*given, *(each.lower().removesuffix(":80") for each in addresses)]))

    async def _proofs(self, client: Client, addresses: list[str]) -> list[Finding]:
        if not addresses:
            sentence = "which names and addresses should lead here is not known"
            return [not_proven("address", sentence, "give them: --host HOST --ip IP")]
        try:
            with self._nonce.published() as nonce:
                return await asyncio.gather(*(reach.prove(client, address, nonce) for address in addresses))
        except SetupError as error:
            return [_without_nonce(error)]

    def _certificate(self, *, served: bool) -> Iterator[Finding]:
        now = self._machine.now() / TICKS
        if self._options.certificate is not None:
            yield from reach.check_certificate_file(self._options.certificate, now)
        archive, resolver = (
            _settings_or_none(ArchiveSettings, self._data),
            _settings_or_none(ResolverSettings, self._data),
        )
        settings = (archive, resolver) if served else ()
        public = [each.root for each in settings if each and each.root.startswith("https:")]
        given = self._options.url
        for url in [
            *([given] if given else []),
            *(each for each in public if each != given.removesuffix("/")),
        ]:
            try:
                with self._nonce.published() as nonce:
                    yield from reach.check_certificate(url, nonce, now)
            except SetupError as error:
                yield _without_nonce(error)


def _settings_or_none(kind: type[_Known], data: Path) -> _Known | None:
    """Read the settings of a directory; None if there are none, or if check_settings reports a fault."""
    try:
        return kind.read(data)
    except SetupError:
        return None


def _without_nonce(error: SetupError) -> Finding:
    return not_proven("address", error, "run this as the user of the service")


def _in_time(name: str, checks: Mapping[str, Check]) -> Iterator[Finding]:
    """Run the checks of one part at the same time, and yield their findings within the time of this part.

    `checks`: name of the examined subsystem ("" if there is only one) -> check.
    """
    running = {subsystem: _start(name, check) for subsystem, check in checks.items()}
    end = time.monotonic() + SECONDS[name]
    for subsystem, check in running.items():
        wait([check], max(0, end - time.monotonic()))
        for finding in check.result() if check.done() else [_late(name)]:
            sentence = IbiError("{name}: {finding}", name=subsystem, finding=finding.sentence)
            yield replace(finding, sentence=sentence) if subsystem else finding


def _start(name: str, check: Check) -> Future[list[Finding]]:
    """Start a check in a thread."""
    # A daemon thread, no pool: a thread that hangs on a dead disk or mount must not keep the program alive.
    running: Future[list[Finding]] = Future()

    def work() -> None:
        found: list[Finding] = []
        try:
            found.extend(check())  # findings before an error are kept
            running.set_result(found)
        except OSError as error:  # an unreadable file must not prevent the other checks
            sentence, reason = "{path} cannot be read: {reason}", error.strerror or error
            remedy = "run this as the user of the service"
            running.set_result(
                [*found, fault(name, sentence, remedy, path=error.filename or "-", reason=reason)]
            )
        except BaseException as error:  # noqa: BLE001 - raised again where the findings are taken
            running.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return running


def _late(name: str) -> Finding:
    sentence = "nothing could be found out within {seconds:g} s"
    remedy = "something blocks it: a disk or a network that hangs, or labels that are being given now"
    return not_proven(name, sentence, remedy, seconds=SECONDS[name])
