"""Queues acknowledgments, and sends them to the Archives whose URLs were chosen.

    acknowledge          for an answer that an Archive gave for this reader: queued alone, and sent at once
    acknowledge_cached   for a cached answer: waits up to BATCH_SECONDS in the batch of its Archive; all with the same
                         URL key and URL are merged into one acknowledgment, which says how many readers it counts,
                         and has an id, so that the Archive counts it once, however often it is sent

Each Archive has a queue and a few senders, which send one acknowledgment after the other. Without a reply, those with
an id are sent again. Senders are driven by callbacks, not tasks, because nearly every redirect needs one.

All of it is in memory. What waits when the process is killed is lost: an acknowledgment only counts a reader, and to
write each to the disk first would cost more than the redirect. None is sent twice after a restart.

See RES-11: acknowledgments; RES-12: redirect at once; note 1: reuse of answers; note 2: acknowledgments.
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

MergeKey = tuple[str, str, str]
"""Acknowledgments with the same key are merged: the Archive's service, the URL key and the URL."""


class PendingAcknowledgment(Struct, eq=False):
    """One acknowledgment to send for `readers`; `first_at`: when the first of them was redirected.

    `merge_key`: None if it is for one reader only. `left_batch`: whether it waits for a sender already.
    """

    archive: Archive
    acknowledgment: Acknowledgment
    first_at: float
    merge_key: MergeKey | None = None
    readers: int = 1
    left_batch: bool = False


class AcknowledgmentSender(Struct, eq=False):
    """Sends the acknowledgments in an Archive's queue, one after the other, to its registered URL.

    Any reply with status 200 will do (MSG-27: the acknowledgment); a header of our own says that it was not counted.
    See AMB-54: which address counts.
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

    def skip_pauses(self) -> None:
        """Make no pauses between tries from now on, and end the one that lasts."""
        self.no_pauses = True
        if self.timer is not None:
            self.timer.cancel()
            self.send_next()

    def give_up(self) -> None:
        """Stop sending, and do not wait for the reply that is awaited."""
        if self.timer is not None:
            self.timer.cancel()
        if self.request is not None:
            self.request.give_up()

    def send_next(self) -> None:
        """Send the one that failed again, or the next one; end the sender where there is none."""
        self.timer = self.request = None
        under_way = False
        try:
            while not under_way and (self.pending is not None or self._take_next()):
                under_way = self._send()
        finally:
            if not under_way:
                self.owner.remove(self)

    def _take_next(self) -> bool:
        """Take the next acknowledgment; return False where there is none."""
        pending = self.pending = self.owner.take(self.queue)
        if pending is None:
            return False
        message = pending.acknowledgment
        if pending.merge_key is not None:
            # With an id, so that the Archive counts it once.
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
            return self._on_failure(pending, error)
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
            self.owner.count_result(pending, "refused" if _REFUSED in outcome.headers else "")
        elif self._on_failure(pending, outcome):
            return
        self.send_next()

    def _on_failure(self, pending: PendingAcknowledgment, error: PeerError) -> bool:
        """Handle a try that failed; return whether a pause before a retry has begun."""
        if not isinstance(error, PeerGarbled | QueryNotSent):
            self.owner.on_silence(pending.archive, failed=True)
        pause = next(self.pauses, None)
        if pause is None:
            self.pending = None
            self.owner.count_result(pending, "garbled" if isinstance(error, PeerGarbled) else "silent")
            return False
        if self.no_pauses:
            return False
        self.request = None
        self.timer = asyncio.get_running_loop().call_later(pause, self.send_next)
        return True


MOST_QUEUED: Final = 10_000
"""Acknowledgments that wait in a process; further ones are counted as dropped (T10: huge answers; T37: overload)."""

MOST_PER_ARCHIVE: Final = 1_000
"""Acknowledgments that wait for one Archive: an Archive that does not reply must not fill the whole queue (T10: huge
answers)."""

REPLY_SECONDS: Final = 3.0
"""Seconds for the whole reply of one Archive to an acknowledgment, unless `archive_seconds` is set."""

SUSPICIOUS_SECONDS: Final = 0.5
"""Seconds without a reply after which an Archive may have died, and is probed."""

BATCH_SECONDS: Final = 1.0
"""Seconds for which the acknowledgments of an Archive's cached answers wait in its batch."""

