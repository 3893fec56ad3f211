"""A copy of the checkout where tests run: what is mutated is never the checkout itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mutation.reach import RECORD

ROOT: Final = Path(__file__).parents[2]
LEFT_OUT: Final = ("tests/style", "tests/browser", "tests/service/tools", "tests/unit/tools")
"""Tests that look at texts, or at these tools, and those of browsers, which take minutes."""


@dataclass(frozen=True)
class Run:
    """How a run of tests ended: the status of pytest, None if it was ended for its time; what it wrote."""

    status: int | None
    output: str


@dataclass(frozen=True)
class Tree:
    """A copy of the checkout, uncommitted changes included, with an environment that imports from the copy."""

    root: Path
    python: Path

    def write(self, file: str, text: str) -> None:
        """Replace a file, named as in the checkout; its bytecode goes, as a change may keep size and second."""
        path = self.root / file
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def pytest(
        self,
        words: Sequence[str],
        record: Path,
        seconds: float | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Run:
        """Run tests in the copy, recorded into a folder; `more` goes into the environment."""
        status: int | None = None
        with self.started(words, record, more) as process, suppress(subprocess.TimeoutExpired):
            status = process.wait(seconds)
        return Run(status, (record / "output").read_text(encoding="utf-8", errors="replace"))

    @contextmanager
    def started(
        self, words: Sequence[str], record: Path, more: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The process that runs tests in the copy, which writes into `output` in the folder; it ends with the block."""
        record.mkdir(parents=True, exist_ok=True)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": os.pathsep.join(map(str, (self.root / "src", ROOT / "tools"))),
            RECORD: str(record),
            **(more or {}),
        }
        command = [
            str(self.python),
            "-m",
            "pytest",
            "-p",
            "mutation.recording",
            "-p",
            "no:cacheprovider",
            "-q",
        ]
        command += ["--hypothesis-seed=0", "--tb=no", *words]
        with (
            (record / "output").open("wb") as output,
            subprocess.Popen(  # noqa: S603 - our own command
                command, cwd=self.root, env=environment, start_new_session=True, stdout=output, stderr=output
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:  # also when this command is interrupted
                    os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def copied() -> Iterator[Tree]:
    """A copy in a temporary folder, until the end of the block."""
    with TemporaryDirectory(prefix="ibi-mutants-", ignore_cleanup_errors=True) as name:
        root, environment = Path(name) / "ibi", Path(name) / "environment"
        for file in git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0"):
            if file and (ROOT / file).is_file():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, root / file)
        python = _environment(environment, root)
        subprocess.run([python, "-m", "compileall", "-q", root / "src", root / "tests"], check=True)  # noqa: S603 - our own command
        yield Tree(root, python)


def _environment(folder: Path, root: Path) -> Path:
    """An environment with the packages of ours, but for ibi itself, which it takes from the copy; its Python.

    Some tests start commands with an empty environment: so the path must not stand in a variable alone.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)  # noqa: S603 - our own command
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    start = (ours / "a1_coverage.pth").read_text(encoding="utf-8")
    (packages / "ibi_copy.pth").write_text(f"{ours}\n{root / 'src'}\n{start}\n", encoding="utf-8")
    return folder / "bin" / "python"


def git(*words: str) -> str:
    """What git prints about the checkout. Raises subprocess.CalledProcessError."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True)  # noqa: S603, S607 - our own command; wherever git lies
    return done.stdout
