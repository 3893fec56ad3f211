"""`python -m proofs.answers [--short|--full] [--seed N] [NAME ...]`: run the proof of answers, print figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in a minute.
"""

from __future__ import annotations

import sys

from proofs.answers import requests
from proofs.common import command

sys.exit(
    command.run(
        "proofs.answers", "Every answer and every link is as the standard wants it.", {"answers": requests}
    )
)
