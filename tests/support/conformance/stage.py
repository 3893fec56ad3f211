"""The stage: a real resolver, served as users run it, among scripted Archives, in a loop whose clock is false.

`Stage` builds and serves the resolver; `perform` plays a play on it and fails where the play is not followed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ibi.app.resolver import open_registry
from ibi.http.client import AddressPolicy
from ibi.http.server.service import Service, listen, run
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.protocol.pair_list import write_pairs
from ibi.resolver.service import ResolverService
from ibi.runtime.settings import ResolverSettings
from support.conformance.plays import ArchiveLine, Expectation, Play, User
from support.resolver.parts import outgoing, stores
from support.scripted_archive import (
    LANGUAGE_CANARY,
    Behaviour,
    ReceivedRequest,
    ScriptedArchive,
    ScriptedArchives,
)

if TYPE_CHECKING:
    from ibi.resolver.registry.registry import Registry

RESOLVER_SERVICE = "J8LNKB5R7W/3FUQHC5"
PUBLIC = ipaddress.ip_network("127.77.0.0/16")
_KEY = "1234567890-1234567890"
_SETTLED = 0.3  # seconds of the false clock in which acknowledgments arrive


@dataclass(frozen=True)
class Seen:
    """What a reader gets: status, headers by lower-case name, body; and when, in seconds after the question."""

    status: int
    headers: dict[str, str]
    body: bytes
    took: float

    @property
    def problem(self) -> dict[str, Any]:
        """The alert, as a program reads it."""
        return (
            dict(json.loads(self.body))
            if self.headers.get("content-type") == "application/problem+json"
            else {}
        )


async def browse(port: int, host: str, user: User) -> Seen:
    """Ask the resolver as a reader behind trusted proxies does; what it answers is not followed."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [
        f"{user.method} {user.target} HTTP/1.1",
        f"Host: {host}",
        "Accept: application/problem+json",
        f"Accept-Language: {f'{user.language},' if user.language else ''}{LANGUAGE_CANARY};q=0.001",
        f"X-Forwarded-For: {', '.join(user.addresses)}",
        "Cookie: reader=4711",
        "Referer: http://library.example/reading-list",
        "Connection: close",
        *([f"CDN-Loop: {user.via}"] if user.via else []),
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    raw = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return Seen(int(first.split()[1]), headers, body, round(loop.time() - began, 6))


@dataclass
class Stage:
    """A resolver at `address` with its Archives. An async context manager; `breaches` are secrets that were told."""

    archives: tuple[ScriptedArchive, ...]
    address: str = "urlib.net"
    policy: str = "hardened"
    absent: frozenset[str] = frozenset()
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self._around = ScriptedArchives(self.archives, self.absent)
        for number, archive in enumerate(self.archives, 1):
            archive.ip = f"127.77.0.{number}"
            archive.breaches = self.breaches
        await self._around.__aenter__()
        known = await asyncio.to_thread(self._registry, Path(self._folder.name))
        policy = AddressPolicy(public=(PUBLIC,))
        settings = ResolverSettings(
            address=self.address, service=IBIForms.parse(f"ibip {RESOLVER_SERVICE}"), policy=self.policy
        )
        trusted = (ipaddress.ip_network("127.0.0.0/8"),)
        outside = outgoing(policy, self._around.names)
        self.acknowledgments = outside.acknowledgments
        self._stores = stores(known, Path(self._folder.name), self._around.names)
        app = ResolverService(settings, self._stores, outside, trusted=trusted)
        listener = listen("127.0.0.1:0")
        self.port = listener.getsockname()[1]
        self._stop, ready = asyncio.Event(), asyncio.Event()
        self._serving = asyncio.create_task(
            run([Service(app, close=app.close)], [listener], lambda _: ready.set(), self._stop)
        )
        await ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._serving
        self._stores.close()
        await self._around.__aexit__()
        self._folder.cleanup()

    def _registry(self, data: Path) -> Registry:
        """Every Archive registered and included, in the order of the play."""
        cast = tuple(
            (each.address, each.service, each.ip, self.hosts.get(each.name, ())) for each in self.archives
        )
        (data / "registry.sqlite").write_bytes(_registry_file(cast))
        return open_registry(data)

    async def ask(self, user: User) -> Seen:
        """A reader's question and its answer, after which acknowledgments have had time to arrive.

        Fails at once if any Archive was told what it must not know.
        """
        seen = await browse(self.port, self.address, user)
        await asyncio.sleep(_SETTLED)
        assert not self.breaches, self.breaches[0]
        return seen


