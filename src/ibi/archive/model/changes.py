"""The reply of an Archive to a request for changes (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.protocol.extensions.changes import MOST_NAMES, ChangesReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.protocol.extensions.changes import ChangesRequest

LoggedChange = tuple[str, tuple[str, ...] | None]
"""A change in the log: its position, and all names of its item; None if anything may be different since."""


def reply_to(
    request: ChangesRequest,
    newest: str,
    known: bool,  # noqa: FBT001 - the log's answer about `after`, in the order in which it is found
    entries: Sequence[LoggedChange],
) -> ChangesReply:
    """Return the reply, from one snapshot of the log.

    `newest`: the last position; `known`: whether the log has `request.after`, by number and word; `entries`: the
    changes behind it, in order, perhaps not up to the last one. A change is in a reply with all its names or not at
    all: if they do not fit, `to` is the change before.
    """
    anything = ChangesReply(request.word, newest, None)
    if not known:
        return anything
    names_so_far: dict[str, None] = {}
    to = request.after
    for position, names in entries:
        # No resolver reads a longer reply, and no position is in the middle of a change.
        if names is None or len(names) > MOST_NAMES:
            return anything
        new = dict.fromkeys([name for name in names if name not in names_so_far])
        if len(names_so_far) + len(new) > MOST_NAMES:
            break
        names_so_far |= new
        to = position
    return ChangesReply(request.word, to, tuple(names_so_far), more=to != newest)
