"""Thanks for redirects that lay ready: counted where they are given, handed on together (RES-12, notes 1 and 2).

A redirect that is given costs one addition. Many times a second what was counted goes into the metrics, and of the
thanks as many go on to `thanks` as are taken there, a part of them at each look. What stays grows with each reader, and
needs no place there; so thanks that wait are one parcel for each redirect, however many readers it stands for, and
nothing is dropped because much is asked for. They go to where their Archive is when they go, wherever it was before.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from ibi.protocol.messages import Acknowledgment, read_request
from ibi.resolver.metrics import REDIRECT
from ibi.resolver.thanks import OLDEST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.resolver.metrics import Metrics
    from ibi.resolver.registry import IncludedArchive
    from ibi.resolver.thanks import Thanks

EVERY: Final = 0.02
"""Seconds between two looks at what was counted: so few thanks go on at each that no reader waits for them."""

MOST_GATHERED: Final = 200_000
"""Redirects of one process whose thanks are gathered; others are given by the slow lane meanwhile."""

STAYS: Final = 1.0
"""Seconds for which a redirect stays at least: who asks for it again meanwhile is thanked for together."""

QUIET: Final = 20
"""Redirects between two looks, so few that all their thanks may go on at once; more do not go on at one look then."""

SELDOM: Final = 500
"""Where more is asked for, one acknowledgment goes on for so many redirects: it costs as much as twenty of them."""

LOOKS: Final = 12_000
"""Looks (four minutes) within which all that waits goes on, however much it is, as far as there is room."""

HINTS: Final = ("none", "right", "wrong")
"""How the first question of a resolution is counted (`metrics.Metrics.hint`)."""

_ROUNDS: Final = 32  # more than any has that is counted so


def story_of(rounds: int, hint: str) -> int:
    """A number for what the metrics say of a resolution that was answered out of memory."""
    return HINTS.index(hint) * _ROUNDS + min(rounds, _ROUNDS - 1)


class Given:
    """A redirect, and how many `readers` it was given to since their thanks went on last.

    `archive`, as it was when they began to be counted, is None where nobody is to be thanked. The first of them had
    these `addresses`.
    """

    __slots__ = ("addresses", "archive", "check", "readers", "since", "thanks")

    def __init__(
        self,
        check: int,
        archive: IncludedArchive | None,
        thanks: str | Acknowledgment,
        addresses: tuple[str, ...],
        since: float,
    ) -> None:
        self.check = check
        self.archive = archive
        self.thanks = thanks
        self.addresses = addresses
        self.since = since
        self.readers = 0

    def message(self) -> Acknowledgment:
        """What its Archive is told."""
        thanks = self.thanks
        message = cast("Acknowledgment", read_request(thanks)) if isinstance(thanks, str) else thanks
        return replace(message, client_addresses=self.addresses)


class Gathering:
    """What one process gives; belongs to one event loop. `metrics` follows it as it follows `thanks`.

    `follow` tells where thanks go on. `begin` what is not in `under_way` yet, then count in its `readers`, in `given`
    and in `stories`; what is counted in `stories` alone is to be told to `wake`.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None
        self._leaving: deque[Given] = deque()
        self._thanks: Thanks | None = None
        self._included: Callable[[], Sequence[IncludedArchive]] = tuple
        self._archives: Sequence[IncludedArchive] = ()
        self._by_name: dict[str, IncludedArchive] = {}
        self.under_way: dict[bytes, Given] = {}
        self.stories = [0] * (len(HINTS) * _ROUNDS)
        """How many resolutions there were of each story."""
        self.given = 0
        """Redirects that were given to readers, and not only looked at."""
        self.queued = 0
        self.delivered = 0
        self.dropped = Counter[str]()

    def follow(self, thanks: Thanks, included: Callable[[], Sequence[IncludedArchive]]) -> None:
        """Hand on to these thanks from now on, for the Archives that are included then."""
        self._thanks = thanks
        self._included = included

    def begin(
        self,
        key: bytes,
        check: int,
        archive: IncludedArchive | None,
        thanks: str | Acknowledgment,
        addresses: tuple[str, ...],
    ) -> Given | None:
        """Count a redirect from now on; None where too many are counted already.

        `check` tells it from others under its key; `thanks` is an acknowledgment, or the query of one that can be
        read again.
        """
        if len(self.under_way) + len(self._leaving) >= MOST_GATHERED:
            return None
        before = self.under_way.get(key)
        if before is not None:  # the same target, another answer with another key to thank with
            self._leaving.append(before)
        self.wake()
        now = asyncio.get_running_loop().time()
        given = self.under_way[key] = Given(check, archive, thanks, addresses, now)
        return given

    def again(self, archive: IncludedArchive, message: Acknowledgment) -> bool:
        """Take thanks for one more reader of an answer that may be reused; False where too much is gathered."""
        key = f"{archive.service_ibi} {message.url_key} {message.url}".encode()
        given = self.under_way.get(key)
        if given is None:
            given = self.begin(key, 0, archive, message, message.client_addresses)
        if given is None:
            return False
        given.readers += 1
        self.given += 1
        return True

    def wake(self) -> None:
        """Something is to be looked at soon."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._look)

    def close(self) -> None:
        """Hand on everything; what is not taken counts as dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._count()
        self._look_up()
        for given in [*self._leaving, *self.under_way.values()]:
            self._hand_on(given, self._now_of(given))
        self._leaving.clear()
        self.under_way.clear()

    def _look(self) -> None:
        self._timer = None
        lately = self._count()
        waiting = len(self._leaving) + len(self.under_way)
        most = max(QUIET if lately < QUIET else lately // SELDOM, waiting // LOOKS) + 1
        now = asyncio.get_running_loop().time()
        self._look_up()
        if waiting:
            self.wake()
        for _ in range(min(most, len(self._leaving))):
            given = self._leaving.popleft()
            if not self._goes(given, now):
                self._leaving.append(given)  # behind the others: its Archive takes no more at the moment
        for key, given in list(islice(self.under_way.items(), most)):
            if now - given.since < STAYS:
                break  # those behind it have not been there longer, or had no room a moment ago
            del self.under_way[key]
            if not self._goes(given, now):
                self.under_way[key] = given

    def _count(self) -> int:
        """Take over what was counted; how many redirects it was."""
        counted = [(story, count) for story, count in enumerate(self.stories) if count]
        now, metrics = asyncio.get_running_loop().time(), self._metrics
        for story, count in counted:
            hint, rounds = divmod(story, _ROUNDS)
            self.stories[story] -= count
            metrics.begun(count)
            metrics.resolved(REDIRECT, 0.0, now, count)
            metrics.round(rounds * count)
            metrics.remembered("fresh", count)
            metrics.hint(HINTS[hint], count)
        self.queued += self.given
        self.given = 0
        return sum(count for _, count in counted)

    def _look_up(self) -> None:
        """See who is included now, and where."""
        archives = self._included()
        if archives is not self._archives:
            self._archives = archives
            self._by_name = {each.service_ibi.canonical: each for each in archives}

    def _now_of(self, given: Given) -> IncludedArchive | None:
        """The Archive that is to be thanked, where it is now; None where there is none, or it is not included."""
        return None if given.archive is None else self._by_name.get(given.archive.service_ibi.canonical)

    def _goes(self, given: Given, now: float) -> bool:
        """Hand thanks on, if they are taken or have waited too long; False while they have to wait."""
        archive, thanks = self._now_of(given), self._thanks
        old = now - given.since > OLDEST
        if archive is not None and not old and not (thanks is not None and thanks.has_room(archive)):
            return False
        self._hand_on(given, archive, "too old" if old else "")
        return True

    def _hand_on(self, given: Given, archive: IncludedArchive | None, dropped: str = "") -> None:
        if self._thanks is None or dropped:
            self.dropped[dropped or "closing"] += given.readers
        elif given.archive is None:
            self._thanks.skip("no key to thank with", given.readers)
        elif archive is None:
            self._thanks.skip("no longer included", given.readers)
        elif given.readers:
            self._thanks.again(archive, given.message(), given.readers, given.since)
        self.queued -= given.readers  # counted here until it is counted there
