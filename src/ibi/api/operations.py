"""Operations: each act of a service, defined once.

    LEAVE = Operation(
        "leave", "take part at a resolver no more", Scope.ADMIN, LeaveFields, leave, "DELETE /membership"
    )

`leave(context, fields)` does it, and returns what programs are given as JSON, or None. From this definition come the
route with its description (here), the command (`cli.operations`) and the page (`operation_pages`).

Every route takes the headers Idempotency-Key and If-Match, where its operation changes something: see `idempotency` and
`OperationContext.check_match`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Generic, NamedTuple, Self, TypeVar

from ibi.accounts.tokens import Scope
from ibi.api.fields import F, described, read, read_texts, refuse_local, schema_of
from ibi.api.jobs import JOB, Job, job_facts
from ibi.api.routes import ROOT, TEXT, Route, answer, explained, in_thread
from ibi.errors import BadField, Conflict, IbiError
from ibi.http.response import NO_STORE, Refusal, Response
from ibi.protocol.query_string import unescape
from ibi.runtime.durable_files import locked_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ibi.api.fields import Fields
    from ibi.api.jobs import Jobs, Progress
    from ibi.api.routes import Call, Schema

C = TypeVar("C", bound="OperationContext")

_READING: Final = frozenset({"GET", "HEAD"})
_REFUSALS: Final = (404, 409, 412, 422, 507)


def _drop(*_: object) -> None:
    """Take no notice."""


def _no_headers(_result: dict[str, Any]) -> Sequence[tuple[str, str]]:
    return ()


@dataclass(slots=True, kw_only=True)
class OperationContext:
    """Who does an operation, and how; each service adds what its operations work on.

    `who`: the author in histories; `say` writes a sentence in their language; `if_match`: the ETag that the operation
    depends on, "" for none. `noted` is told what should be known beside the result, as soon as it is found.
    """

    who: str
    say: Callable[[IbiError | str], str]
    if_match: str = ""
    called: Callable[[str], str] = str
    """What the reader of a sentence calls a field: programs by its name, people by its option or its label."""
    noted: Callable[[IbiError], None] = _drop
    progress: Progress = _drop
    """Told how much is done, of how much if that is known."""

    def alone(self) -> Self:
        """The same for a job, which may outlive what the server has open."""
        return self

    def check_match(self, present: Any) -> None:
        """Check that what is about to change is still as it was seen; to be called under the lock of the change.

        `present`: what the operation with GET on the same path returns, or its `version`. Raises Conflict.
        """
        wanted = {tag.strip().removeprefix("W/") for tag in self.if_match.split(",")}
        if self.if_match and self.if_match.strip() != "*" and etag_of(present) not in wanted:
            raise Conflict("this has been changed meanwhile; look at it again")


@dataclass(frozen=True, slots=True)
class Document:
    """A result that is no JSON: what to call it as a file, its media type, and its bytes or an open file."""

    name: str
    kind: str
    content: bytes = b""
    file: BinaryIO | None = None


class FieldGroup(NamedTuple):
    """Fields that a form has under one heading."""

    heading: str
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Operation(Generic[C, F]):
    """One act. `route`: "PUT /peers/<word>"; `place`: the field that stands in the path.

    `gives`: JSON Schema of what `run` returns, None for nothing; `page`: the word of the page on which it is done, ""
    for one that is made of the fields; `command`: that which does it, "" for one of its name; `refusals`: statuses
    besides those of every operation. `shown_once`: the result holds a secret, which no reply repeats.
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
    shown_once: bool = False
    groups: Sequence[FieldGroup] = ()
    """All fields that its form has, where they are too many to stand under no heading."""
    warning: str = ""
    """What cannot be undone, which a page has confirmed."""
    is_long: bool = False
    """Whether it may take minutes: a server does it as a job, and answers how far that is."""
    is_remote: bool = False
    """Whether it waits for another machine: then no other change waits for it."""
    headers: Callable[[dict[str, Any]], Sequence[tuple[str, str]]] = _no_headers
    """Makes the headers of a good answer that depend on its result, such as Location."""
    version: Callable[[C, Any], Any] | None = None
    """Of one with GET: what its ETag is made of; None for its whole result."""

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


class OperationGroup(NamedTuple):
    """Operations that a page lists under one heading."""

    heading: str
    operations: Sequence[Operation[Any, Any]]


def etag_of(value: Any) -> str:
    """The ETag of a JSON value."""
    written = json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
    return f'"{sha256(written).hexdigest()[:32]}"'


