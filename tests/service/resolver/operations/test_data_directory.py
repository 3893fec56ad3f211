"""Whatever a resolver leaves in its data directory is named where operators look for what to keep."""

from __future__ import annotations

from pathlib import Path

from ibi.accounts.tokens import Scope
from support.resolver.administration_fixture import administered_resolver

SETTINGS = Path(__file__).parents[4] / "docs/reference/settings.md"
SERVICE = "a.example/b/2020/01.01.00.00"


def test_all_that_lies_there_is_named(tmp_path: Path, stored_in: str) -> None:
    keeps = SETTINGS.read_text(encoding="utf-8").partition("\n## What a resolver keeps\n")[2]
    with administered_resolver(tmp_path) as resolver:
        body = {"ibi": SERVICE}
        reply = resolver.ask("POST", "/registrations", body, Scope.ADMIN, idempotency_key="k")
        assert reply.status in {200, 201}, reply.body
        assert resolver.ask("PATCH", "/settings", {"negative_seconds": 5}, Scope.ADMIN).status == 200
        resolver.browser("root").look("/-/admin")
        resolver.get("/-/registry")
        assert resolver.get(f"/{SERVICE}").status in {404, 503}
    left = {path.name for path in resolver.data.iterdir()} - {"resolver.toml"}
    there = {"replies", "sessions.sqlite", "evidence.jsonl", "registry.sqlite", "tokens.json"}
    assert there <= left if stored_in == "sqlite" else there.isdisjoint(left)
    assert {name for name in left if f"`{name}`" not in keeps} == set()
