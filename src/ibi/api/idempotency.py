"""Repeat the reply to a request with a known Idempotency-Key instead of doing it a second time.

    DIR/replies/<digest of the token's name and the key>.json    {"request", "status", "headers", "body"}

Nodes that share a store have the replies in a table there (`runtime.shared.replies`).

A reply is repeated for a day. Only replies of success are stored: a refused request may be corrected and sent
again. A reply with a secret that is shown once (a password, a token) is not stored: its repetition is
refused. So is a repetition after a kill between the act and its reply: the client must look up what was done.

Deposits (POST /items) recognize repetitions themselves while the item exists (`archive.operations.items`).
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import HoldingError, IbiError
from ibi.http.response import Refusal, Response
from ibi.runtime.durable_files import flush_folder, locked_file, make_folder
from ibi.runtime.shared.replies import SharedReply, held_reply
from ibi.runtime.shared.store import store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

LONGEST_KEY: Final = 255
"""Characters of an Idempotency-Key."""
KEPT_SECONDS: Final = 24 * 3600
"""Seconds for which a reply is repeated."""

SWEPT_SECONDS: Final = 3600
"""Seconds between two deletions of old replies."""

_FOLDER: Final = "replies"


def request_digest(method: str, target: str, value: Any) -> str:
    """Return a digest of the method, target and content of a request."""
    written = json.dumps([method, target, value], sort_keys=True)
    return sha256(written.encode()).hexdigest()


@dataclass(slots=True)
class Reply:
    """The reply to one request; `known`: the stored reply, if the request is repeated."""

    request: str
    known: Response | None = None
    given: Response | None = None
    is_secret: bool = False

    def give(self, response: Response, *, is_secret: bool) -> None:
        """Set the reply, which `Replies.reply_to` stores if its block ends without an error."""
        self.given, self.is_secret = response, is_secret

    @property
    def response(self) -> Response:
        """The stored reply, or else the new one."""
        found = self.known or self.given
        assert found is not None  # noqa: S101 - `give` comes first
        return found


class Replies:
    """The stored replies of one service, in its data directory. `now` returns POSIX seconds."""

    def __init__(self, data: Path, now: Callable[[], float]) -> None:
        self._folder = data / _FOLDER
        self._store = store_of(data)
        self._now = now

    @contextmanager
    def reply_to(self, who: str, key: str, request: str) -> Iterator[Reply]:
        """Yield the reply to a request under a key ("" for none).

        Raises Refusal (400, 409, 422), OSError, and SetupError while a shared store cannot be reached.
        """
        reply = Reply(request)
        if not key:
            yield reply
            return
        if len(key) > LONGEST_KEY:
            raise Refusal(400, IbiError("Idempotency-Key has at most {most} characters", most=LONGEST_KEY))
        with self._held(sha256(f"{who}\0{key}".encode()).hexdigest()) as held:
            reply.known = _known(held.read(), request)
            if reply.known is not None:
                yield reply
                return
            # Written before the act: after a kill, this note shows that the act may have been done.
            held.write(json.dumps({"request": request}))
            try:
                yield reply
            except BaseException:
                held.clear()
                raise
            held.write(json.dumps(_facts(reply)))

    @contextmanager
    def _held(self, name: str) -> Iterator[_ReplyFile | SharedReply]:
        """Hold the reply of this name. Raises Refusal if another request holds it."""
        if self._store is not None:
            with held_reply(self._store, name, self._now(), KEPT_SECONDS) as held:
                if held is None:
                    raise _still_at_work()
                yield held
            return
        make_folder(self._folder)
        self._forget_old()
        with _locked(self._folder / f"{name}.json") as handle:
            yield _ReplyFile(handle, self._folder)

    def _forget_old(self) -> None:
        """Delete old replies at most once an hour, because it reads the times of all of them."""
        swept, now = self._folder / "swept", self._now()
        with suppress(FileNotFoundError):
            if swept.stat().st_mtime > now - SWEPT_SECONDS:
                return
        swept.touch(mode=0o600)
        for path in self._folder.glob("*.json"):
            with suppress(FileNotFoundError, Refusal):  # the file of a running request is locked, and stays
                if path.stat().st_mtime < now - KEPT_SECONDS:
                    with _locked(path):
                        path.unlink()


class _ReplyFile:
    """The locked file of one reply, in a folder."""

    def __init__(self, handle: int, folder: Path) -> None:
        self._handle = handle
        self._folder = folder
        self._is_named = False  # durably

    def read(self) -> str:
        """Return the stored text, "" for none."""
        return os.pread(self._handle, os.fstat(self._handle).st_size, 0).decode("utf-8", "replace")

    def write(self, facts: str) -> None:
        """Store a text, durably."""
        # Written before it is truncated: the file must never be empty, which would mean that nothing was begun.
        text = facts.encode()
        os.pwrite(self._handle, text, 0)
        os.ftruncate(self._handle, len(text))
        os.fsync(self._handle)
        if not self._is_named:
            flush_folder(self._folder)
            self._is_named = True

    def clear(self) -> None:
        """Forget it: nothing was done."""
        os.ftruncate(self._handle, 0)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold the lock of a file; make the file if need be. Raises Refusal if another request holds the lock."""
    while True:
        with ExitStack() as held:
            try:
                handle = held.enter_context(locked_file(path, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                raise _still_at_work() from None
            if os.fstat(handle).st_nlink:  # otherwise it was deleted since it was opened
                yield handle
                return


def _still_at_work() -> Refusal:
    problem = "the first request with this Idempotency-Key is still at work; repeat this in a moment"
    return Refusal(409, HoldingError(problem))


def _known(text: str, request: str) -> Response | None:
    """Return the stored reply. Raises Refusal if it is another request's, unknown, or had a secret."""
    if not text:
        return None
    try:
        facts: Mapping[str, Any] = json.loads(text)
    except ValueError:  # cut off by a kill, perhaps after the act
        facts = {"request": request}
    if facts["request"] != request:
        problem = "this Idempotency-Key was another request's; another request needs one of its own"
        raise Refusal(422, IbiError(problem))
    if "status" not in facts:
        problem = (
            "this was begun and broken off, so it may have been done: look, and give another Idempotency-Key"
        )
        raise Refusal(409, HoldingError(problem))
    if facts["body"] is None:
        problem = "this was done already; its secret was shown once, and is not shown again"
        raise Refusal(409, HoldingError(problem))
    headers = tuple((name, value) for name, value in facts["headers"])
    return Response(facts["status"], facts["body"].encode(), facts["kind"], headers)


def _facts(reply: Reply) -> dict[str, Any]:
    response = reply.response
    body = None if reply.is_secret else bytes(response.body).decode("utf-8", "replace")
    return {"request": reply.request, "status": response.status, "kind": response.content_type,
            "headers": list(response.headers), "body": body}  # fmt: skip
