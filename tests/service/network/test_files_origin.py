"""From a persistent URL to a file that has an address of its own, over the wire (note 32)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.network.own_network import OwnNetwork, Peer

HOST, FILES = "archive.example", "files.example"
ITEM = "a.example/b/2010/01.01.00.00"
PAGE = b"<!DOCTYPE html><p>0123456789</p>"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNetwork]:
    folder = tmp_path_factory.mktemp("network")
    (folder / "index.html").write_bytes(PAGE)
    (folder / "data.csv").write_bytes(b"a,b\n")
    items, files = folder / "items.jsonl", ("index.html", "data.csv")
    items.write_text(
        json.dumps({"rep": ITEM, "files": {name: name for name in files}, "target": "index.html"})
    )
    peer = Peer(HOST, f"{HOST}/w/2020/01.01.00.00", (items,), settings={"files_address": FILES})
    with OwnNetwork(folder, peer) as running:
        yield running


def places(network: OwnNetwork, target: str, **headers: str) -> tuple[list[str], bytes, int]:
    """Follow a persistent URL as a reader does: where each redirect leads, and what is at the end of it."""
    answer, found = network.resolve(target, **headers), []
    while answer.status == 302:
        found.append(answer.location)
        host, _, path = answer.location.removeprefix("http:").removeprefix("//").partition("/")
        answer = network.ask(host, f"/{path}", **headers)
    return found, answer.body, answer.status


def test_a_persistent_url_leads_to_the_file_wherever_it_is_served(network: OwnNetwork) -> None:
    path = f"/col/{ITEM}/doc/index.html"
    expected = [f"http://{HOST}{path}", f"//{FILES}{path}"]
    assert places(network, f"/{ITEM}") == (expected, PAGE, 200)
    assert places(network, f"/{ITEM}/index.html") == (expected, PAGE, 200)
    assert places(network, f"/{ITEM}/index.html", range="bytes=18-27")[1:] == (b"0123456789", 206)
    assert places(network, f"/{ITEM}/data.csv") == ([f"http://{HOST}/col/{ITEM}/doc/data.csv"], b"a,b\n", 200)
