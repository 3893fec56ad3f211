"""All that `ibi init` prints, word for word, but for what this machine is like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibi.cli.setup.surroundings import is_hidden_from_units
from support.ports import free_port

Typed = Callable[..., tuple[int, str, str]]
LOCAL = ("--for-trying", "--admin", "maria@archive.example", "--ip", "127.0.0.1", "--yes")
NEXT = "Then check that all is in order with:\n"


def plain(text: str) -> str:
    """A text without what is different each time: passwords, keys, moments, and findings about clock and disk."""
    lines = [line for line in text.splitlines(keepends=True) if line[14:20] not in {"clock ", "disk  "}]
    for pattern, by in (
        (r"\b(\w{5}-){4}\w{5}\b", "PASSWORD"),
        (r"\b[0-9]{20}(-[0-9]{20})?\b", "KEY"),
        (r"\d{4}/\d\d\.\d\d(\.\d\d)+(\.\d+)?", "DATE"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "MOMENT"),
        (r"answers within \d+ ms", "answers within N ms"),
    ):
        lines = [re.sub(pattern, by, line) for line in lines]
    return "".join(lines)


def findings(data: Path, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """What is found in order in a new data directory, by what was examined."""
    kind = data.parent.name
    database = data / ("catalogue.sqlite" if kind == "archive" else "registry.sqlite")
    return [
        ("settings", f"{data / f'{kind}.toml'} is in order"),
        *([("settings", "the policy is hardened")] if kind == "resolver" else []),
        ("settings", f"{data / 'accounts.json'} is in order"),
        ("minting", "labels given: 1; the last carries MOMENT"),
        ("database", f"{database} is whole and of this version"),
        *more,
    ]


def lines_of(found: list[tuple[str, str]]) -> str:
    return "".join(f"  {'ok':<11} {name:<14} {sentence}\n" for name, sentence in found)


@pytest.fixture
def network(typed: Typed, tmp_path: Path) -> tuple[Path, int, str, str]:
    """An Archive and its resolver: their folder, the port of the Archive (one less than the other), the output."""
    port = free_port(2)
    words = ("--kind", "both", "--domain", "127.0.0.1", "--resolver-domain", "127.0.0.1", "--proxy", "none")
    ports = ("--port", port, "--resolver-port", port + 1)
    status, out, err = typed("init", "--data", tmp_path / "ação", *words, *ports, *LOCAL)
    assert status == 0
    return tmp_path / "ação", port, out, err


def test_of_a_network_and_of_its_changes(typed: Typed, network: tuple[Path, int, str, str]) -> None:
    folder, port, out, err = network
    resolver, archive = folder / "resolver/127.0.0.1", folder / "archive/127.0.0.1"
    roots = f"http://127.0.0.1:{port + 1}", f"http://127.0.0.1:{port}"
    assert plain(out) == (
        f"resolver  {roots[0]}/-/admin  admin  PASSWORD\narchive  {roots[1]}/-/admin  admin  PASSWORD\n"
    )
    address = ("address", "127.0.0.1 leads to 127.0.0.1")
    install = f"Put all into its place and start it with: sudo sh '{folder}/setup/install.sh'\n"
    of_resolver = findings(
        resolver,
        ("Archive", f"localhost/archive.{port}/DATE is registered and switched off"),
        ("evidence", f"{resolver / 'evidence.jsonl'} has 1 entries, all as they were written"),
    )
    hidden = f"the units of systemd keep services out of {folder}: choose a folder such as /var/lib/ibi or /srv/ibi\n"
    assert plain(err) == (
        "".join(f"the password of admin at {root} is shown only now:\n" for root in roots)
        + f"The checkup of {resolver} found:\n{lines_of([address, *of_resolver])}"
        f"The checkup of {archive} found:\n{lines_of([address, *findings(archive)])}"
        f"{hidden if is_hidden_from_units(folder) else ''}{install}{NEXT}"
        f"  ibi doctor --data '{resolver}'\n  ibi doctor --data '{archive}'\n"
    )
    again = ("init", "--data", folder, "--yes")
    unchanged = f"{folder} is set up as the answers say; there is nothing to change\n"
    assert typed(*again) == (0, "", unchanged)
    assert typed(*again, "--apply") == (0, "", unchanged)
    nothing = {"data": str(folder), "changes": [], "applied": False}
    assert typed(*again, "--json") == (0, json.dumps(nothing, ensure_ascii=False) + "\n", "")
    status, out, err = typed(*again, "--admin", "joão@archive.example")
    assert (status, out) == (1, "")
    mail = ("--admin", "joao@archive.example")
    status, out, err = typed(*again, *mail)
    changed = "".join(
        f"--- {kind}/127.0.0.1/{kind}.toml\n+++ {kind}/127.0.0.1/{kind}.toml\n"
        f'@@ -N +N @@\n-admin = "maria@archive.example"\n+admin = "joao@archive.example"\n'
        for kind in ("resolver", "archive")
    )
    assert (status, re.sub(r"@@ -\d+ \+\d+ @@", "@@ -N +N @@", out)) == (0, changed)
    assert err == "nothing was changed; --apply makes these changes\n"
    assert typed(*again, *mail, "--apply", "--quiet")[2] == ""
    assert typed(*again, *mail)[2] == unchanged
    assert typed(*again, "--port", port + 2, "--apply")[2] == (
        f"links with 127.0.0.1:{port} go on being answered, as long as that name leads here\n"
        "a running server goes on listening where it is; for another port, start it anew: ibi archive serve --bind\n"
        f"labels are still made under archive.localhost, until the setting mint_host is changed\n{install}"
    )


def test_of_an_archive_that_takes_part_elsewhere(typed: Typed, tmp_path: Path) -> None:
    folder, silent = tmp_path / "a", "http://resolver.invalid"
    words = ("--kind", "archive", "--domain", "a.invalid", "--proxy", "caddy", "--port", free_port(), *LOCAL)
    data, root = folder / "archive/a.invalid", "https://a.invalid"
    status, out, err = typed("init", "--data", folder, *words, "--resolver", silent, "--account", "maria")
    assert status == 0
    assert plain(out) == (
        f"archive  {root}/-/admin  maria  PASSWORD\n"
        "ibi resolver register --data DIR --archive-service invalid/a/DATE --key KEY\n"
        "Subject: Solicitação de cadastro de um novo Arquivo\n\nIBI do serviço de Arquivo:\n"
        "archiveserviceibi = invalid/a/DATE\n\nChave de cadastro:\nregistrationkey = KEY\n"
    )
    lines = [line for line in plain(err).splitlines() if "units of systemd" not in line]
    zone = "let its zone have an address record (A or AAAA) for it; until then, there is no certificate"
    assert "\n".join(lines) == (
        f"the key travels to {silent} over plain http, where it can be read\n"
        f"the password of maria at {root} is shown only now:\n"
        "The administrator of the resolver registers this Archive with:\nor receives the request by mail:\n"
        f"The checkup of {data} found:\n"
        f"  warning     address        a.invalid leads nowhere yet -> {zone}\n"
        f"{lines_of(findings(data))}"
        f"  warning     resolver       the resolver {silent} does not answer: the name resolver.invalid has no address "
        "-> ask its administrator, or: ibi archive join\n"
        f"Put all into its place and start it with: sudo sh {folder}/setup/install.sh\n{NEXT}"
        f"  ibi doctor --data {data}"
    )


def test_of_a_network_to_programs(typed: Typed, tmp_path: Path) -> None:
    folder, port = tmp_path / "ação", free_port()
    words = (
        "--kind",
        "resolver",
        "--domain",
        "127.0.0.1",
        "--proxy",
        "none",
        "--port",
        port,
        "--for-trying",
        "--yes",
    )
    status, out, err = typed("init", "--data", folder, *words, "--admin", "maria@archive.example", "--json")
    assert (status, err) == (0, "")
    assert str(folder) in out  # letters stand for themselves
    made: dict[str, Any] = json.loads(out)
    (service,) = made.pop("services")
    data = folder / "resolver/127.0.0.1"
    assert made == {"data": str(folder), "install": f"sh '{folder}/setup/install.sh'"}
    found = [each for each in service.pop("findings") if each["name"] not in {"clock", "disk"}]
    sentences = [
        ("address", "127.0.0.1 leads to 127.0.0.1"),
        *((name, text.replace("MOMENT", "")) for name, text in findings(data)),
        ("archive", "no Archive is registered"),
        ("evidence", f"nothing was written into {data / 'evidence.jsonl'} yet"),
    ]
    assert [(each["name"], re.sub(r"\d{4}-.*Z", "", each["sentence"])) for each in found] == sentences
    assert [each["verdict"] for each in found] == ["ok"] * (len(found) - 2) + ["warning", "ok"]
    assert [each["advice"] for each in found] == [None] * (len(found) - 2) + ["ibi resolver register", None]
    assert {each["fixable"] for each in found} == {False}
    assert re.fullmatch(r"(\w{5}-){4}\w{5}", service.pop("password"))
    assert re.fullmatch(r"[A-Z0-9]+/[A-Z0-9]+", service.pop("service_ibi"))
    assert service == {
        "kind": "resolver", "data": str(data), "address": f"127.0.0.1:{port}", "root": f"http://127.0.0.1:{port}",
        "account": "admin",
    }  # fmt: skip
