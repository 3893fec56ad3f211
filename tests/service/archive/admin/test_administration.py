"""The administration of an Archive over HTTP: a librarian's work, from the first deposit to the tombstone."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts import forms
from ibi.accounts.forms import MOST_FIELDS
from ibi.accounts.layout import Form
from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.admin.forms import MOST_PARTS
from ibi.archive.admin.item_form import (
    MOST_STATEMENTS,
    changes_from_form,
    item_from_form,
    typed_values,
    values_of,
)
from ibi.archive.api import deposits, imports
from ibi.archive.api.labels import DepositLabels
from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import read_facts
from ibi.identifier.forms import IBIForms
from ibi.runtime.signing import signer
from support.archive.administration_fixture import (
    AdministeredArchive,
    Librarian,
    administered_archive,
    every_page,
)
from support.archive.archive_fixture import LAST, REP, Answer
from support.checks.full_disk import files_of_at_most
from support.engines.by_hand import put_document

SURE = ("sure", "yes")
NOT_CONFIRMED = "Tick the box to confirm"
HOSTILE = "\"><script>alert(1)</script> '{{ 7*7 }} & São José"


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
    stored_in: str,  # noqa: ARG001 - made anew for a test of the other store
) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path_factory.mktemp("office"), largest_upload=5_000_000) as made:
        yield made


@pytest.fixture
def maria(served: AdministeredArchive) -> Librarian:
    return served.new_browser("maria")


@pytest.fixture
def root(served: AdministeredArchive) -> Librarian:
    return served.new_browser("root")


def text_of(answer: Answer) -> str:
    """What a page says, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def deposited(librarian: Librarian, *fields: tuple[str, str], where: str = "/-/admin/deposit") -> str:
    """The name of an item that is deposited with one file."""
    librarian.look(where)
    parts = [(name, None, value.encode()) for name, value in fields or (("dc.title", "A title"),)]
    once = ("once", None, librarian.hidden("once").encode())
    answer = librarian.send_files("/-/admin/deposit", once, *parts, ("file", "a text.txt", b"some words"))
    page = librarian.gone_to(answer)
    assert "The item was deposited" in page.text
    return answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]


def item(librarian: Librarian, name: str) -> dict[str, object]:
    """What the JSON interface tells of an item."""
    value: dict[str, object] = json.loads(librarian.ask("GET", f"/-/api/items/{name}").body)
    return value


def test_a_deposit_with_a_file_is_found_through_its_persistent_url(maria: Librarian) -> None:
    fields = (
        ("dc.title", "Nomes que ficam"), ("dc.title.lang", "pt"), ("dc.title", "Names that stay"),
        ("dc.title.lang", "en"), ("dc.creator", "Silva, Maria"), ("dc.creator.lang", ""), ("dc.creator", " "),
        ("dc.description", "First line.\r\nSecond line. "), ("language", "pt-BR"), ("access", "open"),
        ("licence", "https://creativecommons.org/licenses/by/4.0/"), ("rights", "Cite it"), ("dc.rights", "CC BY"),
    )  # fmt: skip
    name = deposited(maria, *fields)
    shown = item(maria, name)
    assert shown["metadata"] == {
        "title": [{"value": "Nomes que ficam", "lang": "pt"}, {"value": "Names that stay", "lang": "en"}],
        "creator": ["Silva, Maria"],
        "description": ["First line.\nSecond line."],
        "rights": ["CC BY"],
    }
    assert (shown["language"], shown["rights"]) == ("pt-BR", "Cite it")
    found = maria.ask("GET", f"/{name}")
    assert found.status == 302
    assert maria.ask("GET", found.headers["location"].partition(str(maria.port))[2]).body == b"some words"
    assert "deposited – maria" in text_of(maria.look(f"/-/admin/items/{name}"))


def test_a_form_that_is_sent_twice_makes_one_item(maria: Librarian) -> None:
    maria.look("/-/admin/deposit")
    parts = (
        ("once", None, maria.hidden("once").encode()),
        ("dc.title", None, b"Twice"),
        ("file", "a.txt", b"a"),
    )
    first, second = (maria.send_files("/-/admin/deposit", *parts) for _ in range(2))
    assert first.status == second.status == 303
    assert first.headers["location"] == second.headers["location"]


