"""Answers of many blanks: what takes an Archive no effort must not stop a resolver (threat T11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ibi.protocol.pair_list import MAX_BODY
from support.resolver.one_item import IBI, answer_of, item, m16c

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "http://mtc-m16c.sid.inpe.br/x"


@pytest.mark.parametrize("blank", [b" ", b"\r\n", b"\t"])
def test_an_answer_that_ends_in_as_many_blanks_as_it_may_is_read_at_once(
    tmp_path: Path, blank: bytes
) -> None:
    """From each of them it was looked on to the last: for minutes, in which no other reader was answered."""
    found = item(url=GOOD)
    long = found + blank * ((MAX_BODY - len(found)) // len(blank))
    answer = answer_of(tmp_path, [m16c(long)], f"/{IBI}")
    assert (answer.status, answer.location) == (302, GOOD)
