"""The keeper: every change of what an Archive holds goes through here (ARC-01, ARC-04, ARC-07, ARC-08).

    with keeper.working():                      # files may be staged
        staged = storage.stage("a.txt", path)
        with keeper.changing("maria") as hand:  # one transaction: items and their history
            hand.add(holding, [staged])
                                                # durable here, and the files are in their places

The laws that one Archive can guarantee stand here as sentences, and in the database as constraints and triggers.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ibi.archive.care.sidecars import write_owed
from ibi.archive.file_names import check_names
from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import history
from ibi.archive.related import LONGEST_CHAIN
from ibi.errors import BadItem, HoldingError, NotHeld, SetupError
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ibi.archive.catalogue import Catalogue, Writer
    from ibi.archive.holding import Holding, StoredFile
    from ibi.archive.storage import Storage
    from ibi.identifier.forms import IBIForms, Name

_DAY = 86_400
_log = logging.getLogger(__name__)


class Keeper:
    """Changes what one Archive holds.

    `mint` gives so many new labels, each when its moment has come; `now` gives POSIX seconds; `service` is the
    Archive's own item, which must stay (ARC-11); an Archive that is `retired` takes in nothing new.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        storage: Storage,
        mint: Callable[[int], Iterator[IBIForms]],
        now: Callable[[], float],
        service: IBIForms,
        *,
        retired: bool = False,
    ) -> None:
        self.catalogue = catalogue
        self.storage = storage
        self.mint = mint
        self.service = service
        self._now = now
        self.retired = retired

    @property
    def moment(self) -> str:
        """What time it is, as timestamps are written."""
        return timestamp_text(self._now())

    @property
    def tomorrow(self) -> str:
        """The same moment a day later: whose clock is further ahead is wrong."""
        return timestamp_text(self._now() + _DAY)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Have the right to stage files; what interrupted ones left is put right first. Raises SetupError."""
        with self.storage.working(self.catalogue):
            write_owed(self.catalogue, self.storage)
            yield

    @contextmanager
    def changing(self, who: str) -> Iterator[Hand]:
        """One transaction; at its end all of it is durable and the files are settled, or nothing has happened.

        `who` goes into the history. Raises SetupError if database or disk refuse.
        """
        with self.catalogue.writing() as writer:
            hand = Hand(writer, self, who)
            yield hand
        try:
            if hand.files_changed:
                self.storage.settle(self.catalogue)
            write_owed(self.catalogue, self.storage)
        except SetupError as error:  # all is durable and can be read; whoever comes next moves it
            _log.warning("files stay in staging for now: %s", error)


class Hand:
    """What can be done to items inside one transaction. `who` and `moment` go into their history."""

    def __init__(self, writer: Writer, keeper: Keeper, who: str) -> None:
        self.writer = writer
        self.who = who
        self.moment = keeper.moment
        self.files_changed = False
        self._keeper = keeper

    def check_new(self, holding: Holding) -> None:
        """Refuse a new item where the Archive has retired, and one that comes from the future.

        Raises HoldingError and BadItem.
        """
        if self._keeper.retired:
            raise HoldingError("this Archive has retired and takes nothing in")
        if holding.timestamp > self._keeper.tomorrow:
            raise BadItem("the timestamp {date} lies in the future", date=holding.timestamp)

    def find(self, name: Name) -> Holding | None:
        """The item of a name, None if it is not held."""
        return self.writer.holding(name)

    def held(self, name: Name) -> Holding:
        """The item of a name. Raises NotHeld."""
        holding = self.find(name)
        if holding is None:
            raise NotHeld("{name} is not held here", name=name)
        return holding

    def add(
        self, holding: Holding, staged: Iterable[StoredFile] = (), what: str = "deposited", **detail: Any
    ) -> Holding:
        """Add an item with files that were staged; returns it as it is held.

        Raises AlreadyHeld, BadItem, and HoldingError where nothing is taken in.
        """
        self.check_new(holding)
        added = replace(holding, files=self._listed((), staged, holding))
        self._check_editions(added)
        added = replace(added, number=self.writer.add(added))
        self.note(added, what, **detail)
        return added

    def change(
        self,
        old: Holding,
        new: Holding,
        staged: Iterable[StoredFile] = (),
        what: str = "edited",
        **detail: Any,
    ) -> Holding:
        """Replace the facts of an item; returns it as it is held then.

        `new.files` are those of `old` that stay; `staged` files come to them, or take the place of those of the same
        name. Raises HoldingError where a law forbids it, BadItem, AlreadyHeld.
        """
        self._check_laws(old, new)
        new = replace(new, number=old.number, files=self._listed(new.files, staged, new))
        if new.next_edition != old.next_edition:
            self._check_editions(new)
        self.writer.change(old, new)
        names = {file.name for file in new.files}
        for file in old.files:
            if file.name not in names:
                self.files_changed = True
                self.writer.leaves(self._keeper.storage.relative(old.forms, file.name))
        self.note(new, what, **detail)
        return new

    def remove(self, holding: Holding, reason: str = "", **detail: Any) -> Holding:
        """Remove an item: its bytes go; its names, the date and the reason stay for ever (ARC-07).

        What it was related to is still known, so that its next edition is found. Raises HoldingError for the Archive
        service (ARC-11).
        """
        if holding.forms.shares(self._keeper.service):
            raise HoldingError("{name} is the Archive service and cannot be removed", name=holding.forms.main)
        if holding.deleted:
            return holding
        left = replace(
            holding,
            state=State.DELETED,
            timestamp=self.later(holding),
            url="",
            files=(),
            target="",
            formats={},
            reason=reason,
        )
        why = {"reason": reason} if reason else {}
        return self.change(holding, left, (), "removed", **why, **detail)

    def later(self, holding: Holding) -> str:
        """The timestamp of a change of an item: now, and in any case later than its last one."""
        if holding.timestamp < self.moment:
            return self.moment
        return timestamp_text(datetime.fromisoformat(holding.timestamp).timestamp() + 1)

    def note(self, holding: Holding, what: str, **detail: Any) -> None:
        """Write into the history of an item; `what` is one word."""
        history.add(self.writer.run, holding.number, history.Event(self.moment, self.who, what, detail))

    def _listed(
        self, kept: Iterable[StoredFile], staged: Iterable[StoredFile], holding: Holding
    ) -> tuple[StoredFile, ...]:
        """The manifest: files that stay and files that come, sorted by name. Raises BadItem."""
        files = {file.name: file for file in kept}
        for file in staged:
            self.writer.stays(self._keeper.storage.relative(holding.forms, file.name))
            files[file.name] = file
            self.files_changed = True
        check_names(files)
        if holding.url and files:
            raise BadItem("an item lives at a url or has files, not both")
        if holding.target and holding.target not in files:
            raise BadItem("the target {name} is not among the files", name=holding.target)
        return tuple(files[name] for name in sorted(files))

    @staticmethod
    def _check_laws(old: Holding, new: Holding) -> None:
        name = old.forms.main
        if new.forms.main.canonical != name.canonical:
            raise HoldingError("{name} keeps its name for ever", name=name)
        if old.deleted and not new.deleted:
            raise HoldingError("{name} was removed on {date}", name=name, date=old.timestamp)
        if old.state is State.ORIGINAL and new.state is State.COPY and not old.transferable:
            raise HoldingError("{name} is an original that must stay in this Archive", name=name)

    def _check_editions(self, holding: Holding) -> None:
        """Refuse a circle of editions, as far as it can be seen here. Raises BadItem."""
        following = holding.next_edition
        for _ in range(LONGEST_CHAIN):
            if following is None:
                return
            if following.shares(holding.forms):
                raise BadItem("the editions of {name} would go in a circle", name=holding.forms.main)
            further = self.find(following.main)
            following = further.next_edition if further else None
