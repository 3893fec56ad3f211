"""What a check comes to: a verdict, one sentence, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibi.errors import IbiError


class Verdict(StrEnum):
    """How grave a finding is. Only a fault must be mended before one can go on."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    NOT_PROVEN = "not proven"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. `name` is what was looked at ("clock"); `advice` is None where there is nothing to do.

    Sentences are errors that nobody raises: they carry their details, and can be said in either language.
    """

    name: str
    verdict: Verdict
    sentence: IbiError
    advice: IbiError | None = None
