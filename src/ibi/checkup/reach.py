"""Who can be reached: the names and addresses that should lead here, and the peers of the network (AMB-10, REG-09)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import TYPE_CHECKING, Final

from ibi.archive.networking.membership import resolver_address
from ibi.checkup.finding import Finding, Verdict
from ibi.errors import IbiError, ParseError, PeerError, PeerGarbled, SetupError
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.protocol.messages import ConfirmationRequest, split_hostport
from ibi.protocol.replies import Confirmation
from ibi.transport import HostPort

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibi.resolver.registry import IncludedArchive, RegisteredArchive
    from ibi.settings import ArchiveSettings, ResolverSettings, SubsystemSettings
    from ibi.transport import Client

DEADLINE: Final = 3.0
"""Seconds for each answer; all are asked at once."""

_OK: Final = 200
_HTTP_PORT: Final = 80
_A_NONCE = re.compile(rb"[0-9a-f]{32}")


def addresses_of_archive(settings: ArchiveSettings) -> list[str]:
    """What should lead to an Archive: its address, its IP at the same port, and the names that its labels spell.

    The port that an IBIp spells (800) is a part of the name; nothing need listen there.
    """
    _, port = split_hostport(settings.address)
    found = [settings.address, host_port(settings.ip, port or _HTTP_PORT)]
    found += settings.aliases
    if settings.mint_host:
        found.append(host_port(settings.mint_host, settings.mint_port))
        found += [host_port(settings.mint_ip, settings.mint_port)] if settings.mint_ip else []
    return _each_once(found)


def addresses_of_resolver(settings: ResolverSettings) -> list[str]:
    """What should lead to a resolver: its address and its other names."""
    return _each_once([settings.address, *settings.aliases])


def addresses_of_subsystem(settings: SubsystemSettings) -> list[str]:
    """What should lead to the service of one of several subsystems: the host and the IP that its labels spell."""
    return _each_once(host_port(host, settings.port) for host in (settings.host, settings.ip) if host)


def host_port(host: str, port: int) -> str:
    """Host and port as one text, "host[:port]", with brackets around an IPv6 address."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == _HTTP_PORT else f"{shown}:{port}"


def _each_once(addresses: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(address.lower().removesuffix(":80") for address in addresses))


async def prove(client: Client, address: str, nonce: str) -> Finding:
    """Whether "host[:port]" leads to the service of the directory in which the nonce lies."""
    try:
        reply = await client.get(address, "/-/nonce", DEADLINE)
        where = HostPort.parse(address)
    except PeerError as error:
        return not_reached(address, error)
    found = judge_answer(address, reply.status, reply.body, nonce)
    if found.verdict is Verdict.OK and _is_own_word(where, reply.peer):
        sentence = IbiError(
            "{address} leads here for this machine alone, which finds the name at {ip}",
            address=address,
            ip=reply.peer,
        )
        advice = IbiError("ask from a machine outside, or without the line for this name in /etc/hosts")
        return Finding("address", Verdict.NOT_PROVEN, sentence, advice)
    return found


def not_reached(address: str, reason: object) -> Finding:
    """Nothing is proven where nobody answers."""
    sentence = IbiError(
        "it is not proven that {address} leads here: {reason}", address=address, reason=reason
    )
    advice = IbiError("start the service, then look at the name, the network and the proxies before it")
    return Finding("address", Verdict.NOT_PROVEN, sentence, advice)


def judge_answer(address: str, status: int, body: bytes, nonce: str) -> Finding:
    """What an answer to GET /-/nonce proves."""
    said = body.strip()
    if status == _OK and said == nonce.encode():
        return Finding("address", Verdict.OK, IbiError("{address} leads here", address=address))
    if status == _OK and _A_NONCE.fullmatch(said):
        sentence = IbiError("{address} leads to another directory's service", address=address)
    else:
        problem = "it is not proven that {address} leads here: what answers there does not know our nonce ({status})"
        sentence = IbiError(problem, address=address, status=status)
    advice = IbiError("see that the service of this directory answers there, and no other or older one")
    return Finding("address", Verdict.NOT_PROVEN, sentence, advice)


def _is_own_word(where: HostPort, peer: str) -> bool:
    """Whether a name of the whole world was found at an address that is no machine's in the whole world.

    Then the name service was not asked, or answers differently inside: Debian, for one, puts 127.0.1.1 into /etc/hosts.
    """
    worldly = where.ip is None and "." in where.host and where.host.rpartition(".")[2] not in TRIAL_DOMAINS
    return worldly and not is_public_ip(peer)


async def check_archives(client: Client, archives: Sequence[RegisteredArchive]) -> list[Finding]:
    """Whether each registered Archive answers, asked with the question that the standard has for that (MSG-22)."""
    if not archives:
        advice = IbiError("ibi resolver register")
        return [Finding("archive", Verdict.WARNING, IbiError("no Archive is registered"), advice)]
    return await asyncio.gather(*(_check_archive(client, archive) for archive in archives))


async def _check_archive(client: Client, archive: RegisteredArchive) -> Finding:
    where = archive.included
    if where is None:
        sentence = IbiError("{ibi} is registered and switched off", ibi=archive.service_ibi)
        return Finding("archive", Verdict.OK, sentence)
    begun = time.perf_counter()
    try:
        await _confirm(client, where)
    except PeerError as error:
        details = {"ibi": where.service_ibi, "address": where.address, "reason": error}
        sentence = IbiError("{ibi} at {address} does not answer: {reason}", **details)
        advice = IbiError(
            "ask its administrator ({mail}), or: ibi resolver unregister", mail=where.admin_mail
        )
        return Finding("archive", Verdict.WARNING, sentence, advice)
    details = {"ibi": where.service_ibi, "address": where.address, "milliseconds": _since(begun)}
    return Finding(
        "archive", Verdict.OK, IbiError("{ibi} at {address} answers within {milliseconds} ms", **details)
    )


async def _confirm(client: Client, archive: IncludedArchive) -> None:
    """Raises PeerError where no Archive of this name says that it is there."""
    target = f"/{archive.service_ibi}?{ConfirmationRequest().query()}"
    reply = await client.get(archive.address, target, DEADLINE)
    try:
        if reply.status == _OK:
            Confirmation.read(reply.body)
            return
    except ParseError:
        pass
    raise PeerGarbled("what answers there is not this Archive ({status})", status=reply.status)


async def check_resolver(client: Client, root: str) -> list[Finding]:
    """Whether the resolver of an Archive answers, and is one (note 24)."""
    begun = time.perf_counter()
    try:
        address = resolver_address(root)
        reply = await client.get(address, "/-/about", DEADLINE)
        if reply.status != _OK or not _is_resolver(reply.body):
            raise PeerGarbled("what answers there is no resolver of ours ({status})", status=reply.status)
    except (PeerError, SetupError) as error:
        sentence = IbiError("the resolver {url} does not answer: {reason}", url=root, reason=error)
        advice = IbiError("ask its administrator, or: ibi archive join")
        return [Finding("resolver", Verdict.WARNING, sentence, advice)]
    sentence = IbiError(
        "the resolver {url} answers within {milliseconds} ms", url=root, milliseconds=_since(begun)
    )
    return [Finding("resolver", Verdict.OK, sentence)]


def _is_resolver(body: bytes) -> bool:
    try:
        return bool(json.loads(body)["service_ibi"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _since(begun: float) -> str:
    return f"{(time.perf_counter() - begun) * 1000:.0f}"