def test_what_goes_wrong_is_said_beside_all_that_was_typed(
    served: AdministeredArchive, maria: Librarian
) -> None:
    maria.look("/-/admin/deposit")
    typed = (
        ("dc.title", None, HOSTILE.encode()), ("dc.title.lang", None, b"pt"), ("dc.creator", None, b"One"),
        ("dc.creator", None, b"Two"), ("access", None, b"embargoed"), ("licence", None, b"javascript:alert(1)"),
    )  # fmt: skip
    answer = maria.send_files("/-/admin/deposit", *typed, ("file", "a.txt", b"never kept"))
    assert answer.status == 422
    assert 'role="alert"' in answer.text
    assert "licence is an http or https URL" in text_of(answer).replace("Licence", "licence")
    assert 'href="#licence"' in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert "<script>alert" not in answer.text
    for value in (HOSTILE, "One", "Two", "javascript:alert(1)"):
        assert f'value="{value}"' in unescape(answer.text), value
    assert re.search(r'value="embargoed" checked', answer.text)
    assert answer.text.startswith("<!doctype html>")
    assert "<title>Error: " in answer.text
    staging = served.archive.data / "staging"
    assert [path for path in staging.iterdir() if path.read_bytes() == b"never kept"] == []


def test_a_full_disk_is_named(served: AdministeredArchive, maria: Librarian) -> None:
    maria.look("/-/admin/deposit")
    with files_of_at_most(900_000):
        answer = maria.send_files(
            "/-/admin/deposit", ("dc.title", None, b"Too much"), ("file", "a.txt", bytes(1_000_000))
        )
    assert answer.status == 507
    assert "The disk of this server takes no more at the moment" in text_of(answer)
    assert list((served.archive.data / "staging").iterdir()) == []


@pytest.mark.parametrize(
    "typed",
    [{"access": "embargoed"}, {"embargo": "2999-01-01"}, {"access": "embargoed", "embargo": "2999-13-01"}],
)
def test_a_wrong_day_of_an_embargo_is_told_beside_its_field(maria: Librarian, typed: dict[str, str]) -> None:
    maria.look("/-/admin/deposit")
    parts = [(name, None, value.encode()) for name, value in {"dc.title": "T", **typed}.items()]
    answer = maria.send_files("/-/admin/deposit", *parts)
    assert answer.status == 422
    assert 'href="#embargo"' in answer.text
    assert re.search(r'<input id="embargo"[^>]* aria-invalid="true"', answer.text)


def test_hostile_titles_and_file_names_break_out_of_no_page(maria: Librarian) -> None:
    maria.look("/-/admin/deposit")
    parts = (("once", None, maria.hidden("once").encode()), ("dc.title", None, HOSTILE.encode()))
    files = (("file", "..\\..\\é <b>%22.txt", b"1"), ("file", "C:/x/../etc&passwd", b"2"))
    answer = maria.send_files("/-/admin/deposit", *parts, *files)
    page = maria.gone_to(answer)
    name = answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]
    for word in ("items", "edit", "files", "delete", "transfer"):
        page = maria.look(f"/-/admin/{word}/{name}")
        assert page.status == 200, word
        assert "<script>alert" not in page.text
        assert "<b>" not in page.text.replace("<b>1<span", "")  # a count in the menu
        assert "{{ 7*7 }}" in unescape(page.text)
    assert sorted(item(maria, name)["files"]) == ["%C3%A9%20%3Cb%3E%2522.txt", "etc&passwd"]  # type: ignore[call-overload]  # an object
    assert "<script>alert" not in maria.look("/-/admin").text
    assert "<script>alert" not in maria.look("/-/admin/items").text


def test_an_uploaded_page_can_do_nothing_in_the_name_of_who_looks_at_it(maria: Librarian) -> None:
    maria.look("/-/admin/deposit")
    for name in ("x.html", "x.svg", "x.xml", "x.js"):
        answer = maria.send_files("/-/admin/deposit", ("file", name, b"<script>fetch('/-/admin')</script>"))
        item_name = answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]
        policy = maria.ask("GET", f"/col/{item_name}/doc/{name}").headers["content-security-policy"]
        assert policy.startswith("sandbox ")
        assert not {"allow-scripts", "allow-same-origin", "allow-forms"} & set(
            policy.replace(";", " ").split()
        )


@pytest.mark.parametrize("name", ["..", ".", "a/..", "\x00", "x" * 300, "a\x7fb"])
def test_a_file_name_that_is_none_is_refused_or_made_one(maria: Librarian, name: str) -> None:
    maria.look("/-/admin/deposit")
    answer = maria.send_files("/-/admin/deposit", ("dc.title", None, b"x"), ("file", name, b"1"))
    assert answer.status in {303, 400, 422}, answer.text
    assert "Traceback" not in answer.text


