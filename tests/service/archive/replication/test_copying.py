"""Copies of items whose originals other Archives hold, over real sockets."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.replication.copying import Copier
from ibi.archive.store.item_changes import remove
from ibi.errors import AlreadyHeld, ForbiddenAddress, HoldingError, PeerGarbled, PeerSilent
from ibi.identifier.forms import parse_ibi
from ibi.protocol.vocabulary import ARCHIVE_ADDRESS, ItemState
from support.archive.fixtures import IN_A_FOLDER
from support.archive.replication_fixture import FILES, LARGEST, NAME, Archive, Elsewhere, make_archive

pytestmark = pytest.mark.usefixtures("files_place")


@pytest.fixture
def there(tmp_path: Path) -> Archive:
    """The Archive of the original."""
    return make_archive(tmp_path, 1)


@pytest.fixture
def here(tmp_path: Path) -> Archive:
    """The Archive of the copy."""
    return make_archive(tmp_path, 2)


def staged(archive: Archive) -> list[str]:
    return [path.name for path in (archive.data / "staging").iterdir()]


@pytest.mark.proves("ARC-02", "ARC-13")
def test_a_copy_keeps_name_facts_bytes_and_timestamp_of_its_original(there: Archive, here: Archive) -> None:
    facts: dict[str, Any] = {
        "metadata": {"title": ["Olá"]},
        "language": "pt",
        "target": "index.html",
        "licence": "http://l.example/",
    }
    original = there.put(**facts)
    with there.served():
        copy = here.copy(archive=there.root)
    assert copy.state is ItemState.COPY
    assert (copy.forms, copy.timestamp, copy.metadata) == (
        original.forms,
        original.timestamp,
        original.metadata,
    )
    assert (copy.language, copy.target, copy.licence) == ("pt", "index.html", "http://l.example/")
    assert here.content() == FILES
    source = here.source()
    assert (source.archive, source.original, source.since) == (there.root, original.timestamp, "")
    assert source.service == str(there.settings.service.main)
    assert [event.what for event in here.events()] == ["copied"]


@IN_A_FOLDER
def test_a_copy_lies_in_the_folders_of_its_original_so_that_relative_links_go_on_working(
    there: Archive, here: Archive
) -> None:
    """From index.html, four folders and doc up and down again, as in the draft of 2009."""
    other = "c.example/d@81/2009/02.03.04.05"
    there.put(files={"index.html": b'<a href="../../../../../c.example/d@81/2009/02.03.04.05/doc/x.pdf">'})
    there.put(other, {"x.pdf": b"pdf"})
    with there.served():
        for name in (NAME, other):
            here.copy(name, there.root)
    paths = [
        sorted(path.relative_to(archive.data) for path in (archive.data / "col").rglob("*") if path.is_file())
        for archive in (there, here)
    ]
    assert paths[0] == paths[1]
    linked = (here.data / "col" / NAME / "doc" / "../../../../.." / other / "doc/x.pdf").resolve()
    assert linked.read_bytes() == b"pdf"


@pytest.mark.proves("ARC-04")
def test_a_copy_beside_its_original_is_refused(there: Archive, here: Archive) -> None:
    there.put()
    here.put()
    with there.served(), pytest.raises(AlreadyHeld, match="held here as the Original"):
        here.copy(archive=there.root)


@IN_A_FOLDER
def test_a_file_that_is_not_what_was_told_leaves_nothing_behind(there: Archive, here: Archive) -> None:
    there.put()
    (there.data / "col" / NAME / "doc/index.html").write_bytes(b"<p>hullo</p>")
    with there.served(), pytest.raises(PeerGarbled, match=r"index\.html did not come as it was described"):
        here.copy(archive=there.root)
    assert (here.holding(), staged(here)) == (None, [])


def test_items_that_are_not_open_are_not_copied(there: Archive, here: Archive) -> None:
    names = [f"a.example/b/2010/01.01.00.0{number}" for number in range(1, 6)]
    there.put(names[0], access="closed")
    there.put(names[1], access="embargoed", embargo="9999-01-01")
    there.put(names[2], file_list_public=False)
    there.put(names[3])
    with there.item_store() as item_store:
        remove(item_store, parse_ibi(names[3]), "", "maria")
    with there.served():
        for name in names[:3]:
            with pytest.raises(HoldingError, match="does not give"):
                here.copy(name, there.root)
        with pytest.raises(HoldingError, match="has removed"):
            here.copy(names[3], there.root)
        with pytest.raises(PeerGarbled, match="describes no items"):
            here.copy(names[4], there.root)
    assert [here.holding(name) for name in names] == [None] * 5


def test_only_an_original_is_copied(there: Archive, here: Archive, tmp_path: Path) -> None:
    third = make_archive(tmp_path, 3)
    there.put()
    with there.served():
        here.copy(archive=there.root)
    with here.served(), pytest.raises(HoldingError, match="holds only a copy"):
        third.copy(archive=here.root)


def test_a_file_larger_than_this_archive_takes_is_refused(there: Archive, here: Archive) -> None:
    there.put(files={"big": bytes(LARGEST + 1)})
    with there.served(), pytest.raises(HoldingError, match="takes at most"):
        here.copy(archive=there.root)


def test_a_private_address_needs_the_administrators_word(there: Archive, here: Archive) -> None:
    there.put()
    with there.served(), pytest.raises(ForbiddenAddress):
        here.copy(archive=there.root, private=False)


@pytest.mark.proves("RES-12")
def test_the_resolver_leads_to_the_archive_of_the_original(there: Archive, here: Archive) -> None:
    there.put(ibip="8JMKD3MGP8W/35MME4E")
    resolver = Elsewhere()
    with there.served(), resolver.served() as root:
        resolver.leads("8JMKD3MGP8W/35MME4E", f"{there.root}/col/{NAME}/doc/index.html")
        copy = here.copy("8JMKD3MGP8W/35MME4E", resolver=root)
        assert (str(copy.forms.main), here.source().archive) == (NAME, there.root)
        with pytest.raises(HoldingError, match="does not lead to the original"):
            here.copy("a.example/b/2011/01.01.00.00", resolver=root)


@pytest.mark.parametrize("described", [b"no JSON", None])
def test_of_two_places_the_first_one_that_describes_the_item_is_taken(
    there: Archive, here: Archive, described: bytes | None
) -> None:
    """The Archive's address leads to a server that describes the item badly, or not; the link leads to another one."""
    there.put()
    resolver, other = Elsewhere(), Elsewhere()
    if described is not None:
        other.pages[f"/-/api/items/{NAME}"] = (200, {}, described)
    with there.served(), resolver.served() as root, other.served() as other_root:
        resolver.leads(NAME, f"{there.root}/col/{NAME}/doc/index.html")
        pairs = {ARCHIVE_ADDRESS: other_root.removeprefix("http://")}
        statement = {"archive": "an Archive", "pairs": pairs}
        explanation = {"outcome": {"archive": "an Archive"}, "rounds": [{"statements": [statement]}]}
        target = f"/-/explain/{NAME}?ibiurl.requireditemstatus=Original"
        resolver.pages[target] = (200, {}, json.dumps(explanation).encode())
        here.copy(resolver=root)
    assert [path for path, _ in other.requests] == [f"/-/api/items/{NAME}"]
    assert (here.source().archive, here.content()) == (there.root, FILES)


