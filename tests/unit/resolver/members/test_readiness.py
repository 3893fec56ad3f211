"""GET /-/readyz: who may be sent readers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ibi.app.resolver import open_registry
from ibi.resolver.members.status import Readiness
from ibi.resolver.registry.registry import Registry
from ibi.runtime.database import open_engine


def test_it_is_ready_until_it_is_told_to_stop(tmp_path: Path) -> None:
    registry = open_registry(tmp_path, new=True)
    readiness = Readiness(registry)
    assert (readiness.answer().status, readiness.answer().body) == (200, b"ready\n")
    asyncio.run(readiness.drain())
    assert (readiness.answer().status, readiness.answer().body) == (503, b"it is about to stop\n")
    registry.close()


def test_it_is_not_ready_while_its_registry_cannot_be_read(tmp_path: Path) -> None:
    open_registry(tmp_path, new=True).close()
    path = tmp_path / "registry.sqlite"
    whole = path.read_bytes()
    path.write_bytes(b"no database" * 1000)
    registry = Registry(open_engine(path), lambda: 0.0)
    readiness = Readiness(registry)
    assert (readiness.answer().status, readiness.answer().body) == (503, b"the registry cannot be read\n")
    path.write_bytes(whole)
    assert readiness.answer().status == 200
    registry.close()
