"""What the proof of several nodes lets pass, and what it does not."""

from __future__ import annotations

import time

import pytest

from proofs.nodes.asking import Reply
from proofs.nodes.truth import Acknowledged, Deposited, Kills, Links, place


def reply(begun: float, ended: float, status: int = 0, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, begun, ended, b"", named)


def test_readers_may_be_led_to_what_was_so_while_they_asked_and_to_nothing_older() -> None:
    links = Links(1)
    assert links.allowed(0, reply(1, 2)) == [place(0, 0)]
    links.begin(0, 3)
    assert links.allowed(0, reply(1, 2)) == [place(0, 0)]
    assert links.allowed(0, reply(2, 4)) == [place(0, 0), place(0, 1)]
    links.acknowledge(0, 5)
    assert links.allowed(0, reply(4, 6)) == [place(0, 0), place(0, 1)]
    assert links.allowed(0, reply(6, 7)) == [place(0, 1)]
    assert links.allowed(0, reply(6, 7), age=2) == [place(0, 0), place(0, 1)]
    links.begin(0, 8)
    assert links.allowed(0, reply(9, 10)) == [place(0, 1), place(0, 2)]


def test_a_label_that_comes_twice_is_found_out() -> None:
    acknowledged = Acknowledged()
    assert acknowledged.write_down(Deposited("1", "a", "x")) is None
    assert acknowledged.write_down(Deposited("1", "a", "x")) is None
    assert acknowledged.write_down(Deposited("2", "b", "y")) is None
    assert acknowledged.write_down(Deposited("3", "c", "x")) == "1"


def test_only_a_kill_of_a_node_of_the_service_excuses_a_request_in_flight() -> None:
    kills = Kills()
    before = time.monotonic()
    with kills.kill("archive"):
        under_way = time.monotonic()
        assert kills.excuse(["archive"], reply(under_way, under_way)) == 0
    after = time.monotonic()
    assert kills.excuse(["archive"], reply(before - 2, after)) == 0
    assert kills.excuse(["archive"], reply(after + 1, after + 2)) is None
    assert kills.excuse(["archive"], reply(before - 2, before - 1)) is None
    assert kills.excuse(["resolver"], reply(before - 2, after)) is None


@pytest.mark.parametrize(
    ("answer", "refused", "failed"),
    [
        (reply(0, 1, 503, retry_after="2"), True, False),
        (reply(0, 1, 503), False, False),
        (reply(0, 1, 500, retry_after="2"), False, False),
        (reply(0, 1), False, True),
        (reply(0, 1, 502, content_type="text/html"), False, True),
        (reply(0, 1, 502, content_type="application/problem+json"), False, False),
    ],
)
def test_what_is_a_refusal_and_what_is_no_answer(answer: Reply, refused: bool, failed: bool) -> None:
    assert (answer.refused, answer.failed) == (refused, failed)
