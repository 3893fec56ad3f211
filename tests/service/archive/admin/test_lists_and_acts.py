"""The list of items in the administration, acts on several items at once, and what an import shows before."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from ibi.cli import command_parser
from ibi.web.assets import assets
from support.archive.administration_fixture import AdministeredArchive, Librarian, administered_archive
from support.cli.archive_commands import until

TITLES = ("Alpha", "Beta", "=Gamma()")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path) as made:
        yield made


@pytest.fixture
def maria(served: AdministeredArchive) -> Librarian:
    return served.new_browser("maria")


def deposited(maria: Librarian, title: str, *more: tuple[str, str]) -> str:
    maria.look("/-/admin/deposit")
    once = maria.hidden("once")
    fields = [("once", once), ("dc.title", title), *more]
    answer = maria.send_files(
        "/-/admin/deposit",
        ("file", "a.txt", b"words"),
        *((name, None, text.encode()) for name, text in fields),
    )
    assert answer.status == 303
    return answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]


def rows(text: str) -> list[tuple[str, str]]:
    """The number and the name of each row of the list."""
    found = re.findall(r'name=item value=(\d+).*?href="items/([^"]+)"', text, re.DOTALL)
    return [(number, name) for number, name in found]


def test_a_list_is_sorted_narrowed_and_read_page_by_page(maria: Librarian) -> None:
    names = [deposited(maria, f"Item {number}") for number in range(32)]
    first = maria.look("/-/admin/items").text
    assert [name for _, name in rows(first)] == names[:6:-1]
    assert 'aria-sort="descending"' in first
    [after] = re.findall(r'rel="next" href="([^"]+)"', first)
    second = [name for _, name in rows(maria.look(after.replace("&amp;", "&")).text)]
    assert second[:7] == names[6::-1]
    forwards = [name for _, name in rows(maria.look("/-/admin/items?order=added").text)]
    assert forwards[: len(second) - 7] == second[:6:-1]
    by_name = [name for _, name in rows(maria.look("/-/admin/items?order=name").text)]
    backwards = [name for _, name in rows(maria.look("/-/admin/items?order=-name").text)]
    assert len(by_name) == len(backwards) == 25
    assert by_name == sorted(by_name)
    assert backwards == sorted(backwards, reverse=True)
    assert by_name[0] < backwards[-1]
    assert rows(maria.look("/-/admin/items?access=closed").text) == []
    assert len(rows(maria.look("/-/admin/items?state=Deleted").text)) == 1
    assert "Nothing was found." in maria.look("/-/admin/items?access=closed").text
    assert maria.look("/-/admin/items?name=words+of+no+item").status in {200, 422, 503}


def test_a_row_leads_to_the_form_of_its_item(maria: Librarian) -> None:
    name = deposited(maria, "Water")
    [number] = [number for number, each in rows(maria.look("/-/admin/items").text) if each == name]
    page = maria.look("/-/admin/items").text
    assert f"href=edit/{number}>" in page
    answer = maria.look(f"/-/admin/edit/{number}")
    assert (answer.status, answer.headers["location"]) == (303, f"/-/admin/edit/{name}")
    assert maria.look("/-/admin/edit/1234567").status == 404


def test_a_list_weighs_no_more_than_a_page_may(maria: Librarian) -> None:
    for number in range(26):
        title = f"Water quality and land use in the middle valley: measurements, part {number}"
        deposited(maria, title, ("dc.creator", "Nogueira, H. P."), ("access", "restricted"))
    body = maria.look("/-/admin/items").text
    assert len(rows(body)) == 25
    weight = len(body.encode()) + sum(len(assets()[name].body) for name in ("style.css", "items.css"))
    assert weight <= 30 * 1024, weight


def test_a_list_is_saved_as_a_table_in_which_no_text_is_a_formula(maria: Librarian) -> None:
    for title in TITLES:
        deposited(maria, title)
    saved = maria.look("/-/admin/items?as=csv")
    assert saved.headers["content-type"].startswith("text/csv")
    table = list(csv.DictReader(io.StringIO(saved.body.decode("utf-8-sig"))))
    assert [row["title"] for row in table[:3]] == ["'=Gamma()", "Beta", "Alpha"]
    newest, _, oldest = (("item", number) for number, _ in rows(maria.look("/-/admin/items").text)[:3])
    chosen = maria.send("/-/admin/bulk", ("what", "export"), newest, oldest)
    assert chosen.headers["content-type"].startswith("text/csv")
    table = list(csv.DictReader(io.StringIO(chosen.body.decode("utf-8-sig"))))
    assert [row["title"] for row in table] == ["'=Gamma()", "Alpha"]


def test_an_act_on_several_items_names_them_asks_once_and_shows_what_came_of_each(maria: Librarian) -> None:
    names = [deposited(maria, title) for title in TITLES]
    chosen = [("item", number) for number, name in rows(maria.look("/-/admin/items").text) if name in names]
    confirmation = maria.send("/-/admin/bulk", ("what", "access"), *chosen)
    assert confirmation.status == 200
    assert all(name in confirmation.text for name in names)
    assert "closed" not in maria.look(f"/-/admin/items/{names[0]}").text
    maria.page = confirmation
    seen = re.findall(r'name="(since\.\d+)" value="([^"]+)"', confirmation.text)
    confirmed = ("confirmed", maria.hidden("confirmed"))
    sent = [("what", "access"), confirmed, *chosen, *seen, ("access", "closed")]
    assert maria.send("/-/admin/bulk", *sent).status == 422  # it was not confirmed
    assert maria.send("/-/admin/bulk", *sent, ("embargo", "2030-01-01"), ("sure", "yes")).status == 422
    # Another librarian changes one of them meanwhile.
    maria.look(f"/-/admin/edit/{names[1]}")
    moved = maria.send("/-/admin/edit/" + names[1], ("since", maria.hidden("since")), ("dc.title", "Delta"))
    assert moved.status == 303
    done = maria.send("/-/admin/bulk", *sent, ("sure", "yes"))
    assert "It was done with 2 items." in done.text
    assert "changed meanwhile" in done.text
    listed = {name for _, name in rows(maria.look("/-/admin/items?access=closed").text)}
    assert listed == {names[0], names[2]}


def test_a_subject_is_added_once_and_items_are_removed_with_their_reason(maria: Librarian) -> None:
    name = deposited(maria, "Alpha", ("dc.subject", "rivers"))
    [(number, _)] = [each for each in rows(maria.look("/-/admin/items").text) if each[1] == name]

    def act(*fields: tuple[str, str]) -> str:
        maria.page = maria.send("/-/admin/bulk", fields[0], ("item", number))
        seen = re.findall(r'name="(since\.\d+)" value="([^"]+)"', maria.page.text)
        sent = (*fields, ("item", number), *seen, ("confirmed", maria.hidden("confirmed")), ("sure", "yes"))
        return maria.send("/-/admin/bulk", *sent).text

    for _ in range(2):
        assert "It was done with 1 item." in act(("what", "subject"), ("subject", "floods"))
    assert "It was done" in act(("what", "subject"), ("subject", "enchentes"), ("language", "pt"))
    assert maria.look(f"/-/item/{name}").text.count('name="citation_keywords" content="floods"') == 1
    assert '<span lang="pt">enchentes</span>' in maria.look(f"/-/item/{name}").text
    maria.look("/-/admin/items")
    assert "It was done with 1 item." in act(("what", "remove"), ("reason", "By mistake"))
    assert "By mistake" in maria.look(f"/-/admin/items/{name}").text


@pytest.mark.parametrize("act", ["access", "subject", "offer", "remove"])
def test_the_command_that_does_the_same_can_be_typed(maria: Librarian, act: str) -> None:
    name = deposited(maria, "Alpha")
    [(number, _)] = [each for each in rows(maria.look("/-/admin/items").text) if each[1] == name]
    page = maria.send("/-/admin/bulk", ("what", act), ("item", number)).text
    words = (
        re.findall(r"<p><code>ibi (archive [^<]*)</code></p>", page)[-1].replace("ACCESS", "closed").split()
    )
    assert command_parser(*words[:2]).parse_args(words).ibi == "IBI"


def test_what_was_confirmed_for_other_items_or_another_act_is_not_done(maria: Librarian) -> None:
    names = [deposited(maria, title) for title in TITLES]
    numbers = {name: number for number, name in rows(maria.look("/-/admin/items").text)}
    first, second, third = (("item", numbers[name]) for name in names)
    maria.page = maria.send("/-/admin/bulk", ("what", "access"), first, second)
    seen = re.findall(r'name="(since\.\d+)" value="([^"]+)"', maria.page.text)
    confirmed = (("confirmed", maria.hidden("confirmed")), ("sure", "yes"), ("access", "closed"), *seen)
    others = [("what", "access"), third, *confirmed], [("what", "access"), first, *confirmed]
    removal = [("what", "remove"), first, second, *confirmed, ("reason", "x")]
    yes = [("what", "access"), first, second, ("confirmed", "yes"), *confirmed[1:]]
    again = [("what", "access"), second, first, *confirmed]
    for sent in (*others, [("what", "access"), first, second, third, *confirmed], removal, yes):
        answer = maria.send("/-/admin/bulk", *sent)
        assert answer.status == 422
        assert "not what was confirmed" in answer.text
        assert rows(maria.look("/-/admin/items?access=closed").text) == []
        maria.page = answer  # it asks again, for the items of this form
    answer = maria.send("/-/admin/bulk", *again)
    assert "It was done with 2 items." in answer.text


def test_nothing_chosen_a_strange_act_and_another_role_are_refused(served: AdministeredArchive) -> None:
    maria = served.new_browser("maria")
    maria.look("/-/admin/items")
    assert maria.send("/-/admin/bulk", ("what", "access")).status == 422
    assert maria.send("/-/admin/bulk", ("what", "burn"), ("item", "1")).status == 422
    assert maria.look("/-/admin/bulk").headers["location"] == "/-/admin/items"


def test_an_import_shows_its_columns_and_its_first_records_before_anything_is_kept(
    served: AdministeredArchive,
) -> None:
    root = served.new_browser("root")
    root.look("/-/admin/import")
    rows_of = "".join(f"Title {number},http://far.example/{number}\n" for number in range(12))
    shown = root.send_files("/-/admin/import", ("file", "a.csv", f"title,url\n{rows_of}".encode())).text
    assert "Title 9" in shown
    assert "Title 10" not in shown
    root.look("/-/admin/import")
    refused = root.send_files("/-/admin/import", ("file", "a.csv", b"title,colour,shape\nT,red,round\n"))
    assert refused.status == 422
    assert "not known: colour, shape" in refused.text


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "٣", "-1", "1." + "9" * 30])
def test_a_number_that_no_item_has_is_no_fault(maria: Librarian, number: str) -> None:
    until(lambda: maria.look("/-/admin/items?order=-changed").status == 200)  # the index is ready
    for order in ("", "added", "-changed", "changed", "name"):
        assert maria.look(f"/-/admin/items?order={order}&after={quote(number)}").status == 200
    maria.look("/-/admin/items")
    answer = maria.send("/-/admin/bulk", ("what", "export"), ("item", number))
    assert (answer.status, "no item was chosen" in answer.text.lower()) == (422, True)
