"""An item is refused exactly where an answer about it would be longer than resolvers read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from string import ascii_lowercase
from typing import Any

import pytest

from ibi.archive.model.answer import ArchiveIdentity, check_answers, url_list
from ibi.archive.model.item import Holding
from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms, Name, parse_name
from ibi.protocol.messages import UrlRequest
from ibi.protocol.pair_list import Value, write_pairs
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ItemState
from support.checks.limits import meet

HERE = ArchiveIdentity("archive.example", IBIForms.parse("rep archive.example/w/2020/01.01.00.00"))
NAME = "archive.example/w/2021/12.31.00.00"
TOO_MANY = (
    "so many translations or formats are more than a resolver reads: an answer about an item has at most 768 of them, "
    "3072 pairs and 196608 bytes"
)
FEW = 16
"""So many translations and formats are not looked at: they are never too many."""


class Shelf:
    """A catalogue of items at URLs, with so many formats each, which counts how often it is asked."""

    def __init__(self, *names: IBIForms, formats: int = 0) -> None:
        self._names = {forms.main for forms in names}
        self._formats = formats
        self.calls = 0

    def __call__(self, name: Name) -> Holding | None:
        self.calls += 1
        if name not in self._names:
            return None
        forms = IBIForms.parse(f"rep {name}")
        return item(forms, url="http://far.example/", formats=formats(self._formats))


def item(forms: IBIForms | None = None, **facts: Any) -> Holding:
    usual: dict[str, Any] = {"forms": IBIForms.parse(f"rep {NAME}"), "timestamp": "2021-01-01T00:00:00Z"}
    return Holding(**(usual | facts | ({"forms": forms} if forms else {})))


def translations(count: int) -> dict[str, IBIForms]:
    """So many, each in a language of its own."""
    tags = ("".join(letters) for length in (2, 3) for letters in product(ascii_lowercase, repeat=length))
    return {
        tag: IBIForms.parse(f"rep b.example/w/2021/01.01.{number // 60:02}.{number % 60:02}")
        for number, tag in enumerate(islice(tags, count))
    }


def formats(count: int, longer: int = 0) -> dict[str, str]:
    """So many, with URLs that have so many characters in all besides."""
    ends = ["x" * longer, *[""] * (count - 1)][:count]
    return {str(number): f"http://far.example/{end}" for number, end in enumerate(ends)}


def pairs_of(holding: Holding, shelf: Shelf, verbs: str) -> Mapping[str, Value]:
    """The pairs of an answer about it; the shelf has the others."""
    request = UrlRequest((), parse_name(NAME), "", VerbList.parse(verbs))
    own = holding.forms.main
    return url_list(lambda name: holding if name == own else shelf(name), HERE, request, "0").pairs


@pytest.mark.parametrize(
    ("facts", "is_looked_at"),
    [
        ({"translations": translations(FEW), "formats": formats(FEW)}, False),
        ({"translations": translations(FEW + 1)}, True),
        ({"translations": translations(FEW), "formats": formats(FEW + 1)}, True),
        ({"translations": translations(FEW + 1), "state": ItemState.DELETED}, False),
    ],
    ids=["few", "many translations", "many formats", "removed"],
)
def test_only_an_item_with_many_links_is_looked_at(facts: dict[str, Any], is_looked_at: bool) -> None:
    shelf = Shelf()
    check_answers(item(**facts), shelf, HERE)
    assert (shelf.calls > 0) is is_looked_at


def test_an_item_may_have_so_many_translations() -> None:
    """With three names in the answer that are none of them: of the item itself, its Archive and its software."""
    meet(765, lambda count: check_answers(item(translations=translations(count)), Shelf(), HERE), TOO_MANY)


@pytest.mark.parametrize(("count", "looked_up"), [(768, 768), (769, 0)])
def test_thousands_of_translations_are_refused_before_they_are_looked_up(count: int, looked_up: int) -> None:
    shelf = Shelf()
    with pytest.raises(BadItem, match="so many translations"):
        check_answers(item(translations=translations(count)), shelf, HERE)
    assert shelf.calls == looked_up


def test_an_item_may_have_so_many_formats() -> None:
    meet(768, lambda count: check_answers(item(formats=formats(count)), Shelf(), HERE), TOO_MANY)


def test_an_answer_may_have_so_many_pairs() -> None:
    """A translation that is held here has four pairs more than one that is known by its name."""
    links = translations(762)

    def check(held: int) -> None:
        shelf = Shelf(*islice(links.values(), held))
        assert len(pairs_of(item(translations=links), shelf, "GetTranslation")) == 3072 + 4 * (held - 575)
        check_answers(item(translations=links), shelf, HERE)

    meet(575, check, TOO_MANY)


def test_an_answer_may_have_so_many_bytes() -> None:
    usual = len(write_pairs(pairs_of(item(formats=formats(17)), Shelf(), "GetMetadata(none)")))
    meet(
        196_608,
        lambda size: check_answers(item(formats=formats(17, size - usual)), Shelf(), HERE),
        TOO_MANY,
    )


def test_an_archive_that_answers_with_all_it_knows_takes_less_into_an_item() -> None:
    """Of this item, the translations and the formats fit into an answer each, but not into one together."""
    large = item(translations=translations(700), formats=formats(17, 160_000))
    check_answers(large, Shelf(), HERE)
    with pytest.raises(BadItem) as refused:
        check_answers(large, Shelf(), HERE, filtered=False)
    assert str(refused.value) == TOO_MANY


def test_an_item_whose_relations_are_too_many_to_be_followed_is_refused() -> None:
    links = translations(FEW + 700)
    large, shelf = item(translations=links), Shelf(*links.values(), formats=7)
    with pytest.raises(BadItem) as refused:
        check_answers(large, shelf, HERE, filtered=False)
    assert str(refused.value) == TOO_MANY
