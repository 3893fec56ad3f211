"""What programs can ask of a resolver is described truly: a machine that makes requests up meets nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ibi.assembly.resolver import _pages
from resolver.running import Running
from resolver.test_service import IBI, item, m16c, play

FUZZ = """
import sys
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, not_a_server_error, load_all_checks

load_all_checks()
names = ["status_code_conformance", "content_type_conformance", "response_schema_conformance"]
schema = schemathesis.openapi.from_url(sys.argv[1])
checks = [not_a_server_error, *CHECKS.get_by_names(names)]
broken, cases, statuses = [], 0, {}

def one(operation):
    @settings(max_examples=int(sys.argv[2]), deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
                | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def walk(case):
        global cases
        cases += 1
        if cases % 2 and "ibi" in case.path_parameters:
            case.path_parameters["ibi"] = sys.argv[3]
        for accept in ("application/json", "text/html", "*/*"):
            try:
                response = case.call(headers={"Accept": accept}, allow_redirects=False)
                statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
                case.validate_response(response, checks=checks)
            except (UnicodeError, ValueError) as error:
                if "header" not in str(error).lower():
                    raise
    walk()

for result in schema.get_all_operations():
    operation = result.ok()
    if operation.path == "/-/api/openapi.json":
        continue
    try:
        one(operation)
    except (Exception, BaseExceptionGroup) as error:
        broken.append(f"{operation.label}: {error}")
print(cases, statuses)
print("\\n".join(broken))
sys.exit(bool(broken))
"""


@pytest.mark.long
def test_what_a_machine_makes_up_finds_no_fault_of_ours_and_nothing_undocumented(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        url = f"http://127.0.0.1:{running.port}/-/api/openapi.json"
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FUZZ, url, "6", IBI),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
        said, _ = await done.communicate()
        assert done.returncode == 0, said.decode()

    play(tmp_path, [m16c(item())], scene, pages=_pages(), registration="form", request_rate=0.0)
