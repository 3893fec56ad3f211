"""The results of rows, as they are kept: a file of JSON for each row and scale, in a folder that git does not know."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.figures import Aim

FOLDER: Final = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Result:
    """What one row gave."""

    row: str
    scale: str
    began: str
    """RFC 3339, UTC."""
    seconds: float
    command: str
    machine: str
    versions: dict[str, str]
    text: str
    """The tables, and what was said about them, in Markdown."""
    aims: tuple[Aim, ...] = ()

    def write(self, path: Path) -> None:
        """Keep it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False))
        temporary.replace(path)


def path_of(folder: Path, scale: str, row: str) -> Path:
    """Where the result of a row is kept."""
    return folder / scale / f"{row}.json"


def read(path: Path) -> Result:
    """What was kept."""
    kept = json.loads(path.read_text())
    return Result(**kept | {"aims": tuple(Aim(**aim) for aim in kept["aims"])})


def newest(folder: Path, row: str) -> Result | None:
    """The latest result of a row that is one, of a short or a full run; None where there is none."""
    paths = [path_of(folder, scale, row) for scale in ("short", "full")]
    return max((read(path) for path in paths if path.exists()), key=lambda result: result.began, default=None)
