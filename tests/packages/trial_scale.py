"""The services of compose.scale.yaml: started, killed, upgraded and restored as the how-to page has it.

It takes minutes, so it has a command of its own (`make composed`), and is in no run of all tests. The section of the
page is typed from its first command to its last, on a machine where its names lead to a public address. The images of
PostgreSQL, SeaweedFS, HAProxy and Caddy are made of programs of this machine: no hub is asked.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.engines.debian import root_filesystem, wheels
from support.engines.images import make_engines
from support.engines.world import ADDRESS, DIRECTORY, World, what_is_missing, world
from support.packages.checkout import copied_checkout
from support.pages.runner import SHELL, Shell, run_page, shell
from support.pages.scale import scale_examples, scale_page, scale_section

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

BASE = "localhost/debian:trixie-slim"
RESOLVER = "resolvedor.example.org"
SHOWN = {
    "203.0.113.7": ADDRESS,
    # Certificates come from the authority of this machine, which the services must trust.
    "COMPOSE_FILE=compose.scale.yaml": "COMPOSE_FILE=compose.scale.yaml:trust.yaml",
    # Two nodes are replaced here, not all.
    "for node in resolver1 resolver2 resolver3 archive1 archive2": "for node in resolver2 archive2",
    "ACME_MAIL=maria@example.org": f"ACME_MAIL=maria@example.org\nACME_DIRECTORY={DIRECTORY}",
}
NODES = ("resolver1", "resolver2", "resolver3", "archive1", "archive2")
CURL = "curl -sfL --retry 60 --retry-delay 1 --retry-all-errors"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[World]:
    """A machine that has the images which the recipe and the services name."""
    if missing := what_is_missing():
        pytest.skip(f"needs {', '.join(missing)}")
    with world(tmp_path / "world") as made:
        base = root_filesystem("trixie", "python3", "python3-venv", "ca-certificates")
        made.done(tmp_path, f"podman import --quiet {base} {BASE}")
        make_engines(made, tmp_path / "engines", BASE)
        yield made


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a checkout has for the page."""
    return copied_checkout(tmp_path / "ibi")


def test_nodes_die_and_readers_are_led(machine: World, checkout: Path) -> None:
    compose = checkout / "packaging/container"
    shutil.copy(machine.authorities, compose / "authority.pem")
    (compose / "trust.yaml").write_text(_trusting())
    environment = {
        **machine.environment,
        "LANGUAGE": "pt_BR",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels(stores=True)),
    }
    with shell(checkout, environment, [*machine.entering(checkout), *SHELL], timeout=1200) as at:
        run_page(scale_page("pt-BR"), at, checkout, SHOWN, scale_section())
        _the_link_leads_to_the_document(at)
        _no_service_is_root(machine, compose)
        _metrics_are_read_in_the_network(machine, compose)
        _what_one_machine_has_is_moved(at, machine, compose)
        _without_a_node_the_balancers_say_when_to_come_again(machine, compose)


def _trusting() -> str:
    """What lets the services trust the authority of this machine."""
    file = "./authority.pem:/authority.pem:ro"
    trust = {"environment": {"SSL_CERT_FILE": "/authority.pem"}, "volumes": [file]}
    return str(yaml.safe_dump({"services": dict.fromkeys((*NODES, "resolver4", "archive3", "caddy"), trust)}))


def _the_link_leads_to_the_document(at: Shell) -> None:
    """After nodes were killed, replaced and restored, by both balancers."""
    assert at.run(f"{CURL} https://{RESOLVER}/$name") == "Relatório anual do instituto\n"
    assert (
        at.run(f"{CURL} -H 'Host: {RESOLVER}' http://127.0.0.1:8080/$name")
        == "Relatório anual do instituto\n"
    )


