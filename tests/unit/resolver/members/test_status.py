"""How the network stands is found out once for all who ask at the same time."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

from ibi.resolver.members.status import NetworkMonitor
from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.resolver.resolve.breaker import CircuitBreakers
from ibi.runtime.database import migrate, open_engine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from ibi.resolver.model.archive import RegisteredArchive


def test_many_who_ask_at_once_have_the_registry_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(tmp_path / "registry.sqlite")
    migrate(engine, MIGRATIONS)
    with closing(Registry(engine, lambda: 0.0)) as registry:
        reads, read = [], registry.registered

        def counted() -> Sequence[RegisteredArchive]:
            reads.append(1)
            return read()

        async def many() -> None:
            monitor = NetworkMonitor(registry, CircuitBreakers(), lambda: 0.0)
            found = await asyncio.gather(*(monitor.status() for _ in range(50)))
            assert {id(each) for each in found} == {id(found[0])}

        monkeypatch.setattr(registry, "registered", counted)
        asyncio.run(many())
        assert len(reads) == 1
