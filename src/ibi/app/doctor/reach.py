"""Checks over the network: whether names lead here, peers answer (AMB-10, REG-09), and the certificate is valid.

That a name leads here is proven only by an answer that contains our nonce.
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

from ibi.app.doctor import Finding, Severity, fault, not_proven, ok, warning
from ibi.archive.membership.membership import destination_of
from ibi.errors import ParseError, PeerError, PeerGarbled, SetupError
from ibi.http.client import HostPort
from ibi.identifier.forms import parse_ibi
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.protocol.messages import ConfirmationRequest, split_hostport
from ibi.protocol.replies import Confirmation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ibi.http.client import Client
    from ibi.resolver.model.archive import Archive, RegisteredArchive
    from ibi.runtime.settings import ArchiveSettings


DEADLINE: Final = 3.0
"""Seconds for each answer; all requests are sent at the same time."""

_OK: Final = 200
_HTTP_PORT: Final = 80
_NONCE = re.compile(rb"[0-9a-f]{32}")


def addresses_of_archive(settings: ArchiveSettings) -> list[str]:
    """List the addresses that should lead to an Archive: its own, its IP at this port, those in labels."""
    # The port in an IBIp (800) is left out: it is only a part of the name, and nothing need listen there.
    _, port = split_hostport(settings.address)
    minting = (settings.mint_host, settings.mint_ip if settings.mint_host else "")
    return [
        settings.address,
        *host_ports(port or _HTTP_PORT, settings.ip),
        *settings.aliases,
        *filter(None, (settings.files_address,)),
        *host_ports(settings.mint_port, *minting),
    ]


def host_ports(port: int, *hosts: str) -> list[str]:
    """Join each host that is not empty with a port: "host[:port]", with brackets around an IPv6 address."""
    names = [f"[{host}]" if ":" in host else host for host in hosts if host]
    return names if port == _HTTP_PORT else [f"{name}:{port}" for name in names]


async def prove(client: Client, address: str, nonce: str) -> Finding:
    """Check whether "host[:port]" leads to the service of the directory where the nonce was published."""
    try:
        reply = await client.get(address, "/-/nonce", DEADLINE)
        where = HostPort.parse(address)
    except PeerError as error:
        return not_reached(address, error)
    found = judge_answer(address, reply.status, reply.body, nonce)
    if found.severity is Severity.OK and _resolved_privately(where, reply.peer):
        sentence = "{address} leads here for this machine alone, which finds the name at {ip}"
        remedy = "ask from a machine outside, or without the line for this name in /etc/hosts"
        return not_proven("address", sentence, remedy, address=address, ip=reply.peer)
    return found


async def check_files_address(client: Client, address: str) -> list[Finding]:
    """Check whether the address of the files ("host[:port]") serves nothing but files (note 32)."""
    try:
        reply = await client.get(address, "/-/about", DEADLINE)
    except PeerError:
        return []  # `prove` reports an address that cannot be reached
    if reply.status != _OK:
        return [ok("files", "the files of items have an address of their own, {address}", address=address)]
    sentence = "at {address}, which is to serve nothing but files, the Archive answers under its other name"
    remedy = "see that the proxy passes on the header Host, and that the service runs with this setting"
    return [fault("files", sentence, remedy, address=address)]


def not_reached(address: str, reason: object) -> Finding:
    """Report that nothing is proven about an address, because it did not answer."""
    sentence = "it is not proven that {address} leads here: {reason}"
    remedy = "start the service, then look at the name, the network and the proxies before it"
    return not_proven("address", sentence, remedy, address=address, reason=reason)


def judge_answer(address: str, status: int, body: bytes, nonce: str) -> Finding:
    """Judge what an answer to GET /-/nonce proves."""
    answered = body.strip()
    if status == _OK and answered == nonce.encode():
        return ok("address", "{address} leads here", address=address)
    if status == _OK and _NONCE.fullmatch(answered):
        sentence = "{address} leads to another directory's service"
    else:
        sentence = "it is not proven that {address} leads here: what answers there does not know our nonce ({status})"
    remedy = "see that the service of this directory answers there, and no other or older one"
    return not_proven("address", sentence, remedy, address=address, status=status)


def _resolved_privately(where: HostPort, peer: str) -> bool:
    """Return whether a public name led to a private address, so that other machines find another address."""
    # Debian maps its own name to 127.0.1.1 in /etc/hosts; split-horizon DNS answers differently inside.
    public = where.ip is None and "." in where.host and where.host.rpartition(".")[2] not in TRIAL_DOMAINS
    return public and not is_public_ip(peer)


async def check_archives(client: Client, archives: Sequence[RegisteredArchive]) -> list[Finding]:
    """Check whether each registered Archive answers a confirmation request (MSG-22)."""
    if not archives:
        return [warning("archive", "no Archive is registered", "ibi resolver register")]
    return await asyncio.gather(*(_check_archive(client, archive) for archive in archives))


async def _check_archive(client: Client, archive: RegisteredArchive) -> Finding:
    where = archive.included
    if where is None:
        return ok("archive", "{ibi} is registered and switched off", ibi=archive.service_ibi)
    started = time.perf_counter()
    details = {"ibi": where.service_ibi, "address": where.address}
    try:
        await _confirm(client, where)
    except PeerError as error:
        sentence = "{ibi} at {address} does not answer: {reason}"
        remedy = "ask its administrator ({mail}), or: ibi resolver unregister"
        return warning("archive", sentence, remedy, **details, reason=error, mail=where.admin_mail)
    sentence = "{ibi} at {address} answers within {milliseconds} ms"
    return ok("archive", sentence, **details, milliseconds=_milliseconds_since(started))


async def _confirm(client: Client, archive: Archive) -> None:
    """Ask an Archive to confirm itself. Raises PeerError if no Archive of this name confirms."""
    target = f"/{archive.service_ibi}?{ConfirmationRequest().query()}"
    reply = await client.get(archive.address, target, DEADLINE)
    try:
        if reply.status == _OK:
            Confirmation.read(reply.body)
            return
    except ParseError:
        pass
    raise PeerGarbled("what answers there is not this Archive ({status})", status=reply.status)


async def check_resolver(client: Client, root: str, service: str) -> list[Finding]:
    """Check whether a resolver answers, and is a resolver (note 24); `service`: its IBI by the settings."""
    started = time.perf_counter()
    try:
        reply = await client.get(destination_of(root), "/-/about", DEADLINE)
    except (PeerError, SetupError) as error:
        sentence = "the resolver {url} does not answer: {reason}"
        remedy = "ask its administrator, or: ibi archive join"
        return [warning("resolver", sentence, remedy, url=root, reason=error)]
    named = _service_named(reply.body) if reply.status == _OK else ""
    if not (named or service):
        sentence = "what answers at {url} does not tell the IBI of a resolver's service ({status})"
        remedy = "ask its administrator for that IBI, and: ibi archive join --resolver {url}/IBI"
        return [warning("resolver", sentence, remedy, url=root, status=reply.status)]
    if named and service and named != service:
        sentence = "the resolver {url} says that its service is {named}, and the settings say {service}"
        remedy = "ask its administrator which one it is, and: ibi archive join --resolver {url}/IBI"
        return [warning("resolver", sentence, remedy, url=root, named=named, service=service)]
    milliseconds = _milliseconds_since(started)
    if not named:
        sentence = (
            "{url} answers within {milliseconds} ms; that {service} is its service is what the settings say"
        )
        return [ok("resolver", sentence, url=root, milliseconds=milliseconds, service=service)]
    sentence = "the resolver {url} answers within {milliseconds} ms"
    return [ok("resolver", sentence, url=root, milliseconds=milliseconds)]


def _service_named(body: bytes) -> str:
    """Return the IBI of the service in a /-/about; "" if it has none."""
    try:
        return str(parse_ibi(str(json.loads(body)["service_ibi"])))
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def _milliseconds_since(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:.0f}"


_DAY: Final = 86_400
_SOON: Final = 14
"""Days before its end by which a certificate should be renewed: those of 90 days are renewed after 60."""
_LONGEST_ANSWER: Final = 4096  # bytes of an answer that are read
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
        raise SetupError(
            "--url needs the root of an https address, such as https://urlib.net/, not {url}", url=url
        )
    return host, 443 if port is None else port


def check_certificate(url: str, nonce: str, now: float) -> Iterator[Finding]:
    """Check how long the certificate is valid, and whether the URL leads here; `now` in POSIX seconds."""
    host, port = https_address(url)
    connection = http.client.HTTPSConnection(
        host, port, timeout=DEADLINE, context=ssl.create_default_context()
    )
    try:
        connection.connect()
        end = ssl.cert_time_to_seconds(str((connection.sock.getpeercert() or {})["notAfter"]))
        yield _judge_end(host, int((end - now) // _DAY))
        connection.request("GET", "/-/nonce")
        reply = connection.getresponse()
        yield judge_answer(f"{host}:{port}", reply.status, reply.read(_LONGEST_ANSWER), nonce)
    except ssl.SSLCertVerificationError as error:
        sentence = "the certificate of {host} is not accepted: {reason}"
        yield fault("certificate", sentence, _RENEW, host=host, reason=error.verify_message)
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: not a host name
        reason = (
            (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        )
        yield not_reached(url, reason)
    finally:
        connection.close()


def check_certificate_file(path: Path, now: float) -> Iterator[Finding]:
    """Check how long the first certificate in a PEM file (the service's) is valid; `now`: POSIX seconds."""
    try:
        first = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a certificate"
        yield fault("certificate", "{path} cannot be read: {reason}", path=path, reason=reason)
        return
    yield _judge_end(str(path), int((first.not_valid_after_utc.timestamp() - now) // _DAY))


def _judge_end(host: str, days: int) -> Finding:
    if days < 0:
        return fault("certificate", "the certificate of {host} is not valid any more", _RENEW, host=host)
    sentence = "the certificate of {host} is valid for {days} more days"
    if days < _SOON:
        return warning("certificate", sentence, _RENEW, host=host, days=days)
    return ok("certificate", sentence, host=host, days=days)
