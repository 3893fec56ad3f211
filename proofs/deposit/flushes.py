"""The order of flushes, as strace tells it: nothing is listed in the catalogue before it would survive a power cut.

A kill leaves to the kernel what was written, so it never shows a flush that was forgotten. The calls themselves do: at
each flush of the database's log, by which a transaction becomes durable, nothing that was made, filled or moved under
DIR/staging or DIR/col until then may be unflushed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import dirname, join

_CALL = re.compile(r"\d+ +(\w+)\((.*)\) += \d+(?:<[^>]*>)?$")
_OPEN_FILE = re.compile(r"\d+<([^>]*)>")
_PLACES = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"')
_OPENS = frozenset({"open", "openat"})
_FILLS = frozenset({"write", "writev", "pwrite64", "pwritev", "ftruncate", "fallocate"})
_MAKES = frozenset({"mkdir", "mkdirat", "rename", "renameat", "renameat2", "link", "linkat"})
_FLUSHES = frozenset({"fsync", "fdatasync"})
_KEPT = re.compile(r"/(?:staging|col)(?:/|$)")
_LOG = "catalogue.sqlite-wal"


def unflushed(trace: str) -> Iterator[str]:
    """What was not flushed when a transaction became durable. `told`: calls, with the paths of descriptors (-y)."""
    waiting: dict[str, str] = {}  # by path: what has happened there
    for line in trace.splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        name, words = match[1], match[2]
        places = [join(folder, last) for folder, last in _PLACES.findall(words)]
        opened = _OPEN_FILE.match(words)
        if name in _MAKES or (name in _OPENS and "O_CREAT" in words):
            waiting[dirname(places[-1])] = f"an entry made by {name}"
            if places[0] in waiting:  # what is moved takes along what was not flushed
                waiting[places[-1]] = waiting.pop(places[0])
        elif name in _FILLS and opened:
            waiting[opened[1]] = f"bytes of {name}"
        elif name in _FLUSHES and opened:
            if opened[1].endswith(_LOG):
                yield from (f"{why} in {path}" for path, why in waiting.items() if _KEPT.search(path))
            waiting.pop(opened[1], None)
