"""The vectors of inclusion and exclusion, asked of a whole resolver over sockets: it decides, and no test does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ExclusionRequest, InclusionRequest
from support.oracles.vectors import Vector, runs
from support.resolver.running_resolver import KEY, SERVICE, resolver
from support.scripted_archive import ScriptedArchive

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVE = "dpi.inpe.br/banon/1999/01.09.22.14"
WRONG_KEY = "98765432109876543210"


@pytest.mark.proves("MSG-24", "REG-02", "REG-05", "REG-06", "REG-07", "AMB-33")
@runs("registration.status")
def test_registration_status(vector: Vector, tmp_path: Path) -> None:
    case = vector.input
    archive = ScriptedArchive("m21", "mtc-m21.sid.inpe.br", ARCHIVE)
    silent = frozenset[str]() if case["confirmed"] else frozenset({archive.name})
    leaving = case["request"] == "exclusionRequest"
    message = (ExclusionRequest if leaving else InclusionRequest)(
        archive.address, parse_ibi(ARCHIVE), "192.0.2.1", "1", "admin@archive.example",
        KEY if case["key_matches"] else WRONG_KEY,
    )  # fmt: skip

    async def scene() -> None:
        known = [archive] if case["registered"] else []
        async with resolver(tmp_path, known, included=leaving, absent=silent) as running:
            before = running.registry.archives()
            answer = await running.ask(f"/{SERVICE.main}?{message.query()}")
            after = running.registry.archives()
        if vector.expected is None:  # the standard has no words for it; ours are none of the printed ones
            assert (answer.status, answer.body) == (403, b"status.archive refused")
            assert after == before
        else:
            assert (answer.status, answer.body) == (200, vector.expected.encode())
            assert [(each.address, each.confirmed) for each in after] == (
                [] if leaving else [(archive.address, case["confirmed"])]
            )

    asyncio.run(scene())
