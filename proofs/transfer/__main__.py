"""`python -m proofs.transfer [--short|--full] [--seed N] [NAME ...]`: run the proofs of hand-overs, print figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in some minutes.
"""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.transfer import simulator, trials

sys.exit(
    command.run(
        "proofs.transfer", "Never two originals, and always one.", {"simulated": simulator, "served": trials}
    )
)
