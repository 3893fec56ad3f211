"""`python -m proofs.deposit [--short|--full] [--seed N] [NAME ...]`: run the proofs, print their figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in some minutes.
"""

from __future__ import annotations

import logging
import sys

from proofs.common import command
from proofs.deposit import boundaries, full_disk, kills, pairs, together

logging.getLogger("ibi").setLevel(logging.ERROR)  # that files stay in staging is what is tried here
sys.exit(
    command.run(
        "proofs.deposit",
        "What was acknowledged is kept, and kept whole.",
        {proof.NAME: proof for proof in (boundaries, kills, together, pairs, full_disk)},
    )
)
