"""`python -m proofs.minting [--short|--full] [--seed N] [NAME ...]`: run the proofs, print their figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in some minutes.
"""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.minting import clocks, codec, faults, kills, lost_state, nodes, small_world

sys.exit(
    command.run(
        "proofs.minting",
        "No label is ever given twice.",
        {proof.NAME: proof for proof in (kills, nodes, faults, clocks, small_world, lost_state, codec)},
    )
)
