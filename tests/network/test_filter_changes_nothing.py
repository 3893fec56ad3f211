"""A filter spares bytes and changes no outcome (SVC-18): random networks, resolved with it and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.answer import ArchiveIdentity, url_list
from ibi.archive.holding import Holding, Statement
from ibi.identifier.forms import IBI, IBIForms, Name, parse_ibi
from ibi.protocol.language import LanguagePreference
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.vocabulary import State
from ibi.resolver.policy import Policy
from ibi.resolver.resolution import AskAgain, Redirect, Resolution

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "1426387214-9164566186556927"
ITEMS = 4
LANGUAGES = ("en", "pt", "pt-BR")
MODIFIERS = (
    "", ":", "!", "+", "+(pt)", "+(en)", "!:", "!+", "+:", "+!", ":+", "!+:", "!:+", "+!:", "+:+", "!+:+", "+!:+",
    ":(oai_dc)", "+(pt):", "!+(pt)", "+(pt)!", "+:(oai_dc)",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    service_ibi: IBI
    url_hosts: tuple[str, ...] = ()


class Keeper(NamedTuple):
    """One Archive: who it is, and what it holds by name."""

    archive: Asked
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
        state=draw(st.sampled_from([State.ORIGINAL, State.ORIGINAL, State.COPY])),
        language=draw(st.none() | st.sampled_from(LANGUAGES)),
        next_edition=draw(st.none() | links),
        translations=draw(st.dictionaries(st.sampled_from(LANGUAGES), links, max_size=2)),
        metadata_item=draw(st.none() | st.none() | links),
        metadata={"title": (Statement(str(number)),)},
    )


@st.composite
def networks(draw: st.DrawFn) -> tuple[Keeper, Keeper]:
    shelves: tuple[dict[Name, Holding], dict[Name, Holding]] = ({}, {})
    for number in range(ITEMS):
        holding = draw(_holding(number))
        shelves[draw(st.integers(0, 1))][holding.forms.main] = holding
    keepers = []
    for letter, shelf in zip("ab", shelves, strict=True):
        service = f"{letter}.example/s/2020/01.01.00.00"
        identity = ArchiveIdentity(f"{letter}.example", IBIForms.parse(f"rep {service}"))
        keepers.append(Keeper(Asked(parse_ibi(service)), identity, shelf))
    return keepers[0], keepers[1]


def outcome(network: tuple[Keeper, Keeper], url: PersistentURL, language: str, *, filtered: bool) -> str:
    """Where a reader is sent, or which alert is shown."""
    machine = Resolution(
        url, f"http://r.example{url}", ("192.0.2.1",), LanguagePreference.parse(language), Policy()
    )
    while True:
        for keeper in network:
            answer = url_list(keeper.holdings.get, keeper.identity, machine.request, KEY, filtered=filtered)
            decided = machine.hear(keeper.archive, answer)
            if decided is not None:
                return decided.url
        closed = machine.close_round()
        if isinstance(closed, Redirect):
            return closed.url
        if not isinstance(closed, AskAgain):
            return str(closed.kind)


@pytest.mark.proves("SVC-18", "CON-02")
@given(
    network=networks(),
    modifier=st.sampled_from(MODIFIERS),
    language=st.sampled_from(["", "en", "pt", "pt-BR,en;q=0.5", "de"]),
    original=st.booleans(),
)
@settings(max_examples=500, deadline=None)
def test_filtered_and_unfiltered_answers_lead_to_the_same_end(
    network: tuple[Keeper, Keeper], modifier: str, language: str, original: bool
) -> None:
    query = "ibiurl.requireditemstatus=Original" if original else ""
    url = PersistentURL.parse(f"/{_name(0).main}{modifier}", query)
    ends = {outcome(network, url, language, filtered=filtered) for filtered in (True, False)}
    assert len(ends) == 1
