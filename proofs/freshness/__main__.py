"""`python -m proofs.freshness [--short|--full] [KIND ...]`: makes changes of every kind, and prints a table."""

import sys

from proofs.common.command import run
from proofs.freshness.trials import proofs_of_all

if __name__ == "__main__":
    with proofs_of_all() as proofs:
        sys.exit(run("proofs.freshness", __doc__ or "", proofs))
