"""No change of the settings is lost: each act that writes them has the lock of the data directory before it reads."""

from __future__ import annotations

import pytest

from ibi.runtime.settings import Peer
from support.archive.three_ways import BY_NAME, Given, Ways
from support.concurrency.threads import waits_for

PEER: Given = {"name": "b", "address": "http://b.example/"}
RESOLVER: Given = {"resolver": "http://127.0.0.1:8099"}
ACTS: list[tuple[str, Given, tuple[str, Given] | None]] = [
    ("set", {"page_rate": "7"}, None),
    ("peer", PEER, None),
    ("forget-peer", {"name": "b"}, ("peer", PEER)),
    ("join", RESOLVER, None),
    ("switch", {"switched_on": "no"}, None),
    ("leave", RESOLVER, ("join", RESOLVER)),
]
"""An act, and the one that must go before it: the tests share an Archive, and may run in any order."""


@pytest.mark.parametrize(("name", "given", "before"), ACTS, ids=[name for name, _, _ in ACTS])
def test_an_act_waits_for_what_is_changing_the_settings(
    ways: Ways, name: str, given: Given, before: tuple[str, Given] | None
) -> None:
    if before is not None:
        ways.by_json(BY_NAME[before[0]], before[1])
    assert waits_for(ways.data, lambda: ways.by_json(BY_NAME[name], given)).refusal == ""


def test_the_peer_that_an_archive_retires_to_is_saved_after_what_is_changing_the_settings(ways: Ways) -> None:
    stays = b'{"metadata": {"title": ["Stays"]}, "key": "stays", "transferable": false}'
    ways.program("POST", "/items", stays, content_type="application/json")
    given = {"to": "http://127.0.0.1:8089", "token": "t"}
    # Refused for the item that stays, which is after the peer was saved and before the Archive retires.
    assert "must stay" in waits_for(ways.data, lambda: ways.by_json(BY_NAME["retire"], given)).refusal
    assert Peer.read_tables(ways.data)["127.0.0.1:8089"].token == "t"
