"""The documents of a bag, whole, as other programs read them, and the paths of its files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import ibi
from ibi.archive.model.item import StoredFile
from ibi.archive.preservation.bagging import payload_paths, write_bag
from ibi.archive.store.tables.history import ItemEvent
from ibi.errors import SetupError
from support.archive.preservation_fixture import NAME, OTHER, ArchiveFolder, make_archive

UNDER = "_"  # before what would be equal to another path
WHEN = "2026-11-21T23:59:59Z"
FILES = {"a%20b.txt": b"hello", "50%25.txt": b"half"}


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    return make_archive(tmp_path / "archive")


def documents(kept: ArchiveFolder, name: str, **more: Any) -> dict[str, bytes]:
    """All files of the bag of an item, in the order in which they are written."""
    found: dict[str, bytes] = {}

    def put(path: str, chunks: Iterable[bytes]) -> None:
        assert path not in found
        found[path] = b"".join(chunks)

    held = replace(kept.held(name), **more)
    events = [ItemEvent(WHEN, "joão", "deposited", {"key": 1})]
    write_bag(put, kept.file_store, held, events, "Arquivo  do\nMar", WHEN)
    return found


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def test_the_documents_of_a_bag_are_these(kept: ArchiveFolder) -> None:
    kept.put(
        NAME, FILES, ibip="LK47B6W/362SFKH", metadata={"title": ["Maré  alta\n e baixa", "Tide"]}, language="pt",
        timestamp="2026-01-31T00:00:00Z",
    )  # fmt: skip
    found = documents(kept, NAME)
    assert list(found) == [
        "data/50=25.txt", "data/a b.txt", "bagit.txt", "bag-info.txt", "manifest-sha256.txt", "metadata.json",
        "tagmanifest-sha256.txt",
    ]  # fmt: skip
    assert (found["data/50=25.txt"], found["data/a b.txt"]) == (b"half", b"hello")
    assert found["bagit.txt"] == b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
    assert found["bag-info.txt"].decode() == (
        "Source-Organization: Arquivo do Mar\nExternal-Description: Maré alta e baixa\n"
        f"External-Identifier: {NAME}\nExternal-Identifier: LK47B6W/362SFKH\nBagging-Date: 2026-11-21\n"
        f"Payload-Oxum: 9.2\nBag-Software-Agent: ibi {ibi.__version__}\n"
    )
    assert found["manifest-sha256.txt"].decode() == (
        f"{digest(b'half')}  data/50=25.txt\n{digest(b'hello')}  data/a b.txt\n"
    )
    facts = {
        name: {"size": len(content), "sha256": digest(content), "type": "text/plain", "path": f"data/{path}"}
        for name, content, path in (("50%25.txt", b"half", "50=25.txt"), ("a%20b.txt", b"hello", "a b.txt"))
    }
    metadata = json.loads(found["metadata.json"])
    assert (metadata.pop("files"), metadata.pop("history")) == (
        facts,
        [{"moment": WHEN, "who": "joão", "what": "deposited", "detail": {"key": 1}}],
    )
    assert metadata == {
        "rep": NAME, "ibip": "LK47B6W/362SFKH", "timestamp": "2026-01-31T00:00:00Z", "language": "pt",
        "metadata": {"title": ["Maré  alta\n e baixa", "Tide"]},
    }  # fmt: skip
    text = found["metadata.json"].decode()
    assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=1) + "\n"
    tags = ("bag-info.txt", "bagit.txt", "manifest-sha256.txt", "metadata.json")
    assert found["tagmanifest-sha256.txt"].decode() == "".join(
        f"{digest(found[tag])}  {tag}\n" for tag in tags
    )


def test_a_bag_of_an_item_with_nothing_but_a_url_is_described_by_its_name(kept: ArchiveFolder) -> None:
    kept.put(OTHER, url="http://far.example/")
    found = documents(kept, OTHER)
    assert next(iter(found)) == "bagit.txt"
    lines = found["bag-info.txt"].decode().splitlines()
    assert (lines[1], lines[4]) == (f"External-Description: {OTHER}", "Payload-Oxum: 0.0")
    assert found["manifest-sha256.txt"] == b""


def test_the_name_of_the_institution_stands_beside_the_item(kept: ArchiveFolder) -> None:
    kept.put(OTHER, url="http://far.example/")
    found = documents(kept, OTHER, institution={"": "Universidade do Mar", "en": "Sea", "pt": "Maré"})
    assert "institution" not in json.loads(found["metadata.json"])
    assert found["bag-info.txt"].decode().splitlines()[-1] == (
        'Ibi-Institution: {"": "Universidade do Mar", "en": "Sea", "pt": "Maré"}'
    )


def test_a_file_that_is_another_one_now_goes_into_no_bag(kept: ArchiveFolder) -> None:
    kept.put(NAME, {"a.txt": b"hello"})
    kept.path("a.txt").write_bytes(b"hullo")
    with pytest.raises(SetupError) as refused:
        documents(kept, NAME)
    assert str(refused.value) == "the stored file a.txt is not the one that was listed"
    kept.path("a.txt").unlink()
    with pytest.raises(SetupError) as refused:
        documents(kept, NAME)
    assert str(refused.value) == "the file a.txt cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        (["a.txt", "b/c.txt"], ["a.txt", "b/c.txt"]),
        (["caf%C3%A9", "caf%E9"], ["café", "caf=E9"]),
        (["a%20%20b", "%20a", "a%20", "a%09"], ["a=20=20b", "=20a", "a=20", "a=09"]),
        (["a", "A", "%61"], ["a", f"{UNDER}A", f"{UNDER}{UNDER}a"]),
        (["a", "A/b"], ["a", f"{UNDER}A/b"]),
        (["a/b", "A"], ["a/b", f"{UNDER}A"]),
        (["a/b", "a/B", "A/c"], ["a/b", f"{UNDER}a/B", "A/c"]),
        (["%C3%A9", "e%CC%81"], ["é", f"{UNDER}e\u0301"]),
        (["x" * 255], ["x" * 255]),
    ],
)
def test_each_file_has_a_path_that_every_system_can_write(names: list[str], paths: list[str]) -> None:
    files = [StoredFile(name, 0, "", "") for name in names]
    assert list(payload_paths(files).values()) == paths
