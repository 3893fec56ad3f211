"""All parsers that are fuzzed, and the few that are not, each with its reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

from proofs.fuzz.of_archives import ITEMS
from proofs.fuzz.of_askers import ASKED
from proofs.fuzz.of_machines import KEPT
from proofs.fuzz.of_neighbours import TALK
from proofs.fuzz.of_resolvers import SAID
from proofs.fuzz.standard import MESSAGES, NAMES

TARGETS: Final = {each.name: each for each in (*NAMES, *MESSAGES, *ITEMS, *ASKED, *TALK, *SAID, *KEPT)}
"""By name."""

EXCEPTIONS: Final = {
    "archive.administration.forms.read_with_files": "a form over HTTP, which requests are tried with (P-F2)",
    "archive.api.intake.read_file": "takes whatever bytes come for the content of a file",
    "archive.care.sidecars.read_file": "the bytes of a file",
    "archive.finding.dating.read_dates": "two numbers in a file of our own; its tests damage it",
    "archive.finding.state.State.read": "a row of our own database",
    "archive.networking.joining.Resolvers.read": "settings.file.Settings.read, which is fuzzed",
    "archive.networking.networks.Kept.read": "rows of our own database",
    "archive.rows.read": "rows of our own database",
    "minting.order.read_body": "the bytes of a body; what they say is read by Order.read",
    "resolver.ready_rows.read": "a row with its checksum, of our own file",
    "resolver.reading.Reading.read": "protocol.url_list.UrlList.read, which is fuzzed, where it holds nobody up",
    "resolver.memory_rows.read": "a row with its checksum, of our own file",
    "signing_in.forms.read_fields": "a form over HTTP, which requests are tried with (P-F2)",
    "transport.download.Download.read": "the bytes of a body",
    "archive.intake.sources.text_lines.TextLines.read": "a position in a file",
}
"""Functions that are called as parsers are, and why they are in no list."""

_SOURCE: Final = Path(__file__).resolve().parents[2] / "src" / "ibi"
_PARSER: Final = re.compile(r"(?:parse|read)(?:_\w+)?|from_[a-z]+|peel")


def parsers() -> set[str]:
    """All public functions of ours that are called as parsers are, dotted below `ibi`; the command line has none."""
    found = set()
    for path in sorted(_SOURCE.rglob("*.py")):
        room = ".".join(path.relative_to(_SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if not room.startswith("cli"):
            found |= {f"{room}.{name}" for name in _functions(ast.parse(path.read_text(encoding="utf-8")))}
    return found


def fuzzed() -> set[str]:
    """All functions that are in a list."""
    return {name for each in TARGETS.values() for name in (each.name.partition(" ")[0], *each.also)}


def _functions(tree: ast.Module) -> list[str]:
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _PARSER.fullmatch(node.name):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found += [
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and _PARSER.fullmatch(each.name)
            ]
    return found