class OperationRunner:
    """Runs the operations of one data directory: in turn where they depend on a version, as jobs where they take long.

    `operations`: all of them.
    """

    def __init__(self, data: Path, operations: Iterable[Operation[Any, Any]], jobs: Jobs) -> None:
        self._lock = data / "operations.lock"
        self._jobs = jobs
        self._readers = {
            each.pattern: each for each in operations if each.method == "GET" and not _needs_body(each)
        }

    def reader_of(self, operation: Operation[C, Any]) -> Operation[C, Any] | None:
        """The operation that shows what another one changes: with GET on its path, or the nearest above."""
        path = operation.pattern
        while path and path not in self._readers:
            path = path.rpartition("/")[0]
        return self._readers.get(path)

    def run(
        self, operation: Operation[C, F], context: C, fields: F
    ) -> dict[str, Any] | Document | Job | None:
        """Do what changes something, if all is still as `if_match` says; what takes long becomes a job.

        Raises Conflict, HoldingError where such a job is under way, and what the operation raises.
        """
        if context.if_match.strip() in {"", "*"}:
            return self._do(operation, context, fields)
        reader = self.reader_of(operation)
        if reader is None:
            context.check_match(None)
            return self._do(operation, context, fields)
        # Two that depend on the same version must not both find it. What else could come in between is kept out by the
        # operations themselves, which compare once more under the lock of what they change.
        with locked_file(self._lock):
            context.check_match(_version(reader, context, fields))
            if not operation.is_remote:
                return self._do(operation, context, fields)
        return self._do(operation, context, fields)

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
    """What the ETag of a reader is made of, for the fields of an operation on the same path, or below it."""
    place = {reader.place: getattr(fields, reader.place)} if reader.place else {}
    wanted = read(reader.fields, place)
    return reader.run(context, wanted) if reader.version is None else reader.version(context, wanted)


def routes(
    operations: Iterable[Operation[C, Any]], context_of: Callable[[Call], C], runner: OperationRunner
) -> tuple[Route, ...]:
    """The routes of operations. `context_of`: how a call does them."""
    return tuple(_route(each, context_of, runner) for each in operations)


def _route(operation: Operation[C, Any], context_of: Callable[[Call], C], runner: OperationRunner) -> Route:
    method, pattern = operation.method, operation.pattern
    takes = schema_of(operation.fields)
    in_query = method in {"GET", "DELETE"}
    members = {name: each for name, each in takes["properties"].items() if name != operation.place}
    required = [name for name in takes["required"] if name != operation.place]
    body = {**takes, "properties": members, "required": required}

    def act(call: Call, value: Any) -> Response:
        fields = _fields(operation, call, value, in_query=in_query)
        context, notes = context_of(call), list[str]()
        context.noted = lambda note: notes.append(context.say(note))
        if not operation.changes:
            result = operation.run(context, fields)
            if isinstance(result, Document):
                return document_response(result)
            version = result if operation.version is None else operation.version(context, fields)
            return _answer(operation, result, notes, ("etag", etag_of(version)))
        context.if_match = call.request.header(b"if-match")
        done = runner.run(operation, context, fields)
        if isinstance(done, Job):
            return answer(job_facts(done, context.say), 202, ("location", f"{ROOT}/jobs/{done.id}"))
        return _answer(operation, done, notes)

    return Route(
        method,
        pattern,
        operation.scope,
        # One who may only read learns nothing of the machine.
        in_thread(act) if operation.scope is Scope.READ else explained(act),
        operation.summary,
        takes=body if members and not in_query else None,
        gives=JOB if operation.is_long else operation.gives,
        status=_status(operation),
        refusals=(*(_REFUSALS if operation.changes else (422,)), *operation.refusals),
        query=members if in_query else {},
        headers={"if-match": TEXT, "idempotency-key": TEXT} if operation.changes else {},
        shown_once=operation.shown_once,
    )


def _status(operation: Operation[C, Any]) -> int:
    if operation.is_long:
        return 202
    return operation.status if operation.gives is not None or not operation.changes else 204


def _fields(operation: Operation[C, F], call: Call, value: Any, *, in_query: bool) -> F:
    """The fields of a request: from its path, its query or its body. Raises BadField, Refusal."""
    at = {operation.place: _at_place(call)} if operation.place else {}
    given = call.query if in_query else value if isinstance(value, dict) else {}
    refuse_local(operation.fields, given)
    if in_query:
        texts: Mapping[str, list[str]] = {name: [text] for name, text in {**call.query, **at}.items()}
        return read_texts(operation.fields, texts)
    if operation.place in given:
        raise BadField("there is no field {name}", name=operation.place)
    # An operation that takes nothing may come without a body.
    members = {} if value is None and not _needs_body(operation) else value
    return read(operation.fields, {**members, **at} if isinstance(members, dict) else members)


def _at_place(call: Call) -> str:
    """What stands at the place of the path. Raises Refusal (400)."""
    try:
        return unescape(next(iter(call.values.values()))).encode("latin-1").decode()
    except UnicodeDecodeError:
        raise Refusal(400, IbiError("the path is not UTF-8")) from None


def _needs_body(operation: Operation[C, Any]) -> bool:
    return any(each.required and each.name != operation.place for each in described(operation.fields))


def document_response(document: Document) -> Response:
    """A document as a file to be saved."""
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
