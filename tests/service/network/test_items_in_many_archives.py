"""Where an item lives makes no difference to its reader: the same items in one Archive, and divided among several."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.model.answer import ArchiveIdentity, url_list
from ibi.archive.model.item import Holding, MetadataValue
from ibi.identifier.forms import IBIForms
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.vocabulary import ContentType
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect, Resolution
from support.resolver.resolution import archive_of, hear

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY = "1426387214-9164566186556927"
ITEMS = 4
LANGUAGES = ("en", "pt")
MODIFIERS = (
    "", ":", "!", "+", "!:", "!+", "+:", "+!", ":+", "+(pt)", "+(en)", "+(pt):", "!+(pt)", "+(pt)!", "+(en)!:",
    "!+(en):",
)  # fmt: skip


def _name(number: int) -> IBIForms:
    return IBIForms.parse(f"rep archive.example/w/2021/01.01.00.{number:02}")


@st.composite
def _holding(draw: st.DrawFn, number: int) -> Holding:
    links = st.integers(0, ITEMS).map(_name)  # the last one is held nowhere
    itself_metadata = draw(st.sampled_from([False, False, True]))
    return Holding(
        forms=_name(number),
        timestamp="2020-01-01T00:00:00Z",
        url="" if itself_metadata else f"http://far.example/{number}",
        content_type=ContentType.METADATA if itself_metadata else ContentType.DATA,
        language=draw(st.sampled_from(LANGUAGES)),
        next_edition=draw(st.none() | links),
        translations=draw(st.dictionaries(st.sampled_from(LANGUAGES), links, max_size=2)),
        metadata={"title": (MetadataValue(str(number)),)} if itself_metadata else None,
        metadata_item=None if itself_metadata else draw(st.none() | links),
    )


@st.composite
def libraries(draw: st.DrawFn) -> list[Holding]:
    return [draw(_holding(number)) for number in range(ITEMS)]


def outcome(shelves: Sequence[Sequence[Holding]], url: PersistentURL) -> str:
    """Return where a reader is sent, from any Archive that holds the item, or which alert is shown."""
    machine = Resolution(
        url, f"http://r.example{url}", ("192.0.2.1",), LanguagePreference.parse(""), Policy()
    )
    archives = [f"a{number}.example" for number in range(len(shelves))]
    while True:
        for host, shelf in zip(archives, shelves, strict=True):
            service = f"{host}/s/2020/01.01.00.00"
            identity = ArchiveIdentity(host, IBIForms.parse(f"rep {service}"))
            held = {name: holding for holding in shelf for name in holding.names}
            answer = url_list(held.get, identity, machine.query, KEY)
            decided = hear(machine, archive_of(service), answer)
            if decided is not None:
                return _wherever(decided)
        closed = machine.close_round()
        if isinstance(closed, Redirect):
            return _wherever(closed)
        if not isinstance(closed, UrlRequest):
            return "nowhere"


def _wherever(redirect: Redirect) -> str:
    found = urlsplit(redirect.url)
    return f"{found.path}?{found.query}"


@pytest.mark.long
@pytest.mark.proves("CON-02", "SVC-06", "SVC-15", "SVC-16")
@given(
    library=libraries(),
    places=st.lists(st.integers(0, 2), min_size=ITEMS, max_size=ITEMS),
    modifier=st.sampled_from(MODIFIERS),
)
@settings(max_examples=500, deadline=None)
def test_editions_translations_and_metadata_are_found_wherever_their_items_live(
    library: list[Holding], places: list[int], modifier: str
) -> None:
    shelves: list[list[Holding]] = [[], [], []]
    for holding, place in zip(library, places, strict=True):
        shelves[place].append(holding)
    url = PersistentURL.parse(f"/{_name(0).main}{modifier}", "")
    assert outcome(shelves, url) == outcome([library, [], []], url)
