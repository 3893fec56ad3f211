"""Print every table: `python -m bench [--full]`; with `--full`, of large catalogues too, and of longer runs.

Each benchmark is a process of its own, so that none inherits the memory of another.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

SHORT_AND_FULL = ("answers", "pages", "harvesting", "importing", "files", "resolving")
ALWAYS_THE_SAME = ("pure", "minting", "minting_http", "finding")

parser = argparse.ArgumentParser(prog="python -m bench", description="every figure and ratio")
parser.add_argument("--full", action="store_true", help="an hour instead of a quarter of one")
options = ["--full"] if parser.parse_args().full else []
for name in (*ALWAYS_THE_SAME, *SHORT_AND_FULL):
    words = [sys.executable, "-m", f"bench.{name}", *(options if name in SHORT_AND_FULL else ())]
    subprocess.run(words, check=True)  # noqa: S603 - our own command
