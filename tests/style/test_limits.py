"""The page of all limits is written from the constants, and says something of each."""

from __future__ import annotations

import re
import runpy
from functools import cache
from typing import Any

from support.style.layers import ROOT

TOOL = runpy.run_path(str(ROOT / "tools/limits_table.py"))


@cache
def limits() -> list[Any]:
    """Found when a test asks: each worker that collects the tests would look for them."""
    return list(TOOL["limits"]())


THREATS = (ROOT / "docs/reference/threats.md").read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    assert TOOL["PAGE"].read_text(encoding="utf-8") == TOOL["page"](), "run: make docs"


def test_limits_are_found_in_every_way() -> None:
    names = {limit.name for limit in limits()}
    assert {"HEAD_BYTES", "NEIGHBOURS", "ClientLimits.per_peer"} <= names
    assert not all(limit.is_public for limit in limits())
    assert "VERSION" not in names
    assert len(limits()) > 300


def test_something_is_said_of_every_limit_that_others_use() -> None:
    assert [f"{limit.module}.{limit.name}" for limit in limits() if limit.is_public and not limit.text] == []


def test_every_threat_of_a_limit_exists() -> None:
    rows = set(re.findall(r"^\| (T[0-9]{2}) \|", THREATS, re.MULTILINE))
    assert {threat for limit in limits() for threat in limit.threats} <= rows
