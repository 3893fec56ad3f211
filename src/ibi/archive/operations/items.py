"""Deposit, edit and remove items, and put files into them.

The facts of an item are the fields of `archive.model.item_fields`, which reads them. Files are in the
context, or are uploads; a command gives paths instead of uploads.

A request may be repeated: with the same Idempotency-Key, the same content gives the same item, and other
content is refused. Digests of the content are in the first event of an item's history, so that a repeated
request is recognized even after an edit. For an older item without digests, every request counts as the same.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec

from ibi.accounts.tokens import Scope
from ibi.api.fields import UNSET, F, Fields, field, free_field, given
from ibi.api.idempotency import LONGEST_KEY
from ibi.api.operations import FILE, Operation
from ibi.api.routes import BINARY, MOMENT, TEXT, list_of, record, ref
from ibi.archive.model.item_fields import EDITED, ITEM_FIELDS
from ibi.archive.model.item_json import read_item, write_item
from ibi.archive.model.record_values import impossible_dates
from ibi.archive.operations.item_facts import check_item_match
from ibi.archive.store import item_changes as store
from ibi.archive.store.item_changes import (
    Changed,
    Files,
    ItemPlacement,
    labels_needed,
    release_all_on_database_error,
    release_listed,
)
from ibi.archive.store.tables import history
from ibi.errors import BadField, BadItem, IbiError, NotHeld, ParseError
from ibi.http.response import Refusal
from ibi.identifier.forms import parse_name
from ibi.identifier.unwrapping import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.model.item_fields import ItemField
    from ibi.archive.model.item_json import Draft
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.store.item_store import ItemStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.identifier.forms import IBIForms, Name

MOST_FILES: Final = 1000
"""Files of one deposit."""

LONGEST_REASON: Final = 4000
"""Characters of the reason of a removal."""

RELATIONS: Final = ("edition_of", "translation_of", "metadata_of")
"""The fields that relate a new item to others."""
FOR_ADMINISTRATORS: Final = ("rep", "ibip", "timestamp", *(one.name for one in ITEM_FIELDS if one.admin_only))
"""The fields of a new item that only an administrator may give: other depositors get a new, unique label."""

FORM: Final = "multipart/form-data"
"""The media type of a deposit with its files."""

_DIGITS: Final = 32
_CONTENTS: Final = ("url", "metadata", "metadata_item", "formats")  # an item without files has one of these
_KEY: Final = {"type": "string", "maxLength": 512}


class _ItemName(Fields, frozen=True):
    """One item."""

    ibi: Annotated[str, field("one of its names", "ibi IBI", longest=512)]


class _New(Fields, frozen=True):
    """The fields of a new item besides its facts."""

    uploads: Annotated[
        dict[str, str], field("complete uploads, by the names that their files shall have", None)
    ] = UNSET
    edition_of: Annotated[
        str, field("the last edition, whose next one it becomes", "--edition-of IBI", 512)
    ] = UNSET
    translation_of: Annotated[
        str, field("the item that it is a translation of", "--translation-of IBI", 512)
    ] = UNSET
    metadata_of: Annotated[str, field("the item that it is the metadata of", "--metadata-of IBI", 512)] = (
        UNSET
    )
    metadata_as_item: Annotated[bool, field("make its metadata an item of their own", "--metadata-item")] = (
        UNSET
    )


class _Edited(_ItemName, frozen=True):
    """An item, and the changes of its files."""

    uploads: Annotated[
        dict[str, str], field("complete uploads, by the names that their files shall have", None)
    ] = UNSET
    without: Annotated[tuple[str, ...], field("a file to remove, by its name", "--without NAME", 10_000)] = ()


class FileFields(_ItemName, frozen=True):
    """A file of an item."""

    file: Annotated[str, field("the file's name in the item, percent-encoded", "file FILE")]


class PutFields(FileFields, frozen=True):
    """A file to put into an item."""

    upload: Annotated[str, field("a complete upload, instead of the body", upload=True)] = UNSET


class RemoveFields(_ItemName, frozen=True):
    """An item to remove."""

    reason: Annotated[str, field("why, for those who look for it", "--reason TEXT", LONGEST_REASON)]
    replacement: Annotated[
        str, field("the item that takes its place, by its IBI or persistent URL", "--replacement IBI", 4096)
    ] = UNSET


def _with_facts(base: type[F], facts: Iterable[tuple[str, msgspec.Meta]]) -> type[F]:
    """Make a class of `base`'s fields and further ones for facts of an item, which `item_fields` reads."""
    members = [(name, cast("type", Annotated[Any, meta]), UNSET) for name, meta in facts]
    made = msgspec.defstruct(base.__name__.strip("_"), members, bases=(base,), frozen=True, kw_only=True)
    return cast("type[F]", made)


