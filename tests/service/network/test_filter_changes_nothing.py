"""A filter spares bytes and changes no outcome (SVC-18): random networks, resolved with it and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.model.answer import ArchiveIdentity, url_list
from ibi.archive.model.item import Holding, MetadataValue
from ibi.identifier.forms import IBIForms, Name
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.model.archive import Archive
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect, Resolution
from support.resolver.resolution import archive_of, hear

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "1426387214-9164566186556927"
ITEMS = 4
LANGUAGES = ("en", "pt", "pt-BR")
MODIFIERS = (
    "", ":", "!", "+", "+(pt)", "+(en)", "!:", "!+", "+:", "+!", ":+", "!+:", "!:+", "+!:", "+:+", "!+:+", "+!:+",
    ":(oai_dc)", "+(pt):", "!+(pt)", "+(pt)!", "+:(oai_dc)",
)  # fmt: skip


class Holder(NamedTuple):
    """One Archive: who it is, and what it holds by name."""

    archive: Archive
    identity: ArchiveIdentity
    holdings: Mapping[Name, Holding]


def _name(number: int) -> IBIForms:
    return IBIForms.parse(f"rep archive.example/w/2021/01.01.00.{number:02}")


@st.composite
def _holding(draw: st.DrawFn, number: int) -> Holding:
    links = st.integers(0, ITEMS).map(_name)  # the last one is held nowhere
    return Holding(
        forms=_name(number),
        timestamp="2020-01-01T00:00:00Z",
        url=f"http://far.example/{number}",
        state=draw(st.sampled_from([ItemState.ORIGINAL, ItemState.ORIGINAL, ItemState.COPY])),
        language=draw(st.none() | st.sampled_from(LANGUAGES)),
        next_edition=draw(st.none() | links),
        translations=draw(st.dictionaries(st.sampled_from(LANGUAGES), links, max_size=2)),
        metadata_item=draw(st.none() | st.none() | links),
        metadata={"title": (MetadataValue(str(number)),)},
    )


def _holder(letter: str, shelf: Mapping[Name, Holding]) -> Holder:
    service = f"{letter}.example/s/2020/01.01.00.00"
    identity = ArchiveIdentity(f"{letter}.example", IBIForms.parse(f"rep {service}"))
    return Holder(archive_of(service), identity, shelf)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Holder, Holder]:
    shelves: tuple[dict[Name, Holding], dict[Name, Holding]] = ({}, {})
    for number in range(ITEMS):
        holding = draw(_holding(number))
        shelves[draw(st.integers(0, 1))][holding.forms.main] = holding
    holders = []
    for letter, shelf in zip("ab", shelves, strict=True):
        holders.append(_holder(letter, shelf))
    return holders[0], holders[1]


def outcome(network: tuple[Holder, Holder], url: PersistentURL, language: str, *, filtered: bool) -> str:
    """Where a reader is sent, or which alert is shown."""
    machine = Resolution(
        url, f"http://r.example{url}", ("192.0.2.1",), LanguagePreference.parse(language), Policy()
    )
    while True:
        for holder in network:
            answer = url_list(holder.holdings.get, holder.identity, machine.query, KEY, filtered=filtered)
            decided = hear(machine, holder.archive, answer)
            if decided is not None:
                return decided.url
        closed = machine.close_round()
        if isinstance(closed, Redirect):
            return closed.url
        if not isinstance(closed, UrlRequest):
            return str(closed.kind)


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize(
    ("original", "end"), [(True, "b.example/-/metadata/{1}"), (False, "a.example/-/metadata/{0}")]
)
def test_of_two_variants_of_a_language_that_in_another_archive_is_found_too(
    filtered: bool, original: bool, end: str
) -> None:
    """The item is a copy in Brazilian Portuguese here; its translation into Portuguese is an original elsewhere."""
    facts: dict[str, Any] = {"timestamp": "2020-01-01T00:00:00Z", "url": "http://far.example/"}
    facts["metadata"] = {"title": (MetadataValue("T"),)}
    links = {"pt": _name(1)}
    copy = Holding(forms=_name(0), state=ItemState.COPY, language="pt-BR", translations=links, **facts)
    elsewhere = Holding(forms=_name(1), **facts)
    network = _holder("a", {copy.forms.main: copy}), _holder("b", {elsewhere.forms.main: elsewhere})
    query = "ibiurl.requireditemstatus=Original" if original else ""
    url = PersistentURL.parse(f"/{_name(0).main}+(pt):", query)
    assert (
        outcome(network, url, "", filtered=filtered) == f"http://{end.format(_name(0).main, _name(1).main)}"
    )


@pytest.mark.proves("SVC-18", "CON-02")
@given(
    network=networks(),
    modifier=st.sampled_from(MODIFIERS),
    language=st.sampled_from(["", "en", "pt", "pt-BR,en;q=0.5", "de"]),
    original=st.booleans(),
)
@settings(max_examples=500, deadline=None)
def test_filtered_and_unfiltered_answers_lead_to_the_same_end(
    network: tuple[Holder, Holder], modifier: str, language: str, original: bool
) -> None:
    query = "ibiurl.requireditemstatus=Original" if original else ""
    url = PersistentURL.parse(f"/{_name(0).main}{modifier}", query)
    ends = {outcome(network, url, language, filtered=filtered) for filtered in (True, False)}
    assert len(ends) == 1


@pytest.mark.proves("SVC-18")
@pytest.mark.parametrize(
    ("preferred", "language", "translations", "metadata_translations"),
    [
        ("pt", "en", {}, {"en": 0, "pt": 0}),
        ("en", None, {"pt": 0}, {"en": 0}),  # the item calls itself its translation
    ],
)
def test_an_item_in_no_language_of_the_reader_is_recognised_with_a_filter_too(
    preferred: str, language: str | None, translations: dict[str, int], metadata_translations: dict[str, int]
) -> None:
    """The first "+" of `!+:+` leads to the item itself, as nothing suits the reader; the last one to it again."""

    def holding(number: int, linked: dict[str, int], **more: Any) -> Holding:
        return Holding(
            forms=_name(number),
            timestamp="2020-01-01T00:00:00Z",
            url=f"http://far.example/{number}",
            state=ItemState.ORIGINAL,
            translations={each: _name(to) for each, to in linked.items()},
            **more,
        )

    held = (
        holding(0, translations, language=language, metadata_item=_name(3)),
        holding(3, metadata_translations),
    )
    holder = _holder("a", {each.forms.main: each for each in held})
    url = PersistentURL.parse(f"/{_name(0).main}!+:+")
    for filtered in (True, False):
        assert (
            outcome((holder, _holder("b", {})), url, preferred, filtered=filtered) == "http://far.example/0"
        )
