"""The express lane of a resolver: redirects that lie ready are given before any task, scope or routing exists.

It gives what the application would give, to whom the application would give it, and counts it as that does; whatever
else is asked, it leaves to the application. It decides nothing itself: what is `ready` was decided by a resolution,
and who may have it by the `warming.Rules` of the settings. What was given lately it need not look for, as long as
nothing at all was written to the file in which it was found.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ibi.resolver import ready_rows
from ibi.resolver.ready_rows import BY_LANGUAGE
from ibi.resolver.sign import UNKNOWN
from ibi.resolver.warming import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.resolver.gathering import Gathering, Given
    from ibi.resolver.ready import Ready
    from ibi.resolver.ready_rows import Redirect
    from ibi.resolver.warming import Rules
    from ibi.serving.express import Answer, Head

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the settings, and at a registry that somebody has changed by other means than ours."""

_FOUND: Final = 302

_log = logging.getLogger("ibi.resolver.express")


class Express:
    """The lane of one process, whatever its settings are. `now` gives POSIX seconds; belongs to one event loop.

    `follow` tells it by which rules to go; `look` has the settings looked at.
    """

    def __init__(self, ready: Ready, gathering: Gathering, now: Callable[[], float]) -> None:
        self.ready = ready
        self._find = ready.find
        self._gathering = gathering
        self.now = now
        self.rules: Rules | None = None
        self.looked = 0.0
        """When the settings were looked at last (POSIX seconds)."""
        self.look: Callable[[], object] = lambda: None

    def follow(self, rules: Rules | None) -> None:
        """Go by these rules from now on; without any, everything is left to the application."""
        self.rules = rules
        self.looked = 0.0

    def get(self, target: bytes, head: Head, peer: str) -> Answer | None:
        """Give a redirect to a GET, as `serving.express` wants it."""
        found = self._found(target, head, peer)
        if found is None:
            return None
        redirect, key, reader = found
        often = key in self._gathering.under_way
        if not self.give(redirect, key, reader):
            return None
        state = self.ready.state() if often else UNKNOWN
        if state == UNKNOWN:
            return _FOUND, redirect[0], None
        language = None if key == reader.rules.mark + target else reader.language
        return _FOUND, redirect[0], _Again(self, redirect, key, (reader.rules, language), state).give

    def head(self, target: bytes, head: Head, peer: str) -> Answer | None:
        """Show a redirect to a HEAD, for which nobody is thanked."""
        found = self._found(target, head, peer)
        if found is None:
            return None
        answer, story, _, _ = found[0]
        self._gathering.stories[story] += 1
        self._gathering.wake()
        return _FOUND, answer, None

    def give(self, redirect: Redirect, key: bytes, reader: Reader) -> bool:
        """Count a redirect; False where that cannot be done."""
        _, story, check, row = redirect
        return self.count(key, story, check) or (
            self._begin(key, row, check, reader) is not None and self.count(key, story, check)
        )

    def count(self, key: bytes, story: int, check: int) -> bool:
        """Count one more reader of a redirect whose thanks are gathered; False where they are not."""
        gathering = self._gathering
        given = gathering.under_way.get(key)
        if given is None or given.check != check:
            return False
        given.readers += 1
        gathering.given += 1
        gathering.stories[story] += 1
        return True

    def _found(self, target: bytes, head: Head, peer: str) -> tuple[Redirect, bytes, Reader] | None:
        """What lies ready for this reader, and under which key; nothing where there is a fault of ours."""
        try:
            return self._look_up(target, head, peer)
        except Exception:  # noqa: BLE001 - the application answers instead, and the parser is not disturbed
            _log.exception("the express lane could not look for a redirect")
            return None

    def _look_up(self, target: bytes, head: Head, peer: str) -> tuple[Redirect, bytes, Reader] | None:
        now = self.now()
        if not 0 <= now - self.looked < LOOK_EVERY:
            self.looked = now
            self.look()
            if self.rules is not None:
                self.rules.look()
        rules = self.rules
        if rules is None or not rules.hold():
            return None
        key = rules.mark + target
        found = self._find(key, now)
        if found is None:  # before the headers are read: whatever they say, the application answers
            return None
        reader = head.known
        if not isinstance(reader, Reader) or reader.rules is not rules:
            reader = head.known = Reader(rules, head, peer)
        if not reader.welcome or rules.refuses(reader.origin):
            return None
        if found[1] == BY_LANGUAGE:
            key = b"%b\n%b" % (key, reader.language)
            found = self._find(key, now)
        return None if found is None else (found, key, reader)

    def _begin(self, key: bytes, row: bytes, check: int, reader: Reader) -> Given | None:
        told = ready_rows.thanks_of(row)
        if told is None:
            return None
        service, _, thanks = told.decode("ascii").partition(" ")
        archive = reader.rules.by_name.get(service)
        if archive is None and thanks:
            return None
        return self._gathering.begin(key, check, archive, thanks, reader.addresses)


class _Again:
    """A redirect that was given before, and all that must still be as it was then. There may be many: it is small."""

    __slots__ = (
        "check",
        "key",
        "lane",
        "language",
        "mark",
        "rules",
        "shown",
        "since",
        "state",
        "story",
        "until",
    )

    def __init__(
        self, lane: Express, redirect: Redirect, key: bytes, whom: tuple[Rules, bytes | None], state: int
    ) -> None:
        """`whom`: whoever is read by these rules, and asks for this language, if one is named."""
        rules, self.language = whom
        self.lane = lane
        _, self.story, self.check, row = redirect
        self.key = key
        self.rules = rules
        self.mark = rules.mark
        self.shown = lane.ready.shown
        self.state = state
        self.since = lane.looked
        self.until = ready_rows.fresh_until(row)

    def give(self, head: Head) -> bool:
        """Give it to a GET once more, if nothing has changed, to whom he may have it."""
        lane, rules, reader = self.lane, self.rules, head.known
        now = lane.now()
        return (
            self.shown[1] == self.state
            and lane.rules is rules
            and isinstance(reader, Reader)
            and reader.rules is rules
            and reader.welcome
            and (self.language is None or self.language == reader.language)
            and self.since <= now < self.until
            and 0 <= now - lane.looked < LOOK_EVERY
            and rules.as_seen()
            and self.mark == rules.mark
            and not rules.refuses(reader.origin)
            and lane.count(self.key, self.story, self.check)
        )