def _fact(each: ItemField, schema: Mapping[str, Any]) -> tuple[str, msgspec.Meta]:
    words = each.schema.get("enum", ()) if each.option else ()
    return each.name, free_field(each.meaning, each.option or None, schema, words)


DepositFields: Final = _with_facts(_New, [
    ("rep", free_field("its name of the server and the date", None, TEXT)),
    ("ibip", free_field("its name of the address and the date", None, TEXT)),
    ("key", free_field("your own key for it: a second deposit with it gives the same item", "--key KEY", _KEY)),
    ("timestamp", free_field("when it was changed last; without it, now", None, MOMENT)),
    *(_fact(each, each.schema) for each in ITEM_FIELDS),
])  # fmt: skip
EditFields: Final = _with_facts(
    _Edited, [_fact(each, {"anyOf": [each.schema, {"type": "null"}]}) for each in EDITED]
)


@dataclass(frozen=True, slots=True)
class CheckedDeposit:
    """A checked deposit. `value`: the item, without `uploads` and its relations to others.

    `request`: all given members; `digest`: that of the content; `before`: the item of a repeated request.
    """

    value: dict[str, Any]
    request: dict[str, Any]
    key: str
    place: ItemPlacement
    uploads: dict[str, str]
    digest: str
    draft: Draft
    before: Holding | None


def deposit(context: ArchiveContext, fields: _New) -> Changed:
    """Deposit an item, or find that of an equal request. Raises like `check_deposit` and `store_deposit`."""
    return store_deposit(context, check_deposit(context, fields))


def check_deposit(context: ArchiveContext, fields: _New) -> CheckedDeposit:
    """Check all that can be checked before a label is drawn and anything large is copied.

    Raises BadItem, ParseError, Conflict, Refusal.
    """
    context.check_match(None)
    value = given(fields)
    request, key = dict(value), "" if value.get("key") else _key_of(context)
    related = {word: parse_name(value.pop(word)) for word in RELATIONS if word in value}
    place = ItemPlacement(**related, metadata_as_item=value.pop("metadata_as_item", False))
    uploads = value.pop("uploads", {})
    for name in FOR_ADMINISTRATORS:
        if name in value and not context.is_administrator:
            raise Refusal(403, IbiError("only a token with the scope admin may give {name}", name=name))
    _check_files(context, uploads)
    if not (context.files or uploads or any(map(value.get, _CONTENTS))):
        raise BadItem("an item needs a file, a URL or metadata: give it at least a title")
    if key:
        value["key"] = key
    digest, before = _digest_of(request, context.files), None
    draft = read_item({**value, "files": dict.fromkeys(uploads, "") | _digests(context.files)})
    if uploads:
        with context.catalogue() as catalogue:
            before = _made_before(catalogue, draft, digest)
    for problem in impossible_dates(draft.facts.get("metadata")):
        raise problem
    return CheckedDeposit(value, request, key, place, uploads, digest, draft, before)


def labels_of(context: ArchiveContext, checked: CheckedDeposit) -> int:
    """Return how many labels a deposit needs."""
    with context.catalogue() as catalogue:
        is_known = checked.before is not None or store.held_by_key(catalogue, checked.draft) is not None
    return 0 if is_known else labels_needed(checked.draft, checked.place)


