"""`python -m proofs.resolver [--short|--full] [--seed N] [NAME ...]`: run the proofs, print their figures."""

from __future__ import annotations

import sys

from proofs import command
from proofs.resolver import restart

sys.exit(
    command.run(
        "proofs.resolver",
        "A reader is answered, whatever happens.",
        {proof.NAME: proof for proof in (restart,)},
    )
)
