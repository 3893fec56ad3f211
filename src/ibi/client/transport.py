"""Ask a server over HTTP: bounded in time and bytes, certificates checked, and again where that is safe.

A request is sent again only if its method is safe or if it has an `Idempotency-Key`: after a broken connection, and
after 429 or 503 with `Retry-After`.
"""

from __future__ import annotations

import http.client
import io
import re
import ssl
import time
from collections import deque
from contextlib import closing, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from string import punctuation
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from ibi import __version__
from ibi.errors import PeerError, PeerGarbled, PeerSilent, SetupError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Mapping

    Body = bytes | Iterable[bytes]

LARGEST_ANSWER: Final = 4 * 1024 * 1024
"""Bytes of an answer that are read; a longer one is refused (T10: huge answers)."""
MOST_REDIRECTS: Final = 5
"""Redirects that are followed one after the other."""
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

_SAFE: Final = frozenset({"GET", "HEAD"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_LATER: Final = frozenset({429, 503})
_STATUS: Final = re.compile("[1-5][0-9]{2}")
_SECONDS: Final = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is sent, and until when.

    A request is sent at most `attempts` times, the last time at most `seconds` after the first.
    After a broken connection the client waits `pause` seconds, and each time twice as long.
    """

    attempts: int = 4
    seconds: float = 60
    pause: float = 0.5


USUAL: Final = Retries()


class Reply(NamedTuple):
    """An answer; the names of its headers are in lower case, `url` is what was asked."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """The media type without its parameters, in lower case; "" if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def outcome(self) -> int:
        """The status that a reader would get, of an explanation (`ibi-outcome`); 0 if the server does not say."""
        value = self.headers.get("ibi-outcome", "")
        return int(value) if _STATUS.fullmatch(value) else 0

    @property
    def retry_after(self) -> float | None:
        """The seconds of `Retry-After`; of a date, since the `Date` of the answer. None if neither can be read."""
        value = self.headers.get("retry-after", "").strip()
        if _SECONDS.fullmatch(value):
            return int(value)
        try:
            until, now = map(parsedate_to_datetime, (value, self.headers.get("date", "")))
            return max(0.0, (until - now).total_seconds())
        except (ValueError, TypeError):  # TypeError: one of them has no time zone
            return None


class Client:
    """The connections to the server at a root URL, as "https://urlib.net/". Threads may share one client.

    `language`: of sentences, as Accept-Language; `timeout`: seconds that may pass without anything arriving;
    `context`: which certificates are accepted, by default those that the system accepts. Raises SetupError.
    """

    def __init__(
        self,
        root: str,
        token: str | None = None,
        *,
        language: str = "en",
        timeout: float = 30,
        retries: Retries = USUAL,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = _root_of(root)
        if token is not None and not _is_visible(token):
            raise SetupError("the token has characters that no token has")
        self.root = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.host = parts.hostname or ""
        self._parts = parts
        self._retries = retries
        self._timeout = timeout
        if parts.scheme == "https" and context is None:
            context = ssl.create_default_context()
        self._context = context
        self._headers = {
            "Accept-Language": language if language.isascii() and language.isprintable() else "en",
            "User-Agent": f"ibi-client/{__version__}",
        }
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: deque[http.client.HTTPConnection] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are open."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().close()

    def ask(self, method: str, target: str, accept: str, body: Body | None = None, **headers: str) -> Reply:
        """Send a request for a path below the root; redirects are not followed.

        Names of `headers` have "_" for "-". Raises PeerSilent (no answer), PeerGarbled (not HTTP, or too long),
        PeerError (certificate).
        """
        sent = {**self._headers, "Accept": accept}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        repeatable = method in _SAFE or "Idempotency-Key" in sent
        last, pause = time.monotonic() + self._retries.seconds, self._retries.pause
        left = self._retries.attempts if repeatable else 1
        while True:
            left -= 1
            result: Reply | PeerSilent
            try:
                result = self._exchange(method, target, body, sent, repeatable=repeatable)
                wait = result.retry_after if (result.outcome or result.status) in _LATER else None
            except PeerSilent as error:
                result, wait, pause = error, pause, 2 * pause
            if wait is not None and left > 0 and time.monotonic() + wait <= last:
                time.sleep(wait)
            elif isinstance(result, PeerSilent):
                raise result
            else:
                return result

    def follow(self, target: str, accept: str) -> Reply:
        """GET a path below the root, and where it leads to. Only this server gets the token. Raises as `ask`."""
        reply = self.ask("GET", target, accept)
        for _ in range(MOST_REDIRECTS):
            location = reply.headers.get("location", "")
            if reply.status not in _REDIRECTS or not location:
                return reply
            try:
                parts = urlsplit(urljoin(reply.url, location))
                there = self._at(f"{parts.scheme}://{parts.netloc}/")
            except (ValueError, SetupError):
                raise PeerGarbled("{host} redirects to what is no URL", host=self.host) from None
            with there:
                reply = there.ask("GET", parts._replace(scheme="", netloc="", fragment="").geturl(), accept)
        raise PeerGarbled("{host} redirects again and again", host=self.host)

    def _at(self, root: str) -> Client:
        """Return a client of another server, without the token."""
        language = self._headers["Accept-Language"]
        return Client(
            root, language=language, timeout=self._timeout, retries=self._retries, context=self._context
        )

    def _exchange(
        self, method: str, target: str, body: Body | None, headers: Mapping[str, str], *, repeatable: bool
    ) -> Reply:
        if repeatable:
            with suppress(IndexError):
                reply = self._over(self._idle.pop(), method, target, body, headers, idle=True)
                if reply is not None:
                    return reply
        host, port = self.host, self._parts.port
        if self._parts.scheme == "https":
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=self._timeout, context=self._context
            )
        else:
            made = http.client.HTTPConnection(host, port, timeout=self._timeout)
        reply = self._over(made, method, target, body, headers)
        assert reply is not None  # noqa: S101 - only of a connection that was idle
        return reply

    def _over(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: Body | None,
        headers: Mapping[str, str],
        *,
        idle: bool = False,
    ) -> Reply | None:
        """Send a request over a connection. Return None if it was idle, and the server had closed it meanwhile."""
        target, whole = quote(target, safe=punctuation), False
        try:
            sent = _send(connection, method, self._parts.path.rstrip("/") + target, body, headers)
            response, content = self._answer(connection)
            whole = sent and not response.will_close
            received = {name.lower(): value for name, value in response.getheaders()}
            return Reply(f"{self.root}{target}", response.status, received, content)
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message
            raise PeerError(
                "the certificate of {host} is not accepted: {reason}", host=self.host, reason=reason
            ) from None
        except (OSError, http.client.IncompleteRead, http.client.ImproperConnectionState) as error:
            if idle and isinstance(error, ConnectionError):
                return None
            reason = getattr(error, "strerror", None) or str(error) or "connection broken"
            raise PeerSilent("{host} cannot be reached: {reason}", host=self.host, reason=reason) from None
        except (http.client.HTTPException, ValueError):
            raise PeerGarbled("what answers at {host} does not speak HTTP", host=self.host) from None
        finally:
            if whole:
                self._idle.append(connection)
            else:
                connection.close()

    def _answer(self, connection: http.client.HTTPConnection) -> tuple[http.client.HTTPResponse, bytes]:
        deadline = time.monotonic() + self._retries.seconds
        arriving: Any = None

        def response_class(sock: socket.socket, *more: Any, **named: Any) -> http.client.HTTPResponse:
            nonlocal arriving
            arriving = _Arriving(sock, deadline, self._timeout)
            return http.client.HTTPResponse(arriving, *more, **named)

        connection.response_class = response_class  # type: ignore[assignment]  # http.client only calls it
        with closing(connection.getresponse()) as response:
            if arriving.ended:  # the head was cut, which `getresponse` does not tell
                raise ConnectionResetError
            content = response.read(LARGEST_ANSWER + 1)
            if len(content) > LARGEST_ANSWER:
                problem = "the answer of {host} is longer than {limit} bytes"
                raise PeerGarbled(problem, host=self.host, limit=LARGEST_ANSWER)
            if response.length:  # the body was cut, which `read` does not tell
                raise ConnectionResetError
            return response, content


def _send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Body | None,
    headers: Mapping[str, str],
) -> bool:
    """Send a request; return false if the server closed before it had read all of it, as to refuse a large body."""
    if connection.sock is not None:
        connection.sock.settimeout(connection.timeout)
    try:
        connection.request(method, path, body, dict(headers))
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


class _Arriving(io.RawIOBase):
    """What arrives at a socket until a moment, as `HTTPResponse` reads it.

    A server that sends a byte now and then must not hold its client for ever.
    """

    def __init__(self, sock: socket.socket, deadline: float, timeout: float) -> None:
        self.ended = False
        self._sock, self._deadline, self._timeout = sock, deadline, timeout
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a file of it, as a socket does."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int | None:  # type: ignore[override]  # as RawIOBase calls it
        """Read what has arrived. Raises TimeoutError."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(min(left, self._timeout))
        read = self._raw.readinto(buffer)
        self.ended = read == 0
        return read

    def close(self) -> None:
        """Close this file; the connection goes on."""
        if not self.closed:
            self._raw.close()
        super().close()


def _is_visible(text: str) -> bool:
    return bool(text) and all("!" <= char <= "~" for char in text)


def _root_of(url: str) -> SplitResult:
    """Split the root URL of a server. Raises SetupError if it is none."""
    try:
        root = urlsplit(url)
        host, _ = root.hostname, root.port  # urlsplit checks the port only when it is read
    except ValueError:
        root, host = urlsplit(""), None
    if root.scheme not in {"http", "https"} or not host or not _is_visible(url) or root.query:
        raise SetupError("the root URL of a server is like http://urlib.net/; not {url}", url=url)
    return root
