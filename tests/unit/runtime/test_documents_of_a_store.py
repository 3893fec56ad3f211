"""What nodes share as documents of a store: the nonce, lists of rows, and the key of signatures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ibi.errors import SetupError
from ibi.runtime.json_list import JsonList
from ibi.runtime.nonce import Nonce
from ibi.runtime.signing import FILE, is_signed, public_key, signer
from support.in_memory.documents import Documents

DIGITS = "0123456789abcdef" * 2
NONE = (404, b"nobody is proving now that this address leads here\n")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Documents:
    documents = Documents()
    modules = ("nonce", "json_list", "signing")
    documents.put_in_place(monkeypatch, *(f"ibi.runtime.{each}" for each in modules))
    return documents


# --- the nonce ------------------------------------------------------------------------------------------------------


def test_every_node_answers_with_the_nonce_that_one_has_published(tmp_path: Path, shared: Documents) -> None:
    now = 1_000.5
    here, there = (Nonce(tmp_path / each, lambda: now) for each in ("here", "there"))
    assert there.answer() == NONE
    with here.published(DIGITS) as given:
        assert given == DIGITS
        assert shared.texts == {"nonce": f"1000.5 {DIGITS}"}
        assert there.answer() == (200, f"{DIGITS}\n".encode())
    assert (shared.texts, there.answer()) == ({}, NONE)
    assert list(tmp_path.iterdir()) == []
    with here.published() as given:
        assert re.fullmatch("[0-9a-f]{32}", given)


@pytest.mark.parametrize(
    ("text", "is_published"),
    [
        (f"1000 {DIGITS}", True),
        (f"940 {DIGITS}", True),
        (f"1060 {DIGITS}", True),
        (f"939.99 {DIGITS}", False),
        (f"1060.01 {DIGITS}", False),
        (f"soon {DIGITS}", False),
        (DIGITS, False),
        (f" {DIGITS}", False),
        (f"1000 {DIGITS[1:]}", False),
        (f"1000 {DIGITS}0", False),
        ("", False),
    ],
)
def test_a_nonce_counts_for_a_minute(
    text: str, is_published: bool, tmp_path: Path, shared: Documents
) -> None:
    shared.texts["nonce"] = text
    assert Nonce(tmp_path, lambda: 1_000.0).answer() == (
        (200, f"{DIGITS}\n".encode()) if is_published else NONE
    )


def test_where_the_store_is_away_no_nonce_is_published_and_none_is_told(
    tmp_path: Path, shared: Documents
) -> None:
    nonce = Nonce(tmp_path, lambda: 1_000.0)
    with nonce.published(DIGITS):
        shared.is_away = True
        assert nonce.answer() == NONE
    shared.is_away = False  # it could not be removed, and is soon too old
    assert nonce.answer()[0] == 200
    shared.is_away = True
    with pytest.raises(SetupError, match="the store is away"), nonce.published(DIGITS):
        pytest.fail("it was not published")


# --- lists of rows --------------------------------------------------------------------------------------------------

MADE = "2026-11-21T20:50:14Z"


class Row(NamedTuple):
    name: str
    made: str = MADE
    words: tuple[str, ...] = ()


def read(given: dict[str, Any]) -> Row:
    return Row(given["name"], given["made"], tuple(given.get("words", ())))


def listed(folder: Path) -> JsonList[Row]:
    return JsonList(folder, "rows", read, lambda row: row.name.upper())


def test_a_list_in_a_store_is_one_document_and_read_again_when_it_has_changed(
    tmp_path: Path, shared: Documents
) -> None:
    here, there = listed(tmp_path), listed(tmp_path)
    assert (here.all(), here.find("A")) == ((), None)
    with here.changing() as rows:
        rows += [Row("a"), Row("b", words=("x", "y"))]
    assert shared.texts == {
        "rows.json": '{\n "version": 1,\n "rows": [\n  {\n   "name": "a",\n   "made": "2026-11-21T20:50:14Z"\n  },\n'
        '  {\n   "name": "b",\n   "made": "2026-11-21T20:50:14Z",\n   "words": [\n    "x",\n    "y"\n   ]\n  }\n ]\n}\n'
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    assert (there.all(), there.find("B"), there.find("b")) == (
        [Row("a"), Row("b", words=("x", "y"))],
        Row("b", words=("x", "y")),
        None,
    )
    shared.events.clear()
    assert (there.find("A"), shared.events) == (Row("a"), [])
    with here.changing() as rows:
        del rows[0]
    assert there.find("A") is None


def test_a_change_that_is_refused_or_fails_is_none(tmp_path: Path, shared: Documents) -> None:
    here, seen = listed(tmp_path), list[list[Row]]()
    with here.changing(lambda rows: seen.append([*rows])) as rows:
        rows.append(Row("a"))
    before = dict(shared.texts)

    def refuse(rows: Any) -> None:
        seen.append([*rows])
        raise SetupError("it is refused")

    with pytest.raises(SetupError, match="it is refused"), here.changing(refuse):
        pytest.fail("it may not be changed")
    with pytest.raises(ZeroDivisionError), here.changing() as rows:
        rows.append(Row(str(1 // 0)))
    assert (shared.texts, seen) == (before, [[], [Row("a")]])
    shared.texts["rows.json"] = "{}"
    with pytest.raises(SetupError) as damaged:
        here.all()
    assert str(damaged.value) == (
        f"{tmp_path}/rows.json is damaged: put it back from a backup, or remove it and make anew what it held"
    )


# --- the key of signatures ------------------------------------------------------------------------------------------


def test_all_nodes_sign_with_the_key_that_the_first_one_has_made(tmp_path: Path, shared: Documents) -> None:
    assert public_key(tmp_path) == ""
    here, there = signer(tmp_path / "here"), signer(tmp_path / "there")
    assert here.public == there.public == public_key(tmp_path)
    assert is_signed(b"a", there.sign(b"a"), here.public)
    assert not is_signed(b"b", there.sign(b"a"), here.public)
    assert list(tmp_path.iterdir()) == []
    assert [each for each in shared.events if each.startswith("make")] == [f"make {FILE}"]
    assert re.fullmatch("[0-9a-f]{64}", shared.texts[FILE])
    shared.texts[FILE] = "no key"
    with pytest.raises(SetupError) as damaged:
        signer(tmp_path)
    assert str(damaged.value) == (
        f"{tmp_path / FILE} holds no key for attestation: put it back from a backup"
    )
