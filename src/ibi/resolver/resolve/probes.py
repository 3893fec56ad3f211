"""Probes: queries of the resolver's own, which find out whether an Archive answers at all (T10: slow or huge answers).

A probe asks for the item of the Archive's own service. If an answer of the Archive was not believed, a second
query asks for an item that no Archive has. No reader can influence a probe, so its result tells of the
Archive, while the failure of a reader's query may have been provoked by the query. So probes open and close
circuits.
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

_OURSELVES: Final = ("127.0.0.1",)  # a query must name the address of a reader, and a probe has none


class Probes:
    """The probes of one process. `seconds`: how long an answer may take; `was_late`: `LoopLag.was_late`."""

    def __init__(
        self, client: Client, breaker: CircuitBreakers, was_late: Callable[[float], bool], seconds: float
    ) -> None:
        self._client = client
        self._breaker = breaker
        self._was_late = was_late
        self._seconds = seconds
        self.in_flight = 0

    def send(self, archive: Archive, then: Callable[[bool], None] | None = None) -> None:
        """Probe an Archive and tell the breakers; then call `then` with whether it answered."""
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
            # It answers well about an item that it has, and may still give a wrong one where it has none.
            self._ask(archive, _unknown_item(), then)
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
    """Make the name of an item that no Archive can hold (RFC 2606), a new one each time."""
    return parse_ibi(f"{token_hex(4)}.invalid/w/2000/01.01.00.00.00")


def _failure(
    reply: Reply | PeerError, doubted: Archive | None = None, ibi: IBI | None = None
) -> IbiError | None:
    """Return why a reply is no answer; None for an answer, even "nothing known" of the Archive's own item.

    `doubted`: an Archive of which an answer was not believed; its answer must name it, and the item `ibi`.
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
