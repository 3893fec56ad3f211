"""Limits of what people and programs type: figures as they are documented, and the sentences that tell them."""

from __future__ import annotations

import json
import time
from pathlib import Path

from ibi.accounts.people import Accounts, Role, check_password
from ibi.accounts.tokens import Tokens
from ibi.api.idempotency import Replies
from ibi.archive.search.words import search_query
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.minting.order import LabelOrder
from support.checks.limits import meet, meet_least

MADE = "2026-11-27T12:00:00Z"
LETTERS = "abcdefghijkl"
REQUEST = Request("POST", "/", "", {})


def test_passwords() -> None:
    def take(length: int) -> None:
        check_password((LETTERS * length)[:length], "maria")

    meet_least(12, take, "a password has at least 12 characters; a few words are good")
    meet(200, take, "a password has at most 200 characters")

    def of_so_many_letters(number: int) -> None:
        check_password((LETTERS[:number] * 12)[:24], "maria")

    easy = "this password is easy to guess; choose one without the name of the account"
    meet_least(5, of_so_many_letters, easy)


def test_names_of_tokens_and_accounts(tmp_path: Path) -> None:
    meet(
        64,
        lambda length: Tokens(tmp_path).make("a" * length, MADE),
        "the name of a token is made of at most 64 letters without accents, digits, dots, "
        "hyphens and underlines, without blanks",
    )
    meet(
        64,
        lambda length: Accounts(tmp_path).add("a" * length, Role.DEPOSITOR, "correct horse", MADE),
        "the name of an account is made of at most 64 letters without accents, digits, dots, "
        "hyphens and underlines, without blanks",
    )


def test_the_key_of_a_request_that_is_done_once(tmp_path: Path) -> None:
    def take(length: int) -> None:
        with Replies(tmp_path, time.time).reply_to("ada", "k" * length, "r") as reply:
            reply.give(Response(201), is_secret=False)

    meet(255, take, "Idempotency-Key has at most 255 characters")


def test_searches() -> None:
    meet(500, lambda length: search_query({"text": "a" * length}), "a search has at most 500 characters")
    meet(32, lambda count: search_query({"text": "a " * count}), "a search has at most 32 words")


def test_orders_of_labels() -> None:
    def read(name: str, value: object) -> None:
        LabelOrder.read(REQUEST, json.dumps({name: value}).encode())

    meet(10_000, lambda count: read("count", count), "count must be a whole number from 1 to 10000")
    meet_least(1, lambda count: read("count", count), "count must be a whole number from 1 to 10000")
    meet(
        200,
        lambda length: read("collection", "c" * length),
        "collection must be a text of at most 200 characters",
    )
