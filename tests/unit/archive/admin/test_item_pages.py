"""The pages of items as values: what each of them shows, whole, and what comes of its form."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.accounts.tokens import Scope
from ibi.archive.admin.item_form import typed_values, values_of
from ibi.archive.admin.item_lists import ItemQuery, ItemsPage, ListedItem
from ibi.archive.admin.item_pages import (
    DeletePage,
    FilesPage,
    FormProblems,
    ItemFormPage,
    ItemPage,
    ReviewPage,
)
from ibi.archive.model.item import Access, Holding, MetadataValue
from ibi.archive.model.item_json import write_item
from ibi.archive.operations.exchange import REFRESH
from ibi.archive.operations.items import TAKE_OUT
from ibi.archive.store.tables.history import ItemEvent
from ibi.archive.store.tables.listings import ItemStanding
from ibi.errors import BadItem, Conflict, IbiError, NotHeld
from ibi.http.response import Refusal, Response
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState
from support.acts.page_values import Pages, pages_of
from support.archive.archive_fixture import WHEN, NewArchive

ROOT = "http://archive.example"
NAME = "a.example/b/2013/01.01.00.01"
LATER = "2023-11-14T22:13:21Z"
METADATA = {
    "title": ["Title"], "description": ["Words"], "creator": ["Nogueira, H. P."], "date": ["2001"],
    "identifier": ["doi:10.1234/a"],
}  # fmt: skip
LINE = {
    "key": "1",
    "rep": NAME,
    "language": "pt",
    "url": "http://far.example/1",
    "metadata": METADATA,
}
TYPED = (("kind", "text"), ("dc.title", "Another"), ("language", "en"), ("dc.date", "2002"))


@pytest.fixture
def pages(archive: NewArchive) -> Iterator[Pages]:
    with pages_of(archive, lambda: (TAKE_OUT, REFRESH)) as made:
        yield made


@pytest.fixture
def item(pages: Pages) -> Holding:
    return pages.held(LINE)[0]


def with_files(pages: Pages) -> Holding:
    names = ("a.txt", "b.txt", "c.txt")
    for name in names:
        (pages.archive.data / name).write_bytes(name.encode())
    files = dict(zip(names, names, strict=True))
    return pages.held({"key": "2", "rep": "a.example/b/2013/01.01.00.02", "files": files, "target": "a.txt"})[
        0
    ]


def now(pages: Pages, item: Holding) -> Holding:
    return pages.archive.catalogue.settled(item.forms.main)


def test_each_page_needs_a_scope_and_some_take_files(pages: Pages) -> None:
    words = ["items", "deposit", "edit", "files", "delete", "bulk", "", "copy", "transfer", "import"]
    words += ["membership", "statistics", "audit", "tokens"]
    found = {word: (each.scope, each.files, each.small_files) for word, each in pages.handlers.items()}
    assert found == dict.fromkeys(words, (Scope.READ, False, False)) | {
        "deposit": (Scope.DEPOSIT, True, False),
        "edit": (Scope.EDIT, False, False),
        "files": (Scope.EDIT, True, False),
        "delete": (Scope.DELETE, False, False),
        **dict.fromkeys(("copy", "transfer"), (Scope.TRANSFER, False, False)),
        "import": (Scope.ADMIN, True, False),
        **dict.fromkeys(("membership", "tokens"), (Scope.ADMIN, False, False)),
    }


def test_the_page_of_an_item_has_its_history_and_what_can_be_done_with_it(
    pages: Pages, item: Holding
) -> None:
    events = [ItemEvent(WHEN, "tester", "imported", {})]
    shown = ItemPage(item, f"{ROOT}/{NAME}", events, "", [TAKE_OUT])
    assert pages.show(f"items/{NAME}") == shown
    # Whatever names it, typed into the field of the list: its name, or its persistent URL.
    for text in (NAME, f"http%3A%2F%2Farchive.example%2F{NAME}", f"+{NAME}+"):
        assert pages.show("items", query=f"name={text}") == shown


def test_a_copy_can_be_fetched_again_and_of_a_removed_item_nothing_is_left_to_do(
    archive: NewArchive, pages: Pages
) -> None:
    copy, gone = pages.held(
        {**LINE, "state": "Copy"},
        {"key": "2", "rep": "a.example/b/2013/01.01.00.02", "state": "Deleted", "timestamp": WHEN},
    )
    assert archive.settings.resolver == ""
    shown = [pages.show(f"items/{each.forms.main}") for each in (copy, gone)]
    assert [(each.holding, each.acts, each.archive) for each in shown] == [
        (copy, [TAKE_OUT, REFRESH], ""), (gone, [], ""),
    ]  # fmt: skip


def test_words_are_looked_for_and_a_name_that_is_not_held_is_refused(pages: Pages, item: Holding) -> None:
    query = ItemQuery(order="-name", after=f"{NAME}0")
    [listed] = [ListedItem(item, ItemStanding(WHEN, WHEN))]
    assert pages.show("items", query=f"order=-name&after={NAME}0") == ItemsPage([listed], query)
    again = pages.show("items", Form([("name", "words"), ("state", "Copy")]))
    assert (again, again.wanted) == (ItemsPage((), ItemQuery("words", "Copy")), "words")
    with pytest.raises(NotHeld):
        pages.show("items", query="name=a.example/b/1999/01.01.00.00")
    saved = pages.show("items", query=f"order=-name&after={NAME}0&as=csv")
    assert isinstance(saved, Response)
    assert saved.body.decode("utf-8-sig").splitlines()[1:] == [
        f'{NAME},Title,"Nogueira, H. P.",,pt,Original,open,,{WHEN},{WHEN}'
    ]


@pytest.mark.parametrize(
    ("place", "left"),
    [
        ("", {"target", "url", "title", "description", "identifier", "date"}),
        ("edition_of", {"target", "url", "date", "identifier"}),
        ("translation_of", {"target", "url", "language", "title", "description", "identifier"}),
    ],
)
def test_a_new_item_takes_over_what_it_shares_with_another(
    pages: Pages, item: Holding, place: str, left: set[str]
) -> None:
    page = pages.show("deposit", query=f"{place or 'like'}={NAME}")
    kept = {name: rows for name, rows in values_of(item).items() if name.removeprefix("dc.") not in left}
    before = item if place else None
    assert page == ItemFormPage(
        kept, place, before, once=page.once, largest=pages.archive.settings.largest_upload
    )
    assert len(page.once) == 32
    assert page.once != pages.show("deposit").once


def test_the_first_form_is_empty_and_a_form_that_comes_back_is_as_it_was_typed(
    pages: Pages, item: Holding
) -> None:
    largest = pages.archive.settings.largest_upload
    empty = pages.show("deposit")
    assert empty == ItemFormPage({}, once=empty.once, largest=largest)
    upload = kept(pages, "a.txt", b"abc")
    lost = "0" * 32 + " b.txt"
    for fields, place, before in (
        ([("edition_of", NAME)], "edition_of", item),
        ([("translation_of", f" {NAME} ")], "translation_of", item),
        ([("edition_of", "no name")], "", None),
        ([("edition_of", "a.example/b/1999/01.01.00.00")], "", None),
        ([], "", None),
    ):
        typed = Form([*TYPED, ("once", "o"), ("step", "person"), ("upload", upload), *fields], kept=[lost])
        page = pages.show("deposit", typed)
        [file] = page.files
        assert (file.field, file.file.name, file.file.size, file.file.media_type) == (
            upload, "a.txt", 3, "text/plain",
        )  # fmt: skip
        assert page == ItemFormPage(
            typed_values(typed), place, before, once="o", largest=largest, files=[file], lost=1, step="person"
        )
    again = pages.show("deposit", Form(TYPED))
    assert (len(again.once), again.one("dc.title"), again.one("none")) == (32, "Another", "")


def kept(pages: Pages, name: str, content: bytes) -> str:
    """The field of a file that waits in a form: it came with a step before the last one."""
    page = asyncio.run(pages.do("deposit", ("step", "files"), files={name: pages.staged(name, content)}))
    assert [each.file.name for each in page.files] == [name]
    field: str = page.files[0].field
    return field


def test_a_step_drops_a_file_and_what_comes_later_takes_the_place_of_another(pages: Pages) -> None:
    first, second = kept(pages, "a.txt", b"abc"), kept(pages, "b.txt", b"abcd")

    def step(word: str, *uploads: str, **more: Any) -> ItemFormPage:
        fields = [("step", word), *(("upload", each) for each in uploads)]
        page: ItemFormPage = asyncio.run(pages.do("deposit", *fields, **more))
        return page

    dropped = step(f"drop:{first}", first, second)
    assert ([each.field for each in dropped.files], dropped.lost) == ([second], 0)
    again = step("files", first, second)
    assert ([each.field for each in again.files], again.lost) == ([second], 1)
    page = step("files", second, files={"b.txt": pages.staged("b.txt", b"more")})
    [file] = page.files
    assert (file.file.name, file.file.size, file.field != second, page.lost) == ("b.txt", 4, True, 0)
    assert step("files", second).files == []


def test_the_review_of_a_deposit_shows_the_item_as_it_will_be(pages: Pages, item: Holding) -> None:
    upload = kept(pages, "a.txt", b"abc")
    fields = [*TYPED, ("translation_of", NAME), ("once", "o"), ("target", "a.txt"), ("upload", upload)]
    page = asyncio.run(pages.do("deposit", *fields, ("form_token", "t"), ("step", "review")))
    [file] = page.holding.files
    assert (file.name, file.size, file.sha256) == ("a.txt", 3, "")
    expected = Holding(
        forms=pages.archive.settings.service, timestamp=WHEN, language="en", files=(file,), target="a.txt",
        metadata={"title": (MetadataValue("Another"),), "date": (MetadataValue("2002"),)},
    )  # fmt: skip
    assert page == ReviewPage(
        expected, [*fields[:-1], fields[-1]], ROOT, "archive.example", WHEN, item, is_new=True
    )


def test_all_that_is_wrong_is_told_at_once_and_a_form_tells_it_before_the_fields_do(pages: Pages) -> None:
    def refused(*fields: tuple[str, str]) -> list[tuple[str, Any]]:
        with pytest.raises(FormProblems) as problems:
            asyncio.run(pages.do("deposit", *fields, ("step", "review")))
        all_of_it = (problems.value, *problems.value.others)
        return [(str(each), each.details.get("name")) for each in all_of_it]

    nothing = [
        ("choose what it is", "kind"), ("give it a title", "title"),
        ("choose the language of the item", "language"), ("give its date; the year is enough", "date"),
    ]  # fmt: skip
    empty = "an item needs a file, a URL or metadata: give it at least a title"
    assert refused(("kind", "")) == [(empty, None), *nothing]
    assert refused(*TYPED, ("issn", "x")) == [("an ISSN has eight characters, such as 2965-0000", "issn")]
    embargo = "this is no date; write a day, 31/01/2027, a month, 01/2027, or a year"
    assert refused(*TYPED, ("access", "embargoed"), ("embargo", "soon")) == [(embargo, "embargo")]
    with pytest.raises(BadItem) as alone:
        asyncio.run(pages.do("deposit", ("dc.title", " "), ("step", "review")))
    assert (str(alone.value), type(alone.value)) == (empty, BadItem)


def test_a_deposit_is_made_once_with_the_files_that_waited(pages: Pages) -> None:
    upload = kept(pages, "a.txt", b"abc")
    fields = [*TYPED, ("once", "o"), ("upload", upload), ("target", "gone.txt")]
    paths = {asyncio.run(pages.do("deposit", *fields)) for _ in range(2)}
    [path] = paths
    name, _, done = path.removeprefix("/-/admin/items/").partition("?")
    assert done == "done=deposited"
    held = pages.archive.catalogue.settled(parse_name(name))
    assert ([each.name for each in held.files], held.target, held.metadata) == (
        ["a.txt"], "", {"title": (("Another", None),), "date": (("2002", None),)},
    )  # fmt: skip


def test_a_row_of_a_list_leads_to_the_form_of_its_item(pages: Pages, item: Holding) -> None:
    found = pages.show(f"edit/{item.number}")
    headers = (("location", f"/-/admin/edit/{NAME}"), ("cache-control", "no-store"))
    assert found == Response(303, headers=headers)
    with pytest.raises(Refusal) as refused:
        pages.show("edit/99")
    assert (refused.value.status, str(refused.value.why)) == (404, "there is no such page here")


def test_the_form_of_an_item_shows_it_and_what_another_librarian_has_changed(
    pages: Pages, item: Holding
) -> None:
    assert pages.show(f"edit/{NAME}") == ItemFormPage(values_of(item), "edit", item, WHEN)
    for since, theirs in ((WHEN, {}), (LATER, {"language": "pt"})):
        typed = edited(("language", "es"), since=since)
        page = pages.show(f"edit/{NAME}", Form([*typed, ("step", "person")]))
        values = typed_values(Form([*typed, ("step", "person")]))
        assert page == ItemFormPage(values, "edit", item, WHEN, theirs=theirs, step="person")
        assert pages.do(f"edit/{NAME}", *typed, ("step", "person")) == page


def edited(*changes: tuple[str, str], since: str = WHEN) -> list[tuple[str, str]]:
    """The fields of the form of the item, with these changes."""
    rows = [("language", "pt"), ("url", "http://far.example/1")]
    rows += [(f"dc.{name}", text) for name, texts in METADATA.items() for text in texts]
    return [("since", since), *(row for row in rows if row[0] not in dict(changes)), *changes]


def test_an_edit_changes_what_differs_and_without_a_difference_nothing(pages: Pages, item: Holding) -> None:
    there = f"/-/admin/items/{NAME}?done="
    assert pages.do(f"edit/{NAME}", *edited()) == f"{there}unchanged"
    assert now(pages, item) == item
    assert pages.do(f"edit/{NAME}", *edited(("language", "es"))) == f"{there}edited"
    assert write_item(now(pages, item)) == {**write_item(item), "language": "es", "timestamp": LATER}
    with pytest.raises(Conflict):
        pages.do(f"edit/{NAME}", *edited(("language", "en")))


def test_the_review_of_an_edit_shows_the_item_as_it_will_be(pages: Pages, item: Holding) -> None:
    fields = edited(("language", ""), ("rights", "Some"), ("access", "closed"))
    page = pages.do(f"edit/{NAME}", *fields, ("step", "review"), ("form_token", "t"))
    assert page == ReviewPage(
        Holding(**{**_facts(item), "language": None, "rights": "Some", "access": Access.CLOSED}),
        fields, ROOT, "archive.example", WHEN, None, is_new=False,
    )  # fmt: skip
    assert now(pages, item) == item
    for wrong, sentence in (
        (
            ("access", "embargoed"),
            "embargo is the day on which an embargoed item opens; no other item has one",
        ),
        (("target", "a.txt"), "the target a.txt is not among the files"),
    ):
        with pytest.raises(BadItem) as refused:
            pages.do(f"edit/{NAME}", *edited(wrong), ("step", "review"))
        assert str(refused.value) == sentence
    with pytest.raises(FormProblems) as problems:
        pages.do(f"edit/{NAME}", *edited(), ("kind", "text"), ("doi", "x"), ("issn", "y"), ("isbn", "z"))
    assert [each.details["name"] for each in (problems.value, *problems.value.others)] == [
        "doi",
        "issn",
        "isbn",
    ]


def _facts(item: Holding) -> dict[str, Any]:
    return {name: getattr(item, name) for name in Holding.__dataclass_fields__}


def test_files_are_removed_once_confirmed_and_another_opens_first(pages: Pages) -> None:
    item = with_files(pages)
    path = f"files/{item.forms.main}"
    assert pages.show(path) == FilesPage(item, pages.archive.settings.largest_upload)
    done = f"/-/admin/items/{item.forms.main}?done=files"
    sent = [("since", WHEN), ("target", "a.txt"), ("without", "a.txt"), ("without", "a.txt")]
    with pytest.raises(IbiError) as refused:
        pages.do(path, *sent)
    assert str(refused.value) == "tick the box to confirm"
    with pytest.raises(Conflict):
        pages.do(path, ("since", LATER), *sent[1:], ("sure", "yes"))
    assert now(pages, item) == item
    assert pages.do(path, *sent, ("sure", "yes")) == done
    left = now(pages, item)
    assert ([each.name for each in left.files], left.target) == (["b.txt", "c.txt"], "")
    assert pages.do(path, ("since", left.timestamp), ("target", "b.txt")) == done
    assert now(pages, item).target == "b.txt"
    again = now(pages, item)
    # A file that is ticked and comes anew is replaced, which needs no confirmation.
    sent = [("since", again.timestamp), ("target", "b.txt"), ("without", "b.txt")]
    assert pages.do(path, *sent, files={"b.txt": pages.staged("b.txt", b"new")}) == done
    assert [(each.name, each.size) for each in now(pages, item).files] == [("b.txt", 3), ("c.txt", 5)]
    assert now(pages, item).target == "b.txt"
    assert pages.do(path, ("since", now(pages, item).timestamp), ("target", "")) == done
    assert now(pages, item).target == ""


def test_an_item_is_removed_once_confirmed_with_its_reason_and_what_takes_its_place(
    pages: Pages, item: Holding
) -> None:
    other = with_files(pages)
    assert pages.show(f"delete/{NAME}") == DeletePage(item)
    typed = [("reason", " By mistake "), ("replacement", str(other.forms.main)), ("since", WHEN)]
    assert pages.show(f"delete/{NAME}", Form(typed)) == DeletePage(item, "By mistake", str(other.forms.main))
    with pytest.raises(BadItem) as refused:
        pages.do(f"delete/{NAME}", *typed)
    assert str(refused.value) == "tick the box to confirm: the files of the item are removed for ever"
    with pytest.raises(Conflict):
        pages.do(f"delete/{NAME}", *typed[:-1], ("since", LATER), ("sure", "yes"))
    assert now(pages, item) == item
    gone = pages.do(f"delete/{NAME}", *typed, ("sure", "yes"))
    assert gone == f"/-/admin/items/{NAME}?done=removed"
    held = now(pages, item)
    assert (held.state, held.reason, held.replacement) == (ItemState.DELETED, "By mistake", other.forms)
