"""The root of every URL that readers, harvesters and citations get: "https://archive.example".

    https://archive.example          the setting `public_url`; else
    https://archive.example:8443     of a server with TLS: its host, and the port where it listens; else
    https://archive.example          what a trusted proxy says (X-Forwarded-Proto, X-Forwarded-Host); else
    http://archive.example           its address

A proxy is believed only if it is trusted, and about the host only if this is one of ours: else a client could have us
cite any site (T26: foreign host names).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.http.client_address import is_trusted
from ibi.http.request import host_of
from ibi.protocol.messages import split_hostport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.http.client_address import IPNetwork
    from ibi.http.request import Request
    from ibi.runtime.settings import ArchiveSettings, ResolverSettings

_HTTPS: Final = 443


class TLSPorts(NamedTuple):
    """Where a server listens with TLS, and where without ("" for nowhere), each as "host:port"."""

    bind: str
    plain_bind: str

    def root(self, address: str) -> str:
        """Return the root of the URLs of a server whose `address` is "host[:port]".

        If it has two ports, `address` is that of messages, without TLS (MSG-02: the resolver's address), so the port
        is that of `bind`.
        """
        host, port = split_hostport(address)
        if self.plain_bind:
            port = int(self.bind.rpartition(":")[2])
        host = f"[{host}]" if ":" in host else host
        return f"https://{host}" if port in {None, _HTTPS} else f"https://{host}:{port}"


def uses_https(request: Request, *, proxied: bool) -> bool:
    """Whether a reader used https; `proxied`: whether the connection comes from a trusted proxy, which is believed."""
    return request.secure or (proxied and request.header(b"x-forwarded-proto").strip().lower() == "https")


class PublicURL:
    """Chooses the root for the URLs in an answer; `proxies`: the trusted ones."""

    def __init__(self, settings: ArchiveSettings | ResolverSettings, proxies: Sequence[IPNetwork]) -> None:
        self.root = settings.root
        """The root by the settings; all answers have it if the operator has chosen it."""
        self.varies = bool(proxies) and not settings.public_url
        """Whether the root depends on the request."""
        self._main = host_of(settings.address)
        self._ours = {spelled for each in settings.addresses for spelled in (each.lower(), host_of(each))}
        self._proxies = proxies

    def of(self, request: Request) -> str:
        """Return the root of the URLs in the answer to a request."""
        if not self.varies or not uses_https(request, proxied=is_trusted(request.peer, self._proxies)):
            return self.root
        host = (request.header(b"x-forwarded-host") or request.header(b"host")).strip().lower()
        return f"https://{host if host in self._ours else self._main}"
