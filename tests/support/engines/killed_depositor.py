"""A depositor who is killed at a call to the S3 store: `python -m support.engines.killed_depositor DATA`.

Each line of its input is "NUMBER WHEN NAME": deposit the item NAME, edit it and remove a file of it, and end at once
before or after the call of this number. It answers with one line: what was acknowledged, in JSON, and whether it was
killed. Each depositor is a fork of this process, which itself never calls the store: its client has threads.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ibi.archive.model.item_json import read_item
from ibi.archive.store.item_changes import deposit, edit
from ibi.archive.store.s3_client import S3Client
from ibi.identifier.forms import parse_ibi
from support.archive.preservation_fixture import WHO, ArchiveFolder

KILLED = 9
FIRST = {"a.txt": b"first", "b.txt": b"second"}
_LARGE = b"x" * (1100 << 10)  # more than is received in memory
EDITED = {"a.txt": b"third", "b.txt": b"second", "c.txt": _LARGE}
LEFT = {"b.txt": b"second", "c.txt": _LARGE}
CALLS = ("put", "copy", "delete", "size", "read")


def _deadly(method: Callable[..., Any], count: list[int], before: bool) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        count[0] -= 1
        last = count[0] == 0
        if last and before:
            os._exit(KILLED)
        result = method(*given, **named)
        if last:
            os._exit(KILLED)
        return result

    return called


def _work(kept: ArchiveFolder, name: str, say: Callable[[str], None]) -> None:
    def staged(store: Any, files: dict[str, bytes]) -> list[Any]:
        received = []
        for each, content in files.items():
            staging = store.stage_stream(each)
            staging.write(content)
            received.append(staging.finish())
        return received

    with kept.item_store() as item_store:
        draft = read_item({"rep": name, "files": dict.fromkeys(FIRST, "x")})
        deposit(item_store, draft, staged(item_store.file_store, FIRST), WHO)
        say("deposited")
    with kept.item_store() as item_store:
        new = {each: EDITED[each] for each in ("a.txt", "c.txt")}
        edit(item_store, parse_ibi(name), {}, WHO, staged=staged(item_store.file_store, new))
        say("edited")
        edit(item_store, parse_ibi(name), {}, WHO, without=["a.txt"])
        say("removed")


def _tell(writer: int, what: str) -> None:
    os.write(writer, f"{what} ".encode())


def main(data: Path) -> None:
    """Fork a depositor for each line."""
    for line in sys.stdin:
        number, when, name = line.split()
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            count = [int(number)]
            for each in CALLS:
                setattr(S3Client, each, _deadly(getattr(S3Client, each), count, when == "before"))
            _work(ArchiveFolder(data), name, partial(_tell, writer))
            os._exit(0)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reader) as output:
            sys.stdout.write(json.dumps([output.read().split(), os.waitstatus_to_exitcode(status)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
