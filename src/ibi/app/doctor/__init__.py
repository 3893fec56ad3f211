"""The checkup of a data directory: each check examines one thing and suggests a remedy (threat T40).

It repairs nothing by itself and leaves nothing behind; what can be repaired without a risk has a `Finding.fix`.

Entry points: `doctor.Checkup` runs every check that applies. A check returns `Finding`s, made by `ok`,
`warning`, `fault` and `not_proven`; `fixable` adds a repair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Callable


class Severity(StrEnum):
    """How grave a finding is. Only a fault must be repaired before the service can run."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    NOT_PROVEN = "not proven"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `name`: what was examined ("clock"); `remedy`: None if none is needed.

    `fix` repairs it, and returns what was done; None if only a person can. It may raise IbiError or OSError.
    """

    # Sentences are IbiErrors that are never raised, because these have details, and `say` translates them.

    name: str
    severity: Severity
    sentence: IbiError
    remedy: IbiError | None = None
    fix: Callable[[], IbiError] | None = None


def _report(
    severity: Severity, name: str, sentence: IbiError | str, remedy: str = "", /, **details: object
) -> Finding:
    """Make a finding; `details` fill the placeholders of sentence and remedy; an error has its own."""
    if isinstance(sentence, str):
        sentence = IbiError(sentence, **details)
    return Finding(name, severity, sentence, IbiError(remedy, **details) if remedy else None)


ok = partial(_report, Severity.OK)
warning = partial(_report, Severity.WARNING)
fault = partial(_report, Severity.FAULT)
not_proven = partial(_report, Severity.NOT_PROVEN)


def fixable(finding: Finding, fix: Callable[[], IbiError]) -> Finding:
    """Return a finding with its repair."""
    return replace(finding, fix=fix)
