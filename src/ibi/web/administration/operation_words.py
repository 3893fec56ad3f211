"""The labels for the members of results, on pages that are made from operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.api import jobs
from ibi.api.fields import described
from ibi.api.operation_pages import OperationPage
from ibi.archive.operations.listed import OPERATIONS
from ibi.archive.operations.settings import SET, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FACTS: Final = {
    "Deleted": "Removed",
    "address": "Address",
    "admin": "Administrator",
    "advice": "What helps",
    "aliases": "Other addresses",
    "audit": "Audit",
    "backup": "Backup",
    "backups": "Backups",
    "begun": "Began",
    "bytes": "Bytes",
    "changed": "Changed",
    "copied": "New files",
    "copied_bytes": "Bytes of new files",
    "copies": "Copies",
    "count": "Number",
    "damaged": "Damaged files",
    "days": "Days",
    "differences": "Differences",
    "done": "Done so far",
    "ended": "Ended",
    "fault": "What is wrong",
    "faults": "Damaged files",
    "file": "File",
    "files": "Stored files",
    "for_trying": "Only for trying out",
    "found": "Found",
    "free": "Free bytes of the disk",
    "good": "Last found good",
    "heard": "Last response",
    "id": "Job",
    "item": "Item",
    "items": "Items",
    "holdings_filter": "Publishes which names it answers for",
    "ibi": "Name",
    "ip": "IP address",
    "jobs": "Jobs",
    "key": "Key",
    "labels": "Host in new names",
    "lagging": "May differ from their originals",
    "left": "Not settled",
    "last_good": "Last found good",
    "moved": "Moved to another Archive",
    "name": "Name",
    "notes": "Notes",
    "open": "Not settled",
    "operation": "Operation",
    "peers": "Archives",
    "problem": "Problem",
    "problems": "Problems",
    "relations": "Relations that it answers for",
    "removed": "Removed",
    "resolver": "Resolver",
    "resolver_service": "Service of the resolver",
    "resolvers": "Resolvers",
    "result": "Result",
    "retired": "Retired",
    "service": "Service",
    "settings": "Settings",
    "settled": "Settled",
    "since": "Since",
    "source": "Queried",
    "standing": "Standing",
    "started": "Started",
    "state": "State",
    "switched_on": "Switched on",
    "token": "Token",
    "total": "Of all",
    "transfers": "Hand-overs",
    "unsettled": "Originals that are not settled",
    "url": "URL",
    "who": "Requested by",
    "name_pt": "Name in Portuguese",
    "subtitle": "Subtitle",
    "subtitle_pt": "Subtitle in Portuguese",
    "colour": "Colour",
    "logo": "Logo",
    "cover": "Picture of the front page",
    "font": "Font",
    "welcome": "Welcome",
    "welcome_pt": "Welcome in Portuguese",
    "about": "About",
    "about_pt": "About in Portuguese",
    "policies": "Policies",
    "policies_pt": "Policies in Portuguese",
    "privacy": "Privacy",
    "privacy_pt": "Privacy in Portuguese",
    "contact": "Contact",
    "postal_address": "Address and telephone",
    "publisher": "Publisher",
    "added": "Added",
    "archive": "Archive",
    "checked": "Checked",
    "compared": "Compared",
    "damage": "Damaged entries",
    "entries": "Entries",
    "equal": "Equal to its original",
    "institution": "Institution",
    "last": "Last entry",
    "made": "Made",
    "password": "Password",
    "receipt": "Receipt",
    "record": "Record",
    "refusals": "Refused records",
    "refused": "Refused",
    "role": "Role",
    "scopes": "What it permits",
    "service_ibi": "IBI of the service",
    "sha256": "SHA-256",
    "signature": "Signature",
    "timestamp": "Date",
    "tokens": "Tokens",
    "unchanged": "Unchanged",
    "whole": "Undamaged",
}
"""Name of a member -> label; other members are shown with their names."""

FAULTS: Final = {
    "missing": "it is not there",
    "size": "it has another size",
    "digest": "its content has changed",
    "unreadable": "it cannot be read",
}
"""Fault of a stored file -> words."""

STATES: Final = {
    jobs.RUNNING: "under way",
    jobs.DONE: "done",
    jobs.FAILED: "failed",
    jobs.STOPPED: "stopped",
    jobs.INTERRUPTED: "interrupted: its server has ended",
}
"""State of a job -> words."""

VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "state": STATES,
    "fault": FAULTS,
    "operation": {each.name: each.summary for each in OPERATIONS},
}
"""Member -> value -> words; other values are shown as they are."""

MOMENTS: Final = frozenset(
    {
        "begun",
        "checked",
        "ended",
        "found",
        "good",
        "heard",
        "last_good",
        "made",
        "since",
        "started",
        "timestamp",
    }
)
"""Names of members that are moments."""


def fact_words(page: object) -> Mapping[str, str]:
    """Return the labels of the members of a result; those of settings are the labels in the form that changes them."""
    is_of_settings = isinstance(page, OperationPage) and page.operation is SETTINGS
    settings = described(SET.fields) if is_of_settings else ()
    return {each.name: each.text for each in settings} | FACTS


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the members of some rows, in order, without members that are objects."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if not any(isinstance(row.get(name), dict) for row in rows)]
