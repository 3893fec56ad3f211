"""The queue of acknowledgments to the Archives whose URLs were chosen (RES-11, RES-12, notes 1 and 2).

The acknowledgment of an answer that was queried for one reader is sent alone and at once. Acknowledgments of
a cached answer are added up first: one of them then says how many readers it stands for, and has an id, so
that the Archive counts it only once however often it arrives.

A few senders for each Archive send them one after the other; those with an id are sent again if no reply
comes. A sender is driven by callbacks and is no task, because nearly every redirect needs one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from ibi.errors import PeerError, PeerGarbled, QueryNotSent
from ibi.http.client import Deadline
from ibi.protocol.vocabulary import ACKNOWLEDGMENT_REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.http.client import Client, OutgoingRequest, Reply
    from ibi.protocol.messages import Acknowledgment
    from ibi.resolver.model.archive import Archive


TRIES: Final = 3
"""How often an acknowledgment with an id is sent, until a reply comes; one without an id is sent once."""

_PAUSES: Final = (1.0, 3.0)  # seconds before the second try and the third
_OK: Final = 200
_REFUSED: Final = ACKNOWLEDGMENT_REFUSED.encode()

BatchKey = tuple[str, str, str]
"""Acknowledgments with the same key are added up: the Archive's service, the URL key and the URL."""


class PendingAcknowledgment(Struct, eq=False):
    """One acknowledgment to send for `readers` redirects; without a `batch_key`, for one redirect only."""

    archive: Archive
    acknowledgment: Acknowledgment
    first_at: float
    batch_key: BatchKey | None = None
    readers: int = 1
    due: bool = False


class AcknowledgmentSender(Struct, eq=False):
    """Sends the acknowledgments in an Archive's queue, one after the other, to its registered URL (AMB-54).

    Any reply with status 200 will do (MSG-27); a header of our own says that it was not counted.
    """

    owner: AcknowledgmentQueue
    queue: ArchiveQueue
    timer: asyncio.Handle | None = None
    request: OutgoingRequest | None = None
    pending: PendingAcknowledgment | None = None
    target: str = ""
    deadline: Deadline | None = None
    pauses: Iterator[float] = iter(())
    no_pauses: bool = False

    def __post_init__(self) -> None:
        """Start in the next turn of the event loop, when the reader has the redirect."""
        self.timer = asyncio.get_running_loop().call_soon(self._go_on)

    def skip_pauses(self) -> None:
        """Make no pauses between tries from now on, and end the one that lasts."""
        self.no_pauses = True
        if self.timer is not None:
            self.timer.cancel()
            self._go_on()

    def give_up(self) -> None:
        """Stop sending, and do not wait for the reply that is awaited."""
        if self.timer is not None:
            self.timer.cancel()
        if self.request is not None:
            self.request.give_up()

    def _go_on(self) -> None:
        """Send the one that failed again, or the next one, until a request or a pause is under way."""
        self.timer = self.request = None
        sent = False
        try:
            while not sent and (self.pending is not None or self._begin()):
                sent = self._send()
        finally:
            if not sent:
                self.owner.finished(self)

    def _begin(self) -> bool:
        """Take the next acknowledgment; return False where there is none."""
        pending = self.pending = self.owner.take(self.queue)
        if pending is None:
            return False
        message = pending.acknowledgment
        if pending.batch_key is not None:
            # For all its readers, with an id, so that the Archive counts it once.
            message = replace(message, count=pending.readers, event=str(secrets.randbelow(10**20)))
        self.target = f"/{pending.archive.name}?{message.query()}"
        self.pauses = iter(_PAUSES if message.event else ())
        return True

    def _send(self) -> bool:
        """Send the acknowledgment; return whether a request is under way, or a pause before a retry."""
        pending = self.pending
        if pending is None:
            return False
        try:
            self.deadline = deadline = Deadline(self.owner.seconds)
            address = pending.archive.address
            self.request = self.owner.client.ask(address, self.target, deadline, self._on_reply)
        except PeerError as error:
            return self._failed(pending, error)
        return True

    def _on_reply(self, outcome: Reply | PeerError) -> None:
        pending, deadline = self.pending, self.deadline
        if pending is None or deadline is None:
            return
        if not isinstance(outcome, PeerError) and outcome.status != _OK:
            outcome = PeerGarbled("the answer has the status {status}", status=outcome.status)
        if not isinstance(outcome, PeerError):
            self.queue.replied_at = deadline.now()
            self.pending = None
            self.owner.ended(pending, "refused" if _REFUSED in outcome.headers else "")
        elif self._failed(pending, outcome):
            return
        self._go_on()

    def _failed(self, pending: PendingAcknowledgment, error: PeerError) -> bool:
        """Record a try that failed; return whether a pause before a retry has begun."""
        if not isinstance(error, PeerGarbled | QueryNotSent):
            self.owner.on_silence(pending.archive, failed=True)
        pause = next(self.pauses, None)
        if pause is None:
            self.pending = None
            self.owner.ended(pending, "garbled" if isinstance(error, PeerGarbled) else "silent")
            return False
        if self.no_pauses:
            return False
        self.request = None
        self.timer = asyncio.get_running_loop().call_later(pause, self._go_on)
        return True


