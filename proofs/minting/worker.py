"""A process that mints, and does no more: `python worker.py DIR GRANULARITY COUNT`; lean, to be killed by the thousand.

It writes each label as `ibi mint` does, both forms in a line, as soon as the library gives it out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ibi.minting import Subsystem

HOST, IP = "mint.example.org", "150.163.34.243"


def opened(directory: Path | str, granularity: str) -> Subsystem:
    """The subsystem under whose names all proofs mint."""
    return Subsystem.open(directory, host=HOST, ip=IP, granularity=granularity)


def lines(subsystem: Subsystem, count: int) -> Iterator[str]:
    """New labels as lines of text, in lumps as the library gives them out."""
    for chunk in subsystem.chunks(count):
        yield "".join(f"{label.rep} {label.ibip}\n" for label in chunk)


def main(directory: str, granularity: str, count: str) -> None:
    """Give out `count` labels."""
    with opened(directory, granularity) as subsystem:
        for some in lines(subsystem, int(count)):
            waiting = some.encode()
            while waiting:
                waiting = waiting[os.write(1, waiting) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
