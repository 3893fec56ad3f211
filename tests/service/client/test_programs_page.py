"""Every example of the pages for programs is taken out of the page as it is printed, and run against its server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pybtex.database
import pytest

from support.cli.archive_commands import until
from support.network.up import get
from support.style.layers import ROOT

if TYPE_CHECKING:
    from support.client.network import Network

MAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
ATOM, OAI = "{http://www.w3.org/2005/Atom}", "{http://www.openarchives.org/OAI/2.0/}"
Check = Callable[[str, str], object]


def page(root: str, language: str, path: str = "/-/programs") -> str:
    text = get(f"{root}{path}", accept="text/html", accept_language=language).body.decode()
    assert f'lang="{language}"' in text
    return text


def examples(text: str) -> list[tuple[str, str]]:
    return [
        (kind, unescape(command))
        for kind, command in re.findall(
            r'<pre tabindex="0"><code class="(\w+)">(.*?)</code></pre>', text, re.DOTALL
        )
    ]


def run(kind: str, command: str) -> str:
    words = ["sh", "-c", command] if kind == "sh" else [sys.executable, "-c", command]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "no_proxy": "*"},
    )
    return done.stdout


def header(name: str, head: str) -> str:
    return next(line.partition(": ")[2] for line in head.splitlines() if line.lower().startswith(f"{name}: "))


def lead_to(place: str) -> Check:
    return lambda out, ibi: place.format(ibi=ibi) in header("location", out)


def json_with(test: Callable[[Any, str], object]) -> Check:
    return lambda out, ibi: test(json.loads(out), ibi)


def bibtex(out: str, _ibi: str) -> bool:
    return len(pybtex.database.parse_string(out, "bibtex").entries) == 1


def xml(out: str) -> ET.Element:
    return ET.fromstring(out)  # noqa: S314 - of our own server


def listed(out: str, element: str) -> set[str]:
    """What the elements of this name say, or where they lead."""
    return {
        (each.get("href") or each.text or "").partition("/-/item/")[2] or each.text or ""
        for each in xml(out).iter(element)
    }


def handle(record: Any, ibi: str) -> object:
    return record["responseCode"] == 1 and record["handle"] == ibi and record["values"][0]["type"] == "URL"


OF_ARCHIVE: dict[str, Check] = {
    "curl -sL -H 'Accept: application/x-bibtex'": bibtex,
    "?format=oai_dc": lambda out, _: str(xml(out).tag).endswith("oai_dc/}dc"),
    "/-/linkset/": json_with(lambda links, ibi: links["linkset"][0]["anchor"].endswith(ibi)),
    "/-/api/items/": json_with(lambda item, ibi: ibi in {item.get("rep"), item.get("ibip")}),
    "/-/timegate/": lead_to("/-/item/"),
    "/-/api/handles/": json_with(handle),
    "/-/api/search?": json_with(lambda found, ibi: ibi in {each["ibi"] for each in found["items"]}),
    "/-/api/changes?": json_with(lambda found, ibi: ibi in {each["ibi"] for each in found["changes"]}),
    "/-/oai?": lambda out, ibi: any(each.endswith(f":{ibi}") for each in listed(out, f"{OAI}identifier")),
    "/-/feed": lambda out, ibi: ibi in listed(out, f"{ATOM}link"),
    "/sitemap.xml": lambda out, _: len(listed(out, f"{MAP}loc")) == 1,
    "/.well-known/resourcesync": lambda out, _: all("/-/resourcesync/" in each for each in listed(out, f"{MAP}loc")),
    "from ibi.client import Archive": lambda out, ibi: any(f" {ibi} http" in line for line in out.splitlines()),
    "/-/api/openapi.json": json_with(lambda api, _: api["openapi"].startswith("3.1") and "/changes" in api["paths"]),
}  # fmt: skip
"""A part of the command of each example of an Archive -> whether its output is true."""

OF_RESOLVER: dict[str, Check] = {
    "curl -sI 'ROOT/NAME'": lead_to("/-/item/{ibi}"),
    "curl -sL -H 'Accept: application/x-bibtex'": bibtex,
    "ROOT/ibi:": lead_to("/-/item/{ibi}"),
    "/-/explain/": json_with(lambda whole, ibi: whole["outcome"]["location"].endswith(f"/-/item/{ibi}")),
    "/-/api/handles/": json_with(
        lambda record, ibi: handle(record, ibi) and record["values"][-1]["type"] == "10320/loc"
    ),
    "/-/timegate/": lead_to("/-/timegate/{ibi}"),
    "/-/find?": lead_to("/{ibi}"),
    "from ibi.client import Resolver": lambda out, ibi: out.strip().endswith(f"/-/item/{ibi}"),
    "/-/status": json_with(lambda network, ibi: ibi in {each["service_ibi"] for each in network["members"]}),
    "/-/api/openapi.json": json_with(lambda api, _: api["openapi"].startswith("3.1")),
}
"""Likewise of a resolver."""


def check_all(root: str, language: str, checks: dict[str, Check]) -> None:
    text = page(root, language)
    found = examples(text)
    (ibi,) = {name for _, command in found for name in re.findall(r"/-/timegate/([^']+)", command)}
    known = {part.replace("ROOT", root).replace("NAME", ibi): check for part, check in checks.items()}
    left = set(known)
    for kind, command in found:
        (part,) = [part for part in known if part in command]
        left.remove(part)
        assert root in command
        assert known[part](run(kind, command), ibi), command
    assert left == set()


@pytest.mark.parametrize("language", ["en", "pt-BR"])
def test_each_example_of_an_archive_is_run(network: Network, language: str) -> None:
    shown = page(network.archive, "en")
    word, name = (re.findall(rf"{before}([^'<&\"]+)", shown)[0] for before in ("text=", "/-/timegate/"))

    def is_found() -> bool:
        found = network.program.ask("GET", f"/search?text={word}").content()
        return name in {each["ibi"] for each in found["items"]}

    until(is_found)
    check_all(network.archive, language, OF_ARCHIVE)


@pytest.mark.parametrize("language", ["en", "pt-BR"])
def test_each_example_of_a_resolver_is_run(network: Network, language: str) -> None:
    check_all(network.resolver.rstrip("/"), language, OF_RESOLVER)


def test_the_front_pages_lead_there(network: Network) -> None:
    for root in (network.archive, network.resolver.rstrip("/")):
        assert 'href="/-/programs"' in page(root, "en", "/")


def test_the_examples_of_the_reference_are_run(network: Network) -> None:
    text = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")
    (block,) = re.findall(
        r"^```sh\n(.*?)^```",
        text.partition("## For programs\n")[2].partition("\n## ")[0],
        re.MULTILINE | re.DOTALL,
    )
    lines = [line for line in block.splitlines() if line and not line.startswith("#")]
    checks = OF_ARCHIVE | {
        "/-/explain/": json_with(lambda whole, _: network.archive in whole["outcome"]["location"])
    }
    ibi = "archive.example/first/2026/03.02.10.15"
    for line in lines:
        command = line.replace("'https://archive.example/", f"'{network.archive}/").replace("<ibi>", ibi)
        command = command.replace("'http://urlib.net/", f"'{network.resolver.rstrip('/')}/")
        (part,) = [part for part in checks if part in command]
        assert checks[part](run("sh", command), ibi), command
    assert len(lines) == 11
