"""The rounds of one resolution, driven over the network: the machine decides, this only asks and listens (RES-04).

All rounds share one deadline, the same in both modes, so that no Archive can tell them apart (note 8).
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.resolver.alerts import Alert
from ibi.resolver.fanout import Heard, ask_all
from ibi.resolver.resolution import AskAgain, Redirect, Resolution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.persistent_url import PersistentURL
    from ibi.resolver.explanation import Explanation
    from ibi.resolver.registry import IncludedArchive
    from ibi.resolver.selection import Policy
    from ibi.transport import Client

FIRST: Final = "It was the first answer that satisfies the request."
ONLY_ORIGINAL: Final = "It is the only one among the answers of all Archives that claims to be the original."
ONLY_ORIGINAL_HEARD: Final = (
    "It is the only one that claims to be the original; not every Archive has answered."
)


@dataclass(frozen=True, slots=True)
class Reader:
    """What a resolution must know of the one who asks."""

    addresses: tuple[str, ...]
    preference: LanguagePreference


@dataclass(frozen=True, slots=True)
class Rounds:
    """How rounds are held: whom to ask, through which door, how long (seconds), and how answers are judged."""

    client: Client
    archives: Callable[[], Iterable[IncludedArchive]]
    policy: Policy
    per_archive: float
    overall: float

    async def resolve(
        self, url: PersistentURL, persistent: str, reader: Reader, story: Explanation
    ) -> Redirect | Alert:
        """Resolve a persistent URL, whose whole text is `persistent`, and write down in `story` how it went."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        machine = Resolution(url, persistent, reader.addresses, reader.preference, self.policy)
        while True:
            decision = await self._round(machine, story, begun + self.overall - loop.time())
            if not isinstance(decision, AskAgain):
                break
        story.milliseconds = _since(begun)
        if isinstance(decision, Redirect):
            story.location, story.archive = decision.url, str(decision.archive.service_ibi)
            story.reason = FIRST
            if url.original_required:
                story.reason = ONLY_ORIGINAL if decision.complete else ONLY_ORIGINAL_HEARD
            return decision
        story.alert = decision
        return decision

    async def _round(
        self, machine: Resolution, story: Explanation, left: float
    ) -> Redirect | AskAgain | Alert:
        """One round, and what it comes to."""
        begun = asyncio.get_running_loop().time()
        archives = tuple(self.archives())
        story.ask(machine.request, tuple(str(archive.service_ibi) for archive in archives))
        outcomes = ask_all(self.client, archives, machine.request, per_archive=self.per_archive, overall=left)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                name, address = str(outcome.archive.service_ibi), outcome.archive.address
                if not isinstance(outcome, Heard):
                    story.silent(name, address, outcome.why, _since(begun))
                    machine.silent(outcome.archive, outcome.why)
                    continue
                story.hear(name, address, outcome.url_list, _since(begun))
                decision = machine.hear(outcome.archive, outcome.url_list)
                if decision is not None:
                    return decision
        return machine.close_round()


def _since(begun: float) -> int:
    """Whole milliseconds since a time of the loop."""
    return round((asyncio.get_running_loop().time() - begun) * 1000)
