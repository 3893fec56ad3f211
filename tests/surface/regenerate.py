"""Write the golden files anew: `python tests/surface/regenerate.py`, and then read what `git diff` shows.

Every line that changes there is something that a stranger sees.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """All of them; what is not recorded any more goes."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    from surface.record import GOLDEN, recorded, written

    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        documents = recorded(Path(folder))
    for path in GOLDEN.glob("*.json"):
        if path.stem not in documents:
            path.unlink()
    for name, document in documents.items():
        (GOLDEN / f"{name}.json").write_text(written(document), encoding="utf-8")


if __name__ == "__main__":
    main()
