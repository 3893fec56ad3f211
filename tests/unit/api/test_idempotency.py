"""Replies to repeated requests: given once, repeated for a day, never with a secret."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.api.idempotency import KEPT_SECONDS, LONGEST_KEY, SWEPT_SECONDS, Replies, request_digest
from ibi.http.response import Refusal, Response
from support.checks.flushed_files import flushes


def replies(folder: Path, now: Callable[[], float] = time.time) -> Replies:
    return Replies(folder, now)


def reply_of(
    given: Replies, who: str, key: str, request: str, body: bytes, *, is_secret: bool = False
) -> Response:
    with given.reply_to(who, key, request) as reply:
        if reply.known is None:
            reply.give(Response(201, body, "application/json", (("x-y", "z"),)), is_secret=is_secret)
        return reply.response


def test_a_reply_is_repeated_to_the_same_client_alone(tmp_path: Path) -> None:
    first = reply_of(replies(tmp_path), "ada", "k", "r", b'{"a": 1}')
    again = reply_of(replies(tmp_path), "ada", "k", "r", b'{"a": 2}')
    assert (again.status, again.body, again.headers) == (first.status, first.body, first.headers)
    assert reply_of(replies(tmp_path), "bob", "k", "r", b'{"a": 3}').body == b'{"a": 3}'
    assert reply_of(replies(tmp_path), "ada", "", "r", b'{"a": 4}').body == b'{"a": 4}'


def test_another_request_needs_another_key(tmp_path: Path) -> None:
    reply_of(replies(tmp_path), "ada", "k", request_digest("PUT", "/a", None), b"{}")
    with pytest.raises(Refusal) as found:
        reply_of(replies(tmp_path), "ada", "k", request_digest("PUT", "/b", None), b"{}")
    assert found.value.status == 422
    with pytest.raises(Refusal) as long:
        reply_of(replies(tmp_path), "ada", "k" * (LONGEST_KEY + 1), "r", b"{}")
    assert long.value.status == 400
    assert reply_of(replies(tmp_path), "ada", "k" * LONGEST_KEY, "r", b"{}").body == b"{}"


def test_what_failed_is_done_again_and_what_is_under_way_is_not(tmp_path: Path) -> None:
    given = replies(tmp_path)
    with pytest.raises(ZeroDivisionError), given.reply_to("ada", "k", "r"):
        raise ZeroDivisionError
    with given.reply_to("ada", "k", "r") as reply:
        assert reply.known is None
        with pytest.raises(Refusal) as busy, replies(tmp_path).reply_to("ada", "k", "r"):
            pass
        assert busy.value.status == 409
        reply.give(Response(200, b"{}"), is_secret=False)
    assert reply_of(given, "ada", "k", "r", b"other").body == b"{}"


def test_a_lock_that_is_held_elsewhere_is_not_taken_for_that_of_the_request(tmp_path: Path) -> None:
    # What is done may find a lock of its own taken, and says so itself.
    with pytest.raises(BlockingIOError), replies(tmp_path).reply_to("ada", "k", "r"):
        raise BlockingIOError
    assert reply_of(replies(tmp_path), "ada", "k", "r", b"{}").body == b"{}"


def test_a_file_that_is_deleted_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, deleted = fcntl.flock, list[Path]()

    def late(handle: int, how: int) -> None:
        if not deleted:
            deleted.extend((tmp_path / "replies").glob("*.json"))
            deleted[0].unlink()
        lock(handle, how)

    with monkeypatch.context() as racing:
        racing.setattr(fcntl, "flock", late)
        reply_of(replies(tmp_path), "ada", "k", "r", b"first")
    assert reply_of(replies(tmp_path), "ada", "k", "r", b"again").body == b"first"
    assert list((tmp_path / "replies").glob("*.json")) == deleted


def test_a_file_system_without_locks_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_handle: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="No locks available"):
        reply_of(replies(tmp_path), "ada", "k", "r", b"{}")


def test_a_request_at_work_keeps_its_file_when_old_ones_are_forgotten(tmp_path: Path) -> None:
    replies = Replies(tmp_path, time.time)
    later = Replies(tmp_path, lambda: time.time() + 2 * KEPT_SECONDS)
    with replies.reply_to("ada", "long", "request") as reply:
        with later.reply_to("ada", "other", "request") as other:
            other.give(Response(200), is_secret=False)
        with pytest.raises(Refusal) as refused, later.reply_to("ada", "long", "request"):
            pass
        assert refused.value.status == 409
        reply.give(Response(200), is_secret=False)


def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    assert reply_of(replies(tmp_path), "ada", "k", "r", b"a secret", is_secret=True).body == b"a secret"
    with pytest.raises(Refusal) as found:
        reply_of(replies(tmp_path), "ada", "k", "r", b"another")
    assert found.value.status == 409
    kept = list((tmp_path / "replies").glob("*.json"))
    assert [b"secret" in path.read_bytes() for path in kept] == [False]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


def test_what_was_broken_off_by_a_kill_is_not_done_twice(tmp_path: Path) -> None:
    reply_of(replies(tmp_path), "ada", "k", "r", b"{}")
    (path,) = (tmp_path / "replies").glob("*.json")
    for broken in ('{"request": "r"}', '{"requ'):  # while it is done; while the reply is written
        path.write_text(broken)
        with pytest.raises(Refusal) as found:
            reply_of(replies(tmp_path), "ada", "k", "r", b"again")
        assert found.value.status == 409
    path.write_text("")  # before anything was begun
    assert reply_of(replies(tmp_path), "ada", "k", "r", b"again").body == b"again"


def test_old_replies_are_forgotten(tmp_path: Path) -> None:
    reply_of(replies(tmp_path), "ada", "k", "r", b"{}")
    later = replies(tmp_path, lambda: time.time() + KEPT_SECONDS + 60)
    os.utime(tmp_path / "replies" / "swept", (0, 0))
    reply_of(later, "ada", "other", "r", b"{}")
    assert len(list((tmp_path / "replies").glob("*.json"))) == 1


@pytest.mark.parametrize(("swept", "is_due"), [(SWEPT_SECONDS, True), (SWEPT_SECONDS - 1, False)])
@pytest.mark.parametrize(("age", "is_old"), [(KEPT_SECONDS, False), (KEPT_SECONDS + 1, True)])
def test_replies_are_kept_for_exactly_a_day_and_swept_after_exactly_an_hour(
    tmp_path: Path, age: int, is_old: bool, swept: int, is_due: bool
) -> None:
    now = 1_700_000_000
    at_noon = replies(tmp_path, lambda: now)
    reply_of(at_noon, "ada", "k", "r", b"{}")
    (path,) = (tmp_path / "replies").glob("*.json")
    os.utime(path, (now - age, now - age))
    os.utime(tmp_path / "replies" / "swept", (now - swept, now - swept))
    reply_of(at_noon, "ada", "other", "r", b"{}")
    assert path.exists() != (is_old and is_due)
    assert (tmp_path / "replies" / "swept").stat().st_mode & 0o777 == 0o600


def test_that_an_act_was_begun_is_on_the_disk_before_it_is_done_and_so_is_its_reply(tmp_path: Path) -> None:
    with flushes() as flushed:
        with replies(tmp_path).reply_to("ada", "k", "r") as reply:
            assert flushed.lacking(tmp_path) == []
            reply.give(Response(200, b"{}"), is_secret=False)
        assert flushed.lacking(tmp_path) == []
