"""Routes of the JSON interface: a method, a path, the scope that is needed, and the function that answers.

Each package returns a table of its routes, and the service passes all tables to `Api`:

    def routes(members: Members) -> tuple[Route, ...]:
        def add(call: Call, value: Any) -> Response:            # runs in a thread: it may wait for the database
            member = members.add(call.values["word"], value)    # IbiErrors become problems with the right status
            return answer(member.facts(), 201, ("location", f"/-/api/members/{member.name}"))

        return (
            Route(
                "PUT", "/members/<word>", Scope.ADMIN, in_thread(add), "add a member",
                takes=MEMBER, gives=MEMBER, status=201, refusals=(409, 422),
            ),
        )

`MEMBER` is a JSON Schema, made by `record`; `ref("item")` refers to a named schema of the description. A
function that reads its body itself, or waits for something else, is a coroutine `async def act(call: Call) ->
Response` without `in_thread`.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ibi.api.idempotency import request_digest
from ibi.errors import IbiError, ParseError, SetupError
from ibi.http.response import JSON, NO_STORE, Refusal, Response
from ibi.identifier.forms import parse_name
from ibi.protocol.query_string import read_query, unescape
from ibi.runtime.i18n import preferred_language, say
from ibi.runtime.tasks import run_to_completion

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from ibi.accounts.tokens import Scope, Token
    from ibi.api.bodies import Body
    from ibi.api.idempotency import Replies
    from ibi.http.request import Request
    from ibi.identifier.forms import Name

    Act = Callable[["Call"], Awaitable[Response]]
    Schema = Mapping[str, Any]

ROOT: Final = "/-/api"
"""The path above all patterns."""

# The JSON Schemas from which most others are made.
TEXT: Final = {"type": "string"}
TRUTH: Final = {"type": "boolean"}
COUNT: Final = {"type": "integer", "minimum": 0}
MOMENT: Final = {"type": "string", "format": "date-time"}
BINARY: Final = {"type": "string", "format": "binary"}

ONCE: Final = {"idempotency-key": TEXT}
"""The header of a request that is done once for each key: see `once`."""
CHANGING: Final = {"if-match": TEXT, **ONCE}
"""The headers of every act that changes something."""

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Separate threads, so that no API request delays a reader of a file. Functions that change something may wait
# long for a label or a lock, so functions that do not wait for others have threads of their own.
_QUICK: Final = ThreadPoolExecutor(16, "api-quick")
_WAITING: Final = ThreadPoolExecutor(16, "api-wait")

# What a place of a pattern matches, still percent-encoded. An IBI is recognized by its shape, so that a
# folder of an item may be called "files": sub.host/words/year/date, two words, or one with encoded slashes.
_PLACES: Final = {"ibi": r"[^/]+/[^/]+/[0-9]{4,}/[^/]+|[^/]+/[^/]+|[^/]+", "file": r".+", "word": r"[^/]+"}
_PLACE = re.compile(r"<([a-z]+)>")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a route. `values`: the texts at the places of its pattern, still percent-encoded.

    `replies`: the stored replies to requests with an Idempotency-Key; `shown_once`: as in Route.
    """

    request: Request
    body: Body
    token: Token | None
    values: Mapping[str, str]
    replies: Replies | None = None
    shown_once: str = ""

    @property
    def token_name(self) -> str:
        """The name of the token, which histories record as the author of a change."""
        return self.token.name if self.token else ""

    @property
    def name(self) -> Name:
        """The name at the place <ibi>. Raises Refusal (400)."""
        try:
            return parse_name(unescape(self.values["ibi"]))
        except ParseError as error:
            raise Refusal(400, error) from None

    @property
    def query(self) -> dict[str, str]:
        """The words of the query, decoded. Raises Refusal (400), also for a repeated word."""
        try:
            pairs = list(read_query(self.request.query)) if self.request.query else []
            words = {name: value.encode("latin-1").decode() for name, value in pairs}
        except ParseError as error:
            raise Refusal(400, error) from None
        except UnicodeDecodeError:
            raise Refusal(400, IbiError("the query is not UTF-8")) from None
        # A proxy might use one of two values, and this service the other.
        if len(words) < len(pairs):
            raise Refusal(400, IbiError("a word of the query stands twice"))
        return words

    @property
    def word(self) -> str:
        """The decoded text at the place <word>; one character for each byte."""
        return unescape(self.values["word"])

    def may(self, scope: Scope) -> bool:
        """Return whether the request has a token with this scope."""
        return self.token is not None and self.token.may(scope)

    def say(self, error: IbiError | str) -> str:
        """Translate a sentence into the client's language."""
        return say_to(self.request, error)


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `scope`: the scope that a token must have; None: no token is needed.

    `pattern`: a path below `/-/api`, with the places <ibi>, <file> (may have slashes) and <word>. `act`
    answers. The other fields describe the route in `/-/api/openapi.json`: schemas of body and answer, words
    of the query and headers with their schemas, the status of success, and further statuses of refusals.
    """

    method: str
    pattern: str
    scope: Scope | None
    act: Act
    summary: str
    takes: Schema | None = None
    """JSON Schema of the request body; None: no JSON is read."""
    gives: Schema | None = None
    """JSON Schema of a good answer; None: it is not JSON."""
    status: int = 200
    refusals: tuple[int, ...] = ()
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    other_bodies: Mapping[str, Schema] = field(default_factory=dict)
    """Media type of another accepted body -> schema."""
    shown_once: str = ""
    """The member of a good answer that is a secret, which a repeated request does not get again."""
    says: Mapping[int, Schema] = field(default_factory=dict)
    """Status of an answer that is neither good nor a problem -> JSON Schema."""

    @property
    def plain(self) -> int:
        """How many characters of the pattern are fixed; of two matching patterns, the one with more wins."""
        return len(_PLACE.sub("", self.pattern))

    @property
    def matcher(self) -> re.Pattern[str]:
        """The expression for the path of this route, with a group for each place."""
        parts = _PLACE.split(self.pattern)
        places = [
            f"(?P<{part}>{_PLACES[part]})" if number % 2 else re.escape(part)
            for number, part in enumerate(parts)
        ]
        return re.compile("".join(places))


async def in_quick_thread(function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """Run a function that waits for no other writer, in a thread: it reads, or begins or continues an upload.

    A cancelled caller still waits for it, because the files that it uses must not be deleted meanwhile.
    """
    return await run_to_completion(partial(function, *args, **named), threads=_QUICK)


async def in_waiting_thread(function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """Run a function that may wait long for a lock or a label, in other threads than those of quick ones."""
    return await run_to_completion(partial(function, *args, **named), threads=_WAITING)


def language_of(request: Request) -> str:
    """Return the member of LANGUAGES that the client prefers."""
    return preferred_language(request.header(b"accept-language"))


def say_to(request: Request, error: IbiError | str) -> str:
    """Translate a sentence into the client's language."""
    return say(error, language_of(request))


