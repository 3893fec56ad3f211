"""What an institution says of itself: kept in one file, judged by one rule for each text."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from ibi.errors import SetupError
from ibi.runtime.settings.institution import (
    FONTS,
    IN_PORTUGUESE,
    LARGEST_PICTURES,
    LONGEST_LINES,
    LONGEST_TEXTS,
    TWICE,
    Institution,
    data_url,
    read_picture,
)

PNG = b"\x89PNG\r\n\x1a\n"
SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>'


def test_without_a_file_all_is_left_to_the_program(tmp_path: Path) -> None:
    assert Institution.of(tmp_path) == Institution()


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = Institution().changed(
        {
            "name": " Instituto ",
            "colour": "0B6B5D",
            "about_pt": "Um\r\n\r\nDois  ",
            "logo": data_url(PNG + b"x"),
        }
    )
    made.write(tmp_path)
    found = Institution.of(tmp_path)
    assert found == made
    assert (found.name, found.colour, found.about_pt) == ("Instituto", "#0b6b5d", "Um\n\nDois")


@pytest.mark.parametrize("name", TWICE)
def test_each_wording_stands_for_the_other_where_that_is_missing(name: str) -> None:
    usual, portuguese, both = (
        Institution().changed(texts)
        for texts in (
            {name: "a"},
            {f"{name}{IN_PORTUGUESE}": "b"},
            {name: "a", f"{name}{IN_PORTUGUESE}": "b"},
        )
    )
    assert [each.text(name, "en") for each in (usual, portuguese, both)] == ["a", "b", "a"]
    assert [each.text(name, "pt-BR") for each in (usual, portuguese, both)] == ["a", "b", "b"]


@pytest.mark.parametrize("name", [each for each in LONGEST_LINES if each != "contact"])
def test_a_line_has_at_most_so_many_characters_and_is_one(name: str) -> None:
    most = LONGEST_LINES[name]
    assert getattr(Institution().changed({name: "x" * most}), name) == "x" * most
    for text in ("x" * (most + 1), "a\nb", "a\x00b"):
        with pytest.raises(SetupError) as caught:
            Institution().changed({name: text})
        assert str(caught.value) == f"{name} is one line of at most {most} characters"


def test_nothing_that_was_accepted_once_becomes_too_long() -> None:
    assert LONGEST_LINES == {"name": 200, "subtitle": 200, "publisher": 200, "contact": 254}
    long = dict.fromkeys(("about", "privacy", "policies"), 20_000)
    texts = {"welcome": 2_000, **long, "postal_address": 500}
    assert texts == LONGEST_TEXTS
    assert LARGEST_PICTURES == {"logo": 65_536, "cover": 262_144}


@pytest.mark.parametrize("name", LONGEST_TEXTS)
def test_a_text_has_at_most_so_many_characters(name: str) -> None:
    most = LONGEST_TEXTS[name]
    assert getattr(Institution().changed({name: "x\n" * (most // 2 - 1) + "xx"}), name)
    for text in ("x" * (most + 1), "a\x1bb"):
        with pytest.raises(SetupError) as caught:
            Institution().changed({name: text})
        assert str(caught.value) == f"{name} is a text of at most {most} characters"


def test_a_second_wording_is_as_long_as_the_first_at_most() -> None:
    for name in TWICE:
        lengths = LONGEST_LINES if name in LONGEST_LINES else LONGEST_TEXTS
        kind = "one line" if name in LONGEST_LINES else "a text"
        second = f"{name}_pt"
        assert getattr(Institution().changed({second: "é" * lengths[name]}), second) == "é" * lengths[name]
        with pytest.raises(SetupError) as caught:
            Institution().changed({second: "é" * (lengths[name] + 1)})
        assert str(caught.value) == f"{second} is {kind} of at most {lengths[name]} characters"


def test_a_contact_is_one_line() -> None:
    address = f"https://{'x' * 246}"
    assert Institution().changed({"contact": address}).contact == address
    for text in (f"{address}x", "https://a.example\nb"):
        with pytest.raises(SetupError) as caught:
            Institution().changed({"contact": text})
        assert str(caught.value) == "contact is one line of at most 254 characters"


@pytest.mark.parametrize("text", ["", "a@b.example", "https://b.example/contact", "http://b.example"])
def test_a_contact_is_a_mail_address_or_a_page(text: str) -> None:
    assert Institution().changed({"contact": text}).contact == text


@pytest.mark.parametrize("text", ["the library", "javascript:alert(1)", "a@b@c", "ftp://b.example"])
def test_anything_else_is_no_contact(text: str) -> None:
    with pytest.raises(SetupError) as caught:
        Institution().changed({"contact": text})
    assert str(caught.value) == "contact is a mail address or the URL of a page"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF0000WEBP", "image/webp"),
        (SVG, "image/svg+xml"),
        (b"<svg:svg >", "image/svg+xml"),
    ],
)
def test_the_kind_of_a_picture_is_seen_from_its_bytes(content: bytes, kind: str) -> None:
    found = read_picture("cover", data_url(content))
    assert found == (kind, content)


def test_the_element_of_a_drawing_is_looked_for_at_its_beginning() -> None:
    drawing = b"<svg>".rjust(4096)
    assert read_picture("logo", data_url(drawing)) == ("image/svg+xml", drawing)
    with pytest.raises(SetupError, match="logo is a picture of one of these kinds"):
        read_picture("logo", data_url(b" " + drawing))


def test_no_picture_is_none() -> None:
    assert data_url(b"") == ""
    assert read_picture("logo", "") is None


@pytest.mark.parametrize("name", LARGEST_PICTURES)
def test_a_picture_has_at_most_so_many_bytes(name: str) -> None:
    most = LARGEST_PICTURES[name]
    found = read_picture(name, data_url(PNG.ljust(most, b"x")))
    assert found is not None
    assert len(found.content) == most
    with pytest.raises(SetupError) as caught:
        read_picture(name, data_url(PNG.ljust(most + 1, b"x")))
    assert str(caught.value) == f"{name} is larger than {most} bytes"


@pytest.mark.parametrize(
    "text",
    [
        "logo.png",
        "data:text/html;base64,PHN2Zz4=",
        "data:image/png;base64,!!!!",
        "data:image/png;base64,abc",
        f"data:image/png;base64,{b64encode(SVG).decode()}",
        f"data:image/svg+xml;base64,{b64encode(b'<html>').decode()}",
        data_url(b"\xff\xd8\xff"),
    ],
)
def test_what_is_no_picture_of_a_known_kind_is_refused(text: str) -> None:
    with pytest.raises(SetupError) as caught:
        Institution().changed({"logo": text})
    assert str(caught.value) == "logo is a picture of one of these kinds: SVG, PNG"
    with pytest.raises(SetupError) as caught:
        read_picture("cover", "data:image/gif;base64,")
    assert str(caught.value) == "cover is a picture of one of these kinds: SVG, PNG, JPEG, WEBP"


def test_a_file_with_a_bad_colour_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / Institution.FILE).write_text("colour = 'green'\n")
    with pytest.raises(SetupError) as caught:
        Institution.of(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / Institution.FILE}: a colour is #")


def test_the_publisher_is_the_name_unless_there_is_another() -> None:
    assert Institution().as_publisher == ""
    assert Institution(name_pt="Instituto").as_publisher == "Instituto"
    assert Institution(name="Institute", publisher="Press").as_publisher == "Press"


def test_items_bear_the_publisher_or_the_name_in_both_languages_elsewhere() -> None:
    for made, names in (
        (Institution(), {}),
        (Institution(name="Institute"), {"": "Institute"}),
        (Institution(name_pt="Instituto"), {"": "Instituto"}),
        (Institution(name="Institute", name_pt="Instituto"), {"": "Institute", "pt": "Instituto"}),
        (Institution(name="Institute", name_pt="Instituto", publisher="Press"), {"": "Press"}),
        (Institution(publisher="Press"), {"": "Press"}),
    ):
        assert made.names == names


def test_a_text_is_kept_without_what_typing_and_forms_leave_in_it() -> None:
    typed = " \n One \r\nTwo\t\rThree\n\n Four \n "
    assert Institution().changed({"about": typed}).about == "One\nTwo\nThree\n\n Four"


@pytest.mark.parametrize(
    ("text", "colour"),
    [
        ("", ""), ("#0B6b5D", "#0b6b5d"), (" 0b6b5d ", "#0b6b5d"), ("#0B5", "#00bb55"), ("abc", "#aabbcc"),
        ("#0b6b5", None), ("#0b6b5dd", None), ("#0b6b5g", None), ("##0b6b5d", None), ("green" * 17, None),
    ],
)  # fmt: skip
def test_a_colour_is_six_digits_or_three_that_stand_for_two_each(text: str, colour: str | None) -> None:
    if colour is not None:
        assert Institution().changed({"colour": text}).colour == colour
        return
    with pytest.raises(SetupError) as caught:
        Institution().changed({"colour": text})
    assert str(caught.value) == (
        f"a colour is # and six hexadecimal digits, such as #0b6b5d, and this is not: {text[:80]}"
    )


def test_a_font_is_one_of_ours_and_the_first_without_a_choice() -> None:
    assert Institution().font == FONTS[0]
    assert [Institution().changed({"font": each}).font for each in FONTS] == list(FONTS)
    with pytest.raises(SetupError) as caught:
        Institution().changed({"font": "comic"})
    assert str(caught.value) == f"font is one of: {', '.join(FONTS)}"