def store_deposit(
    context: ArchiveContext, checked: CheckedDeposit, labels: Sequence[IBIForms] | None = None
) -> Changed:
    """Store a checked deposit with labels that were drawn before; with None, draw them now.

    Raises Refusal (422) if an earlier request with this key had other content, and the errors of
    `store.item_changes`; then nothing has changed.
    """
    if checked.before is not None:
        return Changed(checked.before)
    files = context.files
    with context.opened() as item_store, ExitStack() as stack:
        try:
            _stage(context, item_store, checked.uploads, stack)
        except NotHeld:
            # An equal request may have used the uploads since this request was checked.
            before = _made_before(item_store.catalogue, checked.draft, checked.digest)
            if before is None:
                raise
            return Changed(before)
        # With digests, so that deposits count as different even if only the bytes of their files differ.
        draft = read_item({**checked.value, "files": _digests(files)})
        content = _digest_of({**checked.request, "uploads": {}}, files)
        digests = sorted({checked.digest, content}) if checked.key else ()
        with release_all_on_database_error(files):
            holding, is_new = store.deposit(
                item_store, draft, files.values(), context.who, checked.place, digests, labels
            )
        if checked.key and not _is_same(item_store.catalogue, holding, content):
            problem = (
                "this request has already created {name}; another item needs a request, or a form, of its own"
            )
            raise Refusal(422, IbiError(problem, name=holding.forms.main))
        release_listed(files, holding)
    return Changed(holding, is_new)


def edit(context: ArchiveContext, fields: _Edited) -> Changed:
    """Change the given facts and files of an original; null removes a fact.

    Raises NotHeld, HoldingError, Conflict, BadItem, ParseError; Refusal (428) without If-Match.
    """
    facts = given(fields)
    uploads, without = facts.pop("uploads", {}), facts.pop("without")
    return _edited(context, facts.pop("ibi"), facts, uploads, lambda _: without)


def put(context: ArchiveContext, fields: PutFields) -> Changed:
    """Put a file into an original, or replace one. Raises like `edit`."""
    uploads = {} if fields.upload is UNSET else {fields.file: fields.upload}
    return _edited(context, fields.ibi, {}, uploads, lambda _: (), put=fields.file)


def take_out(context: ArchiveContext, fields: FileFields) -> Changed:
    """Remove a file from an original. Raises like `edit`."""

    def without(held: Holding) -> Collection[str]:
        if held.file(fields.file) is None:
            raise NotHeld("{name} has no such file", name=held.forms.main)
        return (fields.file,)

    return _edited(context, fields.ibi, {}, {}, without)


def remove(context: ArchiveContext, fields: RemoveFields) -> Changed:
    """Remove an item for ever; return what is kept of it. Raises NotHeld, HoldingError, Conflict, BadItem, BadField."""
    with context.opened() as item_store:
        name = parse_name(fields.ibi)
        since = check_item_match(context, item_store.catalogue.held(name)) if context.if_match else None
        other = _replacement(fields.replacement) if fields.replacement else None
        left = store.remove(item_store, name, fields.reason, context.who, other, unchanged_since=since)
        return Changed(left)


def _replacement(text: str) -> Name:
    """Read the name of an item, or its persistent URL. Raises BadField."""
    try:
        return unwrap(text).ibi
    except ParseError as error:
        problem = "{name} is the IBI of an item, or its persistent URL: {reason}"
        raise BadField(problem, name="replacement", reason=error) from None


def _edited(
    context: ArchiveContext,
    ibi: str,
    facts: Mapping[str, Any],
    uploads: Mapping[str, str],
    without: Callable[[Holding], Collection[str]],
    put: str = "",
) -> Changed:
    """Edit an item if it is as it was seen. `without`: files to remove; `put`: the file that may be new."""
    name, files = parse_name(ibi), context.files
    _check_files(context, uploads)
    with context.opened() as item_store, ExitStack() as stack:
        held = item_store.catalogue.held(name)
        since, gone = check_item_match(context, held), without(held)
        if not (facts or uploads or files or gone):
            raise BadField("nothing to change was given: give a field or a file")
        _stage(context, item_store, uploads, stack)
        with release_all_on_database_error(files):
            holding = store.edit(
                item_store,
                name,
                facts,
                context.who,
                staged=files.values(),
                without=gone,
                unchanged_since=since,
            )
        release_listed(files, holding)
    return Changed(holding, is_new=bool(put) and held.file(put) is None)


def _stage(
    context: ArchiveContext, item_store: ItemStore, uploads: Mapping[str, str], stack: ExitStack
) -> None:
    """Copy uploads to the files of the context; the stack deletes them if it ends without an error."""
    # All are locked before any is copied, in sorted order: one of two requests for the same uploads gets all.
    paths = {upload: stack.enter_context(context.used(upload)) for upload in sorted(uploads.values())}
    for name, upload in uploads.items():
        context.files[name] = item_store.file_store.stage(name, paths[upload])


