"""A service with a few made-up things, and operations of every kind on them: for programs, and on pages."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from ibi.accounts.layout import Form, PageRequest
from ibi.accounts.people import Role
from ibi.accounts.sign_in import Client, SignedInUser
from ibi.accounts.tokens import Scope, Tokens
from ibi.api import fields as declared
from ibi.api.dispatch import Api
from ibi.api.fields import UNSET, Fields, NoFields, given, number_field
from ibi.api.idempotency import Replies
from ibi.api.jobs import Jobs
from ibi.api.operation_pages import OperationPages
from ibi.api.operations import (
    FILE,
    Document,
    FieldGroup,
    Operation,
    OperationContext,
    OperationGroup,
    OperationRunner,
    routes,
)
from ibi.api.routes import TEXT, record, say_to
from ibi.errors import HoldingError, IbiError, NotHeld, SetupError
from ibi.http.request import Request

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.http.response import Response

NOW = 1_800_000_000.0


@dataclass(slots=True, kw_only=True)
class ThingsContext(OperationContext):
    """The context of these operations: the `things` by their names, and the `settings`."""

    things: dict[str, dict[str, Any]]
    settings: dict[str, Any]
    called_at: list[str] = field(default_factory=list)


class ThingName(Fields, frozen=True):
    """One thing."""

    name: Annotated[str, declared.field("its name", "name NAME", longest=20)]


class ThingFields(ThingName, frozen=True):
    """A thing and what it is."""

    size: Annotated[int, number_field("how large it is", None, 0, 9)] = UNSET
    words: Annotated[tuple[str, ...], declared.field("what it is called")] = ()
    secret: Annotated[str, declared.field("its key", secret=True)] = ""
    path: Annotated[str, declared.field("a file here", local=True)] = ""


class ListFields(Fields, frozen=True):
    """Which things are listed."""

    least: Annotated[int, number_field("at least so large", None, 0, 9)] = UNSET
    lang: Annotated[str, declared.field("in which language")] = ""


class Settings(Fields, frozen=True):
    """All settings."""

    loud: Annotated[bool, declared.field("whether it is loud")] = UNSET
    rate: Annotated[float, declared.field("how fast")] = UNSET
    title: Annotated[str, declared.field("what it is called", lines=True)] = UNSET
    hosts: Annotated[tuple[str, ...], declared.field("some hosts")] = UNSET


class UploadFields(Fields, frozen=True):
    """A file and what it is for."""

    file: Annotated[str, declared.field("the file", upload=True)]
    number: Annotated[int, number_field("which", None, 1, 5)] = 1
    sure: Annotated[bool, declared.field("whether to be sure")] = True


def listed(context: ThingsContext, fields: ListFields) -> dict[str, Any]:
    least = given(fields).get("least", 0)
    names = sorted(name for name, each in context.things.items() if each["size"] >= least)
    if least == 9:
        raise SetupError("/secret cannot be read")
    return {"things": names} | ({"next": "/-/api/things?least=1"} if len(names) > 1 else {})


def one(context: ThingsContext, fields: ThingName) -> dict[str, Any]:
    if fields.name not in context.things:
        raise NotHeld("there is no thing {name}", name=fields.name)
    context.noted(IbiError("{name} was looked at", name=fields.name))
    return {"name": fields.name, **context.things[fields.name]}


def put(context: ThingsContext, fields: ThingFields) -> dict[str, Any]:
    """Make a thing, or change it."""
    context.noted(IbiError("{name} is the field", name=context.called("size")))
    if fields.path:
        raise HoldingError("no path may come from elsewhere")
    context.things[fields.name] = {"size": given(fields).get("size", 0), "words": list(fields.words)}
    return {"name": fields.name, "words": list(fields.words), "secret": "a secret of its own"}


def drop(context: ThingsContext, fields: ThingName) -> None:
    del context.things[fields.name]


def count(context: ThingsContext, _fields: NoFields) -> dict[str, Any]:
    context.progress(1, 2)
    context.noted(IbiError("half of them were counted"))
    return {"count": len(context.things)}


def document(_context: ThingsContext, _fields: NoFields) -> Document:
    file: Any = tempfile.TemporaryFile()  # noqa: SIM115 - the response closes it
    file.write(b"a file")
    file.seek(0)
    return Document("all.txt", "text/plain", file=file)


def export(_context: ThingsContext, _fields: NoFields) -> Document:
    return Document("new.txt", "text/plain", b"new")


def show(context: ThingsContext, _fields: NoFields) -> dict[str, Any]:
    return {"settings": dict(context.settings)}


def change(context: ThingsContext, fields: Settings) -> dict[str, Any]:
    changes = given(fields)
    if "title" in changes and not changes["title"]:
        raise SetupError("a title is needed")
    context.check_match({"settings": dict(context.settings)})
    context.settings.update(changes)
    return {"changed": sorted(changes)}


def upload(context: ThingsContext, fields: UploadFields) -> dict[str, Any]:
    context.called_at.append(fields.file)
    if fields.number == 5:
        raise HoldingError("five is taken")
    return {"file": fields.file, "number": fields.number, "sure": fields.sure}


OF_THINGS = record(name=TEXT)
LIST: Any = Operation("things", "all things", Scope.READ, ListFields, listed, "GET /things", gives=OF_THINGS)
ONE: Any = Operation(
    "thing", "one thing", Scope.READ, ThingName, one, "GET /things/<word>", place="name", gives=OF_THINGS,
    headers=lambda result: [("x-size", str(result["size"]))],
    version=lambda context, fields: context.things.get(fields.name),
)  # fmt: skip
PUT: Any = Operation(
    "put-thing", "make a thing", Scope.EDIT, ThingFields, put, "PUT /things/<word>", place="name", gives=OF_THINGS,
    status=201, refusals=(507,), shown_once="secret",
    headers=lambda result: [("location", f"/-/api/things/{result['name']}")],
)  # fmt: skip
DROP: Any = Operation(
    "drop-thing", "drop a thing", Scope.DELETE, ThingName, drop, "DELETE /things/<word>", place="name",
    warning="it is gone then",
)  # fmt: skip
COUNT: Any = Operation(
    "count", "count them", Scope.EDIT, NoFields, count, "POST /count", gives=record(count=TEXT), is_long=True
)
DOCUMENT: Any = Operation("document", "all in one file", Scope.READ, NoFields, document, "GET /document")
EXPORT: Any = Operation(
    "export", "make a file", Scope.EDIT, NoFields, export, "POST /export", gives=OF_THINGS
)
SHOW: Any = Operation(
    "settings", "the settings", Scope.READ, NoFields, show, "GET /settings", gives=record(settings={})
)
SET: Any = Operation(
    "set", "change settings", Scope.ADMIN, Settings, change, "PATCH /settings", gives=record(changed={}),
    groups=(FieldGroup("Sound", ("loud", "rate")), FieldGroup("Words", ("title", "hosts"))),
)  # fmt: skip
UPLOAD: Any = Operation(
    "upload",
    "take a file",
    Scope.EDIT,
    UploadFields,
    upload,
    "POST /upload",
    gives=record(file=TEXT),
    is_remote=True,
)
SEND: Any = Operation(
    "send",
    "take a file as it is",
    Scope.EDIT,
    ThingName,
    drop,
    "POST /send",
    bodies={FILE: {"type": "string"}},
)
OWN_PAGE: Any = Operation(
    "own", "what has a page of its own", Scope.ADMIN, NoFields, show, "GET /own", gives=record(), page="own"
)
THINGS = OperationGroup("Things", (LIST, ONE, PUT, DROP, COUNT, DOCUMENT, UPLOAD, SEND, EXPORT))
OTHERS = OperationGroup("Settings", (SHOW, SET, OWN_PAGE))


class MadeUp:
    """The service. `kept`: the files that a page has kept; `dropped`: those whose form then failed."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.things: dict[str, dict[str, Any]] = {
            "a": {"size": 1, "words": ["x"]},
            "b": {"size": 2, "words": []},
        }
        self.settings: dict[str, Any] = {"loud": True, "rate": 2.0, "title": "One\nTwo", "hosts": ["c", "d"]}
        self.kept: list[Any] = []
        self.dropped: list[Any] = []
        self.jobs = Jobs(data, lambda: NOW, lambda: NOW)
        operations = (*THINGS.operations, *OTHERS.operations)
        self.runner = OperationRunner(data, operations, self.jobs)
        self.tokens = Tokens(data)
        table = routes(operations, lambda call: self.context(call.token_name, call.request), self.runner)
        self.table = table
        self.api = Api(table, self.tokens, 100, replies=Replies(data, time.time))
        pages = OperationPages([(THINGS, self.of_page), (OTHERS, self.of_page)], self.runner, self.keep)
        self.handler = pages.handlers()["do"]

    def context(self, who: str, request: Request) -> ThingsContext:
        say: Any = partial(say_to, request)
        return ThingsContext(who=who, say=say, things=self.things, settings=self.settings)

    def of_page(self, visit: PageRequest) -> ThingsContext:
        return self.context(visit.signed.name, visit.request)

    @contextmanager
    def keep(self, _visit: PageRequest, file: Any) -> Iterator[str]:
        self.kept.append(file)
        try:
            yield str(len(self.kept))
        except BaseException:
            self.dropped.append(file)
            raise

    def token(self, *scopes: Scope) -> str:
        return self.tokens.make("-".join(scopes), "2026-11-22T10:00:00Z", scopes)

    def ask(self, method: str, target: str, token: str, value: Any = None, **headers: str) -> Response:
        """What a program gets that sends this value as JSON."""
        path, _, query = target.partition("?")
        known = {"authorization": f"Bearer {token}"} | {
            name.replace("_", "-"): text for name, text in headers.items()
        }
        body = b"" if value is None else json.dumps(value).encode()
        if body:
            known.setdefault("content-type", "application/json")
        request = Request(
            method, f"/-/api{path}", query, {name.encode(): text.encode() for name, text in known.items()}
        )

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        return asyncio.run(self.api.answer(request, receive))

    def visit(
        self, rest: str, query: str = "", role: Role = Role.ADMINISTRATOR, language: str = ""
    ) -> PageRequest:
        headers = {b"accept-language": language.encode()} if language else {}
        signed = SignedInUser("root", role, "token", "session")
        client = Client("127.0.0.1", secure=False, local=True)
        return PageRequest(Request("GET", f"/-/admin/do/{rest}", query, headers), signed, client, rest)

    def show(
        self, rest: str = "", query: str = "", typed: Form | None = None, role: Any = Role.ADMINISTRATOR
    ) -> Any:
        return self.handler.show(self.visit(rest, query, role), typed)

    def send(
        self, rest: str, *fields: tuple[str, str], role: Any = Role.ADMINISTRATOR, files: Any = None
    ) -> Any:
        return self.handler.do(self.visit(rest, role=role), Form(fields, files or {}))


def read_file(response: Response) -> bytes:
    """The content of a response that is a file."""
    file: Any = response.file
    assert isinstance(file, io.BufferedRandom)
    with file:
        return file.read()
