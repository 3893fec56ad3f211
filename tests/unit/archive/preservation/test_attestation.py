"""Receipts: anyone can check them offline, and nothing can be changed in them unseen."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.model.item import Holding
from ibi.archive.preservation.attestation import (
    compare_files,
    is_signed_by,
    read_receipt,
    receipt,
    sign_receipt,
)
from ibi.archive.store.tables import history
from ibi.errors import BadItem, SetupError
from ibi.identifier.forms import IBIForms
from ibi.runtime import signing
from ibi.runtime.signing import canonical, is_signed, public_key, signer
from support.archive.item_samples import ITEMS, TEXTS
from support.archive.preservation_fixture import NAME, SERVICE, ArchiveFolder, make_archive

WHEN = "2026-11-21T10:00:00Z"
ISSUER = (IBIForms.parse(SERVICE), "archive.example")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> ArchiveFolder:
    kept = make_archive(tmp_path_factory.mktemp("attested") / "archive")
    kept.put(
        NAME,
        {"a%20b.txt": b"hello", "d/x": b""},
        metadata={"title": ["Título"], "creator": ["Ana", "Bea"]},
        target="d/x",
        licence="https://example.org/by",
    )
    return kept


@pytest.fixture(scope="module")
def text(kept: ArchiveFolder) -> bytes:
    """A receipt, as it is handed out."""
    holding = kept.held()
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        events = history.events_of(run, holding.number)
    return sign_receipt(receipt(holding, events, *ISSUER, WHEN), signer(kept.data))


def test_a_receipt_tells_who_gave_what_when_and_who_holds_it(kept: ArchiveFolder, text: bytes) -> None:
    found = read_receipt(text)
    content = found.content
    assert content["version"] == 1  # receipts are kept for decades
    assert content["item"] == {"rep": NAME, "ibip": None, "aliases": []}
    assert (content["title"], content["authors"]) == (["Título"], ["Ana", "Bea"])
    assert content["depositor"] == "maria"
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        assert content["deposited"] == history.events_of(run, kept.held().number)[0].moment
    assert (content["state"], content["licence"]) == ("Original", "https://example.org/by")
    assert content["holder"]["address"] == "archive.example"
    assert content["issued"] == WHEN
    assert [file["name"] for file in found.content["files"]] == ["a%20b.txt", "d/x"]
    assert found.key == public_key(kept.data)


@pytest.mark.parametrize("what", ["deposited", "imported", "harvested", "copied", "received"])
def test_the_one_who_brought_an_item_is_its_depositor(kept: ArchiveFolder, what: str) -> None:
    events = [history.ItemEvent("2020-01-01T00:00:00Z", "rita", what, {})]
    content = receipt(kept.held(), events, *ISSUER, WHEN)
    assert (content["depositor"], content["deposited"]) == ("rita", "2020-01-01T00:00:00Z")


def test_what_happened_on_the_way_is_told(kept: ArchiveFolder) -> None:
    events = [
        history.ItemEvent(
            "2020-01-01T00:00:00Z", "peer", "received", {"from": "http://b.example/", "lag": 1.5}
        ),
        history.ItemEvent("2021-01-01T00:00:00Z", "maria", "edited", {}),
    ]
    content = receipt(kept.held(), events, *ISSUER, WHEN)
    assert [each["what"] for each in content["transfers"]] == ["received"]
    assert (content["depositor"], content["deposited"]) == ("peer", "2020-01-01T00:00:00Z")
    assert (
        read_receipt(sign_receipt(content, signer(kept.data))).content["transfers"][0]["detail"]["lag"]
        == "1.5"
    )


@settings(max_examples=max(1, settings().max_examples // 3))
@given(item=ITEMS, detail=st.dictionaries(TEXTS, TEXTS | st.integers(-(2**53) + 1, 2**53 - 1), max_size=2))
def test_a_receipt_of_any_item_is_read_as_it_was_signed(
    kept: ArchiveFolder, item: Holding, detail: dict[str, Any]
) -> None:
    events = [history.ItemEvent(WHEN, "maria", what, detail) for what in ("deposited", "edited", "given")]
    content = receipt(item, events, *ISSUER, WHEN)
    found = read_receipt(sign_receipt(content, signer(kept.data)))
    assert found.key == public_key(kept.data)
    assert found.content == {**content, "key": {"type": "Ed25519", "public": found.key}}


@given(data=st.data())
def test_a_receipt_with_one_byte_changed_is_refused(text: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[at]))
    with pytest.raises(BadItem):
        read_receipt(text[:at] + bytes([byte]) + text[at + 1 :])


@given(data=st.data())
def test_a_receipt_with_a_byte_more_or_less_is_refused(text: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(BadItem):
        read_receipt(text[:at] + text[at + 1 :])
    with pytest.raises(BadItem):
        read_receipt(text[:at] + bytes([data.draw(st.integers(0, 255))]) + text[at:] + b" ")


@pytest.mark.parametrize(
    "fact", ["title", "depositor", "deposited", "state", "files", "holder", "transfers", "issued"]
)
def test_a_fact_that_was_changed_and_spelled_well_is_found(text: bytes, fact: str) -> None:
    value: dict[str, Any] = json.loads(text)
    old = value["receipt"][fact]
    value["receipt"][fact] = ["changed"] if isinstance(old, list) else {"service": {}, "address": "x"}
    with pytest.raises(BadItem):
        read_receipt(canonical(value) + b"\n")


def test_a_receipt_signed_by_another_archive_names_its_key(
    kept: ArchiveFolder, text: bytes, tmp_path: Path
) -> None:
    forged = dict(json.loads(text)["receipt"])
    del forged["key"]
    found = read_receipt(sign_receipt(forged, signer(tmp_path)))
    assert not is_signed_by(found, public_key(kept.data))
    assert is_signed_by(read_receipt(text), public_key(kept.data))


@pytest.mark.parametrize(
    "noise", [b"", b"{}", b"[]", b"null", b"\xff", b"{" * 100_000, b'{"receipt": {}, "signature": ""}']
)
def test_what_is_no_receipt_is_one_sentence(noise: bytes) -> None:
    with pytest.raises(BadItem, match="not a receipt"):
        read_receipt(noise)


@pytest.mark.parametrize("key", ["", "xyz", "0" * 63, "0" * 65, "Z" * 64])
def test_what_is_no_key_is_one_sentence(text: bytes, key: str) -> None:
    with pytest.raises(BadItem, match="64 hexadecimal digits"):
        is_signed_by(read_receipt(text), key)


def test_a_receipt_that_is_nested_too_deep_is_one_sentence(text: bytes) -> None:
    for depth in (300, 900, 5000):
        with pytest.raises(BadItem):
            read_receipt(text.replace(b'"title":', b'"title":' + b"[" * depth + b"]" * depth + b',"x":'))


def test_files_are_compared_with_what_was_attested(text: bytes, tmp_path: Path) -> None:
    found = read_receipt(text)
    (tmp_path / "a b.txt").write_bytes(b"hello")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").write_bytes(b"")
    assert [problem for _, problem in compare_files(found, tmp_path)] == [None, None]
    (tmp_path / "a b.txt").write_bytes(b"hellO")
    (tmp_path / "d/x").unlink()
    assert [str(problem) for _, problem in compare_files(found, tmp_path)] == [
        "a%20b.txt is not the attested file",
        "d/x is not there",
    ]
    (tmp_path / "d/x").mkdir()
    assert "regular" in str(dict(compare_files(found, tmp_path))["d/x"])


def test_a_receipt_cannot_make_us_look_outside_of_the_folder(kept: ArchiveFolder, tmp_path: Path) -> None:
    content = receipt(kept.held(), [], *ISSUER, WHEN)
    content["files"] = [{"name": "../secret", "size": 1, "sha256": "0" * 64, "type": "x"}]
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "files").mkdir()
    found = read_receipt(sign_receipt(content, signer(kept.data)))
    assert "relative" in str(dict(compare_files(found, tmp_path / "files"))["../secret"])


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    assert public_key(tmp_path) == ""
    first = signer(tmp_path).public
    assert signer(tmp_path).public == public_key(tmp_path) == first
    assert stat.S_IMODE((tmp_path / signing.FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [signing.FILE]


def test_a_damaged_key_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / signing.FILE).write_bytes(b"\xff" * 64)
    with pytest.raises(SetupError, match="no key for attestation"):
        signer(tmp_path)


def test_a_signature_counts_for_its_message_and_key_alone(tmp_path: Path) -> None:
    one, other = signer(tmp_path / "."), "0" * 64
    signature = one.sign(b"x")
    assert is_signed(b"x", signature, one.public)
    assert not is_signed(b"y", signature, one.public)
    assert not is_signed(b"x", signature, other)
    assert not is_signed(b"x", signature.upper(), one.public)
    assert not is_signed(b"x", "", one.public)


def test_canonical_json_has_one_spelling() -> None:
    """The example of RFC 8785 3.2.3, without its numbers: order by UTF-16 code units."""
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}
    names = [name for name, _ in json.loads(canonical(value), object_pairs_hook=list)]
    assert names == ["\r", "1", "\x80", "\xf6", "\u20ac", "\U0001f600", "\ufb33"]
    assert (
        canonical(['\x0f\n"\\/é', None, True, [], {}]) == '["\\u000f\\n\\"\\\\/é",null,true,[],{}]'.encode()
    )


@pytest.mark.parametrize("value", [1.5, float("nan"), 1 << 60, "\ud800", {"\ud800": 1}, b"x"])
def test_what_has_no_canonical_spelling_is_refused(value: object) -> None:
    with pytest.raises(BadItem):
        canonical(value)
