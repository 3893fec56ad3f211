"""Checks over the network: whether names lead here, peers answer (AMB-10, REG-09), and the certificate is valid.

What is proven is only what a request brought back: a name leads here when the answer knows our nonce.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import ssl
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cryptography import x509

from ibi.app.doctor import Finding, Severity
from ibi.archive.membership.membership import resolver_address
from ibi.errors import IbiError, ParseError, PeerError, PeerGarbled, SetupError
from ibi.http.client import HostPort
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.protocol.messages import ConfirmationRequest, split_hostport
from ibi.protocol.replies import Confirmation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ibi.http.client import Client
    from ibi.resolver.model.archive import Archive, RegisteredArchive
    from ibi.runtime.settings import ArchiveSettings, ResolverSettings, SubsystemSettings


DEADLINE: Final = 3.0
"""Seconds for each answer; all are asked at once."""

_OK: Final = 200
_HTTP_PORT: Final = 80
_NONCE = re.compile(rb"[0-9a-f]{32}")


def addresses_of_archive(settings: ArchiveSettings) -> list[str]:
    """List what should lead to an Archive: its address, its IP at the same port, and the names in its labels."""
    # The port that an IBIp spells (800) is left out: it is a part of the name, and nothing need listen there.
    _, port = split_hostport(settings.address)
    found = [settings.address, host_port(settings.ip, port or _HTTP_PORT)]
    found += settings.aliases
    if settings.mint_host:
        found.append(host_port(settings.mint_host, settings.mint_port))
        found += [host_port(settings.mint_ip, settings.mint_port)] if settings.mint_ip else []
    return _each_once(found)


def addresses_of_resolver(settings: ResolverSettings) -> list[str]:
    """List what should lead to a resolver: its address and its other names."""
    return _each_once([settings.address, *settings.aliases])


def addresses_of_subsystem(settings: SubsystemSettings) -> list[str]:
    """List what should lead to the service of a subsystem: the host and the IP that its labels spell."""
    return _each_once(host_port(host, settings.port) for host in (settings.host, settings.ip) if host)


def host_port(host: str, port: int) -> str:
    """Join host and port to "host[:port]", with brackets around an IPv6 address."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == _HTTP_PORT else f"{shown}:{port}"


def _each_once(addresses: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(address.lower().removesuffix(":80") for address in addresses))


async def prove(client: Client, address: str, nonce: str) -> Finding:
    """Check whether "host[:port]" leads to the service of the directory in which the nonce was published."""
    try:
        reply = await client.get(address, "/-/nonce", DEADLINE)
        where = HostPort.parse(address)
    except PeerError as error:
        return not_reached(address, error)
    found = judge_answer(address, reply.status, reply.body, nonce)
    if found.severity is Severity.OK and _resolved_privately(where, reply.peer):
        sentence = IbiError(
            "{address} leads here for this machine alone, which finds the name at {ip}",
            address=address,
            ip=reply.peer,
        )
        remedy = IbiError("ask from a machine outside, or without the line for this name in /etc/hosts")
        return Finding("address", Severity.NOT_PROVEN, sentence, remedy)
    return found


def not_reached(address: str, reason: object) -> Finding:
    """Report an address without an answer: nothing is proven about it."""
    sentence = IbiError(
        "it is not proven that {address} leads here: {reason}", address=address, reason=reason
    )
    remedy = IbiError("start the service, then look at the name, the network and the proxies before it")
    return Finding("address", Severity.NOT_PROVEN, sentence, remedy)


def judge_answer(address: str, status: int, body: bytes, nonce: str) -> Finding:
    """Judge what an answer to GET /-/nonce proves."""
    answered = body.strip()
    if status == _OK and answered == nonce.encode():
        return Finding("address", Severity.OK, IbiError("{address} leads here", address=address))
    if status == _OK and _NONCE.fullmatch(answered):
        sentence = IbiError("{address} leads to another directory's service", address=address)
    else:
        problem = "it is not proven that {address} leads here: what answers there does not know our nonce ({status})"
        sentence = IbiError(problem, address=address, status=status)
    remedy = IbiError("see that the service of this directory answers there, and no other or older one")
    return Finding("address", Severity.NOT_PROVEN, sentence, remedy)


def _resolved_privately(where: HostPort, peer: str) -> bool:
    """Whether a public name was found at an address that is not public, so that others find it elsewhere."""
    # Debian puts 127.0.1.1 for its own name into /etc/hosts; split-horizon name services answer differently inside.
    public = where.ip is None and "." in where.host and where.host.rpartition(".")[2] not in TRIAL_DOMAINS
    return public and not is_public_ip(peer)


async def check_archives(client: Client, archives: Sequence[RegisteredArchive]) -> list[Finding]:
    """Check whether each registered Archive answers a confirmation request (MSG-22)."""
    if not archives:
        remedy = IbiError("ibi resolver register")
        return [Finding("archive", Severity.WARNING, IbiError("no Archive is registered"), remedy)]
    return await asyncio.gather(*(_check_archive(client, archive) for archive in archives))