def test_too_large_a_form_is_refused(served: AdministeredArchive, maria: Librarian) -> None:
    maria.look("/-/admin/deposit")
    answer = maria.send_files("/-/admin/deposit", ("file", "a", b"a" * 8_000_000))
    assert answer.status == 413
    long = (("dc.title", None, b"a" * (forms.LONGEST_FIELDS + 1)),)
    assert maria.send_files("/-/admin/deposit", *long).status == 413
    many = [("dc.title", None, b"")] * (forms.MOST_FIELDS + 1)
    assert maria.send_files("/-/admin/deposit", *many).status == 400
    nothing = [("file", "", b"")] * (MOST_PARTS + 1)
    assert maria.send_files("/-/admin/deposit", *nothing).status == 400
    files = (served.archive.data / "staging").glob("*") if (served.archive.data / "staging").exists() else ()
    assert [path.name for path in files if path.is_file() and path.stat().st_size > 1_000_000] == []


def test_a_new_edition_and_a_translation_find_their_places(maria: Librarian) -> None:
    first = deposited(maria, ("dc.title", "First"), ("dc.creator", "Silva, Maria"), ("language", "en"))
    page = maria.look(f"/-/admin/deposit?edition_of={first}")
    assert 'value="Silva, Maria"' in page.text
    second = deposited(
        maria, ("dc.title", "Second"), ("language", "en"), ("edition_of", first),
        where=f"/-/admin/deposit?edition_of={first}",
    )  # fmt: skip
    assert str(item(maria, first)["next_edition"]).split()[1] == second
    page = maria.look(f"/-/admin/deposit?translation_of={second}")
    assert 'value="Second"' not in page.text
    silent = maria.send_files(
        "/-/admin/deposit", ("dc.title", None, b"Segunda"), ("translation_of", None, second.encode())
    )
    assert silent.status == 422
    assert "a translation needs its language" in text_of(silent).lower()
    third = deposited(
        maria, ("dc.title", "Segunda"), ("language", "pt"), ("translation_of", second),
        where=f"/-/admin/deposit?translation_of={second}",
    )  # fmt: skip
    assert "pt" in item(maria, second)["translations"]  # type: ignore[operator]  # an object
    assert "en" in item(maria, third)["translations"]  # type: ignore[operator]  # an object
    maria.look(f"/-/admin/deposit?edition_of={first}")
    again = maria.send_files(
        "/-/admin/deposit", ("dc.title", None, b"Other"), ("edition_of", None, first.encode())
    )
    assert again.status == 422
    assert "already has a next edition" in again.text
    assert 'value="Other"' in again.text


def test_an_edit_changes_what_differs_and_nothing_else(maria: Librarian) -> None:
    name = deposited(maria, ("dc.title", "Before"), ("language", "en"))
    before = item(maria, name)
    maria.look(f"/-/admin/edit/{name}")
    same = [("since", maria.hidden("since")), ("dc.title", "Before"), ("language", "en")]
    assert "Nothing was different" in maria.gone_to(maria.send(f"/-/admin/edit/{name}", *same)).text
    assert item(maria, name) == before
    maria.look(f"/-/admin/edit/{name}")
    other = [("since", maria.hidden("since")), ("dc.title", "After"), ("access", "closed")]
    assert "were saved" in maria.gone_to(maria.send(f"/-/admin/edit/{name}", *other)).text
    after = item(maria, name)
    assert after["metadata"] == {"title": ["After"]}
    assert after["access"] == "closed"
    assert "language" not in after
    assert "a%20text.txt" in maria.look(f"/-/admin/items/{name}").text
    assert "edited – maria (access, language, metadata)" in text_of(maria.look(f"/-/admin/items/{name}"))


def test_of_two_who_edit_the_second_sees_both_and_nothing_is_lost(
    served: AdministeredArchive, maria: Librarian
) -> None:
    name = deposited(maria, ("dc.title", "Before"), ("rights", "none"))
    root = served.new_browser("root")
    for each in (maria, root):
        each.look(f"/-/admin/edit/{name}")
    theirs = [("since", root.hidden("since")), ("dc.title", "Theirs"), ("rights", "none")]
    assert root.send(f"/-/admin/edit/{name}", *theirs).status == 303
    mine = [("since", maria.hidden("since")), ("dc.title", "Mine"), ("rights", "none")]
    answer = maria.send(f"/-/admin/edit/{name}", *mine)
    assert answer.status == 409
    assert 'value="Mine"' in answer.text
    assert "<q>Theirs</q>" in answer.text
    assert answer.text.count("<q>") == 1
    assert item(maria, name)["metadata"] == {"title": ["Theirs"]}
    maria.page = answer
    knowingly = [("since", maria.hidden("since")), *mine[1:]]
    assert maria.send(f"/-/admin/edit/{name}", *knowingly).status == 303
    assert item(maria, name)["metadata"] == {"title": ["Mine"]}


