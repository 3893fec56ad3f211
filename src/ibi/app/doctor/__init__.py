"""The checkup of a data directory: each check looks at one thing, reports it, and suggests a remedy (threat T40).

It never repairs anything and leaves nothing behind.

Entry points: `doctor.Checkup` runs every check that applies; a check returns `Finding`s, which `ok`, `warning`, `fault`
and `not_proven` make.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

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


def _report(
    severity: Severity, name: str, sentence: IbiError | str, remedy: str = "", /, **details: object
) -> Finding:
    """Make a finding; sentence and remedy are filled from the same details, an error brings its own."""
    if isinstance(sentence, str):
        sentence = IbiError(sentence, **details)
    return Finding(name, severity, sentence, IbiError(remedy, **details) if remedy else None)


ok = partial(_report, Severity.OK)
warning = partial(_report, Severity.WARNING)
fault = partial(_report, Severity.FAULT)
not_proven = partial(_report, Severity.NOT_PROVEN)
