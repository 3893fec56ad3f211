"""The answers of `ibi init`, as they are kept in DIR/setup/answers.toml, and the services that they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from ibi.runtime.settings.toml_file import Settings

ARCHIVE, RESOLVER, BOTH = "archive", "resolver", "both"
NO_PROXY: Final = "none"
SETUP: Final = "setup"
"""The folder, below that of `ibi init`, of the answers and of all that is made for systemd and the proxy."""
DEFAULT_PORTS: Final = {ARCHIVE: 8081, RESOLVER: 8080}
"""Where `serve` listens by default: behind a proxy, no one else sees it."""

_HTTP: Final = 80


@dataclass(frozen=True, slots=True)
class PlannedService:
    """One service that the answers describe. `name`: the host name that readers use; `port`: where it listens."""

    kind: str
    name: str
    port: int
    is_proxied: bool

    @property
    def address(self) -> str:
        """The "host[:port]" of its settings: behind a proxy, the port is that of http."""
        return self.name if self.is_proxied or self.port == _HTTP else f"{self.name}:{self.port}"

    @property
    def public_url(self) -> str:
        """The root of the URLs that readers get; "" if that is http and its address."""
        return f"https://{self.name}" if self.is_proxied else ""

    @property
    def root(self) -> str:
        """The root URL at which readers find it."""
        return self.public_url or f"http://{self.address}"

    @property
    def folder(self) -> str:
        """Its data directory, below the folder of `ibi init`."""
        return f"{self.kind}/{self.name}"

    @property
    def host(self) -> str:
        """Where it listens: for the proxy of this machine, or for all."""
        return "127.0.0.1" if self.is_proxied else "0.0.0.0"  # noqa: S104 - without a proxy, it serves the world


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Settings):
    """What a person wants: each field is the answer to one question, and has an option of its name."""

    FILE: ClassVar[str] = "answers.toml"

    kind: str
    """"archive", "resolver" or "both"."""
    domain: str
    """The host name of the Archive; of the resolver if there is no Archive."""
    resolver_domain: str = ""
    """The host name of the resolver beside an Archive."""
    ip: str = ""
    """The IP address of the server of the Archive."""
    proxy: str
    """"caddy", "nginx", "haproxy" or "none"."""
    port: int
    """Where the service of `domain` listens."""
    resolver_port: int = 0
    """Where the resolver beside an Archive listens."""
    admin: str
    """The administrator's mail address."""
    account: str
    """The name of the first account."""
    resolver: str = ""
    """The root URL of the resolver that the Archive takes part in, "" for none, or for the one beside it."""
    for_trying: bool = False
    """Whether labels may be minted under names and addresses without an owner."""

    def services(self) -> list[PlannedService]:
        """Return the services: the resolver first, because the Archive is registered there."""
        is_proxied = self.proxy != NO_PROXY
        main = PlannedService(
            RESOLVER if self.kind == RESOLVER else ARCHIVE, self.domain, self.port, is_proxied
        )
        if self.kind != BOTH:
            return [main]
        return [PlannedService(RESOLVER, self.resolver_domain, self.resolver_port, is_proxied), main]
