"""How the proofs run our own commands."""

from __future__ import annotations

import os
from pathlib import Path

import ibi
import proofs


def environment() -> dict[str, str]:
    """An environment in which Python finds the package on trial, and the proofs; messages in English."""
    places = (Path(package.__path__[0]).parent for package in (ibi, proofs))
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "en",
    }
