"""The checkup of a data directory: each check looks at one thing, reports it, and suggests a remedy (threat T40).

It never repairs anything and leaves nothing behind.

Entry points: `doctor.Checkup` runs every check that applies; a check returns `Finding`s, each with a `Severity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibi.errors import IbiError


class Severity(StrEnum):
    """How grave a finding is. Only a fault must be repaired before the service can run."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    NOT_PROVEN = "not proven"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. `name` is what was looked at ("clock"); `remedy` is None where there is nothing to do."""

    # Errors that are never raised stand for the sentences: they carry details, and `say` translates them.

    name: str
    severity: Severity
    sentence: IbiError
    remedy: IbiError | None = None
