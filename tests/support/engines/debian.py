"""Root file systems of Debian, and wheels for their Pythons, for tests in containers.

Both come from the network the first time, are kept in `cache()` outside the checkout, and are never made anew unless
they are removed there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.style.layers import ROOT

LOCK = ROOT / "requirements/node.txt"
STORES = ROOT / "requirements/stores.txt"


def cache() -> Path:
    """The folder that outlives a run: ibi-tests in $XDG_CACHE_HOME, in ~/.cache, or in the temporary folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    for base in (home, Path(tempfile.gettempdir())):
        folder = base / "ibi-tests"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise AssertionError("no folder can be written in which a root file system could be kept")


def root_filesystem(suite: str, *packages: str, downloaded: str = "") -> Path:
    """Return a tar file with a small Debian of a suite, such as "trixie", and these packages; 70 s the first time.

    Packages that are only `downloaded` (names with blanks between) can be installed there without a network.
    """
    words = ",".join(sorted(packages))
    key = f"{words} {downloaded}".strip()
    name = f"debian-{suite}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.tar"
    with _made_once(cache() / name) as (path, unfinished):
        if unfinished is not None:
            options = ["--variant=minbase", f"--include={words}", "--format=tar"]
            # The lists of an unreleased suite may be older than they say they are good for.
            options.append('--aptopt=Acquire::Check-Valid-Until "false"')
            if downloaded:
                fetch = f'chroot "$1" apt-get install --yes --download-only --install-recommends {downloaded}'
                options += ["--skip=cleanup/apt", f"--customize-hook={fetch}"]
            _run(["mmdebstrap", *options, suite, str(unfinished)])
    return path


def wheels(python: str = "3.13", *, stores: bool = False) -> Path:
    """Return a folder with the wheels of the services, and of their `stores`, for such a Python on this machine."""
    locks = [LOCK, STORES] if stores else [LOCK]
    key = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()[:12]
    with _made_once(cache() / f"wheels-{python}-{key}") as (path, unfinished):
        if unfinished is not None:
            pip = [sys.executable, *"-m pip download --quiet --disable-pip-version-check --no-deps".split()]
            which = ["--only-binary=:all:", "--python-version", python, "--require-hashes"]
            _run([*pip, *which, *(f"--requirement={lock}" for lock in locks), "--dest", str(unfinished)])
    return path


@contextmanager
def _made_once(path: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield a path, and where to make what will be there, or None if it is there; other processes wait meanwhile."""
    unfinished = path.with_name(f"unfinished-{path.name}")
    with (path.parent / f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            yield path, None
            return
        _remove(unfinished)
        yield path, unfinished
        unfinished.rename(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
