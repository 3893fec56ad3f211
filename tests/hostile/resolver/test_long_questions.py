"""URLs that grow when they are passed on: no Archive is asked what it cannot read, and no redirect goes uncounted.

A resolver and an Archive of ours, over real sockets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.network.own_network import OwnNetwork, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHIVE = "archive.example"
ITEM = "/archive.example/w/2020/01.02.00.00"
OTHER = "/archive.example/w/2020/01.03.00.00"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNetwork]:
    folder = tmp_path_factory.mktemp("long")
    lines = [
        {"rep": item[1:], "state": "Original", "url": f"http://far.example{item}"} for item in (ITEM, OTHER)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    peer = Peer(ARCHIVE, "archive.example/w/2020/01.01.00.00", (folder / "items.jsonl",))
    with OwnNetwork(folder / "net", peer) as running:
        yield running


@pytest.mark.parametrize("odd", ["&", "=", "+", "%26", "%"])
def test_six_long_questions_do_not_silence_the_network(network: OwnNetwork, odd: str) -> None:
    network.forget()
    long = f"{ITEM}/{odd * (8_000 // len(odd))}"
    answers = [network.resolve(long, accept_language="pt-BR") for _ in range(6)]
    assert network.resolve(OTHER).status == 302
    assert [answer.status for answer in answers] == [414] * 6
    assert "Arquivos" in answers[0].body.decode()
    assert not [each for each in network.heard("urlRequest") if len(each.target) > 15 * 1024]


def test_a_long_url_that_grows_little_is_resolved(network: OwnNetwork) -> None:
    assert network.resolve(f"{ITEM}?{'x' * 8_000}").status == 302


def test_each_url_is_refused_or_its_redirect_is_acknowledged(network: OwnNetwork) -> None:
    """Settled 2: dropped = 0, wherever the limit lies."""
    redirects, tried = 0, 0
    network.forget()
    for escaped in ("=", "%", "%C3%A9"):
        for size in range(3_000, 8_000, 250):
            tried += 1
            answer = network.resolve(f"{ITEM}?x{escaped * (size // len(escaped))}")
            assert answer.status in {302, 414}
            redirects += answer.status == 302
    network.wait_for(lambda: len(network.heard("acknowledgment")) >= redirects, "every acknowledgment")
    assert {each.body for each in network.heard("acknowledgment")} == {"notice {acknowledgment received}"}
    counted = network.resolve("/-/metrics").body.decode().splitlines()
    dropped = {
        line.rsplit(" ", 1)[1] for line in counted if line.startswith("ibi_resolver_thanks_dropped_total")
    }
    assert dropped == {"0.0"}
    assert 10 < redirects < tried - 10  # on both sides of it