MOST_QUEUED: Final = 10_000
"""Acknowledgments that wait in a process; further ones are counted as dropped (T10, T37)."""

MOST_PER_ARCHIVE: Final = 1_000
"""Acknowledgments that wait for one Archive: one that does not reply must not fill the whole queue (T10)."""

REPLY_SECONDS: Final = 3.0
"""Seconds for the whole reply of one Archive to an acknowledgment, unless `archive_seconds` is set."""

SUSPICIOUS_SECONDS: Final = 0.5
"""Seconds without a reply after which an Archive may have died, and is probed."""

BATCH_SECONDS: Final = 1.0
"""Seconds for which the acknowledgments of an Archive's cached answers are batched before they are sent."""

MOST_BATCHED: Final = 1_000
"""Readers in the batch of one Archive; with so many, the batch is sent before its time."""

MOST_READERS: Final = 100_000
"""Readers for whom one acknowledgment may stand (note 1)."""

OLDEST: Final = 600.0
"""Seconds after which an acknowledgment is dropped: its Archive no longer knows the URL key (note 1)."""


def _ignore(_archive: Archive, *, failed: bool) -> None:
    """Do nothing about a silent Archive; `failed`: it gave no reply within the deadline."""


class ArchiveQueue(Struct, eq=False):
    """The acknowledgments to one Archive, in the `batch` or `waiting` for a sender, and how many senders."""

    address: str
    batch: list[PendingAcknowledgment] = field(default_factory=list)
    readers: int = 0  # of the batch
    timer: asyncio.TimerHandle | None = None
    waiting: deque[PendingAcknowledgment] = field(default_factory=deque)
    not_sent: dict[BatchKey, PendingAcknowledgment] = field(default_factory=dict)
    replied_at: float = 0.0
    senders: int = 0


