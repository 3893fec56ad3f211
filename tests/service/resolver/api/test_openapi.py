"""What programs can ask of a resolver is described truly: a machine that makes requests up meets nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope
from ibi.app.resolver import site_pages
from ibi.identifier.forms import parse_ibi
from ibi.runtime.settings import ResolverSettings
from support.checks.description import document_faults, held
from support.made_up import command, environment, find_no_fault
from support.resolver.administration_fixture import administered_resolver
from support.resolver.one_item import IBI, item, m16c, play
from support.resolver.running_resolver import Running
from support.resolver.shared_files import until

ACCEPTS = ("application/json", "text/html", "*/*")
ADMINISTRATION = (
    "registrations",
    "archives",
    "alerts",
    "log",
    "institution",
    "settings",
    "accounts",
    "tokens",
)


def test_the_description_is_as_it_was(tmp_path: Path) -> None:
    """As the surface has it, which walks through all of a network; this is sooner here."""
    with administered_resolver(tmp_path) as running:
        replace(ResolverSettings.read(running.data), registration="form").write(running.data)
        until(lambda: "/-/register" in running.get_json("/openapi.json")["paths"])
        assert running.get_json("/openapi.json") == held("resolver"), "python tests/surface/regenerate.py"


@pytest.mark.long
def test_what_a_machine_makes_up_finds_no_fault_of_ours_and_nothing_undocumented(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        url = f"http://127.0.0.1:{running.port}/-/api/openapi.json"
        headers = [{"Accept": accept} for accept in ACCEPTS]
        done = await asyncio.create_subprocess_exec(
            *command(url, headers, 6, there={"ibi": IBI}),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment(),
        )
        described, _ = await done.communicate()
        assert done.returncode == 0, described.decode()

    play(tmp_path, [m16c(item())], scene, pages=site_pages(), registration="form", request_rate=0.0)


@pytest.mark.long
def test_nor_does_it_find_any_at_the_paths_of_administrators(tmp_path: Path) -> None:
    with administered_resolver(tmp_path) as running:
        running.registry.register(parse_ibi(IBI), "12345678901234567890")
        document = running.get_json("/openapi.json")
        assert document_faults(document) == []
        words = {path.split("/")[3] for path in document["paths"] if path.startswith("/-/api/")}
        assert words == {*ADMINISTRATION, "handles", "holders", "keys", "openapi.json"}
        url = f"http://127.0.0.1:{running.port}/-/api/openapi.json"
        token = {"Authorization": f"Bearer {running.token(Scope.ADMIN, Scope.RESOLVE)}"}
        only = [f"/-/api/{word}" for word in (*ADMINISTRATION, "holders")]
        find_no_fault(url, [token, {}], 8, there={"ibi": IBI, "word": "root"}, only=only)
