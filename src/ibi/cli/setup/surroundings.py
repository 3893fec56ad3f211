"""What `ibi init` must know of this machine: its names, addresses, ports and folders."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.app.doctor import ok, warning
from ibi.cli.asking import own_address
from ibi.cli.setup.answers import SETUP, Answers
from ibi.errors import IbiError
from ibi.identifier.ibip import canonical_ip
from ibi.runtime.settings import ArchiveSettings, ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.app.doctor import Finding

STAGING: Final = ".new-"
"""How the folder begins in which everything is made before it is moved into its place."""
USER: Final = "ibi"
"""The user under whom the services run if root has set them up."""

_HIDDEN: Final = ("home", "root", "run/user", "tmp", "var/tmp")
"""What ProtectHome and PrivateTmp hide."""
_USUAL_FOLDER: Final = Path("/var/lib/ibi")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts of the machine as functions, so that tests can give others.

    `host_name()`, `own_address()`: how this machine is called, "" if unknown; `found(name)`: the addresses that a
    host name leads to; `is_own(ip)`: whether this machine has the address; `is_free(host, port)`: whether a service
    can listen there; `folder_fault(path)`: why nothing can be set up in a folder, or None; `former(path)`: the answers
    of an earlier run in it, or None.
    """

    host_name: Callable[[], str]
    own_address: Callable[[], str]
    usual_folder: str
    found: Callable[[str], list[str]]
    is_own: Callable[[str], bool]
    is_free: Callable[[str, int], bool]
    folder_fault: Callable[[Path], IbiError | None]
    former: Callable[[Path], Answers | None]


def this_surroundings() -> Surroundings:
    """Return the facts of this machine."""
    return Surroundings(
        socket.getfqdn, own_address, _folder_to_propose(), _found, _is_own, _is_free, folder_fault, former
    )


def program() -> str:
    """Return the absolute path of this program, as units of systemd name it."""
    here = Path(sys.argv[0])
    if here.name == "ibi" and here.is_file():
        return str(here.absolute())
    return shutil.which("ibi") or "/usr/bin/ibi"


def service_user() -> str:
    """Return the user under whom the services will run."""
    return USER if os.geteuid() == 0 else getuser()


def former(folder: Path) -> Answers | None:
    """Return the answers of an earlier run in a folder; None if there was none. Raises SetupError."""
    return Answers.read(folder / SETUP) if Answers.exists(folder / SETUP) else None


def folder_fault(folder: Path) -> IbiError | None:
    """Return why nothing can be set up in a folder; None if it is absent, empty or of an earlier run."""
    nearest = next((each for each in (folder, *folder.parents) if _exists(each)), Path("/"))
    if not nearest.is_dir():
        return IbiError("{path} is a file, not a folder", path=nearest)
    try:
        held = [each.name for each in folder.iterdir()] if _exists(folder) else []
    except OSError as error:
        return IbiError("{path} cannot be read: {reason}", path=folder, reason=error.strerror or error)
    for kind in (ArchiveSettings, ResolverSettings):
        if kind.FILE in held:
            return IbiError(
                "{path} is the data directory of a service already; give a new or an empty folder",
                path=folder,
            )
    is_ours = _exists(folder / SETUP / Answers.FILE)
    if not is_ours and any(not name.startswith(STAGING) for name in held):
        return IbiError("{path} is not empty; give a new or an empty folder", path=folder)
    if not os.access(nearest, os.W_OK | os.X_OK):
        return IbiError("you may not write in {path}: give another folder, or run this as root", path=nearest)
    return None


def _exists(path: Path) -> bool:
    """Return whether a path exists; what is below a folder that this user may not enter counts as absent."""
    with suppress(OSError):
        return path.exists()
    return False


def is_hidden_from_units(folder: Path) -> bool:
    """Return whether the units keep a service out of this folder."""
    return any(folder.is_relative_to(f"/{hidden}") for hidden in _HIDDEN)


def _folder_to_propose() -> str:
    usual = _USUAL_FOLDER
    return str(usual if folder_fault(usual) is None else Path.cwd() / "ibi")


def _found(name: str) -> list[str]:
    with suppress(OSError, UnicodeError, IbiError):
        facts = socket.getaddrinfo(name, None)
        found = dict.fromkeys(canonical_ip(str(each[4][0])) for each in facts)
        return sorted(found, key=lambda ip: ":" in ip)  # short names are made of addresses of IPv4
    return []


def _is_own(ip: str) -> bool:
    """Return whether a socket can be bound to an address: only those of this machine can."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
        return True


def _is_free(host: str, port: int) -> bool:
    """Return whether no process listens at an address; one that only root may take counts as free."""
    with socket.socket() as probe:
        # As the server does, so that the port of one that has just ended counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return error.errno != errno.EADDRINUSE
        return True


def check_name(machine: Surroundings, name: str, ip: str) -> Finding:
    """Check where the host name of a service leads; `ip`: the address that was given for it, or ""."""
    found = machine.found(name)
    if not found:
        remedy = "let its zone have an address record (A or AAAA) for it; until then, there is no certificate"
        return warning("address", "{name} leads nowhere yet", remedy, name=name)
    if ip in found or any(map(machine.is_own, found)):
        return ok("address", "{name} leads to {ip}", name=name, ip=", ".join(found))
    sentence = "{name} leads to {ip}, which is not an address of this machine"
    return warning(
        "address",
        sentence,
        "correct its address record, or see that a router passes requests on",
        name=name,
        ip=", ".join(found),
    )
