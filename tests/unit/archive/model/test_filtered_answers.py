"""Each request about each of a few items that are linked in all ways: the answer is the full one, filtered."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from ibi.archive.model.answer import ArchiveIdentity, url_list
from ibi.archive.model.item import Holding, MetadataValue, StoredFile
from ibi.identifier.forms import IBIForms, Name
from ibi.protocol.messages import UrlRequest
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType
from support.oracles.url_list_filter import filtered_by_us

HERE = ArchiveIdentity("archive.example", IBIForms.parse("rep archive.example/w/2020/01.01.00.00"))
METADATA = {"title": (MetadataValue("A title"),)}
FILES = (StoredFile("a.txt", 1, "", "text/plain"),)


def forms(number: int) -> IBIForms:
    return IBIForms.parse(f"rep archive.example/w/2021/01.01.00.{number:02}")


def item(number: int, **facts: Any) -> Holding:
    usual: dict[str, Any] = {"forms": forms(number), "timestamp": f"2020-01-01T00:00:{number:02}Z"}
    return Holding(**(usual | facts))


ITEMS = [
    # An edition in English with translations, one of which is elsewhere, and the next edition here.
    item(0, language="en", next_edition=forms(1), translations={"pt": forms(2), "fr": forms(20)}, files=FILES,
         target="a.txt", metadata=METADATA),
    # The last edition, which has two Portuguese translations, and is described by another item.
    item(1, language="en", translations={"pt-PT": forms(3), "pt-BR": forms(4)}, files=FILES, metadata_item=forms(5)),
    # A translation whose next edition is elsewhere.
    item(2, language="pt", translations={"en": forms(0)}, next_edition=forms(21), url="http://far.example/2"),
    item(3, language="pt-PT", translations={"en": forms(1)}, url="http://far.example/3", metadata=METADATA),
    item(4, language="pt-BR", translations={"": forms(1)}, url="http://far.example/4", metadata_item=forms(22)),
    # Metadata with formats, and a translation of them.
    item(5, content_type=ContentType.METADATA, metadata=METADATA, formats={"marc21": "http://far.example/marc"},
         translations={"pt": forms(6)}),
    item(6, content_type=ContentType.METADATA, language="pt", url="http://far.example/6"),
    # Two that follow each other in a circle, and one whose chain ends elsewhere after two steps.
    item(7, next_edition=forms(8), url="http://far.example/7"),
    item(8, next_edition=forms(7), translations={"pt": forms(2)}, url="http://far.example/8"),
    item(9, next_edition=forms(2), url="http://far.example/9"),
]  # fmt: skip
BY_NAME: dict[Name, Holding] = {each.forms.main: each for each in ITEMS}
EDITION = "GetLastEdition"
LANGUAGES = ["GetTranslation", "GetTranslation(pt)", "GetTranslation(pt-BR)", "GetTranslation(de)"]
FORMATS = ["GetMetadata", "GetMetadata(oai_dc)", "GetMetadata(marc21)"]
HEADS = ["", EDITION, *LANGUAGES, *(f"{EDITION} {each}" for each in LANGUAGES), f"{LANGUAGES[1]} {EDITION}"]
TAILS = ["", *FORMATS, f"{FORMATS[0]} {LANGUAGES[1]}", f"{FORMATS[1]} {LANGUAGES[0]}"]
VERBS = [" ".join(filter(None, each)) for each in product(HEADS, TAILS)]


def lookup(name: Name) -> Holding | None:
    return BY_NAME.get(name)


@pytest.mark.parametrize("number", range(len(ITEMS)))
def test_each_answer_is_the_full_one_filtered(number: int) -> None:
    """Also about one file, which is there or not."""
    name = forms(number).main
    wanted = {"": VERBS, "a.txt": HEADS, "absent": HEADS}
    for path, verbs in ((path, VerbList.parse(each)) for path, some in wanted.items() for each in some):
        whole = url_list(lookup, HERE, UrlRequest((), name, path, VerbList.parse("")), "1-1", filtered=False)
        found = url_list(lookup, HERE, UrlRequest((), name, path, verbs), "1-1")
        assert found.pairs == filtered_by_us(whole, verbs, lookup(name)), (path, verbs)