def test_without_a_resolver_one_must_say_where_to_copy_from(here: Archive) -> None:
    with pytest.raises(HoldingError, match="say which Archive"):
        here.copy()


def test_of_a_place_that_describes_nothing_the_one_file_is_taken(here: Archive) -> None:
    far = Elsewhere()
    far.pages["/pub/thesis%20x.pdf"] = (
        200,
        {"etag": '"1"', "last-modified": "Wed, 01 Jan 2020 00:00:00 GMT"},
        b"%PDF",
    )
    with far.served() as root:
        far.leads(NAME, f"{root}/pub/thesis%20x.pdf")
        copy = here.copy(resolver=root)
        assert (copy.timestamp, copy.target) == ("2020-01-01T00:00:00Z", "thesis%20x.pdf")
        assert here.content() == {"thesis%20x.pdf": b"%PDF"}
        assert here.source().compared is False
        assert here.refresh().since == ""
        assert far.requests[-1][1]["if-none-match"] == '"1"'
        far.pages["/pub/thesis%20x.pdf"] = (200, {"etag": '"2"'}, b"%PDF2")
        assert here.refresh().tag == '"2"'
    assert here.content() == {"thesis%20x.pdf": b"%PDF2"}
    assert [event.what for event in here.events()] == ["copied", "refreshed"]


