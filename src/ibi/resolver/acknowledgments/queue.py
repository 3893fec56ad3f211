"""The queue of acknowledgments to the Archives whose URLs were chosen (RES-11, RES-12, notes 1 and 2).

The acknowledgment of an answer that was asked for one reader leaves at once, by itself. Those of a cached answer are
added up first: one acknowledgment then says how many readers it stands for, and has an id, so that the Archive counts
it once however often it comes.

They are sent to an Archive one after the other, and again while the reply does not come. A sender is no task: nearly
every redirect needs one, so it is driven by callbacks.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from ibi.errors import PeerError, PeerGarbled
from ibi.http.client import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.http.client import Client, OutgoingRequest, Reply
    from ibi.protocol.messages import Acknowledgment
    from ibi.resolver.model.archive import Archive


TRIES: Final = 3
"""How often an acknowledgment with an id is sent while its reply does not come; one without is sent once."""

_PAUSES: Final = (1.0, 3.0)  # seconds before the second try and the third
_OK: Final = 200

BatchKey = tuple[str, str, str]
"""What acknowledgments share when they are added up: the Archive's service, the URL key and the URL."""


class PendingAcknowledgment(Struct, eq=False):
    """One acknowledgment to send for `readers` redirects; `batch_key` is None where it stands for one alone."""

    archive: Archive
    acknowledgment: Acknowledgment
    since: float
    batch_key: BatchKey | None = None
    readers: int = 1
    due: bool = False

    def batched(self) -> Acknowledgment:
        """The acknowledgment for all its readers, with an id of its own, so that the Archive counts it once."""
        return replace(self.acknowledgment, count=self.readers, event=str(secrets.randbelow(10**20)))


class AcknowledgmentSender:
    """Sends what `take` returns until it returns None, then calls `finished`; each reply may take `seconds` in all.

    `ended` is called with the result of each: "" when it was delivered, else the reason. Any reply under status 200
    will do: the notice says nothing (MSG-27). They go to the Archive's registered base URL (AMB-54).
    """

    __slots__ = (
        "_client",
        "_ended",
        "_finished",
        "_no_pauses",
        "_pauses",
        "_pending",
        "_request",
        "_seconds",
        "_take",
        "_target",
        "_timer",
    )

    def __init__(
        self,
        client: Client,
        seconds: float,
        take: Callable[[], PendingAcknowledgment | None],
        ended: Callable[[PendingAcknowledgment, str], None],
        finished: Callable[[AcknowledgmentSender], None],
    ) -> None:
        self._client = client
        self._seconds = seconds
        self._take = take
        self._ended = ended
        self._finished = finished
        self._pending: PendingAcknowledgment | None = None
        self._target = ""
        self._pauses: Iterator[float] = iter(())
        self._request: OutgoingRequest | None = None
        self._no_pauses = False
        # not before the reader has the redirect
        self._timer: asyncio.Handle | None = asyncio.get_running_loop().call_soon(self._go_on)

    def skip_pauses(self) -> None:
        """Make no pauses from now on."""
        self._no_pauses = True
        if self._timer is not None:
            self._timer.cancel()
            self._go_on()

    def give_up(self) -> None:
        """Send no more, and do not wait for the reply under way."""
        if self._timer is not None:
            self._timer.cancel()
        if self._request is not None:
            self._request.give_up()

    def _go_on(self) -> None:
        """Send the one that failed again, or the next one, until a request is under way."""
        self._timer = self._request = None
        sent = False
        try:
            while not sent and (self._pending is not None or self._begin()):
                sent = self._send()
        except BaseException:
            self._finished(self)
            raise
        if not sent:
            self._finished(self)

    def _begin(self) -> bool:
        """Take the next one; False where there is none."""
        pending = self._pending = self._take()
        if pending is None:
            return False
        message = pending.acknowledgment if pending.batch_key is None else pending.batched()
        self._target = f"/{pending.archive.name}?{message.query()}"
        self._pauses = iter(_PAUSES if message.event else ())
        return True

    def _send(self) -> bool:
        """Send it; whether a request is under way, or a pause after which it is sent again."""
        pending = self._pending
        if pending is None:
            return False
        try:
            self._request = self._client.ask(
                pending.archive.address, self._target, Deadline(self._seconds), self._on_reply
            )
        except PeerError as error:
            return self._failed(pending, error)
        return True

    def _on_reply(self, outcome: Reply | PeerError) -> None:
        """Take the reply, or the error, and go on."""
        pending = self._pending
        if pending is None:
            return
        if isinstance(outcome, PeerError):
            waits = self._failed(pending, outcome)
        elif outcome.status != _OK:
            problem = PeerGarbled("the answer has the status {status}", status=outcome.status)
            waits = self._failed(pending, problem)
        else:
            waits = False
            self._pending = None
            self._ended(pending, "")
        if not waits:
            self._go_on()

    def _failed(self, pending: PendingAcknowledgment, error: PeerError) -> bool:
        """Note that it was not delivered; whether it is sent again after a pause that begins now."""
        pause = next(self._pauses, None)
        if pause is None:
            self._pending = None
            self._ended(pending, "garbled" if isinstance(error, PeerGarbled) else "silent")
            return False
        if self._no_pauses:
            return False
        self._request = None
        self._timer = asyncio.get_running_loop().call_later(pause, self._go_on)
        return True


