"""A resolver and Archives that speak the messages of the standard over http and nothing else.

No page tells who they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

_READER = {"clientinformation.ipaddress": "192.0.2.1"}


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
        with _answering(self.answer) as self.url:
            yield self

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
        confirmed = _response(
            pairs["archiveaddress"], f"/{service}?servicesubject=inclusionConfirmationRequest"
        )
        self.included[service] = pairs["archiveaddress"]
        yes = confirmed.split() == ["confirmation", "yes"]
        return 200, f"status.archive included status.confirmation {'' if yes else 'un'}successful"

    def ask(self, name: str, service: str) -> dict[str, str]:
        """Ask one Archive for an item (R15 8.1): what it says of it, {} if it does not have it."""
        question = {"servicesubject": "urlRequest", "parsedibiurl.ibi": name, **_READER}
        words = _response(self.included[service], f"/{service}?{urlencode(question)}").split()
        facts = ("contenttype", "state", "url", "urlkey")
        return {word: words[words.index(word) + 1] for word in facts if word in words}

    def click(self, name: str) -> str:
        """Lead a reader to the original of an item, and acknowledge it (R15 8.1 to 8.3); the URL."""
        answers = {service: self.ask(name, service) for service in self.included}
        [(service, facts)] = [each for each in answers.items() if each[1].get("state") == "Original"]
        report = {
            "servicesubject": "acknowledgment", "url.persistent": f"{self.url}/{name}", **_READER, **facts,
        }  # fmt: skip
        reply = _response(self.included[service], f"/{service}?{urlencode(report)}")
        assert reply == "notice {acknowledgment received}"
        return facts["url"]


class StandardArchive:
    """Says the same of every item: `state`, and below its root the URL, unless it is "" (R15 chapter 6)."""

    def __init__(self, service: str, state: str) -> None:
        self.service = service
        self.state = state
        self.url = ""
        self.acknowledgments: list[dict[str, str]] = []

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")

    @contextmanager
    def running(self) -> Iterator[Self]:
        with _answering(self.answer) as self.url:
            yield self

    def answer(self, target: str) -> tuple[int, str]:
        parts = urlsplit(target)
        pairs = dict(parse_qsl(parts.query))
        subject = pairs.get("servicesubject")
        if parts.path != f"/{self.service}":
            return 404, "not found"
        if subject == "inclusionConfirmationRequest":
            return 200, "confirmation yes"
        if subject == "acknowledgment":
            self.acknowledgments.append(pairs)
            return 200, "notice {acknowledgment received}"
        name = pairs.get("parsedibiurl.ibi", "")
        if not self.state:
            return 200, ""
        facts = {
            "contenttype": "Data", "ibi": f"{{rep {name}}}", "ibi.archiveservice": f"{{rep {self.service}}}",
            "state": self.state, "url": f"{self.url}/items/{name}", "urlkey": "7" * 20,
        }  # fmt: skip
        return 200, " ".join(f"{pair} {value}" for pair, value in facts.items())


@contextmanager
def _answering(answer: Callable[[str], tuple[int, str]]) -> Iterator[str]:
    """Serve GET on a port of this machine; the root URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer(self.path)
            self.send_response(status)
            self.send_header("content-type", "text/plain")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _response(address: str, target: str) -> str:
    """What an Archive answers."""
    connection = HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", target)
        return connection.getresponse().read().decode().strip()
    finally:
        connection.close()