@pytest.mark.parametrize("word", ["files", "delete"])
def test_no_other_form_overwrites_what_it_has_not_seen(maria: Librarian, word: str) -> None:
    name = deposited(maria)
    maria.look(f"/-/admin/{word}/{name}")
    old = [("since", "2020-01-01T00:00:00Z"), ("reason", "x"), ("sure", "yes"), ("without", "a%20text.txt")]
    assert maria.send(f"/-/admin/{word}/{name}", *old).status == 409
    assert "files" in item(maria, name)


def test_files_are_added_replaced_and_taken_out(maria: Librarian) -> None:
    name = deposited(maria)
    maria.look(f"/-/admin/files/{name}")
    since = ("since", None, maria.hidden("since").encode())
    sent = (("file", "b.txt", b"bb"), ("file", "a text.txt", b"other words"), ("target", None, b""))
    assert maria.send_files(f"/-/admin/files/{name}", since, *sent).status == 303
    assert maria.ask("GET", f"/col/{name}/doc/a%20text.txt").body == b"other words"
    maria.look(f"/-/admin/files/{name}")
    out = (("without", None, b"a%20text.txt"), ("file", "", b""), ("target", None, b"b.txt"))
    since = ("since", None, maria.hidden("since").encode())
    unsure = maria.send_files(f"/-/admin/files/{name}", since, *out)
    assert (unsure.status, NOT_CONFIRMED in text_of(unsure)) == (422, True)
    assert len(item(maria, name)["files"]) == 2  # type: ignore[arg-type]  # an object
    sure = ("sure", None, b"yes")
    assert maria.send_files(f"/-/admin/files/{name}", since, sure, *out).status == 303
    shown = item(maria, name)
    assert (list(shown["files"]), shown["target"]) == (["b.txt"], "b.txt")  # type: ignore[call-overload]  # an object
    maria.look(f"/-/admin/files/{name}")
    nothing = (("since", None, maria.hidden("since").encode()), ("target", None, b"b.txt"))
    assert "nothing to change was given" in maria.send_files(f"/-/admin/files/{name}", *nothing).text.lower()


def test_a_file_that_is_added_leaves_the_link_where_it_led(maria: Librarian) -> None:
    name = deposited(maria)
    before = maria.ask("GET", f"/{name}").headers["location"]
    assert before.endswith(f"/col/{name}/doc/a%20text.txt")
    page = maria.look(f"/-/admin/files/{name}").text
    assert '<option value="a%20text.txt" selected>' in page  # which the form sends, if it is left as it is
    since = ("since", None, maria.hidden("since").encode())
    sent = (since, ("file", "errata.txt", b"errata"), ("target", None, b"a%20text.txt"))
    assert maria.send_files(f"/-/admin/files/{name}", *sent).status == 303
    assert maria.ask("GET", f"/{name}").headers["location"] == before


def test_a_deleted_item_leaves_a_tombstone_with_its_reason(maria: Librarian) -> None:
    name = deposited(maria)
    maria.look(f"/-/admin/delete/{name}")
    since = ("since", maria.hidden("since"))
    assert (
        "the field reason is missing"
        in maria.send(f"/-/admin/delete/{name}", since, ("sure", "yes")).text.lower()
    )
    unsure = maria.send(f"/-/admin/delete/{name}", since, ("reason", HOSTILE))
    assert unsure.status == 422
    assert HOSTILE in unescape(unsure.text)
    assert maria.ask("GET", f"/{name}").status == 302
    page = maria.gone_to(maria.send(f"/-/admin/delete/{name}", since, ("sure", "yes"), ("reason", HOSTILE)))
    assert HOSTILE in unescape(page.text)
    assert "<script>alert" not in page.text
    gone = maria.ask("GET", f"/{name}")
    assert gone.status == 410
    assert HOSTILE in unescape(gone.text)
    assert "/-/admin/edit/" not in page.text


