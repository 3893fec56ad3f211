"""The rows of the answer cache in a real file: which are written, found, forgotten and dropped, and no others."""

from __future__ import annotations

from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

import pytest

from ibi.resolver.cache import rows
from ibi.resolver.cache.rows import TABLES, ArchiveState, CachedAnswer, key_of, name_digest
from ibi.resolver.cache.store import SharedFile, drop_stretch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import lmdb

    from ibi.resolver.cache.store import Opened

A, B = "a.example/w/2020/01.01.00.00", "b.example/w/2020/01.01.00.00"
ONE, TWO = "x.example/1/2020/01.01.00.00", "x.example/2/2020/01.01.00.00"


class Rows:
    """A file, and the transaction that writes to it; an answer is known by its Archive and its question."""

    def __init__(self, opened: Opened, transaction: lmdb.Transaction[bytes]) -> None:
        self.opened, self.transaction = opened, transaction

    def stored(self, table: int = 0) -> list[bytes]:
        return list(self.transaction.cursor(self.opened.tables[table]).iternext(values=False))

    def generation(self, archive: str) -> int:
        return self.state(archive).generation - self.opened.epoch

    def state(self, archive: str) -> ArchiveState:
        return rows.state_of(self.transaction, self.opened, rows.archive_key(archive))

    def write(
        self,
        archive: str,
        question: str,
        body: bytes = b"x",
        until: float = 10.0,
        rests: tuple[str, ...] = (),
    ) -> bool:
        answer = CachedAnswer(body, 1.0, 5.0, until, 7.0)
        generation = self.state(archive).generation
        key = key_of(archive, question)
        return rows.write_answer(self.transaction, self.opened, key, answer, generation, rests)

    def read(self, archive: str, question: str) -> CachedAnswer | None:
        generation = self.state(archive).generation
        return rows.read_answer(self.transaction, self.opened, key_of(archive, question), generation)

    def held(self, *answers: tuple[str, str]) -> list[bool]:
        return [self.read(*each) is not None for each in answers]


@contextmanager
def writing(folder: Path) -> Iterator[Rows]:
    file = SharedFile(folder / "answers", 16 << 20, TABLES)
    assert file.opened is not None
    with file.opened.environment.begin(write=True) as transaction:
        yield Rows(file.opened, transaction)
    file.close()


def test_keys_are_digests_of_archive_name_and_question_and_of_what_an_answer_rests_on(tmp_path: Path) -> None:
    def digest(text: str) -> bytes:
        return blake2b(text.encode(), digest_size=12).digest()

    question = f"{ONE} GetMetadata /x"
    key = digest(A) + digest(ONE) + digest(question)
    assert (key_of(A, question), name_digest(ONE)) == (key, digest(ONE))
    with writing(tmp_path) as made:
        made.write(A, question, rests=(TWO, B))
        assert made.stored() == [key + b"\0"]
        assert made.stored(2) == sorted(digest(A) + digest(name) + key[12:] for name in (TWO, B))


@pytest.mark.parametrize(
    ("length", "parts"), [(0, 1), (3_952, 1), (3_953, 2), (7_952, 2), (7_953, 3), (262_144, 66)]
)
def test_an_answer_takes_as_many_rows_as_it_needs_and_leaves_none_of_a_longer_one(
    tmp_path: Path, length: int, parts: int
) -> None:
    body = bytes(range(256)) * 1_025
    with writing(tmp_path) as made:
        made.write(A, f"{TWO} ", b"other")
        assert made.write(A, f"{ONE} ", body[:length]) is False
        key = key_of(A, f"{ONE} ")
        assert [each for each in made.stored() if each.startswith(key)] == [
            key + bytes([n]) for n in range(parts)
        ]
        assert made.read(A, f"{ONE} ") == CachedAnswer(body[:length], 1.0, 5.0, 10.0, 7.0)
        assert made.write(A, f"{ONE} ", b"short") is True
        assert [each for each in made.stored() if each.startswith(key)] == [key + b"\0"]
        assert made.read(A, f"{TWO} ") == CachedAnswer(b"other", 1.0, 5.0, 10.0, 7.0)


def test_a_row_with_a_changed_byte_or_length_is_no_answer(tmp_path: Path) -> None:
    with writing(tmp_path) as made:
        made.write(A, f"{ONE} ", b"x" * 4_100)
        first, second = made.stored()
        answers, head = made.opened.tables[0], made.transaction.get(first, db=made.opened.tables[0])
        assert head is not None
        part = made.transaction.get(second, db=answers)
        assert part is not None
        changed = {
            first: [
                head[:40] + size.to_bytes(4, "big") + head[44:]
                for size in (0, 4_099, 4_101, 2_000_000, 2**32 - 1)
            ],
            second: [b"", part[:-1], part + b"x", b"y" + part[1:]],
        }
        for key, texts in changed.items():
            for text in (*texts, None):
                kept = made.transaction.get(key, db=answers)
                if text is None:
                    made.transaction.delete(key, db=answers)
                else:
                    made.transaction.put(key, text, db=answers)
                assert made.read(A, f"{ONE} ") is None
                made.transaction.put(key, kept or b"", db=answers)
        assert made.read(A, f"{ONE} ") is not None


