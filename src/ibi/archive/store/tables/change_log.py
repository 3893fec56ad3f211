"""The log of changes, by which resolvers ask what has changed since a position (docs/standard/extensions.md).

    number  word              item
    41      9f3c01d2aa07b6e4  17      position 41.9f3c01d2aa07b6e4: the store as this change left it
    42      e2a4490c61bb07d5          a change without an item: anything may be different

A change is logged in the transaction that makes it, so no change is without its row. Its word is drawn anew, so a store
that was restored or set back does not find a position that it has lost, although its numbers go on from there.
`history` logs the changes of items.
"""

from __future__ import annotations

import os
import time
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ibi.archive.store.tables.rows import POSITION
from ibi.errors import ParseError
from ibi.protocol.extensions.changes import MOST_NAMES, Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.model.changes import LoggedChange
    from ibi.archive.store.tables.catalogue import SqlRunner

KEPT: Final = 100_000
"""Changes that are kept at least."""
KEPT_SECONDS: Final = 86_400
"""Seconds for which every change is kept."""

# At each thousandth change, at most 10,000 of the oldest rows are deleted: no transaction takes long for it, and a log
# that is too long still becomes shorter.
TRIM_EVERY, TRIM_MOST = 1_000, 10_000

LAST_FEED: Final = "SELECT max(feed) FROM event WHERE feed IS NOT NULL"
"""The number of the last event. Without its condition, SQLite would read all events instead of the index of these."""


# Events keep their numbers when the log is cleared, so numbers go up all the same.
_NEXT: Final = (
    f"SELECT max(coalesce((SELECT max(number) FROM changed), 0), coalesce(({LAST_FEED}), 0)) + 1,"  # noqa: S608 - our own words
    " CAST(strftime('%s', 'now') AS INTEGER), julianday('now'),"
    " coalesce((SELECT rules FROM changed ORDER BY number DESC LIMIT 1), 0)"
)
_ADD: Final = (
    "INSERT INTO changed (number, word, moment, rules, item) VALUES (:number, :word, :moment, :rules, :item)"
)
_CLEAR: Final = "DELETE FROM changed WHERE number < :number"
# Only a beginning of the log is deleted, so that no change is missing behind a position that is found. A moment later
# than tomorrow comes from a clock that was wrong. One bound, the lowest of three: of several, SQLite would look up only
# the first one, and read all rows below it.
_TRIM: Final = (
    "DELETE FROM changed WHERE number < (SELECT min(below) FROM (SELECT :number - :kept + 1 AS below"
    " UNION ALL SELECT min(number) + :most FROM changed"
    " UNION ALL SELECT min(number) FROM (SELECT number, moment FROM changed ORDER BY number LIMIT :most) AS oldest"
    " WHERE moment BETWEEN :now - :day AND :now + :day) AS bounds)"
)
_OLDEST: Final = "SELECT coalesce(min(number), 1) FROM changed"
_LAST_ANYTHING: Final = "SELECT max(number) FROM changed WHERE item IS NULL"
_FOUND: Final = "SELECT 1 FROM changed WHERE number = :number AND word = :word"
_AFTER: Final = (
    "SELECT log.number, log.word, name.name FROM (SELECT number, word, item FROM changed WHERE number > :after"
    " ORDER BY number LIMIT :most) AS log JOIN name ON name.item = log.item ORDER BY log.number, name.name"
)
_NAMES: Final = (
    "SELECT DISTINCT name.name FROM changed JOIN name ON name.item = changed.item"
    " WHERE changed.number > :after AND changed.number <= :last LIMIT :most"
)


def log_changes(run: SqlRunner, items: Sequence[int | None], rules: int | None = None) -> range:
    """Log a change of each of these items (None: of anything); return their numbers, which are above all others.

    `rules` stands for the settings by which answers are made from now on; None: as before.
    """
    first, now, day, rules_before = run(_NEXT).fetchone()
    rules = rules_before if rules is None else rules
    numbers = range(first, first + len(items))
    # The clocks, too: two machines that go on from one picture of a machine have the same random bytes.
    seed = b"%b %r %d" % (os.urandom(16), day, time.monotonic_ns())
    run.many(
        _ADD,
        [
            (number, _word(seed, number), now, rules, item)
            for number, item in zip(numbers, items, strict=True)
        ],
    )
    if numbers and first // TRIM_EVERY < numbers.stop // TRIM_EVERY:
        run(_TRIM, number=numbers[-1], kept=KEPT, now=now, day=KEPT_SECONDS, most=TRIM_MOST)
    return numbers


def begin_again(run: SqlRunner) -> None:
    """Clear the log, and log that anything may be different: for what restores, rebuilds or moves a store."""
    run(_CLEAR, number=log_changes(run, [None])[0])


def log_rules(run: SqlRunner, rules: int) -> None:
    """Log that anything may be different, if the last answers were made by settings for which another number stands."""
    newest = run(POSITION).fetchone()
    if newest is None or newest[2] != rules:
        log_changes(run, [None], rules)


def newest_change(run: SqlRunner) -> int:
    """Return the number of the last change; 0 if there is none."""
    row = run(POSITION).fetchone()
    return row[0] if row else 0


def changes_after(run: SqlRunner, after: str) -> tuple[str, bool, list[LoggedChange]]:
    """Return the newest position, whether the log has the position `after`, and the next changes behind it.

    If one of the changes is without an item, it is returned alone: it says that anything may be different. All of this
    must be read from one snapshot.
    """
    newest = Position(*run(POSITION).fetchone()[:2])
    try:
        number, word = Position.parse(after)
    except ParseError:
        return str(newest), False, []
    if run(_FOUND, number=number, word=word).fetchone() is None:
        return str(newest), False, []
    if (run(_LAST_ANYTHING).fetchone()[0] or 0) > number:
        return str(newest), True, [(str(newest), None)]
    rows = run(_AFTER, after=number, most=MOST_NAMES + 1).fetchall()
    return (
        str(newest),
        True,
        [
            (str(Position(*position)), tuple([row[2] for row in names]))
            for position, names in groupby(rows, key=lambda row: row[:2])
        ],
    )


def changed_names(run: SqlRunner, after: int, last: int, most: int) -> list[str] | None:
    """Return the canonical names of the items that changed after number `after`, up to number `last`.

    None if anything may have changed, if there are more than `most` names, or if the log no longer reaches back.
    """
    if run(_OLDEST).fetchone()[0] > after + 1 or (run(_LAST_ANYTHING).fetchone()[0] or 0) > after:
        return None
    # One more than `most`, to see whether there are more.
    found = [row[0] for row in run(_NAMES, after=after, last=last, most=most + 1).fetchall()]
    return found if len(found) <= most else None


def _word(seed: bytes, number: int) -> str:
    return blake2b(b"%b %d" % (seed, number), digest_size=8).hexdigest()