def test_the_service_item_cannot_be_deleted(served: AdministeredArchive, maria: Librarian) -> None:
    service = served.archive.settings.service.main
    maria.look(f"/-/admin/delete/{service}")
    fields = (("since", maria.hidden("since")), ("reason", "x"), ("sure", "yes"))
    answer = maria.send(f"/-/admin/delete/{service}", *fields)
    assert answer.status == 422
    assert "is the Archive service" in answer.text


def test_a_depositor_can_change_nothing_that_is_there(served: AdministeredArchive, maria: Librarian) -> None:
    name = deposited(maria)
    joao = served.new_browser("joao")
    page = joao.look(f"/-/admin/items/{name}")
    assert "/-/admin/edit/" not in page.text
    joao.look("/-/admin/deposit")
    for word in ("edit", "files", "delete", "transfer"):
        assert joao.look(f"/-/admin/{word}/{name}").status == 403
        joao.look("/-/admin/deposit")
        assert joao.send(f"/-/admin/{word}/{name}", ("reason", "x"), ("sure", "yes")).status == 403
    assert item(maria, name)["files"]


@pytest.mark.one_store("sqlite", "a store has the key from the start")
def test_an_archive_tells_the_key_of_its_receipts_once_it_has_one(served: AdministeredArchive) -> None:
    anonymous = served.new_browser()
    assert (
        json.loads(anonymous.ask("GET", "/-/about", accept="application/json").text)["attestation_key"]
        is None
    )
    made = signer(served.archive.data)
    assert (
        json.loads(anonymous.ask("GET", "/-/about", accept="application/json").text)["attestation_key"]
        == made.public
    )


def test_blanks_without_end_cost_nothing(maria: Librarian) -> None:
    blanks = " " * 200_000
    name = deposited(maria, ("dc.title", "A title"), ("dc.description", f"a{blanks}b  \r\n\r\nc{blanks}\r\n"))
    assert item(maria, name)["metadata"] == {"title": ["A title"], "description": [f"a{blanks}b\n\nc"]}


def test_items_are_listed_and_found_by_whatever_was_pasted(maria: Librarian) -> None:
    page = maria.look("/-/admin/items?order=added")
    assert REP in page.text
    assert f"<h1>{LAST}</h1>" in maria.look(f"/-/admin/items?name=see+http://urlib.net/{LAST}!").text
    assert maria.look("/-/admin/items?name=far.example/x/2020/01.01.00.00").status == 404
    assert maria.look("/-/admin/items/nothing/x").status in {404, 422}
    assert maria.look("/-/admin/items?after=%FF%FE&x=%").status == 200
    assert maria.look("/-/admin/nothing").status == 404


def test_the_overview_counts_what_is_there(maria: Librarian) -> None:
    deposited(maria, ("dc.title", "The newest of all"))
    page = maria.look("/-/admin")
    assert "The newest of all" in page.text
    assert "Left on the disk" in page.text
    for word in ("statistics", "audit", "account"):
        assert maria.look(f"/-/admin/{word}").status == 200


def test_an_import_shows_what_would_come_of_it_before_anything_is_taken_in(
    served: AdministeredArchive, root: Librarian
) -> None:
    records = b'title,url\nOne,http://far.example/1\nTwo,http://far.example/2\nBad,ftp://x\n"<i>",http://far.example/3\n'
    root.look("/-/admin/import")
    answer = root.send_files("/-/admin/import", ("file", "list.csv", records), ("format", None, b""))
    assert answer.status == 200, answer.text
    assert "New items 3" in text_of(answer)
    assert "Refused 1" in text_of(answer)
    assert "http://far.example/1" not in root.look("/-/admin/items").text
    root.page = answer
    sure = [(name, None, root.hidden(name).encode()) for name in ("upload", "name", "format")]
    done = root.send_files("/-/admin/import", *sure)
    assert "New items 3" in text_of(done)
    assert "<i>" not in root.look("/-/admin/items").text
    assert root.send_files("/-/admin/import", *sure).status == 404  # the file is forgotten
    root.look("/-/admin/import")
    again = root.send_files("/-/admin/import", ("file", "list.csv", records), ("format", None, b""))
    assert "New items 0 Here already 3" in text_of(again)
    assert served.new_browser("maria").look("/-/admin/import").status == 403


