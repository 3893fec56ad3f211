"""From answers to files: what `ibi init` puts into DIR/setup. Nothing here reads or writes a file of the machine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, cast

from ibi.cli.setup.answers import NO_PROXY, SETUP
from ibi.cli.setup.rendering import PORTS, PROXY_FILES, Site, drop_in, proxy, render, units

if TYPE_CHECKING:
    from ibi.cli.setup.answers import Answers, PlannedService
    from ibi.cli.setup.rendering import Kind, Machine, Proxy


def files_of(answers: Answers, machine: Machine) -> dict[str, str]:
    """Return the text of each file by its path below the folder of `ibi init`."""
    services = answers.services()
    kinds = {service.kind for service in services}
    found = {
        f"systemd/{name}": text
        for name, text in units(machine).items()
        if name == "ibi.conf" or any(name.startswith(f"ibi-{kind}@") for kind in kinds)
    }
    for service in services:
        if (service.host, service.port) != ("127.0.0.1", PORTS[_kind(service)]):
            name = f"systemd/ibi-{service.kind}@{service.name}.socket.d/port.conf"
            found[name] = drop_in(service.port, service.host)
    if answers.proxy != NO_PROXY:
        which = cast("Proxy", answers.proxy)
        sites = [Site(_kind(each), each.name, each.name, each.port) for each in services]
        found[f"proxy/{PROXY_FILES[which]}"] = proxy(which, sites, mail=answers.admin)
    found["install.sh"] = render(
        "install.sh",
        user=shlex.quote(machine.user),
        program=shlex.quote(machine.program),
        folders=[shlex.quote(f"{machine.data}/{each.folder}") for each in services],
        units=[f"ibi-{each.kind}@{each.name}" for each in services],
        proxy=answers.proxy,
    )
    return {f"{SETUP}/{name}": text for name, text in sorted(found.items())}


def _kind(service: PlannedService) -> Kind:
    return cast("Kind", service.kind)
