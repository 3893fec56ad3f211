"""Which files of a folder this process has open."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def open_files(folder: Path) -> list[str]:
    """The files below a folder that are open, or mapped into memory, in this process, by their names there (Linux)."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile, as is the one that lists them
            path = each.readlink()
            if path.is_relative_to(folder):
                found.append(str(path.relative_to(folder)))
    mapped = {line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()}
    found += [str(Path(name).relative_to(folder)) for name in mapped if name.startswith(f"{folder}/")]
    return sorted(found)