class AcknowledgmentQueue:
    """The acknowledgments of one process, sent after the readers have their redirects (RES-12, note 2).

    Every Archive has a queue of its own, so that a slow one does not delay the others. `delivered` + `queued`
    + the sum of `dropped` is the number of readers in all calls of `acknowledge`, `acknowledge_cached` and
    `skip`.
    """

    def __init__(
        self,
        client: Client,
        *,
        most: int = MOST_QUEUED,
        most_per_archive: int = MOST_PER_ARCHIVE,
        at_once: int = 4,
        deadline: float = REPLY_SECONDS,
    ) -> None:
        """`most`: acknowledgments that may wait, whatever the readers of each; `deadline` in seconds."""
        self.client = client
        self._most = most
        self._most_per_archive = most_per_archive
        self._at_once = at_once
        self.seconds = deadline
        """Seconds for the whole reply of an Archive."""
        self.on_silence: Callable[..., object] = _ignore
        """Called with an Archive without a reply for SUSPICIOUS_SECONDS, or, `failed`, until the deadline."""
        self._look: asyncio.TimerHandle | None = None
        self._queues: dict[str, ArchiveQueue] = {}
        self._held = 0
        self._senders: set[AcknowledgmentSender] = set()
        self._closing = False
        self._idle = asyncio.Event()
        self.delivered = 0
        self.queued = 0
        self.dropped: Counter[str] = Counter()

    def acknowledge(self, archive: Archive, acknowledgment: Acknowledgment) -> None:
        """Queue an acknowledgment and return at once. If too many wait already, it is dropped and counted."""
        queue = self._queues.get(archive.address) or ArchiveQueue(archive.address)
        pending = self._admit(queue, archive, acknowledgment)
        if pending is not None:
            queue.waiting.append(pending)
            self._start_sender(queue)

    def acknowledge_cached(
        self, archive: Archive, message: Acknowledgment, readers: int = 1, first_at: float | None = None
    ) -> None:
        """Put the acknowledgment of a cached answer into the batch of its Archive (note 1); return at once.

        The answer must be one that may be reused. Acknowledgments with the same URL key and URL become one,
        with the addresses and the persistent URL of the first of them. It is for `readers`, of whom the first
        got the answer at the time `first_at` of the loop.
        """
        while readers > MOST_READERS:
            self.acknowledge_cached(archive, message, MOST_READERS, first_at)
            readers -= MOST_READERS
        queue = self._queues.get(archive.address) or ArchiveQueue(archive.address)
        key = (str(archive.service_ibi), message.url_key, message.url)
        pending = queue.not_sent.get(key)
        if pending is not None and pending.readers + readers <= MOST_READERS and not self._closing:
            pending.readers += readers
            self.queued += readers
        else:
            pending = self._admit(queue, archive, message, key, readers)
            if pending is None:
                return
            pending.first_at = pending.first_at if first_at is None else first_at
            queue.not_sent[key] = pending
            queue.batch.append(pending)
        if not pending.due:
            self._batch(queue, readers)

    def has_capacity(self, archive: Archive) -> bool:
        """Whether a caller that can wait may queue now: half of the queue is for callers that cannot."""
        queue = self._queues.get(archive.address)
        length = 0 if queue is None else len(queue.batch) + len(queue.waiting)
        return 2 * self._held < self._most and 2 * length < self._most_per_archive

    def skip(self, reason: str, readers: int = 1) -> None:
        """Count redirects without an acknowledgment, because every redirect is counted (note 2)."""
        self.dropped[reason] += readers

    async def close(self, grace: float = REPLY_SECONDS) -> None:
        """Admit no more, deliver the waiting ones for `grace` seconds at most, then drop the rest."""
        self._closing = True
        if self._look is not None:
            self._look.cancel()
        for queue in list(self._queues.values()):
            self._flush(queue)
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

    def _admit(
        self,
        queue: ArchiveQueue,
        archive: Archive,
        acknowledgment: Acknowledgment,
        batch_key: BatchKey | None = None,
        readers: int = 1,
    ) -> PendingAcknowledgment | None:
        """Admit an acknowledgment; if the queue is full or closing, count it as dropped and return None."""
        if self._closing:
            self.dropped["closing"] += readers
            return None
        if self._held >= self._most or len(queue.batch) + len(queue.waiting) >= self._most_per_archive:
            self.dropped["too many waiting"] += readers
            return None
        self._queues[queue.address] = queue
        self.queued += readers
        self._held += 1
        now = asyncio.get_running_loop().time()
        return PendingAcknowledgment(archive, acknowledgment, now, batch_key, readers)

    def _batch(self, queue: ArchiveQueue, readers: int) -> None:
        """Count more readers in the batch; it is sent BATCH_SECONDS after the first one, or when full."""
        queue.readers += readers
        if queue.readers >= MOST_BATCHED:
            self._flush(queue)
        elif queue.timer is None:
            loop = asyncio.get_running_loop()
            queue.timer = loop.call_later(BATCH_SECONDS, self._flush, queue)

    def _flush(self, queue: ArchiveQueue) -> None:
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        for pending in queue.batch:
            pending.due = True
        queue.waiting.extend(queue.batch)
        queue.batch.clear()
        queue.readers = 0
        for _ in range(min(len(queue.waiting), self._at_once)):
            self._start_sender(queue)

    def _start_sender(self, queue: ArchiveQueue) -> None:
        if queue.senders < self._at_once:
            queue.senders += 1
            if self._look is None:
                self._look = asyncio.get_running_loop().call_later(SUSPICIOUS_SECONDS, self._look_for_silence)
            self._idle.clear()
            self._senders.add(AcknowledgmentSender(self, queue))

    def _look_for_silence(self) -> None:
        """Report Archives that have not replied for a while; repeats while any sender is at work."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for sender in list(self._senders):
            if sender.request is None or sender.deadline is None or sender.pending is None:
                continue
            waits_from = max(sender.deadline.begun, sender.queue.replied_at)
            if now - waits_from >= SUSPICIOUS_SECONDS:
                self.on_silence(sender.pending.archive, failed=False)
        again = self._senders and not self._closing
        self._look = loop.call_later(SUSPICIOUS_SECONDS, self._look_for_silence) if again else None

    # Called by senders

    def take(self, queue: ArchiveQueue) -> PendingAcknowledgment | None:
        """Take the next acknowledgment of a queue that is young enough to send; None where there is none."""
        if not queue.waiting:
            return None
        oldest = asyncio.get_running_loop().time() - OLDEST
        while queue.waiting:
            pending = queue.waiting.popleft()
            if pending.batch_key is not None and queue.not_sent.get(pending.batch_key) is pending:
                del queue.not_sent[pending.batch_key]
            self._held -= 1
            if pending.first_at >= oldest:
                return pending
            self.ended(pending, "too old")
        return None

    def ended(self, pending: PendingAcknowledgment, problem: str) -> None:
        """Count an acknowledgment as delivered, or as dropped because of a `problem`."""
        if problem:
            self.dropped[problem] += pending.readers
        else:
            self.delivered += pending.readers
        self.queued -= pending.readers

    def finished(self, sender: AcknowledgmentSender) -> None:
        """End a sender: no acknowledgment waits in its queue any more."""
        self._senders.discard(sender)
        queue = sender.queue
        queue.senders -= 1
        if not (queue.senders or queue.batch or queue.waiting):
            self._queues.pop(queue.address, None)
        if not self._senders:
            self._idle.set()
