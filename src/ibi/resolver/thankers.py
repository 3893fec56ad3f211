"""Those who thank an Archive: each sends one acknowledgment after the other, and again while its reply is lost.

None is a task that waits: nearly every redirect needs one, and what it waits for calls it.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ibi.errors import PeerError, PeerGarbled
from ibi.transport import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.protocol.messages import Acknowledgment
    from ibi.resolver.inquiry import Archive
    from ibi.transport import Client, Errand, Reply

TRIES: Final = 3
"""How often thanks with an id are sent while their reply does not come; those without one are sent once."""

_PAUSES: Final = (1.0, 3.0)  # seconds before the second try and the third
_OK: Final = 200

Same = tuple[str, str, str]
"""What thanks must share to be added up: the Archive's service, the URL key and the URL."""


@dataclass(slots=True, eq=False)
class Parcel:
    """One acknowledgment to be sent for so many `readers`; `same` is None where it stands for itself alone."""

    archive: Archive
    acknowledgment: Acknowledgment
    since: float
    same: Same | None = None
    readers: int = 1
    due: bool = False

    def sealed(self) -> Acknowledgment:
        """What is sent, and sent again: from now on no reader comes to it."""
        if self.same is None:
            return self.acknowledgment
        return replace(self.acknowledgment, count=self.readers, event=str(secrets.randbelow(10**20)))


class Thanker:
    """Sends what `take` gives, until it gives None and `rest` is called; each has `seconds` for the whole reply.

    `over` is told what became of each: "" when it was delivered, else why not. Whatever an Archive replies under
    status 200 will do: the notice says nothing (MSG-27). They go to its registered base URL (AMB-54).
    """

    __slots__ = (
        "_client",
        "_errand",
        "_hurried",
        "_over",
        "_parcel",
        "_pauses",
        "_rest",
        "_seconds",
        "_take",
        "_target",
        "_timer",
    )

    def __init__(
        self,
        client: Client,
        seconds: float,
        take: Callable[[], Parcel | None],
        over: Callable[[Parcel, str], None],
        rest: Callable[[Thanker], None],
    ) -> None:
        self._client = client
        self._seconds = seconds
        self._take = take
        self._over = over
        self._rest = rest
        self._parcel: Parcel | None = None
        self._target = ""
        self._pauses: Iterator[float] = iter(())
        self._errand: Errand | None = None
        self._hurried = False
        # not before the reader has the redirect
        self._timer: asyncio.Handle | None = asyncio.get_running_loop().call_soon(self._go_on)

    def hurry(self) -> None:
        """Make no pauses from now on."""
        self._hurried = True
        if self._timer is not None:
            self._timer.cancel()
            self._go_on()

    def give_up(self) -> None:
        """Send no more; of what is under way nothing will be known."""
        if self._timer is not None:
            self._timer.cancel()
        if self._errand is not None:
            self._errand.give_up()

    def _go_on(self) -> None:
        """Send what is to be sent again, or the next one, until something is under way."""
        self._timer = self._errand = None
        sent = False
        try:
            while not sent and (self._parcel is not None or self._begin()):
                sent = self._send()
        except BaseException:
            self._rest(self)
            raise
        if not sent:
            self._rest(self)

    def _begin(self) -> bool:
        """Take the next one; False where there is none."""
        parcel = self._parcel = self._take()
        if parcel is None:
            return False
        message = parcel.sealed()
        self._target = f"/{parcel.archive.service_ibi}?{message.query()}"
        self._pauses = iter(_PAUSES if message.event else ())
        return True

    def _send(self) -> bool:
        """Send it; whether it is under way, or a pause is, after which it is sent again."""
        parcel = self._parcel
        if parcel is None:
            return False
        try:
            self._errand = self._client.ask(
                parcel.archive.address, self._target, Deadline(self._seconds), self._came
            )
        except PeerError as error:
            return self._failed(parcel, error)
        return True

    def _came(self, outcome: Reply | PeerError) -> None:
        """What came of it."""
        parcel = self._parcel
        if parcel is None:
            return
        if isinstance(outcome, PeerError):
            waits = self._failed(parcel, outcome)
        elif outcome.status != _OK:
            problem = PeerGarbled("the answer has the status {status}", status=outcome.status)
            waits = self._failed(parcel, problem)
        else:
            waits = False
            self._parcel = None
            self._over(parcel, "")
        if not waits:
            self._go_on()

    def _failed(self, parcel: Parcel, error: PeerError) -> bool:
        """It was not delivered: whether there is a pause now, after which it is sent again."""
        pause = next(self._pauses, None)
        if pause is None:
            self._parcel = None
            self._over(parcel, "garbled" if isinstance(error, PeerGarbled) else "silent")
            return False
        if self._hurried:
            return False
        self._errand = None
        self._timer = asyncio.get_running_loop().call_later(pause, self._go_on)
        return True
