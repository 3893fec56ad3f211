"""What one process of each node does where several nodes of a resolver share a store.

What other nodes have written into the evidence goes into the hints of this node (threat T04); and when another node has
heard a notice of change, this one asks the Archive, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import SetupError
from ibi.resolver.evidence.chain import read_line
from ibi.resolver.evidence.log import EVIDENCE_FILE
from ibi.resolver.evidence.reading import moved_names, put_holder
from ibi.resolver.evidence.table import EvidenceTable
from ibi.runtime.durable_files import replace_file
from ibi.runtime.shared.store import node_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.resolver.cache.change_requests import ChangesRequester
    from ibi.resolver.service import Stores
    from ibi.runtime.shared.store import SharedStore

LOOK_SECONDS: Final = 0.25
"""Seconds between two looks at whether the evidence has grown; a look reads a number in memory."""

READ_AGAIN: Final = 5_000
"""Entries before the position that are read once more after each start."""

_POSITION: Final = "hints.position"
_log = logging.getLogger(__name__)


def read_position(data: Path) -> int:
    """Return the number of the last entry of evidence that the hints of this node have; 0 if it is not known."""
    try:
        return int((data / _POSITION).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0  # all is read again, which changes nothing that is known


def keep_position(data: Path, number: int) -> None:
    """Store that the hints have all entries up to this one."""
    with suppress(OSError):
        replace_file(data / _POSITION, f"{number}\n".encode())


class NodeTasks:
    """What each node does because others share its store; `changes` returns what asks Archives for changes now."""

    def __init__(
        self, data: Path, store: SharedStore, stores: Stores, changes: Callable[[], ChangesRequester]
    ) -> None:
        self._data = data
        self._store = store
        self._stores = stores
        self._changes = changes
        self._log = EvidenceTable(data / EVIDENCE_FILE, store)
        # The hints are a cache: what was written into them last may not have survived a power cut.
        self._position = max(0, read_position(data) - READ_AGAIN)

    async def follow_evidence(self) -> None:
        """Take over what is written into the evidence, until cancelled."""
        seen = -1
        while True:
            count = self._store.count("evidence")
            if count != seen:
                try:
                    await asyncio.to_thread(self.read_evidence)
                except SetupError as error:
                    _log.warning("the evidence of other nodes cannot be read now: %s", error)
                else:
                    seen = count
            await asyncio.sleep(LOOK_SECONDS)

    def read_evidence(self) -> None:
        """Put the holders that new entries tell of into the hints of this node. Raises SetupError."""
        hints, leases = self._stores.knowledge.hints, self._stores.knowledge.cache.leases
        while rows := self._log.after(self._position):
            for _, line in rows:
                entry = read_line(line)
                if entry is not None:
                    put_holder(hints, entry)
                    # Redirects to the former holder's copy, of items that have moved, are looked at again.
                    leases.change_versions(moved_names(entry))
            hints.flush()
            self._position = rows[-1][0]
            keep_position(self._data, self._position)

    async def hear_notices(self) -> None:
        """Ask Archives for changes when other nodes have heard notices of them, until cancelled."""
        loop, own, tasks = asyncio.get_running_loop(), node_name(self._data), set[asyncio.Task[None]]()

        def start(notice: dict[str, Any]) -> None:
            task = asyncio.create_task(self._follow_notice(notice))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        def hear(text: str) -> None:
            with suppress(ValueError, KeyError, TypeError):
                notice = json.loads(text)
                if notice["node"] != own:
                    loop.call_soon_threadsafe(start, notice)

        self._store.hear(hear)
        await asyncio.Event().wait()

    async def _follow_notice(self, notice: dict[str, Any]) -> None:
        archives = self._stores.registry.archives()
        archive = next((each for each in archives if each.service == notice["service"]), None)
        if archive is None:
            return
        if notice["accepted"]:
            names = notice["names"]
            await asyncio.to_thread(self._stores.knowledge.cache.forget_changed, archive.service, names)
            self._stores.knowledge.note_changed(names or (), archive.service)
            self._changes().refresh(archive)
        else:
            self._changes().wake(archive)
