"""`python -m proofs.fuzz [--short|--full] [--seed N] [NAME ...]`: run the fuzz, print its figures.

Exit status 1 if anything was broken; each fault is printed as a small input. Without a form it takes some minutes.
"""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.fuzz import answers, parsers, requests

if __name__ == "__main__":
    sys.exit(
        command.run(
            "proofs.fuzz",
            "Whatever comes: a value or one clear sentence, never a status 500.",
            {proof.NAME: proof for proof in (parsers, requests, answers)},
        )
    )
