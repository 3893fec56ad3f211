"""Requests that take long: copies, harvests, transfers.

Built on aiohttp, whose automatic behaviour is off: no cookies, no proxy of the environment, no decompression, no
redirects. A literal address is judged before the request, because aiohttp passes it to no resolver. A name is judged
by all its addresses at once, and the connection goes to one of these. See T01: private addresses; T02: changing
addresses; T10: huge answers; T13: unsafe redirects.

Entry points: `Downloads.get` (a file, in pieces) and `Downloads.send` (JSON).
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import socket
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from errno import ENODATA
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urljoin

import ibi
from ibi.errors import ForbiddenAddress, PeerGarbled, PeerSilent
from ibi.http.client.address_policy import HostPort, system_lookup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult

    from ibi.http.client.address_policy import AddressPolicy, HostLookup


_MOST_ADDRESSES: Final = 4  # addresses of one name that are tried


class CheckedNames:
    """Looks names up for aiohttp, as an `AbstractResolver`; one forbidden address forbids the whole name.

    It does not derive from that class, so that aiohttp is imported only for a download: the import takes a
    quarter of a second, for which every start of every process would have to wait.
    """

    def __init__(self, policy: AddressPolicy, host_lookup: HostLookup) -> None:
        self._policy = policy
        self._host_lookup = host_lookup

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - aiohttp's signature
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises ForbiddenAddress, and OSError if there are none."""
        found = await self._host_lookup(host, port)
        for ip, _ in found:
            self._policy.check(ip, host)
        if not found:
            raise OSError(ENODATA, os.strerror(ENODATA))
        return [
            {
                "hostname": host,
                "host": ip,
                "port": to,
                "family": socket.AF_INET6 if ":" in ip else socket.AF_INET,
                "proto": socket.IPPROTO_TCP,
                "flags": socket.AI_NUMERICHOST,
            }
            for ip, to in found[:_MOST_ADDRESSES]
        ]

    async def close(self) -> None:
        """Do nothing: nothing is open."""


IDLE_SECONDS: Final = 20.0
"""How long the other side may stay silent in the middle of an answer."""

CONNECT_SECONDS: Final = 10.0
"""How long it may take to make a connection."""
MOST_REDIRECTS: Final = 5
"""Redirects of one download (T13: unsafe redirects)."""
LONGEST_URL: Final = 8192
"""Characters of a URL that is fetched."""
LARGEST_REPLY: Final = 1 << 20
"""Bytes of an answer to `send` (T10: huge answers)."""

_CHUNK: Final = 1 << 16  # bytes of a body that are read at a time
_URL = re.compile(r"(https?)://([^/?#@\\]*)([/?][\x21-\x7e]*)?", re.ASCII | re.IGNORECASE)
_HEADER = re.compile(r"[\x20-\x7e]*", re.ASCII)
_HTTPS_PORT: Final = 443
_MOST_DOWNLOADS: Final = 16  # downloads at once
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class CheckedURL:
    """The checked parts of an http or https URL that may be requested."""

    secure: bool
    where: HostPort
    target: str

    @classmethod
    def parse(cls, url: str) -> CheckedURL:
        """Read an absolute URL; a fragment is left out. Raises ForbiddenAddress for any other kind of address."""
        match = _URL.fullmatch(url.partition("#")[0]) if len(url) <= LONGEST_URL else None
        if match is None:
            problem = "{url} is no http or https URL in ASCII without user and blanks"
            raise ForbiddenAddress(problem, url=url[:120])
        secure, authority, target = match[1].lower() == "https", match[2], match[3] or "/"
        if secure and ":" not in authority.rpartition("]")[2]:
            authority = f"{authority}:{_HTTPS_PORT}"
        return cls(secure, HostPort.parse(authority), target if target.startswith("/") else f"/{target}")

    @property
    def root(self) -> str:
        """Scheme, host and port: "http://archive.example:8080"."""
        if not self.secure:
            return f"http://{self.where}"
        host = f"[{self.where.host}]" if ":" in self.where.host else self.where.host
        port = "" if self.where.port == _HTTPS_PORT else f":{self.where.port}"
        return f"https://{host}{port}"

    def __str__(self) -> str:
        """The URL, byte for byte except for the case of its host."""
        return f"{self.root}{self.target}"


class Download:
    """An answer that is coming in: `headers` by lower-case name; `url` is the last one, after redirects."""

    def __init__(
        self, reply: aiohttp.ClientResponse, place: CheckedURL, most_bytes: int, deadline: float
    ) -> None:
        self.status = reply.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in reply.headers.items()}
        self.url = str(place)
        self._host = str(place.where)
        self._reply = reply
        self._most = most_bytes
        self._deadline = deadline
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > most_bytes:
            self._too_large()
        if self.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            raise PeerGarbled("the answer is compressed, though this was refused beforehand")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Read the body piece by piece. Raises PeerSilent, and PeerGarbled if the body is too long."""
        received = 0
        while True:
            with _plain_faults(self._host):
                async with asyncio.timeout_at(self._deadline):
                    chunk = await self._reply.content.read(_CHUNK)
            if not chunk:
                return
            received += len(chunk)
            if received > self._most:
                self._too_large()
            yield chunk

    async def read(self) -> bytes:
        """Read the whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    def _too_large(self) -> None:
        raise PeerGarbled("the answer is larger than {limit} bytes", limit=self._most)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer to `Downloads.send`."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Read the body as JSON. Raises PeerGarbled."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise PeerGarbled("the answer is not JSON") from None


