"""Rows of the cache files are read as they were written; a damaged row is none, and never an error."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.resolver.cache import rows
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.hints import HintCache, HolderHint
from ibi.resolver.cache.redirects import (
    PendingRedirect,
    SourceAnswer,
    acknowledgment_of,
    put_redirect,
    read_redirect,
)
from ibi.resolver.cache.rows import CachedAnswer
from ibi.resolver.cache.store import SharedFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.resolver.cache.store import Opened

FEWER = settings(max_examples=max(1, settings().max_examples // 3))
NOW = 1_700_000_000.0
A, B = "a.example/w/2020/01.01.00.00", "b.example/w/2020/01.01.00.00"
bodies = st.binary(max_size=20) | st.builds(
    bytes.__mul__, st.binary(min_size=1, max_size=3), st.integers(1_000, 5_000)
)
moments = st.floats(NOW, NOW + 10**6)
answers = st.builds(CachedAnswer, bodies, st.just(NOW), moments, moments)
questions = st.builds("{} urlRequest {}".format, st.sampled_from(["one", "two"]), st.text("/ab", max_size=3))


class Undone(Exception):
    """Ends a transaction without its changes."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedFile]:
    """A file that stays empty: no transaction of a test is kept."""
    made = SharedFile(tmp_path_factory.mktemp("rows") / "answers", 1 << 20, rows.TABLES)
    yield made
    made.close()


def opened(file: SharedFile) -> Opened:
    assert file.opened is not None
    return file.opened


@FEWER
@given(answer=answers, question=questions, generation=st.integers(0, 2**64 - 1), data=st.data())
def test_an_answer_is_read_as_it_was_written_and_damaged_none(
    file: SharedFile, answer: CachedAnswer, question: str, generation: int, data: st.DataObject
) -> None:
    held, key = opened(file), rows.key_of(A, question)
    with suppress(Undone), held.environment.begin(write=True) as transaction:
        rows.write_answer(transaction.cursor(held.tables[0]), key, answer, generation)
        assert rows.read_answer(transaction, held, key, generation) == answer
        assert rows.read_answer(transaction, held, key, (generation + 1) % 2**64) is None
        assert rows.read_answer(transaction, held, rows.key_of(B, question), generation) is None
        cursor = transaction.cursor(held.tables[0])
        row_key, row = data.draw(st.sampled_from(list(cursor.iternext())))
        transaction.put(row_key, damaged(data, row), db=held.tables[0])
        with suppress(struct.error):  # which the cache takes for none, below
            assert rows.read_answer(transaction, held, key, generation) is None
        raise Undone


def damaged(data: st.DataObject, row: bytes) -> bytes:
    """A row with another byte, or cut."""
    at = data.draw(st.integers(0, len(row) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != row[at]))
    return data.draw(st.sampled_from([row[:at] + bytes([other]) + row[at + 1 :], row[:at]]))


@FEWER
@given(
    answer=answers,
    other=answers,
    outcome=st.integers(0, 255),
    response=st.binary(max_size=60),
    acknowledgment=st.binary(max_size=60),
    data=st.data(),
)
def test_a_redirect_is_read_as_it_was_written_and_damaged_none(
    file: SharedFile,
    answer: CachedAnswer,
    other: CachedAnswer,
    outcome: int,
    response: bytes,
    acknowledgment: bytes,
    data: st.DataObject,
) -> None:
    held = opened(file)
    sources = tuple(SourceAnswer(rows.key_of(x, "one "), each) for x, each in ((A, answer), (B, other)))
    with suppress(Undone), held.environment.begin(write=True) as transaction:
        for source in sources:
            cursor = transaction.cursor(held.tables[0])
            rows.write_answer(cursor, source.key, source.answer, held.epoch)
        waiting = PendingRedirect(outcome, sources, response, acknowledgment)
        assert put_redirect(transaction, held, b"a key", waiting)
        row = transaction.get(b"a key", b"", db=held.tables[2])
        until = min(answer.fresh_until, other.fresh_until)
        found = read_redirect(row, until - 1, NOW)
        assert found is not None
        assert (found[0][0], found[0][1], found[0][3]) == (response, outcome, row)
        assert found[1] == b"".join(
            struct.pack(">12sQ", rows.archive_key(archive), held.epoch) for archive in (A, B)
        )
        assert acknowledgment_of(row) == acknowledgment
        assert read_redirect(row, until, NOW) is None
        assert read_redirect(row, NOW, NOW - 1) is None
        changed = damaged(data, row)
        with suppress(struct.error):
            again = read_redirect(changed, until - 1, NOW)
            assert again is None or (again[0][:2], again[1]) == (found[0][:2], found[1])
            assert again is None or acknowledgment_of(changed) is None
        raise Undone


def spoil(path: Path, tables: tuple[str, ...], data: st.DataObject) -> None:
    """Damage one row of each table."""
    environment = lmdb.Environment(str(path), map_size=1 << 30, max_dbs=8)
    for table in tables:
        db = environment.open_db(table.encode())
        with environment.begin(write=True, db=db) as transaction:
            key, row = data.draw(st.sampled_from(list(transaction.cursor().iternext())))
            transaction.put(key, damaged(data, row))
    environment.close()


@settings(max_examples=5)
@given(bodies=st.dictionaries(questions, bodies, min_size=1, max_size=3), data=st.data())
def test_a_cache_of_answers_keeps_them_when_it_is_opened_again(
    tmp_path_factory: pytest.TempPathFactory, bodies: dict[str, bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("kept") / "answers"
    first = AnswerCache(path, lambda: NOW)
    for question, body in bodies.items():
        first.put(A, question, body, 60.0)
    waiting = {question: first.answer(A, question) for question in bodies}
    first.close()
    again = AnswerCache(path, lambda: NOW)
    assert {question: again.answer(A, question) for question in bodies} == waiting
    assert {question: each.body for question, each in waiting.items() if each} == bodies
    again.close()
    spoil(path, ("answers",), data)
    last = AnswerCache(path, lambda: NOW)
    left = {question: last.answer(A, question) for question in bodies}
    assert list(left.values()).count(None) == 1
    assert all(each in {None, waiting[question]} for question, each in left.items())
    last.close()


@settings(max_examples=5)
@given(
    reported=st.dictionaries(
        st.text("abc/", min_size=1, max_size=4),
        st.builds(
            HolderHint,
            st.sampled_from([A, B]),
            st.sampled_from([None, A, B, ""]),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    data=st.data(),
)
def test_a_cache_of_hints_keeps_them_when_it_is_opened_again(
    tmp_path_factory: pytest.TempPathFactory, reported: dict[str, HolderHint], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("kept") / "hints"
    first = HintCache(path)
    for name, each in reported.items():
        first.remember([name], likely=each.likely, original=each.original or None, early=each.early)
        if each.original == "":
            first.dispute([name])
        if each.removed:
            first.removed([name], each.original or A)
    waiting = {name: first.of(name) for name in reported}
    first.close()
    again = HintCache(path)
    assert {name: again.of(name) for name in reported} == waiting
    for name, each in reported.items():
        holder = A if each.removed and each.original is None else each.original
        assert waiting[name] == each._replace(original=holder)
    again.close()
    spoil(path, ("hints", "services"), data)
    last = HintCache(path)
    for name in reported:
        last.of(name)
        last.first_holder(name)
    last.remember(reported, likely=B)
    last.flush()
    last.close()
