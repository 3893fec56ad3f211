"""`python -m proofs.keeping [--short|--full] [--seed N] [NAME ...]`: run the proofs, print their figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in some minutes.
"""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.keeping import flips, pages

sys.exit(
    command.run(
        "proofs.keeping",
        "What decays is noticed, and never given out as good.",
        {proof.NAME.split()[1]: proof for proof in (flips, pages)},
    )
)
