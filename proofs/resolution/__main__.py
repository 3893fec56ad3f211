"""`python -m proofs.resolution [--short|--full] [--seed N] [NAME ...]`: simulate resolutions, print figures.

Exit status 1 if anything was broken; each fault is printed with its seed and as a small play.
"""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.resolution import agreement, exhaustive, originals, simulator

sys.exit(
    command.run(
        "proofs.resolution",
        "Whatever Archives say, and in whatever order: only what the standard lets a resolver do.",
        {"exhaustive": exhaustive, "random": simulator, "P-R4": originals, "agreement": agreement},
    )
)
