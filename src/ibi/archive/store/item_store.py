"""The item store, through which every change of an Archive's items goes.

    with items.staging_session():                    # files may be staged
        staged = items.file_store.stage("a.txt", path)
        with items.unit_of_work("maria") as work:    # one transaction: items, their files and their history
            work.add(holding, [staged])
                                                     # durable here, and the files can be read

The rules that one Archive can guarantee are checked here, with error messages for people, and once more in
the database, by constraints and triggers (`schema/catalogue.sql`).

See ARC-01: no two items of one name; ARC-04: never original and copy together; ARC-07: three states; ARC-08: an
original may move.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ibi.archive.model.file_names import check_names, listed_name
from ibi.archive.model.item_json import check_facts, timestamp_text
from ibi.archive.model.relations import LONGEST_CHAIN
from ibi.archive.store.file_store import relative_path
from ibi.archive.store.sidecars import write_outdated
from ibi.archive.store.tables import history
from ibi.errors import BadItem, HoldingError, NotHeld, SetupError
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.model.relations import Lookup
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue, CatalogueWriter
    from ibi.identifier.forms import IBIForms, Name

_DAY = 86_400
_log = logging.getLogger(__name__)


class ItemStore:
    """Changes the items of one Archive.

    `mint(count)` yields labels, each when its moment has come; `now` returns POSIX seconds; `service`: the item of
    the Archive service, which must stay (ARC-11: the service item); `check_answers` raises BadItem for an item about
    which answers would be too long for resolvers; `retired`: the Archive accepts no new item; `institution` returns
    its name, by language (`Institution.names`).
    """

    def __init__(
        self,
        catalogue: Catalogue,
        file_store: FileStore,
        mint: Callable[[int], Iterator[IBIForms]],
        now: Callable[[], float],
        service: IBIForms,
        check_answers: Callable[[Holding, Lookup], None],
        *,
        retired: bool = False,
        institution: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.catalogue = catalogue
        self.file_store = file_store
        self.mint = mint
        self.service = service
        self.check_answers = check_answers
        self.now = now
        self.retired = retired
        self._institution = institution

    @property
    def moment(self) -> str:
        """The present time as a timestamp."""
        return timestamp_text(self.now())

    @property
    def institution(self) -> Mapping[str, str]:
        """The present name of the institution, by language. Raises SetupError."""
        # Read anew, because the tasks of a running Archive are not made anew for a new name.
        return self._institution()

    def at_home(self, holding: Holding) -> Holding:
        """Return an item as it is stored (decision 0046).

        An original that names the present institution is stored without the name, and so follows the settings.
        """
        may_be = holding.institution and holding.state is ItemState.ORIGINAL
        home = may_be and holding.institution == self.institution
        return replace(holding, institution={}) if home else holding

    def check_new(self, holding: Holding, lookup: Lookup) -> None:
        """Check a new item, whose links `lookup` follows.

        Raises HoldingError if the Archive has retired, BadItem for a future timestamp or too long answers.
        """
        if self.retired:
            raise HoldingError("this Archive has retired and takes nothing in")
        # A timestamp more than a day ahead comes from a wrong clock.
        if holding.timestamp > timestamp_text(self.now() + _DAY):
            raise BadItem("the timestamp {date} lies in the future", date=holding.timestamp)
        self.check_answers(holding, lookup)

    @contextmanager
    def staging_session(self) -> Iterator[None]:
        """Hold the right to stage files; first clean up after any interruption. Raises SetupError."""
        with self.file_store.staging_session(self.catalogue):
            write_outdated(self.catalogue, self.file_store)
            yield

    @contextmanager
    def unit_of_work(self, who: str) -> Iterator[UnitOfWork]:
        """Open a transaction; at its end all of it is durable, or nothing has changed.

        Then the files are moved into their places. If that fails, they are read from staging, and the next staging
        session moves them. `who` is recorded in the history. Raises SetupError if the database or the disk cannot
        be written.
        """
        with self.catalogue.writing() as writer:
            work = UnitOfWork(writer, self, who)
            yield work
        try:
            if work.files_changed:
                self.file_store.place_files(self.catalogue)
            write_outdated(self.catalogue, self.file_store)
        except SetupError as error:
            # No error for the caller: the change is durable and readable.
            _log.warning("files stay in staging for now: %s", error)


class UnitOfWork:
    """Changes of items inside one transaction. `who` and `moment` are recorded in their history."""

    def __init__(self, writer: CatalogueWriter, item_store: ItemStore, who: str) -> None:
        self.writer = writer
        self.who = who
        self.moment = item_store.moment
        self.files_changed = False
        self._item_store = item_store

    def check_new(self, holding: Holding) -> None:
        """Check a new item. Raises HoldingError and BadItem, as `ItemStore.check_new` does."""
        self._item_store.check_new(holding, self.find)

    def find(self, name: Name) -> Holding | None:
        """Return the item of a name; None if it is not held."""
        return self.writer.holding(name)

    def get(self, name: Name) -> Holding:
        """Return the item of a name. Raises NotHeld."""
        holding = self.find(name)
        if holding is None:
            raise NotHeld("{name} is not held here", name=name)
        return holding

    def add(
        self, holding: Holding, staged: Iterable[StoredFile] = (), what: str = "deposited", **detail: Any
    ) -> Holding:
        """Add an item with staged files; returns the item as it is held.

        Raises AlreadyHeld, BadItem, and HoldingError if the Archive has retired.
        """
        self.check_new(holding)
        added = self._with_files(self._item_store.at_home(holding), (), staged)
        self._check_editions(added)
        self._check_replacement(added)
        added = replace(added, number=self.writer.add(added))
        self.record_event(added, what, **detail)
        return added

    def change(
        self,
        old: Holding,
        new: Holding,
        staged: Iterable[StoredFile] = (),
        what: str = "edited",
        **detail: Any,
    ) -> Holding:
        """Replace the facts of an item; returns the item as it is held afterwards.

        `new.files`: the files of `old` that stay; `staged` files are added, or replace files of that name.
        Raises HoldingError if a rule forbids it, BadItem, AlreadyHeld, and Unsettled unless `new` settles it.
        """
        self._check_laws(old, new)
        self._check_replacement(new)
        new = replace(self._with_files(self._item_store.at_home(new), new.files, staged), number=old.number)
        if (new.translations, new.formats, new.url) != (old.translations, old.formats, old.url):
            self._item_store.check_answers(new, self.find)
        if new.next_edition != old.next_edition:
            self._check_editions(new)
        self.writer.change(old, new)
        names = {file.name for file in new.files}
        for file in old.files:
            if file.name not in names:
                self.files_changed = True
                self.writer.schedule_removal(relative_path(old.forms, file.name))
        self.record_event(new, what, **detail)
        return new

    def remove(
        self, holding: Holding, reason: str = "", replacement: IBIForms | None = None, **detail: Any
    ) -> Holding:
        """Remove an item: its files are deleted; its metadata and names, the date and the reason stay.

        `replacement`: the item that takes its place. See ARC-07: three states.

        The links to its other editions stay: its page names the next one, and chains of editions lead past it. Raises
        HoldingError for the Archive service (ARC-11: the service item), BadItem if the item would replace itself.
        """
        if holding.forms.shares(self._item_store.service):
            raise HoldingError("{name} is the Archive service and cannot be removed", name=holding.forms.main)
        if holding.deleted:
            return holding
        left = replace(
            holding,
            state=ItemState.DELETED,
            timestamp=self.next_timestamp(holding),
            url="",
            files=(),
            target="",
            formats={},
            reason=reason,
            replacement=replacement,
        )
        given = {"reason": reason, "replacement": str(replacement.main) if replacement else ""}
        return self.change(
            holding, left, (), "removed", **{name: text for name, text in given.items() if text}, **detail
        )

    def next_timestamp(self, holding: Holding) -> str:
        """Return the timestamp for a change of an item: now, or a second after the last if that is later."""
        # Clients compare timestamps to see whether an item has changed, also for two changes within a second.
        if holding.timestamp < self.moment:
            return self.moment
        return timestamp_text(datetime.fromisoformat(holding.timestamp).timestamp() + 1)

    def record_event(self, holding: Holding, what: str, **detail: Any) -> None:
        """Add an event to the history of an item; `what` is one word."""
        history.add_event(
            self.writer.run, holding.number, history.ItemEvent(self.moment, self.who, what, detail)
        )

    def _with_files(
        self, holding: Holding, kept: Iterable[StoredFile], staged: Iterable[StoredFile]
    ) -> Holding:
        """Return the item with its kept and its staged files, sorted by name. Raises BadItem."""
        files = {file.name: file for file in kept}
        for file in staged:
            self.writer.cancel_removal(relative_path(holding.forms, file.name))
            files[file.name] = file
            self.files_changed = True
        check_names(files)
        target = listed_name(holding.target, files)
        check_facts({"url": holding.url, "target": target}, files)
        return replace(holding, target=target, files=tuple(files[name] for name in sorted(files)))

    @staticmethod
    def _check_replacement(holding: Holding) -> None:
        if holding.replacement is not None and holding.replacement.shares(holding.forms):
            raise BadItem("an item cannot take its own place")

    @staticmethod
    def _check_laws(old: Holding, new: Holding) -> None:
        name = old.forms.main
        if new.unsettled:
            old.check_settled()
        if new.forms.main.canonical != name.canonical:
            raise HoldingError("{name} keeps its name for ever; another name is another item", name=name)
        if old.deleted and not new.deleted:
            raise HoldingError("{name} was removed on {date}", name=name, date=old.timestamp)
        if old.state is ItemState.ORIGINAL and new.state is ItemState.COPY and not old.transferable:
            raise HoldingError("{name} is an original that must stay in this Archive", name=name)

    def _check_editions(self, holding: Holding) -> None:
        """Check that the editions of an item that are held here form no circle. Raises BadItem."""
        following = holding.next_edition
        for _ in range(LONGEST_CHAIN):
            if following is None:
                return
            if following.shares(holding.forms):
                raise BadItem("the editions of {name} would go in a circle", name=holding.forms.main)
            further = self.find(following.main)
            following = further.next_edition if further else None
