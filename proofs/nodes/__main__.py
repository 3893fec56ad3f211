"""`python -m proofs.nodes [--short|--full] [--seed N] [KIND ...]`: kills nodes, balancer and stores under load."""

import sys

from proofs.common.command import run
from proofs.nodes.trials import proofs_of_all

if __name__ == "__main__":
    with proofs_of_all() as proofs:
        sys.exit(run("proofs.nodes", __doc__ or "", proofs))
