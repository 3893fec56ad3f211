"""The items of two Archives, of every kind, as plain dictionaries.

Each has its names, its links to other items by their short names here, and `held`: the Archives that hold it, with the
state that each gives it. Where a field is missing, it is as an Archive takes it to be: an open original without links.
"""

from __future__ import annotations

from typing import Any, Final

Item = dict[str, Any]
"""One item; its fields are those of the JSON lines, but for `held` and links."""

LEFT, RIGHT = "left", "right"
PLACES: Final = (LEFT, RIGHT)
ELSEWHERE: Final = "elsewhere"
"""What stands in a URL for the address of a server that is no Archive."""

_HERE: Final = {LEFT: "Original"}
_THERE: Final = {RIGHT: "Original"}
_GONE: Final = {LEFT: "Deleted"}
_FILE: Final = {"files": {"text.txt": "text"}}
_FUTURE: Final = "2999-01-01"


def _url(name: str) -> str:
    return f"http://{ELSEWHERE}/{name}"


def _title(text: str) -> dict[str, Any]:
    return {"metadata": {"title": [text]}}


_SINGLE: dict[str, Item] = {
    "file": {**_FILE, **_title("A file"), "language": "en", "ibip": "LK47B6W/3579B"},
    "several": {"files": {"a.html": "<p>a</p>", "data/b%20c.csv": "1,2"}, "target": "a.html"},
    "no target": {"files": {"a.txt": "a", "b.txt": "b"}, **_title("Two files"), "language": "pt"},
    "linked": {"url": _url("linked"), **_title("Linked"), "language": "en"},
    "linked alone": {"url": _url("linked-alone?x=1")},
    "described": {**_title("Metadata only"), "language": "pt-BR"},
    "bare": {},
    "unlisted": {"files": {"a.txt": "a", "b.txt": "b"}, "target": "b.txt", "file_list_public": False},
    "latin-1": {"files": {"Relat%f3rio%20Final.pdf": "%PDF-1.4"}, "language": "pt"},
    "alias": {**_FILE, "aliases": ["6RPa7umaZ/UaJFT"]},
    "ibip alone": {**_FILE, "ibip": "LK47B6W/362SFKH", "rep": None},
    "embargoed": {**_FILE, **_title("Later"), "access": "embargoed", "embargo": _FUTURE, "language": "en"},
    "embargo over": {**_FILE, "access": "embargoed", "embargo": "2020-01-01"},
    "restricted": {**_FILE, **_title("For some"), "access": "restricted", "language": "en"},
    "restricted link": {"url": _url("restricted"), **_title("For some, elsewhere"), "access": "restricted"},
    "closed": {**_FILE, **_title("For nobody"), "access": "closed"},
    "removed": {**_title("Removed"), "held": _GONE},
    "removed link": {"held": _GONE, "next_edition": "file"},
}
_HOLDERS: dict[str, Item] = {
    "there": {**_FILE, **_title("In the other Archive"), "held": _THERE, "language": "en"},
    "copied": {**_FILE, **_title("Twice"), "held": {LEFT: "Original", RIGHT: "Copy"}, "language": "pt"},
    "copy here": {**_FILE, "held": {LEFT: "Copy", RIGHT: "Original"}},
    "copies alone": {**_FILE, "held": {LEFT: "Copy", RIGHT: "Copy"}},
    "copy alone": {"url": _url("copy-alone"), "held": {LEFT: "Copy"}},
    "claimed twice": {**_FILE, "held": {LEFT: "Original", RIGHT: "Original"}},
    "copy of removed": {**_FILE, "held": {LEFT: "Deleted", RIGHT: "Copy"}},
}
_EDITIONS: dict[str, Item] = {
    "first": {**_FILE, **_title("First"), "language": "pt", "next_edition": "second",
              "translations": {"en": "first in English"}},
    "second": {**_FILE, "language": "pt", "next_edition": "third"},
    "third": {**_FILE, **_title("Third"), "language": "pt",
              "translations": {"en": "third in English", "fr": "third in French"}},
    "first in English": {**_FILE, "language": "en", "next_edition": "third in English"},
    "third in English": {**_FILE, **_title("Third, in English"), "language": "en"},
    "third in French": {"url": _url("third-fr"), "language": "fr", "metadata_item": "record"},
    "before the gap": {**_FILE, "language": "en", "next_edition": "gap"},
    "gap": {"held": _GONE, "next_edition": "after the gap"},
    "ended": {"held": _GONE},
    "copied last": {**_FILE, "language": "en", "next_edition": "last twice"},
    "last twice": {**_FILE, **_title("Last, twice"), "language": "en", "held": {LEFT: "Copy", RIGHT: "Original"}},
    "after the gap": {**_FILE, **_title("After the gap"), "language": "en"},
    "leaving": {**_FILE, "language": "pt", "next_edition": "leaving too"},
    "leaving too": {**_FILE, "language": "pt", "next_edition": "arrived"},
    "arrived": {**_FILE, "language": "pt", "next_edition": "last there", "held": _THERE},
    "last there": {**_FILE, **_title("Last"), "held": _THERE, "language": "pt",
                   "translations": {"en": "last there in English", "es": "last here in Spanish"}},
    "last there in English": {**_FILE, "language": "en", "held": _THERE, "metadata_item": "record there"},
    "last here in Spanish": {**_FILE, **_title("Última"), "language": "es"},
}  # fmt: skip
_LANGUAGES: dict[str, Item] = {
    "many": {**_FILE, **_title("Muitas"), "language": "pt-BR", "metadata_item": "record in Portuguese",
             "translations": {"en": "in English", "fr": "in French", "pt": "in Portuguese"}},
    "in English": {**_FILE, "language": "en", "metadata_item": "record"},
    "in French": {**_FILE, "language": "fr", "held": _THERE, "metadata_item": "record there"},
    "in Portuguese": {"url": _url("pt"), **_title("Em português"), "language": "pt"},
    "no language": {**_FILE, **_title("Numbers"), "translations": {"": "untold", "en": "in English"}},
    "lost": {**_FILE, "language": "pt", "translations": {"en": "ended", "fr": "in French"}},
    "untold": {**_FILE, **_title("Untold")},
    "divided": {**_FILE, "language": "en", "translations": {"fr": "in French"}, "metadata_item": "record there",
                "held": {LEFT: "Original", RIGHT: "Copy"}},
}  # fmt: skip
_RECORDS: dict[str, Item] = {
    "record": {"contenttype": "Metadata", "url": _url("record"), "language": "en",
               "formats": {"oai_dc": _url("record.xml")}},
    "record in Portuguese": {"contenttype": "Metadata", **_title("Registro"), "language": "pt",
                             "translations": {"en": "record in English"}},
    "record in English": {"contenttype": "Metadata", **_title("Record"), "language": "en"},
    "record there": {"contenttype": "Metadata", "url": _url("record-there"), "held": _THERE, "language": "en"},
    "recorded": {**_FILE, "language": "pt", "metadata_item": "record in Portuguese"},
    "recorded there": {**_FILE, "metadata_item": "record there"},
    "with a format": {**_FILE, **_title("With a format"), "formats": {"oai_dc": _url("own.xml"),
                                                                     "marc21": _url("own.marc")}},
}  # fmt: skip


