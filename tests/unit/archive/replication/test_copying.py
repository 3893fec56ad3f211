"""A copy as it is found and stored: what is asked for, what is known of it then, and what stays of the one before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.replication.copying import Copier, FoundOriginal, check_copy
from ibi.archive.replication.fetching import NotModified, OriginalLocation
from ibi.archive.store.tables import copies, history
from ibi.archive.store.tables.copies import CopySource
from ibi.errors import AlreadyHeld, HoldingError, IbiError, PeerGarbled
from ibi.identifier.forms import IBIForms, Name, parse_ibi
from ibi.identifier.legacy import LegacyId
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import WHEN, NewArchive
from support.network.scripted_downloads import DownloadRequest, Page, ScriptedDownloads

NAME = parse_ibi("a.example/b/2010/01.01.00.00")
ROOT = "http://far.example"
PAGE, ABOUT = f"{ROOT}/-/api/items/{NAME}", f"{ROOT}/-/about"
SERVICE = "far.example/w/2020/01.01.00.00"
THEN = "2014-01-02T17:23:57Z"
CONTENTS = {"a.txt": b"aaa", "b.txt": b"bbbb"}
LARGEST = 1000


def manifest(contents: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        name: {"size": len(content), "sha256": sha256(content).hexdigest()}
        for name, content in contents.items()
    }


DESCRIPTION: dict[str, Any] = {
    "rep": str(NAME), "state": "Original", "timestamp": THEN, "files": manifest(CONTENTS), "target": "a.txt",
}  # fmt: skip
ABOUT_PAGE: Page = (200, {}, json.dumps({"service_ibi": SERVICE}).encode())


def pages(description: Mapping[str, Any] = DESCRIPTION, about: Page = ABOUT_PAGE) -> dict[str, Page]:
    return {PAGE: (200, {"etag": '"1"'}, json.dumps(description).encode()), ABOUT: about}


def stored(name: str, content: bytes) -> StoredFile:
    return StoredFile(name, len(content), sha256(content).hexdigest(), "text/plain")


def at(archive: NewArchive, downloads: Any, tag: str = "", *, private: bool = False) -> FoundOriginal | None:
    copier = Copier(archive.item_store, "", LARGEST)
    return asyncio.run(copier.find_at(downloads, ROOT, NAME, tag, private=private))


@pytest.mark.parametrize("private", [False, True])
def test_an_original_is_found_with_the_service_of_its_archive(archive: NewArchive, private: bool) -> None:
    downloads = ScriptedDownloads(pages())
    found = at(archive, downloads, '"0"', private=private)
    assert found is not None
    files = tuple(stored(*each) for each in CONTENTS.items())
    assert found.holding == Holding(
        forms=IBIForms.of(NAME), state=ItemState.COPY, timestamp=THEN, files=files, target="a.txt"
    )
    assert found.source == CopySource(
        archive=ROOT, service=SERVICE, original=THEN, tag='"1"', checked=WHEN, private=private
    )
    assert [found.url_of(file) for file in files] == [f"{ROOT}/col/{NAME}/doc/{name}" for name in CONTENTS]
    assert found.staged == ()
    assert downloads.requests == [
        DownloadRequest(PAGE, 16 << 20, 30.0, {"If-None-Match": '"0"'}, follow=True),
        DownloadRequest(ABOUT, 1 << 20, 30.0),
    ]


@pytest.mark.parametrize(
    "about",
    [(404, {}, ABOUT_PAGE[2]), (200, {}, b"<html>"), (200, {}, b"{}"), (200, {}, b"[]"),
     (200, {}, b'{"service_ibi": "x"}'), (200, {}, b"[" * 100_000)],
)  # fmt: skip
def test_an_archive_that_does_not_tell_its_service_has_none(archive: NewArchive, about: Page) -> None:
    found = at(archive, ScriptedDownloads(pages(about=about)))
    assert found is not None
    assert found.source.service == ""


CLOSED = f"{ROOT} does not give {NAME} to others"
WITHOUT = {name: each for name, each in DESCRIPTION.items() if name not in {"files", "target"}}


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        (DESCRIPTION | {"state": "Copy"}, f"{ROOT} holds only a copy of {NAME}"),
        (DESCRIPTION | {"access": "closed"}, CLOSED),
        (DESCRIPTION | {"access": "embargoed", "embargo": "2023-11-15"}, CLOSED),
        (DESCRIPTION | {"access": "embargoed", "embargo": "2023-11-14"}, ""),
        (WITHOUT | {"file_list_public": False}, CLOSED),
        (WITHOUT | {"file_list_public": False, "url": "http://x.example/"}, ""),
        (DESCRIPTION | {"file_list_public": False}, ""),
        (WITHOUT, ""),
        (DESCRIPTION | {"files": manifest({"a.txt": bytes(LARGEST + 1)})},
         f"the file a.txt has {LARGEST + 1} bytes; this Archive takes at most {LARGEST}"),
    ],
    ids=["copy", "closed", "embargoed", "embargoed until today", "nothing to be seen", "url", "closed list", "empty",
         "too large"],
)  # fmt: skip
def test_only_an_original_that_is_open_is_copied(
    archive: NewArchive, description: dict[str, Any], sentence: str
) -> None:
    reason = ""
    try:
        assert at(archive, ScriptedDownloads(pages(description)))
    except HoldingError as error:
        reason = str(error)
    assert reason == sentence


# One file, of which no Archive says anything

URL = "http://files.example/x/report.pdf"


def one_file(
    archive: NewArchive,
    page: Page,
    *,
    answer: Mapping[str, Any] | None = None,
    url: str = URL,
    tag: str = "",
    name: Name = NAME,
    private: bool = False,
) -> tuple[FoundOriginal, list[DownloadRequest]]:
    downloads = ScriptedDownloads({url: page})
    given: Any = downloads
    location = OriginalLocation(url, (), UrlList(dict(answer or {})))
    copier = Copier(archive.item_store, "", LARGEST)
    return asyncio.run(copier.find_file(given, location, name, tag, private=private)), downloads.requests


def test_of_a_file_is_known_what_its_archive_told_the_resolver(archive: NewArchive) -> None:
    answer = {
        "ibi": ("rep", str(NAME), "ibip", "LK47B6W/362SFKH"), "contenttype": "Metadata", "timestamp": THEN,
        "ibi.archiveservice": ("rep", SERVICE), "url": URL,
    }  # fmt: skip
    page = (200, {"etag": '"1"', "last-modified": "Tue, 03 Feb 2015 10:00:00 GMT"}, b"aaa")
    found, requests = one_file(archive, page, answer=answer, tag='"0"', private=True)
    (file,) = found.holding.files
    assert (file.name, file.size, file.sha256) == ("report.pdf", 3, sha256(b"aaa").hexdigest())
    assert found.holding == Holding(
        forms=IBIForms.parse(f"rep {NAME} ibip LK47B6W/362SFKH"), state=ItemState.COPY,
        content_type=ContentType.METADATA, timestamp=THEN, files=(file,), target="report.pdf",
    )  # fmt: skip
    assert found.source == CopySource(
        archive="",
        service=SERVICE,
        url=URL,
        original=THEN,
        tag='"1"',
        compared=False,
        checked=WHEN,
        private=True,
    )
    assert (found.staged, found.url_of(file)) == ((file,), URL)
    assert requests == [DownloadRequest(URL, LARGEST, 86_400, {"If-None-Match": '"0"'}, follow=True)]


@pytest.mark.parametrize(
    ("headers", "moment"),
    [
        ({"last-modified": "Tue, 03 Feb 2015 10:00:00 GMT"}, "2015-02-03T10:00:00Z"),
        ({"last-modified": "Tue, 03 Feb 2015 10:00:00"}, "2015-02-03T10:00:00Z"),
        ({"last-modified": "Tue, 03 Feb 2015 10:00:00 -0300"}, "2015-02-03T13:00:00Z"),
        ({"last-modified": "yesterday"}, WHEN),
        ({}, WHEN),
    ],
)
def test_of_a_file_without_an_answer_is_known_when_it_changed(
    archive: NewArchive, headers: dict[str, str], moment: str
) -> None:
    found, requests = one_file(
        archive, (200, headers, b"aaa"), answer={"ibi": ("rep", "other.example/b/2010/01.01.00.00")}
    )
    assert (found.holding.timestamp, found.source.original) == (moment, moment)
    assert (found.holding.forms, found.holding.content_type) == (IBIForms.of(NAME), ContentType.DATA)
    assert (found.source.service, found.source.tag, found.source.private) == ("", "", False)
    assert requests[0].headers == {}


@pytest.mark.parametrize(
    ("url", "name"),
    [(URL, "report.pdf"), ("http://x.example/", "index.html"), ("http://x.example/a/..", "index.html"),
     ("http://x.example/a%2Fb?c", "a%2Fb"), ("http://x.example/%00", "index.html")],
)  # fmt: skip
def test_a_file_is_called_as_in_its_url(archive: NewArchive, url: str, name: str) -> None:
    found, _ = one_file(archive, (200, {}, b"aaa"), url=url)
    assert found.holding.target == name


@pytest.mark.parametrize(
    ("page", "name", "error", "sentence"),
    [
        ((304, {}, b""), NAME, NotModified, ""),
        ((404, {}, b""), NAME, PeerGarbled, f"the file {URL} was not given: the answer was 404"),
        ((200, {}, b""), LegacyId.parse("6RPa7umaZ/UaJFT"), HoldingError,
         "nothing describes 6RPa7umaZ/UaJFT, and it is no IBI: it cannot be copied"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_copied_says_why(
    archive: NewArchive, page: Page, name: Name, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error) as raised:
        one_file(archive, page, name=name)
    assert str(raised.value) == sentence


# Storing it


def save(
    archive: NewArchive, contents: Mapping[str, bytes], **facts: Any
) -> tuple[Holding, list[str], list[str]]:
    """Store an original of these contents: the copy, which files were fetched, and its events."""
    files = tuple(stored(*each) for each in contents.items())
    holding = Holding(forms=IBIForms.of(NAME), state=ItemState.COPY, timestamp=THEN, files=files, **facts)
    source = CopySource(archive=ROOT, checked=WHEN)
    found = FoundOriginal(holding, source, lambda file: f"{ROOT}/{file.name}")
    downloads = ScriptedDownloads(
        {f"{ROOT}/{name}": (200, {}, content) for name, content in contents.items()}
    )
    given: Any = downloads
    progress = list[tuple[int, int]]()
    copier = Copier(archive.item_store, "", LARGEST, progress=lambda *each: progress.append(each))
    saved = asyncio.run(copier.save(given, NAME, found, "otto"))
    held = archive.catalogue.holding(NAME)
    assert held == replace(saved, files=tuple(replace(file, staged="") for file in saved.files))
    with archive.catalogue.reading() as run:
        assert copies.source_of(run, held.number) == source
        events = [
            f"{each.what} {each.who} {each.detail['source']}" for each in history.events_of(run, held.number)
        ]
    requested = [each.url.removeprefix(f"{ROOT}/") for each in downloads.requests]
    assert progress[-1:] == ([(sum(len(contents[each]) for each in requested),) * 2] if requested else [])
    assert list((archive.data / "staging").iterdir()) == []
    return held, requested, events


COPIED, REFRESHED = (f"{what} otto {ROOT}" for what in ("copied", "refreshed"))


def test_only_what_has_changed_is_fetched_again(archive: NewArchive) -> None:
    held, requested, events = save(archive, CONTENTS, language="pt")
    assert (held.language, requested, events) == ("pt", ["a.txt", "b.txt"], [COPIED])
    again, requested, events = save(archive, CONTENTS, language="pt")
    assert (again, requested, events) == (held, [], [COPIED])
    newer, requested, events = save(
        archive, {"a.txt": b"aaa", "b.txt": b"BBBB", "c.txt": b"c"}, language="en"
    )
    assert (newer.language, requested, events) == ("en", ["b.txt", "c.txt"], [COPIED, REFRESHED])
    assert (newer.number, [file.name for file in newer.files]) == (held.number, ["a.txt", "b.txt", "c.txt"])
    fewer, requested, events = save(archive, {"c.txt": b"c"}, language="en")
    assert ([file.name for file in fewer.files], requested, len(events)) == (["c.txt"], [], 3)
    named, _, events = save(archive, {"c.txt": b"c"}, language="en", institution={"": "A university"})
    assert (named.institution, len(events)) == ({"": "A university"}, 4)


def test_of_one_file_only_the_file_and_its_moment_are_new(archive: NewArchive) -> None:
    held, _, _ = save(archive, {"report.pdf": b"aaa"}, language="pt", target="report.pdf")
    for content, moment, many in ((b"aaa", held.timestamp, 1), (b"bbb", WHEN, 2)):
        found, _ = one_file(archive, (200, {}, content))
        downloads: Any = ScriptedDownloads({})
        copier = Copier(archive.item_store, "", LARGEST)
        copy = asyncio.run(copier.save(downloads, NAME, found, "otto"))
        assert (copy.language, copy.timestamp, copy.target) == ("pt", moment, "report.pdf")
        assert [file.sha256 for file in copy.files] == [sha256(content).hexdigest()]
        with archive.catalogue.reading() as run:
            assert len(history.events_of(run, copy.number)) == many
            assert copies.source_of(run, copy.number) == found.source
        assert list((archive.data / "staging").iterdir()) == []


@pytest.mark.parametrize(
    ("facts", "error", "sentence"),
    [
        ({}, AlreadyHeld, f"{NAME} is held here as the Original, and no copy can be kept beside it"),
        ({"state": ItemState.DELETED}, HoldingError, f"{NAME} was removed on {THEN}"),
        ({"state": ItemState.COPY}, None, ""),
        (None, None, ""),
    ],
)
def test_a_copy_stands_beside_no_original(
    facts: dict[str, Any] | None, error: type[IbiError] | None, sentence: str
) -> None:
    here = None if facts is None else Holding(forms=IBIForms.of(NAME), timestamp=THEN, **facts)
    raised: IbiError | None = None
    try:
        check_copy(here)
    except IbiError as problem:
        raised = problem
    assert (type(raised) if raised else None, str(raised or "")) == (error, sentence)


def test_a_copier_without_a_resolver_is_told_where_to_copy_from(archive: NewArchive) -> None:
    downloads: Any = ScriptedDownloads({})
    copier = Copier(archive.item_store, "", LARGEST)
    with pytest.raises(HoldingError) as raised:
        asyncio.run(copier.find(downloads, NAME, private=False))
    assert str(raised.value) == "this Archive has joined no resolver: say which Archive to copy from"
