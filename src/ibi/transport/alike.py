"""Short answers that came before, by their bytes: the same bytes mean the same, and are taken apart once.

Of a hundred Archives that are asked for an item, ninety-nine say with the same few words that they do not know it.
Only what has come through the parser is kept, and only an answer that came whole and alone, after which its connection
could carry another request: so it makes no difference, but for the time, whether an answer is found here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ibi.transport.exchange import Reply

LONGEST: Final = 1_024
"""Bytes of an answer that is kept."""
LONGEST_BODY: Final = 64
"""Bytes of its body: what says more says it once."""
MOST: Final = 256
"""Answers; when there are more, all are forgotten."""


class Alike:
    """The answers of one client."""

    def __init__(self) -> None:
        self._known: dict[bytes, Reply] = {}
        self.find = self._known.get
        """The answer that these bytes are, of whichever peer; None where they were not seen."""

    def keep(self, data: bytes, reply: Reply) -> None:
        """These bytes, and nothing before or after them, were this answer."""
        if len(data) <= LONGEST and len(reply.body) <= LONGEST_BODY:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[data] = reply
