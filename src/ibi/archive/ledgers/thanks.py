"""Acknowledgments that were counted: how many readers each item had, and what must not count again (SVC-20, SVC-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run
    from ibi.archive.url_key import Thanks

_REMEMBER = "INSERT INTO thanked (url_key, expires) VALUES (:once, :expires) ON CONFLICT DO NOTHING"
_SO_FAR = "SELECT readers FROM thanked WHERE url_key = :total"
_ADD = (
    "INSERT INTO thanked (url_key, expires, readers) VALUES (:total, :expires, :readers)"
    " ON CONFLICT (url_key) DO UPDATE SET readers = readers + excluded.readers"
)
_COUNT = "UPDATE item SET thanks = thanks + :readers WHERE number = :number"
_FORGET = "DELETE FROM thanked WHERE expires < :now"


def count(run: Run, thanks: Thanks) -> int:
    """Count an acknowledgment for its item; for how many readers: 0 if it was counted before, or its key is used up.

    The transaction must be one that writes: between what was counted so far and what comes to it is nobody else.
    """
    total = f"{thanks.key} in all"  # the row of its sum; an id has digits only
    found = run(_SO_FAR, total).fetchone()
    readers = min(thanks.readers, thanks.most - (found[0] if found else 0))
    if readers < 1 or run(_REMEMBER, thanks.once, thanks.expires).rowcount < 1:
        return 0
    run(_ADD, total, thanks.expires, readers)
    run(_COUNT, readers, thanks.number)
    return readers


def forget(run: Run, now: int) -> None:
    """Forget what would be refused by now (POSIX seconds) for its age."""
    run(_FORGET, now)
