"""An item as an Archive holds it: its files by their names, its Dublin Core, and what may be said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.model.item import (
    ELEMENTS,
    Access,
    Holding,
    MetadataValue,
    StoredFile,
    leaving,
    read_dublin_core,
    shown_name,
    write_oai_dc,
)
from ibi.errors import BadItem, Unsettled
from ibi.identifier.forms import IBIForms
from ibi.identifier.legacy import LegacyId
from ibi.protocol.vocabulary import ItemState

ALIAS = LegacyId.parse("6RPa7umaZ/UaJFT")
FORMS = IBIForms.parse("rep a.example/b/2010/01.01.00.00 ibip 8JMKD3MGP8W/35MME4E")
ITEM = Holding(forms=FORMS, timestamp="2020-01-01T00:00:00Z")
A, B = (StoredFile(name, 1, "", "text/plain") for name in ("a%20b.txt", "c/d.txt"))


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("a%20b.txt", A), ("/a%20b.txt", A), ("a b.txt", A), ("c/d.txt", B), ("/c%2Fd.txt", B), ("//c/d.txt", None),
        ("d.txt", None), ("c/d.txt/", None), ("", None),
    ],
)  # fmt: skip
def test_a_file_is_found_by_the_bytes_of_its_name(path: str, file: StoredFile | None) -> None:
    assert replace(ITEM, files=(A, B)).file(path) == file


def test_the_file_that_stands_for_an_item_is_its_target_or_its_only_one() -> None:
    both = replace(ITEM, files=(A, B))
    assert (ITEM.target_file, both.target_file) == (None, None)
    assert (replace(ITEM, files=(B,)).target_file, replace(both, target="c/d.txt").target_file) == (B, B)
    assert replace(both, target="e.txt").target_file is None


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"a b.txt", "a b.txt"), ("café".encode(), "café"), (b"caf\xe9", "café"), (b"a\nb\x1b[1m", "a?b?[1m"),
        ("a\u00a0b\u2028c\u202ed".encode(), "a b?c?d"),
    ],
)  # fmt: skip
def test_a_name_is_shown_on_one_line_and_controls_nothing(raw: bytes, shown: str) -> None:
    assert shown_name(raw) == shown


def test_an_item_is_found_by_all_its_names() -> None:
    assert replace(ITEM, aliases=(ALIAS,)).names == (FORMS.rep, FORMS.ibip, ALIAS)
    assert replace(ITEM, forms=IBIForms.of(FORMS.main)).names == (FORMS.rep,)


@pytest.mark.parametrize(("day", "access"), [("2026-11-20", Access.EMBARGOED), ("2026-11-21", Access.OPEN)])
def test_an_embargo_ends_with_its_day(day: str, access: Access) -> None:
    item = replace(ITEM, access=Access.EMBARGOED, embargo="2026-11-21")
    assert item.access_on(day) is access
    assert replace(item, access=Access.CLOSED).access_on(day) is Access.CLOSED


def test_an_original_from_a_backup_is_told_with_the_moment_of_the_backup() -> None:
    ITEM.check_settled()
    with pytest.raises(Unsettled) as raised:
        replace(ITEM, unsettled="2026-01-02T00:00:00Z").check_settled()
    assert str(raised.value) == (
        f"{FORMS.main} came back from a backup of 2026-01-02T00:00:00Z, and may have moved or been removed since; "
        "an administrator of this Archive settles it (ibi archive settle)"
    )


def test_only_an_original_without_a_name_of_its_institution_leaves_with_that_of_this_one() -> None:
    ours, named = {"": "ours"}, {"": "theirs"}
    assert leaving(ITEM, ours).institution == ours
    assert leaving(replace(ITEM, institution=named), ours).institution == named
    assert leaving(replace(ITEM, state=ItemState.COPY), ours).institution == {}
    assert leaving(ITEM, {}) is ITEM


# Dublin Core


def test_metadata_are_read_from_texts_lists_and_objects_in_the_order_of_the_elements() -> None:
    value = {
        "rights": [],
        "creator": "Silva",
        "title": ["One", {"value": "Um", "lang": "pt-BR"}, {"value": "Uno", "lang": None}, {"value": ""}],
    }
    found = read_dublin_core(value)
    assert list(found) == ["title", "creator"]
    assert found == {
        "title": (
            MetadataValue("One"), MetadataValue("Um", "pt-BR"), MetadataValue("Uno"), MetadataValue(""),
        ),
        "creator": (MetadataValue("Silva"),),
    }  # fmt: skip
    assert len(ELEMENTS) == 15
    assert read_dublin_core({}) == {}


OF_A_VALUE = 'a value of title is a text or an object with "value" and "lang"'


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "metadata is an object: an element and its values, such as title"),
        ({"title": "a", "b": "c", "a": "d"}, "a is not one of the fifteen elements of Dublin Core"),
        *(
            ({"title": value}, OF_A_VALUE)
            for value in (
                1, None, [["a"]], {}, {"lang": "pt"}, {"value": 1}, {"value": "a", "lang": 1},
                {"value": "a", "lang": ""},
                {"value": "a", "lang": "p"}, {"value": "a", "lang": "pt_BR"}, {"value": "a", "lang": "x" * 9},
                {"value": "a", "other": "b"},
            )
        ),
    ],
)  # fmt: skip
def test_what_are_no_metadata_is_refused_with_the_reason(value: Any, sentence: str) -> None:
    with pytest.raises(BadItem) as raised:
        read_dublin_core(value)
    assert str(raised.value) == sentence


def test_metadata_are_written_unchanged_in_the_order_of_the_elements() -> None:
    metadata = {
        "creator": (MetadataValue("Silva & <Souza>"),),
        "title": (MetadataValue("Um\r\n\tdois", "pt-BR"), MetadataValue("a\x00b\ud800\uffff")),
    }
    assert write_oai_dc(metadata).decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"\n'
        '           xmlns:dc="http://purl.org/dc/elements/1.1/"\n'
        '           xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"\n'
        '           xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/\n'
        '                               http://www.openarchives.org/OAI/2.0/oai_dc.xsd">\n'
        '  <dc:title xml:lang="pt-BR">Um&#13;\n\tdois</dc:title>\n'
        "  <dc:title>a\ufffdb\ufffd\ufffd</dc:title>\n"
        "  <dc:creator>Silva &amp; &lt;Souza&gt;</dc:creator>\n"
        "</oai_dc:dc>\n"
    )
