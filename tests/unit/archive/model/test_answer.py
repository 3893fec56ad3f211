"""What an Archive answers, worked out from holdings alone."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.model.answer import ArchiveIdentity, url_list
from ibi.archive.model.item import Holding, MetadataValue, StoredFile
from ibi.archive.model.relations import LONGEST_CHAIN
from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, Name, parse_name
from ibi.protocol.extensions.tombstone import Tombstone
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.relation import Relation
from ibi.protocol.url_list import UrlList, find_wanted
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import METADATA_FORMATS, ContentType, ItemState
from support.oracles.url_list_filter import filtered_by_us

KEY = "1426387214-9164566186556927"
HERE = ArchiveIdentity("archive.example", IBIForms.parse("rep archive.example/w/2020/01.01.00.00"))
BASE = "http://archive.example"
WHEN = "2020-01-01T00:00:00Z"


def rep(number: int) -> str:
    return f"archive.example/w/2021/01.01.{number // 60:02}.{number % 60:02}"


def forms(number: int) -> IBIForms:
    return IBIForms.parse(f"rep {rep(number)}")


def item(number: int, **facts: Any) -> Holding:
    usual: dict[str, Any] = {"forms": forms(number), "timestamp": WHEN, "url": f"http://far.example/{number}"}
    return Holding(**(usual | facts))


class Shelf:
    """A catalogue in a dictionary, which counts how often it is asked."""

    def __init__(self, *holdings: Holding) -> None:
        self.by_name = {name: holding for holding in holdings for name in holding.names}
        self.calls = 0

    def __call__(self, name: Name) -> Holding | None:
        self.calls += 1
        return self.by_name.get(name)


def answer(shelf: Shelf, ibi: str, verbs: str = "", path: str = "", *, filtered: bool = True) -> UrlList:
    request = UrlRequest(("192.0.2.1",), parse_name(ibi), path, VerbList.parse(verbs))
    return url_list(shelf, HERE, request, KEY, filtered=filtered)


def names(found: UrlList, word: str) -> set[str]:
    return {name for name in found.pairs if name.partition(".")[0] == word} - {
        "ibi", "ibi.archiveservice", "ibi.platformsoftware",
    }  # fmt: skip


@pytest.mark.proves("MSG-26", "SVC-03", "CON-01", "CON-02")
def test_an_item_that_is_not_held_gets_an_empty_answer() -> None:
    found = answer(Shelf(), rep(1))
    assert not found
    assert found.body() == b""


@pytest.mark.proves("SVC-03", "SVC-04", "SVC-18", "CON-02")
def test_a_simple_question_gets_nine_pairs_and_asks_the_catalogue_once() -> None:
    shelf = Shelf(item(1))
    assert answer(shelf, rep(1).upper()).pairs == {
        "archiveaddress": "archive.example",
        "contenttype": "Data",
        "ibi": ("rep", rep(1)),
        "ibi.archiveservice": ("rep", "archive.example/w/2020/01.01.00.00"),
        "ibi.platformsoftware": (),
        "state": "Original",
        "timestamp": WHEN,
        "url": "http://far.example/1",
        "urlkey": KEY,
    }
    assert shelf.calls == 1


@pytest.mark.proves("SVC-03", "ARC-07", "AMB-55", "AMB-56")
@pytest.mark.parametrize("verbs", ["", "GetTranslation", "GetLastEdition GetMetadata(oai_dc)", "GetFileList"])
def test_a_removed_item_is_answered_with_its_state_whatever_is_asked(verbs: str) -> None:
    shelf = Shelf(item(1, state=ItemState.DELETED, url="", next_edition=forms(2)), item(2))
    pairs = answer(shelf, rep(1), verbs).pairs
    assert set(pairs) == {
        "archiveaddress", "ibi", "ibi.archiveservice", "ibi.platformsoftware", "state", "timestamp",
        "tombstone.replacement",
    }  # fmt: skip
    assert (pairs["state"], pairs["timestamp"]) == ("Deleted", WHEN)
    assert pairs["tombstone.replacement"] == forms(2).words


def test_a_removed_item_is_replaced_by_what_its_librarian_named_not_by_the_next_edition() -> None:
    removed = item(1, state=ItemState.DELETED, url="", next_edition=forms(2), replacement=forms(3))
    assert answer(Shelf(removed), rep(1), "").pairs["tombstone.replacement"] == forms(3).words


def test_what_is_known_of_a_removed_item_is_in_the_answer() -> None:
    metadata = {
        "title": (MetadataValue("Cadastro de nascentes"),),
        "creator": (
            MetadataValue("Reis, Tiago (0000-0002-1825-0097)"),
            MetadataValue("Laboratório de Hidrologia"),
        ),
        "date": (MetadataValue("2024-03"),),
    }
    removed = item(1, state=ItemState.DELETED, url="", metadata=metadata, reason="A pedido\ndos autores")
    pairs = answer(Shelf(removed), rep(1), "").pairs
    assert Tombstone.of(pairs) == Tombstone(
        "Cadastro de nascentes", "Reis, Tiago; Laboratório de Hidrologia", "2024-03", "A pedido dos autores"
    )


@pytest.mark.proves("URL-10", "AMB-42")
def test_verbs_that_form_no_relation_are_an_error_even_for_an_unknown_item() -> None:
    with pytest.raises(ParseError):
        answer(Shelf(), rep(1), "GetMetadata GetLastEdition")


# Last editions


@pytest.mark.proves("SVC-14", "SVC-17", "URL-18")
def test_without_next_edition_the_item_is_its_own_last_edition() -> None:
    found = answer(Shelf(item(1, metadata_item=forms(2)), item(2)), rep(1), filtered=False).pairs
    for word in ("contenttype", "ibi", "state", "timestamp", "url"):
        assert found[f"{word}.lastedition"] == found[word]
        assert found[f"{word}.lastedition.metadata"] == found[f"{word}.metadata"]
    assert "ibi.nextedition" not in found


@pytest.mark.proves("URL-18", "SVC-16")
def test_a_chain_that_is_held_here_is_followed_to_its_end() -> None:
    shelf = Shelf(item(1, next_edition=forms(2)), item(2, next_edition=forms(3)), item(3))
    found = answer(shelf, rep(1), "GetLastEdition").pairs
    assert found["url.lastedition"] == "http://far.example/3"
    assert found["ibi.lastedition"] == ("rep", rep(3))
    assert "ibi.nextedition" not in found
    assert answer(shelf, rep(1), filtered=False).pairs["ibi.nextedition"] == ("rep", rep(2))


@pytest.mark.proves("SVC-16")
def test_a_chain_that_leaves_the_archive_names_the_next_edition_and_the_farthest_known_and_no_last_one() -> (
    None
):
    shelf = Shelf(item(1, next_edition=forms(2)), item(2, next_edition=forms(9)))
    for filtered in (True, False):
        found = answer(shelf, rep(1), "GetLastEdition", filtered=filtered)
        assert found.pairs["ibi.nextedition"] == ("rep", rep(2))
        assert found.pairs["edition.farthest"] == ("rep", rep(9))
        assert answer(shelf, rep(2), "GetLastEdition").pairs["ibi.nextedition"] == ("rep", rep(9))
        assert "edition.farthest" not in answer(shelf, rep(2), "GetLastEdition", filtered=filtered).pairs
        assert not [name for name in found.pairs if ".lastedition" in name]


@pytest.mark.proves("AMB-53")
def test_editions_in_a_circle_end_without_an_answer() -> None:
    shelf = Shelf(item(1, next_edition=forms(2)), item(2, next_edition=forms(1)))
    found = answer(shelf, rep(1), "GetLastEdition")
    assert names(found, "url") == set()
    assert found.pairs["ibi.nextedition"] == ("rep", rep(2))
    assert "edition.farthest" not in found.pairs


@pytest.mark.proves("SVC-16")
def test_a_very_long_chain_is_followed_in_parts() -> None:
    count = LONGEST_CHAIN + 10
    shelf = Shelf(*(item(n, next_edition=forms(n + 1)) for n in range(count)), item(count))
    first = answer(shelf, rep(0), "GetLastEdition")
    assert first.pairs["ibi.nextedition"] == ("rep", rep(1))
    assert first.pairs["edition.farthest"] == ("rep", rep(LONGEST_CHAIN))
    assert shelf.calls <= LONGEST_CHAIN + 2
    second = answer(shelf, rep(LONGEST_CHAIN), "GetLastEdition")
    assert second.pairs["ibi.lastedition"] == ("rep", rep(count))


@pytest.mark.proves("ARC-07")
def test_a_removed_edition_in_the_middle_is_passed_and_at_the_end_has_no_url() -> None:
    gone = {"state": ItemState.DELETED, "url": ""}
    middle = Shelf(item(1, next_edition=forms(2)), item(2, next_edition=forms(3), **gone), item(3))
    assert answer(middle, rep(1), "GetLastEdition").pairs["ibi.lastedition"] == ("rep", rep(3))
    end = Shelf(item(1, next_edition=forms(2)), item(2, **gone))
    found = answer(end, rep(1), "GetLastEdition")
    assert found.pairs["ibi.lastedition"] == ("rep", rep(2))
    assert names(found, "url") == set()


# Translations


@pytest.mark.proves("URL-13", "AMB-47", "SVC-07")
def test_an_item_stands_under_its_own_language_or_under_none() -> None:
    stated = answer(Shelf(item(1, language="en")), rep(1), "GetTranslation")
    assert names(stated, "url") == {"url.translation(en)"}
    silent = answer(Shelf(item(1)), rep(1), "GetTranslation")
    assert names(silent, "url") == {"url.translation"}


@pytest.mark.proves("SVC-06", "SVC-07")
def test_a_translation_without_stated_language_has_no_parameter() -> None:
    shelf = Shelf(item(1, language="en", translations={"": forms(2)}), item(2))
    found = answer(shelf, rep(1), "GetTranslation").pairs
    assert found["url.translation"] == "http://far.example/2"
    assert found["url.translation(en)"] == "http://far.example/1"


@pytest.mark.proves("AMB-47")
def test_a_language_is_served_by_its_varieties_and_a_variety_only_by_itself() -> None:
    shelf = Shelf(item(1, language="en", translations={"pt-BR": forms(2)}), item(2))
    assert names(answer(shelf, rep(1), "GetTranslation(pt)"), "url") == {"url.translation(pt-BR)"}
    other = answer(shelf, rep(1), "GetTranslation(pt-PT)")
    assert names(other, "url") == {"url.translation(en)", "url.translation(pt-BR)"}  # for the reader to know
    assert other.url_key is None


@pytest.mark.proves("SVC-03", "SVC-15")
def test_a_related_item_of_another_archive_is_only_named() -> None:
    shelf = Shelf(item(1, language="en", translations={"pt": forms(9)}, metadata_item=forms(8)))
    found = answer(shelf, rep(1), filtered=False)
    assert found.pairs["ibi.translation(pt)"] == ("rep", rep(9))
    assert found.pairs["ibi.metadata"] == ("rep", rep(8))
    assert not {"url.translation(pt)", "url.metadata", "url.metadata(oai_dc)"} & set(found.pairs)


@pytest.mark.proves("SVC-15")
def test_the_last_edition_of_a_translation_is_followed_too() -> None:
    shelf = Shelf(
        item(1, translations={"pt": forms(2)}), item(2, next_edition=forms(3), language="pt"), item(3)
    )
    found = answer(shelf, rep(1), "GetTranslation(pt) GetLastEdition").pairs
    assert found["url.translation(pt).lastedition"] == "http://far.example/3"


# Metadata

DUBLIN_CORE = {"title": (MetadataValue("A title"),)}


@pytest.mark.proves("URL-17", "SVC-05")
def test_metadata_without_an_item_of_their_own_are_a_page_of_ours() -> None:
    found = answer(Shelf(item(1, metadata=DUBLIN_CORE)), rep(1), filtered=False).pairs
    assert found["url.metadata"] == f"{BASE}/-/metadata/{rep(1)}"
    assert found["url.metadata(oai_dc)"] == f"{BASE}/-/metadata/{rep(1)}?format=oai_dc"
    assert found["contenttype.metadata"] == found["contenttype.metadata(oai_dc)"] == "Metadata"
    assert found["state.metadata"] == "Original"
    assert "ibi.metadata" not in found
    assert found["url.metadata.translation"] == found["url.metadata"]


@pytest.mark.proves("WILD-03", "URL-17")
def test_a_format_that_is_not_offered_has_no_url_and_no_ibi() -> None:
    shelf = Shelf(item(1, metadata_item=forms(2)), item(2, content_type=ContentType.METADATA))
    found = answer(shelf, rep(1), "GetMetadata(oai_dc)")
    assert "url.metadata(oai_dc)" not in found.pairs
    assert "ibi.metadata(oai_dc)" not in found.pairs
    assert (
        not answer(shelf, rep(1), "GetMetadata(BibINPE)")
        .entry(Relation.from_qualifier(".metadata(BibINPE)"))
        .url
    )


RECORD = item(2, url="", content_type=ContentType.METADATA, metadata=DUBLIN_CORE)


@pytest.mark.proves("URL-17", "SVC-08")
def test_an_item_that_is_dublin_core_itself_is_its_own_page_of_metadata() -> None:
    own = answer(Shelf(RECORD), rep(2)).pairs
    assert own["url"] == f"{BASE}/-/metadata/{rep(2)}"
    assert own["contenttype"] == "Metadata"
    pairs = answer(Shelf(RECORD), rep(2), "GetMetadata(oai_dc)").pairs
    assert pairs["url.metadata(oai_dc)"] == f"{BASE}/-/metadata/{rep(2)}?format=oai_dc"


@pytest.mark.proves("URL-17", "SVC-06", "SVC-23")
@pytest.mark.parametrize("own", [None, {"title": (MetadataValue("Of the item"),)}])
def test_the_dublin_core_of_an_item_is_that_of_the_item_that_is_its_metadata(own: Any) -> None:
    described = item(1, metadata_item=forms(2), metadata=own)
    found = answer(Shelf(described, RECORD), rep(1), filtered=False).pairs
    assert found["url.metadata"] == f"{BASE}/-/metadata/{rep(2)}"
    assert found["url.metadata(oai_dc)"] == f"{BASE}/-/metadata/{rep(2)}?format=oai_dc"
    assert found["ibi.metadata(oai_dc)"] == found["ibi.metadata"] == ("rep", rep(2))
    assert found["contenttype.metadata(oai_dc)"] == "Metadata"
    assert found["url.lastedition.metadata(oai_dc)"] == found["url.metadata(oai_dc)"]


@pytest.mark.proves("URL-17", "SVC-06")
def test_the_translation_of_a_record_that_is_an_item_comes_in_the_format_that_was_asked_for() -> None:
    record = replace(RECORD, language="pt", translations={"en": forms(3), "fr": forms(4), "es": forms(9)})
    english = replace(RECORD, forms=forms(3))
    french = item(4, content_type=ContentType.METADATA)  # elsewhere, in whatever format
    shelf = Shelf(item(1, metadata_item=forms(2)), record, english, french)
    found = answer(shelf, rep(1), "GetMetadata(oai_dc) GetTranslation(en)").pairs
    assert found["url.metadata(oai_dc).translation(en)"] == f"{BASE}/-/metadata/{rep(3)}?format=oai_dc"
    for language in ("fr", "es"):
        other = answer(shelf, rep(1), f"GetMetadata(oai_dc) GetTranslation({language})").pairs
        assert f"url.metadata(oai_dc).translation({language})" not in other


@pytest.mark.parametrize("more", [{"files": (StoredFile("a.xml", 1, "aa", "text/xml"),)}, {"url": "http://far.example/2"},
                                  {"content_type": ContentType.DATA}, {"metadata": None}])  # fmt: skip
def test_other_items_are_where_their_files_or_urls_are(more: dict[str, Any]) -> None:
    record = replace(RECORD, **more)
    found = answer(Shelf(item(1, metadata_item=forms(2)), record), rep(1), filtered=False).pairs
    assert "/-/metadata/" not in found["url.metadata"]
    assert "url.metadata(oai_dc)" not in found


def test_a_format_that_the_metadata_name_themselves_comes_before_the_one_that_we_write() -> None:
    record = replace(RECORD, formats={"oai_dc": "http://far.example/dc"})
    found = answer(Shelf(item(1, metadata_item=forms(2)), record), rep(1), "GetMetadata(oai_dc)").pairs
    assert found["url.metadata(oai_dc)"] == "http://far.example/dc"


@pytest.mark.proves("URL-17")
@pytest.mark.parametrize("name", METADATA_FORMATS)
def test_a_format_that_we_write_is_offered_only_to_who_asks_for_it(name: str) -> None:
    shelf = Shelf(item(1, metadata=DUBLIN_CORE, next_edition=forms(3)), item(3, metadata=DUBLIN_CORE))
    qualifier = f".metadata({name})"
    query = "" if name == "linkset" else f"?format={name}"
    page = f"{BASE}/-/{'linkset' if query == '' else 'metadata'}"
    found = answer(shelf, rep(1), f"GetMetadata({name})")
    assert found.pairs[f"url{qualifier}"] == f"{page}/{rep(1)}{query}"
    assert (found.pairs[f"contenttype{qualifier}"], found.pairs[f"state{qualifier}"]) == (
        "Metadata",
        "Original",
    )
    last = answer(shelf, rep(1), f"GetLastEdition GetMetadata({name})").pairs
    assert last[f"url.lastedition{qualifier}"] == f"{page}/{rep(3)}{query}"
    translated = answer(shelf, rep(1), f"GetMetadata({name}) GetTranslation").pairs
    assert translated[f"url{qualifier}.translation"] == f"{page}/{rep(1)}{query}"
    assert not [pair for pair in answer(shelf, rep(1), filtered=False).pairs if f"({name})" in pair]


@pytest.mark.proves("URL-17")
def test_a_format_that_we_write_is_that_of_the_item_also_where_its_metadata_are_an_item() -> None:
    described = item(1, metadata_item=forms(2))
    found = answer(Shelf(described, RECORD), rep(1), "GetMetadata(bibtex)").pairs
    assert found["url.metadata(bibtex)"] == f"{BASE}/-/metadata/{rep(1)}?format=bibtex"
    assert "ibi.metadata(bibtex)" not in found
    linked = replace(RECORD, formats={"bibtex": "http://far.example/bib"})
    found = answer(Shelf(described, linked), rep(1), "GetMetadata(bibtex)").pairs
    assert found["url.metadata(bibtex)"] == "http://far.example/bib"


@pytest.mark.parametrize(
    "shelf",
    [
        Shelf(item(1)),
        Shelf(item(1, metadata_item=forms(9))),
        Shelf(item(1, metadata_item=forms(2)), replace(RECORD, metadata=None)),
        Shelf(item(1, metadata=DUBLIN_CORE, state=ItemState.DELETED)),
    ],
    ids=["nothing is said", "elsewhere", "not Dublin Core", "removed"],
)
def test_where_there_is_nothing_to_write_no_format_is_offered(shelf: Shelf) -> None:
    assert "url.metadata(bibtex)" not in answer(shelf, rep(1), "GetMetadata(bibtex)").pairs


@pytest.mark.proves("ARC-07")
def test_removed_metadata_are_named_and_have_no_url_in_any_format() -> None:
    record = replace(RECORD, state=ItemState.DELETED, formats={"mods": "http://far.example/mods"})
    found = answer(Shelf(item(1, metadata_item=forms(2)), record), rep(1), filtered=False)
    assert found.pairs["ibi.metadata"] == ("rep", rep(2))
    assert names(found, "url") == {"url", "url.lastedition", "url.translation", "url.lastedition.translation",
                                   "url.translation.lastedition"}  # fmt: skip


# The smallest Archive

SMALLEST = replace(HERE, relations=(Relation(),))
ODD_REQUESTS = [
    ("GetMetadata", ""), ("GetLastEdition", ""), ("GetTranslation(pt) GetLastEdition", ""), ("GetFileList", ""),
    ("GetMetadata GetLastEdition", ""), ("", "/absent.pdf"), ("GetTranslation", "/absent.pdf"), ("", "/"),
]  # fmt: skip


@pytest.mark.proves("CON-01", "CON-03", "SVC-07")
@pytest.mark.parametrize(("verbs", "path"), ODD_REQUESTS)
@pytest.mark.parametrize("filtered", [True, False])
def test_the_smallest_archive_has_one_plain_answer_whatever_is_asked(
    verbs: str, path: str, filtered: bool
) -> None:
    shelf = Shelf(item(1, language="en", translations={"pt": forms(2)}, metadata=DUBLIN_CORE), item(2))
    request = UrlRequest(("192.0.2.1",), parse_name(rep(1)), path, VerbList.parse(verbs))
    assert (
        url_list(shelf, SMALLEST, request, KEY, filtered=filtered).pairs
        == answer(Shelf(item(1)), rep(1)).pairs
    )


@pytest.mark.proves("CON-01", "SVC-03")
def test_the_smallest_archive_remembers_removals_and_knows_nothing_of_strangers() -> None:
    shelf = Shelf(item(1, state=ItemState.DELETED, url=""))
    for verbs in ("", "GetLastEdition", "GetMetadata GetLastEdition"):
        request = UrlRequest(("192.0.2.1",), parse_name(rep(1)), "", VerbList.parse(verbs))
        assert url_list(shelf, SMALLEST, request, KEY).state is ItemState.DELETED
        strange = request._replace(ibi=parse_name(rep(2)))
        assert url_list(shelf, SMALLEST, strange, KEY).body() == b""


@pytest.mark.proves("CON-02")
def test_the_smallest_archive_leads_to_a_file_that_it_lists() -> None:
    stored = item(1, url="", files=TWO_FILES, target=TWO_FILES[0].name)
    for path, file in (("/figures/one.png", "figures/one.png"), ("/absent", TWO_FILES[0].name)):
        request = UrlRequest(("192.0.2.1",), parse_name(rep(1)), path)
        assert (
            url_list(Shelf(stored), SMALLEST, request, KEY).pairs["url"] == f"{BASE}/col/{rep(1)}/doc/{file}"
        )


# Files, pages, and which URL is wanted

TWO_FILES = (
    StoredFile("Relat%f3rio%20Final.pdf", 3, "aa", "application/pdf"),
    StoredFile("figures/one.png", 3, "bb", "image/png"),
)


@pytest.mark.proves("SVC-08", "SVC-11", "AMB-31", "URL-19")
def test_a_stored_item_leads_to_its_target_with_the_bytes_of_its_name() -> None:
    stored = item(1, url="", files=TWO_FILES, target=TWO_FILES[0].name)
    url = f"{BASE}/col/{rep(1)}/doc/Relat%f3rio%20Final.pdf"
    assert answer(Shelf(stored), rep(1)).pairs["url"] == url
    assert answer(Shelf(replace(stored, target="", files=TWO_FILES[:1])), rep(1)).pairs["url"] == url


@pytest.mark.proves("SVC-08")
def test_an_item_without_url_and_target_leads_to_its_page() -> None:
    for files in ((), TWO_FILES):
        assert answer(Shelf(item(1, url="", files=files)), rep(1)).pairs["url"] == f"{BASE}/-/item/{rep(1)}"


@pytest.mark.proves("SVC-11")
def test_an_item_known_only_by_its_ibip_has_that_in_its_urls() -> None:
    stored = item(1, forms=IBIForms.parse("ibip LK47B6W/362SFKH"), url="", files=TWO_FILES[:1])
    assert answer(Shelf(stored), "lk47b6w/362sfkh").pairs["url"] == (
        f"{BASE}/col/LK47B6W/362SFKH/doc/Relat%f3rio%20Final.pdf"
    )


@pytest.mark.proves("SVC-08", "SVC-09", "SVC-13", "AMB-39")
@pytest.mark.parametrize(
    ("path", "verbs", "expected"),
    [
        ("/figures/one.png", "", "/col/{}/doc/figures/one.png"),
        ("/Relat%F3rio Final.pdf", "", "/col/{}/doc/Relat%f3rio%20Final.pdf"),
        ("/figures/one.png", "GetLastEdition", "/col/{}/doc/figures/one.png"),
        ("/figures/one.png", "GetFileList", "/-/files/{}"),
        ("", "GetFileList", "/-/files/{}"),
        ("/", "", "/-/item/{}"),
        ("/absent", "", None),
        ("/../figures/one.png", "", None),
        ("/figures", "", None),
    ],
)
def test_a_path_leads_to_a_listed_file_and_nowhere_else(path: str, verbs: str, expected: str | None) -> None:
    found = answer(Shelf(item(1, url="", files=TWO_FILES)), rep(1), verbs, path)
    relation = VerbList.parse(verbs).relation
    assert found.entry(relation).url == (expected and BASE + expected.format(rep(1)))


@pytest.mark.proves("SVC-08")
def test_the_files_of_a_linked_item_are_not_known_here() -> None:
    assert answer(Shelf(item(1)), rep(1), path="/a.pdf").entry().url is None


# The whole against the filtered

LANGUAGES = st.sampled_from(["", "en", "pt", "pt-BR"])
NUMBERS = st.integers(0, 5)


@st.composite
def shelves(draw: st.DrawFn) -> Shelf:
    """Up to five items, linked at random, also to themselves, to absent ones and in circles."""
    holdings = []
    for number in range(draw(st.integers(1, 5))):
        stored = draw(st.booleans())
        removed = draw(st.sampled_from([False, False, False, True]))
        holdings.append(
            item(
                number,
                url="" if stored or removed else f"http://far.example/{number}",
                files=TWO_FILES if stored and not removed else (),
                target=draw(st.sampled_from(["", TWO_FILES[0].name])) if stored and not removed else "",
                state=ItemState.DELETED
                if removed
                else draw(st.sampled_from([ItemState.ORIGINAL, ItemState.COPY])),
                language=draw(LANGUAGES) or None,
                next_edition=draw(st.none() | NUMBERS.map(forms)),
                translations=draw(st.dictionaries(LANGUAGES, NUMBERS.map(forms), max_size=3)),
                metadata_item=draw(st.none() | NUMBERS.map(forms)),
                metadata=draw(st.sampled_from([None, DUBLIN_CORE])),
                formats=draw(st.sampled_from([{}, {"oai_dc": "http://far.example/dc"}])),
            )
        )
    return Shelf(*holdings)


def _verb_lists() -> list[str]:
    editions, languages = (
        ["GetLastEdition"],
        ["GetTranslation", "GetTranslation(pt)", "GetTranslation(pt-BR)"],
    )
    heads = ["", *editions, *languages, *(f"GetLastEdition {t}" for t in languages),
             *(f"{t} GetLastEdition" for t in languages)]  # fmt: skip
    metadata = ["GetMetadata", "GetMetadata(oai_dc)"]
    tails = ["", *metadata, *(f"{m} {t}" for m, t in product(metadata, languages))]
    return [
        f"{head} {tail} {files}".strip()
        for head, tail in product(heads, tails)
        for files in ("", "GetFileList")
    ]


@pytest.mark.proves("SVC-18", "SVC-19")
@given(
    shelf=shelves(),
    verbs=st.sampled_from(_verb_lists()),
    path=st.sampled_from(["", "/figures/one.png", "/absent"]),
    some=st.none() | st.sets(st.sampled_from([".lastedition", ".translation", ".translation(pt)", ".metadata",
                                              ".lastedition.metadata(oai_dc)", ".metadata.translation"]), min_size=1),
)  # fmt: skip
@settings(max_examples=4 * settings().max_examples, deadline=None)
def test_an_answer_worked_out_for_a_request_is_the_full_one_filtered(
    shelf: Shelf, verbs: str, path: str, some: set[str] | None
) -> None:
    relations = None if some is None else tuple(map(Relation.from_qualifier, ["", *sorted(some)]))
    here = replace(HERE, relations=relations)
    request = UrlRequest(("192.0.2.1",), parse_name(rep(0)), path, VerbList.parse(verbs))
    full = url_list(shelf, here, request, KEY, filtered=False)
    assert UrlList.read(full.body()) == full
    expected = filtered_by_us(full, request.verbs, shelf(request.ibi))
    assert url_list(shelf, here, request, KEY).pairs == expected


def test_each_kind_of_pair_in_a_whole_answer_is_in_the_answer_to_some_request() -> None:
    """A pair of our own that only the whole answer had would reach no resolver."""
    formats = {"oai_dc": "http://far.example/dc"}
    first = item(
        0, next_edition=forms(1), translations={"pt": forms(3)}, metadata_item=forms(4), formats=formats
    )
    removed = item(5, state=ItemState.DELETED, url="", reason="By mistake", replacement=forms(0))
    shelf = Shelf(
        first, item(1, next_edition=forms(2)), item(2, next_edition=forms(9)), item(3), item(4), removed
    )

    def kinds(*, filtered: bool) -> set[str]:
        return {
            re.sub(r"(\.(lastedition|translation|metadata)(\(.*?\))?)+$", "", name)
            for number, verbs in product(range(6), _verb_lists())
            for name in answer(shelf, rep(number), verbs, filtered=filtered).pairs
        }

    whole = kinds(filtered=False)
    assert {"ibi", "edition.farthest", "tombstone.reason"} <= whole
    assert whole - kinds(filtered=True) == set()


# What a reader at the Archive's own address gets


@pytest.mark.proves("RES-07", "URL-11", "URL-12")
@pytest.mark.parametrize(
    ("verbs", "accepted", "qualifier"),
    [
        ("GetTranslation", "pt-BR,en;q=0.5", ".translation(pt)"),
        ("GetTranslation", "en", ".translation(en)"),
        ("GetTranslation", "ja", ".translation(en)"),
        ("GetTranslation", "", ".translation(en)"),
        ("GetTranslation(pt)", "en", ".translation(pt)"),
        ("GetTranslation(fr)", "en", None),
        ("", "pt", ""),
    ],
)
def test_a_reader_at_the_archive_gets_the_language_that_fits(
    verbs: str, accepted: str, qualifier: str | None
) -> None:
    shelf = Shelf(item(1, language="en", translations={"pt": forms(2)}), item(2, language="pt"))
    found = answer(shelf, rep(1), verbs)
    preference = LanguagePreference.parse(accepted)
    chosen = find_wanted(found, VerbList.parse(verbs).relation, preference, found.relations())
    assert (chosen.relation.qualifier if chosen else None) == qualifier
