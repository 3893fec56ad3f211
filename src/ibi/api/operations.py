"""Defines operations: what users of a service can do, each defined once for JSON, pages and command line.

    LEAVE = Operation(
        "leave", "take part at a resolver no more", Scope.ADMIN, LeaveFields, leave, "DELETE /membership"
    )

`leave(context, fields)` does it, and returns the JSON object for programs, or None. The route with its
description (here), the command (`cli.operations`) and the page (`operation_pages`) are made of this. A list
in pages has a member `next`, the path of the next page, which is also in the header Link.

The route of an operation that changes something accepts the headers Idempotency-Key and If-Match: see
`idempotency` and `OperationContext.check_match`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Generic, NamedTuple, Self, TypeVar

from ibi.accounts.tokens import Scope
from ibi.api.fields import F, described, read, read_texts, refuse_local, schema_of
from ibi.api.jobs import JOB, Job, job_facts
from ibi.api.routes import CHANGING, ROOT, Route, answer, explained, in_thread
from ibi.errors import BadField, Conflict, IbiError
from ibi.http.response import NO_STORE, Refusal, Response, link
from ibi.protocol.query_string import unescape
from ibi.runtime.durable_files import locked_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ibi.api.fields import Fields
    from ibi.api.jobs import Jobs, Progress
    from ibi.api.routes import Act, Call, Schema

C = TypeVar("C", bound="OperationContext")

FILE: Final = "application/octet-stream"
"""The media type of a body that is one file."""

_READING: Final = frozenset({"GET", "HEAD"})
_REFUSALS: Final = (404, 409, 412, 422, 507)


def _drop(*_: object) -> None:
    """Do nothing."""


def _no_headers(_result: dict[str, Any]) -> Sequence[tuple[str, str]]:
    return ()


@dataclass(slots=True, kw_only=True)
class OperationContext:
    """Who does an operation, and how; each service adds the stores that its operations work on.

    `who`: the author in histories; `say` translates a sentence into the author's language; `if_match`: the
    ETag that the operation depends on, "" for none; `noted` is called with each notice when it is found.
    """

    who: str
    say: Callable[[IbiError | str], str]
    if_match: str = ""
    called: Callable[[str], str] = str
    """(field name) -> the field's name for the reader of a sentence: for people, its option or its label."""
    noted: Callable[[IbiError], None] = _drop
    progress: Progress = _drop
    """Called with how much is done, and with the total, if that is known."""

    def alone(self) -> Self:
        """Return a context for a job, which may outlive the resources of the request."""
        return self

    def check_match(self, present: Any) -> None:
        """Check that the version to be changed is the one of If-Match; call it under the lock of the change.

        `present`: the result of the GET operation on the same path, or its `version`. Raises Conflict.
        """
        check_version(self.if_match, present)


def check_version(if_match: str, present: Any) -> None:
    """Check that a header If-Match ("" for none) matches the present value; None: nothing has a version.

    Raises Conflict.
    """
    wanted = {tag.strip().removeprefix("W/") for tag in if_match.split(",")}
    if if_match and if_match.strip() != "*" and etag_of(present) not in wanted:
        raise Conflict("this has been changed meanwhile, so nothing was done")


@dataclass(frozen=True, slots=True)
class Document:
    """A result that is not JSON: its file name, its media type, and its bytes or an open file."""

    name: str
    kind: str
    content: bytes = b""
    file: BinaryIO | None = None


class FieldGroup(NamedTuple):
    """Fields under one heading of a form."""

    heading: str
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Operation(Generic[C, F]):
    """One operation. `route`: "PUT /peers/<word>"; `place`: the fields that are in the path, in order ("ibi file").

    `gives`: JSON Schema of the result, None for no result; `page`: the word of its page, "" for a page that
    is made from the fields; `command`: its command, "" for one of the same name; `refusals`: statuses besides
    those of every operation; `shown_once`: the member of the result that is a secret, which no repeated reply contains.
    """

    name: str
    summary: str
    scope: Scope
    fields: type[F]
    run: Callable[[C, F], dict[str, Any] | Document | None]
    route: str
    place: str = ""
    gives: Schema | None = None
    page: str = ""
    command: str = ""
    status: int = 200
    refusals: tuple[int, ...] = ()
    shown_once: str = ""
    groups: Sequence[FieldGroup] = ()
    """All fields of its form under headings; () for a short form without headings."""
    warning: str = ""
    """What cannot be undone; a page asks for a confirmation of it."""
    is_long: bool = False
    """Whether it may take minutes: then a server does it as a job, and answers with the job."""
    is_remote: bool = False
    """Whether it waits for another machine: then it does not hold the lock for which other changes wait."""
    headers: Callable[[dict[str, Any]], Sequence[tuple[str, str]]] = _no_headers
    """(result) -> headers of a good answer that depend on it, such as Location."""
    version: Callable[[C, Any], Any] | None = None
    """For GET: returns the value from which the ETag is made; None: it is made from the whole result."""
    takes: Schema | None = None
    """The schema of its body, if that has a name in the description."""
    bodies: Mapping[str, Schema] = field(default_factory=dict)
    """Media types of bodies with files -> schema; with FILE, the fields are words of the query."""

    @property
    def method(self) -> str:
        """The method of its route."""
        return self.route.partition(" ")[0]

    @property
    def pattern(self) -> str:
        """The pattern of its route."""
        return self.route.partition(" ")[2]

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return self.method not in _READING

    @property
    def in_query(self) -> bool:
        """Whether the fields are words of the query."""
        return self.method in {"GET", "DELETE"} or FILE in self.bodies