@cache
def _registry_file(cast: tuple[tuple[str, str, str, tuple[str, ...]], ...]) -> bytes:
    """The database of a registry in which these (address, service, IP, hosts) are included; made once for each cast."""
    with tempfile.TemporaryDirectory() as folder:
        known = open_registry(Path(folder), new=True)
        for address, ibi, ip, hosts in cast:
            service = parse_ibi(ibi)
            known.register(service, _KEY, hosts)
            request = InclusionRequest(address, service, ip, "1", "admin@archive.example", _KEY)
            known.include(request, known.open_change(service), confirmed=True)
        known.close()
        return (Path(folder) / "registry.sqlite").read_bytes()


async def perform(play: Play, policy: str) -> None:
    """Play it under a policy."""
    archives = {
        known.name: ScriptedArchive(known.name, known.address, known.service)
        for known in play.archives.values()
    }
    absent = frozenset(act.archive for act in play.acts if isinstance(act, ArchiveLine) and act.absent)
    hosts = {known.name: known.hosts for known in play.archives.values()}
    stage = Stage(tuple(archives.values()), play.resolver, policy, absent, hosts)
    seen: Seen | None = None
    user: User | None = None
    before: dict[str, list[bytes]] = {}
    async with stage:
        for act in play.acts:
            if isinstance(act, ArchiveLine):
                _instruct(archives[act.archive], act)
            elif isinstance(act, User):
                before = {name: _words(archive) for name, archive in archives.items()}
                for archive in archives.values():
                    archive.received.clear()
                user, seen = act, await stage.ask(act)
            elif policy in act.policies:
                assert seen is not None, "somebody must ask before something can be expected"
                assert user is not None
                _compare(act, seen, archives, before)
                _listen(act, user, archives)


def _instruct(archive: ScriptedArchive, line: ArchiveLine) -> None:
    pairs = line.pairs or (
        {"archiveaddress": archive.address} if line.lie else {}
    )  # a lie is told about something
    body = write_pairs(pairs)
    conduct = Behaviour(body, line.after, line.drip, line.lie)
    if line.acknowledged:
        archive.on_acknowledgment = conduct
    elif line.ibi is None:
        archive.manner = conduct
    else:
        archive.script[line.ibi.lower(), line.verbs, line.path] = conduct


def _words(archive: ScriptedArchive) -> list[bytes]:
    return [request.raw for request in archive.requests("urlRequest")]


def _compare(
    expected: Expectation, seen: Seen, archives: dict[str, ScriptedArchive], before: dict[str, list[bytes]]
) -> None:
    """Hold what the reader and the Archives got against what the play expects."""
    problem = seen.problem
    message = f"{seen.status} {seen.headers.get('location', '')} {problem}"
    if expected.redirect is not None:
        assert (seen.status, seen.headers.get("location")) == (302, expected.redirect), message
    if expected.alert is not None:
        assert problem.get("kind") == expected.alert, message
    if expected.status is not None:
        assert seen.status == expected.status, message
    if expected.about is not None:
        assert frozenset(problem["about"]) == frozenset(archives[name].service for name in expected.about), (
            message
        )
    if expected.silent is not None:
        silent = frozenset(entry["service_ibi"] for entry in problem["archives"]["silent"])
        assert silent == frozenset(archives[name].service for name in expected.silent), message
    if expected.within is not None:
        assert seen.took <= expected.within, f"it took {seen.took:.3f} s"
    if expected.not_before is not None:
        assert seen.took >= expected.not_before, f"it took only {seen.took:.3f} s"
    if expected.as_before:
        assert before == {name: _words(archive) for name, archive in archives.items()}


def _listen(expected: Expectation, user: User, archives: dict[str, ScriptedArchive]) -> None:
    """Check the queries of each round, the acknowledgments, and that no secret was sent."""
    heard = [archive for archive in archives.values() if archive.connections]
    if expected.rounds is not None:
        for archive in heard:
            assert len(archive.questions) == expected.rounds, f"{archive.name} was asked {archive.questions}"
    if expected.queries:
        wanted = [(ibi.lower(), verbs) for ibi, verbs in expected.queries]
        for archive in heard:
            assert [question[:2] for question in archive.questions] == wanted, archive.name
    if expected.acknowledged is not None:
        acknowledged = [archive.name for archive in archives.values() for _ in archive.acknowledgments]
        assert acknowledged == ([] if expected.acknowledged == "nobody" else [expected.acknowledged])
    for name, value in expected.saying.items():
        assert expected.acknowledged is not None
        assert archives[expected.acknowledged].acknowledgments[0].get(name) == value, name
    if "language" in expected.never_sent:
        _never(heard, user.language)
    if "required state" in expected.never_sent:
        _never(heard, "requireditemstatus")


def _never(archives: list[ScriptedArchive], secret: str) -> None:
    """No question to any Archive has these letters in it, and none has a header for it."""
    assert secret, "a secret that was not there cannot be kept"
    requests: list[ReceivedRequest] = [
        request for archive in archives for request in archive.requests("urlRequest")
    ]
    assert requests
    assert not any(secret.lower().encode() in each.raw.lower() for each in requests)
