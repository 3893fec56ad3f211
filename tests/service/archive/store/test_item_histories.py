"""Deposits, edits and removals in any order, compared with a model after every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, invariant, multiple, rule

from ibi.archive.model.item_json import read_item
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import ItemPlacement, deposit, edit, remove
from ibi.archive.store.tables import consistency, history
from ibi.archive.store.tables.history import ItemEvent
from ibi.errors import Conflict, IbiError
from ibi.identifier.forms import IBIForms, parse_name
from ibi.identifier.numerals import IBIP
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import make_archive
from support.oracles.state_machines import folder_in_memory, try_histories

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ibi.archive.model.item import Holding, StoredFile
    from support.archive.archive_fixture import NewArchive

WHO = "maria"
FILE_NAMES = ["a.txt", "b%20c.txt", "sub/d"]
contents = st.dictionaries(st.sampled_from(FILE_NAMES), st.binary(max_size=3), max_size=3)
languages = st.sampled_from([None, "en", "pt", "pt-BR"])
numbers = st.integers(0, 3)


@dataclass
class Expected:
    """An item as everything that was acknowledged has made it; links are places in the list of all items."""

    forms: IBIForms
    key: str
    files: dict[str, bytes]
    target: str
    language: str | None
    rights: str = ""
    removed: bool = False
    following: IBIForms | None = None
    translations: dict[str, int] = field(default_factory=dict)
    timestamp: str = ""
    events: list[ItemEvent] = field(default_factory=list)


class ItemHistories(RuleBasedStateMachine):
    """One Archive in real files; each history has names of its own, so that they may share the Archive."""

    items = Bundle("items")

    def __init__(self, archive: NewArchive, numbered: Iterable[int]) -> None:
        super().__init__()
        self.archive = archive
        self.number = next(iter(numbered))
        self.held: list[Expected] = []

    # What may happen

    @rule(
        target=items,
        rep=st.none() | numbers,
        ibip=st.none() | numbers,
        key=st.none() | numbers,
        files=contents,
        language=languages,
    )
    def deposit(
        self,
        rep: int | None,
        ibip: int | None,
        key: int | None,
        files: dict[str, bytes],
        language: str | None,
    ) -> int | MultipleResults[int]:
        names = self.names(rep, ibip)
        own_key = "" if key is None else f"{self.number}/{key}"
        same_key = self.place(lambda item: own_key != "" and item.key == own_key)
        if same_key is not None:
            refused = names is not None and not names.canonicals <= self.held[same_key].forms.canonicals
        else:
            refused = self.place(lambda item: names is not None and item.forms.shares(names)) is not None
        value: dict[str, Any] = {"files": dict.fromkeys(files, "")} if files else {}
        value |= {"language": language} if language else {}
        value |= {"key": own_key} if own_key else {}
        new = self.attempt(not refused, lambda: self.deposited(names, value, files))
        if new is None:
            return multiple()
        if same_key is not None:
            assert new.forms == self.held[same_key].forms
            return same_key
        return self.keep(new, files, language)

    @rule(target=items, source=items, files=contents, language=languages)
    def deposit_translation(
        self, source: int, files: dict[str, bytes], language: str | None
    ) -> int | MultipleResults[int]:
        old = self.held[source]
        family = [other for other in old.translations.values() if not self.held[other].removed]
        refused = (
            old.removed
            or language is None
            or language == old.language
            or any(language in self.held[each].translations for each in (source, *family))
        )
        place = ItemPlacement(translation_of=old.forms.main)
        value = {"language": language} if language else {}
        new = self.attempt(not refused, lambda: self.deposited(None, value, files, place))
        if new is None or language is None:
            return multiple()
        at = self.keep(new, files, language)
        self.held[at].translations = {**old.translations, old.language or "": source}
        for each in (source, *family):
            self.held[each].translations[language] = at
            self.has_changed(each)
        return at

    @rule(target=items, source=items, files=contents)
    def deposit_edition(self, source: int, files: dict[str, bytes]) -> int | MultipleResults[int]:
        old = self.held[source]
        refused = old.removed or old.following is not None
        place = ItemPlacement(edition_of=old.forms.main)
        new = self.attempt(not refused, lambda: self.deposited(None, {}, files, place))
        if new is None:
            return multiple()
        at = self.keep(new, files, None)
        old.following = new.forms
        self.has_changed(source)
        return at

    @rule(item=items, following=items | st.none() | st.integers(0, 3).map(lambda number: -1 - number))
    def edit_next_edition(self, item: int, following: int | None) -> None:
        """Negative numbers stand for names that no item here may have yet."""
        old = self.held[item]
        if following is None:
            forms = None
        else:
            forms = self.held[following].forms if following >= 0 else self.names(-1 - following, None)
        refused = old.removed or (forms is not None and self.leads_to(forms, old.forms))
        value = str(forms) if forms else None
        if self.attempt(not refused, lambda: self.edited(old, {"next_edition": value})) is not None:
            old.following = forms
            self.has_changed(item)

    @rule(item=items, language=languages)
    def edit_language(self, item: int, language: str | None) -> None:
        old = self.held[item]
        linked = [other for other in old.translations.values() if not self.held[other].removed]
        refused = old.removed or (
            language != old.language
            and bool(old.translations)
            and (
                language is None
                or any(self.other_has(each, language, item) for each in linked)
                or any((self.held[each].language or "") == language for each in linked)
            )
        )
        if self.attempt(not refused, lambda: self.edited(old, {"language": language})) is None:
            return
        if language != old.language:
            for each in linked:
                links = self.held[each].translations
                kept = {tag: other for tag, other in links.items() if other != item}
                if {**kept, language or "": item} != links:
                    self.held[each].translations = {**kept, language or "": item}
                    self.has_changed(each)
        old.language = language
        self.has_changed(item)

    @rule(item=items, rights=st.text("abc", max_size=2), stale=st.booleans())
    def edit_rights(self, item: int, rights: str, stale: bool) -> None:
        old = self.held[item]
        seen = "2001-01-01T00:00:00Z" if stale else old.timestamp
        if stale and not old.removed:
            with pytest.raises(Conflict):
                self.edited(old, {"rights": rights}, unchanged_since=seen)
        elif self.attempt(
            not old.removed, lambda: self.edited(old, {"rights": rights}, unchanged_since=seen)
        ):
            old.rights = rights
            self.has_changed(item)

    @rule(item=items, added=contents, without=st.sets(st.sampled_from(FILE_NAMES), max_size=2))
    def edit_files(self, item: int, added: dict[str, bytes], without: set[str]) -> None:
        old = self.held[item]
        files = {name: each for name, each in old.files.items() if name not in without} | added
        target = old.target
        if not target and len(old.files) == 1 and len(files) > 1:
            (target,) = old.files  # the link of the item goes on leading to the file that stood for it
        refused = old.removed or not without <= old.files.keys() or (bool(target) and target not in files)
        change = partial(self.edited, old, {}, without=without, added=added)
        if self.attempt(not refused, change) is not None:
            old.files, old.target = files, target
            self.has_changed(item)

    @rule(item=items)
    def remove(self, item: int) -> None:
        old = self.held[item]
        left = remove(self.archive.item_store, old.forms.main, "asked for", WHO)
        assert left.state is ItemState.DELETED
        if not old.removed:
            old.removed, old.files, old.target = True, {}, ""
            self.has_changed(item)

    @rule(seconds=st.integers(-100, 100))
    def time_passes(self, seconds: int) -> None:
        self.archive.clock.now += seconds

    # What must hold

    @invariant()
    def everything_acknowledged_is_there(self) -> None:
        for number, item in enumerate(self.held):
            holding = self.holding(item)
            for name in holding.names:
                assert self.archive.catalogue.holding(parse_name(str(name).swapcase())) == holding
            assert holding.forms == item.forms
            assert holding.deleted == item.removed, number
            assert (holding.language, holding.rights, holding.target) == (
                item.language, item.rights, item.target,
            )  # fmt: skip
            assert holding.next_edition == item.following
            assert holding.translations == {
                tag: self.held[other].forms for tag, other in item.translations.items()
            }
            assert holding.timestamp == item.timestamp
            assert self.events(holding) == item.events
            assert self.bytes_of(holding) == item.files

    @invariant()
    def translations_know_each_other(self) -> None:
        for at, item in enumerate(self.held):
            for tag, other in item.translations.items():
                there = self.held[other]
                if not (item.removed or there.removed):
                    assert tag == (there.language or "")
                    assert there.translations[item.language or ""] == at

    @invariant()
    def no_edition_follows_itself(self) -> None:
        for item in self.held:
            assert item.following is None or not self.leads_to(item.following, item.forms)

    def teardown(self) -> None:
        self.archive.catalogue.close()
        self.archive.catalogue = DataDirectory(self.archive.data, self.archive.clock.machine).open_catalogue()
        self.everything_acknowledged_is_there()
        with self.archive.catalogue.reading() as run:
            assert list(consistency.broken_rules(run)) == []
            assert consistency.integrity_errors(run) == []
        with self.archive.item_store.staging_session():
            assert list(self.archive.catalogue.staged_files()) == []
        assert list(self.archive.catalogue.paths_to_remove()) == []
        for item in self.held:
            folder = self.archive.data / "col" / item.forms.main.canonical
            stored = [path for path in folder.rglob("doc/**/*") if path.is_file()]
            assert len(stored) == len(item.files), stored

    # How it is done

    def names(self, rep: int | None, ibip: int | None) -> IBIForms | None:
        """Names of this history; None where a label is to be drawn."""
        words = [] if rep is None else [f"rep a.example/m{self.number}/2020/01.01.00.{rep:02}"]
        words += [] if ibip is None else [f"ibip LK47B6W/3{IBIP.write(27**4 + self.number)}{'ABCD'[ibip]}"]
        return IBIForms.parse(" ".join(words)) if words else None

    def deposited(
        self,
        names: IBIForms | None,
        value: dict[str, Any],
        files: Mapping[str, bytes],
        place: ItemPlacement | None = None,
    ) -> Holding:
        value = dict(value)
        if names is not None:
            value |= {"rep": str(names.rep)} if names.rep else {}
            value |= {"ibip": str(names.ibip)} if names.ibip else {}
        with self.archive.item_store.staging_session():
            item_store = self.archive.item_store
            return deposit(item_store, read_item(value), self.staged(files), WHO, place).holding

    def edited(
        self,
        old: Expected,
        value: dict[str, Any],
        *,
        added: Mapping[str, bytes] = {},
        without: Collection[str] = (),
        unchanged_since: str | None = None,
    ) -> Holding:
        with self.archive.item_store.staging_session():
            return edit(
                self.archive.item_store, old.forms.main, value, WHO,
                staged=self.staged(added), without=without, unchanged_since=unchanged_since,
            )  # fmt: skip

    def staged(self, files: Mapping[str, bytes]) -> list[StoredFile]:
        staged = []
        for name, content in files.items():
            staging = self.archive.file_store.stage_stream(name)
            staging.write(content)
            staged.append(staging.finish())
        return staged

    @staticmethod
    def attempt(allowed: bool, act: Callable[[], Holding]) -> Holding | None:
        """Do what is allowed; what is not must be refused with one of our sentences."""
        if allowed:
            return act()
        with pytest.raises(IbiError):
            act()
        return None

    def keep(self, new: Holding, files: dict[str, bytes], language: str | None) -> int:
        """Keep what was acknowledged of a new item, and return its place."""
        item = Expected(new.forms, new.key, files, "", language, timestamp=new.timestamp)
        item.events = self.events(new)
        assert [event.what for event in item.events] == ["deposited"]
        self.held.append(item)
        return len(self.held) - 1

    def has_changed(self, at: int) -> None:
        """Take the new timestamp and events over: the one must be later, and of the other exactly one be added."""
        item = self.held[at]
        holding = self.holding(item)
        events = self.events(holding)
        assert holding.timestamp > item.timestamp
        assert events[:-1] == item.events
        assert events[-1].what == ("removed" if item.removed else "edited")
        item.timestamp, item.events = holding.timestamp, events

    def holding(self, item: Expected) -> Holding:
        holding = self.archive.catalogue.holding(item.forms.main)
        assert holding is not None
        return holding

    def events(self, holding: Holding) -> list[ItemEvent]:
        with self.archive.catalogue.reading() as run:
            return history.events_of(run, holding.number)

    def bytes_of(self, holding: Holding) -> dict[str, bytes]:
        found = {}
        for file in holding.files:
            with self.archive.file_store.open(holding.forms, file) as opened:
                found[file.name] = opened.read()
        return found

    def place(self, wanted: Callable[[Expected], bool]) -> int | None:
        return next((at for at, item in enumerate(self.held) if wanted(item)), None)

    def other_has(self, at: int, language: str, than: int) -> bool:
        """Whether an item has a translation other than this one in a language."""
        return self.held[at].translations.get(language, than) != than

    def leads_to(self, start: IBIForms, end: IBIForms) -> bool:
        """Whether the chain of editions that begins with a name comes to an item."""
        at: IBIForms | None = start
        while at is not None:
            if at.shares(end):
                return True
            found = self.place(lambda item, forms=at: item.forms.shares(forms))  # type: ignore[misc]  # the default binds the name of this turn
            at = None if found is None else self.held[found].following
        return False


@pytest.mark.proves("ARC-01", "ARC-07", "ARC-13", "URL-11")
@pytest.mark.long
def test_whatever_order_things_are_done_in_the_archive_is_what_was_acknowledged() -> None:
    with folder_in_memory() as folder:
        archive = make_archive(folder / "archive", "archive.example", {})
        try:
            try_histories(partial(ItemHistories, archive, count()), one_in=5, steps=25)
        finally:
            archive.catalogue.close()
