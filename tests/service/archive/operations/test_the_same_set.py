"""What pages, commands and the JSON interface can do is the same set, but for what is listed here with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.inspect import FloatType, IntType

from ibi.api import accounts
from ibi.api.fields import described
from ibi.api.operations import Operation
from ibi.archive.operations import listed as of_an_archive
from ibi.resolver.operations import listed as of_a_resolver
from ibi.web import administration_pages, resolver_pages
from surface.commands import leaves

ARCHIVE: tuple[Operation[Any, Any], ...] = (*of_an_archive.OPERATIONS, *accounts.OPERATIONS)
RESOLVER: tuple[Operation[Any, Any], ...] = (*of_a_resolver.OPERATIONS, *accounts.OPERATIONS)

ITEMS = {
    # (the route, the command, the page): what only reads, and is open to all; and imports, whose body is one file.
    ("GET /items", "list", "items"),
    ("GET /items/<ibi>", "show", "items"),
    ("GET /items/<ibi>/history", "show", "items"),
    ("GET /items/<ibi>/statistics", "statistics", "statistics"),
    ("GET /statistics", "statistics", "statistics"),
    ("GET /search", "search", "items"),
    ("POST /imports", "import", "import"),
}
COMMANDS_ALONE = {
    "init": "makes the directory that a server then has",
    "restore": "makes a directory from a backup, where no server is",
    "rebuild": "needs the server to be stopped",
    "move-files": "needs the server to be stopped at its end",
    "move-store": "needs the server to be stopped",
    "serve": "is the server",
    "verify": "reads a receipt offline, without an Archive",
}
RESOLVERS_COMMANDS_ALONE = {
    "init": "makes the directory that a server then has",
    "serve": "is the server",
    "move-store": "needs the server to be stopped",
    "applications": "the page of applications, and GET /registrations?state=applied",
    "export-registry": "writes a file; GET /-/registry is public",
    "import-registry": "reads a file of the machine, under a key that a person compares",
}


def commands_of(service: str) -> set[str]:
    """The commands of a service, by what follows its name."""
    words = f"ibi {service} "
    return {name.removeprefix(words) for name in leaves() if name.startswith(words)}


def done_by(operations: tuple[Operation[Any, Any], ...]) -> set[str]:
    """The commands that operations are done by."""
    return {each.command or each.name for each in operations}


def test_every_operation_of_an_archive_has_its_command_and_its_page() -> None:
    pages = {*(word for _, menu in administration_pages.MENU for word in menu), "edit", "files", "delete"}
    words = {f"account {word}" for word in ("add", "list", "remove", "password", "role")}
    assert done_by(ARCHIVE) - commands_of("archive") - words == set()
    assert {each.page for each in ARCHIVE if each.page} - pages == set()
    assert {command for _, command, _ in ITEMS} - commands_of("archive") == set()
    assert {page for _, _, page in ITEMS} - pages == set()


def test_every_command_of_an_archive_is_done_over_json_and_on_pages_too() -> None:
    tokens = {f"token {word}" for word in ("add", "list", "remove")}
    known = done_by(ARCHIVE) | {command for _, command, _ in ITEMS} | COMMANDS_ALONE.keys() | tokens
    assert commands_of("archive") - known == set()
    assert COMMANDS_ALONE.keys() - commands_of("archive") == set()


def test_every_command_of_a_resolver_is_done_over_json_and_on_pages_too() -> None:
    tokens = {f"token {word}" for word in ("add", "list", "remove")}
    known = done_by(RESOLVER) | RESOLVERS_COMMANDS_ALONE.keys() | tokens
    assert commands_of("resolver") - known == set()
    assert RESOLVERS_COMMANDS_ALONE.keys() - commands_of("resolver") == set()


def test_every_operation_of_a_resolver_has_its_command_and_its_page() -> None:
    accounts_of_people = {f"account {word}" for word in ("add", "list", "remove", "password", "role")}
    assert (
        done_by(RESOLVER) - commands_of("resolver") - accounts_of_people - {"token", "account role"} == set()
    )
    pages = {*(word for _, menu in resolver_pages.MENU for word in menu), "tokens"}
    assert {each.page for each in RESOLVER if each.page} - pages == set()


TAKEN_OTHERWISE = {
    "archive": {
        "put-file": "edit --file, which names its path",
        "hand-over-state": "the item is named, not the hand-over",
        "take-back": "the item is named, not the hand-over",
        "switch": "on or off, as a word",
        "import-bag": "the title is the name of the bag's file",
    },
    "resolver": {
        "set": "KEY VALUE, as often as wanted",
        "register": "also from a mail, whose sender has the name",
        "registrations": "`archives` and `applications`, a command for each state",
        "registration": "`archives` lists all",
    },
}
"""Operations some of whose fields have no option as they declare it, with the reason."""


def _without_options(service: str, operations: tuple[Operation[Any, Any], ...]) -> set[str]:
    """Operations with a field for which their command has no option, and no position."""
    parsers = leaves()
    found = set()
    for each in operations:
        parser = parsers.get(f"ibi {service} {each.command or each.name}")
        if parser is None:  # one word for several: see `token` of a resolver
            continue
        known = {word for action in parser._actions for word in (*action.option_strings, action.dest)}
        for info in described(each.fields):
            usage = info.option if info.option != "" else f"--{info.name.replace('_', '-')}"
            if usage is not None and usage.partition(" ")[0] not in known:
                found.add(each.name)
    return found


@pytest.mark.parametrize(
    ("service", "operations"), [("archive", ARCHIVE), ("resolver", RESOLVER)], ids=["archive", "resolver"]
)
def test_what_an_act_takes_its_command_takes(
    service: str, operations: tuple[Operation[Any, Any], ...]
) -> None:
    assert _without_options(service, operations) == TAKEN_OTHERWISE[service].keys()


@pytest.mark.parametrize("operation", [*ARCHIVE, *RESOLVER], ids=lambda each: each.name)
def test_every_number_has_bounds_that_its_sentence_can_tell(operation: Operation[Any, Any]) -> None:
    bounds = [
        (each.type.ge, each.type.le)
        for each in described(operation.fields)
        if isinstance(each.type, IntType | FloatType)
    ]
    assert None not in {bound for pair in bounds for bound in pair}


@pytest.mark.parametrize("operations", [ARCHIVE, RESOLVER], ids=["archive", "resolver"])
def test_no_two_operations_have_one_name_or_one_route(operations: tuple[Operation[Any, Any], ...]) -> None:
    assert len({each.name for each in operations}) == len(operations)
    assert len({each.route for each in operations}) == len(operations)
