"""Items over HTTP: deposit, edition and removal by those who have a token for it.

POST   /-/api/items                            a new original: JSON, or a form with JSON and files
PATCH  /-/api/items/<ibi>                      facts, as in JSON lines; null takes one away
PUT    /-/api/items/<ibi>/files/<name>         a file, new or in the place of another
DELETE /-/api/items/<ibi>/files/<name>
DELETE /-/api/items/<ibi>?reason=…             for ever; its name, date and reason stay
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.api.deposits import Depositing
from ibi.archive.api.intake import listed, offered, read_file, read_form, taking_in
from ibi.archive.api.items import held, timestamp_of, told
from ibi.archive.editing import edit, remove
from ibi.errors import BadItem, Conflict, IbiError, NotHeld
from ibi.interface.bodies import json_object, read_json
from ibi.interface.refusal import Refusal
from ibi.interface.routes import Route, aside, in_thread, in_turn, ref
from ibi.tokens import Scope

if TYPE_CHECKING:
    from ibi.archive.api.intake import Files
    from ibi.archive.api.upload_store import Uploads
    from ibi.archive.holding import Holding
    from ibi.archive.keeper import Keeper
    from ibi.exchange import Response
    from ibi.interface.routes import Call

LONGEST_REASON: Final = 4000
"""Characters of the reason of a removal."""

_FORM: Final = "multipart/form-data"
_ANY: Final = "*"
_DAY: Final = len("2026-11-21")
_BINARY: Final = {"type": "string", "format": "binary"}
_IF_MATCH: Final = {"if-match": {"type": "string"}}


def routes(keeper: Keeper, uploads: Uploads) -> tuple[Route, ...]:
    """The table of what is changed."""
    changing = _Changing(keeper, uploads)
    refused = (404, 409, 410, 412, 422, 428)
    form = {
        "type": "object",
        "properties": {"item": ref("deposit"), "file": {"type": "array", "items": _BINARY}},
        "required": ["item"],
    }
    reason = {"type": "string", "maxLength": LONGEST_REASON}
    return (
        Route(
            "POST", "/items", Scope.DEPOSIT, changing.deposit, "deposit an item", takes=ref("deposit"),
            gives=ref("item"), status=201, refusals=(200, 404, 409, 410, 413, 415, 422, 507),
            headers={"idempotency-key": {"type": "string"}}, other_bodies={_FORM: form},
        ),
        Route(
            "PATCH", "/items/<ibi>", Scope.EDIT, in_thread(changing.edit), "edit the facts of an item",
            takes=ref("edit"), gives=ref("item"), refusals=(*refused, 413, 415, 507), headers=_IF_MATCH,
        ),
        Route(
            "PUT", "/items/<ibi>/files/<file>", Scope.EDIT, changing.put, "put a file into an item",
            gives=ref("item"), refusals=(201, *refused, 403, 411, 413, 415, 507), headers=_IF_MATCH,
            query={"upload": {"type": "string"}}, other_bodies={"application/octet-stream": _BINARY},
        ),
        Route(
            "DELETE", "/items/<ibi>/files/<file>", Scope.EDIT, in_thread(changing.take_out),
            "take a file out of an item", gives=ref("item"), refusals=(*refused, 507), headers=_IF_MATCH,
        ),
        Route(
            "DELETE", "/items/<ibi>", Scope.DELETE, in_thread(changing.remove), "remove an item for ever",
            gives=ref("item"), refusals=(404, 409, 410, 412, 422, 507), headers=_IF_MATCH, query={"reason": reason},
        ),
    )  # fmt: skip


class _Changing:
    """The functions of the table."""

    def __init__(self, keeper: Keeper, uploads: Uploads) -> None:
        self._keeper = keeper
        self._catalogue = keeper.catalogue
        self._uploads = uploads
        self._depositing = Depositing(keeper, uploads)

    async def deposit(self, call: Call) -> Response:
        """A new item, or the one that came before under the same key."""
        if call.body.kind != _FORM:
            value = json_object(await call.body.json())
            async with taking_in(self._keeper) as files:
                return await in_turn(self._deposit, call, value, files)
        async with taking_in(self._keeper) as files:
            item = await read_form(call, self._keeper.storage, files)
            if item is None:
                raise Refusal(422, IbiError("the form has no part {name}", name="item"))
            return await in_turn(self._deposit, call, json_object(read_json(item)), files)

    def _deposit(self, call: Call, value: dict[str, Any], files: Files) -> Response:
        holding, new = self._depositing.take(call, value, files)
        return self._told(holding, call, 201 if new else 200)

    def edit(self, call: Call, value: Any) -> Response:
        """The item with other facts."""
        facts = json_object(value)
        since = self._since(call, self._held(call))
        holding = edit(self._keeper, call.name, facts, call.who, unchanged_since=since)
        return self._told(holding, call)

    async def put(self, call: Call) -> Response:
        """The item with a file; its bytes are the body, or an upload that has come to its end."""
        upload = call.query.get("upload")
        if upload is not None and not call.may(Scope.DEPOSIT):
            raise Refusal(403, IbiError("uploads need a token with the scope {scope}", scope=Scope.DEPOSIT))
        if upload is None and not call.body.announced:
            raise Refusal(411, IbiError("the request does not say how long its body is"))
        await aside(self._before_put, call)
        async with taking_in(self._keeper) as files:
            if upload is None:
                await read_file(call, self._keeper.storage, call.values["file"], files)
            return await in_turn(self._put, call, files, upload)

    def _before_put(self, call: Call) -> None:
        """Whether it can come to anything, before the bytes are read."""
        self._since(call, self._held(call))

    def _put(self, call: Call, files: Files, upload: str | None) -> Response:
        name = call.values["file"]
        with ExitStack() as stack:
            if upload is not None:
                path = stack.enter_context(self._uploads.whole(upload, call.who))
                files[name] = self._keeper.storage.stage(name, path)
            before = self._held(call)
            since = self._since(call, before)
            with offered(files):
                holding = edit(
                    self._keeper, call.name, {}, call.who, staged=files.values(), unchanged_since=since
                )
            listed(files, holding)
        if upload is not None:
            self._uploads.forget(upload, call.who)
        return self._told(holding, call, 200 if before.file(name) else 201)

    def take_out(self, call: Call, _value: Any) -> Response:
        """The item without a file."""
        before = self._held(call)
        file = before.file(call.values["file"])
        if file is None:
            raise NotHeld("{name} has no such file", name=before.forms.main)
        since = self._since(call, before)
        holding = edit(self._keeper, call.name, {}, call.who, without=[file.name], unchanged_since=since)
        return self._told(holding, call)

    def remove(self, call: Call, _value: Any) -> Response:
        """What is left of the item."""
        before = self._held(call)
        reason = call.query.get("reason", "")
        if len(reason) > LONGEST_REASON:
            raise BadItem("{name} is longer than {limit} characters", name="reason", limit=LONGEST_REASON)
        if call.asked.header(b"if-match"):
            self._since(call, before)
        return self._told(remove(self._keeper, call.name, reason, call.who), call)

    def _held(self, call: Call) -> Holding:
        return held(self._catalogue, call, self._day)

    def _told(self, holding: Holding, call: Call, status: int = 200) -> Response:
        return told(self._catalogue, holding, call, self._day, status)

    @property
    def _day(self) -> str:
        return self._keeper.moment[:_DAY]

    @staticmethod
    def _since(call: Call, before: Holding) -> str | None:
        """The timestamp that the editor has seen; None if any will do. Raises Refusal (428) and Conflict."""
        header = call.asked.header(b"if-match").strip()
        if not header:
            problem = "say which state of the item is meant: If-Match with its ETag, or with *"
            raise Refusal(428, IbiError(problem))
        if header == _ANY:
            return None
        if before.timestamp not in {timestamp_of(each) for each in header.split(",")}:
            problem = "{name} has been changed meanwhile, on {date}"
            raise Conflict(problem, name=before.forms.main, date=before.timestamp)
        return before.timestamp
