"""What is fetched from another Archive: each request with all its limits, and what each reply comes to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import Any

import pytest

from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.replication.fetching import (
    NotModified,
    OriginalLocation,
    check_acceptable,
    etag_of,
    fetch_description,
    fetch_files,
    find_original,
    read_description,
    stage_file,
)
from ibi.errors import HoldingError, IbiError, PeerGarbled, PeerSilent
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import NewArchive
from support.network.scripted_downloads import DownloadRequest, ScriptedDownloads

NAME = parse_ibi("a.example/b/2010/01.01.00.00")
ROOT = "http://far.example"
PAGE = f"{ROOT}/-/api/items/{NAME}"
WHEN = "2014-01-02T17:23:57Z"
CONTENTS = {"a.txt": b"aaa", "b%20c.txt": bytes(200_000)}
MANIFEST = {
    name: {"size": len(content), "sha256": sha256(content).hexdigest(), "type": "text/html"}
    for name, content in CONTENTS.items()
}
DESCRIPTION = {
    "rep": str(NAME), "state": "Original", "timestamp": WHEN, "language": "pt", "key": "own", "reason": "",
    "files": MANIFEST, "target": "a.txt", "more": 1,
}  # fmt: skip
FILES = tuple(
    StoredFile(name, len(content), sha256(content).hexdigest(), "text/plain")
    for name, content in CONTENTS.items()
)
ORIGINAL = Holding(forms=IBIForms.of(NAME), timestamp=WHEN, language="pt", files=FILES, target="a.txt")


def fetched(downloads: Any, tag: str = "") -> tuple[Holding, str] | None:
    return asyncio.run(fetch_description(downloads, ROOT, NAME, tag))


@pytest.mark.parametrize(("tag", "headers"), [("", {}), ('"1"', {"If-None-Match": '"1"'})])
def test_a_description_is_fetched_with_its_tag(tag: str, headers: dict[str, str]) -> None:
    downloads = ScriptedDownloads({PAGE: (200, {"etag": '"2"'}, json.dumps(DESCRIPTION).encode())})
    assert fetched(downloads, tag) == (ORIGINAL, '"2"')
    assert downloads.requests == [DownloadRequest(PAGE, 16 << 20, 30.0, headers, follow=True)]


SILENT = ROOT + " cannot answer now: {}"


@pytest.mark.parametrize(
    ("status", "body", "error", "sentence"),
    [
        (304, b"", NotModified, ""),
        (410, b"", HoldingError, f"{ROOT} has removed {NAME}"),
        *((status, b"", PeerSilent, SILENT.format(status)) for status in (408, 425, 429, 500, 503, 599)),
        (200, b"<html>", PeerGarbled, "the answer is not JSON"),
        (200, b"[" * 100_000, PeerGarbled, "the answer is not JSON"),
    ],
)
def test_a_reply_that_is_no_description_says_why(
    status: int, body: bytes, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error) as raised:
        fetched(ScriptedDownloads({PAGE: (status, {}, body)}))
    assert str(raised.value) == sentence


@pytest.mark.parametrize("status", [302, 403, 404, 499])
def test_other_software_describes_nothing(status: int) -> None:
    assert fetched(ScriptedDownloads({PAGE: (status, {}, b"x")})) is None


@pytest.mark.parametrize(
    ("headers", "tag"),
    [
        ({}, ""), ({"etag": 'W/"1"'}, 'W/"1"'), ({"etag": "x" * 200}, "x" * 200), ({"etag": "x" * 201}, ""),
        ({"etag": '"é"'}, ""), ({"etag": '"\t"'}, ""),
    ],
)  # fmt: skip
def test_a_tag_is_kept_if_it_can_be_sent_back(headers: dict[str, str], tag: str) -> None:
    assert etag_of(headers) == tag


def file_of(**facts: object) -> dict[str, Any]:
    return {"files": {"a.txt": MANIFEST["a.txt"] | facts}}


NO_FILE = "the file a.txt has no size and SHA-256"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (file_of(size=-1), NO_FILE), (file_of(size=True), NO_FILE), (file_of(size="3"), NO_FILE),
        (file_of(sha256="a" * 63), NO_FILE), (file_of(sha256=5), NO_FILE), ({"files": {"a.txt": 1}}, NO_FILE),
        ({"files": []}, "its files are no list of files"),
        ({"files": dict.fromkeys(map(str, range(100_000)))}, "the file 0 has no size and SHA-256"),
        ({"files": dict.fromkeys(map(str, range(100_001)))}, "its files are no list of files"),
        ({"timestamp": ...}, "it lacks a name or a timestamp"),
        ({"rep": ...}, "it lacks a name or a timestamp"),
        ({"rep": "a.example/b/2011/01.01.00.00"}, "a.example/b/2011/01.01.00.00"),
        ({"language": "x"}, "language: a language is two letters, perhaps with a country: pt or pt-BR"),
        ({"files": {"../a": MANIFEST["a.txt"]}}, "the file name ../a has an empty, relative or overlong part"),
    ],
)  # fmt: skip
def test_a_description_that_is_none_says_why(changes: dict[str, Any], reason: str) -> None:
    value = {name: each for name, each in (DESCRIPTION | changes).items() if each is not ...}
    with pytest.raises(PeerGarbled) as raised:
        read_description(value, NAME)
    assert str(raised.value) == f"this is no description of {NAME}: {reason}"


def test_an_empty_file_and_one_of_a_closed_list_are_described() -> None:
    assert read_description(DESCRIPTION | file_of(size=0), NAME).files[0].size == 0
    without = {name: each for name, each in DESCRIPTION.items() if name not in {"files", "target"}}
    assert read_description(without, NAME).files == ()
    assert read_description(without, NAME).key == ""


# Files


def url_of(file: StoredFile) -> str:
    return f"{ROOT}/{file.name}"


def fetch(
    archive: NewArchive, downloads: Any, headers: Mapping[str, str] | None = None
) -> tuple[list[StoredFile], list[tuple[int, int]]]:
    """The staged files, and what was told of the progress."""
    reports = list[tuple[int, int]]()
    store, given = archive.file_store, {"headers": headers} if headers else {}
    work = fetch_files(downloads, store, FILES, url_of, progress=lambda *each: reports.append(each), **given)
    return asyncio.run(work), reports


def staged_in(archive: NewArchive) -> list[bytes]:
    return sorted((path.read_bytes() for path in (archive.data / "staging").iterdir()), key=len)


def test_each_file_may_take_a_minute_and_the_seconds_of_its_size(archive: NewArchive) -> None:
    downloads = ScriptedDownloads({url_of(file): (200, {}, CONTENTS[file.name]) for file in FILES})
    staged, reports = fetch(archive, downloads, {"ibi-passage": "x"})
    assert [(file.name, file.size, file.sha256) for file in staged] == [
        (file.name, file.size, file.sha256) for file in FILES
    ]
    assert downloads.requests == [
        DownloadRequest(url_of(FILES[0]), 3, 60 + 3 / 65_536, {"ibi-passage": "x"}, follow=True),
        DownloadRequest(url_of(FILES[1]), 200_000, 60 + 200_000 / 65_536, {"ibi-passage": "x"}, follow=True),
    ]
    assert reports == [(3, 200_003), (100_003, 200_003), (200_003, 200_003)]
    assert staged_in(archive) == list(CONTENTS.values())


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ((404, {}, b""), "the file b%20c.txt was not given: the answer was 404"),
        ((200, {}, bytes(199_999)), "the file b%20c.txt did not come as it was described"),
        ((200, {}, b"x" + bytes(199_999)), "the file b%20c.txt did not come as it was described"),
    ],
    ids=["not given", "shorter", "other bytes"],
)
def test_one_file_that_does_not_come_leaves_none(
    archive: NewArchive, second: tuple[int, dict[str, str], bytes], sentence: str
) -> None:
    downloads = ScriptedDownloads({url_of(FILES[0]): (200, {}, b"aaa"), url_of(FILES[1]): second})
    with pytest.raises(PeerGarbled) as raised:
        fetch(archive, downloads)
    assert str(raised.value) == sentence
    assert staged_in(archive) == []


def test_a_file_that_ends_with_an_error_leaves_nothing(archive: NewArchive) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"aaa"
        raise PeerSilent("it fell silent")

    with pytest.raises(PeerSilent):
        asyncio.run(stage_file(archive.file_store, "a.txt", chunks()))
    assert staged_in(archive) == []


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"files": (StoredFile("a", 10, "", ""), StoredFile("b", 9, "", ""))}, ""),
        ({"files": (StoredFile("a", 1, "", ""), StoredFile("b", 11, "", ""))},
         "the file b has 11 bytes; this Archive takes at most 10"),
        ({"state": ItemState.DELETED}, f"{NAME} was removed on {WHEN}"),
    ],
)  # fmt: skip
def test_an_item_is_accepted_if_each_file_is_small_enough(facts: dict[str, Any], sentence: str) -> None:
    reason = ""
    try:
        check_acceptable(Holding(forms=IBIForms.of(NAME), timestamp=WHEN, **facts), 10)
    except IbiError as error:
        reason = str(error)
    assert reason == sentence


# Where the resolver leads

RESOLVER = "http://resolver.example"
PERSISTENT = f"{RESOLVER}/{NAME}?ibiurl.requireditemstatus=Original"
EXPLAINED = f"{RESOLVER}/-/explain/{NAME}?ibiurl.requireditemstatus=Original"
TARGET = "http://files.example/col/x/doc/a.txt"


def explanation(pairs: dict[str, Any]) -> bytes:
    def statement(archive: str, pairs: dict[str, Any]) -> dict[str, Any]:
        return {"archive": archive, "pairs": pairs}

    rounds = [{"statements": [statement("far", {"url": "early"})]},
              {"statements": [statement("other", {}), statement("far", pairs)]}]  # fmt: skip
    return json.dumps({"outcome": {"archive": "far"}, "rounds": rounds}).encode()


def found(explained: tuple[int, dict[str, str], bytes], location: str = TARGET) -> OriginalLocation:
    downloads: Any = ScriptedDownloads({PERSISTENT: (302, {"location": location}, b""), EXPLAINED: explained})
    place = asyncio.run(find_original(downloads, f"{RESOLVER}/", NAME))
    assert downloads.requests == [
        DownloadRequest(PERSISTENT, 1 << 20, 20.0, {}),
        DownloadRequest(EXPLAINED, 1 << 20, 20.0, {"Accept": "application/json"}),
    ]
    return place


def test_the_address_in_the_answer_of_an_archive_is_the_likelier_one() -> None:
    pairs = {"archiveaddress": "far.example:8080", "timestamp": WHEN, "ibi": ["rep", str(NAME)]}
    place = found((200, {}, explanation(pairs)))
    roots = ("http://far.example:8080", "http://files.example")
    reports = UrlList({"archiveaddress": "far.example:8080", "timestamp": WHEN, "ibi": ("rep", str(NAME))})
    assert place == OriginalLocation(TARGET, roots, reports)
    assert place.timestamp == WHEN


def test_one_root_is_named_once() -> None:
    assert found((200, {}, explanation({"archiveaddress": "files.example"}))).archives == (
        "http://files.example",
    )


@pytest.mark.parametrize(
    "explained",
    [
        (404, {}, explanation({"archiveaddress": "far.example"})), (200, {}, b"<html>"), (200, {}, b"[]"),
        (200, {}, b'{"outcome": {"archive": "far"}, "rounds": []}'), (200, {}, b"[" * 100_000),
        (200, {}, b'{"outcome": {"archive": "none"}, "rounds": [{"statements": []}]}'),
    ],
)  # fmt: skip
def test_without_an_explanation_the_place_is_that_of_the_redirect(
    explained: tuple[int, dict[str, str], bytes],
) -> None:
    place = found(explained)
    assert place == OriginalLocation(TARGET, ("http://files.example",), UrlList({}))
    assert place.timestamp == ""


@pytest.mark.parametrize(
    ("status", "headers"), [(404, {"location": TARGET}), (200, {"location": TARGET}), (302, {})]
)
def test_a_resolver_that_does_not_redirect_knows_no_original(status: int, headers: dict[str, str]) -> None:
    downloads: Any = ScriptedDownloads({PERSISTENT: (status, headers, b"")})
    with pytest.raises(HoldingError) as raised:
        asyncio.run(find_original(downloads, RESOLVER, NAME))
    problem = f"the resolver does not lead to the original of {NAME}; it answered {status}"
    assert str(raised.value) == problem


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_each_redirect_leads_to_the_original(status: int) -> None:
    downloads: Any = ScriptedDownloads(
        {PERSISTENT: (status, {"location": TARGET}, b""), EXPLAINED: (404, {}, b"")}
    )
    assert asyncio.run(find_original(downloads, RESOLVER, NAME)).url == TARGET
