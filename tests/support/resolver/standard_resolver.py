"""A resolver that speaks the messages of the standard and nothing else: no page tells who it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self
from urllib.parse import parse_qsl, urlsplit


class StandardResolver:
    """Knows one key, and asks an Archive to confirm its inclusion (R15 chapter 7); everything else is 404."""

    def __init__(self, service: str, key: str) -> None:
        self.service = service
        self.key = key
        self.included: dict[str, str] = {}
        self.paths: list[str] = []
        self.subjects: list[str] = []
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[Self]:
        resolver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, text = resolver.answer(self.path)
                self.send_response(status)
                self.send_header("content-type", "text/plain")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_address[1]}"
            thread = Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def answer(self, target: str) -> tuple[int, str]:
        parts = urlsplit(target)
        self.paths.append(parts.path)
        pairs = dict(parse_qsl(parts.query))
        if "servicesubject" in pairs:
            self.subjects.append(pairs["servicesubject"])
        if parts.path != f"/{self.service}" or pairs.get("registrationkey") != self.key:
            return 404, "not found"
        service = pairs["archiveserviceibi"]
        if pairs["servicesubject"] == "exclusionRequest":
            self.included.pop(service, None)
            return 200, "status.archive excluded"
        connection = HTTPConnection(pairs["archiveaddress"], timeout=5)
        connection.request("GET", f"/{service}?servicesubject=inclusionConfirmationRequest")
        confirmed = connection.getresponse().read().split() == [b"confirmation", b"yes"]
        connection.close()
        self.included[service] = pairs["archiveaddress"]
        return 200, f"status.archive included status.confirmation {'' if confirmed else 'un'}successful"