def test_to_forget_a_name_drops_what_is_about_it_or_rests_on_it_of_its_archive_alone(tmp_path: Path) -> None:
    first, other, resting, elsewhere = (A, f"{ONE} "), (A, f"{ONE} x"), (A, f"{TWO} "), (B, f"{ONE} ")
    with writing(tmp_path) as made:
        for each in (first, other, elsewhere):
            made.write(*each)
        made.write(*resting, rests=(ONE, "third"))
        rows.forget(made.transaction, made.opened, A, ONE)
        assert made.held(first, other, resting, elsewhere) == [False, False, False, True]
        assert made.stored() == [key_of(*elsewhere) + b"\0"]
        assert len(made.stored(2)) == 1  # that on the third name, until it is swept
        assert made.state(A) == ArchiveState(made.opened.epoch, made.transaction.id())
        assert made.state(B) == ArchiveState(made.opened.epoch, 0)
        rows.forget(made.transaction, made.opened, B, None)
        assert (made.held(elsewhere), made.generation(B), len(made.stored())) == ([False], 1, 1)


@pytest.mark.parametrize("what", ["about", "rests"])
def test_of_a_name_with_too_many_answers_its_whole_archive_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    for number, generation in ((2, 0), (3, 1), (4, 1)):
        with writing(tmp_path / str(number)) as made, monkeypatch.context() as patch:
            for each in range(number):
                if what == "about":
                    made.write(A, f"{ONE} {each}")
                else:
                    made.write(A, f"{TWO}{each} ", rests=(ONE,))
            made.write(A, f"{TWO} ")
            patch.setattr(rows, "MOST_OF_A_NAME", 3)
            rows.forget(made.transaction, made.opened, A, ONE)
            assert (number, made.generation(A)) == (number, generation)
            assert made.held((A, f"{TWO} ")) == [not generation]


def test_what_will_never_be_used_is_found_some_rows_at_a_time_and_dropped_if_it_is_still_so(
    tmp_path: Path,
) -> None:
    with writing(tmp_path) as made:
        for number in range(600):
            made.write(
                A, f"{ONE} {number}", b"x" * (4_100 if number % 50 == 0 else 1), until=10.0 + number % 2
            )
        made.write(B, f"{ONE} ")
        rows.forget(made.transaction, made.opened, B, None)
        over, start = rows.find_over(made.transaction, made.opened, b"", 10.0)
        more, end = rows.find_over(made.transaction, made.opened, start, 10.0)
        assert start == made.stored()[500]
        assert end == b""
        expired = sorted(
            [*(key_of(A, f"{ONE} {number}") for number in range(0, 600, 2)), key_of(B, f"{ONE} ")]
        )
        assert sorted([*over, *more]) == expired
        made.write(A, f"{ONE} 0", until=11.0)  # it has come again
        rows.clear(made.transaction, made.opened, [*over, *more, b"\0" * 36], [], 10.0)
        kept = {key_of(A, f"{ONE} {number}") for number in range(600) if number % 2 or not number}
        assert {key[:36] for key in made.stored()} == kept
        assert len(made.stored()) == len(kept)
        assert rows.find_over(made.transaction, made.opened, b"", 9.9) == ([], b"")
        assert len(rows.find_over(made.transaction, made.opened, b"", 11.0)[0]) == len(kept)


def test_what_rested_on_answers_that_are_gone_is_dropped(tmp_path: Path) -> None:
    with writing(tmp_path) as made:
        for number in range(300):
            made.write(A, f"{ONE} {number}", rests=(TWO, B), until=10.0 + number % 2)
        assert rows.find_left(made.transaction, made.opened, b"")[0] == []
        over, _ = rows.find_over(made.transaction, made.opened, b"", 10.0)
        rows.clear(made.transaction, made.opened, over, [], 10.0)
        left, start = rows.find_left(made.transaction, made.opened, b"")
        more, end = rows.find_left(made.transaction, made.opened, start)
        assert (len(left) + len(more), start, end) == (300, made.stored(2)[500], b"")
        made.write(A, f"{ONE} 0", rests=(TWO,))
        rows.clear(made.transaction, made.opened, [], [*left, *more], 10.0)
        key = key_of(A, f"{ONE} 0")[12:]
        found = [each for each in made.stored(2) if each[24:] == key]
        assert (len(made.stored(2)), len(found)) == (302, 2)


def test_where_the_file_is_full_adjacent_rows_are_dropped_and_no_part_of_an_answer_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(tmp_path) as made:
        for number in range(20):
            made.write(A, f"{ONE} {number}", b"x" * 9_000)
        keys = made.stored()
        monkeypatch.setattr("os.urandom", lambda size: keys[30][:size])
        drop_stretch(made.transaction.cursor(made.opened.tables[0]), 36, 4)
        assert made.stored() == [*keys[:30], *keys[34:]]
        monkeypatch.setattr("os.urandom", lambda size: b"\xff" * size)  # beyond the last: from the first on
        drop_stretch(made.transaction.cursor(made.opened.tables[0]), 36, 2)
        assert made.stored() == [*keys[2:30], *keys[34:]]
        monkeypatch.setattr(
            "os.urandom", lambda size: keys[51][:size]
        )  # at the end it goes on at the first, which counts as one
        drop_stretch(made.transaction.cursor(made.opened.tables[0]), 36, 12)
        assert made.stored() == [*keys[4:30], *keys[34:51]]
        rows.evict(made.transaction, made.opened)
        assert made.stored() == []
        rows.evict(made.transaction, made.opened)
        assert made.stored() == []


def test_the_rest_of_the_last_answer_that_is_dropped_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(tmp_path) as made:
        for number in range(3_400):  # answers of three rows, of which 10,000 are dropped at once
            for part in range(3):
                key = number.to_bytes(36, "big") + bytes([part])
                made.transaction.put(key, b"", db=made.opened.tables[0])
        monkeypatch.setattr("os.urandom", bytes)
        rows.evict(made.transaction, made.opened)
        assert made.stored()[0] == (3_334).to_bytes(36, "big") + b"\0"
        assert len(made.stored()) == 3 * (3_400 - 3_334)
