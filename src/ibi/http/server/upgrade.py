"""Ignores the header Upgrade: a request that offers another protocol is read as plain HTTP/1.1 (RFC 9110 7.8).

Java's HTTP client offers HTTP/2 with each request that it sends without TLS (`Upgrade: h2c`). After such a head,
httptools would take the body for the next request (T34: mixed-up answers). So the head is parsed again, without the
header. `CONNECT` is no offer: it has no body, and one that has a body is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from httptools import HttpRequestParser


def is_in_another_protocol(headers: list[tuple[bytes, bytes]], parser: HttpRequestParser) -> bool:
    """Return whether httptools reads on in another protocol after this head, although a body follows it."""
    by_name = dict(headers)
    has_body = b"transfer-encoding" in by_name or by_name.get(b"content-length", b"0").strip(b"0")
    return bool(has_body) and parser.should_upgrade()


class IgnoringUpgrades(HttpToolsProtocol):
    """uvicorn's protocol, which reads a body behind an offer of another protocol as a body."""

    headers: list[tuple[bytes, bytes]]
    _without_upgrade = b""  # the head that is parsed instead of the one that httptools is reading

    def ignore_upgrade(self) -> bool:
        """Leave out the offer of the head that was read; return False if there is none before a body."""
        method, url = self.parser.get_method(), self.url
        if method == b"CONNECT" or not is_in_another_protocol(self.headers, self.parser):
            return False
        fields = [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
        first = b"%b %b HTTP/%b" % (method, url, self.parser.get_http_version().encode())
        self._without_upgrade = b"\r\n".join([first, *fields, b"", b""])
        return True

    def _unsupported_upgrade_warning(self) -> None:
        """Parse the head again; uvicorn calls this after each head with an offer, to log a warning."""
        head, self._without_upgrade = self._without_upgrade, b""
        if head:
            HttpToolsProtocol.data_received(self, head)