@pytest.mark.parametrize(
    "explanation",
    [
        b"no JSON",
        b"[]",
        b'{"outcome": null}',
        b'{"outcome": {"archive": "one"}, "rounds": []}',
        b'{"outcome": {"archive": "one"}, "rounds": [{"statements": []}]}',
        b'{"outcome": {"archive": "one"}, "rounds": [{"statements": [{"archive": "another"}]}]}',
        b'{"outcome": {"archive": "one"}, "rounds": [{"statements": [{"archive": "one"}]}]}',
        b'{"outcome": {"archive": "one"}, "rounds": [{"statements": [{"archive": "one", "pairs": []}]}]}',
        b"[" * 100_000,
    ],
)
def test_an_explanation_that_tells_nothing_does_not_keep_the_file_from_being_copied(
    here: Archive, explanation: bytes
) -> None:
    far = Elsewhere()
    far.pages["/x"] = (200, {}, b"x")
    far.pages[f"/-/explain/{NAME}?ibiurl.requireditemstatus=Original"] = (200, {}, explanation)
    with far.served() as root:
        far.leads(NAME, f"{root}/x")
        here.copy(resolver=root)
    assert here.content() == {"x": b"x"}


def test_the_same_bytes_again_change_nothing(here: Archive) -> None:
    far = Elsewhere()
    far.pages["/x"] = (200, {}, b"x")
    with far.served() as root:
        far.leads(NAME, f"{root}/x")
        here.copy(resolver=root)
        held = here.held()
        here.refresh()
    assert (here.held(), staged(here)) == (held, [])
    assert [event.what for event in here.events()] == ["copied"]


@pytest.mark.parametrize(
    "described",
    [
        {"rep": "b.example/b/2010/01.01.00.00", "timestamp": "2020-01-01T00:00:00Z"},
        {"rep": NAME},
        {
            "rep": NAME,
            "timestamp": "2020-01-01T00:00:00Z",
            "files": {"../x": {"size": 1, "sha256": "0" * 64}},
        },
        {
            "rep": NAME,
            "timestamp": "2020-01-01T00:00:00Z",
            "files": {"x": {"size": True, "sha256": "0" * 64}},
        },
        {"rep": NAME, "timestamp": "2020-01-01T00:00:00Z", "files": {"x": {"size": 1, "sha256": "?"}}},
        {"rep": NAME, "timestamp": "2020-01-01T00:00:00Z", "url": "javascript:alert(1)"},
        ["no object"],
        None,
    ],
)
def test_an_archive_that_describes_nonsense_is_refused(here: Archive, described: object) -> None:
    far = Elsewhere()
    body = b"\xff" if described is None else json.dumps(described).encode()
    far.pages[f"/-/api/items/{NAME}"] = (200, {}, body)
    with far.served() as root, pytest.raises(PeerGarbled):
        here.copy(archive=root)
    assert here.holding() is None


def test_an_archive_that_is_not_there_is_silent(there: Archive, here: Archive) -> None:
    with pytest.raises(PeerSilent):
        here.copy(archive=there.root)


def test_files_that_have_an_address_of_their_own_are_copied(there: Archive, here: Archive) -> None:
    there.put()
    files_address = f"files.example:{there.port}"
    replace(there.settings, files_address=files_address).write(there.data)
    looked_up: list[str] = []

    async def names(host: str, port: int) -> list[tuple[str, int]]:
        looked_up.append(host)
        return [("127.0.0.1", port)]

    with there.served(), here.item_store() as item_store:
        copier = Copier(item_store, "", LARGEST, names)
        asyncio.run(copier.copy(parse_ibi(NAME), "otto", there.root, private=True))
    assert here.content() == FILES
    assert "files.example" in looked_up


def test_progress_counts_the_bytes_of_all_files(there: Archive, here: Archive) -> None:
    there.put()
    seen: list[tuple[int, int]] = []
    with there.served(), here.item_store() as item_store:
        copier = Copier(item_store, "", LARGEST, progress=lambda *counts: seen.append(counts))
        asyncio.run(copier.copy(parse_ibi(NAME), "otto", there.root, private=True))
    total = sum(map(len, FILES.values()))
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
