"""The JSON interface: what an administrator learns of what cannot be."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.api.dispatch import Api
from ibi.api.routes import Route, answer, explained
from ibi.errors import SetupError
from ibi.http.request import Request
from ibi.http.response import Response


async def _nothing() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


def _request(act: Any, tmp_path: Path) -> Response:
    """What a decision comes to, asked for with the right token."""
    token = Tokens(tmp_path).make("t", "2026-11-22T10:00:00Z", [Scope.ADMIN])
    api = Api([Route("POST", "/x/<word>", Scope.ADMIN, explained(act), "x")], Tokens(tmp_path), 100)
    assert api.knows("/-/api/x/a")
    assert not api.knows("/x/a")
    assert not api.knows("/-/api/y")
    request = Request("POST", "/-/api/x/a%2Fb", "", {b"authorization": f"bearer {token}".encode()})
    return asyncio.run(api.answer(request, _nothing))


def test_of_a_setting_that_cannot_be_an_administrator_is_told_why(tmp_path: Path) -> None:
    def act(call: Any, _value: Any) -> Response:
        raise SetupError("{word} cannot be", word=call.word)

    answered = _request(act, tmp_path)
    assert (answered.status, json.loads(answered.body)["detail"]) == (422, "a/b cannot be")


def test_of_a_disk_that_fails_no_client_learns_more_than_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def act(_call: Any, _value: Any) -> Response:
        try:
            (tmp_path / "nothing" / "here").read_bytes()
        except OSError as error:
            raise SetupError("{path} cannot be read", path=error.filename) from None
        return answer({})

    answered = _request(act, tmp_path)
    assert answered.status == 503
    assert str(tmp_path) not in answered.body.decode()
    assert str(tmp_path) in caplog.text