async def _check_archive(client: Client, archive: RegisteredArchive) -> Finding:
    where = archive.included
    if where is None:
        sentence = IbiError("{ibi} is registered and switched off", ibi=archive.service_ibi)
        return Finding("archive", Severity.OK, sentence)
    started = time.perf_counter()
    try:
        await _confirm(client, where)
    except PeerError as error:
        details = {"ibi": where.service_ibi, "address": where.address, "reason": error}
        sentence = IbiError("{ibi} at {address} does not answer: {reason}", **details)
        remedy = IbiError(
            "ask its administrator ({mail}), or: ibi resolver unregister", mail=where.admin_mail
        )
        return Finding("archive", Severity.WARNING, sentence, remedy)
    details = {
        "ibi": where.service_ibi,
        "address": where.address,
        "milliseconds": _milliseconds_since(started),
    }
    return Finding(
        "archive", Severity.OK, IbiError("{ibi} at {address} answers within {milliseconds} ms", **details)
    )


async def _confirm(client: Client, archive: Archive) -> None:
    """Ask an Archive to confirm itself. Raises PeerError where no Archive of this name does."""
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
    """Check whether the resolver of an Archive answers, and is one (note 24)."""
    started = time.perf_counter()
    try:
        address = resolver_address(root)
        reply = await client.get(address, "/-/about", DEADLINE)
        if reply.status != _OK or not _is_resolver(reply.body):
            raise PeerGarbled("what answers there is no resolver of ours ({status})", status=reply.status)
    except (PeerError, SetupError) as error:
        sentence = IbiError("the resolver {url} does not answer: {reason}", url=root, reason=error)
        remedy = IbiError("ask its administrator, or: ibi archive join")
        return [Finding("resolver", Severity.WARNING, sentence, remedy)]
    sentence = IbiError(
        "the resolver {url} answers within {milliseconds} ms",
        url=root,
        milliseconds=_milliseconds_since(started),
    )
    return [Finding("resolver", Severity.OK, sentence)]


def _is_resolver(body: bytes) -> bool:
    try:
        return bool(json.loads(body)["service_ibi"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _milliseconds_since(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:.0f}"


_DAY: Final = 86_400
_SOON: Final = 14
"""Days before its end when a certificate should have been renewed: those of 90 days are renewed after 60."""
_LONGEST_ANSWER: Final = 4096
_RENEW: Final = "renew the certificate, and see that the service or its proxy has taken the new one"


def https_address(url: str) -> tuple[str, int]:
    """Return host and port of an https URL. Raises SetupError for anything else."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    visible = all("!" <= char <= "~" for char in url)
    if parts.scheme != "https" or not host or not visible or "@" in parts.netloc or parts.path.strip("/"):
        raise SetupError("--url takes the root of an https address, https://urlib.net/; not {url}", url=url)
    return host, 443 if port is None else port


def check_certificate(url: str, nonce: str, now: float) -> Iterator[Finding]:
    """Check how long the certificate is valid, and whether the URL leads here; `now` in POSIX seconds."""
    host, port = https_address(url)
    connection = http.client.HTTPSConnection(
        host, port, timeout=DEADLINE, context=ssl.create_default_context()
    )
    remedy = IbiError(_RENEW)
    try:
        connection.connect()
        end = ssl.cert_time_to_seconds(str((connection.sock.getpeercert() or {})["notAfter"]))
        yield _judge_end(host, int((end - now) // _DAY))
        connection.request("GET", "/-/nonce")
        reply = connection.getresponse()
        yield judge_answer(f"{host}:{port}", reply.status, reply.read(_LONGEST_ANSWER), nonce)
    except ssl.SSLCertVerificationError as error:
        sentence = IbiError(
            "the certificate of {host} is not accepted: {reason}", host=host, reason=error.verify_message
        )
        yield Finding("certificate", Severity.FAULT, sentence, remedy)
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: not a host name
        reason = (
            (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        )
        yield not_reached(url, reason)
    finally:
        connection.close()


def check_certificate_file(path: Path, now: float) -> Iterator[Finding]:
    """Check how long the first certificate in a PEM file, the service's, is valid; `now` in POSIX seconds."""
    try:
        first = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a certificate"
        sentence = IbiError("{path} cannot be read: {reason}", path=path, reason=reason)
        yield Finding("certificate", Severity.FAULT, sentence)
        return
    yield _judge_end(str(path), int((first.not_valid_after_utc.timestamp() - now) // _DAY))


def _judge_end(host: str, days: int) -> Finding:
    if days < 0:
        sentence = IbiError("the certificate of {host} is not valid any more", host=host)
        return Finding("certificate", Severity.FAULT, sentence, IbiError(_RENEW))
    sentence = IbiError("the certificate of {host} is valid for {days} more days", host=host, days=days)
    if days < _SOON:
        return Finding("certificate", Severity.WARNING, sentence, IbiError(_RENEW))
    return Finding("certificate", Severity.OK, sentence)