def _named() -> dict[str, Item]:
    every = {**_SINGLE, **_HOLDERS, **_EDITIONS, **_LANGUAGES, **_RECORDS}
    named = {}
    for number, (name, item) in enumerate(every.items()):
        rep = f"some.example/b/2021/01.01.00.{number:02}"
        when = f"2022-02-02T02:02:{number % 60:02}Z"
        plain = {"rep": rep, "ibip": None, "held": _HERE, "contenttype": "Data", "timestamp": when}
        named[name] = {"access": "open", **plain, **item}
    return named


ITEMS: Final = _named()
"""Every item by its short name."""


def line(name: str, place: str, elsewhere: str) -> Item:
    """An item as one of its Archives imports it, but for its files; `elsewhere` is the address for its URLs."""
    item = ITEMS[name]
    kept = {key: value for key, value in item.items() if key not in {"held", "files"} and value is not None}
    kept["state"] = item["held"][place]
    kept["translations"] = {tag: link(to) for tag, to in item.get("translations", {}).items()}
    for field in ("next_edition", "metadata_item"):
        if field in kept:
            kept[field] = link(kept[field])
    if "url" in kept:
        kept["url"] = kept["url"].replace(ELSEWHERE, elsewhere)
    kept["formats"] = {
        form: url.replace(ELSEWHERE, elsewhere) for form, url in item.get("formats", {}).items()
    }
    if kept["state"] == "Deleted":
        kept = {key: value for key, value in kept.items() if key not in {"target", "url", "formats"}}
    return {key: value for key, value in kept.items() if value != {}}


def link(name: str) -> str:
    """What names an item in a link."""
    item = ITEMS[name]
    both = item["rep"] and item["ibip"]
    return f"rep {item['rep']} ibip {item['ibip']}" if both else (item["rep"] or item["ibip"])
