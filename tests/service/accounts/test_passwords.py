"""What a stored password costs who guesses it."""

from __future__ import annotations

import os
import subprocess
import sys


def test_a_hash_costs_what_is_recommended() -> None:
    # In a process of its own, because the tests of this one hash with the least that argon2 can do.
    program = "from ibi.accounts.people import hash_password; print(hash_password('a'))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    made = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert made.stdout.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
