"""Proofs: commands that try to break what must never break, and print what they saw. Each is run by hand or at night.

They judge from outside: what is right is worked out anew from the standard, never taken from the code under trial.
"""

from __future__ import annotations

import sys
from pathlib import Path

# `support`, which proofs share with the tests, lies in tests/. It comes last, so that it hides nothing.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