def test_an_import_that_updates_shows_what_would_change_and_then_changes_it(root: Librarian) -> None:
    root.look("/-/admin/import")
    first = root.send_files("/-/admin/import", ("file", "a.csv", b"key,title\nchanged,Before\n"))
    root.page = first
    sure = [(name, None, root.hidden(name).encode()) for name in ("upload", "name", "format")]
    assert "New items 1" in text_of(root.send_files("/-/admin/import", *sure))
    root.look("/-/admin/import")
    corrected = ("file", "a.csv", b"key,title\nchanged,Afterwards\n")
    root.page = root.send_files("/-/admin/import", corrected, ("update", None, b"yes"))
    assert "would be changed: metadata.title" in text_of(root.page)
    sure = [(name, None, root.hidden(name).encode()) for name in ("upload", "name", "format", "update")]
    assert "Changed items 1" in text_of(root.send_files("/-/admin/import", *sure))
    assert "Afterwards" in root.look("/-/admin/items").text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"files": {"x": "../accounts.json"}}\n'),
        ("a.jsonl", b'{"files": {"x": "lock"}}\n'),
        ("a.bib", b"@misc{" * 1000),
        ("a.csv", b"\x00\xff" * 1000),
        ("a.ris", b"AU  - x\n" * 1000),
        ("a.jsonl", b"[" * 100_000),
    ],
)
def test_a_bad_file_of_records_takes_in_nothing(root: Librarian, name: str, content: bytes) -> None:
    root.look("/-/admin/import")
    answer = root.send_files("/-/admin/import", ("file", name, content), ("format", None, b""))
    assert answer.status in {200, 422}
    assert "New items 0" in text_of(answer) or answer.status == 422
    if answer.status == 200:
        root.page = answer
        sure = [(field, None, root.hidden(field).encode()) for field in ("upload", "name", "format")]
        assert "New items 0" in text_of(root.send_files("/-/admin/import", *sure))
    assert imports.MOST_SHOWN < 1000


def test_one_librarian_cannot_take_in_the_file_of_another(
    served: AdministeredArchive, root: Librarian
) -> None:
    root.look("/-/admin/import")
    root.page = root.send_files("/-/admin/import", ("file", "a.csv", b"title,url\nX,http://far.example/x9\n"))
    sure = [(name, None, root.hidden(name).encode()) for name in ("upload", "name", "format")]
    root.look("/-/admin/accounts")
    made = root.send("/-/admin/accounts", ("what", "add"), ("name", "other"), ("role", "administrator"))
    [password] = re.findall(r"<pre>([a-z0-9-]+)</pre>", made.text)
    other = served.new_browser()
    assert other.sign_in("other", password).status == 303
    other.look("/-/admin/import")
    assert other.send_files("/-/admin/import", *sure).status == 404


def test_a_token_is_shown_once_works_and_is_revoked(served: AdministeredArchive, root: Librarian) -> None:
    root.look("/-/admin/tokens")
    assert (
        "the field “what it permits” is missing"
        in root.send("/-/admin/tokens", ("name", "program")).text.lower()
    )
    made = root.send("/-/admin/tokens", ("name", "program"), ("scopes", "deposit"), ("scopes", "read"))
    [token] = re.findall(r"<pre>(ibi_[\w-]+)</pre>", made.text)
    assert token not in root.look("/-/admin/tokens").text
    known = Tokens(served.archive.data).find(token)
    assert known is not None
    assert known.scopes == ("read", "deposit")
    twice = root.send("/-/admin/tokens", ("name", "program"), ("scopes", "read"))
    assert twice.status == 422
    assert "there is a token of the name program already" in twice.text.lower()
    unsure = root.send("/-/admin/tokens", ("what", "revoke"), ("name", "program"))
    assert (unsure.status, NOT_CONFIRMED in text_of(unsure)) == (422, True)
    assert Tokens(served.archive.data).find(token) is not None
    assert '<details class="confirmed" open>' in unsure.text
    assert root.send("/-/admin/tokens", ("what", "revoke"), ("name", "program"), SURE).status == 303
    assert Tokens(served.archive.data).find(token) is None


def test_an_account_is_made_given_a_password_and_removed(
    served: AdministeredArchive, root: Librarian
) -> None:
    root.look("/-/admin/accounts")
    made = root.send("/-/admin/accounts", ("what", "add"), ("name", "ines"), ("role", "keeper"))
    [password] = re.findall(r"<pre>([a-z0-9-]+)</pre>", made.text)
    ines = served.new_browser()
    assert ines.sign_in("ines", password).status == 303
    for what in ("password", "remove"):
        unsure = root.send("/-/admin/accounts", ("what", what), ("name", "ines"))
        assert (unsure.status, NOT_CONFIRMED in text_of(unsure)) == (422, True)
    assert ines.look("/-/admin").status == 200
    changed = root.send("/-/admin/accounts", ("what", "password"), ("name", "ines"), SURE)
    assert password not in changed.text
    assert ines.look("/-/admin").status == 303
    assert root.send("/-/admin/accounts", ("what", "remove"), ("name", "root")).status == 422
    assert root.send("/-/admin/accounts", ("what", "remove"), ("name", "ines"), SURE).status == 303
    assert root.send("/-/admin/accounts", ("what", "add"), ("name", "x y"), ("role", "keeper")).status == 422
    assert root.send("/-/admin/accounts", ("what", "add"), ("name", "ok"), ("role", "god")).status == 422


