"""What a machine makes up from the description of an interface: requests that it allows, and others that it does not.

Run in a process of its own, since it brings a test runner along. Answers must be described, and never status 500.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_SCRIPT = """
import json
import sys
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, not_a_server_error, load_all_checks

load_all_checks()

@schemathesis.serializer("application/offset+octet-stream", "application/octet-stream", "text/csv",
    "text/tab-separated-values", "application/jsonl", "application/x-ndjson", "application/x-bibtex",
    "application/x-research-info-systems")
def plain_bytes(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()

wish = json.loads(sys.argv[1])
names = ["status_code_conformance", "content_type_conformance", "response_schema_conformance"]
schema = schemathesis.openapi.from_url(wish["url"])
checks = [not_a_server_error, *CHECKS.get_by_names(names)]
broken, cases, statuses = [], 0, {}
there = wish["there"]

def one(operation):
    @settings(max_examples=wish["examples"], deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
                | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def walk(case):
        global cases
        cases += 1
        if cases % 2 and operation.method != "delete":  # also what is there
            case.path_parameters.update({name: there[name] for name in case.path_parameters if name in there})
        for headers in wish["headers"]:
            try:
                response = case.call(headers=headers, allow_redirects=False)
                statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
                case.validate_response(response, checks=checks)
            except (UnicodeError, ValueError) as error:
                if "header" not in str(error).lower():
                    raise
    walk()

for result in schema.get_all_operations():
    operation = result.ok()
    if operation.path.endswith("/openapi.json") or operation.path.startswith(tuple(wish["left_out"])):
        continue
    if wish["only"] and not operation.path.startswith(tuple(wish["only"])):
        continue
    try:
        one(operation)
    except (Exception, BaseExceptionGroup) as error:
        broken.append(f"{operation.label}: {error}")
print(cases, statuses)
print("\\n".join(broken))
sys.exit(bool(broken))
"""


def command(url: str, headers: Sequence[Mapping[str, str]], examples: int, **more: Any) -> list[str]:
    """What asks the interface that is described at `url`: each request once with each of these `headers`.

    `there`: what stands at places of paths, of what is really there; `only`, `left_out`: beginnings of paths.
    """
    options = {
        "url": url,
        "headers": list(headers),
        "examples": examples,
        "there": {},
        "only": [],
        "left_out": [],
    }
    return [sys.executable, "-c", _SCRIPT, json.dumps({**options, **more})]


def environment() -> dict[str, str]:
    """That of the process."""
    return {**os.environ, "PYTHONPATH": str(_ROOT / "src")}


def find_no_fault(url: str, headers: Sequence[Mapping[str, str]], examples: int, **more: Any) -> None:
    """Ask, and fail with all that was not as it is described."""
    done = subprocess.run(
        command(url, headers, examples, **more), capture_output=True, text=True, env=environment(), check=False,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
