"""Every real identifier, pair and item of conformance/wild, held by Archives of our own and resolved over HTTP.

Where the wild tells no location, the item is a linked item at a stand-in URL that is not served; what is proved is that
the name leads there. A pair whose times differ is an item and its metadata, made some seconds later (conformance/wild).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ibi.identifier.forms import parse_name
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.unwrapping import unwrap
from support.network.own_network import OwnNetwork, Peer

WILD = Path(__file__).parents[3] / "conformance" / "wild"
FIRST, SECOND = "first.archive.example", "second.archive.example"
SERVICES = {
    FIRST: "archive.example/first/2026/02.01.09.00",
    SECOND: "archive.example/second/2026/02.01.09.30",
}

pytestmark = [pytest.mark.proves("WILD-01", "WILD-02", "ARC-17", "AMB-10"), pytest.mark.timeout(180)]


def _rows(name: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (WILD / f"real_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]


IDENTIFIERS, PAIRS, ITEMS = _rows("identifiers"), _rows("pairs"), _rows("items")


def _key(name: str) -> str:
    return parse_name(name).canonical


def _core(rep: str) -> str:
    """A name without a report code glued to it ("-TDI")."""
    return re.sub(r"-[A-Z]{2,3}$", "", rep)


@dataclass
class Collection:
    """The items to hold, found by any of their names."""

    items: list[dict[str, Any]] = field(default_factory=list)
    by_name: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, name: str) -> dict[str, Any]:
        """The item of a name, a new one if it has none yet."""
        item = self.by_name.get(_key(name))
        if item is None:
            item = {}
            self.items.append(item)
            self.give(item, name)
        return item

    def give(self, item: dict[str, Any], name: str) -> bool:
        """Another name for an item; False if it has one of that form already."""
        parsed = parse_name(name)
        if isinstance(parsed, LegacyId):
            item.setdefault("aliases", []).append(name)
        elif item.setdefault("ibip" if isinstance(parsed, IBIp) else "rep", name) != name:
            return False
        self.by_name[parsed.canonical] = item
        return True


@pytest.fixture(scope="module")
def collection() -> Collection:
    made = Collection()
    for row in ITEMS:
        item = made.take(row["rep"])
        item["url"] = row["url"]
        if "ibip" in row:
            made.give(item, row["ibip"])
    for pair in [pair for pair in PAIRS if pair["diff_s"] == 0]:
        item = made.take(_core(pair["rep"]))
        if not made.give(
            item, pair["ibip"]
        ):  # one document with two IBIps: its copy elsewhere bears the other
            made.take(pair["ibip"])["copy_of"] = item
    for pair in [pair for pair in PAIRS if pair["diff_s"] != 0]:
        made.take(pair["ibip"])["metadata_item"] = pair["rep"]
        made.take(pair["rep"])["contenttype"] = "Metadata"
    for row in IDENTIFIERS:
        made.take(row["ibi"])
    for number, item in enumerate(made.items):
        if "copy_of" in item:
            item |= {"state": "Copy", "url": item["copy_of"]["url"]}
        elif "rep" not in item and "ibip" not in item:  # of some only the old name has come down to us
            item["rep"] = f"archive.example/stand-in/2026/01.01.{number // 60:02}.{number % 60:02}"
        item.setdefault(
            "url", f"https://archive.example/stand-in/{quote(item.get('rep') or item['ibip'], safe='/@')}"
        )
    return made


@pytest.fixture(scope="module")
def network(collection: Collection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNetwork]:
    folder = tmp_path_factory.mktemp("wild")
    lines: dict[str, list[str]] = {FIRST: [], SECOND: []}
    for number, item in enumerate(collection.items):
        home = SECOND if number % 2 else FIRST
        lines[home].append(json.dumps({name: value for name, value in item.items() if name != "copy_of"}))
    for host, texts in lines.items():
        (folder / f"{host}.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
    peers = [Peer(host, SERVICES[host], (folder / f"{host}.jsonl",)) for host in lines]
    with OwnNetwork(folder / "net", *peers) as running:
        yield running


def _leads_to(network: OwnNetwork, target: str) -> str:
    answer = network.resolve(target)
    return answer.location if answer.status == 302 else f"{answer.status}: {answer.body.decode()}"


def test_every_one_of_198_real_identifiers_resolves(network: OwnNetwork, collection: Collection) -> None:
    names = [row["ibi"] for row in IDENTIFIERS]
    assert len(names) == 198
    found = {name: _leads_to(network, f"/{name}") for name in names}
    assert found == {name: collection.by_name[_key(name)]["url"] for name in names}


def test_every_one_of_39_real_items_leads_to_where_it_was_found(network: OwnNetwork) -> None:
    expected = {row[form]: row["url"] for row in ITEMS for form in ("rep", "ibip") if form in row}
    assert (len(ITEMS), len(expected)) == (39, 42)
    assert {name: _leads_to(network, f"/{name}") for name in expected} == expected


def test_the_network_for_a_first_look_holds_the_same_real_items() -> None:
    sample = files("ibi.cli") / "samples" / "wild.jsonl"
    assert sample.read_text("utf-8") == (WILD / "real_items.jsonl").read_text(encoding="utf-8")


def test_both_names_of_every_real_pair_resolve(network: OwnNetwork, collection: Collection) -> None:
    twins = [pair for pair in PAIRS if pair["diff_s"] == 0]
    assert (len(PAIRS), len(twins)) == (29, 18)
    for pair in twins:
        rep, ibip = _core(pair["rep"]), pair["ibip"]
        assert (
            _leads_to(network, f"/{rep}")
            == _leads_to(network, f"/{ibip}")
            == collection.by_name[_key(rep)]["url"]
        )


def test_of_a_pair_made_seconds_apart_one_is_the_metadata_of_the_other(network: OwnNetwork) -> None:
    for pair in [pair for pair in PAIRS if pair["diff_s"] != 0]:
        metadata = _leads_to(network, f"/{pair['rep']}")
        assert metadata.startswith("https://archive.example/stand-in/")
        assert _leads_to(network, f"/{pair['ibip']}:") == metadata


def test_all_real_names_together(network: OwnNetwork, collection: Collection) -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    assert f"{len(collection.by_name)} real names" in readme
    assert {name: _leads_to(network, f"/{name}") for name in collection.by_name} == {
        name: item["url"] for name, item in collection.by_name.items()
    }


def test_names_of_the_standard_resolve_in_any_case_and_older_ids_only_in_their_own(
    network: OwnNetwork, collection: Collection
) -> None:
    for name, item in collection.by_name.items():
        other = name.swapcase()
        if isinstance(parse_name(name), LegacyId):
            assert network.resolve(f"/{other}").status in {400, 404}
        else:
            assert _leads_to(network, f"/{other}") == item["url"]


def test_texts_as_they_were_found_lead_to_their_item_from_the_box_on_the_front_page(
    network: OwnNetwork,
) -> None:
    """Those that hold one identifier; a viewer's link, say, holds two, and the box takes that of the item shown."""
    plain = [
        (text, row["ibi"])
        for row in IDENTIFIERS
        for text in row["found_as"]
        if row["ibi"] in text and not unwrap(text).others
    ]
    assert len(plain) > 150
    lost = []
    for text, name in plain:
        answer = network.resolve(f"/-/find?text={quote(text)}", accept="text/plain")
        path = re.sub("^/(?:rep|ibi)/", "/", answer.location)
        if answer.status != 303 or not path.startswith(f"/{name}"):
            lost.append((text, answer.status, answer.location))
    assert lost == [], "\n".join(map(str, lost))
