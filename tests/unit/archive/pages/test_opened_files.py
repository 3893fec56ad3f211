"""Files that are opened for readers: each is closed again, and one that cannot be opened is logged once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, BinaryIO, NoReturn

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.pages.files import FileOpener, FileReplaced, FileResponses
from ibi.archive.pages.site import Site
from ibi.archive.store.data_directory import identity_of
from ibi.archive.store.item_changes import edit
from ibi.errors import SetupError
from ibi.http.files_origin import FilesOrigin
from ibi.http.request import Request
from ibi.identifier.forms import parse_name
from support.archive.archive_fixture import LAST, LINKED, REP, NewArchive, fill
from support.web.unnamed import RENDERER

REQUEST = Request("GET", "/", "", {})


@pytest.fixture
def item(archive: NewArchive) -> Holding:
    fill(archive)
    return archive.catalogue.settled(parse_name(REP))


class Watched:
    """The file store of an Archive, and the files that it has opened."""

    def __init__(self, archive: NewArchive) -> None:
        self.opened: list[BinaryIO] = []
        self._store = archive.file_store

    def open(self, *which: Any) -> BinaryIO:
        self.opened.append(self._store.open(*which))
        return self.opened[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def opener_of(archive: NewArchive, store: Any) -> FileOpener:
    return FileOpener(store, archive.catalogue.held)


def test_a_file_that_cannot_be_opened_closes_those_before_it_and_is_logged_once(
    archive: NewArchive, item: Holding, caplog: pytest.LogCaptureFixture
) -> None:
    store = Watched(archive)
    opener = opener_of(archive, store)
    for path in (archive.data / "col").glob("**/2010/**/index.html"):
        path.unlink()
    names = [each.name for each in item.files]
    assert names == sorted(names)
    for _ in range(2):
        with pytest.raises(SetupError) as refused:
            opener.open(item, item.files)
        assert str(refused.value) == "the file index.html cannot be read: No such file or directory"
    assert len(store.opened) == 2 * names.index("index.html") > 0
    assert all(each.closed for each in store.opened)
    [line] = caplog.messages
    assert line.startswith(f"index.html of {REP} cannot be opened: [Errno 2] No such file or directory")
    for each in opener.open(item, item.files[:1]):
        each.close()


def test_a_file_that_is_listed_otherwise_now_is_not_given(archive: NewArchive, item: Holding) -> None:
    store = Watched(archive)
    opener = opener_of(archive, store)
    file = item.files[0]
    other = replace(file, sha256="0" * 64)
    with pytest.raises(FileReplaced) as replaced:
        opener.open(item, (other,))
    assert replaced.value.now == item
    assert [each.closed for each in store.opened] == [True]


def test_an_answer_that_fails_closes_its_file(
    archive: NewArchive, item: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> NoReturn:
        raise ZeroDivisionError

    store: Any = Watched(archive)
    responses = FileResponses(store, opener_of(archive, store), FilesOrigin(""))
    monkeypatch.setattr("ibi.archive.pages.files.part", broken)
    with pytest.raises(ZeroDivisionError):
        responses.serve(REQUEST, item, item.files[0])
    assert [each.closed for each in store.opened] == [True]
    monkeypatch.undo()
    beyond = Request("GET", "/", "", {b"range": b"bytes=99999999-"})
    assert responses.serve(beyond, item, item.files[0]).status == 416
    assert [each.closed for each in store.opened] == [True, True]
    given = responses.serve(REQUEST, item, item.files[0])
    last: BinaryIO = store.opened[2]
    assert (last is given.file, last.closed) == (True, False)
    last.close()


class Pages:
    """A site whose pages are counted when they are rendered."""

    def __init__(self, archive: NewArchive) -> None:
        self.rendered = 0
        stores = archive.catalogue, archive.file_store
        renderer = replace(RENDERER, render=self._render)
        self._site = Site(
            archive.settings, identity_of(archive.settings), *stores, renderer, archive.clock.seconds
        )

    def _render(self, page: Any, language: str) -> bytes:
        self.rendered += 1
        return RENDERER.render(page, language)

    def size(self, name: str, language: str = "en") -> int:
        """Look at the page of an item; returns its bytes."""
        sent = {b"accept": b"text/html", b"accept-language": language.encode()}
        found = self._site.answer(Request("GET", f"/-/item/{name}", "", sent))
        assert found.status == 200
        return len(found.body)

    def renderings(self, *names: str, language: str = "en") -> list[int]:
        """How often a page was rendered for each of these looks."""
        found = []
        for name in names:
            before = self.rendered
            self.size(name, language)
            found.append(self.rendered - before)
        return found


def test_a_page_is_rendered_again_only_if_it_has_changed(archive: NewArchive, item: Holding) -> None:
    pages = Pages(archive)
    assert pages.renderings(REP, REP, LINKED) == [1, 0, 1]
    assert pages.renderings(REP, REP, language="pt") == [1, 0]
    assert pages.renderings(REP) == [0]
    edit(archive.item_store, item.forms.main, {"rights": "Some"}, "tester")
    assert pages.renderings(REP, REP, LINKED) == [1, 0, 0]


@pytest.mark.usefixtures("item")
def test_the_oldest_page_gives_way_where_there_is_no_place_for_all(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, names = Pages(archive), (LINKED, LAST, REP)
    sizes = sum(map(pages.size, names))
    for most, again in ((sizes, [0, 0, 0]), (sizes - 1, [0, 0, 1])):
        monkeypatch.setattr("ibi.archive.pages.responses.MOST_KEPT", most)
        pages = Pages(archive)
        assert pages.renderings(*names) == [1, 1, 1]
        assert pages.renderings(LAST, REP, LINKED) == again
