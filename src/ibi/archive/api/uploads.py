"""Uploads that can be resumed, over HTTP: tus 1.0.0 with its extensions creation, expiration and termination.

    POST   /-/api/uploads          Upload-Length: 1000              201, Location
    HEAD   /-/api/uploads/<id>                                      how far it is: Upload-Offset
    PATCH  /-/api/uploads/<id>     Upload-Offset: 0, and bytes      204, Upload-Offset
    DELETE /-/api/uploads/<id>                                      204

A complete upload becomes a file of an item when the item is deposited with `uploads`, or a file of it is put.
"""

from __future__ import annotations

from contextlib import ExitStack
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError
from ibi.exchange import NO_STORE, Response
from ibi.interface.refusal import Refusal
from ibi.interface.routes import ROOT, Route, aside
from ibi.tokens import Scope

if TYPE_CHECKING:
    from ibi.archive.api.upload_store import Upload, Uploads
    from ibi.interface.routes import Call

VERSION: Final = "1.0.0"
"""Of the tus protocol."""
TUNNEL: Final = "/uploads/"
"""The paths of uploads, whose PATCH and DELETE may come as POST from networks that know no others."""
LONGEST_METADATA: Final = 2048
"""Characters of Upload-Metadata, which is kept and told again."""

_BYTES: Final = "application/offset+octet-stream"
_TUS: Final = (("tus-resumable", VERSION), *NO_STORE)
_HEADERS: Final = {"tus-resumable": {"type": "string", "enum": [VERSION]}}
_NUMBER: Final = {"type": "integer", "minimum": 0}


def routes(uploads: Uploads) -> tuple[Route, ...]:
    """The table of uploads."""
    door = _Door(uploads)
    refused = (410, 412)
    return (
        Route(
            "OPTIONS", "/uploads", None, door.tell, "what this server understands of tus", status=204
        ),
        Route(
            "POST", "/uploads", Scope.DEPOSIT, door.begin, "begin an upload that can be resumed", status=201,
            refusals=(412, 413, 429, 507),
            headers={**_HEADERS, "upload-length": _NUMBER, "upload-metadata": {"type": "string"}},
        ),
        Route(
            "HEAD", "/uploads/<word>", Scope.DEPOSIT, door.look, "how far an upload is", refusals=refused,
            headers=_HEADERS,
        ),
        Route(
            "PATCH", "/uploads/<word>", Scope.DEPOSIT, door.go_on, "bring more bytes of an upload", status=204,
            refusals=(*refused, 409, 411, 413, 415, 507), headers={**_HEADERS, "upload-offset": _NUMBER},
            other_bodies={_BYTES: {"type": "string", "format": "binary"}},
        ),
        Route(
            "DELETE", "/uploads/<word>", Scope.DEPOSIT, door.give_up, "give an upload up", status=204,
            refusals=(*refused, 409), headers=_HEADERS,
        ),
    )  # fmt: skip


class _Door:
    """The functions of the table."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads

    async def tell(self, _call: Call) -> Response:
        """What is understood here."""
        told = (
            ("tus-version", VERSION),
            ("tus-extension", "creation,expiration,termination"),
            ("tus-max-size", str(self._uploads.largest)),
        )
        return Response(204, headers=(*_TUS, *told))

    async def begin(self, call: Call) -> Response:
        """Begin an upload; its length is known from the beginning."""
        _check_version(call)
        length = _number(call, b"upload-length", "Upload-Length")
        if length > self._uploads.largest:
            problem = "an upload may have at most {most} bytes"
            raise Refusal(413, IbiError(problem, most=self._uploads.largest), *_TUS)
        metadata = call.asked.header(b"upload-metadata")
        if len(metadata) > LONGEST_METADATA or not metadata.isprintable():
            raise Refusal(400, IbiError("Upload-Metadata is a short printable text"), *_TUS)
        async for _ in call.body.pieces(0):
            pass
        found = await aside(self._uploads.begin, call.who, length, metadata)
        location = ("location", f"{ROOT}/uploads/{found.id}")
        return Response(201, headers=(location, *_told(found)))

    async def look(self, call: Call) -> Response:
        """How far it is."""
        _check_version(call)
        found = await aside(self._uploads.find, call.values["word"], call.who)
        metadata = (("upload-metadata", found.metadata),) if found.metadata else ()
        return Response(200, headers=(*_told(found), ("upload-length", str(found.length)), *metadata))

    async def go_on(self, call: Call) -> Response:
        """Take in more of it; whatever comes before the client goes away is kept."""
        _check_version(call)
        if call.body.kind != _BYTES:
            raise Refusal(415, IbiError("the body must be {kind}", kind=_BYTES), *_TUS)
        if not call.body.announced:
            raise Refusal(411, IbiError("the request does not say how long its body is"), *_TUS)
        offset = _number(call, b"upload-offset", "Upload-Offset")
        stack = ExitStack()
        try:
            writing = await aside(stack.enter_context, self._uploads.writing(call.values["word"], call.who))
            found = writing.found
            if offset != found.offset:
                why = IbiError("the upload goes on at {offset}", offset=found.offset)
                raise Refusal(409, why, ("upload-offset", str(found.offset)), *_TUS)
            async for piece in call.body.pieces(found.length - found.offset):
                await aside(writing.write, piece)
        finally:
            await aside(stack.close)
        return Response(204, headers=_told(found, writing.offset))

    async def give_up(self, call: Call) -> Response:
        """Remove it."""
        _check_version(call)
        await aside(self._uploads.forget, call.values["word"], call.who)
        return Response(204, headers=_TUS)


def _told(found: Upload, offset: int | None = None) -> tuple[tuple[str, str], ...]:
    at = found.offset if offset is None else offset
    expires = formatdate(found.expires, usegmt=True)
    return (("upload-offset", str(at)), ("upload-expires", expires), *_TUS)


def _check_version(call: Call) -> None:
    if call.asked.header(b"tus-resumable") not in {"", VERSION}:
        why = IbiError("only version {version} of tus is understood here", version=VERSION)
        raise Refusal(412, why, ("tus-version", VERSION), *_TUS)


def _number(call: Call, header: bytes, shown: str) -> int:
    text = call.asked.header(header)
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):  # noqa: PLR2004 - fits into 64 bits
        raise Refusal(400, IbiError("{header} must be a whole number", header=shown), *_TUS)
    return int(text)
