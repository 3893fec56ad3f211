"""Which second an entry is dated by, so that a harvester who asks again from where it ended misses no change.

An entry gets the second before whose end it can first be read: that is later than the change itself, by as much as
the index lags behind the catalogue. An index that is made anew must date none earlier than the one before it did, which
cannot be asked any more. So how far the index has ever lagged behind is written down before it happens:

    DIR/finding.dates    {"floor": 1790000000, "lag": 64}

An index made anew then dates an entry `lag` seconds after its change, never before `floor`, and never later than the
present. Without the file nothing is known of an index before: all entries are dated by the present, and that is the
floor from then on. It is in no backup: what is put back may be older than what a harvester has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.durable import replace_file

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "finding.dates"

_LEAST: Final = 64  # seconds, doubled as often as needed: so the file is seldom written


class Dates(NamedTuple):
    """No entry was dated before `floor` (POSIX seconds), and none later than `lag` seconds after its change."""

    floor: int
    lag: int

    def again(self, happened: int) -> int:
        """Not earlier than an index before has dated what happened then."""
        return max(happened + self.lag, self.floor)


def read_dates(folder: Path) -> Dates | None:
    """What is known of the index before; None for nothing. Raises OSError."""
    try:
        said = json.loads((folder / FILE).read_bytes())
        return Dates(int(said["floor"]), int(said["lag"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def begin_dates(folder: Path, now: int) -> None:
    """An index is whole that was made without such knowledge; it dates nothing later than `now`. Raises OSError."""
    if read_dates(folder) is None:
        _keep(folder, Dates(now, _LEAST))


def note_lag(folder: Path, lag: int) -> None:
    """An entry is about to be dated so many seconds after its change. Raises OSError."""
    known = read_dates(folder)
    if known is not None and lag > known.lag:
        _keep(folder, known._replace(lag=max(_LEAST, 1 << (lag - 1).bit_length())))


def forget_dates(folder: Path) -> None:
    """The catalogue is another one: what it holds may have changed without being told. Raises OSError."""
    (folder / FILE).unlink(missing_ok=True)


def _keep(folder: Path, dates: Dates) -> None:
    replace_file(folder / FILE, f"{json.dumps(dates._asdict())}\n".encode())
