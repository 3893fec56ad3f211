"""Items as JSON lines: what is refused and why, and how long each text may be."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from ibi.archive.model.changes import reply_to
from ibi.archive.model.item import Access
from ibi.archive.model.item_json import check_facts, keyed, read_item, read_line, timestamp_text, usual_facts
from ibi.errors import BadItem, IbiError
from ibi.protocol.extensions.changes import MOST_NAMES, ChangesReply, ChangesRequest
from ibi.protocol.vocabulary import ItemState

NAME = "a.example/b/2010/01.01.00.00"
EMBARGO = "embargo is the day on which an embargoed item opens; no other item has one"
INSTITUTION = "institution is the name of an institution, by language"
URL = "{} is an http or https URL in ASCII, without user, blanks or braces"

ADDRESS = "an address is a host, perhaps with a port: archive.example.org:8080"
LANGUAGE = "a language is two letters, perhaps with a country: pt or pt-BR"


def _reason(value: dict[str, Any]) -> str:
    """Why an item is refused; "" if it is not."""
    try:
        read_item({"rep": NAME, **value})
    except IbiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"other": 1, "another": 2}, "there is no field another"),
        (
            {"url": "http://far.example/", "files": {"a": "a"}},
            "an item lives at a url or has files, not both",
        ),
        ({"target": "b", "files": {"a": "a"}}, "the target b is not among the files"),
        ({"target": "a", "files": {"a": "a"}}, ""),
        ({"access": "embargoed"}, EMBARGO),
        ({"embargo": "2027-01-01"}, EMBARGO),
        ({"access": "embargoed", "embargo": "2027-01-01"}, ""),
        ({"reason": "why"}, "only a removed item has a reason for its removal"),
        ({"reason": "why", "state": "Deleted"}, ""),
        ({"replacement": NAME}, "only a removed item has another one in its place"),
        ({"replacement": NAME, "state": "Deleted"}, ""),
        ({"state": "Deleted", "files": {"a": "a"}}, "a removed item has neither url nor files"),
        ({"state": "Deleted", "url": "http://far.example/"}, "a removed item has neither url nor files"),
        ({"state": "Lost"}, "state is Original, Copy or Deleted"),
        ({"contenttype": "Words"}, "contenttype is Data or Metadata"),
        ({"access": "secret"}, "access is open, embargoed, restricted or closed"),
        ({"transferable": 1}, "transferable is true or false"),
        ({"target": 1}, "target is a text in quotes"),
        ({"files": ["a"]}, "files is an object of texts"),
        ({"files": {"a": 1}}, "files is an object of texts"),
        ({"aliases": "6RPa7umaZ/UaJFT"}, "aliases is a list of older opaque ids"),
        ({"embargo": "2027-1-1", "access": "embargoed"}, "embargo is a day such as 2027-01-31"),
        ({"embargo": "20270101", "access": "embargoed"}, "embargo is a day such as 2027-01-31"),
        ({"url": "ftp://far.example/"}, URL.format("url")),
        ({"url": "http://a@far.example/"}, URL.format("url")),
        ({"licence": "http://far.example/{a}"}, URL.format("licence")),
        ({"institution": {"": " "}}, INSTITUTION),
        ({"institution": {"": "a\nb"}}, INSTITUTION),
        ({"timestamp": "yesterday"}, "timestamp is a moment such as 2009-07-21T13:23:45Z"),
        ({"timestamp": "0001-01-01T00:00:00+14:00"}, "timestamp is a moment such as 2009-07-21T13:23:45Z"),
        ({"key": "a\nb"}, "key is a short printable text"),
        ({"url": "http://far.example:0/"}, f"url: {ADDRESS}"),
        ({"licence": "http://-far.example/"}, f"licence: {ADDRESS}"),
        ({"formats": {"marc 21": "http://far.example/"}},
         "formats: what stands in the brackets is no language and no metadata format"),
        ({"formats": {"marc21": "x"}}, URL.format("formats")),
        ({"language": "portuguese"}, f"language: {LANGUAGE}"),
        ({"translations": {"português": NAME}}, f"translations: {LANGUAGE}"),
        ({"translations": {"": NAME}}, ""),
        ({"translations": {"": "x"}}, "translations: an IBIp is two words with one slash between them"),
        ({"institution": {"english": "x"}}, f"institution: {LANGUAGE}"),
        ({"institution": {"": "x"}}, ""),
        ({"next_edition": f"{NAME} x"},
         "next_edition: the forms of an IBI are written: rep <name>, ibip <label>, or both"),
        ({"next_edition": f"rep {NAME}"}, ""),
        ({"metadata_item": 3}, "metadata_item is a text in quotes"),
        ({"aliases": [1]}, "aliases is a text in quotes"),
        ({"aliases": ["x"]}, "aliases: this is not an opaque id of the time before the standard"),
        ({"metadata": {"title": {"text": "x"}}},
         'a value of title is a text or an object with "value" and "lang"'),
        ({"metadata": {"titles": "x"}}, "titles is not one of the fifteen elements of Dublin Core"),
        ({"metadata": []}, "metadata is an object: an element and its values, such as title"),
    ],
)  # fmt: skip
def test_an_item_is_refused_with_the_reason(value: dict[str, Any], sentence: str) -> None:
    assert _reason(value) == sentence


def _languages(count: int) -> dict[str, str]:
    return {f"a{chr(ord('a') + number)}": "x" for number in range(count)}


@pytest.mark.parametrize(
    ("longest", "longer", "sentence"),
    [
        ({"key": "x" * 512}, {"key": "x" * 513}, "key is a short printable text"),
        ({"rights": "x" * 4000}, {"rights": "x" * 4001}, "rights is longer than 4000 characters"),
        (
            {"url": f"http://a.example/{'x' * 8175}"},
            {"url": f"http://a.example/{'x' * 8176}"},
            URL.format("url"),
        ),
        ({"institution": {"": "x" * 200}}, {"institution": {"": "x" * 201}}, INSTITUTION),
        ({"institution": _languages(20)}, {"institution": _languages(21)}, INSTITUTION),
    ],
)
def test_a_value_may_be_as_long_as_its_limit(
    longest: dict[str, Any], longer: dict[str, Any], sentence: str
) -> None:
    assert (_reason(longest), _reason(longer)) == ("", sentence)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"{", "the line is not JSON"),
        (b"\xff", "the line is not JSON"),
        (b"[" * 100_000, "the line is not JSON"),
        (b"[]", "the line is not a JSON object"),
        (b'{"rights": "a", "rights": "b"}', "a name stands twice in one object"),
        (b'{"metadata": {"title": "\\ud800"}}', "the line has half a character in it"),
        (b'{"metadata": {"title": "\\u00e9"}}', ""),
    ],
    ids=["cut off", "bytes", "deep", "list", "twice", "half", "whole"],
)
def test_a_line_is_refused_with_the_reason(line: bytes, sentence: str) -> None:
    reason = ""
    try:
        read_line(line)
    except BadItem as error:
        reason = str(error)
    assert reason == sentence


def test_a_draft_without_a_name_or_a_key_has_the_digest_of_its_description_as_key() -> None:
    value = {"rights": "é", "language": "en"}
    digest = hashlib.sha256(b'{"language":"en","rights":"\\u00e9"}').hexdigest()
    assert read_line(json.dumps(value).encode()).key == f"sha256:{digest}"
    for named in ({**value, "key": "own"}, {**value, "rep": NAME}):
        draft = read_item(named)
        assert keyed(draft, named) == draft


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("2009-07-21T13:23:45Z", "2009-07-21T13:23:45Z"),
        ("2009-07-21T13:23:45.9-03:00", "2009-07-21T16:23:45Z"),
        ("2009-07-21T13:23", "2009-07-21T13:23:00Z"),
        ("2009-07-21", "2009-07-21T00:00:00Z"),
    ],
)
def test_a_moment_is_read_in_utc_to_the_second(given: str, read: str) -> None:
    assert read_item({"rep": NAME, "timestamp": given}).timestamp == read


def test_a_moment_is_written_without_its_fraction() -> None:
    assert [timestamp_text(seconds) for seconds in (0, 0.9, -0.1)] == [
        "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z",
    ]  # fmt: skip


def test_facts_have_these_usual_values_and_contradict_each_other_only_if_given() -> None:
    usual = usual_facts(["state", "url", "formats", "access", "metadata", "transferable"])
    assert usual == {
        "state": ItemState.ORIGINAL, "url": "", "formats": {}, "access": Access.OPEN, "metadata": None,
        "transferable": True,
    }  # fmt: skip
    check_facts({}, ())


# The reply about changes


@pytest.mark.parametrize(
    ("entries", "to", "names", "more"),
    [
        ([], "1.a", (), True),
        ([("2.b", ("x", "y")), ("3.c", ("y", "z"))], "3.c", ("x", "y", "z"), False),
        ([("2.b", ("x",))], "2.b", ("x",), True),
        ([("2.b", tuple(map(str, range(MOST_NAMES)))), ("3.c", ("1",))], "3.c",
         tuple(map(str, range(MOST_NAMES))), False),
        ([("2.b", tuple(map(str, range(MOST_NAMES)))), ("3.c", ("x",))], "2.b",
         tuple(map(str, range(MOST_NAMES))), True),
    ],
)  # fmt: skip
def test_a_reply_has_whole_changes_and_as_many_as_fit(
    entries: list[Any], to: str, names: tuple[str, ...], *, more: bool
) -> None:
    request = ChangesRequest("word", "1.a")
    assert reply_to(request, "3.c", True, entries) == ChangesReply("word", to, names, more=more)


@pytest.mark.parametrize(
    ("known", "entries"),
    [(False, []), (True, [("2.b", None)]), (True, [("2.b", tuple(map(str, range(MOST_NAMES + 1))))])],
)
def test_anything_may_be_different_where_the_log_cannot_tell(known: bool, entries: list[Any]) -> None:
    anything = ChangesReply("word", "3.c", None)
    assert reply_to(ChangesRequest("word", "1.a"), "3.c", known, entries) == anything
