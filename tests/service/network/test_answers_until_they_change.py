"""Our Archive and our resolver: an answer lives until something changes, and no longer (requests for changes)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ibi.cli import main
from ibi.runtime.settings import ArchiveSettings
from support.network.own_network import OwnNetwork, Peer

HOST = "archive1.example"
FIRST, SECOND, THIRD = (f"a.example/b/2010/01.01.00.0{number}" for number in range(3))
REUSE = 1  # seconds for which a resolver that does not ask for changes may reuse an answer


class Network(OwnNetwork):
    """One Archive and the resolver."""

    def questions(self) -> int:
        """How often the Archive was asked for an item."""
        return len(self.heard("urlRequest"))

    def do(self, *words: object) -> None:
        """A command of `ibi archive`."""
        command, *rest = words
        assert main(["archive", str(command), "--data", str(self.data / HOST), *map(str, rest)]) == 0

    def leads_to(self, target: str, url: str, within: float = 2.0) -> None:
        """The persistent URL leads there soon: half a second until the resolver is told, one round trip to ask."""
        end = time.monotonic() + within
        while (location := self.resolve(target).location) != url:
            assert time.monotonic() < end, (location, url)
            time.sleep(0.02)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    items = folder / "items.jsonl"
    lines: list[dict[str, object]] = [
        {"rep": FIRST, "url": "http://far.example/first", "next_edition": SECOND},
        {"rep": SECOND, "url": "http://far.example/second"},
        {"rep": THIRD, "url": "http://far.example/third"},
    ]
    items.write_text("\n".join(map(json.dumps, lines)))
    peer = Peer(HOST, f"{HOST}/w/2020/01.01.00.00", (items,), settings={"reuse_seconds": REUSE})
    with Network(folder, peer) as running:
        running.wait_for(lambda: bool(running.heard("changesRequest")), "the first request for changes")
        yield running


def test_an_answer_is_used_long_after_its_max_age_and_is_not_asked_for_again(network: Network) -> None:
    def is_kept() -> bool:
        # The first answers may come before the reply to the first request for changes is applied.
        time.sleep(1.5 * REUSE)
        network.forget()
        return all(network.resolve(f"/{each}").status == 302 for each in (THIRD, f"{FIRST}!")) and (
            network.questions() == 0
        )

    network.wait_for(is_kept, "both answers to be kept")
    time.sleep(2.5 * REUSE)
    network.forget()
    for _ in range(3):
        assert network.resolve(f"/{THIRD}").location == "http://far.example/third"
        assert network.resolve(f"/{FIRST}!").location == "http://far.example/second"
    assert network.questions() == 0


def keep(network: Network) -> None:
    """Click until both answers are kept, and their lease runs, whichever test comes first."""

    def is_kept() -> bool:
        network.forget()
        return all(network.resolve(f"/{each}").status == 302 for each in (THIRD, f"{FIRST}!")) and (
            network.questions() == 0
        )

    for _ in range(2):
        network.wait_for(is_kept, "both answers to be kept")
        time.sleep(1.5 * REUSE)


def test_a_change_is_followed_also_by_answers_that_only_rest_on_the_item(network: Network) -> None:
    keep(network)
    network.leads_to(f"/{FIRST}!", "http://far.example/second")
    network.do("edit", SECOND, "--url", "http://far.example/moved")
    network.leads_to(f"/{FIRST}!", "http://far.example/moved")
    network.leads_to(f"/{SECOND}", "http://far.example/moved")
    replies = [each for each in network.heard("changesRequest") if SECOND in each.body]
    assert replies
    assert "changes.anything" not in replies[-1].body


def test_changed_settings_have_all_answers_asked_for_again_and_a_restart_has_none(network: Network) -> None:
    keep(network)
    network.leads_to(f"/{THIRD}", "http://far.example/third")
    folder = network.data / HOST
    network.forget()
    replace(ArchiveSettings.read(folder), page_rate=40.0).write(
        folder
    )  # the service is made again, as at a start
    time.sleep(1.5)
    assert network.resolve(f"/{THIRD}").location == "http://far.example/third"
    assert network.questions() == 0
    replace(ArchiveSettings.read(folder), filter_answers=False).write(folder)
    network.wait_for(
        lambda: any("changes.anything yes" in each.body for each in network.heard("changesRequest")),
        "anything",
    )
    assert network.resolve(f"/{THIRD}").location == "http://far.example/third"
    assert network.questions() == 1