class OperationGroup(NamedTuple):
    """Operations that a page lists under one heading."""

    heading: str
    operations: Sequence[Operation[Any, Any]]


def etag_of(value: Any) -> str:
    """Return the ETag of a JSON value."""
    written = json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
    return f'"{sha256(written).hexdigest()[:32]}"'


class OperationRunner:
    """Runs the operations of one data directory: one at a time with If-Match, as jobs if they are long.

    `operations`: all operations. `checks`: for paths where no operation shows the present value: pattern ->
    `check(context, fields)`, which compares If-Match for operations at or below it, and raises Conflict.
    """

    def __init__(
        self,
        data: Path,
        operations: Iterable[Operation[Any, Any]],
        jobs: Jobs,
        checks: Mapping[str, Callable[[Any, Any], None]] | None = None,
    ) -> None:
        self._lock = data / "operations.lock"
        self._jobs = jobs
        self._checks = dict(checks or {})
        self._readers = {
            each.pattern: each for each in operations if each.method == "GET" and not _needs_body(each)
        }

    def reader_of(self, operation: Operation[C, Any]) -> Operation[C, Any] | None:
        """Return the operation that shows what another one changes: GET on its path, or the nearest above."""
        path = operation.pattern
        while path and path not in self._readers:
            path = path.rpartition("/")[0]
        return self._readers.get(path)

    def run(
        self, operation: Operation[C, F], context: C, fields: F
    ) -> dict[str, Any] | Document | Job | None:
        """Do an operation that changes something, if `if_match` matches; start a job if it is long.

        Raises Conflict, HoldingError if a job of this operation is running, and the errors of the operation.
        """
        if context.if_match.strip() in {"", "*"}:
            return self._do(operation, context, fields)
        # Two operations that depend on the same version must not both pass this check. Operations compare
        # once more under the lock of their own change, which keeps out all other changes in between.
        with locked_file(self._lock):
            self._check_match(operation, context, fields)
            if not operation.is_remote:
                return self._do(operation, context, fields)
        return self._do(operation, context, fields)

    def _check_match(self, operation: Operation[C, F], context: C, fields: F) -> None:
        """Compare If-Match with what the operation changes. Raises Conflict."""
        for pattern, check in self._checks.items():
            if f"{operation.pattern}/".startswith(f"{pattern}/"):
                check(context, fields)
                return
        reader = self.reader_of(operation)
        context.check_match(None if reader is None else _version(reader, context, fields))

    def _do(
        self, operation: Operation[C, F], context: C, fields: F
    ) -> dict[str, Any] | Document | Job | None:
        if not operation.is_long:
            return operation.run(context, fields)
        alone = context.alone()

        def run(progress: Progress) -> dict[str, Any]:
            notes: list[str] = []
            alone.progress, alone.noted = progress, lambda note: notes.append(alone.say(note))
            result = operation.run(alone, fields)
            assert isinstance(result, dict)  # noqa: S101 - no job makes a document
            return {**result, **({"notes": notes} if notes else {})}

        return self._jobs.start(operation.name, context.who, run)


def _version(reader: Operation[C, Any], context: C, fields: Fields) -> Any:
    """Return the value for the ETag of a reader; `fields`: of an operation on the same path, or below it."""
    place = {reader.place: getattr(fields, reader.place)} if reader.place else {}
    wanted = read(reader.fields, place)
    return reader.run(context, wanted) if reader.version is None else reader.version(context, wanted)


