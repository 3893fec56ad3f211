"""The tokens of those who may mint: in a folder of minting's own, and no state of it."""

from __future__ import annotations

import json
from pathlib import Path

from ibi.accounts.tokens import Tokens
from ibi.minting import WaitingRoom
from ibi.minting.machine import this_machine
from ibi.minting.state import FOLDER

MADE = "2026-11-21T20:50:14Z"


def test_tokens_before_the_first_label_are_no_lost_state(tmp_path: Path) -> None:
    Tokens(tmp_path / FOLDER).make("a", MADE)
    with WaitingRoom(tmp_path, this_machine()) as waiting_room:
        assert waiting_room.draw(1000)
    written = json.loads((tmp_path / "minting" / "tokens.json").read_text())
    assert written["tokens"][0].keys() == {"name", "sha256", "made"}
