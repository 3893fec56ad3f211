"""Write what docs/reference takes from the program: tables of commands and settings, and the page of all routes.

    python tools/reference_pages.py            writes it
    python tools/reference_pages.py --check    says whether it is current (status 1 if not)

In commands.md the table of arguments below each command, and in settings.md the table below each file, are the
program's; sentences around them are written by hand. routes.md comes of the OpenAPI documents that the services gave
when tests/surface was recorded.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import re
import sys
from dataclasses import MISSING, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

os.environ["LANGUAGE"] = "en"

from ibi.cli import command_parser
from ibi.cli.parser import Parser
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer, ResolverSettings, SubsystemSettings
from ibi.runtime.settings.institution import Institution

ROOT: Final = Path(__file__).resolve().parent.parent
REFERENCE: Final = ROOT / "docs/reference"
OPENAPI: Final = {
    "An Archive": ROOT / "tests/surface/golden/openapi-archive.json",
    "A resolver": ROOT / "tests/surface/golden/openapi-resolver.json",
}
SETTINGS: Final = (
    ResolverSettings,
    ArchiveSettings,
    JoinedResolver,
    Peer,
    Institution,
    SubsystemSettings,
)

_ROUTES = """# Routes for programs

Every route of an Archive and of a resolver that `/-/api/openapi.json` describes, written by `make docs`.
What the routes mean, and how they are used, is said in [HTTP](http.md).
"""


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # noqa: SLF001 - argparse tells in no other way what a parser takes


def commands(parser: argparse.ArgumentParser | None = None, name: str = "ibi") -> Iterator[tuple[str, Any]]:
    """("ibi archive init", its parser) for every command that does something."""
    parser = parser or command_parser()
    below: dict[str, Any] = dict(parser.words) if isinstance(parser, Parser) else {}
    for action in _actions(parser):
        if isinstance(action.choices, dict):  # an option has its choices in a list or tuple
            below |= action.choices
            break
    else:
        yield name, parser
    for word, child in below.items():
        yield from commands(child, f"{name} {word}")


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments of a command in the order in which `--help` prints them, positional ones first."""
    actions = [action for action in _actions(parser) if action.dest != "help"]
    return sorted(actions, key=lambda action: bool(action.option_strings))


def shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Those of one command that help names; former spellings go on working without it, and most have --quiet."""
    return [
        action for action in arguments(parser) if action.help != argparse.SUPPRESS and action.dest != "quiet"
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _argument(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or "")
    name = max(action.option_strings, key=len) if action.option_strings else value
    shown = f"`{name}`" + (f" `{_cell(value)}`" if value and action.option_strings else "")
    return f"**{shown}**" if action.required and action.nargs != "?" else shown


def _meaning(action: argparse.Action) -> str:
    text = action.help or ""
    if action.default:
        text = re.sub(r" \(default: .*?\)$", "", text.replace("%(default)s", str(action.default)))
    text = re.sub(r"`[^`]*`|--[a-z][a-z-]*", lambda found: f"`{found[0].strip('`')}`", text)
    if action.choices:
        one_of = ", ".join(f"`{each}`" for each in action.choices)
        text = f"{text}: {one_of}" if text else one_of
    if action.default and action.default != argparse.SUPPRESS:
        text += f"; by default `{action.default}`"
    return _cell(text)


def table_of_arguments(parser: argparse.ArgumentParser) -> str:
    """The table of a command's arguments; in bold what must be given."""
    rows = [f"| {_argument(action)} | {_meaning(action)} |\n" for action in shown(parser)]
    return "| argument | meaning |\n|---|---|\n" + "".join(rows)


def table_of_settings(settings: Any) -> str:
    """The table of the settings in one file, with their defaults; what is said of each is its docstring."""
    meanings: dict[str, str] = {}
    [made] = ast.parse(inspect.getsource(settings)).body
    body = made.body if isinstance(made, ast.ClassDef) else []
    for stated, text in pairwise(body):
        if isinstance(stated, ast.AnnAssign) and isinstance(text, ast.Expr):
            meanings[ast.unparse(stated.target)] = " ".join(
                inspect.cleandoc(ast.literal_eval(text.value)).split()
            )
    rows = []
    for field in fields(settings):
        default = "" if field.default is MISSING else f"`{json.dumps(field.default)}`"
        rows.append(f"| `{field.name}` | {default} | {_cell(meanings.get(field.name, ''))} |\n")
    return "| setting | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _with_tables(page: str, head: str, tables: dict[str, str]) -> str:
    """Put each table in the place of the one with this head below its heading; complain of a heading that lacks."""
    for heading, table in tables.items():
        section = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        old = (
            re.search(rf"^\| {head} \|.*\n\|[-|]+\|\n(?:\|.*\n)*", section[0], re.MULTILINE)
            if section
            else None
        )
        if section is None or old is None:
            raise SystemExit(f"docs/reference lacks a section “{heading}” with a table “{head}”")
        start = section.start() + old.start()
        page = page[:start] + table + page[start + len(old[0]) :]
    return page


def _members(content: dict[str, Any]) -> str:
    kinds = []
    for kind, of_kind in content.items():
        schema = of_kind.get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2]
        names = ", ".join(f"`{each}`" for each in schema.get("properties", {}))
        kinds.append(names or name or f"`{kind}`")
    return "; ".join(kinds)


def _routes(document: dict[str, Any]) -> Iterator[str]:
    usual = document["servers"]
    found = [
        # A path may have a server of its own: public pages are not below /-/api.
        (f"{method.upper()} {operations.get('servers', usual)[0]['url'].rstrip('/')}{path}", operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if isinstance(operation, dict)  # the list beside them holds the parameters of the path
    ]
    always = set[str].intersection(*(set(operation["responses"]) for _, operation in found))
    yield f"Every route may also answer {', '.join(sorted(always))}.\n\n"
    yield "| request | scope | what it does | takes | status |\n|---|---|---|---|---|\n"
    for request, operation in found:
        scopes = {scope for way in operation.get("security", ()) for scope in way.get("token", ())}
        query = " ".join(
            f"`{each['name']}`" for each in operation.get("parameters", ()) if each["in"] == "query"
        )
        takes = "; ".join(
            filter(None, (query, _members(operation.get("requestBody", {}).get("content", {}))))
        )
        scope = ", ".join(f"`{each}`" for each in sorted(scopes))
        statuses = ", ".join(status for status in operation["responses"] if status not in always)
        yield f"| `{request}` | {scope} | {_cell(operation.get('summary', ''))} | {_cell(takes)} | {statuses} |\n"


def pages() -> dict[Path, str]:
    """Each page as it should be."""
    written = REFERENCE / "commands.md", REFERENCE / "settings.md"
    by_command = {f"`{name}`": table_of_arguments(parser) for name, parser in commands() if shown(parser)}
    by_file = {f"`{each.FILE}`": table_of_settings(each) for each in SETTINGS}
    routes = _ROUTES
    for name, file in OPENAPI.items():
        document = json.loads(file.read_text(encoding="utf-8"))
        routes += f"\n## {name}\n\n" + "".join(_routes(document))
    return {
        written[0]: _with_tables(written[0].read_text(encoding="utf-8"), "argument", by_command),
        written[1]: _with_tables(written[1].read_text(encoding="utf-8"), "setting", by_file),
        REFERENCE / "routes.md": routes,
    }


def main() -> int:
    """Write the pages, or compare them."""
    current = True
    for path, text in pages().items():
        if "--check" in sys.argv[1:]:
            current = current and path.exists() and path.read_text(encoding="utf-8") == text
        else:
            path.write_text(text, encoding="utf-8")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
