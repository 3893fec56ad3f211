"""`python -m proofs.evidence [--short|--full] [--seed N] [NAME ...]`: run the proofs, print their figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in about a minute.
"""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.evidence import boundaries, kills, tampering

sys.exit(
    command.run(
        "proofs.evidence",
        "Whatever is done to the evidence shows, and nothing acknowledged is lost.",
        {proof.NAME: proof for proof in (tampering, boundaries, kills)},
    )
)
