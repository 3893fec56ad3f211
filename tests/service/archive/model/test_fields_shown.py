"""Each field of an item is seen wherever an item is shown, but for what is listed here with its reason.

Two items that differ in one field and in their names are asked for; a place that answers alike does not show the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from ibi.accounts.tokens import Scope
from ibi.archive.model.item_fields import BY_NAME
from ibi.cli import main
from ibi.web.formats import FORMATS, RECORD_FORMATS
from support.archive.administration_fixture import Librarian, administered_archive
from support.archive.item_samples import SAMPLES, WITH
from support.programs import Program

NUMBERS = {name: number for number, name in enumerate(["", *BY_NAME], 1)}
"""Of the items of each field; those of "" do not differ."""
USUAL: dict[str, Any] = {
    "metadata": {"title": ["T"]}, "files": {"a.txt": "a.txt", "b.txt": "b.txt"},
    "timestamp": "2020-01-01T00:00:00Z",
}  # fmt: skip
INSTEAD: dict[str, dict[str, Any]] = {"embargo": {"embargo": "2031-02-28"}}
"""What the item without the sample has, where it cannot be without the field."""

RECORD = "/-/oai?verb=GetRecord&identifier={oai}"
PLACES: dict[str, str] = {
    "page": "/-/item/{name}",
    "page of metadata": "/-/metadata/{name}",
    "page of files": "/-/files/{name}",
    "linkset": "/-/linkset/{name}?format=json",
    "JSON": "/-/api/items/{name}",
    "handle record": "/-/api/handles/{name}",
    "receipt": "/-/api/items/{name}/receipt",
    **{each.name: f"/-/metadata/{{name}}?format={each.name}" for each in FORMATS},
    **{f"OAI {each.prefix}": f"{RECORD}&metadataPrefix={each.prefix}" for each in RECORD_FORMATS},
}  # fmt: skip
FORMS = {word: f"/-/admin/deposit?{word}={{name}}" for word in ("edition_of", "translation_of")}
"""The forms that begin with what another item has."""


def name_of(field: str, *, sample: bool) -> str:
    return f"a.example/b/2020/01.01.{NUMBERS[field]:02}.{10 + sample}"


def line_of(field: str, *, sample: bool) -> dict[str, Any]:
    """An item as a line of JSON, with the sample of a field or without."""
    more = {name: value for name, value in WITH.get(field, {}).items() if name != "files"}
    if field:
        more |= {field: SAMPLES[field]} if sample else INSTEAD.get(field, {})
    files = {} if more.get("state") == "Deleted" or field == "url" else {"files": USUAL["files"]}
    usual = {name: value for name, value in USUAL.items() if name not in {"files", field}}
    return {**usual, **files, "rep": name_of(field, sample=sample), **more}


@dataclass(frozen=True)
class Shown:
    """An Archive with the items."""

    program: Program
    librarian: Librarian

    def at(self, place: str, field: str, *, sample: bool) -> str:
        """What a place says of an item, without its name and without moments."""
        name = name_of(field, sample=sample)
        path = (PLACES | FORMS)[place].format(name=name, oai=f"oai:127.0.0.1:{name}")
        if path.startswith("/-/api"):
            answer = self.program.ask("GET", path.removeprefix("/-/api"), None, Scope.READ)
        elif path.startswith("/-/admin"):
            answer = self.librarian.look(path)
        else:
            answer = self.program.get(path)
        # Of metadata that lie elsewhere, a redirection is all.
        text = f"{answer.status} {answer.headers.get('location', '')}\n{answer.text}"
        # What a page tells programs in its head, no reader sees.
        text = re.sub("<head>.*</head>", "", text, flags=re.DOTALL)
        # As it stands in persistent URLs, in the query of one, and as a key of BibTeX.
        for spelled in (name, name.replace("/", "%2F"), re.sub(r"\W", "-", name)):
            text = text.replace(spelled, "NAME")
        text = re.sub(r'"signature": ?"\w+"|name="(once|form_token)" value="\w+"', "", text)
        return re.sub(r"20\d\d-\d\d-\d\dT[\d:]+Z|\d+:\d\d:\d\d\s[AP]M UTC", "MOMENT", text)

    def is_found(self, query: str, field: str) -> bool:
        """Whether a search finds the item with the sample, and not the other one."""
        found = self.program.get(f"/-/search?{query}").text
        return name_of(field, sample=True) in found and name_of(field, sample=False) not in found


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("shown")
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("words")
    lines = [line_of(field, sample=sample) for field in NUMBERS for sample in (False, True)]
    (folder / "items.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with administered_archive(folder) as served:
        data = served.archive.data
        assert main(["archive", "import", "--data", str(data), str(folder / "items.jsonl")]) == 0
        assert main(["archive", "index", "--data", str(data)]) == 0
        yield Shown(Program(data, served.port), served.new_browser("maria"))


_PEERS = {"only other Archives need to know whether it may go there": "transferable"}
_FILES_ONLY = {"how its files are shown": "target file_list_public"}
_METADATA_ALONE = {"it has the metadata as they are, and nothing else": (
    "aliases state contenttype language url target file_list_public next_edition translations metadata_item access "
    "embargo rights licence reason replacement institution"
)}  # fmt: skip
_TO_CITE = {
    "a reference leads to the persistent URL, whatever becomes of the item": (
        "aliases state url next_edition translations metadata_item reason replacement"
    ),
    "a reference has no place for it": "contenttype formats access embargo rights licence",
    **_FILES_ONLY,
}
_ONE_OF_MANY = {"it is one of the formats itself": "formats"}
_DATACITE = {
    "it describes the item, not what this Archive holds of it": "state contenttype",
    "it has the persistent URL, and files by it": "url target",
    "it says why the item is gone": "replacement",
    **_ONE_OF_MANY,
}
_HARVESTED = {
    "a removed item is a deleted record, with nothing but its name and date": "reason replacement",
    "it describes the item, not what this Archive holds of it": "state",
    **_ONE_OF_MANY,
}
_SCHEMA_ORG = {
    "it describes the item, not what this Archive holds of it": "state contenttype",
    "it has the persistent URL, and files by it": "url target",
    "schema.org knows what an item replaces, not what replaces it": "next_edition",
    "it says whether the item is free, not until when": "embargo",
    "it says that the item is gone": "reason replacement",
    **_ONE_OF_MANY,
}
NOT_SHOWN: Mapping[str, Mapping[str, str]] = {
    "page": _PEERS,
    "page of metadata": _PEERS | _METADATA_ALONE,
    "page of files": _PEERS
    | {"it is about the files": (
        "aliases state contenttype language next_edition translations metadata_item formats rights licence institution"
    )},
    "linkset": _PEERS
    | {
        "it has links, and only those of Signposting": (
            "aliases state contenttype language next_edition translations metadata_item formats rights institution"
        ),
        "all files are listed, whichever is shown first": "target",
        "a link is there or not: what is embargoed or removed has none to files": "embargo reason replacement",
    },
    "JSON": {},
    "handle record": _PEERS
    | {
        "it leads to the item, and does not describe it": "aliases language metadata_item metadata formats institution",
        "what it leads to tells who may have it, and why it is gone": (
            "file_list_public access embargo reason replacement"
        ),
    },
    "receipt": _PEERS
    | {
        "it attests the bytes, their holder and their rights; the rest may change": (
            "contenttype language next_edition translations metadata_item formats embargo institution"
        ),
        **_FILES_ONLY,
    },
    "csl": _PEERS | _TO_CITE,
    "bibtex": _PEERS | _TO_CITE,
    "ris": _PEERS | _TO_CITE,
    "citation": _PEERS | _TO_CITE | {"its words are in the reader's language": "language"},
    "datacite-xml": _PEERS | _DATACITE,
    "datacite-json": _PEERS | _DATACITE,
    **dict.fromkeys(("jsonld", "turtle", "rdfxml"), _PEERS | _SCHEMA_ORG),
    "oai_dc": _PEERS | _METADATA_ALONE,
    "OAI oai_dc": _PEERS
    | _HARVESTED
    | {"Dublin Core has no place for another form of the name, nor for kinds of relations": (
        "aliases next_edition translations metadata_item"
    )},
    "OAI oai_datacite": _PEERS | _HARVESTED | {"its files are listed, whichever is shown first": "target"},
    "OAI datacite": _PEERS | _HARVESTED | {"its files are listed, whichever is shown first": "target"},
    "OAI oai_openaire": _PEERS
    | _HARVESTED
    | {
        "its files are listed, whichever is shown first": "target",
        "its terms of DataCite are those of 4.1, which knows no translations": "translations",
    },
}  # fmt: skip
"""Which fields a place does not show, by the reason."""


@pytest.mark.parametrize("place", PLACES)
def test_each_field_is_shown_or_named_here(shown: Shown, place: str) -> None:
    hidden = {
        field
        for field in BY_NAME
        if shown.at(place, field, sample=False) == shown.at(place, field, sample=True)
    }
    assert hidden == {field for fields in NOT_SHOWN[place].values() for field in fields.split()}


@pytest.mark.parametrize("place", PLACES)
def test_two_items_that_do_not_differ_look_alike(shown: Shown, place: str) -> None:
    assert shown.at(place, "", sample=False) == shown.at(place, "", sample=True)


_OF_BOTH = {
    "access",
    "contenttype",
    "embargo",
    "file_list_public",
    "licence",
    "metadata",
    "rights",
    "transferable",
}
TAKEN_OVER = {"edition_of": _OF_BOTH | {"language"}, "translation_of": _OF_BOTH}
"""The fields that an edition or a translation takes over in its form."""


@pytest.mark.parametrize("form", FORMS)
def test_what_a_form_takes_over_from_another_item_was_decided(shown: Shown, form: str) -> None:
    taken = {
        field
        for field in BY_NAME
        if shown.at(form, field, sample=False) != shown.at(form, field, sample=True)
    }
    assert taken == TAKEN_OVER[form]


QUERIES = {"metadata": "text=Um+título", "language": "language=pt"}
"""Fields that an item is found by, and a search for each."""
NOT_FOUND_BY = {
    "a name is looked up, not searched for": "aliases next_edition translations metadata_item",
    "it says nothing of what the item is about": (
        "state contenttype transferable url target file_list_public formats access embargo rights licence reason "
        "institution replacement"
    ),
}
"""The others, by the reason."""


def test_an_item_is_found_by_each_field_or_it_is_named_here(shown: Shown) -> None:
    others = {field for fields in NOT_FOUND_BY.values() for field in fields.split()}
    assert {*QUERIES, *others} == BY_NAME.keys()
    for field, query in QUERIES.items():
        assert shown.is_found(quote(query, "=+&"), field)
