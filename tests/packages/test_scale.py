"""What can be seen of compose.scale.yaml and its balancers without starting them; `make composed` starts them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.engines.haproxy import haproxy_program
from support.engines.world import PATH
from support.pages.scale import scale_examples
from support.style.layers import ROOT

FOLDER = ROOT / "packaging/container"
COMPOSE = FOLDER / "compose.scale.yaml"
SERVICES = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
ENGLISH = {
    "resolvedor.example": "resolver.example",
    "arquivo.example": "archive.example",
    "arquivo.mail": "archive.mail",
    "relatorio.txt": "report.txt",
    "Relatório anual do instituto": "Annual report of the institute",
    "Relatório anual": "Annual report",
    "--language pt": "--language en",
    "LANGUAGE=pt_BR": "LANGUAGE=en",
}


def test_both_pages_have_the_same_examples() -> None:
    def texts(tree: str) -> list[tuple[str, str, dict[str, str]]]:
        return [(block.language, block.text, block.notes) for block in scale_examples(tree)]

    portuguese = texts("pt-BR")
    for here, there in ENGLISH.items():
        portuguese = [(language, text.replace(here, there), notes) for language, text, notes in portuguese]
    assert portuguese == texts("en")
    assert len(portuguese) > 10


def test_no_secret_is_in_the_file_and_no_port_is_for_others() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if "PASSWORD" in variable or "SECRET" in variable:
                assert value.endswith(":?}"), (name, variable)
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
    open_ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert open_ports == {"balancer": ["${LISTEN:-127.0.0.1:8080}:8080"], "caddy": ["80:80", "443:443"]}
    assert SERVICES["caddy"]["profiles"] == ["caddy"]


def test_the_balancers_accept_their_files_and_know_every_node(tmp_path: Path) -> None:
    programs = {"haproxy.cfg": haproxy_program(), "Caddyfile.scale": shutil.which("caddy", path=PATH)}
    if None in programs.values():
        pytest.skip("needs HAProxy and Caddy")
    names = {
        "RESOLVER_HOST": "resolver.example.org",
        "ARCHIVE_HOST": "archive.example.org",
        "NETWORK": "10.89.26.0/24",
        "SERVER_IP": "203.0.113.7",
        "FRONT": "10.89.26.1",
        "NAMES": "10.89.26.1:53",
        "ACME_MAIL": "maria@example.org",
        "ACME_DIRECTORY": "https://acme.example.org/",
    }
    words = {
        "haproxy.cfg": ["-c", "-f"],
        "Caddyfile.scale": ["validate", "--adapter", "caddyfile", "--config"],
    }
    environment = {**os.environ, **names, "HOME": str(tmp_path)}
    nodes = {name for name in SERVICES if name.startswith(("resolver", "archive"))}
    assert len(nodes) == 7
    for file, program in programs.items():
        command = [str(program), *words[file], str(FOLDER / file)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        text = (FOLDER / file).read_text("utf-8")
        assert {name for name in nodes if f" {name}:8080" in text} == nodes
    assert {name for name in nodes if "profiles" in SERVICES[name]} == {"resolver4", "archive3"}
