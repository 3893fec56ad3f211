"""What an entry of the evidence tells the hints, kind by kind, and what of it may not be stored twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from ibi.identifier.forms import IBIForms
from ibi.resolver.cache.hints import HintCache, HolderHint
from ibi.resolver.evidence.chain import Entry
from ibi.resolver.evidence.reading import moved_names, put_holder, rebuild_hints

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

REP, IBIP = "dpi.inpe.br/banon-pc@80/2008/04.28.18.07", "8JMKD3MGP8W/35MMLL8"
BOTH = f"rep {REP} ibip {IBIP}"
ONE, TWO, THREE = (f"{name}.example/w/2020/01.01.00.00" for name in ("one", "two", "three"))


def entry(what: str, **facts: str | int) -> Entry:
    return Entry(1, "2026-01-01T00:00:00.000Z", what, facts, "0" * 64, "0" * 64)


def moved(origin: str, to: str, ibi: str = BOTH) -> Entry:
    return entry("migrated", ibi=ibi, **{"from": origin, "to": to})


class EntriesCase(NamedTuple):
    """Entries, which of them name a holder, and what is known afterwards of the name `rep` and of the other."""

    entries: Sequence[Entry]
    named: Sequence[bool]
    rep: HolderHint = HolderHint(None, None)
    ibip: HolderHint = HolderHint(None, None)
    removed: Sequence[str] = ()
    """The Archives that have said that they removed it."""


HELD, DISPUTED = HolderHint(None, ONE), HolderHint(None, "")
FIRST = entry("original", ibi=BOTH, archive=ONE.upper())
REMOVED = entry("deleted", ibi=BOTH, archive=ONE)
MOVED = HolderHint(TWO, TWO)
CASES = {
    "an original": EntriesCase([FIRST], [True], HELD, HELD),
    "a later original": EntriesCase(
        [FIRST, entry("original", ibi=BOTH, archive=TWO)], [True, True], HELD, HELD
    ),
    "an original under one name": EntriesCase(
        [entry("original", ibi=f"rep {REP}", archive=ONE)], [True], HELD
    ),
    "a move": EntriesCase([FIRST, moved(ONE, TWO)], [True, True], MOVED, MOVED),
    "a move of what nobody had": EntriesCase([moved(ONE, TWO)], [True], MOVED, MOVED),
    "a move from another": EntriesCase([FIRST, moved(THREE, TWO)], [True, True], HELD, HELD),
    "a move under one name": EntriesCase([FIRST, moved(ONE, TWO, f"ibip {IBIP}")], [True, True], HELD, MOVED),
    "a move of what is disputed": EntriesCase(
        [FIRST, entry("alert", kind="suspect-originals", ibi=REP, disputed=REP), moved(ONE, TWO)],
        [True, False, True],
        HolderHint(TWO, ""),
        MOVED,
    ),
    "a removal": EntriesCase(
        [FIRST, REMOVED],
        [True, False],
        HolderHint(None, ONE, removed=True),
        HolderHint(None, ONE, removed=True),
        removed=[ONE],
    ),
    "a removal by another": EntriesCase(
        [FIRST, entry("deleted", ibi=BOTH, archive=TWO)], [True, False], HELD, HELD, removed=[TWO]
    ),
    "a removal by one that never had it": EntriesCase([REMOVED], [False], removed=[ONE]),
    "an alert of two originals": EntriesCase(
        [FIRST, entry("alert", kind="suspect-originals", ibi=REP.upper(), archives=ONE)],
        [True, False],
        DISPUTED,
        HELD,
    ),
    "one that names what is disputed": EntriesCase(
        [FIRST, entry("alert", kind="suspect-originals", ibi=REP, disputed=IBIP)],
        [True, False],
        HELD,
        DISPUTED,
    ),
    "one of nothing": EntriesCase(
        [FIRST, entry("alert", kind="suspect-originals", ibi=REP, disputed="")], [True, False], HELD, HELD
    ),
    "another alert": EntriesCase(
        [FIRST, entry("alert", kind="not-found", ibi=REP, disputed=REP)], [True, False], HELD, HELD
    ),
    "no names": EntriesCase(
        [
            entry("original", ibi="x", archive=ONE),
            entry("original", archive=ONE),
            entry("original", ibi=BOTH),
        ],
        [False, False, False],
    ),
    "another entry": EntriesCase([entry("excluded", ibi=BOTH, archive=ONE)], [False]),
}


@pytest.fixture
def hints(tmp_path: Path) -> Iterator[HintCache]:
    hints = HintCache(tmp_path / "hints")
    yield hints
    hints.close()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_entry_tells_who_holds_an_original(hints: HintCache, case: EntriesCase) -> None:
    assert [put_holder(hints, each) for each in case.entries] == case.named
    assert (hints.of(REP), hints.of(IBIP)) == (case.rep, case.ibip)
    removers = [service for service in (ONE, TWO, THREE) if hints.says_removed(IBIP, service)]
    assert removers == list(case.removed)


def test_which_names_have_moved() -> None:
    assert list(moved_names(moved(ONE, TWO))) == list(IBIForms.parse(BOTH).canonicals)
    others = [FIRST, REMOVED, moved(ONE, TWO, "x"), entry("migrated"), entry("alert", ibi=BOTH)]
    assert [list(moved_names(each)) for each in others] == [[], [], [], [], []]


def test_hints_that_are_made_anew_wait_for_the_disk_now_and_then(
    hints: HintCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed, read = list[int](), 0

    def entries() -> Iterator[Entry]:
        nonlocal read
        for number in range(9_000):
            read = number + 1
            yield FIRST if number == 7 else entry("excluded")

    monkeypatch.setattr(hints, "flush", lambda: flushed.append(read))
    assert rebuild_hints(hints, entries()) == 1
    assert (flushed, hints.is_complete()) == ([4_000, 8_000, 9_000], True)