class Downloads:
    """Sends long requests. Belongs to one event loop; `host_lookup` replaces that of this machine.

    `seconds`: how long all its requests together may take, from the start of the block. A request that is not
    complete then fails as one of a peer that does not answer in time.
    """

    def __init__(
        self, policy: AddressPolicy, host_lookup: HostLookup | None = None, seconds: float = math.inf
    ) -> None:
        self._policy = policy
        self._host_lookup = host_lookup or system_lookup
        self._seconds = seconds
        self._end = math.inf
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session of aiohttp."""
        import aiohttp

        self._end = asyncio.get_running_loop().time() + self._seconds
        resolver = cast("AbstractResolver", CheckedNames(self._policy, self._host_lookup))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=resolver,
                use_dns_cache=False,
                # A POST over a kept connection that the other side has just closed could not be sent again.
                force_close=True,
                limit=_MOST_DOWNLOADS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"ibi/{ibi.__version__}", "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS),
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the session, and end the requests that are under way."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def get(
        self,
        url: str,
        *,
        most_bytes: int,
        seconds: float,
        headers: Mapping[str, str] | None = None,
        follow: bool = False,
    ) -> AsyncIterator[Download]:
        """Request a URL; the answer is read within the block, and must end within `seconds`.

        A redirect is an answer like any other, unless `follow`: then at most five are followed, each judged
        like the first address, and none from https to http; `headers` go only to the host that they are meant
        for. Raises ForbiddenAddress, PeerSilent or PeerGarbled.
        """
        deadline = self._deadline(seconds)
        place, sent = CheckedURL.parse(url), dict(headers or {})
        for _ in range(MOST_REDIRECTS + 1):
            async with self._ask("GET", place, sent, None, deadline) as reply:
                if not (follow and reply.status in _REDIRECTS and "location" in reply.headers):
                    yield Download(reply, place, most_bytes, deadline)
                    return
                try:
                    further = CheckedURL.parse(urljoin(str(place), reply.headers["location"]))
                except ValueError:
                    raise PeerGarbled("the redirect leads to no URL") from None
            if place.secure and not further.secure:
                raise ForbiddenAddress("a redirect from https to http is not followed")
            sent = sent if (further.where, further.secure) == (place.where, place.secure) else {}
            place = further
        raise PeerGarbled("more than {most} redirects", most=MOST_REDIRECTS)

    async def send(
        self, method: str, url: str, *, json: Any = None, token: str = "", seconds: float = 30.0
    ) -> Answer:
        """Send a JSON value and return the whole answer, whatever its status. `token` goes as a bearer token.

        Raises ForbiddenAddress, PeerSilent or PeerGarbled; after PeerSilent, it may have had its effect.
        """
        deadline = self._deadline(seconds)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        place = CheckedURL.parse(url)
        async with self._ask(method, place, headers, json, deadline) as reply:
            download = Download(reply, place, LARGEST_REPLY, deadline)
            return Answer(download.status, download.headers, await download.read())

    def _deadline(self, seconds: float) -> float:
        """Return when a request must end that may take so many seconds."""
        return min(asyncio.get_running_loop().time() + seconds, self._end)

    @asynccontextmanager
    async def _ask(
        self, method: str, place: CheckedURL, headers: Mapping[str, str], content: Any, deadline: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        from yarl import URL

        if self._session is None or self._session.closed:
            raise PeerSilent("this client is closed")
        if place.where.ip is not None:
            self._policy.check(str(place.where.ip))
        if not all(_HEADER.fullmatch(part) for pair in headers.items() for part in pair):
            problem = "a header cannot be sent"
            raise ValueError(problem)
        with _plain_faults(str(place.where)):
            async with asyncio.timeout_at(deadline):
                reply = await self._session.request(
                    method,
                    URL(str(place), encoded=True),
                    headers=dict(headers),
                    json=content,
                    allow_redirects=False,
                )
        try:
            yield reply
        finally:
            reply.close()  # a connection whose answer was not read to its end cannot be used again


@contextmanager
def _plain_faults(host: str) -> Iterator[None]:
    import aiohttp

    try:
        yield
    except TimeoutError as error:
        raise PeerSilent("{host} did not answer in time", host=host) from error
    except aiohttp.ClientConnectorDNSError as error:
        raise PeerSilent("the name {host} has no address", host=host) from error
    except aiohttp.ClientConnectorError as error:
        # An error about a certificate has no `os_error` in aiohttp 3.12.
        cause: Exception | None = getattr(error, "certificate_error", None)
        cause = cause or error.os_error
        reason = getattr(cause, "strerror", None) or type(cause).__name__
        raise PeerSilent("{host} cannot be reached: {reason}", host=host, reason=reason) from error
    except aiohttp.ClientResponseError as error:
        raise PeerGarbled("the answer is not HTTP: {reason}", reason=_shown(error.message)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise PeerSilent("the connection was closed before the end of the answer") from error


def _shown(reason: str) -> str:
    line = reason.partition("\n")[0].rstrip(": ")
    return "".join(char if " " <= char <= "~" else "?" for char in line)[:120]
