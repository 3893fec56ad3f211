"""The fenced examples of a page, in their order, and what a command that is shown there must print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"(?P<notes>(?:^ *<!-- \w+(?:: [^\n]*)? -->\n)*)^(?P<margin> *)```(?P<language>\w+)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_NOTE = re.compile(r"<!-- (\w+)(?:: (.*?))? -->")
RUN = ("sh", "console")
"""The languages of blocks that are run; all others are only shown."""


@dataclass(frozen=True)
class Block:
    """One fenced block. `notes`: the comments straight before it, `<!-- name: value -->`, by their names.

    `section`: the number of its section of the second level, from 1; 0 before the first.
    """

    language: str
    text: str
    line: int
    notes: dict[str, str]
    section: int = 0

    @property
    def is_run(self) -> bool:
        return self.language in RUN and "file" not in self.notes


@dataclass(frozen=True)
class Command:
    """What is typed, and what must be printed then; None if that is not shown."""

    typed: str
    printed: str | None = None


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page with a language."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        margin = len(match["margin"])
        lines = "".join(line[margin:] if line.strip() else line for line in match["text"].splitlines(True))
        line = text.count("\n", 0, match.start("language")) + 1
        section = len(re.findall(r"^## ", text[: match.start()], re.MULTILINE))
        found.append(Block(match["language"], lines, line, dict(_NOTE.findall(match["notes"])), section))
    return found


def commands(block: Block) -> Iterator[Command]:
    """The commands of a block: `console` has them behind "$ ", each with its output; `sh` is one script."""
    if block.language != "console":
        yield Command(block.text)
        return
    typed = ""
    printed: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if typed:
                yield Command(typed, "\n".join(printed))
            typed, printed = line[2:], []
        elif typed.endswith("\\"):
            typed += f"\n{line}"
        else:
            printed.append(line)
    yield Command(typed, "\n".join(printed))


def is_like(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed: "…" stands for anything, and as a line for any lines."""
    pattern = ""
    for line in shown.strip().splitlines():
        words = (re.escape(part) for part in re.split(r" *… *|…", line.strip()))
        pattern += r"(?:.*\n)*" if line.strip() == "…" else r"[^\n]*".join(words) + r"\n"
    got = "".join(f"{line.strip()}\n" for line in printed.strip().splitlines())
    return re.fullmatch(pattern, got) is not None
