"""Warns the operator, once, of a proxy behind which all readers count as one client (threat T24, decision 0027).

    trusted, but it writes something else than an address into X-Forwarded-For
    not declared as trusted, though it brings X-Forwarded-For for several readers

The data directory lists the second kind for `ibi doctor`, a line each: "127.0.0.1 2026-11-27".
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ibi.http.client_address import hides_client, in_networks, read_addresses
from ibi.http.limits.token_bucket import client_key
from ibi.identifier.generator import is_public_ip
from ibi.runtime.durable_files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ibi.http.client_address import IPNetwork
    from ibi.http.request import Request

FILE: Final = "undeclared-proxies"
"""The list in a data directory; it may be removed at any time."""
_READERS: Final = 3  # from one address: a client that writes the header itself names only one
_MOST: Final = 16  # addresses that are looked at, and listed
_LONGEST: Final = 4096  # bytes of the list that are read

_log = logging.getLogger("ibi.http.proxies")


class ProxyFaults:
    """Looks for such proxies in the requests of a service.

    `trusted`: the declared proxies, which are removed from `undeclared`, the list of the data directory.
    """

    def __init__(self, trusted: tuple[IPNetwork, ...], undeclared: UndeclaredProxies | None = None) -> None:
        self.trusted = trusted
        self._undeclared = undeclared
        self._readers: dict[str, set[str]] = {}
        if undeclared is not None:
            undeclared.forget(trusted)

    def look(self, request: Request) -> None:
        """Look at a request that has X-Forwarded-For."""
        forwarded = request.header(b"x-forwarded-for")
        if hides_client(request.peer, forwarded, self.trusted):
            _log_once(request.peer)
            return
        reader, proxy = ("", "", *read_addresses(request.peer, forwarded, self.trusted))[-2:]
        # A public proxy that brings readers of a private network is their company's: none of ours to declare.
        if not reader or (is_public_ip(proxy) and not is_public_ip(reader)):
            return
        if len(self._readers) < _MOST:
            self._readers.setdefault(proxy, set())
        readers = self._readers.get(proxy, set())
        if len(readers) == _READERS:
            return
        readers.add(client_key(reader))
        if len(readers) == _READERS:
            _log.warning(
                "%s brings X-Forwarded-For and is not declared as a trusted proxy: all its readers count as one",
                proxy,
            )
            if self._undeclared is not None:
                self._undeclared.add(proxy)


# The log leaves out what the proxy wrote, because it may identify a reader (T28: privacy of readers).
@lru_cache(maxsize=64)
def _log_once(proxy: str) -> None:
    _log.warning(
        "the proxy %s writes into X-Forwarded-For what is no address: all its clients count as one", proxy
    )


class UndeclaredProxies:
    """The list in a data directory; `now` gives POSIX seconds. Errors are ignored: it is only a hint."""

    def __init__(self, data: Path, now: Callable[[], float]) -> None:
        self._path = data / FILE
        self._now = now

    def read(self) -> dict[str, str]:
        """Return the day on which each proxy was seen last ("2026-11-27"), by its address."""
        try:
            with self._path.open("rb") as file:
                lines = file.read(_LONGEST).decode("ascii", "replace").splitlines()
        except OSError:
            return {}
        return {words[0]: words[1] for words in map(str.split, lines) if len(words) == len(("proxy", "day"))}

    def add(self, proxy: str) -> None:
        """Add a proxy, seen now."""
        known = {each: day for each, day in self.read().items() if each != proxy}
        self._write({**known, proxy: f"{datetime.fromtimestamp(self._now(), UTC):%Y-%m-%d}"})

    def forget(self, declared: Sequence[IPNetwork]) -> None:
        """Forget the proxies that have been declared since."""
        known, networks = self.read(), tuple(map(str, declared))
        left = {proxy: day for proxy, day in known.items() if not in_networks(proxy, networks)}
        if left != known:
            self._write(left)

    def _write(self, proxies: dict[str, str]) -> None:
        lines = [f"{proxy} {day}\n" for proxy, day in proxies.items()][-_MOST:]
        try:
            replace_file(self._path, "".join(lines).encode("ascii"))
        except OSError as error:
            _log.info("%s was not written: %s", self._path, error.strerror)
