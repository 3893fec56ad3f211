"""A second address of a service, at which only files are served (note 32: pages of depositors; T14: injected text).

It must have a host name of its own: a browser tells origins apart by scheme, host and port, but keeps cookies
by host alone. The Host header decides, so both names may lead to one port, proxied or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.http.request import host_of
from ibi.http.response import redirect

if TYPE_CHECKING:
    from ibi.http.request import Request
    from ibi.http.response import Response


class FilesOrigin:
    """The address of the files, "host[:port]"; "" where files have no address of their own."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._host = host_of(address)

    def receives(self, request: Request) -> bool:
        """Whether a request came to the address of the files."""
        return bool(self._host) and host_of(request.header(b"host")) == self._host

    def separates(self, request: Request) -> bool:
        """Whether a request came to another address, where no file is served that a browser would render."""
        return bool(self._host) and not self.receives(request)

    def redirect(self, request: Request) -> Response:
        """Redirect to the same path and query at the address of the files, by the scheme of the reader."""
        # Without a scheme: behind a proxy that ends TLS, this process does not know that of the reader.
        return redirect(f"//{self._address}{request.target}")