PER_ARCHIVE: Final = 3.0
"""Seconds for the whole reply of one Archive."""

BATCH_SECONDS: Final = 1.0
"""How long acknowledgments of cached answers of one Archive are batched before they are sent."""

MOST_BATCHED: Final = 1_000
"""Readers in the batch of one Archive; with so many, it is sent before its time has passed."""

MOST_READERS: Final = 100_000
"""Readers whom one acknowledgment may stand for (note 1)."""

OLDEST: Final = 600.0
"""Seconds after which an acknowledgment is not worth sending: its URL key is no longer known (note 1)."""


class _ArchiveQueue(Struct, eq=False):
    """The acknowledgments to one Archive: being batched, waiting for a sender; and how many senders are at work."""

    batch: list[PendingAcknowledgment] = field(default_factory=list)
    readers: int = 0  # of the batch
    timer: asyncio.TimerHandle | None = None
    waiting: deque[PendingAcknowledgment] = field(default_factory=deque)
    not_sent: dict[BatchKey, PendingAcknowledgment] = field(default_factory=dict)
    senders: int = 0


class AcknowledgmentQueue:
    """Acknowledgments on their way, none of them awaited by a reader (RES-12, note 2).

    Every Archive has a queue of its own, so a slow one does not delay the others.
    `delivered` + `queued` + the sum of `dropped` (by reason) is the number of calls of `acknowledge`,
    `acknowledge_cached` and `skip`: what stands for many readers counts as many.
    """

    def __init__(
        self,
        client: Client,
        *,
        most: int = 10_000,
        most_per_archive: int = 1_000,
        at_once: int = 4,
        deadline: float = PER_ARCHIVE,
    ) -> None:
        """`most`: acknowledgments that wait, for how many readers each may be; `deadline` in seconds."""
        self._client = client
        self._most = most
        self._most_per_archive = most_per_archive
        self._at_once = at_once
        self._deadline = deadline
        self._queues: dict[str, _ArchiveQueue] = {}
        self._held = 0
        self._senders: set[AcknowledgmentSender] = set()
        self._closing = False
        self._idle = asyncio.Event()
        self.delivered = 0
        self.queued = 0
        self.dropped: Counter[str] = Counter()

    def acknowledge(self, archive: Archive, acknowledgment: Acknowledgment) -> None:
        """Send it when there is a moment; return at once. When too many wait already, it is dropped and counted."""
        queue = self._queues.get(archive.address, _ArchiveQueue())
        pending = self._admit(queue, archive, acknowledgment)
        if pending is not None:
            queue.waiting.append(pending)
            self._start_sender(archive.address, queue)

    def acknowledge_cached(
        self, archive: Archive, acknowledgment: Acknowledgment, readers: int = 1, since: float | None = None
    ) -> None:
        """Acknowledge an answer that other readers got before: soon, together with others (note 1); return at once.

        The answer must be one that may be reused. Those with the same URL key and URL become one acknowledgment,
        which tells the addresses and the persistent URL of the first of them. `readers` have got it, the first of
        them at the time `since` of the loop.
        """
        while readers > MOST_READERS:
            self.acknowledge_cached(archive, acknowledgment, MOST_READERS, since)
            readers -= MOST_READERS
        queue = self._queues.get(archive.address, _ArchiveQueue())
        key = (str(archive.service_ibi), acknowledgment.url_key, acknowledgment.url)
        pending = queue.not_sent.get(key)
        if pending is not None and pending.readers + readers <= MOST_READERS and not self._closing:
            pending.readers += readers
            self.queued += readers
        else:
            pending = self._admit(queue, archive, acknowledgment, key, readers)
            if pending is None:
                return
            pending.since = pending.since if since is None else since
            queue.not_sent[key] = pending
            queue.batch.append(pending)
        if not pending.due:
            self._batch(archive.address, queue, readers)

    def has_capacity(self, archive: Archive) -> bool:
        """Whether a caller that can wait may call `acknowledge_cached`: half of the queue is for those who cannot."""
        queue = self._queues.get(archive.address)
        length = 0 if queue is None else len(queue.batch) + len(queue.waiting)
        return 2 * self._held < self._most and 2 * length < self._most_per_archive

    def skip(self, reason: str, readers: int = 1) -> None:
        """Count redirects that are not acknowledged: nothing goes uncounted (note 2)."""
        self.dropped[reason] += readers

    async def close(self, grace: float = PER_ARCHIVE) -> None:
        """Take no more, deliver what is waiting for `grace` seconds at most, then drop the rest."""
        self._closing = True
        for address, queue in list(self._queues.items()):
            self._flush(address, queue)
        for sender in list(self._senders):
            sender.skip_pauses()
        if self._senders:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), grace)
        for sender in self._senders:
            sender.give_up()
        self._senders.clear()
        self.dropped["closing"] += self.queued
        self.queued = self._held = 0
        self.dropped = +self.dropped
        self._queues.clear()

    # -- queueing and batching ----------------------------------------------------------------------------------

    def _admit(
        self,
        queue: _ArchiveQueue,
        archive: Archive,
        acknowledgment: Acknowledgment,
        batch_key: BatchKey | None = None,
        readers: int = 1,
    ) -> PendingAcknowledgment | None:
        """Admit an acknowledgment to a queue; None, and counted as dropped, where the queue is full or closing."""
        if self._closing:
            self.dropped["closing"] += readers
            return None
        if self._held >= self._most or len(queue.batch) + len(queue.waiting) >= self._most_per_archive:
            self.dropped["too many waiting"] += readers
            return None
        self._queues[archive.address] = queue
        self.queued += readers
        self._held += 1
        return PendingAcknowledgment(
            archive, acknowledgment, asyncio.get_running_loop().time(), batch_key, readers
        )

    def _batch(self, address: str, queue: _ArchiveQueue, readers: int) -> None:
        """Count more readers in the batch; it is sent a second after its first reader, or when it is full."""
        queue.readers += readers
        if queue.readers >= MOST_BATCHED:
            self._flush(address, queue)
        elif queue.timer is None:
            loop = asyncio.get_running_loop()
            queue.timer = loop.call_later(BATCH_SECONDS, self._flush, address, queue)

    def _flush(self, address: str, queue: _ArchiveQueue) -> None:
        """Send the batch."""
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        for pending in queue.batch:
            pending.due = True
        queue.waiting.extend(queue.batch)
        queue.batch.clear()
        queue.readers = 0
        for _ in range(min(len(queue.waiting), self._at_once)):
            self._start_sender(address, queue)

    # -- sending -----------------------------------------------------------------------------------------------

    def _start_sender(self, address: str, queue: _ArchiveQueue) -> None:
        if queue.senders < self._at_once:
            queue.senders += 1
            self._idle.clear()
            take, finished = partial(self._next, queue), partial(self._finished, address, queue)
            self._senders.add(AcknowledgmentSender(self._client, self._deadline, take, self._ended, finished))

    def _next(self, queue: _ArchiveQueue) -> PendingAcknowledgment | None:
        """The next acknowledgment of one queue that is young enough to send, or None."""
        oldest = asyncio.get_running_loop().time() - OLDEST
        while queue.waiting:
            pending = queue.waiting.popleft()
            if pending.batch_key is not None and queue.not_sent.get(pending.batch_key) is pending:
                del queue.not_sent[pending.batch_key]
            self._held -= 1
            if pending.since >= oldest:
                return pending
            self._ended(pending, "too old")
        return None

    def _ended(self, pending: PendingAcknowledgment, problem: str) -> None:
        """Count how one ended: "" when it was delivered, else the reason."""
        if problem:
            self.dropped[problem] += pending.readers
        else:
            self.delivered += pending.readers
        self.queued -= pending.readers

    def _finished(self, address: str, queue: _ArchiveQueue, sender: AcknowledgmentSender) -> None:
        """Note that a sender has sent all that waited in a queue."""
        self._senders.discard(sender)
        queue.senders -= 1
        if not (queue.senders or queue.batch or queue.waiting):
            self._queues.pop(address, None)
        if not self._senders:
            self._idle.set()
