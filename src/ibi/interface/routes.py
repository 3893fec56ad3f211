"""The table of the JSON interface: what can be asked, who may ask, and which function answers.

A room adds what it offers as a table of its own; whoever puts the service together gives all tables to `Api`:

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

`MEMBER` is a JSON Schema, as a dict; `ref("item")` is one that the description has by name. A function that reads its
body itself, or waits for something else, is a coroutine `async def act(call: Call) -> Response` without `in_thread`.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ibi.errors import IbiError, ParseError, SetupError
from ibi.exchange import JSON, NO_STORE, Response
from ibi.identifier.forms import parse_name
from ibi.interface.refusal import Refusal
from ibi.interface.threads import in_one_of
from ibi.protocol.language import LanguagePreference
from ibi.protocol.query_string import read_query, unescape
from ibi.texts import LANGUAGES, say
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ibi.exchange import Asked
    from ibi.identifier.forms import Name
    from ibi.interface.bodies import Body
    from ibi.tokens import Token

    Act = Callable[["Call"], Awaitable[Response]]
    Schema = Mapping[str, Any]

ROOT: Final = "/-/api"
"""What every pattern lies below."""

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Threads of our own, so that nobody here keeps a reader of a file waiting. Whoever changes something may wait long for
# a label or a lock; so he has others than those who read, or bring a piece of an upload.
_READING: Final = ThreadPoolExecutor(16, "api-read")
_CHANGING: Final = ThreadPoolExecutor(16, "api-change")

# What may stand at a place of a pattern, still percent-encoded. An IBI is known by its shape, so that a folder of an
# item may be called "files": sub.host/words/year/date, or two words, or one with its slashes encoded.
_PLACES: Final = {
    "ibi": r"[^/]+/[^/]+/[0-9]{4,}/[^/]+|[^/]+/[^/]+|[^/]+",
    "file": r".+",
    "word": r"[^/]+",
}
_PLACE = re.compile(r"<([a-z]+)>")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a route. `values`: what stands at the places of its pattern, percent-encoded as it came."""

    asked: Asked
    body: Body
    token: Token | None
    values: Mapping[str, str]

    @property
    def who(self) -> str:
        """Who asks, as the history writes it: the name of the token."""
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
        """The words of the query, decoded. Raises Refusal (400), also for a word that stands twice."""
        try:
            pairs = list(read_query(self.asked.query)) if self.asked.query else []
        except ParseError as error:
            raise Refusal(400, error) from None
        try:
            words = {name: value.encode("latin-1").decode() for name, value in pairs}
        except UnicodeDecodeError:
            raise Refusal(400, IbiError("the query is not UTF-8")) from None
        if len(words) < len(pairs):
            raise Refusal(400, IbiError("a word of the query stands twice"))
        return words

    @property
    def word(self) -> str:
        """The text at the place <word>, decoded; one character for each byte."""
        return unescape(self.values["word"])

    def may(self, scope: Scope) -> bool:
        """Whether the token, if there is one, has this scope."""
        return self.token is not None and self.token.may(scope)

    def say(self, error: IbiError | str) -> str:
        """A sentence in the language of whoever asks."""
        return say(error, language_of(self.asked))


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the table. `scope`: what a token must have; None: no token is needed.

    `pattern` below `/-/api`, with the places <ibi>, <file> (may hold slashes) and <word>. `act` answers; the rest
    describes it to readers of `/-/api/openapi.json`: schemas of the body taken and given, words of the query with
    their schemas, further headers of a request, the status of success, and those of refusals besides the usual ones.
    """

    method: str
    pattern: str
    scope: Scope | None
    act: Act
    summary: str
    takes: Schema | None = None
    """JSON Schema of the body; None: no JSON is read."""
    gives: Schema | None = None
    """JSON Schema of a good answer; None: it has no JSON."""
    status: int = 200
    refusals: tuple[int, ...] = ()
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    other_bodies: Mapping[str, Schema] = field(default_factory=dict)
    """Further kinds of body that are taken, by media type."""
    says: Mapping[int, Schema] = field(default_factory=dict)
    """JSON Schemas of answers that are neither good nor a problem, by status."""

    @property
    def plain(self) -> int:
        """How many characters of the pattern are no place: the more, the nearer it is to a path that it matches."""
        return len(_PLACE.sub("", self.pattern))

    @property
    def matcher(self) -> re.Pattern[str]:
        """What finds the path of this route and the values at its places."""
        parts = _PLACE.split(self.pattern)
        places = [
            f"(?P<{part}>{_PLACES[part]})" if number % 2 else re.escape(part)
            for number, part in enumerate(parts)
        ]
        return re.compile("".join(places))


async def aside(function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """What a function gives that reads, or brings a piece of an upload to the disk; it runs in another thread.

    Whoever is cancelled waits for it nevertheless: what it changes must not be cleared away under it.
    """
    return await in_one_of(_READING, partial(function, *args, **named))


async def in_turn(function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """The same for what may wait for a lock or a label, as all does that changes items: readers do not wait for it."""
    return await in_one_of(_CHANGING, partial(function, *args, **named))


def language_of(asked: Asked) -> str:
    """Which of our languages whoever asks likes best."""
    return LanguagePreference.parse(asked.header(b"accept-language")).choose(LANGUAGES) or LANGUAGES[0]


def in_thread(act: Callable[[Call, Any], Response]) -> Act:
    """A coroutine that reads the JSON body (None if there is none) and lets a function answer in a thread."""

    async def answering(call: Call) -> Response:
        if call.asked.reads:
            return await aside(act, call, None)
        return await in_turn(act, call, await call.body.json())

    return answering


def deciding(act: Callable[[Call, Any], Response]) -> Act:
    """The same as `in_thread`, for what administrators decide: of a setting that cannot be, they are told why (422).

    Where the disk or a database is behind it, nobody is told more than that it is so: all of it is in the log.
    """

    def telling(call: Call, value: Any) -> Response:
        try:
            return act(call, value)
        except SetupError as error:
            if _is_trouble(error):
                raise
            raise Refusal(422, error) from None

    return in_thread(telling)


def _is_trouble(error: BaseException | None) -> bool:
    """Whether it is no fault of what was asked."""
    while error is not None:
        of_database = getattr(error, "sqlite_errorname", "")
        if isinstance(error, OSError) or (of_database and not of_database.startswith("SQLITE_CONSTRAINT")):
            return True
        error = error.__cause__ or error.__context__
    return False


def answer(value: Any, status: int = 200, *headers: tuple[str, str]) -> Response:
    """A JSON answer that nobody keeps."""
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return Response(status, body, JSON, (*headers, *NO_STORE))


def ref(name: str) -> Schema:
    """The schema of this name in the description."""
    return {"$ref": f"#/components/schemas/{name}"}
