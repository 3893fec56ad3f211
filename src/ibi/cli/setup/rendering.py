"""Writes the units of systemd, and the configuration of a proxy, from templates.

`packaging/` has the same files with the values that are the default here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["archive", "resolver"]
Proxy = Literal["caddy", "nginx", "haproxy"]

PORTS: Final[dict[Kind, int]] = {"archive": 8081, "resolver": 8080}
"""Where a service listens on this machine, behind a proxy."""
_TITLES: Final[dict[Kind, str]] = {"archive": "Archive", "resolver": "Resolver"}
_STATE: Final = "/var/lib/"  # systemd makes directories here by itself
PROXY_FILES: Final[dict[Proxy, str]] = {"caddy": "Caddyfile", "nginx": "nginx.conf", "haproxy": "haproxy.cfg"}
"""The name of the file of each proxy."""
_CERTIFICATES: Final[dict[Proxy, str]] = {
    "caddy": "",
    "nginx": "/etc/letsencrypt/live",
    "haproxy": "/etc/haproxy/certs",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """What the units must know of a machine.

    `program`: the path of `ibi`; `user`: under whom the services run; `data`: the folder of all data directories,
    which are `data/archive/NAME` and `data/resolver/NAME`, where NAME is the instance of the unit.
    """

    program: str = "/opt/ibi/bin/ibi"
    user: str = "ibi"
    data: str = "/var/lib/ibi"


@dataclass(frozen=True, slots=True)
class Site:
    """One service behind a proxy: the instance of its unit, its public host name, and its port on this machine."""

    kind: Kind
    name: str
    host: str
    port: int


def units(machine: Machine) -> dict[str, str]:
    """Return the text of each unit by its name, and that of the user by "ibi.conf" (sysusers.d)."""
    data = machine.data.rstrip("/")
    state = data.removeprefix(_STATE) if data.startswith(_STATE) else ""
    values = {"program": machine.program, "user": machine.user, "data": data, "state_directory": state}
    found = {"ibi.conf": render("sysusers.conf", **values)}
    for kind, port in PORTS.items():
        for suffix in ("service", "socket"):
            text = render(f"ibi@.{suffix}", kind=kind, title=_TITLES[kind], port=port, **values)
            found[f"ibi-{kind}@.{suffix}"] = text
    return found


def drop_in(port: int, host: str = "127.0.0.1") -> str:
    """Return what makes a socket listen elsewhere: "ibi-archive@NAME.socket.d/port.conf"."""
    return render("port.conf", host=f"[{host}]" if ":" in host else host, port=port)


def proxy(kind: Proxy, sites: Sequence[Site], certificates: str = "", mail: str = "") -> str:
    """Return the configuration of a proxy in front of some services, at least one.

    `certificates`: the folder of the certificates, with a folder for each host, or for HAProxy a file; "" for the
    usual one; Caddy then gets certificates by itself. `mail`: where their authority may write to, or "".
    """
    certificates = (certificates or _CERTIFICATES[kind]).rstrip("/")
    return render(PROXY_FILES[kind], sites=sites, certificates=certificates, mail=mail)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - no HTML is written
    )


def render(name: str, **values: object) -> str:
    """Return the text of one of our templates with these values."""
    return _environment().get_template(name).render(values)