def _no_service_is_root(machine: World, folder: Path) -> None:
    users = {
        name: machine.done(folder, f"podman exec ibi-scale_{name}_1 id -u").strip()
        for name in (*NODES, "resolver4", "database", "objects", "balancer")
    }
    assert users == {
        **dict.fromkeys((*NODES, "resolver4", "objects"), "10001"),
        "database": "999",
        "balancer": "99",
    }


def _metrics_are_read_in_the_network(machine: World, folder: Path) -> None:
    """Those of each node, as a Prometheus there does."""
    for node in (*NODES, "resolver4"):
        wanted = "ibi_resolver_archives_included 1.0" if "resolver" in node else "ibi_archive_files 1.0"
        _until_printed(machine, folder, _fetching("ibi-scale_archive2_1", node, "/-/metrics"), wanted)


def _what_one_machine_has_is_moved(at: Shell, machine: World, folder: Path) -> None:
    """Into databases of their own, beside those of the services; a node of each joins, and serves what was there."""
    moving = next(block.text for block in scale_examples("pt-BR") if block.language == "bash")
    for shown, here in (
        ("database/resolver", "database/former_resolver"),
        ("database/archive", "database/former_archive"),
        ("items/archive", "items/former"),
    ):
        moving = moving.replace(shown, here)
    run = "podman run --rm --no-healthcheck --volume ibi_{}:/data localhost/ibi"
    joining = "podman run --detach --no-healthcheck $stores --name joined_{0} localhost/ibi sh -c"
    at.run(
        f"""
        for name in former_resolver former_archive; do
            podman exec ibi-scale_database_1 createdb -U ibi $name
        done
        {run.format("resolver")} ibi resolver init --address former.example.org
        kept=$({run.format("first")} sh -c '
            ibi archive init --quiet --address kept.example.org --ip {ADDRESS} > /dev/null
            echo "kept as it was" > kept.txt && ibi archive deposit kept.txt --title Kept')
        """
    )
    at.run(moving)
    for kind in ("resolver", "archive"):
        at.run(
            f"""
            {joining.format(kind)} '
                ibi {kind} init --quiet --store postgresql://ibi@database/former_{kind} &&
                exec ibi {kind} serve --bind 0.0.0.0:8080'
            """
        )
    name = at.run("echo ${kept%% *}").strip()
    for kind, path, wanted in (
        ("resolver", "/-/about", "former.example.org"),
        ("archive", f"/col/{name}/doc/kept.txt", "kept as it was"),
    ):
        _until_printed(machine, folder, _fetching(f"joined_{kind}", "127.0.0.1", path), wanted)
    machine.done(folder, "podman rm --force --time 0 joined_resolver joined_archive")


def _fetching(container: str, host: str, path: str) -> str:
    """The command by which a container fetches something of a node, and prints it."""
    asking = f"import urllib.request as r; print(r.urlopen('http://{host}:8080{path}').read().decode())"
    return f'podman exec {container} python -c "{asking}"'


def _until_printed(machine: World, folder: Path, command: str, wanted: str) -> None:
    """Repeat a command until it prints a text, for a minute."""
    end = time.monotonic() + 60
    while wanted not in (found := machine.run(folder, command))[1]:
        assert time.monotonic() < end, (command, found)
        time.sleep(0.5)


def _without_a_node_the_balancers_say_when_to_come_again(machine: World, folder: Path) -> None:
    machine.done(folder, "podman kill $(podman ps --quiet --filter name=ibi-scale_resolver)")
    for root in (f"https://{RESOLVER}", "http://127.0.0.1:8080"):
        asking = f"curl -sSI -H 'Host: {RESOLVER}' {root}/-/about"
        # Until it has found out that none is left, a balancer may say 502.
        head = machine.done(
            folder, f"for _ in $(seq 60); do {asking} | tee head; grep -q ' 503' head && break; sleep 1; done"
        )
        last = head.lower().split("http/")[-1]
        assert last.split()[1] == "503", head
        assert "\nretry-after: 2" in last
