"""Items over HTTP: deposit, edit and removal for those who have a token for it.

Requests may be repeated: under one Idempotency-Key the same content gives the same item, and another content none. The
content stands as digests in the first event of an item's history, so that a repeated request is recognised after the
item was edited, too. An older item without digests takes every request for the same.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.bodies import json_object, read_json
from ibi.api.routes import (
    BINARY,
    TEXT,
    Route,
    in_changing_thread,
    in_reading_thread,
    in_thread,
    list_of,
    once,
    record,
    ref,
)
from ibi.archive.api.items import ItemView, removal_notice, timestamp_of
from ibi.archive.api.received_files import (
    MOST_FILES,
    Files,
    FormReader,
    keep_on_database_error,
    read_file,
    release_listed,
    staged_files,
)
from ibi.archive.model.item import Holding
from ibi.archive.model.item_fields import ITEM_FIELDS, read_mapping, read_text
from ibi.archive.model.item_json import read_item
from ibi.archive.store.deposit import ItemPlacement, deposit, edit, labels_needed, remove
from ibi.archive.store.tables import history
from ibi.errors import AlreadyHeld, BadItem, Conflict, IbiError, NotHeld
from ibi.http.response import Refusal
from ibi.identifier.forms import parse_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.api.routes import Call
    from ibi.archive.api.labels import DepositLabels
    from ibi.archive.api.uploads import Uploads
    from ibi.archive.model.item import StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore
    from ibi.http.response import Response
    from ibi.identifier.forms import IBIForms


LONGEST_KEY: Final = 255
"""Characters of an Idempotency-Key."""

MOST_DEPOSITS: Final = 256
"""Deposits that wait at the same time, for a label or for the disk; further ones are refused with 503 (threat T37)."""

_AT_ONCE: Final = 4  # deposits that are written at the same time; the other threads are for edits
_LATER: Final = 5  # seconds after which a refused deposit may come again
_DIGITS: Final = 32


RELATIONS: Final = ("edition_of", "translation_of", "metadata_of")
"""The fields that relate a new item to others."""
FOR_ADMINISTRATORS: Final = ("rep", "ibip", "timestamp", *(each.name for each in ITEM_FIELDS if each.own))
"""What only an administrator may choose for a new item: other depositors get a new, unique label."""


LONGEST_REASON: Final = 4000
"""Characters of the reason of a removal."""

_FORM: Final = "multipart/form-data"
_IF_MATCH: Final = {"if-match": TEXT, "idempotency-key": TEXT}


@dataclass(frozen=True, slots=True)
class _Order:
    """What a checked request orders. `value`: the item, without `uploads` and its relations to others.

    `request`: the body as it came; `digest`: that of the content; `labels`: how many labels it takes.
    """

    value: dict[str, Any]
    request: dict[str, Any]
    key: str
    place: ItemPlacement
    uploads: dict[str, str]
    digest: str
    labels: int


class Deposits:
    """Deposits items, and changes them for programs."""

    def __init__(self, item_store: ItemStore, uploads: Uploads, labels: DepositLabels) -> None:
        self._item_store = item_store
        self._labels = labels
        self._waiting = 0
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._catalogue = item_store.catalogue
        self._uploads = uploads
        self._view = ItemView(item_store.catalogue, lambda: item_store.moment.partition("T")[0])

    def routes(self) -> tuple[Route, ...]:
        """The routes that change items."""
        refused = (404, 409, 410, 412, 422, 428)
        form = record("file", item=ref("deposit"), file=list_of(BINARY))
        reason = {"type": "string", "maxLength": LONGEST_REASON}
        return (
            Route(
                "POST", "/items", Scope.DEPOSIT, self._post, "deposit an item", takes=ref("deposit"),
                gives=ref("item"), status=201, refusals=(200, 404, 409, 410, 413, 415, 422, 507),
                headers={"idempotency-key": TEXT}, other_bodies={_FORM: form},
            ),
            Route(
                "PATCH", "/items/<ibi>", Scope.EDIT, in_thread(self._edit), "edit the facts of an item",
                takes=ref("edit"), gives=ref("item"), refusals=(*refused, 413, 415, 507), headers=_IF_MATCH,
            ),
            Route(
                "PUT", "/items/<ibi>/files/<file>", Scope.EDIT, self._put, "put a file into an item",
                gives=ref("item"), refusals=(201, *refused, 403, 411, 413, 415, 507), headers=_IF_MATCH,
                query={"upload": TEXT}, other_bodies={"application/octet-stream": BINARY},
            ),
            Route(
                "DELETE", "/items/<ibi>/files/<file>", Scope.EDIT, in_thread(self._take_out),
                "take a file out of an item", gives=ref("item"), refusals=(*refused, 507), headers=_IF_MATCH,
            ),
            Route(
                "DELETE", "/items/<ibi>", Scope.DELETE, in_thread(self._remove), "remove an item for ever",
                gives=ref("item"), refusals=(404, 409, 410, 412, 422, 507), headers=_IF_MATCH,
                query={"reason": reason},
            ),
        )  # fmt: skip

    async def take(self, call: Call, value: dict[str, Any], files: Files) -> tuple[Holding, bool]:
        """Deposit an item; return it, and whether it is new. Uploads are staged into `files`.

        Raises Refusal and what `deposit` raises; then nothing has changed.
        """
        self._check_queue()
        self._waiting += 1
        try:
            order = await in_reading_thread(self._read, call, value, files)
            if isinstance(order, Holding):
                return order, False
            # Without a thread: many deposits may wait here, and edits must not wait behind them.
            labels = await self._labels.draw(order.labels)
            async with self._turns:
                return await in_changing_thread(self._keep, call, order, files, labels)
        finally:
            self._waiting -= 1

    def _check_queue(self) -> None:
        """Refuse a deposit that would wait behind too many others. Raises Refusal (503)."""
        if self._waiting >= MOST_DEPOSITS:
            why = IbiError("too many deposits are under way; ask again later")
            raise Refusal(503, why, ("retry-after", str(_LATER)))

    def _read(self, call: Call, value: dict[str, Any], files: Files) -> _Order | Holding:
        """Check a request; return what it orders, or the item of a repeated one whose uploads are gone."""
        request, key = dict(value), "" if value.get("key") else _key_of(call)
        place = _place(value)
        uploads = read_mapping(value.pop("uploads", {}), "uploads")
        _check(call, value, uploads, files)
        if key:
            value["key"] = key
        digest = _digest_of(request, files)
        before = self._catalogue.holding_by_key(key) if key and uploads else None
        if before is not None and self._is_same(before, digest):
            # They are files of the item by now.
            return _living(before)
        # Checked before a label is drawn and anything large is copied, and again below with all digests.
        draft = read_item({**value, "files": dict.fromkeys(uploads, "") | _digests(files)})
        labels = 0 if self._of_key(draft) else labels_needed(draft, place)
        return _Order(value, request, key, place, uploads, digest, labels)

    def _keep(
        self, call: Call, order: _Order, files: Files, labels: Sequence[IBIForms]
    ) -> tuple[Holding, bool]:
        """Deposit what is ordered, under these labels."""
        with ExitStack() as stack:
            for name, upload in order.uploads.items():
                path = stack.enter_context(self._uploads.used(upload, call.token_name))
                files[name] = self._item_store.file_store.stage(name, path)
            # With the digests, so that deposits that differ in nothing but the bytes of their files are different ones.
            draft = read_item({**order.value, "files": _digests(files)})
            content = _digest_of({**order.request, "uploads": {}}, files)
            digests = sorted({order.digest, content}) if order.key else ()
            with keep_on_database_error(files):
                holding, new = self._deposited(call, draft, files, order.place, digests, labels)
            if order.key and not self._is_same(holding, content):
                problem = (
                    "{name} came of this request already; another item needs a request, or a form, of its own"
                )
                raise Refusal(422, IbiError(problem, name=holding.forms.main))
            release_listed(files, holding)
        return holding, new

    def _deposited(
        self,
        call: Call,
        draft: Draft,
        files: Files,
        place: ItemPlacement,
        request: Sequence[str],
        labels: Sequence[IBIForms],
    ) -> tuple[Holding, bool]:
        before = self._of_key(draft)
        try:
            holding = deposit(
                self._item_store, draft, files.values(), call.token_name, place, request, labels
            )
        except AlreadyHeld:
            # The same request may have come twice at the same time: then the item is the first one's.
            found = None if before else self._of_key(draft)
            if found is None or (draft.forms is not None and not found.forms.shares(draft.forms)):
                raise
            holding = before = found
        return _living(holding), before is None

    def _of_key(self, draft: Draft) -> Holding | None:
        return self._catalogue.holding_by_key(draft.key) if draft.key else None

    def _is_same(self, holding: Holding, digest: str) -> bool:
        """Whether the item was deposited by a request of this digest."""
        with self._catalogue.reading() as run:
            first = history.events_of(run, holding.number)[:1]
        known = first[0].detail.get("request") if first else None
        return not known or digest in known

    async def _post(self, call: Call) -> Response:
        """Deposit a new item, or return the one that was deposited under the same key."""
        self._check_queue()  # before its files come
        value = None if call.body.kind == _FORM else json_object(await call.body.json())
        # A session costs more than the deposit of an item without files.
        without_files = value is not None and not value.get("uploads")
        async with nullcontext(Files()) if without_files else staged_files(self._item_store) as files:
            if value is None:
                kind = call.request.header(b"content-type")
                form = FormReader(kind, self._item_store.file_store, files)
                await form.receive(call.body)
                if form.item is None:
                    raise Refusal(422, IbiError("the form has no part {name}", name="item"))
                value = json_object(read_json(form.item))
            holding, new = await self.take(call, value, files)
            return self._view.response(holding, call, 201 if new else 200)

    def _edit(self, call: Call, value: Any) -> Response:
        facts = json_object(value)
        return self._changed(call, self._view.held(call), facts)

    async def _put(self, call: Call) -> Response:
        """Put a file into an item; its bytes are the body, or a complete upload."""
        upload = call.query.get("upload")
        if upload is not None and not call.may(Scope.DEPOSIT):
            raise Refusal(403, IbiError("uploads need a token with the scope {scope}", scope=Scope.DEPOSIT))
        if upload is None:
            call.body.check_announced()
        # A gigabyte is not received for an item that does not exist or has changed. A repeated request has its reply.
        if not call.request.header(b"idempotency-key"):
            await in_reading_thread(lambda: _since(call, self._view.held(call)))
        async with staged_files(self._item_store) as files:
            if upload is None:
                await read_file(call, self._item_store.file_store, call.values["file"], files)
            content = [each.sha256 for each in files.values()]
            put = partial(self._put_staged, call, files, upload)
            return await in_changing_thread(once, call, content, put)

    def _put_staged(self, call: Call, files: Files, upload: str | None) -> Response:
        name = call.values["file"]
        with ExitStack() as stack:
            if upload is not None:
                path = stack.enter_context(self._uploads.used(upload, call.token_name))
                files[name] = self._item_store.file_store.stage(name, path)
            before = self._view.held(call)
            since = _since(call, before)
            with keep_on_database_error(files):
                holding = edit(
                    self._item_store, call.name, {}, call.token_name, staged=files.values(), unchanged_since=since
                )  # fmt: skip
            release_listed(files, holding)
        return self._view.response(holding, call, 200 if before.file(name) else 201)

    def _take_out(self, call: Call, _value: Any) -> Response:
        before = self._view.held(call)
        file = before.file(call.values["file"])
        if file is None:
            raise NotHeld("{name} has no such file", name=before.forms.main)
        return self._changed(call, before, {}, without=[file.name])

    def _changed(
        self, call: Call, before: Holding, facts: dict[str, Any], without: Sequence[str] = ()
    ) -> Response:
        since = _since(call, before)
        holding = edit(
            self._item_store, call.name, facts, call.token_name, without=without, unchanged_since=since
        )
        return self._view.response(holding, call)

    def _remove(self, call: Call, _value: Any) -> Response:
        """Remove an item; return what is left of it."""
        before = self._view.held(call)
        reason = call.query.get("reason", "")
        if len(reason) > LONGEST_REASON:
            raise BadItem("{name} is longer than {limit} characters", name="reason", limit=LONGEST_REASON)
        if call.request.header(b"if-match"):
            _since(call, before)
        return self._view.response(remove(self._item_store, call.name, reason, call.token_name), call)


def _key_of(call: Call) -> str:
    """The key under which the item of this request is stored, "" if the request has none. Raises Refusal (400)."""
    # A program's key counts for its own token alone: two programs may choose the same text.
    given = call.request.header(b"idempotency-key").strip()
    if len(given) > LONGEST_KEY or not given.isprintable():
        raise Refusal(400, IbiError("Idempotency-Key is a short printable text"))
    return f"idempotency:{_digest(f'{call.token_name} {given}')}" if given else ""


def _digest_of(value: Mapping[str, Any], files: Mapping[str, StoredFile]) -> str:
    """A digest of the content of a request, and of the bytes of its files."""
    content = {**value, "files": _digests(files)}
    return _digest(json.dumps({"uploads": {}, **content}, sort_keys=True, separators=(",", ":")))


def _digests(files: Mapping[str, StoredFile]) -> dict[str, str]:
    return {name: file.sha256 for name, file in files.items()}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGITS]


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


def _since(call: Call, before: Holding) -> str | None:
    """The timestamp that the editor has seen; None if any will do. Raises Refusal (428) and Conflict."""
    header = call.request.header(b"if-match").strip()
    if not header:
        raise Refusal(
            428, IbiError("say which state of the item is meant: If-Match with its ETag, or with *")
        )
    if header == "*":
        return None
    if before.timestamp not in {timestamp_of(each) for each in header.split(",")}:
        problem = "{name} has been changed meanwhile, on {date}"
        raise Conflict(problem, name=before.forms.main, date=before.timestamp)
    return before.timestamp