def _check_files(context: ArchiveContext, uploads: Mapping[str, str]) -> None:
    """Check the names and the number of files. Raises BadItem, Refusal (413)."""
    twice = sorted(context.files.keys() & uploads.keys())
    if twice:
        raise BadItem("the file {name} is there twice", name=twice[0])
    if context.served is None:  # a command has paths, and a folder may have many files
        return
    if len(context.files) + len(uploads) > MOST_FILES:
        raise Refusal(413, IbiError("at most {most} files are taken at a time", most=MOST_FILES))
    # An upload is deleted when its file is listed, so it can become only one file.
    if len(set(uploads.values())) < len(uploads):
        raise BadItem("an upload becomes one file")


def _made_before(catalogue: Catalogue, draft: Draft, digest: str) -> Holding | None:
    """Return the item that an equal request has made already, with its uploads. Raises AlreadyHeld."""
    known = store.held_by_key(catalogue, draft)
    # For an item with a key of its own, no digests are stored.
    return known if known and _is_same(catalogue, known, digest) else None


def _is_same(catalogue: Catalogue, holding: Holding, digest: str) -> bool:
    """Return whether the item was deposited by a request with this digest."""
    with catalogue.reading() as run:
        first = history.events_of(run, holding.number)[:1]
    known = first[0].detail.get("request") if first else None
    return not known or digest in known


def _key_of(context: ArchiveContext) -> str:
    """Return the key for the item of this request, "" if the request has none. Raises Refusal (400)."""
    # The key includes the name of the token, because two programs may choose the same Idempotency-Key.
    text = context.request_key.strip()
    if len(text) > LONGEST_KEY or not text.isprintable():
        raise Refusal(400, IbiError("Idempotency-Key is a short printable text"))
    return f"idempotency:{_digest(f'{context.who} {text}')}" if text else ""


def _digest_of(value: Mapping[str, Any], files: Files) -> str:
    """Return a digest of the content of a request, and of the bytes of its files."""
    content = {**value, "files": _digests(files)}
    return _digest(json.dumps({"uploads": {}, **content}, sort_keys=True, separators=(",", ":")))


def _digests(files: Files) -> dict[str, str]:
    return {name: file.sha256 for name, file in files.items()}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGITS]


def _as_json(act: Callable[[ArchiveContext, F], Changed]) -> Callable[[ArchiveContext, F], dict[str, Any]]:
    return lambda context, fields: write_item(act(context, fields).holding)


_WITH_FILES: Final = record("file", item=ref("deposit"), file=list_of(BINARY))
_OF_EDITS: Final = (410, 413, 415, 428)

DEPOSIT: Final = Operation(
    "deposit", "deposit a new original, and give it names", Scope.DEPOSIT, DepositFields, _as_json(deposit),
    "POST /items", gives=ref("item"), page="deposit", status=201, refusals=(200, 410, 413, 415),
    takes=ref("deposit"), bodies={FORM: _WITH_FILES},
)  # fmt: skip
EDIT: Final = Operation(
    "edit", "edit the metadata, access or files of an original", Scope.EDIT, EditFields, _as_json(edit),
    "PATCH /items/<ibi>",
    place="ibi", gives=ref("item"), page="edit", refusals=_OF_EDITS, takes=ref("edit"),
)  # fmt: skip
PUT: Final = Operation(
    "put-file", "put a file into an original", Scope.EDIT, PutFields, _as_json(put), "PUT /items/<ibi>/files/<file>",
    place="ibi file", gives=ref("item"), page="files", command="edit", refusals=(*_OF_EDITS, 201, 403, 411),
    bodies={FILE: BINARY},
)  # fmt: skip
TAKE_OUT: Final = Operation(
    "take-out-file", "take a file out of an original", Scope.EDIT, FileFields, _as_json(take_out),
    "DELETE /items/<ibi>/files/<file>", place="ibi file", gives=ref("item"), page="files", command="edit",
    refusals=(410, 428),
)  # fmt: skip
REMOVE: Final = Operation(
    "delete", "remove an item for ever; its names stay known as those of a removed item", Scope.DELETE, RemoveFields,
    _as_json(remove), "DELETE /items/<ibi>", place="ibi", gives=ref("item"), page="delete", refusals=(410,),
)  # fmt: skip

OPERATIONS: Final = (DEPOSIT, EDIT, PUT, TAKE_OUT, REMOVE)
