"""A problem in a ledger: the sentence with its details, so that it can be said in the language of whoever reads it."""

from __future__ import annotations

import json
from typing import Any

from ibi.errors import IbiError


def write_problem(problem: IbiError | None) -> str | None:
    """A problem as it is kept; None for none."""
    return json.dumps(_written(problem), ensure_ascii=False) if problem is not None else None


def read_problem(text: str | None) -> IbiError | None:
    """A problem as it was kept."""
    return _read(json.loads(text)) if text else None


def _written(problem: IbiError) -> dict[str, Any]:
    details = {
        name: _written(value) if isinstance(value, IbiError) else value if _is_plain(value) else str(value)
        for name, value in problem.details.items()
    }
    return {"problem": problem.problem, "details": details}


def _read(value: dict[str, Any]) -> IbiError:
    details = {
        name: _read(each) if isinstance(each, dict) else each for name, each in value["details"].items()
    }
    return IbiError(value["problem"], **details)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)