def in_thread(act: Callable[[Call, Any], Response]) -> Act:
    """Make an `act` of a function that gets the JSON body (None if there is none) and answers in a thread.

    A request that changes something and has an Idempotency-Key is done once.
    """

    async def answering(call: Call) -> Response:
        if call.request.reads:
            return await in_quick_thread(act, call, None)
        return await in_waiting_thread(_once, act, call, await call.body.json())

    return answering


def _once(act: Callable[[Call, Any], Response], call: Call, value: Any) -> Response:
    """Act on a request, or repeat the stored reply if it repeats one with the same Idempotency-Key."""
    return once(call, value, lambda: act(call, value))


def once(call: Call, content: Any, do: Callable[[], Response]) -> Response:
    """Do something once for the Idempotency-Key of a call, if it has one.

    `content` distinguishes two requests to the same target. Raises Refusal, and the errors of `do`.
    """
    key = call.request.header(b"idempotency-key")
    if not key or call.replies is None:
        return do()
    request = request_digest(call.request.method, call.request.target, content)
    with call.replies.reply_to(call.token_name, key, request) as reply:
        if reply.known is None:
            given, secret = do(), call.shown_once
            reply.give(given, is_secret=bool(secret) and secret in json.loads(given.body))
        return reply.response


def explained(act: Callable[[Call, Any], Response]) -> Act:
    """Do the same as `in_thread`, and explain to administrators why a setting is invalid (SetupError, 422).

    A failure of the disk or of a database is not explained to the client; the log has its details.
    """

    def explaining(call: Call, value: Any) -> Response:
        with explaining_setup():
            return act(call, value)

    return in_thread(explaining)


@contextmanager
def explaining_setup() -> Iterator[None]:
    """Turn a SetupError into a refusal (422) with its reason, unless the disk or a database has failed."""
    try:
        yield
    except SetupError as error:
        if _is_fault_of_the_server(error):
            raise
        raise Refusal(422, error) from None


def _is_fault_of_the_server(error: BaseException | None) -> bool:
    """Return whether an error comes from the disk or the database, and not from the request."""
    while error is not None:
        of_sqlite = getattr(error, "sqlite_errorname", "")
        if isinstance(error, OSError) or (of_sqlite and not of_sqlite.startswith("SQLITE_CONSTRAINT")):
            return True
        # An error of PostgreSQL; one without a code could not reach it. Class 23: a constraint.
        if hasattr(error, "sqlstate") and not str(error.sqlstate).startswith("23"):
            return True
        error = error.__cause__ or error.__context__
    return False


def answer(value: Any, status: int = 200, *headers: tuple[str, str]) -> Response:
    """Return a JSON answer that must not be cached."""
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return Response(status, body, JSON, (*headers, *NO_STORE))


def record(*optional: str, **members: Schema) -> dict[str, Any]:
    """Return the schema of an object with these members; those that are not `optional` are required."""
    required = [name for name in members if name not in optional]
    return {"type": "object", "required": required, "properties": members}


def list_of(items: Schema, **limits: int) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **limits}


def ref(name: str) -> Schema:
    """Return a reference to the schema of this name in the description."""
    return {"$ref": f"#/components/schemas/{name}"}
