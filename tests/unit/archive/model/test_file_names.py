"""File names: a name as people write it leads to the one that is listed."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import pytest

from ibi.archive.model.file_names import check_names, file_parts, listed_name, media_type, portable_part
from ibi.archive.model.item_json import read_item
from ibi.errors import BadItem, IbiError

LISTED = ("Relat%C3%B3rio%20final.pdf", "a.txt", "A.txt")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Relatório final.pdf", "Relat%C3%B3rio%20final.pdf"),
        ("Relato\u0301rio final.pdf", "Relat%C3%B3rio%20final.pdf"),  # as macOS writes it
        ("Relat%C3%B3rio%20final.pdf", "Relat%C3%B3rio%20final.pdf"),
        ("a.txt", "a.txt"),
        ("b.txt", "b.txt"),
        ("", ""),
        ("\ud800", "\ud800"),
    ],
)
def test_a_name_as_people_write_it_is_the_one_that_is_listed(given: str, meant: str) -> None:
    assert listed_name(given, LISTED) == meant


@pytest.mark.parametrize("half", ["\ud800", "a\udfff.txt"])
def test_half_a_character_in_json_is_refused_with_a_sentence(half: str) -> None:
    with pytest.raises(IbiError):
        read_item({"rep": "a.example/b/2010/01.01.00.00", "files": {"a.txt": "a.txt"}, "target": half})


@pytest.mark.parametrize(
    "name",
    ["a", "a/b/c.txt", "%41%2F%42", f"{'x' * 255}/a", "a/" * 511 + "aa", "con", "~!$&'()*+,;=:@-._"],
)
def test_a_name_may_have_parts_of_255_bytes_and_1024_characters(name: str) -> None:
    assert b"/".join(file_parts(name)) == unquote_to_bytes(name)


RELATIVE = "the file name {} has an empty, relative or overlong part"
CONTROL = "the file name {} holds a backslash or a control character"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("x" * 256, RELATIVE), ("a/" + "%41" * 256, RELATIVE), ("a//b", RELATIVE), ("a/./b", RELATIVE),
        ("%2e%2e/a", RELATIVE), ("/a", RELATIVE), ("a/", RELATIVE),
        ("a%5Cb", CONTROL), ("a%00", CONTROL), ("%1f", CONTROL), ("%7F", CONTROL),
        ("a b", "the file name {} is not percent-encoded, as it must stand in a URL; write a%20b"),
        ("é/~%!$&'()*+,;=:@",
         "the file name {} is not percent-encoded, as it must stand in a URL; write %C3%A9/~%!$&'()*+,;=:@"),
        ("a\udc80", "the file name {} is not percent-encoded, as it must stand in a URL; write a%3F"),
        ("a?é", "the file name {} is not percent-encoded, as it must stand in a URL; write a%3F%C3%A9"),
        ("a/" * 511 + "aaa",
         "the file name {} is not percent-encoded, as it must stand in a URL; write " + "a/" * 511 + "aa"),
        ("", "the file name {} is not percent-encoded, as it must stand in a URL; write "),
    ],
)  # fmt: skip
def test_a_name_is_refused_with_the_reason(name: str, sentence: str) -> None:
    with pytest.raises(BadItem) as raised:
        file_parts(name)
    assert str(raised.value) == sentence.format(name)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a.txt", "b.txt", "c/a.txt", "a.txt"], ""),
        (["a.txt", "A.TXT"], "the file names a.txt and A.TXT are too much alike"),
        (["stra%C3%9Fe", "STRASSE"], "the file names stra%C3%9Fe and STRASSE are too much alike"),
        (["e%CC%81", "%C3%89"], "the file names e%CC%81 and %C3%89 are too much alike"),
        (["%E9", "%C9"], ""),
        (["a%2Fb", "a/b"], "the file names a%2Fb and a/b are too much alike"),
        (["a/b/c", "A/B"], "A/B is a file and a folder"),
        (["a", "A/b/c"], "a is a file and a folder"),
        (["ab", "a/b"], ""),
    ],
)
def test_names_that_some_disk_takes_for_the_same_are_refused(names: list[str], sentence: str) -> None:
    reason = ""
    try:
        check_names(names)
    except BadItem as error:
        reason = str(error)
    assert reason == sentence


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a.txt", "a.txt"), ("a<b>:c.txt", "a=3Cb=3E=3Ac.txt"), ("a.", "a=2E"), ("a ", "a=20"), (".a b", ".a b"),
        ("a\x01\x9f", "a=01=C2=9F"), ("con", "=63on"), ("CON.txt", "=43ON.txt"), ("lpt1 .x", "=6Cpt1 .x"),
        ("com0", "=63om0"), ("COM¹", "=43OM¹"), ("conin$", "=63onin$"), ("console", "console"), ("com", "com"),
        ("nul.tar.gz", "=6Eul.tar.gz"), ("com10", "com10"), ('a|b\\c?*"', "a=7Cb=5Cc=3F=2A=22"),
    ],
)  # fmt: skip
def test_a_name_is_written_so_that_every_system_takes_it(text: str, written: str) -> None:
    assert portable_part(text, "=") == written


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.geojson", "application/geo+json"), ("a.js", "text/javascript"), ("a.xml", "application/xml"),
        ("a.tar.gz", "application/octet-stream"), ("a", "application/octet-stream"), ("a.PDF", "application/pdf"),
    ],
)  # fmt: skip
def test_the_type_of_a_file_is_that_of_its_ending(name: str, kind: str) -> None:
    assert media_type(name) == kind


def test_a_name_that_several_listed_ones_may_mean_is_left_as_it_is() -> None:
    assert listed_name("e\u0301", ["%C3%A9"]) == "%C3%A9"
    assert listed_name("e\u0301", ["%C3%A9", "e%CC%81"]) == "e%CC%81"  # the very bytes
    assert listed_name("a%20b", ["a%20b", "a b"]) == "a%20b"
    assert listed_name("a b", ["a%20b", "%61%20b"]) == "a b"
