"""The description of the JSON interface: it is valid, it is complete, and what is asked as it says is answered so."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator

from ibi.accounts.tokens import Scope
from ibi.api.jobs import Jobs
from ibi.api.routes import Route, answer, in_thread
from ibi.app.archive import archive_api
from ibi.archive.api.deposits import Deposits
from ibi.archive.api.labels import DepositLabels
from ibi.archive.api.openapi import DOCUMENTED_ROUTES, routes
from ibi.archive.store.data_directory import DataDirectory
from support.archive.administration_fixture import administered_archive
from support.archive.api_fixture import (
    FORM,
    TITLE,
    Asking,
    asking,
    deposited,
    file_part,
    form,
    item_part,
    json_of,
)
from support.archive.archive_fixture import REP, NewArchive, fill, make_archive
from support.checks.description import document_faults, held
from support.made_up import find_no_fault
from support.programs import Program

ADMINISTRATION = [
    "/imports", "/copies", "/items/{ibi}/refresh", "/hand-overs", "/membership", "/state", "/audit", "/index",
    "/accounts", "/tokens",
]  # fmt: skip
MORE = [
    "/institution", "/peers", "/harvests", "/checks", "/repairs", "/backups", "/settlements", "/bags", "/jobs",
    "/statistics", "/handles", "/search", "/changes", "/transfers", "/items/{ibi}/receipt", "/items/{ibi}/bag",
    "/items/{ibi}/statistics",
]  # fmt: skip
NOT_MADE_UP = {
    "/settings": "what is made up would give the server another address, or change what the rest may do",
    "/retirement": "it ends the Archive",
    "/openapi.json": "the description itself",
}
"""Paths of which no machine makes up requests, with the reason; OTHERS are pages, lists and redirects for readers."""
METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch"})
OTHERS = {route.path for route in DOCUMENTED_ROUTES}
"""What is described besides the interface below /-/api."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    def make(address: str, **more: object) -> NewArchive:
        archive = make_archive(tmp_path_factory.mktemp("full") / "archive", address, more)
        fill(archive)
        return archive

    with asking(make) as made:
        yield made


