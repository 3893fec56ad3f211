"""Programs that ask a JSON interface over a socket: with a token, and exactly what a test wants."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from ibi.accounts.tokens import Scope, Tokens
from support.checks.description import PATH, Description, description

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
    """A client of the service of a data directory, with a token for each set of scopes.

    Every answer must be as the service describes its interface.
    """

    data: Path
    port: int
    tokens: dict[str, str] = field(default_factory=dict)
    described: Description | None = None

    def token(self, *scopes: Scope) -> str:
        """A token with these scopes; it is called by them."""
        name = "-".join(scopes) or "nothing"
        if name not in self.tokens:
            self.tokens[name] = Tokens(self.data).make(name, MADE, scopes)
        return self.tokens[name]

    def get(self, target: str) -> Reply:
        """GET a target outside the JSON interface."""
        return self._send("GET", target, None, {})

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
        return self._send(method, f"/-/api{path}", body, given)

    def _send(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        reply = self._exchange(method, target, body, headers)
        if self.described is None:
            self.described = description(self._exchange("GET", PATH, None, {}).body)
        kind = reply.headers.get("content-type", "")
        method = headers.get("x-http-method-override", method)
        self.described.check(method, target, reply.status, kind, reply.body)
        return reply

    def _exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, body, headers)
            reply = connection.getresponse()
            return Reply(
                reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
            )
        finally:
            connection.close()
