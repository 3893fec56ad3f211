"""Operations: each act of a service, defined once.

    LEAVE = Operation(
        "leave", "take part at a resolver no more", Scope.ADMIN, LeaveFields, leave, "DELETE /membership"
    )

`leave(context, fields)` does it, and returns what programs are given as JSON, or None. From this definition come the
route with its description (here), the command (`cli.operations`) and the page (`operation_pages`). A list that comes in
pieces has a member `next`, the path of the next piece, which the header Link has, too.

Every route takes the headers Idempotency-Key and If-Match, where its operation changes something: see `idempotency` and
`OperationContext.check_match`.
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
        check_version(self.if_match, present)


def check_version(if_match: str, present: Any) -> None:
    """Check that a header If-Match, "" for none, fits what is there now: None for nothing that has a version.

    Raises Conflict.
    """
    wanted = {tag.strip().removeprefix("W/") for tag in if_match.split(",")}
    if if_match and if_match.strip() != "*" and etag_of(present) not in wanted:
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
    """One act. `route`: "PUT /peers/<word>"; `place`: the fields that stand in the path, in their order ("ibi file").

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
    takes: Schema | None = None
    """The schema of its body, where that has a name in the description."""
    bodies: Mapping[str, Schema] = field(default_factory=dict)
    """Kinds of body that bring files, by media type; with FILE, its fields are words of the query."""

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
        """Whether its fields are words of the query."""
        return self.method in {"GET", "DELETE"} or FILE in self.bodies


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

    `operations`: all of them. `checks`: what compares If-Match with what no operation shows, by the pattern of its
    path, for every operation there or below: `check(context, fields)` raises Conflict.
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
        # Two that depend on the same version must not both find it. What else could come in between is kept out by the
        # operations themselves, which compare once more under the lock of what they change.
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
    """What the ETag of a reader is made of, for the fields of an operation on the same path, or below it."""
    place = {reader.place: getattr(fields, reader.place)} if reader.place else {}
    wanted = read(reader.fields, place)
    return reader.run(context, wanted) if reader.version is None else reader.version(context, wanted)


def routes(
    operations: Iterable[Operation[C, Any]],
    context_of: Callable[[Call], C],
    runner: OperationRunner,
    transports: Mapping[str, Act] | None = None,
) -> tuple[Route, ...]:
    """The routes of operations. `context_of`: how a call does them.

    `transports`: what answers those whose bodies may be files, or that wait for something else, by their names.
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

    # One who may only read learns nothing of the machine.
    return in_thread(act) if operation.scope is Scope.READ else explained(act)


def body_of(operation: Operation[Any, Any]) -> dict[str, Any]:
    """The JSON Schema of the fields that do not stand in the path."""
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
    """The fields of a request: from its path, its query or its body, `value`. Raises BadField, Refusal."""
    at = dict(zip(operation.place.split(), map(_at_place, call.values.items()), strict=True))
    members = call.query if operation.in_query else value if isinstance(value, dict) else {}
    refuse_local(operation.fields, members)
    if operation.in_query:
        return read_texts(operation.fields, {name: [text] for name, text in {**members, **at}.items()})
    twice = next((name for name in at if name in members), None)
    if twice is not None:
        raise BadField("there is no field {name}", name=twice)
    # An operation that takes nothing may come without a body.
    if not isinstance(value, dict) and (value is not None or _needs_body(operation)):
        return read(operation.fields, value)
    return read(operation.fields, {**members, **at})


def _at_place(place: tuple[str, str]) -> str:
    """What stands at a place of the path; the name of a file stays percent-encoded. Raises Refusal (400)."""
    kind, text = place
    try:
        return text if kind == "file" else unescape(text).encode("latin-1").decode()
    except UnicodeDecodeError:
        raise Refusal(400, IbiError("the path is not UTF-8")) from None


def _needs_body(operation: Operation[C, Any]) -> bool:
    places = operation.place.split()
    return any(each.required and each.name not in places for each in described(operation.fields))


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