@pytest.fixture(scope="module")
def document(api: Asking) -> Any:
    answer = api.ask("GET", "/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return json_of(answer)


def table_of(archive: NewArchive) -> tuple[Route, ...]:
    """Return the route table of a whole Archive, with the routes of all modules."""
    directory = DataDirectory(archive.data, archive.clock.machine)
    labels = DepositLabels(directory, archive.settings)
    jobs = Jobs(archive.data, time.time, time.monotonic)
    api, _ = archive_api(directory, archive.settings, archive.catalogue, Deposits(labels), jobs)
    return tuple(route for _, methods in api.table for route in methods.values())


def test_it_is_openapi(document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    assert document_faults(document) == []


def test_every_route_is_in_it_and_nothing_else(archive: NewArchive) -> None:
    table = table_of(archive)
    own = next(route for route in table if route.pattern == "/openapi.json")
    import asyncio

    description = json.loads(asyncio.run(own.act(None)).body)  # type: ignore[arg-type]  # it looks at nothing
    assert document_faults(description) == []
    described = {
        (method.upper(), path)
        for path, methods in description["paths"].items()
        for method in methods
        if method in METHODS and path not in OTHERS
    }
    assert description["paths"].keys() > OTHERS
    assert described == {(route.method, re.sub(r"<([a-z]+)>", r"{\1}", route.pattern)) for route in table}
    names = [
        methods[method]["operationId"]
        for methods in description["paths"].values()
        for method in methods
        if method in METHODS
    ]
    assert len(names) == len(set(names))


def test_the_routes_of_another_module_are_described_with_it() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    added = Route(
        "PUT", "/members/<word>", Scope.ADMIN, in_thread(lambda _call, value: answer(value)), "add a member",
        takes=schema, gives=schema, status=201, refusals=(409,), query={"dry": {"type": "boolean"}},
    )  # fmt: skip
    import asyncio

    document = json.loads(asyncio.run(routes((added,), "7")[-1].act(None)).body)  # type: ignore[arg-type]  # it looks at nothing
    assert document_faults(document) == []
    put = document["paths"]["/members/{word}"]["put"]
    assert put["security"] == [{"token": ["admin"]}]
    assert put["requestBody"]["content"]["application/json"]["schema"] == schema
    assert {"201", "401", "403", "409", "413"} <= put["responses"].keys()


def _valid(document: Any, name: str, value: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    assert list(OAS31Validator(schema).iter_errors(value)) == []


def test_items_and_problems_have_the_shape_that_it_says(api: Asking, document: Any) -> None:
    for item in json_of(api.ask("GET", "/items", None, Scope.READ))["items"]:
        _valid(document, "item", item)
        _valid(document, "history", item["history"])
    _valid(document, "problem", json_of(api.ask("GET", "/items/x")))
    _valid(document, "problem", json_of(api.ask("GET", "/items/a.example/b/2012/01.01.00.00")))


def test_a_deposit_as_it_says_is_taken(api: Asking, document: Any) -> None:
    value = {
        **TITLE, "language": "pt", "access": "embargoed", "embargo": "2030-01-01", "rights": "©", "key": "openapi",
        "licence": "https://creativecommons.org/licenses/by/4.0/", "target": "a.txt", "file_list_public": False,
    }  # fmt: skip
    _valid(document, "deposit", value)
    body = form(item_part(value), file_part("a.txt"))
    answer = api.ask("POST", "/items", body, Scope.DEPOSIT, content_type=FORM)
    assert answer.status == 201
    _valid(document, "item", json_of(answer))
    facts = {"rights": None, "language": "en"}
    _valid(document, "edit", facts)
    path = answer.headers["location"].removeprefix("/-/api")
    edited = api.ask("PATCH", path, facts, Scope.EDIT, if_match="*")
    assert (edited.status, "rights" in json_of(edited)) == (200, False)


@pytest.mark.long
def test_what_a_machine_makes_up_finds_no_fault_of_ours_and_nothing_undocumented(
    new_archive: Callable[..., NewArchive],
) -> None:
    with asking(new_archive) as api:
        item = deposited(api, TITLE, ("a.txt", b"abc")).removeprefix("/items/")
        begun = api.ask("POST", "/uploads", None, Scope.ADMIN, upload_length="1000000")
        upload = begun.headers["location"].rpartition("/")[2]
        url = f"http://127.0.0.1:{api.served.port}/-/api/openapi.json"
        headers = [{"Authorization": f"Bearer {api.token(Scope.ADMIN)}", "If-Match": "*"}, {}]
        left_out = ["/-/", "/.well", "/sitemap"]
        find_no_fault(url, headers, 30, there={"ibi": item, "word": upload}, left_out=left_out)
        assert api.staging == []


def test_the_description_is_as_it_was(tmp_path: Path) -> None:
    """As the surface has it, which walks through all of a network; this is sooner here."""
    with administered_archive(tmp_path) as made:
        document = Program(made.archive.data, made.port).ask("GET", "/openapi.json").content()
    assert document == held("archive"), "python tests/surface/regenerate.py"


@pytest.mark.long
def test_nor_does_it_find_any_in_what_administrators_decide(tmp_path: Path) -> None:
    with administered_archive(tmp_path) as made:
        program = Program(made.archive.data, made.port)
        url = f"http://127.0.0.1:{made.port}/-/api/openapi.json"
        headers = [{"Authorization": f"Bearer {program.token(Scope.ADMIN)}"}, {}]
        find_no_fault(url, headers, 8, there={"ibi": REP, "word": "joao"}, only=ADMINISTRATION)


@pytest.mark.long
def test_nor_in_all_the_rest_but_what_would_end_the_archive_or_move_it(tmp_path: Path) -> None:
    with administered_archive(tmp_path) as made:
        program = Program(made.archive.data, made.port)
        described = program.ask("GET", "/openapi.json").content()["paths"].keys() - OTHERS
        covered = ("/items", "/uploads", *ADMINISTRATION, *MORE)
        assert {each for each in described if not each.startswith(covered)} == NOT_MADE_UP.keys()
        url = f"http://127.0.0.1:{made.port}/-/api/openapi.json"
        headers = [{"Authorization": f"Bearer {program.token(Scope.ADMIN)}"}, {}]
        find_no_fault(url, headers, 2, there={"ibi": REP, "word": "joao"}, only=MORE)