def routes(
    operations: Iterable[Operation[C, Any]],
    context_of: Callable[[Call], C],
    runner: OperationRunner,
    transports: Mapping[str, Act] | None = None,
) -> tuple[Route, ...]:
    """Return the routes of operations. `context_of` makes the context of a call.

    `transports`: name -> function that answers an operation whose body may be a file, or that waits.
    """
    acts = transports or {}
    return tuple(_route(each, acts.get(each.name) or _act(each, context_of, runner)) for each in operations)


def _act(operation: Operation[C, Any], context_of: Callable[[Call], C], runner: OperationRunner) -> Act:
    def act(call: Call, value: Any) -> Response:
        fields = fields_of(operation, call, value)
        context, notes = context_of(call), list[str]()
        context.noted = lambda note: notes.append(context.say(note))
        if not operation.changes:
            result = operation.run(context, fields)
            if isinstance(result, Document):
                return document_response(result)
            version = result if operation.version is None else operation.version(context, fields)
            following = [link(result["next"], "next")] if result and "next" in result else []
            return _answer(operation, result, notes, ("etag", etag_of(version)), *following)
        context.if_match = call.request.header(b"if-match")
        done = runner.run(operation, context, fields)
        if isinstance(done, Job):
            return answer(job_facts(done, context.say), 202, ("location", f"{ROOT}/jobs/{done.id}"))
        return _answer(operation, done, notes)

    # Errors of the setup are not explained to clients that may only read: they name things of the machine.
    return in_thread(act) if operation.scope is Scope.READ else explained(act)


def body_of(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the fields that are not in the path."""
    takes, places = schema_of(operation.fields), operation.place.split()
    members = {name: each for name, each in takes["properties"].items() if name not in places}
    return {
        **takes,
        "properties": members,
        "required": [name for name in takes["required"] if name in members],
    }


def _route(operation: Operation[C, Any], act: Act) -> Route:
    in_query, body = operation.in_query, body_of(operation)
    members = body["properties"]
    return Route(
        operation.method,
        operation.pattern,
        operation.scope,
        act,
        operation.summary,
        takes=(operation.takes or body) if members and not in_query else None,
        gives=JOB if operation.is_long else operation.gives,
        status=_status(operation),
        refusals=(*(_REFUSALS if operation.changes else (422,)), *operation.refusals),
        query=members if in_query else {},
        headers=CHANGING if operation.changes else {},
        other_bodies=operation.bodies,
        shown_once=operation.shown_once,
    )


def _status(operation: Operation[C, Any]) -> int:
    if operation.is_long:
        return 202
    return operation.status if operation.gives is not None or not operation.changes else 204


def fields_of(operation: Operation[C, F], call: Call, value: Any) -> F:
    """Read the fields of a request from its path, its query or its body `value`. Raises BadField, Refusal."""
    at = dict(zip(operation.place.split(), map(_at_place, call.values.items()), strict=True))
    members = call.query if operation.in_query else value if isinstance(value, dict) else {}
    refuse_local(operation.fields, members)
    if operation.in_query:
        return read_texts(operation.fields, {name: [text] for name, text in {**members, **at}.items()})
    twice = next((name for name in at if name in members), None)
    if twice is not None:
        raise BadField("there is no field {name}", name=twice)
    # An operation without required fields in the body may come without a body.
    if not isinstance(value, dict) and (value is not None or _needs_body(operation)):
        return read(operation.fields, value)
    return read(operation.fields, {**members, **at})


def _at_place(place: tuple[str, str]) -> str:
    """Return the text at a place of the path; a file name stays percent-encoded. Raises Refusal (400)."""
    kind, text = place
    try:
        return text if kind == "file" else unescape(text).encode("latin-1").decode()
    except UnicodeDecodeError:
        raise Refusal(400, IbiError("the path is not UTF-8")) from None


def _needs_body(operation: Operation[C, Any]) -> bool:
    places = operation.place.split()
    return any(each.required and each.name not in places for each in described(operation.fields))


def document_response(document: Document) -> Response:
    """Return a document as a file to be saved."""
    name = ("content-disposition", f'attachment; filename="{document.name}"')
    size = 0 if document.file is None else os.fstat(document.file.fileno()).st_size
    return Response(200, document.content, document.kind, (name, *NO_STORE), file=document.file, size=size)


def _answer(
    operation: Operation[Any, Any], result: Any, notes: Sequence[str], *headers: tuple[str, str]
) -> Response:
    if result is None:
        return Response(204)
    if isinstance(result, Document):
        return document_response(result)
    value = {**result, **({"notes": notes} if notes else {})}
    return answer(value, operation.status, *headers, *operation.headers(result))
