"""What a person sees at /-/register: a value, of which pages are made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.errors import IbiError


@dataclass(frozen=True, slots=True)
class RegistrationPage:
    """The form as it was filled in; what is wrong with it; or the key, for the one time that it is shown."""

    fields: Mapping[str, str]
    problem: IbiError | None = None
    key: str = ""
    status: int = 200
    retry_after: int | None = None
