"""uvicorn with nothing behind it: an ASGI callable that redirects, the least that any application in Python can do."""

from __future__ import annotations

from typing import Any


async def app(scope: Any, _receive: Any, send: Any) -> None:
    """Redirect to the same path elsewhere."""
    if scope["type"] != "http":
        return
    there = b"http://files.example" + scope["raw_path"]
    headers = [
        (b"location", there),
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"0"),
    ]
    await send({"type": "http.response.start", "status": 302, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
