"""Requests that may be sent again: under one Idempotency-Key the same content gives the same item, and another none.

What a deposit said stands as digests in the first line of the history of its item, so that a request is known again
after the item was edited, too. An Archive that has none of an older item takes every request for the same.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.ledgers import history
from ibi.errors import IbiError
from ibi.interface.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding, StoredFile
    from ibi.interface.routes import Call

LONGEST_KEY: Final = 255
"""Characters of an Idempotency-Key."""

_DIGITS: Final = 32


def key_of(call: Call) -> str:
    """The key under which the item of this request is kept, "" if the request has none. Raises Refusal (400)."""
    given = call.asked.header(b"idempotency-key").strip()
    if len(given) > LONGEST_KEY or not given.isprintable():
        raise Refusal(400, IbiError("Idempotency-Key is a short printable text"))
    return f"idempotency:{_digest(f'{call.who} {given}')}" if given else ""


def digest_of(value: Mapping[str, Any], files: Mapping[str, StoredFile]) -> str:
    """A digest of what a request says, and of the bytes of its files."""
    said = {**value, "files": {name: file.sha256 for name, file in files.items()}}
    return _digest(json.dumps({"uploads": {}, **said}, sort_keys=True, separators=(",", ":")))


def is_same(catalogue: Catalogue, holding: Holding, digest: str) -> bool:
    """Whether the item was deposited by a request of this digest."""
    with catalogue.reading() as run:
        first = history.events_of(run, holding.number)[:1]
    known = first[0].detail.get("request") if first else None
    return not known or digest in known


def another(holding: Holding) -> Refusal:
    """What is told of a request whose key is that of another one, which became this item."""
    problem = "{name} came of this request already; another item needs a request, or a form, of its own"
    return Refusal(422, IbiError(problem, name=holding.forms.main))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGITS]
