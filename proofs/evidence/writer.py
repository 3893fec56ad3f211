"""`python -m proofs.evidence.writer PATH NAME`: writes entries without end, and prints how far it is durable."""

from __future__ import annotations

import sys
import time
from itertools import count
from pathlib import Path

from ibi.resolver.evidence.log import Evidence

if __name__ == "__main__":
    evidence = Evidence(Path(sys.argv[1]), time.time)
    for number in count():
        evidence.note("included", ibi=sys.argv[2], address=f"note-{number}.example")
        evidence.write("excluded", ibi=sys.argv[2], address=f"write-{number}.example")
        print(number, flush=True)
