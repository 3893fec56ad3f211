"""`python -m proofs.harvest [--short|--full] [--seed N] [NAME ...]`: run the proofs, print their figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in a minute or two.
"""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.harvest import changing, whole

sys.exit(
    command.run(
        "proofs.harvest",
        "Whoever harvests an Archive misses nothing, whatever happens to it meanwhile.",
        {"whole": whole, "changing": changing},
    )
)
