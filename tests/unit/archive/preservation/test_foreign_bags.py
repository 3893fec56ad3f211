"""Bags of other software, in each spelling that the standard of bags allows, become items."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5, sha1, sha256, sha512
from pathlib import Path

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.preservation.bag_ingest import take_bag
from support.archive.preservation_fixture import WHO, ArchiveFolder, make_archive

DECLARATION = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
A, B = sha256(b"one").hexdigest(), sha256(b"two").hexdigest()
PAYLOAD = {"data/a.txt": b"one", "data/b/%0Ac.txt": b"two"}
MANIFEST = f"{A}  data/a.txt\n{B}  data/b/%250Ac.txt\n"


@pytest.fixture
def taking(tmp_path: Path) -> ArchiveFolder:
    return make_archive(
        tmp_path / "taking", mint_host="archive.example", mint_ip="127.0.0.1", for_trying=True
    )


def taken(taking: ArchiveFolder, folder: Path, tags: Mapping[str, str], title: str = "") -> Holding:
    """The item of a bag of these tag files, and the payload."""
    whole = {"bagit.txt": DECLARATION, "manifest-sha256.txt": MANIFEST} | dict(tags)
    for name, content in (PAYLOAD | {name: text.encode() for name, text in whole.items() if text}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    with taking.item_store() as item_store:
        return take_bag(item_store, folder, WHO, title=title)


def digests(kind: str) -> str:
    make = {"md5": md5, "sha1": sha1, "sha512": sha512}[kind]
    return f"{make(b'one').hexdigest()} data/a.txt\n{make(b'two').hexdigest()} data/b/%250Ac.txt\n"


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"bagit.txt": "BagIt-Version: 0.93\r\nTag-File-Character-Encoding: UTF-8\r\n"},
        {"bagit.txt": "BagIt-Version:0.97\n"},
        {"manifest-sha256.txt": MANIFEST.upper().replace("DATA/A.TXT", "data/a.txt").replace("DATA/B/%250AC.TXT",
                                                                                              "data/b/%250Ac.txt")},
        {"manifest-sha256.txt": f"\ufeff\n{A} \t*data/a.txt\r\n  \r\n{B}\t./data/b/%250Ac.txt"},
        *({f"manifest-{kind}.txt": digests(kind)} for kind in ("md5", "sha1", "sha512")),
        *({"manifest-sha256.txt": "", f"manifest-{kind}.txt": digests(kind)} for kind in ("md5", "sha1", "sha512")),
        {"tagmanifest-sha256.txt": f"{sha256(DECLARATION.encode()).hexdigest()} bagit.txt\n"},
        {"fetch.txt": " \n"},
    ],
)  # fmt: skip
def test_each_spelling_of_a_bag_is_read(taking: ArchiveFolder, tmp_path: Path, tags: dict[str, str]) -> None:
    item = taken(taking, tmp_path / "bag", tags)
    assert [(file.name, file.sha256) for file in item.files] == [("a.txt", A), ("b/%250Ac.txt", B)]
    assert item.metadata == {"title": (("bag", None),)}


@pytest.mark.parametrize(
    ("info", "given", "title"),
    [
        (
            "Source-Organization: x\nExternal-Description:  A title \nExternal-Description: Another\n",
            "given",
            "A title",
        ),
        (f"External-Description: {'x' * 4001}\n", "given", "x" * 4000),
        ("External-Description:\n", "given", "given"),
        ("external-description: x\n", "", "bag"),
        ("", "given", "given"),
    ],
)
def test_a_bag_has_the_title_of_its_description(
    taking: ArchiveFolder, tmp_path: Path, info: str, given: str, title: str
) -> None:
    item = taken(taking, tmp_path / "bag", {"bag-info.txt": info}, given)
    assert item.metadata == {"title": ((title, None),)}
