"""What pages made of operations call the members of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.api import jobs
from ibi.archive.operations.listed import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FACTS: Final = {
    "address": "Address",
    "advice": "What helps",
    "audit": "Audit",
    "backup": "Backup",
    "backups": "Backups",
    "begun": "Began",
    "bytes": "Bytes",
    "changed": "Changed",
    "copied": "New files",
    "copied_bytes": "Bytes of new files",
    "copies": "Copies",
    "damaged": "Damaged files",
    "days": "Days",
    "differences": "Differences",
    "done": "Done so far",
    "ended": "Ended",
    "fault": "What is wrong",
    "faults": "Damaged files",
    "file": "File",
    "files": "Files",
    "found": "Found",
    "free": "Free bytes of the disk",
    "good": "Last found good",
    "id": "Job",
    "item": "Item",
    "items": "Items",
    "ibi": "Name",
    "jobs": "Jobs",
    "key": "Key",
    "left": "Not settled",
    "last_good": "Last found good",
    "moved": "Moved to another Archive",
    "name": "Name",
    "notes": "Notes",
    "open": "Not settled",
    "operation": "What is done",
    "peers": "Archives",
    "problem": "Problem",
    "problems": "Problems",
    "removed": "Removed",
    "resolver": "Resolver",
    "resolvers": "Resolvers",
    "result": "Result",
    "service": "Service",
    "settings": "Settings",
    "settled": "Settled",
    "since": "Since",
    "source": "Who was asked",
    "standing": "Standing",
    "started": "Started",
    "state": "State",
    "token": "Has a token",
    "total": "Of all",
    "transfers": "Hand-overs",
    "unsettled": "Originals that are not settled",
    "url": "URL",
    "who": "Asked for by",
}
"""The words by the names of members; any other member is called as programs call it."""

FAULTS: Final = {
    "missing": "it is not there",
    "size": "it has another size",
    "digest": "its content has changed",
    "unreadable": "it cannot be read",
}
"""What can be wrong with a stored file, in words."""

STATES: Final = {
    jobs.RUNNING: "under way",
    jobs.DONE: "done",
    jobs.FAILED: "failed",
    jobs.STOPPED: "stopped",
    jobs.INTERRUPTED: "interrupted: its server has ended",
}
"""The states of a job, in words."""

VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "state": STATES,
    "fault": FAULTS,
    "operation": {each.name: each.summary for each in OPERATIONS},
}
"""The words for values of these members; any other value stands as it is."""

MOMENTS: Final = frozenset({"begun", "ended", "found", "good", "last_good", "since", "started", "timestamp"})
"""Members that are moments."""


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The members of some rows, in the order in which they come, without those that have members of their own."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if not any(isinstance(row.get(name), dict) for row in rows)]
