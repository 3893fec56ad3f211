"""`python -m proofs.leases [--short|--full] [--seed N] [NAME ...]`: try to lead readers by outdated answers.

Exit status 1 if anything was broken; each fault is printed with the actions that led to it.
"""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.leases import mutants, plays, worlds

sys.exit(
    command.run(
        "proofs.leases",
        "Whatever is lost, late, doubled, forged, killed or rolled back: no reader is led by an outdated answer.",
        {"worlds": worlds, "plays": plays, "mutants": mutants},
    )
)
