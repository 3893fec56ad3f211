"""Types the examples of a page into one shell, in their order, as a reader would."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO

from support.pages.blocks import Block, Command, blocks, commands, is_like

TIMEOUT = 150  # seconds for one command
SHELL = ("bash", "--noprofile", "--norc")
LANGUAGES = {"pt-BR": "pt_BR", "en": "en"}
"""The folder of `docs` that a page is in, and the language in which commands print there."""


@dataclass(frozen=True)
class Typed:
    """One command of a page, as it was typed, and what it printed (stdout and stderr)."""

    block: Block
    text: str
    printed: str


class Shell:
    """One bash, which ends at the first command that fails. Both its outputs are one.

    `timeout`: seconds for one command.
    """

    def __init__(self, process: subprocess.Popen[str], timeout: float = TIMEOUT) -> None:
        self._process = process
        self._timeout = timeout
        self._write, self._read = _pipes(process)
        self._end = f"end-{secrets.token_hex(8)}"
        self._type("set -eua")  # variables are seen by programs, and on another machine

    def run(self, text: str, status: int = 0) -> str:
        """Type a command, and return what it prints. AssertionError if it has another status, or hangs."""
        tail = "" if status == 0 else f" && exit 99 || [ $? = {status} ]"
        # A command that reads its standard input would take what is typed next.
        self._type(f"{{\n{text.rstrip()}\n}} < /dev/null{tail}")
        self._type(f"printf '\\n%s\\n' {self._end}")
        watch = Timer(self._timeout, self._process.kill)
        watch.start()
        lines: list[str] = []
        try:
            for line in self._read:
                if line.rstrip("\n") == self._end:
                    return "".join(lines).removesuffix("\n")
                lines.append(line)
        finally:
            watch.cancel()
        problem = f"it failed or took {self._timeout} s (wanted status: {status}):\n{text}"
        problem += f"\n---- printed:\n{''.join(lines)}"
        raise AssertionError(problem)

    def _type(self, text: str) -> None:
        self._write.write(f"{text}\n")
        self._write.flush()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


@contextmanager
def shell(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = SHELL,
    timeout: float = TIMEOUT,
) -> Iterator[Shell]:
    """Start a bash in a folder, which is its home, too; our own program comes first on its PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin:/sbin"
    given = {**os.environ, "PATH": path, "HOME": str(folder), "COLUMNS": "100", **(environment or {})}
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=both, text=True, env=given, cwd=folder
    ) as process:
        try:
            yield Shell(process, timeout)
        finally:
            process.kill()


def language_of(page: Path) -> str:
    """The language in which commands print on a page: that of its tree."""
    (folder,) = LANGUAGES.keys() & set(page.parts)
    return LANGUAGES[folder]


def run_page(
    page: Path,
    at: Shell,
    folder: Path,
    replaced: Mapping[str, str] | None = None,
    section: int | None = None,
) -> list[Typed]:
    """Type every example of a page, or of one of its sections.

    AssertionError for a command that fails or prints something else.

    A block with the note `file: NAME` is written into that file instead; with `background`, the shell goes on once
    it has printed "ready"; with `status: 1`, its last command must end so; `pause: 2` are seconds that a reader lets
    pass before its last command; with `on: HOST` it is typed on that machine, by ssh. `replaced`: what the page must
    show and a test cannot have -> what it has instead.
    """
    done: list[Typed] = []
    for block in blocks(page):
        if section is not None and block.section != section:
            continue
        if name := block.notes.get("file"):
            _write(at, _replace(name, replaced), _replace(block.text, replaced))
        elif block.is_run:
            done += run_block(page, block, at, folder, replaced)
    return done


def run_block(
    page: Path, block: Block, at: Shell, folder: Path, replaced: Mapping[str, str] | None
) -> Iterator[Typed]:
    """Type the commands of one block, as `run_page` does."""
    wanted = list(commands(block))
    for command in wanted:
        text = _replace(command.typed, replaced)
        if "background" in block.notes:
            text = _in_background(text, folder)
        if "on" in block.notes:
            text = f"ssh {shlex.quote(block.notes['on'])} bash -eu -c {shlex.quote(text)}"
        last = command is wanted[-1]
        if last and "pause" in block.notes:
            time.sleep(float(block.notes["pause"]))
        try:
            printed = at.run(text, int(block.notes.get("status", 0)) if last else 0)
            _compare(command, printed, replaced)
        except AssertionError as error:
            problem = f"{page.name}, the block of line {block.line}: {error}"
            raise AssertionError(problem) from None
        yield Typed(block, text, printed)


def _compare(command: Command, printed: str, replaced: Mapping[str, str] | None) -> None:
    if command.printed is not None and not is_like(_replace(command.printed, replaced), printed):
        problem = f"{command.typed}\n---- the page shows:\n{command.printed}\n---- it printed:\n{printed}"
        raise AssertionError(problem)


def _replace(text: str, replaced: Mapping[str, str] | None) -> str:
    for shown, here in (replaced or {}).items():
        text = text.replace(shown, here)
    return text


def _write(at: Shell, name: str, text: str) -> None:
    at.run(f"mkdir -p \"$(dirname '{name}')\"\ncat > '{name}' <<'END-OF-FILE'\n{text}END-OF-FILE")


def _in_background(text: str, folder: Path) -> str:
    """Start it beside the shell, and wait until it has printed "ready"."""
    log = folder / f"background-{secrets.token_hex(4)}.log"
    begun = re.sub(r"\s+$", "", text)
    waiting = f"for _ in $(seq 600); do grep -q ^ready {log} && break; sleep 0.05; done; grep -q ^ready {log}"
    return f"{{ {begun}\n}} > {log} 2>&1 &\n{waiting}"
