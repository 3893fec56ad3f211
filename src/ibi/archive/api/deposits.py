"""Items over HTTP: deposit, edit and removal for those who have a token for it.

POST   /-/api/items                            a new original: JSON, or a form with JSON and files
PATCH  /-/api/items/<ibi>                      facts, as in JSON lines; null takes one away
PUT    /-/api/items/<ibi>/files/<name>         a file, new or in the place of another
DELETE /-/api/items/<ibi>/files/<name>
DELETE /-/api/items/<ibi>?reason=…             for ever; its name, date and reason stay

Requests may be repeated: under one Idempotency-Key the same content gives the same item, and another content none. The
content stands as digests in the first event of an item's history, so that a repeated request is recognised after the
item was edited, too. An older item without digests takes every request for the same.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.bodies import Refusal, json_object, read_json
from ibi.api.routes import Route, in_changing_thread, in_reading_thread, in_thread, ref
from ibi.archive.api.items import held_item, item_response, removal_notice, timestamp_of
from ibi.archive.api.received_files import (
    MOST_FILES,
    keep_on_database_error,
    read_file,
    read_form,
    release_listed,
    staged_files,
)
from ibi.archive.model.item_json import read_item, read_mapping, read_text
from ibi.archive.store.deposit import ItemPlacement, deposit, edit, remove
from ibi.archive.store.tables import history
from ibi.errors import AlreadyHeld, BadItem, Conflict, IbiError, NotHeld
from ibi.identifier.forms import parse_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.api.routes import Call
    from ibi.archive.api.received_files import Files
    from ibi.archive.api.uploads import Uploads
    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.response import Response


LONGEST_KEY: Final = 255
"""Characters of an Idempotency-Key."""

_DIGITS: Final = 32


def key_of(call: Call) -> str:
    """The key under which the item of this request is stored, "" if the request has none. Raises Refusal (400)."""
    # A program's key counts for its own token alone: two programs may choose the same text.
    given = call.request.header(b"idempotency-key").strip()
    if len(given) > LONGEST_KEY or not given.isprintable():
        raise Refusal(400, IbiError("Idempotency-Key is a short printable text"))
    return f"idempotency:{_digest(f'{call.token_name} {given}')}" if given else ""


def digest_of(value: Mapping[str, Any], files: Mapping[str, StoredFile]) -> str:
    """A digest of the content of a request, and of the bytes of its files."""
    content = {**value, "files": {name: file.sha256 for name, file in files.items()}}
    return _digest(json.dumps({"uploads": {}, **content}, sort_keys=True, separators=(",", ":")))


def is_same(catalogue: Catalogue, holding: Holding, digest: str) -> bool:
    """Whether the item was deposited by a request of this digest."""
    with catalogue.reading() as run:
        first = history.events_of(run, holding.number)[:1]
    known = first[0].detail.get("request") if first else None
    return not known or digest in known


def key_conflict(holding: Holding) -> Refusal:
    """The refusal of a request whose key is that of another request, which became this item."""
    problem = "{name} came of this request already; another item needs a request, or a form, of its own"
    return Refusal(422, IbiError(problem, name=holding.forms.main))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGITS]


RELATIONS: Final = ("edition_of", "translation_of", "metadata_of")
"""The fields that relate a new item to others."""
FOR_ADMINISTRATORS: Final = ("rep", "ibip", "aliases", "state", "timestamp", "reason")
"""What only an administrator may choose for a new item: other depositors get a new, unique label."""


class Deposits:
    """Deposits items. Its methods may wait for the disk or a label, so they belong into a thread."""

    def __init__(self, item_store: ItemStore, uploads: Uploads) -> None:
        self._item_store = item_store
        self._uploads = uploads

    def take(self, call: Call, value: dict[str, Any], files: Files) -> tuple[Holding, bool]:
        """Deposit an item; return it, and whether it is new. Uploads are staged into `files`.

        Raises Refusal and what `deposit` raises; then nothing has changed.
        """
        request, key = dict(value), "" if value.get("key") else key_of(call)
        place = _place(value)
        uploads = read_mapping(value.pop("uploads", {}), "uploads")
        _check(call, value, uploads, files)
        if key:
            value["key"] = key
        digest = digest_of(request, files)
        before = self._item_store.catalogue.holding_by_key(key) if key and uploads else None
        if before is not None and is_same(self._item_store.catalogue, before, digest):
            # A repeated request, whose uploads are gone: they are files of the item by now.
            return _living(before), False
        # Checked before anything large is copied, and again below with the digests.
        read_item({**value, "files": dict.fromkeys((*files, *uploads), "")})
        with ExitStack() as stack:
            for name, upload in uploads.items():
                path = stack.enter_context(self._uploads.whole(upload, call.token_name))
                files[name] = self._item_store.file_store.stage(name, path)
            # With the digests: without a key, items differ that differ in the bytes of their files only.
            draft = read_item({**value, "files": {name: file.sha256 for name, file in files.items()}})
            content = digest_of({**request, "uploads": {}}, files)
            digests = sorted({digest, content}) if key else ()
            with keep_on_database_error(files):
                holding, new = self._deposited(call, draft, files, place, digests)
            if key and not is_same(self._item_store.catalogue, holding, content):
                raise key_conflict(holding)
            release_listed(files, holding)
        for upload in uploads.values():
            self._uploads.delete(upload, call.token_name)
        return holding, new

    def _deposited(
        self, call: Call, draft: Draft, files: Files, place: ItemPlacement, request: Sequence[str]
    ) -> tuple[Holding, bool]:
        before = self._of_key(draft)
        try:
            holding = deposit(self._item_store, draft, files.values(), call.token_name, place, request)
        except AlreadyHeld:
            # The same request may have come twice at the same time: then the item is the first one's.
            found = None if before else self._of_key(draft)
            if found is None or (draft.forms is not None and not found.forms.shares(draft.forms)):
                raise
            holding = before = found
        return _living(holding), before is None

    def _of_key(self, draft: Draft) -> Holding | None:
        return self._item_store.catalogue.holding_by_key(draft.key) if draft.key else None


def _living(holding: Holding) -> Holding:
    if holding.deleted:
        raise Refusal(410, removal_notice(holding))
    return holding


def _place(value: dict[str, Any]) -> ItemPlacement:
    """Take out the fields that relate the item to others. Raises BadItem, ParseError."""
    names = {word: parse_name(read_text(value.pop(word), word)) for word in RELATIONS if word in value}
    as_item = value.pop("metadata_as_item", False)
    if not isinstance(as_item, bool):
        raise BadItem("{name} is true or false", name="metadata_as_item")
    return ItemPlacement(**names, metadata_as_item=as_item)


def _check(call: Call, value: dict[str, Any], uploads: dict[str, str], files: Files) -> None:
    """Check the fields of a deposit. Raises Refusal, BadItem."""
    if "files" in value:
        raise BadItem("files come as parts of a form, or as uploads")
    for name in FOR_ADMINISTRATORS:
        if name in value and not call.may(Scope.ADMIN):
            raise Refusal(403, IbiError("only a token with the scope admin may give {name}", name=name))
    twice = sorted(files.keys() & uploads.keys())
    if twice:
        raise BadItem("the file {name} is there twice", name=twice[0])
    if len(files) + len(uploads) > MOST_FILES:
        raise Refusal(413, IbiError("at most {most} files are taken at a time", most=MOST_FILES))
    # An upload is deleted when its file is listed: it can become one file only.
    if len(set(uploads.values())) < len(uploads):
        raise BadItem("an upload becomes one file")


LONGEST_REASON: Final = 4000
"""Characters of the reason of a removal."""

_FORM: Final = "multipart/form-data"
_ANY: Final = "*"
_DAY: Final = len("2026-11-21")
_BINARY: Final = {"type": "string", "format": "binary"}
_IF_MATCH: Final = {"if-match": {"type": "string"}}


def routes(item_store: ItemStore, uploads: Uploads) -> tuple[Route, ...]:
    """The routes that change items."""
    handlers = _Handlers(item_store, uploads)
    refused = (404, 409, 410, 412, 422, 428)
    form = {
        "type": "object",
        "properties": {"item": ref("deposit"), "file": {"type": "array", "items": _BINARY}},
        "required": ["item"],
    }
    reason = {"type": "string", "maxLength": LONGEST_REASON}
    return (
        Route(
            "POST", "/items", Scope.DEPOSIT, handlers.deposit, "deposit an item", takes=ref("deposit"),
            gives=ref("item"), status=201, refusals=(200, 404, 409, 410, 413, 415, 422, 507),
            headers={"idempotency-key": {"type": "string"}}, other_bodies={_FORM: form},
        ),
        Route(
            "PATCH", "/items/<ibi>", Scope.EDIT, in_thread(handlers.edit), "edit the facts of an item",
            takes=ref("edit"), gives=ref("item"), refusals=(*refused, 413, 415, 507), headers=_IF_MATCH,
        ),
        Route(
            "PUT", "/items/<ibi>/files/<file>", Scope.EDIT, handlers.put, "put a file into an item",
            gives=ref("item"), refusals=(201, *refused, 403, 411, 413, 415, 507), headers=_IF_MATCH,
            query={"upload": {"type": "string"}}, other_bodies={"application/octet-stream": _BINARY},
        ),
        Route(
            "DELETE", "/items/<ibi>/files/<file>", Scope.EDIT, in_thread(handlers.take_out),
            "take a file out of an item", gives=ref("item"), refusals=(*refused, 507), headers=_IF_MATCH,
        ),
        Route(
            "DELETE", "/items/<ibi>", Scope.DELETE, in_thread(handlers.remove), "remove an item for ever",
            gives=ref("item"), refusals=(404, 409, 410, 412, 422, 507), headers=_IF_MATCH, query={"reason": reason},
        ),
    )  # fmt: skip


class _Handlers:
    """The handlers of the routes."""

    def __init__(self, item_store: ItemStore, uploads: Uploads) -> None:
        self._item_store = item_store
        self._catalogue = item_store.catalogue
        self._uploads = uploads
        self._deposits = Deposits(item_store, uploads)

    async def deposit(self, call: Call) -> Response:
        """Deposit a new item, or return the one that was deposited under the same key."""
        if call.body.kind != _FORM:
            value = json_object(await call.body.json())
            async with staged_files(self._item_store) as files:
                return await in_changing_thread(self._deposit, call, value, files)
        async with staged_files(self._item_store) as files:
            item = await read_form(call, self._item_store.file_store, files)
            if item is None:
                raise Refusal(422, IbiError("the form has no part {name}", name="item"))
            return await in_changing_thread(self._deposit, call, json_object(read_json(item)), files)

    def _deposit(self, call: Call, value: dict[str, Any], files: Files) -> Response:
        holding, new = self._deposits.take(call, value, files)
        return self._item_response(holding, call, 201 if new else 200)

    def edit(self, call: Call, value: Any) -> Response:
        """Edit the facts of an item."""
        facts = json_object(value)
        since = self._since(call, self._held(call))
        holding = edit(self._item_store, call.name, facts, call.token_name, unchanged_since=since)
        return self._item_response(holding, call)

    async def put(self, call: Call) -> Response:
        """Put a file into an item; its bytes are the body, or a complete upload."""
        upload = call.query.get("upload")
        if upload is not None and not call.may(Scope.DEPOSIT):
            raise Refusal(403, IbiError("uploads need a token with the scope {scope}", scope=Scope.DEPOSIT))
        if upload is None and not call.body.announced:
            raise Refusal(411, IbiError("the request does not say how long its body is"))
        # A gigabyte is not received for an item that does not exist or has changed.
        await in_reading_thread(self._before_put, call)
        async with staged_files(self._item_store) as files:
            if upload is None:
                await read_file(call, self._item_store.file_store, call.values["file"], files)
            return await in_changing_thread(self._put, call, files, upload)

    def _before_put(self, call: Call) -> None:
        """Raise what would refuse the file, before its bytes are read."""
        self._since(call, self._held(call))

    def _put(self, call: Call, files: Files, upload: str | None) -> Response:
        name = call.values["file"]
        with ExitStack() as stack:
            if upload is not None:
                path = stack.enter_context(self._uploads.whole(upload, call.token_name))
                files[name] = self._item_store.file_store.stage(name, path)
            before = self._held(call)
            since = self._since(call, before)
            with keep_on_database_error(files):
                holding = edit(
                    self._item_store,
                    call.name,
                    {},
                    call.token_name,
                    staged=files.values(),
                    unchanged_since=since,
                )
            release_listed(files, holding)
        if upload is not None:
            self._uploads.delete(upload, call.token_name)
        return self._item_response(holding, call, 200 if before.file(name) else 201)

    def take_out(self, call: Call, _value: Any) -> Response:
        """Take a file out of an item."""
        before = self._held(call)
        file = before.file(call.values["file"])
        if file is None:
            raise NotHeld("{name} has no such file", name=before.forms.main)
        since = self._since(call, before)
        holding = edit(
            self._item_store, call.name, {}, call.token_name, without=[file.name], unchanged_since=since
        )
        return self._item_response(holding, call)

    def remove(self, call: Call, _value: Any) -> Response:
        """Remove an item; return what is left of it."""
        before = self._held(call)
        reason = call.query.get("reason", "")
        if len(reason) > LONGEST_REASON:
            raise BadItem("{name} is longer than {limit} characters", name="reason", limit=LONGEST_REASON)
        if call.request.header(b"if-match"):
            self._since(call, before)
        return self._item_response(remove(self._item_store, call.name, reason, call.token_name), call)

    def _held(self, call: Call) -> Holding:
        return held_item(self._catalogue, call, self._day)

    def _item_response(self, holding: Holding, call: Call, status: int = 200) -> Response:
        return item_response(self._catalogue, holding, call, self._day, status)

    @property
    def _day(self) -> str:
        return self._item_store.moment[:_DAY]

    @staticmethod
    def _since(call: Call, before: Holding) -> str | None:
        """The timestamp that the editor has seen; None if any will do. Raises Refusal (428) and Conflict."""
        header = call.request.header(b"if-match").strip()
        if not header:
            problem = "say which state of the item is meant: If-Match with its ETag, or with *"
            raise Refusal(428, IbiError(problem))
        if header == _ANY:
            return None
        if before.timestamp not in {timestamp_of(each) for each in header.split(",")}:
            problem = "{name} has been changed meanwhile, on {date}"
            raise Conflict(problem, name=before.forms.main, date=before.timestamp)
        return before.timestamp
