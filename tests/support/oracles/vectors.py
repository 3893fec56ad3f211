"""The test vectors of conformance/vectors, and the decorator that runs them one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[3] / "conformance" / "vectors"


class Vector(NamedTuple):
    """One vector; the fields are explained in conformance/README.md."""

    id: str
    group: str
    kind: str
    source: str
    oracle: str
    agrees: bool
    note: str
    input: Any
    expected: Any


def load(group: str) -> list[Vector]:
    """All vectors of one group, in the order of its file."""
    lines = (FOLDER / f"{group}.jsonl").read_text(encoding="ascii").splitlines()
    return [Vector(**json.loads(line)) for line in lines]


def groups() -> list[str]:
    """The names of all groups: one file each."""
    return sorted(path.name.removesuffix(".jsonl") for path in FOLDER.glob("*.jsonl"))


def runs(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each vector of these groups; it takes the argument `vector`."""
    chosen = [vector for name in names for vector in load(name)]
    return pytest.mark.parametrize("vector", chosen, ids=[vector.id for vector in chosen])
