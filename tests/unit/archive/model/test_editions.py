"""The line of editions and the translations, as far as one Archive knows them."""

from __future__ import annotations

import pytest

from ibi.archive.model.editions import MOST_EDITIONS, ItemVersion, Timeline, editions, translations
from ibi.archive.model.item import Holding
from ibi.identifier.forms import IBIForms, Name


def _forms(number: int) -> IBIForms:
    return IBIForms.parse(f"rep a.example/b/{2000 + number}/01.02.03.04")


def _holding(number: int, following: int | None = None, **facts: object) -> Holding:
    after = None if following is None else _forms(following)
    return Holding(forms=_forms(number), timestamp="2026-01-01T00:00:00Z", next_edition=after, **facts)  # type: ignore[arg-type]  # a test names its facts


class _Shelf:
    """Items that are held here."""

    def __init__(self, *holdings: Holding) -> None:
        self.holdings = holdings

    def find(self, name: Name) -> Holding | None:
        return next((each for each in self.holdings if each.forms.names(name)), None)

    def earlier(self, forms: IBIForms) -> list[IBIForms]:
        return [h.forms for h in self.holdings if h.next_edition and h.next_edition.shares(forms)]

    def line(self, number: int) -> Timeline:
        holding = self.find(_forms(number).main)
        assert holding is not None
        return editions(holding, self.find, self.earlier)


def _numbers(line: Timeline) -> list[int]:
    return [int(version.date[:4]) - 2000 for version in line.versions]


def test_editions_stand_from_the_oldest_to_the_newest_and_the_item_is_among_them() -> None:
    line = _Shelf(_holding(3), _holding(1, 2), _holding(2, 3)).line(2)
    assert _numbers(line) == [1, 2, 3]
    assert [version.here for version in line.versions] == [False, True, False]
    assert (line.before, line.after, line.ended) == (False, False, True)
    assert line.versions[0].date == "2001-01-02T03:04:00Z"


def test_an_item_without_other_editions_stands_alone() -> None:
    line = _Shelf(_holding(1)).line(1)
    assert (_numbers(line), line.ended) == ([1], True)


def test_an_edition_in_another_archive_is_told_by_its_name_and_what_follows_it_is_not_known() -> None:
    line = _Shelf(_holding(1, 2)).line(1)
    assert line.versions[1] == ItemVersion(_forms(2), None)
    assert not line.ended


def test_several_items_may_be_followed_by_the_same_one() -> None:
    line = _Shelf(_holding(1, 3), _holding(2, 3), _holding(3)).line(3)
    assert _numbers(line) == [1, 2, 3]


def test_a_circle_ends_and_has_no_last_edition() -> None:
    shelf = _Shelf(_holding(1, 2), _holding(2, 3), _holding(3, 1))
    for number in (1, 2, 3):
        line = shelf.line(number)
        assert len(line.versions) <= 2 * MOST_EDITIONS + 1
        assert not line.ended
    assert _numbers(_Shelf(_holding(1, 1)).line(1)) == [1]


def test_of_a_long_line_the_nearest_editions_are_told_and_that_there_are_more() -> None:
    count = 3 * MOST_EDITIONS
    shelf = _Shelf(*(_holding(n, n + 1 if n < count else None) for n in range(1, count + 1)))
    middle = count // 2
    line = shelf.line(middle)
    assert _numbers(line) == list(range(middle - MOST_EDITIONS, middle + MOST_EDITIONS + 1))
    assert (line.before, line.after, line.ended) == (True, True, False)


@pytest.mark.parametrize(
    ("earlier", "later", "numbers", "more"),
    [
        (10, 10, range(1, 22), (False, False, True)),
        (11, 10, range(2, 23), (True, False, True)),
        (10, 11, range(1, 22), (False, True, False)),
    ],
)
def test_ten_editions_are_told_before_an_item_and_ten_after_it(
    earlier: int, later: int, numbers: range, more: tuple[bool, bool, bool]
) -> None:
    last = earlier + 1 + later
    line = _Shelf(*(_holding(n, n + 1 if n < last else None) for n in range(1, last + 1))).line(earlier + 1)
    assert (_numbers(line), (line.before, line.after, line.ended)) == (list(numbers), more)


def test_translations_begin_with_the_item_itself_in_its_language() -> None:
    item = _holding(1, language="en", translations={"pt": _forms(2), "fr": _forms(9)})
    shelf = _Shelf(item, _holding(2))
    listed = translations(item, shelf.find)
    assert [(each.language, each.here, each.holding is None) for each in listed] == [
        ("en", True, False),
        ("fr", False, True),
        ("pt", False, False),
    ]
    assert translations(_holding(3, language="en"), shelf.find) == ()
    alone = _holding(4, translations={"de": _forms(4)})
    assert translations(alone, shelf.find) == ()  # a link to itself only states its language
