"""The definitions of what librarians do: as the interface for programs has described them, and what each needs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ibi.accounts.tokens import Scope
from ibi.api.jobs import Jobs
from ibi.api.openapi import paths
from ibi.api.operations import Operation, OperationRunner, routes
from ibi.api.routes import Call
from ibi.archive.operations.context import ArchiveContext
from ibi.archive.operations.listed import OPERATIONS
from support.checks.description import held

NAMES = {operation.name: operation for operation in OPERATIONS}


def _no_context(_call: Call) -> ArchiveContext:
    raise AssertionError("no operation is done")


def test_they_are_described_as_they_were(tmp_path: Path) -> None:
    """As the surface has it, which asks a service; this needs none."""
    runner = OperationRunner(tmp_path, OPERATIONS, Jobs(tmp_path, time.time, time.monotonic))
    table = routes(OPERATIONS, _no_context, runner)
    described = json.loads(json.dumps(paths(table)))
    golden = held("archive")["paths"]
    assert {path: golden[path] | methods for path, methods in described.items()} == {
        path: golden[path] for path in described
    }


def _names(*, having: str) -> set[str]:
    return {name for name, operation in NAMES.items() if getattr(operation, having)}


def test_what_returns_nothing_takes_long_asks_another_machine_or_cannot_be_undone() -> None:
    assert NAMES.keys() - _names(having="gives") == {"export", "forget-peer", "leave"}
    assert _names(having="is_long") == {"audit", "backup", "check", "harvest", "index", "retire", "settle"}
    assert _names(having="is_remote") == {"copy", "refresh", "rotate-key", "take-back"}
    assert _names(having="warning") == {"forget-peer", "retire", "rotate-key", "settle"}


def test_what_has_a_page_or_a_command_of_another_name() -> None:
    assert {name: NAMES[name].page for name in _names(having="page")} == {
        "audits": "audit", "copy": "copy", "delete": "delete", "deposit": "deposit", "edit": "edit",
        "hand-over": "transfer", "hand-over-state": "transfer", "hand-overs": "transfer", "join": "membership",
        "leave": "membership", "membership": "membership", "put-file": "files", "set-institution": "identity",
        "switch": "membership", "take-back": "transfer", "take-out-file": "files",
    }  # fmt: skip
    assert {name: NAMES[name].command for name in _names(having="command")} == {
        "forget-peer": "peer", "hand-over": "transfer", "hand-over-state": "transfer", "hand-overs": "transfer",
        "membership": "show", "peers": "peer", "put-file": "edit", "set-institution": "institution",
        "state": "show", "take-back": "transfer", "take-out-file": "edit",
    }  # fmt: skip


def test_the_scope_that_reading_needs_beside_that_of_a_change() -> None:
    by_path: dict[str, list[Operation[Any, Any]]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.pattern, []).append(operation)
    needed = {
        (reader.scope, writer.scope)
        for same in by_path.values()
        for reader in same
        for writer in same
        if writer.changes and not reader.changes
    }
    assert needed <= {(Scope.ADMIN, Scope.ADMIN), (Scope.READ, Scope.ADMIN), (Scope.TRANSFER, Scope.TRANSFER)}
