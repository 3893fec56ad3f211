"""Questions of the resolver's own: whether an Archive answers at all (threat T10).

They ask where the item of the Archive's own service is; and where an answer of it was not believed, for an item that
no Archive has, too. No reader has any part in them, so what comes of them tells of the Archive: where a reader's
question may have provoked a failure, they open its circuit breaker, and close it again.
"""

from __future__ import annotations

import asyncio
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError, PeerError, QueryNotSent
from ibi.http.client import Deadline
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.resolver.resolve.answer_reader import body_of, failure_of
from ibi.resolver.resolve.policy import another_item, wrong_archive

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.errors import IbiError
    from ibi.http.client import Client, Reply
    from ibi.identifier.forms import IBI
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.resolve.breaker import CircuitBreakers

_OURSELVES: Final = ("127.0.0.1",)  # a question must name an address, and no reader asks


class Probes:
    """The probes of one process. `seconds`: how long an answer may take; `was_late`: `LoopLag.was_late`."""

    def __init__(
        self,
        client: Client,
        breaker: CircuitBreakers,
        was_late: Callable[[float], bool],
        seconds: float,
    ) -> None:
        self._client = client
        self._breaker = breaker
        self._was_late = was_late
        self._seconds = seconds
        self.in_flight = 0

    def send(self, archive: Archive, then: Callable[[bool], None] | None = None) -> None:
        """Ask an Archive, and tell its breaker what comes of it; then call `then` with whether it has answered."""
        self._ask(archive, archive.service_ibi, then)

    def _ask(self, archive: Archive, ibi: IBI, then: Callable[[bool], None] | None) -> None:
        deadline = Deadline(self._seconds)
        done = partial(self._received, archive, ibi, deadline, then)
        target = f"/{archive.name}?{UrlRequest(_OURSELVES, ibi).query()}"
        self.in_flight += 1
        try:
            self._client.ask(archive.address, target, deadline, done)
        except PeerError as error:
            asyncio.get_running_loop().call_soon(done, error)

    def _received(
        self,
        archive: Archive,
        ibi: IBI,
        deadline: Deadline,
        then: Callable[[bool], None] | None,
        reply: Reply | PeerError,
    ) -> None:
        self.in_flight -= 1
        service, now = archive.service, deadline.now()
        doubted = service in self._breaker.doubted
        why = _failure(reply, archive, ibi) if doubted else _failure(reply)
        if why is None and doubted and ibi is archive.service_ibi:
            self._ask(archive, _unknown_item(), then)  # it may tell of another item only where it knows none
            return
        if why is None:
            self._breaker.recovered(service, now)
        else:
            why.with_traceback(None)
            proves = not (isinstance(why, QueryNotSent) or self._was_late(deadline.begun))
            self._breaker.probe_failed(service, deadline.begun, now, why if proves else None)
        if then is not None:
            then(why is None)


def _unknown_item() -> IBI:
    """Make the name of an item that no Archive holds (RFC 2606), another one each time."""
    return parse_ibi(f"{token_hex(4)}.invalid/w/2000/01.01.00.00.00")


def _failure(
    reply: Reply | PeerError, doubted: Archive | None = None, ibi: IBI | None = None
) -> IbiError | None:
    """Why a reply is no answer; None for an answer, even one that does not know the Archive's own item.

    `doubted`: whose answer it should be, about the item `ibi`, where an answer was not believed.
    """
    if isinstance(reply, PeerError):
        return reply
    try:
        answer = UrlList.read(body_of(reply))
    except (PeerError, ParseError) as error:
        return failure_of(error)
    if doubted is None or ibi is None or not answer.pairs:
        return None
    if not answer.is_of(doubted.service_ibi):
        return wrong_archive()
    return None if answer.forms is not None and answer.forms.names(ibi) else another_item()
