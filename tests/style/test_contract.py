"""What the reference pages of docs/contract.md promise is compared with the program, in both directions."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator

import pytest

from ibi.archive.model.item_json import _FIELDS
from ibi.cli import _parser
from ibi.cli.common import Parser
from ibi.cli.inspect import inspect
from ibi.resolver.model.alert import STATUS
from support.style.layers import ROOT, modules

REFERENCE = ROOT / "docs/reference"
COMMANDS_PAGE, FORMATS_PAGE, HTTP_PAGE = (
    (REFERENCE / f"{name}.md").read_text(encoding="utf-8") for name in ("commands", "formats", "http")
)
PROMISED = ("commands", "formats", "http", "operations", "settings")
"""The pages that docs/contract.md links to, in docs/reference."""
SERVICES = (
    *("archive.pages.site", "archive.service.service", "archive.pages.search_pages", "archive.oai.provider"),
    *("resolver.pages.site", "resolver.service", "resolver.pages.programs", "minting.service"),
    *("accounts.layout", "web.assets"),
)


def _commands(
    parser: argparse.ArgumentParser, name: str = "ibi"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """("ibi archive init", its parser) for every command that does something."""
    subparsers = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not subparsers:
        yield name, parser
    for word, child in parser.words.items() if isinstance(parser, Parser) else ():
        yield from _commands(child, f"{name} {word}")
    for action in subparsers:
        for word, child in action.choices.items():
            yield from _commands(child, f"{name} {word}")


COMMANDS = dict(_commands(_parser()))
SECTIONS = dict(
    re.findall(r"^## `(ibi [a-z -]+)`\n(.*?)(?=^## |\Z)", COMMANDS_PAGE, re.MULTILINE | re.DOTALL)
)


def _table(text: str, head: str) -> list[list[str]]:
    """The rows of the table that begins with this head, as cells."""
    found = re.search(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found, f"there is no table with the head {head}"
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


def _names(text: str, head: str) -> list[str]:
    """The names in the first column of a table."""
    return [name for cells in _table(text, head) for name in re.findall(r"`([^`]+)`", cells[0])]


def _arguments(parser: argparse.ArgumentParser) -> dict[str, bool]:
    """Every argument of a command, by its longest option or its metavar, and whether it must be given."""
    return {
        max(action.option_strings, key=len) if action.option_strings else str(action.metavar): action.required
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
    }


def test_the_contract_links_to_every_page_that_promises_something() -> None:
    contract = (ROOT / "docs/contract.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(reference/([a-z]+)\.md\)", contract)) == {*PROMISED, "limits"}


def test_the_page_has_a_section_for_every_command_and_for_no_other() -> None:
    assert sorted(SECTIONS) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_lists_every_argument_of_a_command_and_no_other(name: str) -> None:
    rows = _table(SECTIONS[name], "argument")
    listed = {found: "**" in cells[0] for cells in rows for found in re.findall(r"`([^`]+)`", cells[0])}
    assert listed == _arguments(COMMANDS[name])


def test_every_option_in_the_text_exists_somewhere() -> None:
    known = {name for parser in COMMANDS.values() for name in _arguments(parser)}
    text = "".join((REFERENCE / f"{name}.md").read_text(encoding="utf-8") for name in PROMISED)
    assert set(re.findall(r"--[a-z][a-z-]*", text)) - known == {"--help", "--version"}


@pytest.mark.parametrize(
    "option", ["--bind", "--workers", "--port", "--mint-ip-port", "--granularity", "--policy"]
)
def test_a_default_that_the_page_gives_is_true(option: str) -> None:
    checked = 0
    for name, parser in COMMANDS.items():
        for action in parser._actions:
            row = re.search(rf"^\| [^|]*`{option}`[^|]* \| (.*) \|$", SECTIONS[name], re.MULTILINE)
            if option in action.option_strings and action.default not in {None, argparse.SUPPRESS}:
                assert row, f"{name} {option}"
                assert re.search(rf"\b{re.escape(str(action.default))}\b", row[1])
                checked += 1
    assert checked


def test_the_fields_of_an_item_are_those_that_are_read() -> None:
    section = FORMATS_PAGE.partition("## Items as JSON lines")[2]
    assert sorted(_names(section, "field")) == sorted(_FIELDS)


def test_the_help_of_import_lists_the_same_fields() -> None:
    listed = re.findall(
        r"^  ((?:[a-z_]+, )*[a-z_]+)  +", COMMANDS["ibi archive import"].epilog or "", re.MULTILINE
    )
    assert sorted(name for names in listed for name in names.split(", ")) == sorted(_FIELDS)


def test_inspect_gives_the_keys_that_the_page_lists() -> None:
    texts = (
        "http://urlib.net/sid.inpe.br/mtc-m18@80/2009/07.21.14.43!",
        "8JMKD3MGP8W/35MMLL8",
        "6RPa7umaZ/UaJFT",
    )
    given = {key for text in texts for key in json.loads(inspect(text).json())}
    assert given == set(_names(SECTIONS["ibi inspect"], "key"))


def test_the_kinds_of_alerts_and_their_statuses_are_those_of_the_resolver() -> None:
    rows = _table(HTTP_PAGE, "kind")
    assert {cells[0].strip("`"): int(cells[1]) for cells in rows} == {str(k): s for k, s in STATUS.items()}


def test_the_pages_under_the_hyphen_are_those_of_the_services() -> None:
    served = {page for name in SERVICES for page in re.findall(r"/-/([a-z]+)", modules()[name].text)}
    assert set(re.findall(r"/-/([a-z]+)", HTTP_PAGE)) == served
