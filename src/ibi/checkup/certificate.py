"""The certificate of a service that readers reach over https, and whether that URL leads here."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ibi.checkup.finding import Finding, Verdict
from ibi.checkup.reach import DEADLINE, judge_answer, not_reached
from ibi.errors import IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAY: Final = 86_400
_SOON: Final = 14
"""Days before its end when a certificate should have been renewed: those of a quarter are renewed after two months."""
_LONGEST_ANSWER: Final = 4096


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
    advice = IbiError("renew the certificate, and see that the service or its proxy has taken the new one")
    try:
        connection.connect()
        end = ssl.cert_time_to_seconds(str((connection.sock.getpeercert() or {})["notAfter"]))
        yield _judge_end(host, int((end - now) // _DAY), advice)
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


def _judge_end(host: str, days: int, advice: IbiError) -> Finding:
    sentence = IbiError("the certificate of {host} is valid for {days} more days", host=host, days=days)
    if days < _SOON:
        return Finding("certificate", Verdict.WARNING, sentence, advice)
    return Finding("certificate", Verdict.OK, sentence)
