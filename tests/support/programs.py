"""Programs that ask a JSON interface over a socket: with a token, and exactly what a test wants."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from ibi.accounts.tokens import Scope, Tokens

MADE = "2023-11-14T22:13:20Z"


@dataclass(frozen=True)
class Reply:
    """One HTTP answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as a text."""
        return self.body.decode("utf-8")

    def content(self, status: int = 200) -> Any:
        """Return the JSON of an answer, which must have this status."""
        assert self.status == status, self.text
        return json.loads(self.body)


@dataclass
class Program:
    """A client of the service of a data directory, with a token for each set of scopes."""

    data: Path
    port: int
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, *scopes: Scope) -> str:
        """A token with these scopes; it is called by them."""
        name = "-".join(scopes) or "nothing"
        if name not in self.tokens:
            self.tokens[name] = Tokens(self.data).make(name, MADE, scopes)
        return self.tokens[name]

    def get(self, target: str) -> Reply:
        """GET a target outside the JSON interface."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", target)
            reply = connection.getresponse()
            return Reply(reply.status, {n.lower(): v for n, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def ask(
        self, method: str, path: str, body: Any = None, *scopes: Scope, token: str = "", **headers: str
    ) -> Reply:
        """One request below /-/api; a body that is no bytes goes as JSON. Header names with "_" for "-"."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given.setdefault("content-type", "application/json")
        if scopes or token:
            given["authorization"] = f"Bearer {token or self.token(*scopes)}"
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/-/api{path}", body, given)
            reply = connection.getresponse()
            headers = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, headers, reply.read())
        finally:
            connection.close()
