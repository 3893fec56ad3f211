"""Whether the evidence is whole."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import UNSET, Fields, field
from ibi.api.operations import Operation
from ibi.api.routes import COUNT, TEXT, TRUTH, record
from ibi.errors import IbiError
from ibi.http.response import Refusal
from ibi.resolver.evidence.chain import Anchor

if TYPE_CHECKING:
    from ibi.resolver.operations.context import ResolverContext

# One at a time: to verify reads the whole log, which may take minutes and a core.
_VERIFYING: Final = threading.Semaphore(1)


class VerifyFields(Fields, frozen=True):
    """What the log must go on from."""

    since: Annotated[str, field("the last entry as it was: NUMBER:HASH", "--since ANCHOR", longest=100)] = (
        UNSET
    )


def verify(context: ResolverContext, fields: VerifyFields) -> dict[str, Any]:
    """Look whether every entry is as it was written. Raises ParseError, SetupError, Refusal (429)."""
    anchor = Anchor.parse(fields.since) if fields.since is not UNSET else None
    if not _VERIFYING.acquire(blocking=False):
        raise Refusal(429, IbiError("the log is being verified just now"), ("retry-after", "10"))
    try:
        verification = context.evidence.verify(anchor)
    finally:
        _VERIFYING.release()
    result: dict[str, Any] = {
        "whole": verification.fault is None,
        "entries": verification.entries,
        "last": str(verification.last),
        "damage": verification.damage,
    }
    return result if verification.fault is None else {**result, "problem": context.say(verification.fault)}


_VERIFICATION: Final = record("problem", whole=TRUTH, entries=COUNT, last=TEXT, damage=COUNT, problem=TEXT)

OPERATIONS: Final[tuple[Operation[ResolverContext, Any], ...]] = (
    Operation(
        "verify-log", "whether every entry of the log is as it was written", Scope.ADMIN, VerifyFields, verify,
        "GET /log/verify", gives=_VERIFICATION, command="log verify",
    ),
)  # fmt: skip
