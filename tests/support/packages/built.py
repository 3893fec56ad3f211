"""The wheel and the source archive, built once in a run of tests, and environments into which they are installed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.engines.debian import root_filesystem
from support.style.layers import ROOT

_ENTER = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
VERSIONS = ("3.11", "3.12", "3.13")
"""The Pythons that this machine may have; a newer one comes with a root file system of Debian."""


@dataclass(frozen=True)
class Built:
    """What `make dist` makes: `wheel` of the checkout, `archive` of the sources, and the wheel made of that archive."""

    wheel: Path
    archive: Path
    wheel_of_archive: Path


def build(factory: pytest.TempPathFactory) -> Built:
    """Build all three, or return what another process of this run has built."""
    base = factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built"
    shared.mkdir(exist_ok=True)
    done = shared / "done"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _build(ROOT, shared / "checkout")
            (archive,) = (shared / "checkout").glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(shared / "unpacked", filter="data")
            (sources,) = (shared / "unpacked").iterdir()
            _build(sources, shared / "archive", "--target", "wheel")
            done.touch()
    ((wheel,), (archive,), (second,)) = (
        tuple((shared / folder).glob(pattern))
        for folder, pattern in (("checkout", "*.whl"), ("checkout", "*.tar.gz"), ("archive", "*.whl"))
    )
    return Built(wheel, archive, second)


def _build(sources: Path, to: Path, *more: str) -> None:
    """Run the backend of the build as it is locked, so that nothing is fetched."""
    run(sys.executable, "-m", "hatchling", "build", "--directory", to, *more, folder=sources)


def interpreters() -> dict[str, str]:
    """Return the Pythons of VERSIONS that are here, by themselves or through pyenv, with how they are called."""
    folder = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    found = {}
    for version in VERSIONS:
        name = f"python{version}"
        if sys.version.startswith(f"{version}."):
            found[version] = sys.executable
            continue
        for path in (shutil.which(name), *sorted(map(str, folder.glob(f"{version}.*/bin/{name}")))):
            # A shim of pyenv is there and runs nothing, unless its version was chosen.
            if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
                found[version] = path
    return found


@dataclass(frozen=True)
class Environment:
    """An environment in a folder. `inside` begins the commands that run there, if it is on no file system of ours."""

    folder: Path
    inside: tuple[str, ...] = ()

    @classmethod
    def empty(cls, folder: Path, python: str) -> Environment:
        """Make one of a Python, without pip; it sees nothing of the environment of the tests."""
        run(python, "-m", "venv", "--without-pip", folder)
        return cls(folder)

    @classmethod
    def rooted(cls, folder: Path, suite: str) -> Environment:
        """Make one of the Python of a Debian, whose root file system is unpacked into a new folder. Needs root."""
        folder.mkdir()
        run(
            "tar",
            "--extract",
            "--file",
            root_filesystem(suite, "python3", "python3-venv"),
            "--directory",
            folder,
        )
        found = cls(Path("/ibi"), ("unshare", "--mount", "sh", "-c", _ENTER, str(folder)))
        run(*found.inside, "/usr/bin/python3", "-m", "venv", found.folder)
        return found

    def see_packages_of_tests(self) -> None:
        """Let it import what it does not have itself from the environment of these tests; both have the same Python."""
        where = run(
            self.folder / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"
        )
        (Path(where.strip()) / "tests.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    @property
    def program(self) -> tuple[str, ...]:
        """The words that start `ibi`."""
        return (*self.inside, str(self.folder / "bin/ibi"))

    @property
    def version(self) -> str:
        """The version of its Python, such as "3.11"."""
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        return run(*self.inside, self.folder / "bin/python", "-c", code).strip()

    def install(self, *words: object) -> None:
        """Install packages, with the options of `uv pip install`."""
        run(_uv(), "pip", "install", "--quiet", "--python", self.folder / "bin/python", *words)

    def packages(self) -> dict[str, str]:
        """Return the versions of what is installed, by name."""
        listed = run(_uv(), "pip", "list", "--quiet", "--format=json", "--python", self.folder / "bin/python")
        return {each["name"]: each["version"] for each in json.loads(listed)}

    def run(self, *words: object, status: int = 0, **environment: str) -> str:
        """Run `ibi`; return stdout and stderr together."""
        return run(*self.program, *words, folder=None, status=status, **environment)


def lowest(python: str, file: Path) -> Path:
    """Write into a file the lowest versions that pyproject.toml admits of what the services need."""
    words = "pip compile --quiet --resolution lowest-direct --extra node --no-header --no-annotate".split()
    run(_uv(), *words, "--python", python, "--output-file", file, ROOT / "pyproject.toml")
    return file


def _uv() -> Path:
    return Path(sys.executable).parent / "uv"


def run(*words: object, folder: Path | None = None, status: int = 0, **environment: str) -> str:
    """Run a program that sees no sources and no settings of ours; return what it prints.

    Raises AssertionError unless it ends with this status.
    """
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("IBI_", "PYTHON", "VIRTUAL"))
    }
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**kept, "LC_ALL": "C.UTF-8", "LANGUAGE": "", "PYTHONUTF8": "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}"
    return done.stdout
