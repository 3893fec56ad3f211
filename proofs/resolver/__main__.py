"""`python -m proofs.resolver [--short|--full] [--seed N] [NAME ...]`: run the proofs, print their figures."""

from __future__ import annotations

import sys

from proofs.common import command
from proofs.resolver import (
    bombs,
    breakers,
    claims,
    counts,
    fast_path,
    floods,
    hangs,
    liars,
    membership_kills,
    overload,
    request_budget,
    restart,
    silence,
    soak,
)

PROOFS = (
    liars,
    breakers,
    claims,
    request_budget,
    bombs,
    floods,
    hangs,
    soak,
    restart,
    overload,
    silence,
    membership_kills,
    fast_path,
    counts,
)

sys.exit(
    command.run(
        "proofs.resolver",
        "A reader is answered, whatever happens.",
        {proof.NAME: proof for proof in PROOFS},
    )
)
