"""Receipts: signed statements of an Archive about an item, which can be verified offline and years later.

    {"receipt": {…}, "signature": "…"}

A receipt file is one line of canonical JSON (`ibi.runtime.signing`). The signature is Ed25519 over the
canonical JSON of the receipt. The receipt has the public key in it, which the Archive also publishes at
/-/about. A receipt file that differs in any byte from the issued one is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.file_names import file_parts
from ibi.errors import BadItem, IbiError
from ibi.runtime.durable_files import open_regular
from ibi.runtime.signing import canonical, is_key, is_signed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.identifier.forms import IBIForms
    from ibi.runtime.signing import Signer

KIND: Final = "ibi receipt"
VERSION: Final = 1
LONGEST: Final = 64 << 20
"""Bytes of the longest receipt that is read. It is large because an item may have many files."""

_CREATORS = ("creator", "contributor")
_TRANSFERS = frozenset({"given", "received", "copied", "refreshed"})
_ARRIVALS = ("deposited", "imported", "harvested", "copied", "received")


def receipt(
    holding: Holding, events: Sequence[ItemEvent], service: IBIForms, address: str, moment: str
) -> dict[str, Any]:
    """Make the content of a receipt for an item; `moment` is "2026-11-21T10:00:00Z", `events` the history.

    `service` is the issuing Archive, which answers at `address`.
    """
    arrival = next((event for event in events if event.what in _ARRIVALS), None)
    metadata = holding.metadata or {}
    return {
        "kind": KIND,
        "version": VERSION,
        "item": _named(holding.forms) | {"aliases": [str(alias) for alias in holding.aliases]},
        "title": [each.value for each in metadata.get("title", ())],
        "authors": [each.value for element in _CREATORS for each in metadata.get(element, ())],
        "depositor": arrival.who if arrival else None,
        "deposited": arrival.moment if arrival else None,
        "state": holding.state.value,
        "timestamp": holding.timestamp,
        "url": holding.url,
        "access": holding.access.value,
        "rights": holding.rights,
        "licence": holding.licence,
        "reason": holding.reason,
        "replacement": str(holding.replacement.main) if holding.replacement else None,
        "files": [
            {"name": file.name, "size": file.size, "sha256": file.sha256, "type": file.media_type}
            for file in holding.files
        ],
        "holder": {"service": _named(service), "address": address},
        "transfers": [
            {"moment": event.moment, "who": event.who, "what": event.what, "detail": _plain(event.detail)}
            for event in events
            if event.what in _TRANSFERS
        ],
        "issued": moment,
    }


def sign_receipt(content: Mapping[str, Any], signer: Signer) -> bytes:
    """Return the bytes of a receipt file: the content with the public key, and the signature."""
    whole = {**content, "key": {"type": "Ed25519", "public": signer.public}}
    return canonical({"receipt": whole, "signature": signer.sign(canonical(whole))}) + b"\n"


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt whose signature was verified with the key in it; `content` is what was attested."""

    content: Mapping[str, Any]
    key: str


def read_receipt(text: bytes) -> Receipt:
    """Read a receipt and check its signature. Raises BadItem, which says what is wrong with the receipt.

    Whether the key is the Archive's is not checked: compare `Receipt.key` with the published key.
    """
    try:
        value = json.loads(text)
        content, signature = value["receipt"], value["signature"]
        key = content["key"]["public"]
        if not (isinstance(signature, str) and isinstance(key, str) and _is_ours(content)):
            raise BadItem("this is not a receipt")
        spelled, message = canonical(value), canonical(content)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadItem("this is not a receipt") from None
    if spelled + b"\n" != text:
        raise BadItem("the receipt is not spelled as it was issued: it has been changed")
    if not is_signed(message, signature, key):
        raise BadItem("the signature is not that of this receipt: it has been changed")
    return Receipt(content, key)


def is_signed_by(receipt: Receipt, key: str) -> bool:
    """Return whether a receipt was signed with this key, given as text. Raises BadItem if it is malformed."""
    if not is_key(key):
        raise BadItem("a key is 64 hexadecimal digits, as the Archive tells it at /-/about")
    return receipt.key == key


def compare_files(receipt: Receipt, folder: Path) -> Iterator[tuple[str, IbiError | None]]:
    """Compare a folder with the attested files; yield the name of each, and its fault or None."""
    for file in receipt.content["files"]:
        yield file["name"], _fault(folder, file)


def _fault(folder: Path, file: Mapping[str, Any]) -> IbiError | None:
    try:
        path = folder.joinpath(*(os.fsdecode(part) for part in file_parts(file["name"])))
        with open_regular(path, follow=True) as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto
            size = opened.tell()
    except IbiError as error:
        return error
    except FileNotFoundError:
        return BadItem("{name} is not there", name=file["name"])
    except OSError as error:
        return BadItem("{path} cannot be read: {reason}", path=file["name"], reason=error.strerror)
    if (size, digest) != (file["size"], file["sha256"]):
        return BadItem("{name} is not the attested file", name=file["name"])
    return None


def _is_ours(content: Any) -> bool:
    """Return whether an object is a receipt of this kind and version; only used fields are checked."""
    files = content.get("files") if isinstance(content, dict) else None
    return (
        isinstance(files, list)
        and content.get("kind") == KIND
        and content.get("version") == VERSION
        and isinstance(content.get("item"), dict)
        and isinstance(content.get("holder"), dict)
        and isinstance(content["holder"].get("service"), dict)
        and all(_is_file(file) for file in files)
    )


def _is_file(file: Any) -> bool:
    return (
        isinstance(file, dict)
        and isinstance(file.get("name"), str)
        and isinstance(file.get("size"), int)
        and isinstance(file.get("sha256"), str)
    )


def _named(forms: IBIForms) -> dict[str, Any]:
    return {"rep": forms.rep and str(forms.rep), "ibip": forms.ibip and str(forms.ibip)}


def _plain(detail: Any) -> Any:
    """Return a detail of the history with floats as texts, because floats have no canonical spelling."""
    if isinstance(detail, dict):
        return {str(name): _plain(each) for name, each in detail.items()}
    if isinstance(detail, list | tuple):
        return [_plain(each) for each in detail]
    return str(detail) if isinstance(detail, float) else detail
