"""What a resolver says of the holders of originals, whole: each kind of holder, each refusal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ibi.accounts.tokens import Tokens
from ibi.api.dispatch import Api
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.identifier.forms import parse_ibi
from ibi.protocol.extensions.holdings import MOST_HOLDERS
from ibi.resolver.api import holders
from ibi.resolver.cache.hints import HolderHint
from ibi.resolver.model.archive import Archive

HOLDER, OTHER = "a.example/w/2020/01.01.00.00", "b.example/w/2020/01.01.00.00"
NAMES = {
    word: f"c.example/{word}/2020/01.02.00.00"
    for word in ("held", "gone", "away", "twice", "unknown", "removed", "other")
}
KNOWN = {
    "held": HolderHint(None, HOLDER),
    "gone": HolderHint(None, HOLDER, removed=True),
    "away": HolderHint(None, OTHER),
    "twice": HolderHint(None, ""),
    "unknown": HolderHint(None, None),
    "removed": HolderHint(None, None),
    "other": HolderHint(OTHER, None),
}


class Hints:
    """What is known of these items; the Archive HOLDER has removed one of them, and OTHER another."""

    def of(self, name: str) -> HolderHint:
        return next(KNOWN[word] for word, known in NAMES.items() if known == name)

    def says_removed(self, name: str, service: str) -> bool:
        reports = [
            (NAMES["removed"], HOLDER),
            (NAMES["other"], OTHER),
            (NAMES["held"], HOLDER),
            (NAMES["removed"], ""),
        ]
        return (name, service) in reports


def ask(folder: Path, query: str) -> Response:
    hints: Any = Hints()
    route = holders.route(hints, lambda: [Archive(parse_ibi(HOLDER), "a.example:8080")])
    api = Api([route], Tokens(folder), 100)

    async def nothing() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    return asyncio.run(api.answer(Request("GET", "/-/api/holders", query, {}), nothing))


def row(name: str, original: str | None = None, address: str = "", **facts: bool) -> dict[str, Any]:
    return {
        "ibi": name,
        "original": original,
        "address": address,
        "removed": False,
        "disputed": False,
        **facts,
    }


def test_each_item_is_told_in_the_order_and_the_spelling_of_the_question(tmp_path: Path) -> None:
    rows = [
        row(NAMES["held"], HOLDER, "a.example:8080"),
        row(NAMES["gone"].upper(), HOLDER, "a.example:8080", removed=True),
        row(NAMES["away"], OTHER),
        row(NAMES["twice"], disputed=True),
        row(NAMES["unknown"]),
        row(NAMES["removed"]),
        row(NAMES["other"]),
    ]
    words = quote(" ".join(each["ibi"] for each in rows))
    response = ask(tmp_path, f"ibi={words}")
    assert (response.status, json.loads(response.body)) == (200, {"items": rows})
    rows[5]["removed"] = True
    response = ask(tmp_path, f"service={HOLDER.upper()}&ibi={words}")
    assert json.loads(response.body) == {"items": rows}


@pytest.mark.parametrize("count", [0, 1, MOST_HOLDERS, MOST_HOLDERS + 1])
def test_so_many_items_are_asked_for_at_once(tmp_path: Path, count: int) -> None:
    response = ask(tmp_path, f"ibi={'+'.join([NAMES['held']] * count)}")
    if 1 <= count <= MOST_HOLDERS:
        assert len(json.loads(response.body)["items"]) == count
    else:
        assert (response.status, json.loads(response.body)["detail"]) == (
            400, f"ibi is a list of at most {MOST_HOLDERS} names, with blanks between",
        )  # fmt: skip


@pytest.mark.parametrize("query", ["ibi=nothing", f"ibi={NAMES['held']}&service=nothing"])
def test_what_is_no_name_is_refused(tmp_path: Path, query: str) -> None:
    response = ask(tmp_path, query)
    assert (response.status, json.loads(response.body)["detail"]) == (
        400, "nothing: the characters 0, 1, I, O, V, Y and Z do not occur in an IBIp",
    )  # fmt: skip
