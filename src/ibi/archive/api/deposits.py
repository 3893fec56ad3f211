"""What a deposit over HTTP says besides the item itself: its place, its uploads, and who may say what."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.api.intake import listed, offered
from ibi.archive.api.items import removed
from ibi.archive.api.multipart import MOST_FILES
from ibi.archive.api.repeating import another, digest_of, is_same, key_of
from ibi.archive.deposit import Place, deposit
from ibi.archive.facts import read_mapping, read_text
from ibi.archive.item_lines import read_item
from ibi.errors import AlreadyHeld, BadItem, IbiError
from ibi.identifier.forms import parse_name
from ibi.interface.refusal import Refusal
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.api.intake import Files
    from ibi.archive.api.upload_store import Uploads
    from ibi.archive.holding import Holding
    from ibi.archive.item_lines import Draft
    from ibi.archive.keeper import Keeper
    from ibi.interface.routes import Call

RELATIONS: Final = ("edition_of", "translation_of", "metadata_of")
"""The words that place a new item among others."""
FOR_ADMINISTRATORS: Final = ("rep", "ibip", "aliases", "state", "timestamp", "reason")
"""What only an administrator may say of a new item: whoever may deposit gets a label that nobody else has."""


class Depositing:
    """Takes items in. Everything here may wait for the disk or a label, so it belongs into a thread."""

    def __init__(self, keeper: Keeper, uploads: Uploads) -> None:
        self._keeper = keeper
        self._uploads = uploads

    def take(self, call: Call, value: dict[str, Any], files: Files) -> tuple[Holding, bool]:
        """The item of a deposit, and whether it is new; uploads are staged into `files`.

        Raises Refusal and what `deposit` raises; then nothing has changed.
        """
        request, key = dict(value), "" if value.get("key") else key_of(call)
        place = _place(value)
        uploads = read_mapping(value.pop("uploads", {}), "uploads")
        _check(call, value, uploads, files)
        if key:
            value["key"] = key
        said = digest_of(request, files)
        before = self._keeper.catalogue.holding_of_key(key) if key and uploads else None
        if before is not None and is_same(self._keeper.catalogue, before, said):
            return _living(before), False  # its uploads are files of the item by now
        read_item(
            {**value, "files": dict.fromkeys((*files, *uploads), "")}
        )  # before anything large is copied
        with ExitStack() as stack:
            for name, upload in uploads.items():
                path = stack.enter_context(self._uploads.whole(upload, call.who))
                files[name] = self._keeper.storage.stage(name, path)
            # With the digests: without a key, items differ that differ in the bytes of their files only.
            draft = read_item({**value, "files": {name: file.sha256 for name, file in files.items()}})
            content = digest_of({**request, "uploads": {}}, files)
            digests = sorted({said, content}) if key else ()
            with offered(files):
                holding, new = self._deposited(call, draft, files, place, digests)
            if key and not is_same(self._keeper.catalogue, holding, content):
                raise another(holding)
            listed(files, holding)
        for upload in uploads.values():
            self._uploads.forget(upload, call.who)
        return holding, new

    def _deposited(
        self, call: Call, draft: Draft, files: Files, place: Place, request: Sequence[str]
    ) -> tuple[Holding, bool]:
        before = self._of_key(draft)
        try:
            holding = deposit(self._keeper, draft, files.values(), call.who, place, request)
        except AlreadyHeld:
            found = None if before else self._of_key(draft)  # the same request, twice at the same time
            if found is None or (draft.forms is not None and not found.forms.shares(draft.forms)):
                raise
            holding = before = found
        return _living(holding), before is None

    def _of_key(self, draft: Draft) -> Holding | None:
        return self._keeper.catalogue.holding_of_key(draft.key) if draft.key else None


def _living(holding: Holding) -> Holding:
    if holding.deleted:
        raise Refusal(410, removed(holding))
    return holding


def _place(value: dict[str, Any]) -> Place:
    """Take the words out that place the item. Raises BadItem, ParseError."""
    names = {word: parse_name(read_text(value.pop(word), word)) for word in RELATIONS if word in value}
    as_item = value.pop("metadata_as_item", False)
    if not isinstance(as_item, bool):
        raise BadItem("{name} is true or false", name="metadata_as_item")
    return Place(**names, metadata_as_item=as_item)


def _check(call: Call, value: dict[str, Any], uploads: dict[str, str], files: Files) -> None:
    """Refuse what must not be said here. Raises Refusal, BadItem."""
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
    if len(set(uploads.values())) < len(uploads):
        raise BadItem("an upload becomes one file")