MOST_BATCHED: Final = 1_000
"""Readers in the batch of one Archive; with so many, the batch is sent at once."""

MOST_READERS: Final = 100_000
"""Readers for whom one acknowledgment may stand (note 1: reuse of answers)."""

EXPIRY_SECONDS: Final = 600.0
"""Seconds after which an acknowledgment is dropped: its Archive no longer knows the URL key (note 1: reuse of
answers)."""


def _ignore(_archive: Archive, *, failed: bool) -> None:
    """Do nothing about a silent Archive; `failed`: it gave no reply within the deadline."""


class ArchiveQueue(Struct, eq=False):
    """The acknowledgments to one Archive: first in its `batch`, then `waiting` for one of its `senders`.

    `mergeable`: those of both that can take more readers.
    """

    address: str
    batch: list[PendingAcknowledgment] = field(default_factory=list)
    batch_readers: int = 0
    timer: asyncio.TimerHandle | None = None
    waiting: deque[PendingAcknowledgment] = field(default_factory=deque)
    mergeable: dict[MergeKey, PendingAcknowledgment] = field(default_factory=dict)
    replied_at: float = 0.0
    senders: int = 0


class AcknowledgmentQueue:
    """The acknowledgments of one process, sent after the readers have their redirects.

    Every Archive has a queue of its own, so that a slow one does not delay the others. `delivered`, `queued` and
    `dropped` (by reason) count readers: together, all for whom `acknowledge`, `acknowledge_cached` or `skip` was
    called. See RES-12: redirect at once; note 2: acknowledgments.
    """

    def __init__(
        self,
        client: Client,
        *,
        most: int = MOST_QUEUED,
        most_per_archive: int = MOST_PER_ARCHIVE,
        senders_per_archive: int = 4,
        deadline: float = REPLY_SECONDS,
    ) -> None:
        """`most`: acknowledgments that may wait, however many readers each stands for; `deadline` in seconds."""
        self.client = client
        self._most = most
        self._most_per_archive = most_per_archive
        self._senders_per_archive = senders_per_archive
        self.seconds = deadline
        """Seconds for the whole reply of an Archive."""
        self.on_silence: Callable[..., object] = _ignore
        """Called with an Archive without a reply for SUSPICIOUS_SECONDS, or, `failed`, until the deadline."""
        self._silence_timer: asyncio.TimerHandle | None = None
        self._queues: dict[str, ArchiveQueue] = {}
        self._total = 0  # acknowledgments in the queues of all Archives
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
        """Put the acknowledgment of a cached answer into the batch of its Archive; return at once.

        If one with the same URL key and URL is pending, the `readers` are added to it; its addresses and its
        persistent URL stay. `first_at`: when the first of the readers was redirected, by the loop's clock; None: now.
        See note 1: reuse of answers.
        """
        while readers > MOST_READERS:
            self.acknowledge_cached(archive, message, MOST_READERS, first_at)
            readers -= MOST_READERS
        queue = self._queues.get(archive.address) or ArchiveQueue(archive.address)
        key = (str(archive.service_ibi), message.url_key, message.url)
        pending = queue.mergeable.get(key)
        if pending is not None and pending.readers + readers <= MOST_READERS and not self._closing:
            pending.readers += readers
            self.queued += readers
        else:
            pending = self._admit(queue, archive, message, key, readers)
            if pending is None:
                return
            pending.first_at = pending.first_at if first_at is None else first_at
            queue.mergeable[key] = pending
            queue.batch.append(pending)
        if not pending.left_batch:
            self._add_to_batch(queue, readers)

    def has_capacity(self, archive: Archive) -> bool:
        """Whether a caller that can wait may queue now: half of the queue is for callers that cannot."""
        queue = self._queues.get(archive.address)
        length = 0 if queue is None else len(queue.batch) + len(queue.waiting)
        return 2 * self._total < self._most and 2 * length < self._most_per_archive

    def skip(self, reason: str, readers: int = 1) -> None:
        """Count readers without an acknowledgment as dropped, because all readers are counted (note 2)."""
        self.dropped[reason] += readers

    async def close(self, grace: float = REPLY_SECONDS) -> None:
        """Admit no more, deliver the waiting ones for `grace` seconds at most, then drop the rest."""
        self._closing = True
        if self._silence_timer is not None:
            self._silence_timer.cancel()
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
        self.queued = self._total = 0
        self.dropped = +self.dropped
        self._queues.clear()

    def _admit(
        self,
        queue: ArchiveQueue,
        archive: Archive,
        acknowledgment: Acknowledgment,
        merge_key: MergeKey | None = None,
        readers: int = 1,
    ) -> PendingAcknowledgment | None:
        """Admit an acknowledgment; if the queue is full or closing, count it as dropped and return None."""
        if self._closing:
            self.dropped["closing"] += readers
            return None
        if self._total >= self._most or len(queue.batch) + len(queue.waiting) >= self._most_per_archive:
            self.dropped["too many waiting"] += readers
            return None
        self._queues[queue.address] = queue
        self.queued += readers
        self._total += 1
        now = asyncio.get_running_loop().time()
        return PendingAcknowledgment(archive, acknowledgment, now, merge_key, readers)

    def _add_to_batch(self, queue: ArchiveQueue, readers: int) -> None:
        """Add readers to the batch; it is flushed BATCH_SECONDS after the first one, or when it is full."""
        queue.batch_readers += readers
        if queue.batch_readers >= MOST_BATCHED:
            self._flush(queue)
        elif queue.timer is None:
            loop = asyncio.get_running_loop()
            queue.timer = loop.call_later(BATCH_SECONDS, self._flush, queue)

    def _flush(self, queue: ArchiveQueue) -> None:
        """Move the batch of an Archive to the acknowledgments that wait for a sender."""
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        for pending in queue.batch:
            pending.left_batch = True
        queue.waiting.extend(queue.batch)
        queue.batch.clear()
        queue.batch_readers = 0
        for _ in range(min(len(queue.waiting), self._senders_per_archive)):
            self._start_sender(queue)

    def _start_sender(self, queue: ArchiveQueue) -> None:
        if queue.senders < self._senders_per_archive:
            queue.senders += 1
            loop = asyncio.get_running_loop()
            if self._silence_timer is None:
                self._silence_timer = loop.call_later(SUSPICIOUS_SECONDS, self._report_silence)
            self._idle.clear()
            sender = AcknowledgmentSender(self, queue)
            self._senders.add(sender)
            sender.timer = loop.call_soon(
                sender.send_next
            )  # in the next turn, when the reader has the redirect

    def _report_silence(self) -> None:
        """Report Archives that have not replied for a while; repeats while any sender is at work."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for sender in list(self._senders):
            if sender.request is None or sender.deadline is None or sender.pending is None:
                continue
            silent_since = max(sender.deadline.begun, sender.queue.replied_at)
            if now - silent_since >= SUSPICIOUS_SECONDS:
                self.on_silence(sender.pending.archive, failed=False)
        again = self._senders and not self._closing
        self._silence_timer = loop.call_later(SUSPICIOUS_SECONDS, self._report_silence) if again else None

    # Called by senders

    def take(self, queue: ArchiveQueue) -> PendingAcknowledgment | None:
        """Take the next acknowledgment of a queue that is young enough to send; None where there is none."""
        if not queue.waiting:
            return None
        expired = asyncio.get_running_loop().time() - EXPIRY_SECONDS
        while queue.waiting:
            pending = queue.waiting.popleft()
            if pending.merge_key is not None and queue.mergeable.get(pending.merge_key) is pending:
                del queue.mergeable[pending.merge_key]
            self._total -= 1
            if pending.first_at >= expired:
                return pending
            self.count_result(pending, "too old")
        return None

    def count_result(self, pending: PendingAcknowledgment, problem: str) -> None:
        """Count an acknowledgment as delivered, or as dropped because of a `problem`."""
        if problem:
            self.dropped[problem] += pending.readers
        else:
            self.delivered += pending.readers
        self.queued -= pending.readers

    def remove(self, sender: AcknowledgmentSender) -> None:
        """Remove a sender whose queue has no acknowledgment for it any more."""
        self._senders.discard(sender)
        queue = sender.queue
        queue.senders -= 1
        if not (queue.senders or queue.batch or queue.waiting):
            self._queues.pop(queue.address, None)
        if not self._senders:
            self._idle.set()
