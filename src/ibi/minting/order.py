"""Reads an order for labels over HTTP, and writes the labels of its answer.

Order:    {"count": 3, "forms": "both", "collection": "theses"}    every field is optional, and so is the body
Answer:   {"labels": [{"rep": ..., "ibip": ..., "datetime": ...}, ...]}
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ibi.api.bodies import Body
from ibi.errors import IbiError
from ibi.http.response import Refusal
from ibi.identifier.dates import TICKS, date_text, fraction_digits
from ibi.minting.batcher import LONGEST_WAIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ibi.api.bodies import Receive
    from ibi.http.request import Request
    from ibi.identifier.distributor import Batch
    from ibi.identifier.generator import LabelGenerator
    from ibi.minting.batcher import LabelBatcher

MOST_LABELS: Final = 10_000
"""Labels of one request."""
LONGEST_BODY: Final = 4 * 1024
"""Bytes of a request's body."""
LONGEST_COLLECTION: Final = 200
"""Characters of the name of a collection."""

_FIELDS: Final = ("count", "forms", "collection")
_FORMS: Final = ("both", "rep", "ibip")
_EXAMPLE: Final = '{"count": 10}'
_SHOWN: Final = 40  # characters of a faulty name in an error message
_PIECE: Final = 1000  # labels that are written in one go; then the event loop gets control


@dataclass(frozen=True, slots=True)
class LabelOrder:
    """An order of `count` labels in these forms (None: all forms), perhaps for items of a collection."""

    count: int = 1
    forms: str | None = None
    collection: str | None = None
    as_text: bool = False

    @classmethod
    def read(cls, request: Request, body: bytes) -> LabelOrder:
        """Read the order of a request. Raises Refusal."""
        if request.query:
            raise Refusal(400, IbiError("the request belongs in the body, not in the address"))
        accept = request.header(b"accept").lower()
        as_text = "text/plain" in accept and "json" not in accept
        return cls(**_fields(body), as_text=as_text) if body.strip() else cls(as_text=as_text)

    def able(self, batchers: Sequence[LabelBatcher]) -> list[LabelBatcher]:
        """Return the batchers that have these forms and can give so many labels in time. Raises Refusal."""
        having = [each for each in batchers if self.forms in {None, "rep"} or each.generator.ip is not None]
        if not having:
            raise _bad("there is no IP address here to make IBIps from; ask for the form rep")
        most = max(each.most_labels for each in having)
        if self.count > most:
            problem = "count may be at most {most} here: more cannot be given in {seconds} seconds"
            raise _bad(problem, most=most, seconds=LONGEST_WAIT)
        return [each for each in having if self.count <= each.most_labels]


async def read_body(request: Request, receive: Receive) -> bytes:
    """Read the body of a request. Raises Refusal and ClientGone."""
    body = Body(request, receive, LONGEST_BODY)
    content = b"".join([piece async for piece in body.pieces()])
    if content and body.kind != "application/json":
        raise Refusal(415, IbiError("the body must be plain JSON: Content-Type: application/json"))
    return content


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body.decode(), object_pairs_hook=_once)  # UTF-8 only (RFC 8259)
    except (ValueError, RecursionError):
        raise _bad("the body is not JSON") from None
    if not isinstance(fields, dict):
        raise _bad("the body must be a JSON object like {example}", example=_EXAMPLE)
    count, forms, collection = (fields.get(name) for name in _FIELDS)
    # Not isinstance, because true and false are integers in Python.
    if "count" in fields and (type(count) is not int or not 1 <= count <= MOST_LABELS):
        raise _bad("count must be a whole number from 1 to {most}", most=MOST_LABELS)
    if "forms" in fields and forms not in _FORMS:
        raise _bad("forms must be one of: {forms}", forms=", ".join(_FORMS))
    if "collection" in fields and not _is_name(collection):
        raise _bad("collection must be a text of at most {most} characters", most=LONGEST_COLLECTION)
    return fields


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; raise Refusal for an unknown or repeated field."""
    names = [name for name, _ in pairs]
    for name in names:
        if name not in _FIELDS:
            shown = name[:_SHOWN].encode("ascii", "backslashreplace").decode()
            raise _bad("there is no field {name}; there are: {fields}", name=shown, fields=", ".join(_FIELDS))
        if names.count(name) > 1:
            raise _bad("the field {name} is there twice", name=name)
    return dict(pairs)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_COLLECTION and value.isprintable()


def _bad(problem: str, **details: object) -> Refusal:
    return Refusal(400, IbiError(problem, **details))


async def write_labels(generator: LabelGenerator, batches: Iterable[Batch], order: LabelOrder) -> bytes:
    """Write the answer with the labels of these dates, in pieces, so that other requests are not held up."""
    write = _as_text if order.as_text else _as_json
    pieces = []
    for batch in batches:
        while len(batch):
            piece, batch = batch.split(_PIECE)  # noqa: PLW2901 - the rest of the batch
            pieces.append(write(generator, piece, order.forms))
            if len(batch):
                await asyncio.sleep(0)
    if order.as_text:
        return "".join(pieces).encode()
    return f'{{"labels":[{",".join(pieces)}]}}'.encode()


def _as_json(generator: LabelGenerator, batch: Batch, forms: str | None) -> str:
    """Write labels as JSON objects; labels and dates need no escaping: plain ASCII, no quotation marks."""
    rows = zip(generator.spell(batch), _moments(batch), strict=True)
    if forms == "rep" or generator.ip is None:
        return ",".join([f'{{"rep":"{rep}","ibip":null,"datetime":"{when}"}}' for (rep, _), when in rows])
    if forms == "ibip":
        return ",".join([f'{{"rep":null,"ibip":"{ibip}","datetime":"{when}"}}' for (_, ibip), when in rows])
    return ",".join([f'{{"rep":"{rep}","ibip":"{ibip}","datetime":"{when}"}}' for (rep, ibip), when in rows])


def _as_text(generator: LabelGenerator, batch: Batch, forms: str | None) -> str:
    """Write labels in the form of `ibi mint`: one label a line."""
    if forms == "rep" or generator.ip is None:
        return "".join([f"{rep}\n" for rep, _ in generator.spell(batch)])
    if forms == "ibip":
        return "".join([f"{ibip}\n" for _, ibip in generator.spell(batch)])
    return "".join([f"{rep} {ibip}\n" for rep, ibip in generator.spell(batch)])


def _moments(dates: Iterable[int]) -> Iterator[str]:
    """Yield `date_text` of each date; faster for many, because dates of one second differ in the fraction."""
    second, text = -1, ""
    for date in dates:
        seconds, rest = divmod(date, TICKS)
        if seconds != second:
            second, text = seconds, date_text(seconds * TICKS).removesuffix("Z")
        yield f"{text}.{fraction_digits(rest)}Z" if rest else f"{text}Z"
