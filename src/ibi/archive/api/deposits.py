"""Answer requests that change items: pass their bodies, which may be files, to `archive.operations.items`.

A deposit is done in three steps (check, labels, storage), so that it needs no thread while it waits for
labels.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.bodies import json_object, read_json
from ibi.api.fields import UNSET, read
from ibi.api.operations import fields_of
from ibi.api.routes import in_quick_thread, in_thread, in_waiting_thread, once
from ibi.archive.api.items import ItemView
from ibi.archive.api.received_files import FormReader, read_file, staged_files
from ibi.archive.api.uploads import UploadInUse
from ibi.archive.operations import items
from ibi.archive.operations.item_facts import check_item_match
from ibi.archive.store.item_changes import Files, removal_notice
from ibi.errors import BadItem, IbiError
from ibi.http.response import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.api.operations import Operation
    from ibi.api.routes import Act, Call
    from ibi.archive.api.labels import DepositLabels
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.store.item_changes import Changed
    from ibi.archive.store.item_store import ItemStore
    from ibi.http.response import Response
    from ibi.identifier.forms import IBIForms


MOST_DEPOSITS: Final = 256
"""Deposits that wait at the same time, for a label or for the disk; further ones are refused with 503 (T37:
overload)."""
LONGEST_WAIT_OF_REPEATED: Final = 30.0
"""Seconds that a repeated deposit waits for the first one, which is using its uploads; then it gets 409."""

_AT_ONCE: Final = 4  # deposits that are written at the same time; the other threads are for edits
_LATER: Final = 5  # seconds after which the client may repeat a refused deposit
_LOOK_EVERY: Final = 0.1  # seconds between two attempts to use uploads that are in use


class Deposits:
    """Deposits items for programs and librarians."""

    def __init__(self, labels: DepositLabels) -> None:
        self._labels = labels
        self._waiting = 0
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def close(self) -> None:
        """Close the connections for labels; no deposit is under way."""
        self._labels.close()

    async def take(self, context: ArchiveContext, value: dict[str, Any]) -> Changed:
        """Deposit an item of this JSON, with the files of the context.

        Raises Refusal, BadField, and the errors of `items.deposit`; then nothing has changed.
        """
        self.check_queue()
        self._waiting += 1
        try:
            checked, count = await in_quick_thread(_check, context, value)
            # No thread waits here, so that edits need not wait behind many deposits.
            labels = await self._labels.draw(count)
            changed = await self._store(context, checked, labels)
        finally:
            self._waiting -= 1
        if changed.holding.deleted:
            raise Refusal(410, removal_notice(changed.holding))
        return changed

    async def _store(
        self, context: ArchiveContext, checked: items.CheckedDeposit, labels: Sequence[IBIForms]
    ) -> Changed:
        """Store a deposit; wait if another request uses its uploads. Raises like `items.store_deposit`."""
        clock = asyncio.get_running_loop().time
        last = clock() + (LONGEST_WAIT_OF_REPEATED if checked.draft.key else 0)
        while True:
            try:
                async with self._turns:
                    return await in_waiting_thread(items.store_deposit, context, checked, labels)
            except UploadInUse:
                if clock() >= last:
                    raise
            # The semaphore is released meanwhile, so that deposits of other uploads continue.
            await asyncio.sleep(_LOOK_EVERY)

    def check_queue(self) -> None:
        """Refuse a deposit that would wait behind too many others. Raises Refusal (503)."""
        if self._waiting >= MOST_DEPOSITS:
            why = IbiError("too many deposits are under way; ask again later")
            raise Refusal(503, why, ("retry-after", str(_LATER)))


def _check(context: ArchiveContext, value: dict[str, Any]) -> tuple[items.CheckedDeposit, int]:
    """Check a deposit; return it, and how many labels it needs."""
    if "files" in value:
        raise BadItem("files come as parts of a form, or as uploads")
    checked = items.check_deposit(context, read(items.DepositFields, value))
    return checked, items.labels_of(context, checked)


class ItemTransports:
    """Answers the requests for operations on items. `context_of` makes the context of a call."""

    def __init__(
        self,
        item_store: ItemStore,
        view: ItemView,
        deposits: Deposits,
        context_of: Callable[[Call], ArchiveContext],
    ) -> None:
        self._item_store = item_store
        self._view = view
        self._deposits = deposits
        self._context_of = context_of

    def acts(self) -> Mapping[str, Act]:
        """Return the name of each operation, with the function that answers it."""
        return {
            items.DEPOSIT.name: self._post,
            items.EDIT.name: self._edit,
            items.PUT.name: self._put,
            items.TAKE_OUT.name: in_thread(partial(self._do, items.TAKE_OUT, items.take_out, Files())),
            items.REMOVE.name: in_thread(partial(self._do, items.REMOVE, items.remove, Files())),
        }

    async def _post(self, call: Call) -> Response:
        """Deposit a new item, or return the one that was deposited under the same key."""
        self._deposits.check_queue()  # before its files come
        value = None if call.body.kind == items.FORM else json_object(await call.body.json())
        # A staging session costs more than the deposit of an item without files.
        without_files = value is not None and not value.get("uploads")
        async with nullcontext(Files()) if without_files else staged_files(self._item_store) as files:
            if value is None:
                kind = call.request.header(b"content-type")
                form = FormReader(kind, self._item_store.file_store, files)
                await form.receive(call.body)
                if form.item is None:
                    raise Refusal(422, IbiError("the form has no part {name}", name="item"))
                value = json_object(read_json(form.item))
            context = self._context(call, files)
            context.request_key = call.request.header(b"idempotency-key")
            holding, is_new = await self._deposits.take(context, value)
            return self._view.response(holding, call, 201 if is_new else 200)

    async def _edit(self, call: Call) -> Response:
        value = json_object(await call.body.json())
        _check_scope(call, needs_uploads=bool(value.get("uploads")))
        async with staged_files(self._item_store) if value.get("uploads") else nullcontext(Files()) as files:
            edit = partial(self._do, items.EDIT, items.edit, files, call, value)
            return await in_waiting_thread(once, call, value, edit)

    async def _put(self, call: Call) -> Response:
        """Put a file into an item; its bytes are the body, or a complete upload."""
        fields = fields_of(items.PUT, call, None)
        _check_scope(call, needs_uploads=fields.upload is not UNSET)
        if fields.upload is UNSET:
            call.body.check_announced()
        # Checked first, to receive no gigabyte in vain. A repeated request has its reply already.
        if not call.request.header(b"idempotency-key"):
            context = self._context(call, Files())
            await in_quick_thread(lambda: check_item_match(context, self._view.held(call)))
        async with staged_files(self._item_store) as files:
            if fields.upload is UNSET:
                await read_file(call, self._item_store.file_store, fields.file, files)
            content = [each.sha256 for each in files.values()]
            put = partial(self._do, items.PUT, items.put, files, call, None)
            return await in_waiting_thread(once, call, content, put)

    def _do(
        self,
        operation: Operation[ArchiveContext, Any],
        act: Callable[[ArchiveContext, Any], Changed],
        files: Files,
        call: Call,
        value: Any,
    ) -> Response:
        self._view.held(call)  # raises Refusal (410) for a removed item, with what is known of it
        holding, is_new = act(self._context(call, files), fields_of(operation, call, value))
        return self._view.response(holding, call, 201 if is_new else 200)

    def _context(self, call: Call, files: Files) -> ArchiveContext:
        context = self._context_of(call)
        context.files, context.if_match = files, call.request.header(b"if-match")
        return context


def _check_scope(call: Call, *, needs_uploads: bool) -> None:
    if needs_uploads and not call.may(Scope.DEPOSIT):
        raise Refusal(403, IbiError("uploads need a token with the scope {scope}", scope=Scope.DEPOSIT))
