"""The whole of a receipt, field by field; and what bears a good signature and is no receipt all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.preservation.attestation import (
    compare_files,
    is_signed_by,
    read_receipt,
    receipt,
    sign_receipt,
)
from ibi.archive.store.tables.history import ItemEvent
from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms
from ibi.identifier.legacy import LegacyId
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.signing import Signer, signer

WHEN = "2026-11-21T10:00:00Z"
SERVICE = IBIForms.parse("rep archive.example/w/2020/01.01.00.00 ibip LK47B6W/3P5GNKB")
REMOVED = Holding(
    forms=IBIForms.parse("rep a.example/b/2010/01.01.00.00 ibip LK47B6W/362SFKH"),
    aliases=(LegacyId.parse("6RPa7umaZ/UaJFT"),),
    state=ItemState.DELETED,
    timestamp="2014-01-02T17:23:57Z",
    url="http://far.example/",
    files=(StoredFile("a.txt", 3, "a" * 64, "text/plain"),),
    metadata={
        "title": (MetadataValue("A title"), MetadataValue("Um título", "pt")),
        "contributor": (MetadataValue("Bea"),),
        "creator": (MetadataValue("Ana"),),
    },
    access=Access.RESTRICTED,
    rights="Some rights",
    licence="https://example.org/by",
    reason="By mistake",
    replacement=IBIForms.parse("ibip LK47B6W/362SFKK"),
)
EVENTS = [
    ItemEvent("2013-01-01T00:00:00Z", "cron", "noted", {}),
    ItemEvent("2013-01-02T00:00:00Z", "rita", "harvested", {"size": 1.5}),
    ItemEvent("2013-01-03T00:00:00Z", "maria", "deposited", {}),
    *(
        ItemEvent(
            f"2013-01-0{day}T00:00:00Z", "otto", what, {"a": [1.5, (2, 2.5)], "b": {"c": 0.5, "d": True}}
        )
        for day, what in ((4, "given"), (5, "received"), (6, "copied"), (7, "refreshed"), (8, "edited"))
    ),
]


def test_a_receipt_says_all_that_is_known_of_an_item() -> None:
    assert receipt(REMOVED, EVENTS, SERVICE, "archive.example", WHEN) == {
        "kind": "ibi receipt",
        "version": 1,
        "item": {
            "rep": "a.example/b/2010/01.01.00.00",
            "ibip": "LK47B6W/362SFKH",
            "aliases": ["6RPa7umaZ/UaJFT"],
        },
        "title": ["A title", "Um título"],
        "authors": ["Ana", "Bea"],
        "depositor": "rita",
        "deposited": "2013-01-02T00:00:00Z",
        "state": "Deleted",
        "timestamp": "2014-01-02T17:23:57Z",
        "url": "http://far.example/",
        "access": "restricted",
        "rights": "Some rights",
        "licence": "https://example.org/by",
        "reason": "By mistake",
        "replacement": "LK47B6W/362SFKK",
        "files": [{"name": "a.txt", "size": 3, "sha256": "a" * 64, "type": "text/plain"}],
        "holder": {
            "service": {"rep": "archive.example/w/2020/01.01.00.00", "ibip": "LK47B6W/3P5GNKB"},
            "address": "archive.example",
        },
        "transfers": [
            {
                "moment": f"2013-01-0{day}T00:00:00Z", "who": "otto", "what": what,
                "detail": {"a": ["1.5", [2, "2.5"]], "b": {"c": "0.5", "d": True}},
            }
            for day, what in ((4, "given"), (5, "received"), (6, "copied"), (7, "refreshed"))
        ],
        "issued": WHEN,
    }  # fmt: skip


def test_of_an_item_with_nothing_but_a_name_nothing_is_said() -> None:
    bare = Holding(forms=IBIForms.parse("ibip LK47B6W/362SFKH"), timestamp=WHEN)
    assert receipt(bare, [], IBIForms.parse("ibip LK47B6W/3P5GNKB"), "archive.example", WHEN) == {
        "kind": "ibi receipt", "version": 1, "item": {"rep": None, "ibip": "LK47B6W/362SFKH", "aliases": []},
        "title": [], "authors": [], "depositor": None, "deposited": None, "state": "Original", "timestamp": WHEN,
        "url": "", "access": "open", "rights": "", "licence": "", "reason": "", "replacement": None, "files": [],
        "holder": {"service": {"rep": None, "ibip": "LK47B6W/3P5GNKB"}, "address": "archive.example"},
        "transfers": [], "issued": WHEN,
    }  # fmt: skip


@pytest.fixture
def ours(tmp_path: Path) -> Signer:
    return signer(tmp_path)


def content() -> dict[str, Any]:
    return receipt(REMOVED, EVENTS, SERVICE, "archive.example", WHEN)


FILE = content()["files"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "ibi recipe"}, {"version": 2}, {"item": []}, {"holder": []}, {"holder": {"service": "x"}},
        {"files": {}}, {"files": [[]]}, {"files": [FILE, FILE | {"name": 1}]}, {"files": [FILE | {"size": "3"}]},
        {"files": [FILE | {"sha256": None}]},
    ],
)  # fmt: skip
def test_what_is_signed_and_no_receipt_is_refused(ours: Signer, change: dict[str, Any]) -> None:
    assert read_receipt(sign_receipt(content(), ours)).content["issued"] == WHEN
    with pytest.raises(BadItem) as refused:
        read_receipt(sign_receipt(content() | change, ours))
    assert str(refused.value) == "this is not a receipt"


def test_a_receipt_is_signed_by_one_key(ours: Signer, tmp_path: Path) -> None:
    found = read_receipt(sign_receipt(content(), ours))
    assert found.content == content() | {"key": {"type": "Ed25519", "public": ours.public}}
    (tmp_path / "other").mkdir()
    other = signer(tmp_path / "other")
    assert [is_signed_by(found, key) for key in (ours.public, other.public)] == [True, False]
    with pytest.raises(BadItem) as refused:
        is_signed_by(found, "0" * 63)
    assert str(refused.value) == "a key is 64 hexadecimal digits, as the Archive tells it at /-/about"


def test_each_fault_of_a_file_is_one_sentence(ours: Signer, tmp_path: Path) -> None:
    files = [FILE | {"name": name} for name in ("a.txt", "../b", "none", "folder/x", "link")]
    found = read_receipt(sign_receipt(content() | {"files": files}, ours))
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"aaa")
    (folder / "folder").write_bytes(b"no folder")
    (folder / "link").symlink_to(folder / "link")
    assert [(name, str(fault)) for name, fault in compare_files(found, folder)] == [
        ("a.txt", "a.txt is not the attested file"),
        ("../b", "the file name ../b has an empty, relative or overlong part"),
        ("none", "none is not there"),
        ("folder/x", "folder/x cannot be read: Not a directory"),
        ("link", "link cannot be read: Too many levels of symbolic links"),
    ]
