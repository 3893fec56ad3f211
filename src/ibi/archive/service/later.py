"""Answers to URL requests that wait for PostgreSQL, many at once (`Config.later` of `http.server`).

An answer rests on one snapshot. If making it asks for an item that was not read, all its items are read once more, with
that one and those to which they lead. What does not come to an end so is answered by the ordinary path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.store.postgresql.item_reader import ItemReader, NotRead

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.service.messages import MessageService
    from ibi.archive.service.metrics import AnswerCounts
    from ibi.archive.store.postgresql.item_reader import ReadItems
    from ibi.http.request import Request
    from ibi.http.server.config import Answer
    from ibi.protocol.messages import UrlRequest

    Done = Callable[[Answer | None], None]

TRIES: Final = 3
"""Statements for one answer; the ordinary path follows a longer chain of editions."""
MOST_NAMES: Final = 64
"""Names whose items are read for one answer."""


class LaterAnswers:
    """Answers URL requests from a store in PostgreSQL. `counts`: as of `ArchiveService`. Close it on the event loop."""

    def __init__(self, store: str, largest: int, messages: MessageService, counts: AnswerCounts) -> None:
        self._reader = ItemReader(store, largest)
        self._messages, self._counts = messages, counts
        self.close = self._reader.close

    def begin(self, request: Request, done: Done) -> bool:
        """Begin to answer; return False for a request that is no URL request. `done`: as of `Config.later`."""
        message = self._messages.url_request(request)
        if message is None:
            return False
        names = {message.ibi.canonical}
        return self._reader.read(names, _Making(self, message, request, done, names).found)

    def make(self, items: ReadItems, message: UrlRequest, request: Request) -> Answer:
        """Return the answer from items that were read. Raises NotRead, TooLarge, and what the ordinary path logs."""
        response = self._messages.answer_from_snapshot(items, message, request)
        answer = response.status, response.whole()
        self._counts.at_once[response.status] += 1
        return answer

    def read_more(self, making: _Making) -> bool:
        """Begin to read the items for an answer once more."""
        return len(making.names) <= MOST_NAMES and self._reader.read(making.names, making.found)


class _Making:
    """An answer that is not there yet, and the names whose items are read for it."""

    __slots__ = ("_answers", "_done", "_message", "_request", "_tries", "names")

    def __init__(
        self, answers: LaterAnswers, message: UrlRequest, request: Request, done: Done, names: set[str]
    ) -> None:
        self._answers, self._message, self._request, self._done = answers, message, request, done
        self.names = names
        self._tries = TRIES

    def found(self, items: ReadItems | None) -> None:
        """Make the answer of items that were read; None: they cannot be read now."""
        answer = None
        if items is not None:
            try:
                answer = self._answers.make(items, self._message, self._request)
            except NotRead as missing:
                self._tries -= 1
                self.names |= {missing.name, *items.linked(self.names)}
                if self._tries and self._answers.read_more(self):
                    return
            except Exception:  # noqa: BLE001, S110 - the ordinary path meets it again, and logs it, or is for large items
                pass
        self._done(answer)