@pytest.mark.parametrize("word", ["accounts", "tokens", "items", "import"])
def test_the_page_that_is_open_is_marked_in_the_menu(root: Librarian, word: str) -> None:
    marked = re.findall(
        r'<a href="/-/admin/?([a-z-]*)" aria-current="page">', root.look(f"/-/admin/{word}").text
    )
    assert marked == [word]


@pytest.mark.parametrize("name", ["root", "ROOT"])
@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("remove", "You cannot remove the account that you are signed in with"),
        ("role", "You cannot change the role of the account that you are signed in with"),
    ],
)
def test_no_administrator_takes_the_administration_from_themselves(
    served: AdministeredArchive, root: Librarian, name: str, what: str, sentence: str
) -> None:
    root.look("/-/admin/accounts")
    refused = root.send("/-/admin/accounts", ("what", what), ("name", name), ("role", "keeper"))
    assert (refused.status, sentence in text_of(refused)) == (422, True)
    account = Accounts(served.archive.data).find("root")
    assert account is not None
    assert account.role is Role.ADMINISTRATOR


def test_the_archive_joins_and_leaves_a_resolver_and_is_switched(tmp_path: Path) -> None:
    with administered_archive(tmp_path) as alone:
        root = alone.new_browser("root")
        root.look("/-/admin/membership")
        bad = root.send("/-/admin/membership", ("what", "join"), ("resolver", "ftp://x"))
        assert (bad.status, 'value="ftp://x"' in bad.text) == (422, True)
        joined = root.send("/-/admin/membership", ("what", "join"), ("resolver", "http://127.0.0.1:9/"))
        assert re.search(r"registrationkey = [0-9]{20}", joined.text)
        assert "ibi resolver register" in joined.text
        page = root.look("/-/admin/membership")
        assert "http://127.0.0.1:9" in page.text
        assert "registrationkey" not in page.text
        unsure = root.send("/-/admin/membership", ("what", "switch"), ("switched_on", "no"))
        assert (unsure.status, "Tick the box to confirm" in unsure.text) == (422, True)
        for on, message in (("no", "is switched off:"), ("yes", "is switched on:")):
            root.look("/-/admin/membership")
            assert (
                message
                in root.gone_to(
                    root.send("/-/admin/membership", ("what", "switch"), ("switched_on", on), SURE)
                ).text
            )
        root.look("/-/admin/membership")
        leaving = (("what", "leave"), ("resolver", "http://127.0.0.1:9"))
        for fields in (leaving, (("what", "switch"), ("switched_on", "no"))):
            unsure = root.send("/-/admin/membership", *fields)
            assert (unsure.status, NOT_CONFIRMED in text_of(unsure)) == (422, True)
        assert root.send("/-/admin/membership", *leaving, SURE).status == 303
        assert "takes part in no resolver yet" in root.look("/-/admin/membership").text


def test_a_copy_that_cannot_be_had_is_said_with_what_was_typed(maria: Librarian) -> None:
    maria.look("/-/admin/copy")
    assert "the field ibi is missing" in maria.send("/-/admin/copy").text.lower()
    answer = maria.send("/-/admin/copy", ("ibi", "far.example/x/2020/01.01.00.00"))
    assert answer.status == 422
    assert 'value="far.example/x/2020/01.01.00.00"' in answer.text
    private = (("ibi", "far.example/x/2020/01.01.00.00"), ("archive", "http://127.0.0.1:8123"))
    refused = maria.send("/-/admin/copy", *private)
    assert refused.status == 502  # only an administrator reaches into private networks
    assert "127.0.0.1" in text_of(refused)
    assert maria.send("/-/admin/copy", *private, ("private", "yes")).status == 403


