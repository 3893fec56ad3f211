"""What our Archives and our resolver do for each other beyond the standard, over the wire (notes 1, 45 and 46)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.cli import main
from ibi.runtime.settings import ResolverSettings
from support.network.own_network import RESOLVER, OwnNetwork, Peer

HOSTS = [f"archive{number}.example" for number in range(1, 4)]
HELD, CHANGED, LATER = (f"a.example/b/2010/01.01.00.0{number}" for number in range(3))


class WaitingNetwork(OwnNetwork):
    """Its resolver waits for likely holders as long as a slow machine may need."""

    def make(self) -> None:
        super().make()
        folder = self.data / "resolver"
        replace(ResolverSettings.read(folder), hedge_seconds=4.0, negative_seconds=3600).write(folder)

    def questions(self) -> list[str]:
        """The Archives that were asked for an item."""
        return [each.host for each in self.heard("urlRequest")]

    def do(self, host: str, *words: object) -> None:
        """A command of `ibi archive` with the data of an Archive that runs."""
        command, *rest = words
        assert main(["archive", str(command), "--data", str(self.data / host), *map(str, rest)]) == 0

    def bring(self, host: str, name: str, url: str) -> None:
        """Put an item into an Archive, and wait until the resolver has got its notice."""
        items = self.data / "new.jsonl"
        items.write_text(json.dumps({"rep": name, "url": url}))
        self.do(host, "import", items)
        self.wait_for(lambda: name in self.changed_names(), f"the notice of {name}")

    def changed_names(self) -> str:
        """Return all names that change notices to the resolver have named."""
        notices = self.heard("changeNotification")
        assert {(each.host, each.body) for each in notices} <= {(RESOLVER, "notice {change received}")}
        return " ".join(each.pairs.get("changed", "") for each in notices)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaitingNetwork]:
    """Three Archives; the last of them has two items."""
    folder = tmp_path_factory.mktemp("network")
    items = folder / "items.jsonl"
    lines = [{"rep": name, "url": "http://far.example/before"} for name in (HELD, CHANGED)]
    items.write_text("\n".join(map(json.dumps, lines)))
    peers = [
        Peer(
            host,
            f"{host}/w/2020/01.01.00.00",
            (items,) if host == HOSTS[-1] else (),
            settings={"reuse_seconds": 3600},
        )
        for host in HOSTS
    ]
    with WaitingNetwork(folder, *peers) as running:
        running.wait_for(
            lambda: (
                len({each.pairs["ibi.archiveservice"] for each in running.heard("changeNotification")})
                == len(HOSTS)
            ),
            "the first notice of each",
        )
        yield running


def test_a_first_contact_without_a_hint_asks_only_the_one_who_has_it(network: WaitingNetwork) -> None:
    folder: Path = network.data / "resolver" / "filters"
    network.wait_for(lambda: len(list(folder.glob("*.filter"))) == len(HOSTS), "the filters")
    network.forget()
    assert network.resolve(f"/{HELD}").location == "http://far.example/before"
    assert network.questions() == [HOSTS[-1]]


def test_a_deposit_is_seen_at_the_next_click_although_no_archive_had_it(network: WaitingNetwork) -> None:
    network.forget()
    assert network.resolve(f"/{LATER}").status == 404
    assert sorted(network.questions()) == HOSTS
    network.forget()
    assert network.resolve(f"/{LATER}").status == 404
    assert network.questions() == []  # so it was remembered
    network.bring(HOSTS[0], LATER, "http://far.example/later")
    assert network.resolve(f"/{LATER}").location == "http://far.example/later"


def test_a_removal_is_seen_at_the_next_click_although_the_answer_might_be_used_again(
    network: WaitingNetwork,
) -> None:
    assert network.resolve(f"/{CHANGED}").location == "http://far.example/before"
    network.forget()
    assert network.resolve(f"/{CHANGED}").location == "http://far.example/before"
    assert network.questions() == []  # so it was used again
    network.do(HOSTS[-1], "delete", CHANGED, "--reason", "it was wrong")
    network.wait_for(lambda: CHANGED in network.changed_names(), "the notice of the removal")
    assert network.resolve(f"/{CHANGED}").status == 410


def test_the_page_of_an_item_leads_to_all_places_where_it_is(network: WaitingNetwork) -> None:
    name = "a.example/b/2010/01.01.00.09"
    network.bring(HOSTS[2], name, "http://far.example/original")
    # From now on the holder is known, and asked first.
    assert network.resolve(f"/{name}").location == "http://far.example/original"
    copy = network.data / "copy.jsonl"
    copy.write_text(json.dumps({"rep": name, "state": "Copy", "url": "http://far.example/copy"}))
    network.do(HOSTS[0], "import", copy)
    page = network.ask(HOSTS[2], f"/-/item/{name}", accept="text/html").body.decode()
    link = re.search(r'href="http://urlib\.net(/-/explain/[^"]+=Original)"', page)
    assert link is not None
    [only_round] = json.loads(network.resolve(link[1], accept="application/json").body)["rounds"]
    states = [each["pairs"].get("state") for each in only_round["statements"]]
    assert sorted(filter(None, states)) == ["Copy", "Original"]
    values = json.loads(network.resolve(f"/-/api/handles/{name}?all").body)["values"]
    [places] = [each["data"]["value"] for each in values if each["type"] == "10320/loc"]
    assert re.findall('href="([^"]+)"', places) == [
        "http://far.example/original",
        "http://far.example/copy",
    ]
