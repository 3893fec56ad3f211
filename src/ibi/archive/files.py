"""Stored files over HTTP: only what the catalogue lists, with its digest as its tag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError
from ibi.exchange import Response

if TYPE_CHECKING:
    from ibi.archive.holding import Holding, StoredFile
    from ibi.archive.storage import Storage
    from ibi.exchange import Asked, Headers

_ACTIVE_TYPES: Final = frozenset(
    {"text/html", "application/xhtml+xml", "image/svg+xml", "application/xml", "text/javascript"}
)
"""Types that can run scripts: served in a sandbox, so that they cannot act for the Archive (note 32)."""

_SANDBOX: Final = (
    "sandbox allow-downloads allow-popups; object-src 'none'; base-uri 'none'; form-action 'none'"
)


def serve_file(asked: Asked, storage: Storage, holding: Holding, file: StoredFile) -> Response:
    """A file of an item. Raises SetupError if it is listed, but not there as it was listed."""
    tag = f'"{file.sha256}"'
    headers: Headers = (("etag", tag), ("cache-control", "no-cache"))
    if holding.language:
        headers = (*headers, ("content-language", holding.language))
    if file.media_type in _ACTIVE_TYPES:
        headers = (*headers, ("content-security-policy", _SANDBOX))
    if tag in map(str.strip, asked.header(b"if-none-match").split(",")):
        return Response(304, headers=headers)
    try:
        opened = storage.open(holding.forms, file)
    except OSError as error:
        reason = error.strerror or error
        raise SetupError("the file {name} cannot be read: {reason}", name=file.name, reason=reason) from None
    return Response(200, content_type=file.media_type, headers=headers, file=opened, size=file.size)
