"""Settle originals that came back from a backup: by asking peers and resolvers, or by a person's word.

    restored    unsettled: this Archive gives no answer about it
    ask         a peer has it, or a resolver has seen it elsewhere    a Copy, as at the end of a hand-over
                a resolver has heard from us that it was removed      Deleted again
                none of them knows anything of it                     unsettled as before
    confirm     a person says that it is still here and nowhere else  the Original again

(Decision 0039, note 45.) Silence proves nothing: the last removals before the loss may have reached no resolver.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ibi.archive.membership.joining import Resolvers
from ibi.archive.replication.restored_messages import (
    Whereabouts,
    add_answers,
    read_holders,
    read_received,
)
from ibi.archive.store.tables import copies
from ibi.archive.store.tables.copies import CopySource
from ibi.archive.store.tables.listings import count_unsettled, some_unsettled
from ibi.errors import HoldingError, IbiError, PeerError, PeerGarbled
from ibi.http.client import AddressPolicy
from ibi.http.client.download import Downloads
from ibi.identifier.forms import parse_name
from ibi.protocol.extensions.holdings import HOLDERS_PATH, MOST_HOLDERS
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from ibi.runtime.tasks import run_to_completion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.item_store import ItemStore, UnitOfWork
    from ibi.archive.store.tables.listings import UnsettledItem
    from ibi.http.client.address_policy import HostLookup
    from ibi.identifier.forms import Name

ANSWER_SECONDS: Final = 30.0
"""Seconds that a peer or a resolver may take to answer."""

_AT_ONCE: Final = 500  # items that a person settles in one transaction
_MOST_PAGES: Final = 10_000  # pages that are read of what one peer has received
_LONGEST_QUERY: Final = 4_000  # characters
_OK: Final = 200


SETTLE_EVERY: Final = 2.0
"""Seconds after which a served Archive checks again whether any original is unsettled."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds after which a served Archive asks peers and resolvers again: exponential backoff."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SettlingResult:
    """How many originals were settled, had moved or had been removed; `left`: how many are still unsettled.

    `problems`: the root URL of each peer or resolver that could not be asked ("": there is none), and why.
    """

    settled: int = 0
    moved: int = 0
    removed: int = 0
    left: int = 0
    problems: list[tuple[str, IbiError]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Settler:
    """Settles the originals of one Archive that came back from a backup.

    `data` is its data directory; `host_lookup` replaces that of this machine.
    """

    item_store: ItemStore
    data: Path
    host_lookup: HostLookup | None = None

    def count(self) -> int:
        """Return how many originals are not settled."""
        with self.item_store.catalogue.reading() as run:
            return count_unsettled(run)

    async def ask(
        self, who: str, progress: Callable[[int, int | None], None] = lambda *_: None
    ) -> SettlingResult:
        """Ask every peer and every joined resolver; give up the originals that they report moved or removed.

        It never claims an original again. `who` is written into the history. `progress` is called with the
        number of items that were asked about, and the number of all. Raises SetupError.
        """
        result, done, after = SettlingResult(), 0, 0
        total = await run_to_completion(self.count)
        peers = [each for each in Peer.read_tables(self.data).values() if each.token] if total else []
        resolvers = list(Resolvers.read(self.data).keys)
        if total and not resolvers:
            result.problems.append(
                ("", IbiError("no resolver has been joined that could tell what was removed"))
            )
        # Both were chosen by our administrator, so they may be at private addresses.
        async with Downloads(AddressPolicy(allow_private=True), self.host_lookup) as downloads:
            received = await self._ask_peers(downloads, peers, result)
            while page := await run_to_completion(self._page, after, MOST_HOLDERS):
                found = await self._ask_resolvers(downloads, resolvers, page, result)
                answers = {name: received[name] for _, name in page if name in received}
                add_answers(answers, found)
                await run_to_completion(self._apply, page, answers, who, result)
                after, done = page[-1].number, done + len(page)
                progress(done, total)
        result.left = await run_to_completion(self.count)
        return result

    def confirm(self, who: str, names: Iterable[Name] | None) -> SettlingResult:
        """Claim these originals again on a person's word that they are here and nowhere else.

        `names` None: all unsettled originals, page by page. Raises NotHeld, HoldingError for a settled item.
        """
        result = SettlingResult()
        if names is not None:
            with self.item_store.unit_of_work(who) as work:
                for name in names:
                    held = work.get(name)
                    if not held.unsettled:
                        raise HoldingError("{name} is settled already", name=name)
                    _claim(work, held)
                    result.settled += 1
        else:
            while page := self._page(0, _AT_ONCE):
                with self.item_store.unit_of_work(who) as work:
                    for each in page:
                        _claim(work, work.get(parse_name(each.name)))
                result.settled += len(page)
        result.left = self.count()
        return result

    def _page(self, after: int, most: int) -> list[UnsettledItem]:
        with self.item_store.catalogue.reading() as run:
            return some_unsettled(run, after, most)

    async def _ask_peers(
        self, downloads: Downloads, peers: Sequence[Peer], result: SettlingResult
    ) -> dict[str, Whereabouts]:
        """Ask each peer what it has received from us; record each peer that does not answer as a problem."""
        found: dict[str, Whereabouts] = {}
        for peer in peers:
            try:
                after = ""
                for _ in range(_MOST_PAGES):
                    url = f"{peer.address}/-/api/transfers" + (f"?after={after}" if after else "")
                    value = await _answer(downloads, url, peer.token)
                    page = read_received(value, peer.address, self.item_store.service.canonicals)
                    add_answers(found, page.found)
                    if page.following <= after:
                        break
                    after = page.following
            except PeerError as error:
                result.problems.append((peer.address, error))
        return found

    async def _ask_resolvers(
        self,
        downloads: Downloads,
        resolvers: Sequence[str],
        page: Sequence[UnsettledItem],
        result: SettlingResult,
    ) -> dict[str, Whereabouts]:
        """Ask each resolver about some items; one that does not answer becomes a problem and is skipped."""
        found: dict[str, Whereabouts] = {}
        silent = {source for source, _ in result.problems}
        service = quote(str(self.item_store.service.main), safe="/")
        for resolver in (each for each in resolvers if each not in silent):
            try:
                for words in _queries(page):
                    url = f"{resolver}{HOLDERS_PATH}?ibi={words}&service={service}"
                    value = await _answer(downloads, url)
                    add_answers(found, read_holders(value, resolver, self.item_store.service.canonicals))
            except PeerError as error:
                result.problems.append((resolver, error))
        return found

    def _apply(
        self,
        page: Sequence[UnsettledItem],
        answers: Mapping[str, Whereabouts],
        who: str,
        result: SettlingResult,
    ) -> None:
        """Change some items as the answers about them require, in one transaction."""
        with self.item_store.unit_of_work(who) as work:
            for _, name in page:
                held, found = work.get(parse_name(name)), answers.get(name)
                if not held.unsettled or found is None or found.is_doubt:
                    continue
                if found.removed:
                    work.remove(replace(held, unsettled=""), by=found.source, backup=held.unsettled)
                    result.removed += 1
                else:
                    _give_up(work, held, found)
                    result.moved += 1


@dataclass(slots=True)
class SettlingDuty:
    """Asks again and again, while the Archive is served, to settle originals that came back from a backup."""

    settler: Settler
    _due: float = 0.0
    _pause: float = FIRST_PAUSE

    async def look(self) -> None:
        """Ask, if there is anything to settle and the pause has passed. Raises SetupError."""
        clock = asyncio.get_running_loop().time
        if clock() < self._due or not await run_to_completion(self.settler.count):
            return
        result = await self.settler.ask("settling")
        done = result.moved + result.removed
        self._pause = FIRST_PAUSE if done else min(2 * self._pause, LONGEST_PAUSE)
        self._due = clock() + self._pause
        _log.info(
            "restored originals: %d moved, %d removed, %d left", result.moved, result.removed, result.left
        )
        if result.left and not result.problems:
            _log.warning("%s", left_unsettled(result.left, self.settler.data))
        for source, problem in result.problems:
            _log.warning("restored originals cannot be settled by %s: %s", source or "asking", problem)


def left_unsettled(left: int, data: Path) -> IbiError:
    """Return the message for originals that are unsettled after all peers and resolvers have answered."""
    return IbiError(
        "it is not known what became of the originals that are left ({count}): where you know that they are here and "
        "were not removed, claim them again: ibi archive settle --data {data} --name IBI, or --all",
        count=left,
        data=data,
    )


def _claim(work: UnitOfWork, held: Holding) -> None:
    """Claim an original again."""
    work.change(held, replace(held, unsettled=""), (), "settled", backup=held.unsettled)


def _give_up(work: UnitOfWork, held: Holding, found: Whereabouts) -> None:
    """Make an original a Copy of the Original in another Archive, as at the end of a hand-over."""
    # It was transferable when it moved. The catalogue refuses to give up an original that is not.
    here = replace(held, transferable=True, unsettled="")
    work.writer.change(held, here)
    work.change(
        here, replace(here, state=ItemState.COPY), (), "given",
        to=found.archive, service=found.service, by=found.source, backup=held.unsettled,
    )  # fmt: skip
    if found.archive:
        source = CopySource(
            archive=found.archive, service=found.service, original=held.timestamp, checked=held.unsettled,
            since=held.unsettled, private=True,
        )  # fmt: skip
        copies.save_source(work.writer.run, held.number, source)


def _queries(page: Sequence[UnsettledItem]) -> Iterator[str]:
    """Yield the names of a page, as many at once as fit into a URL, separated by encoded blanks."""
    words: list[str] = []
    length = 0
    for _, name in page:
        word = quote(name, safe="/")
        if words and length + len(word) > _LONGEST_QUERY:
            yield "+".join(words)
            words, length = [], 0
        words.append(word)
        length += len(word) + 1
    yield "+".join(words)


async def _answer(downloads: Downloads, url: str, token: str = "") -> Any:
    """Fetch a JSON value. Raises PeerError."""
    reply = await downloads.send("GET", url, token=token, seconds=ANSWER_SECONDS)
    if reply.status != _OK:
        raise PeerGarbled("it answered with status {status}", status=reply.status)
    return reply.json()