def test_an_original_is_handed_over_only_to_an_archive_that_was_named(
    served: AdministeredArchive, maria: Librarian
) -> None:
    name = deposited(maria)
    assert "No Archive has been named yet" in maria.look(f"/-/admin/transfer/{name}").text
    maria.look("/-/admin/copy")
    assert (
        maria.send(f"/-/admin/transfer/{name}", ("to", "http://far.example"), ("sure", "yes")).status == 422
    )
    put_document(served.archive.data, "peers.toml", '[far]\naddress = "http://127.0.0.1:9"\ntoken = "t"\n')
    maria.look(f"/-/admin/transfer/{name}")
    assert maria.send(f"/-/admin/transfer/{name}", ("to", "far")).status == 422
    page = maria.gone_to(maria.send(f"/-/admin/transfer/{name}", ("to", "far"), ("sure", "yes")))
    assert "http://127.0.0.1:9" in page.text


def test_every_page_is_small_and_in_portuguese_where_that_is_wanted(root: Librarian) -> None:
    name = deposited(root)
    for path in every_page(name):
        page = root.look(path, "pt-BR")
        assert page.status == 200, path
        assert page.headers["content-language"] == "pt-BR"
        assert '<html lang="pt-BR">' in page.text
        assert len(page.body) < 60_000


def test_the_form_of_an_item_says_what_the_item_says() -> None:
    value = {
        "language": "pt-BR", "url": "http://far.example/", "access": "embargoed", "embargo": "2030-01-01",
        "transferable": False, "rights": "some", "contenttype": "Metadata",
        "metadata": {"title": [{"value": " A  b ", "lang": "pt"}, "x\r\ny"], "language": ["pt"], "rights": ["r"]},
    }  # fmt: skip
    forms_of = IBIForms.parse("rep archive.example/w/2022/01.01.00.00")
    holding = Holding(forms=forms_of, timestamp="2022-01-01T00:00:00Z", **read_facts(value))
    fields = [(name, text) for name, rows in values_of(holding).items() for text, _ in rows]
    fields += [
        (f"{n}.lang", tag) for n, rows in values_of(holding).items() if n.startswith("dc.") for _, tag in rows
    ]
    form = Form(fields)
    assert changes_from_form(form, holding) == {}
    assert item_from_form(form)["metadata"]["title"] == [{"value": "A  b", "lang": "pt"}, "x\ny"]
    assert changes_from_form(Form(), holding) == dict.fromkeys(
        [*(set(value) - {"contenttype"}), "contenttype"]
    )
    assert typed_values(form)["dc.language"] == [("pt", "")]


def test_an_item_that_says_more_than_a_form_takes_is_not_squeezed_into_one(root: Librarian) -> None:
    def page_of(many: int) -> Answer:
        name = deposited(root, *(("dc.relation", f"word {number}") for number in range(many)))
        return root.look(f"/-/admin/edit/{name}")

    page = page_of(MOST_STATEMENTS)
    assert page.text.count('name="dc.relation"') >= MOST_STATEMENTS
    fields = len(re.findall(r"<(?:input|textarea|select) ", page.text))
    assert fields < MOST_FIELDS
    page = page_of(MOST_STATEMENTS + 1)
    assert (page.status, "ibi archive edit" in page.text, "<textarea" in page.text) == (422, True, False)


def test_programs_and_librarians_wait_in_the_same_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, go_on, draw = threading.Event(), threading.Event(), DepositLabels.draw

    async def draw_later(self: DepositLabels, count: int) -> Any:
        waits.set()
        await asyncio.to_thread(go_on.wait, 60)
        return await draw(self, count)

    monkeypatch.setattr(deposits, "MOST_DEPOSITS", 1)
    monkeypatch.setattr(DepositLabels, "draw", draw_later)
    with administered_archive(tmp_path) as served, ThreadPoolExecutor() as programs:
        maria, program = served.new_browser("maria"), served.new_browser("maria")
        maria.look("/-/admin/deposit")
        body = json.dumps({"metadata": {"title": ["One"]}}).encode()
        token = Tokens(served.archive.data).make("program", "2026-11-22T10:00:00Z", [Scope.DEPOSIT])
        headers = {"authorization": f"Bearer {token}", "content_type": "application/json", "cookie": ""}
        first = programs.submit(lambda: program.ask("POST", "/-/api/items", body, **headers))
        try:
            assert waits.wait(30)
            refused = maria.send("/-/admin/deposit", ("once", maria.hidden("once")), ("dc.title", "Two"))
        finally:
            go_on.set()
        assert refused.status == 503
        assert "Too many deposits are under way; ask again later" in refused.text
        assert 'value="Two"' in refused.text  # what was typed is shown again
        assert first.result().status == 201
