"""Benchmarks: `python -m bench` prints every table."""

from __future__ import annotations

import sys
from pathlib import Path

# `support`, which benchmarks share with the tests, lies in tests/. It comes last, so that it hides nothing.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
