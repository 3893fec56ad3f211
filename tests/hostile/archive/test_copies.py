"""A copy that is refused tells nothing of the network that an Archive stands in (threats T01, T14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.accounts.tokens import Scope
from support.archive.administration_fixture import administered_archive
from support.programs import Program

if TYPE_CHECKING:
    from pathlib import Path

ITEM = "z.example/y/2014/01.01.00.00"


def test_no_address_of_an_internal_name_is_told(tmp_path: Path) -> None:
    with administered_archive(tmp_path) as served:
        program = Program(served.archive.data, served.port)
        for archive in ("http://localhost:8080", "http://localhost", "https://LOCALHOST.:8443"):
            body = {"ibi": ITEM, "archive": archive}
            refused = program.ask("POST", "/copies", body, Scope.TRANSFER)
            assert refused.status == 502
            text = refused.body.decode()
            assert "localhost leads to an address that must not be contacted" in text
            assert "127.0.0.1" not in text.replace(f"127.0.0.1:{served.port}", "")
            assert "::1" not in text
