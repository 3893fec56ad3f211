"""Write docs/reference/limits.md: every limit of the program, from the constants themselves.

    python tools/limits_table.py            writes it
    python tools/limits_table.py --check    says whether it is current (status 1 if not)

A limit is a constant with a number that has a docstring or a comment, or whose name begins with MOST, LONGEST, LARGEST,
MAX, SLOWEST, SMALLEST or SHORTEST or ends with SECONDS, BYTES or AT_ONCE; and each field with a number of a class that
is called Limits or Settings. What is no limit is named in NO_LIMITS. What is said of a limit is the first sentence of
its docstring, or else the comment beside it, or else its name; the threat it stands against is what its docstring or
its module names.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs/reference/limits.md"

_NAME = re.compile(
    r"_?(?:MOST|LONGEST|LARGEST|MAX|SLOWEST|SMALLEST|SHORTEST)(?:_\w+)?|_?(?:[A-Z]\w*_)?(?:SECONDS|BYTES|AT_ONCE)"
)
_CLASS = re.compile(r"\w*(?:Limits|Settings)")
_THREAT = re.compile(r"\bT[0-9]{2}\b")

# Numbers that bound nothing: versions, codes, statuses, widths of records, units, what the system calls something.
NO_LIMITS = re.compile(
    "VERSION|FOUND|ERROR|NOT_FOUND|NO_VALUES|NOWHERE|NO_SLOT|AT_THE_PEER|AT_THE_DESTINATION|INSIDE|BOTH|TICKS|MINUTE|SECOND"
    "|EPOCH|A_DAY|DIGEST|BY_LANGUAGE|WIDTH|HEAD_WIDTH|UNKNOWN|DEFAULT_PORT|LAST_PORT|.*port"
    "|_FAILED|_TOO_MANY|_FAULTS|_NO_WAIT|_TCP_INFO|_GET_VERSION|_TIMEX_BYTES|_TIME_ERROR|_FLOAT|_KEY|_SIZE|_SPACE|_SERVED|_LOCK|_FLAG|_REMOVED|_UNNUMBERED|_WINDOW|_ROUND_NUMBERS"
)
_KIB, _MIB = 1024, 1024 * 1024
_TICKS = 10**9

_HEAD = """# Limits

How much, how long and how many: every limit of the program, written by `make docs` from the constants in the source.
Numbers are bytes, seconds, characters or counts, as the sentence says; in `minting`, times are counted in nanoseconds.
What each threat is, is said in [Threats](threats.md).
How the limits on requests act together is said in [`http/limits`](../../src/ibi/http/limits/README.md).
"""


@dataclass(frozen=True)
class LimitEntry:
    """One limit: `name` as Python reaches it, and what is said of it ("" for nothing)."""

    module: str
    name: str
    value: float
    text: str
    threats: tuple[str, ...]

    @property
    def package(self) -> str:
        """Where it stands: "resolver.cache"."""
        return ".".join(self.module.split(".")[1:-1]) or self.module.split(".")[1]

    @property
    def is_public(self) -> bool:
        """Whether others may use it, so that something must be said of it."""
        return not self.name.startswith("_")


@cache
def limits() -> list[LimitEntry]:
    """Return every limit of the source, by module."""
    found: list[LimitEntry] = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found += _of_module(module, path.read_text(encoding="utf-8"))
    return sorted(found, key=lambda each: (each.package, each.module))


def page() -> str:
    """Return the page as it should be."""
    parts = [_HEAD]
    for package, group in groupby(limits(), lambda each: each.package):
        rows = "".join(map(_row, group))
        parts.append(f"## {package}\n\n| limit | value | threats | constant |\n|---|--:|---|---|\n{rows}")
    return "\n".join(parts)


def _row(limit: LimitEntry) -> str:
    text = (limit.text or _words(limit.name)).replace("|", "\\|")
    name = f"{limit.module.removeprefix('ibi.')}.{limit.name}"
    return f"| {text} | {_shown(limit.value)} | {', '.join(limit.threats)} | `{name}` |\n"


def _words(name: str) -> str:
    return name.strip("_").replace("_", " ").lower()


def _shown(value: float) -> str:
    if isinstance(value, int) and value >= _KIB and value % _KIB == 0:
        return f"{value // _MIB:,} · 1024²" if value % _MIB == 0 else f"{value // _KIB:,} · 1024"
    return f"{value:,}"


def _of_module(module: str, text: str) -> Iterator[LimitEntry]:
    tree = ast.parse(text)
    whole = ast.get_docstring(tree) or ""
    for owner, body in _bodies(tree):
        for statement, follower in zip(body, [*body[1:], None], strict=True):
            name = _assigned(statement)
            if name is None or NO_LIMITS.fullmatch(name):
                continue
            docstring, comment = _docstring(follower), _comments(text).get(statement.end_lineno or 0, "")
            if not (owner or _NAME.fullmatch(name) or ((docstring or comment) and name.isupper())):
                continue
            description = docstring or comment
            if not (owner or _NAME.fullmatch(name) or docstring):  # a comment may say no more than "bytes"
                description = f"{_words(name)}: {comment}"
            value = _value(module, owner, name)
            if value is not None:
                threats = tuple(dict.fromkeys(_THREAT.findall(description) or _THREAT.findall(whole)))
                yield LimitEntry(
                    module, f"{owner}.{name}" if owner else name, value, _sentence(description), threats
                )


def _bodies(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    yield "", tree.body
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and _CLASS.fullmatch(node.name):
            yield node.name, node.body


def _assigned(statement: ast.stmt) -> str | None:
    """Return the name that a statement gives a value."""
    if isinstance(statement, ast.AnnAssign) and statement.value and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _docstring(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return inspect.cleandoc(str(statement.value.value))
    return ""


@cache  # several constants of a module ask; most modules have docstrings alone
def _comments(text: str) -> dict[int, str]:
    """Return the comments by their lines; one that stands alone belongs to the line below it, too."""
    found: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment = token.string.lstrip("#: ").partition("noqa")[0].strip()
            line = token.start[0]
            alone = not token.line[: token.start[1]].strip()
            if alone:
                found[line + 1] = f"{found.pop(line, '')} {comment}".strip()
            else:
                found[line] = comment
    return found


def _value(module: str, owner: str, name: str) -> float | None:
    """Return the number that a constant, or a field of a class, has; None where it has none."""
    holder: Any = importlib.import_module(module)
    if owner:
        fields = getattr(getattr(holder, owner), "__dataclass_fields__", {})
        value = fields[name].default if name in fields else None
    else:
        value = getattr(holder, name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sentence(text: str) -> str:
    """Return the first sentence or part of one, without its full stop."""
    one_line = " ".join(text.replace(" (docs/reference/threats.md)", "").split())
    return re.split(r"(?<=[a-z0-9)`])\.(?= |$)", one_line)[0].strip().rstrip(".;,")


def main() -> int:
    """Write the page, or see whether it is current."""
    written = page()
    if "--check" in sys.argv:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != written)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(written, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(limits())} limits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
