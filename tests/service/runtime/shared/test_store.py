"""What nodes share: how a change at one is seen by another, whatever is lost on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from ibi.errors import SetupError
from ibi.runtime.database import migrate, open_engine
from ibi.runtime.nonce import Nonce
from ibi.runtime.shared.documents import Documents
from ibi.runtime.shared.store import (
    MIGRATIONS,
    REACHED_SECONDS,
    SharedStore,
    close_store,
    free_locks,
    store_of,
    store_url,
)
from ibi.runtime.signing import public_key, signer
from support.engines.postgresql import PostgreSQL
from support.engines.shared_store import share


@pytest.fixture(scope="module")
def own() -> Iterator[PostgreSQL]:
    """A PostgreSQL of these tests, which stop it."""
    cluster = PostgreSQL(durable=True)
    cluster.start()
    yield cluster
    cluster.remove()


def new_store(cluster: PostgreSQL) -> str:
    url = cluster.new_database()
    engine = open_engine(url)
    migrate(engine, MIGRATIONS)
    engine.dispose()
    return url


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    return new_store(postgresql)


def until(truth: Callable[[], object], seconds: float = 10.0) -> float:
    """Wait until it is so; return how many seconds that took."""
    begun = time.monotonic()
    while not truth():
        assert time.monotonic() - begun < seconds, "it never came"
        time.sleep(0.005)
    return time.monotonic() - begun


def test_a_change_at_one_node_is_read_at_another_within_a_second(url: str) -> None:
    with closing(SharedStore(url)) as one, closing(SharedStore(url)) as other:
        other.watch()
        here, there = Documents(one), Documents(other)
        assert there.read("a") is None
        with here.changing("a") as document:
            document.write("first")
        assert until(lambda: there.read("a") == "first") < 1.0
        version = there.version("a")
        with here.changing("a") as document:
            assert document.text == "first"
            document.remove()
        assert until(lambda: there.read("a") is None) < 1.0
        assert there.version("a") != version


def test_a_change_shows_at_once_to_the_process_that_made_it(url: str) -> None:
    with closing(SharedStore(url)) as store:
        store.watch()
        documents, versions = Documents(store), set[object]()
        for number in range(50):
            with documents.changing("a") as document:
                document.write(str(number))
            assert documents.version("a") not in versions
            versions.add(documents.version("a"))
            assert documents.read("a") == str(number)


def test_what_was_read_earlier_never_replaces_what_was_read_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_read, goes_on = threading.Event(), threading.Event()
    with closing(SharedStore(url)) as store:
        store.watch()
        with Documents(store).changing("a") as document:
            document.write("first")
        assert Documents(store).read("a") == "first"
        transaction = store.transaction

        @contextmanager
        def waits() -> Iterator[Connection]:
            with transaction() as run:
                yield run
            if threading.current_thread().name == "slow":
                is_read.set()
                assert goes_on.wait(20)

        def change() -> None:
            with Documents(store).changing("a") as document:
                document.write("second")

        monkeypatch.setattr(store, "transaction", waits)
        slow = threading.Thread(target=Documents(store).refresh, name="slow")
        quick = threading.Thread(target=change)
        slow.start()
        assert is_read.wait(20)
        quick.start()
        quick.join(1.5)  # where nothing holds it up, the watching thread has read it, too
        goes_on.set()
        for each in (slow, quick):
            each.join(20)
        assert Documents(store).read("a") == "second"


def test_what_this_process_changes_while_it_is_read_is_read_once_more(url: str) -> None:
    with closing(SharedStore(url)) as store:
        with Documents(store).changing("a") as document:
            document.write("first")
        store.watch()
        reads = list[str]()

        def read() -> None:
            reads.append(threading.current_thread().name)
            if reads.count("shared store") == 1:
                store.note_changed("document a")

        store.follow("document a", read)
        until(lambda: reads.count("shared store") == 2, 30.0)


def test_a_change_of_this_process_stays_while_older_counters_are_looked_at(url: str) -> None:
    store = SharedStore(url)
    with closing(store):
        with Documents(store).changing("a") as document:
            document.write("first")
        store.watch()
        store.follow("document a", lambda: None)
        until(lambda: store.count("document a") == 1, 30.0)

    class Late:
        """A connection that has read the counters when this process changes something."""

        def execute(self, _: str) -> Late:
            store.note_changed("document a")
            store.note_changed("evidence")
            return self

        def fetchall(self) -> list[tuple[str, int]]:
            return [("document a", 1), ("evidence", 7)]

    store.look(Late())
    assert store.count("document a") < 0
    assert store.count("evidence") < 0


@pytest.mark.parametrize(
    ("error", "reported"),
    [(SetupError("it cannot be read now"), ": it cannot be read now"), (ValueError("a fault of ours"), "")],
)
def test_a_part_that_could_not_be_read_again_is_read_at_the_next_look(
    url: str, caplog: pytest.LogCaptureFixture, error: Exception, reported: str
) -> None:
    reads = list[int]()

    def read() -> None:
        reads.append(1)
        if len(reads) in {2, 3, 5}:
            raise error

    class Counting:
        """A connection that reads no change before the fifth look."""

        numbers = iter((0, 0, 0, 0, 1, 1, 1))

        def execute(self, _: str) -> Counting:
            return self

        def fetchall(self) -> list[tuple[str, int]]:
            return [("document a", next(self.numbers))]

    with closing(SharedStore(url)) as store:
        store.follow("document a", read)
        seen, connection = list[int](), Counting()
        for _ in range(7):
            store.look(connection)
            seen.append(len(reads))
    # Read once more after `follow`, which failed twice; then for the change, which failed once.
    assert seen == [2, 3, 4, 4, 5, 6, 6]
    assert caplog.messages == [f"a change of another node was not followed{reported}"] * 3
    assert {bool(each.exc_info) for each in caplog.records} == {not reported}


def test_a_notice_that_is_lost_loses_nothing(url: str, postgresql: PostgreSQL) -> None:
    """The trigger counts, but does not tell: as if every notice was lost on its way."""
    body = postgresql.execute("SELECT prosrc FROM pg_proc WHERE proname = 'count_change'", name(url))[0][0]
    silent = body.replace("PERFORM pg_notify('ibi_changes', part);", "")
    assert silent != body
    postgresql.execute(
        f"CREATE OR REPLACE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $${silent}$$",
        name(url),
    )
    with closing(SharedStore(url)) as one, closing(SharedStore(url)) as other:
        other.watch()
        assert Documents(other).read("a") is None
        Documents(one).make("a", "text")
        until(lambda: Documents(other).read("a") == "text", 5.0)


def name(url: str) -> str:
    return url.rpartition("/")[2]


def test_of_two_nodes_that_change_a_document_none_undoes_what_the_other_did(url: str) -> None:
    def add(store: SharedStore) -> None:
        for _ in range(20):
            with Documents(store).changing("numbers") as document:
                document.write(f"{document.text or ''}x")

    with closing(SharedStore(url)) as one, closing(SharedStore(url)) as other:
        threads = [threading.Thread(target=add, args=[store]) for store in (one, other, one, other)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert Documents(one).read("numbers") == "x" * 80


def test_a_change_whose_block_fails_is_none(url: str) -> None:
    with closing(SharedStore(url)) as store:
        documents = Documents(store)
        documents.make("a", "before")
        with suppress(ZeroDivisionError), documents.changing("a") as document:
            document.write("after")
            raise ZeroDivisionError
        assert documents.read("a") == "before"


def test_what_is_read_stays_while_the_store_is_away_and_is_read_again_when_it_is_back(
    own: PostgreSQL,
) -> None:
    url, calls = new_store(own), list[int]()
    with closing(SharedStore(url)) as one, closing(SharedStore(url)) as other:
        other.watch()
        there = Documents(other)
        Documents(one).make("a", "before")
        until(lambda: there.read("a") == "before")
        other.follow("document a", lambda: calls.append(1))
        own.stop()
        until(lambda: not other.is_reached)
        assert there.read("a") == "before"
        begun = time.monotonic()
        with pytest.raises(SetupError, match="the store cannot be reached now"), there.changing("a"):
            pass
        assert time.monotonic() - begun < 0.5, "no thread waits for a store that is known to be away"
        own.start()
        until(lambda: other.is_reached)
        with Documents(one).changing("a") as document:
            document.write("after")
        until(lambda: len(calls) > 1)


def test_a_store_that_hangs_is_known_to_be_away_after_three_seconds(own: PostgreSQL) -> None:
    with closing(SharedStore(new_store(own))) as store:
        store.watch()
        assert store.is_reached
        own.suspend()
        try:
            assert until(lambda: not store.is_reached) < REACHED_SECONDS + 2
        finally:
            own.resume()
        until(lambda: store.is_reached)


def test_what_needs_a_store_alone_can_begin_as_soon_as_the_one_before_it_has_ended(url: str) -> None:
    with closing(SharedStore(url)) as store:
        for _ in range(200):
            with store.alone():
                pass
        with store.alone(), pytest.raises(SetupError, match="a node serves"), store.alone():
            pass


@pytest.mark.parametrize("fails", [False, True])
def test_locks_are_free_and_the_connection_is_closed_even_if_the_database_does_not_answer_any_more(
    url: str, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("away"))

    with closing(SharedStore(url)) as store, store.engine.connect() as there:
        here = store.engine.connect()
        here.exec_driver_sql("SELECT pg_advisory_lock(7)")
        with monkeypatch.context() as patch:
            if fails:
                patch.setattr(here, "exec_driver_sql", fail)
            free_locks(here)
        until(lambda: there.exec_driver_sql("SELECT pg_try_advisory_lock(7)").scalar())
        assert here.invalidated


def test_a_text_that_is_told_is_heard_by_the_others(url: str) -> None:
    heard = list[str]()
    with closing(SharedStore(url)) as one, closing(SharedStore(url)) as other:
        other.hear(heard.append)
        other.watch()
        one.tell("a notice")
        until(lambda: heard == ["a notice"])


def test_a_store_that_is_not_there_is_one_sentence_at_the_start() -> None:
    with (
        closing(SharedStore("postgresql://ibi@127.0.0.1:9/nothing")) as store,
        pytest.raises(SetupError, match="the store cannot be reached: look at `store` in the settings"),
    ):
        store.watch(seconds=0.5)


def test_the_settings_name_the_store_and_the_environment_goes_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store_of(tmp_path) is None
    share(tmp_path, "postgresql://a@b/c")
    assert store_url(tmp_path) == "postgresql://a@b/c"
    monkeypatch.setenv("IBI_RESOLVER_STORE", "postgresql://d@e/f")
    assert store_url(tmp_path) == "postgresql://d@e/f"
    (tmp_path / "resolver.toml").write_text("no [ TOML")
    assert store_url(tmp_path) == "postgresql://d@e/f", "what runs goes on with what it has read"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "resolver.toml").write_text("no [ TOML")
    assert store_url(tmp_path / "other") == ""


def test_nodes_sign_with_one_key_and_publish_one_nonce(url: str, tmp_path: Path) -> None:
    first, second = share(tmp_path / "first", url), share(tmp_path / "second", url)
    assert public_key(first) == ""
    assert signer(second).public == public_key(first) == signer(first).public
    with Nonce(first, time.time).published() as nonce:
        assert Nonce(second, time.time).answer() == (200, f"{nonce}\n".encode())
        assert Nonce(second, lambda: time.time() + 61).answer()[0] == 404
    assert Nonce(second, time.time).answer()[0] == 404
    for each in (first, second):
        close_store(each)
