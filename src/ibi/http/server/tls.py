"""TLS of a server: its files, which are read again when they are renewed, and what browsers are told (HSTS)."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

HSTS: Final = ("strict-transport-security", "max-age=31536000")
"""The header of every answer over TLS (RFC 6797): browsers use https for a year, at every port of this host."""

_log = logging.getLogger("ibi.tls")


class Certificate:
    """The certificate of a server in a live SSL context; `files`: those of the chain and of the private key."""

    def __init__(self, files: tuple[str, str], context: ssl.SSLContext) -> None:
        self._files = files
        self._context = context
        self._read = self._fingerprints()

    def reload(self) -> None:
        """Use the files from the next handshake on if they have changed; log why where they cannot be used."""
        found = self._fingerprints()
        if found == self._read:
            return
        self._read = found
        chain, key = self._files
        try:
            # Tried first: a half-written pair must not replace the one in use.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key)
            self._context.load_cert_chain(chain, key)
        except (OSError, ssl.SSLError) as error:
            _log.warning("the renewed certificate %s cannot be used: %s", chain, error)
        else:
            _log.info("the certificate %s was read again", chain)

    def _fingerprints(self) -> list[tuple[int, int] | None]:
        return [_fingerprint(Path(each)) for each in self._files]


def _fingerprint(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
