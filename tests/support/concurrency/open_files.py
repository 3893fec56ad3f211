"""Which files of a folder this process has open, and which connections to a port."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def open_files(folder: Path, *, mapped: bool = True) -> list[str]:
    """The folder and files below it that are open in this process, or mapped into memory, by their names (Linux).

    `mapped`: False leaves out the mapped ones, for each of which Python keeps a descriptor, too.
    """
    opened = set[str]()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile, as is the one that lists them
            opened.add(str(each.readlink()))
    maps = Path("/proc/self/maps").read_text().splitlines()
    in_memory = {line.split(maxsplit=5)[-1].strip() for line in maps}
    found = opened | in_memory if mapped else opened - in_memory
    return sorted(
        str(Path(name).relative_to(folder)) for name in found if f"{name}/".startswith(f"{folder}/")
    )


def open_connections(port: int) -> set[str]:
    """The sockets of this process that are connected to a port of this machine, by their inodes (Linux)."""
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    there = {words[9] for words in lines if int(words[2].rpartition(":")[2], 16) == port}
    ours = set[str]()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            ours.add(str(each.readlink()).removeprefix("socket:[").removesuffix("]"))
    return there & ours
