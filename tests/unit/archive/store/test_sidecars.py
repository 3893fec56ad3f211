"""The item.json beside the files of an item: its whole text, and what is no such text."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.store.sidecars import read_sidecar, sidecar_text, tells_the_same
from ibi.archive.store.tables.history import ItemEvent
from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS = IBIForms.parse("rep a.example/b/2010/01.01.00.00 ibip 8JMKD3MGP8W/35MME4E")
HELD = Holding(
    forms=FORMS,
    number=7,
    timestamp="2020-01-01T00:00:00Z",
    key="a key",
    files=(StoredFile("a.txt", 3, "aa", "text/plain"), StoredFile("b%20c", 4, "bb", "text/html", "staged")),
    target="b%20c",
    metadata={"title": (MetadataValue("Título", "pt"),)},
    access=Access.CLOSED,
    unsettled="2026-01-01T00:00:00Z",
)
EVENTS = [
    ItemEvent("2020-01-01T00:00:00Z", "maria", "deposited", {"from": "é"}),
    ItemEvent("b", "c", "d", {}),
]
TEXT = """{
 "version": 1,
 "item": {
  "rep": "a.example/b/2010/01.01.00.00",
  "ibip": "8JMKD3MGP8W/35MME4E",
  "key": "a key",
  "timestamp": "2020-01-01T00:00:00Z",
  "files": {
   "a.txt": {
    "size": 3,
    "sha256": "aa",
    "type": "text/plain"
   },
   "b%20c": {
    "size": 4,
    "sha256": "bb",
    "type": "text/html"
   }
  },
  "target": "b%20c",
  "metadata": {
   "title": [
    {
     "value": "Título",
     "lang": "pt"
    }
   ]
  },
  "access": "closed"
 },
 "history": [
  {
   "moment": "2020-01-01T00:00:00Z",
   "who": "maria",
   "what": "deposited",
   "detail": {
    "from": "é"
   }
  },
  {
   "moment": "b",
   "who": "c",
   "what": "d",
   "detail": {}
  }
 ],
 "unsettled": "2026-01-01T00:00:00Z"
}
"""


def _signed(value: dict[str, Any]) -> bytes:
    """A text with the digest of all that it says."""
    plain = json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"
    signed = {**value, "sha256": hashlib.sha256(plain).hexdigest()}
    return json.dumps(signed, ensure_ascii=False, indent=1).encode() + b"\n"


def test_a_sidecar_says_all_of_an_item_and_its_own_digest() -> None:
    assert sidecar_text(HELD, EVENTS) == _signed(json.loads(TEXT))
    settled = json.loads(TEXT)
    del settled["unsettled"]
    assert sidecar_text(replace(HELD, unsettled=""), EVENTS) == _signed(settled)


def test_an_item_and_its_history_are_read_back() -> None:
    recorded, events = read_sidecar(sidecar_text(HELD, EVENTS))
    files = tuple(replace(file, staged="") for file in HELD.files)
    assert (recorded, events) == (replace(HELD, number=0, files=files), EVENTS)
    assert tells_the_same(recorded, HELD)
    assert not tells_the_same(recorded, replace(HELD, unsettled=""))
    assert not tells_the_same(recorded, replace(HELD, files=HELD.files[:1], target=""))
    without = replace(HELD, files=(), target="", unsettled="")
    assert read_sidecar(sidecar_text(without, [])) == (replace(without, number=0), [])


def test_files_are_read_in_the_order_of_their_names() -> None:
    value = json.loads(TEXT)
    value["item"]["files"] = dict(reversed(value["item"]["files"].items()))
    assert [file.name for file in read_sidecar(_signed(value))[0].files] == ["a.txt", "b%20c"]


NOT_OURS, DAMAGED = "it is not what this Archive writes", "it is damaged: its SHA-256 differs"


def _changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    value = json.loads(TEXT)
    change(value)
    return _signed(value)


REFUSED = [
    (b"no JSON", NOT_OURS),
    (b"[" * 100_000, NOT_OURS),
    (b"[]", NOT_OURS),
    (TEXT.encode(), NOT_OURS),
    (sidecar_text(HELD, EVENTS).replace(b"maria", b"Maria"), DAMAGED),
    (_changed(lambda value: value.update(version=2)), "it was written by another version"),
    (_changed(lambda value: value.pop("version")), NOT_OURS),
    (_changed(lambda value: value.pop("history")), NOT_OURS),
    (_changed(lambda value: value.update(item=[])), NOT_OURS),
    (_changed(lambda value: value["history"][0].pop("who")), NOT_OURS),
    (_changed(lambda value: value["history"][0].update(detail=1)), NOT_OURS),
    (_changed(lambda value: value["item"]["files"]["a.txt"].update(size="x")), NOT_OURS),
    (_changed(lambda value: value["item"]["files"]["a.txt"].update(size=float("inf"))), NOT_OURS),
    (_changed(lambda value: [value["item"].pop(name) for name in ("rep", "ibip")]), NOT_OURS),
    (_changed(lambda value: value["item"].pop("timestamp")), NOT_OURS),
    (_changed(lambda value: value["item"].update(other=1)), "there is no field other"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_is_no_sidecar_is_refused_with_the_reason(text: bytes, sentence: str) -> None:
    with pytest.raises(BadItem) as raised:
        read_sidecar(text)
    assert str(raised.value) == sentence
