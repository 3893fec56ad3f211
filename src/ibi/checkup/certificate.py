"""The certificate of a service that readers reach over https: as it is shown to them, and as it lies in its file."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cryptography import x509

from ibi.checkup.finding import Finding, Verdict
from ibi.checkup.reach import DEADLINE, judge_answer, not_reached
from ibi.errors import IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DAY: Final = 86_400
_SOON: Final = 14
"""Days before its end when a certificate should have been renewed: those of a quarter are renewed after two months."""
_LONGEST_ANSWER: Final = 4096
_RENEW: Final = "renew the certificate, and see that the service or its proxy has taken the new one"


def https_address(url: str) -> tuple[str, int]:
    """Host and port of an https URL. Raises SetupError for anything else."""
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
    """How long the certificate is valid, and whether the URL leads here; `now` in POSIX seconds."""
    host, port = https_address(url)
    connection = http.client.HTTPSConnection(
        host, port, timeout=DEADLINE, context=ssl.create_default_context()
    )
    advice = IbiError(_RENEW)
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
        yield Finding("certificate", Verdict.FAULT, sentence, advice)
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a name that is none
        reason = (
            (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        )
        yield not_reached(url, reason)
    finally:
        connection.close()


def check_certificate_file(path: Path, now: float) -> Iterator[Finding]:
    """How long the first certificate in a PEM file is valid: that of the service; `now` in POSIX seconds."""
    try:
        first = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a certificate"
        sentence = IbiError("{path} cannot be read: {reason}", path=path, reason=reason)
        yield Finding("certificate", Verdict.FAULT, sentence)
        return
    yield _judge_end(str(path), int((first.not_valid_after_utc.timestamp() - now) // _DAY))


def _judge_end(host: str, days: int) -> Finding:
    if days < 0:
        sentence = IbiError("the certificate of {host} is not valid any more", host=host)
        return Finding("certificate", Verdict.FAULT, sentence, IbiError(_RENEW))
    sentence = IbiError("the certificate of {host} is valid for {days} more days", host=host, days=days)
    if days < _SOON:
        return Finding("certificate", Verdict.WARNING, sentence, IbiError(_RENEW))
    return Finding("certificate", Verdict.OK, sentence)
