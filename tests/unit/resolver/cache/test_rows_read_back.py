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
answers = st.builds(CachedAnswer, bodies, st.just(NOW), moments, moments, moments)
counts = st.integers(0, 2**64 - 1)
positions = st.from_regex(r"[0-9a-f.]{0,36}", fullmatch=True)
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
        rows.write_answer(transaction, held, key, answer, generation)
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
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.booleans(),
    st.from_regex(r"[0-9a-f.]{0,36}", fullmatch=True),
)
def test_the_state_of_an_archive_is_read_as_it_was_written(
    file: SharedFile, generation: int, forgot: int, applying: bool, position: str
) -> None:
    held, state = opened(file), rows.ArchiveState(generation, forgot, applying, position)
    with suppress(Undone), held.environment.begin(write=True) as transaction:
        assert rows.state_of(transaction, held, rows.archive_key(A)) == rows.ArchiveState(held.epoch, 0)
        rows.write_state(transaction, held, A, state)
        assert rows.state_of(transaction, held, rows.key_of(A, "one urlRequest ")) == state
        assert rows.state_of(transaction, held, rows.archive_key(B)) == rows.ArchiveState(held.epoch, 0)
        raise Undone


@FEWER
@given(
    st.lists(st.sampled_from(["two", "three", "four"]), unique=True), st.sampled_from(["one", "two", "three"])
)
def test_to_forget_a_name_forgets_what_is_about_it_and_what_rests_on_it(
    file: SharedFile, rests: list[str], name: str
) -> None:
    held, key, answer = opened(file), rows.key_of(A, "one urlRequest "), CachedAnswer(b"x", NOW, NOW, NOW)
    with suppress(Undone), held.environment.begin(write=True) as transaction:
        for each in (key, rows.key_of(B, "one urlRequest ")):
            generation = rows.state_of(transaction, held, each).generation
            rows.write_answer(transaction, held, each, answer, generation, rests)
        rows.forget(transaction, held, A, name)
        gone = name == "one" or name in rests
        generation = rows.state_of(transaction, held, key).generation
        assert (rows.read_answer(transaction, held, key, generation) is None) is gone
        other = rows.key_of(B, "one urlRequest ")
        assert rows.read_answer(transaction, held, other, held.epoch) == answer
        left, _ = rows.find_left(transaction, held, b"")
        assert len(left) == (len(rests) - (name in rests) if gone else 0)
        rows.clear(transaction, held, [], left, NOW)
        assert rows.find_left(transaction, held, b"") == ([], b"")
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
