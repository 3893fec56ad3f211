"""The feed of changes: who follows it misses nothing and hears nothing twice, whatever happens meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.archive.api.changes import MOST_CHANGES
from ibi.archive.model.item import Holding
from ibi.archive.store import schema
from ibi.archive.store.tables import history
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.archive.store.tables.history import ItemEvent
from ibi.identifier.forms import parse_name
from ibi.runtime.database import migrate, open_engine
from support.archive.api_fixture import TITLE, Asking, asking, deposited, refused
from support.archive.archive_fixture import NewArchive
from support.engines import by_hand

SEED = 20261128
BYTES = "application/octet-stream"


@pytest.fixture
def api(new_archive: Callable[..., NewArchive]) -> Iterator[Asking]:
    with asking(new_archive) as made:
        yield made


def follow(api: Asking, after: str = "", limit: int = 100) -> tuple[list[dict[str, Any]], str]:
    """All changes after a cursor, and the cursor of the last `next`."""
    reported, more = [], True
    while more:
        found = api.ask("GET", f"/changes?after={after}&limit={limit}").content()
        assert len(found["changes"]) <= limit
        reported += found["changes"]
        more, after = found["more"], found["next"].partition("after=")[2].partition("&")[0]
    return reported, after


def name_of(path: str) -> str:
    return path.removeprefix("/items/")


def brief(changes: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [(each["ibi"], each["what"], *each.get("changed", ())) for each in changes]


def held(api: Asking, name: str) -> Holding:
    found = api.archive.catalogue.holding(parse_name(name))
    assert found is not None
    return found


def edit(api: Asking, path: str, **value: Any) -> None:
    assert api.ask("PATCH", path, value, Scope.EDIT, if_match="*").status == 200


def test_each_change_is_told_in_its_order_and_in_words_for_programs(api: Asking) -> None:
    first = deposited(api)
    reported, cursor = follow(api)
    assert brief(reported) == [(name_of(first), "added")]
    assert reported[0]["page"] == f"/-/item/{name_of(first)}"
    edit(api, first, language="pt", licence="https://creativecommons.org/licenses/by/4.0/")
    second = deposited(api, {**TITLE, "edition_of": name_of(first)}, ("a b.txt", b"1"))
    put = api.ask("PUT", f"{second}/files/secret.txt", b"2", Scope.EDIT, if_match="*", content_type=BYTES)
    assert put.status in {200, 201}
    gone = api.ask("DELETE", f"{second}/files/secret.txt", None, Scope.EDIT, if_match="*")
    assert gone.status == 200
    assert api.ask("DELETE", f"{first}?reason=x", None, Scope.DELETE, if_match="*").status == 200
    one, two = name_of(first), name_of(second)
    reported, later = follow(api, cursor)
    assert brief(reported) == [
        (one, "edited", "language", "licence"),
        (two, "added"),
        (one, "edited", "next_edition"),
        (two, "edited", "files"),
        (two, "edited", "files"),
        (one, "removed"),
    ]
    assert {each["ibi"]: each["state"] for each in reported} == {one: "Deleted", two: "Original"}
    assert "secret" not in str(reported)  # not every list of files is public
    assert follow(api, later) == ([], later)
    assert brief(follow(api)[0]) == [(two, "added"), (one, "removed")]


def test_who_goes_on_after_the_cursor_of_any_change_gets_the_rest(api: Asking) -> None:
    paths = [deposited(api) for _ in range(5)]
    whole, cursor = follow(api, limit=2)
    assert [each["ibi"] for each in whole] == [name_of(path) for path in reversed(paths)]
    for path in paths[:3]:
        edit(api, path, language="en")
    later, _ = follow(api, cursor, limit=1)
    every = [*whole, *later]
    for number, change in enumerate(every):
        found = follow(api, change["cursor"], limit=2)[0]
        assert [each["cursor"] for each in found] == [each["cursor"] for each in every[number + 1 :]]
        assert brief(found) == brief(every[number + 1 :])


def test_nothing_is_missed_or_told_twice_while_others_write(api: Asking) -> None:
    """Each event reaches the follower once, and the last word that it has of an item is true."""
    chance = Random(SEED)
    api.token(Scope.EDIT)  # made once, before the threads need it
    known = [deposited(api) for _ in range(3)]
    reported, cursor = follow(api, limit=1)
    begun, events = len(reported), 0
    for _ in range(12):
        edited = chance.sample(known, min(2, len(known)))
        acts: list[Callable[[], object]] = [
            partial(edit, api, path, rights=chance.choice("ab")) for path in edited
        ]
        acts.append(lambda: known.append(deposited(api)))
        with ThreadPoolExecutor(4) as threads:
            under_way = [threads.submit(act) for act in acts]
            found, cursor = follow(api, cursor, limit=chance.choice([1, 2, 7]))
            reported += found
        for each in under_way:
            each.result()
        events += len(acts)
    found, cursor = follow(api, cursor, limit=1)
    reported += found
    assert len(reported) == begun + events
    assert len({each["cursor"] for each in reported}) == len(reported)
    for path in known:
        mine = [each["what"] for each in reported if each["ibi"] == name_of(path)]
        assert mine[0] == "added"
        with api.archive.catalogue.reading() as run:
            assert len(mine) == len(history.events_of(run, held(api, name_of(path)).number))


def test_moves_repairs_and_what_happened_elsewhere(api: Asking) -> None:
    path = deposited(api)
    _, cursor = follow(api)
    name = name_of(path)
    with api.archive.item_store.unit_of_work("x") as work:
        item = held(api, name)
        earlier = ItemEvent("2020-01-01T00:00:00Z", "y", "edited", {"archive": "far.example", "changed": []})
        history.add_event(work.writer.run, item.number, earlier)
        work.change(item, item, (), "received", giver="http://far.example")
        work.change(item, item, (), "repaired", file="a.txt")
        work.change(item, item, (), "refreshed", source="x")
    reported, _ = follow(api, cursor)
    assert brief(reported) == [(name, "moved"), (name, "edited", "files"), (name, "edited")]


def test_an_item_that_is_not_settled_is_told_of_when_it_is(api: Asking) -> None:
    name = name_of(deposited(api))
    _, cursor = follow(api)
    item = held(api, name)
    with api.archive.catalogue.writing() as writer:
        writer.change(item, replace(item, unsettled="2026-01-01T00:00:00Z"))
        history.add_event(writer.run, item.number, ItemEvent("2026-01-01T00:00:00Z", "x", "noted", {}))
    assert follow(api)[0] == []
    reported, cursor = follow(api, cursor)
    assert reported == []
    with api.archive.catalogue.writing() as writer:
        writer.change(item, replace(item, unsettled=""))
        history.add_event(writer.run, item.number, ItemEvent("2026-01-01T00:00:00Z", "x", "settled", {}))
    assert brief(follow(api, cursor)[0]) == [(name, "edited")]


def test_a_cursor_of_another_catalogue_is_refused_since_a_gap_would_follow_it(api: Asking) -> None:
    path = deposited(api)
    whole, before = follow(api)
    edit(api, path, language="en")
    _, after = follow(api, before)
    # As after a restored backup: the same numbers stand for other events.
    set_back = "UPDATE event SET moment = '2001-01-01T00:00:00Z' WHERE feed = (SELECT max(feed) FROM event)"
    by_hand.run(api.archive.data, set_back)
    sentence = refused(api.ask("GET", f"/changes?after={after}"), 410)
    assert "begin again" in sentence
    assert brief(follow(api, before)[0]) == [(name_of(path), "edited", "language")]
    by_hand.run(api.archive.data, "UPDATE event SET feed = NULL WHERE feed = (SELECT max(feed) FROM event)")
    refused(api.ask("GET", f"/changes?after={after}"), 410)
    assert brief(follow(api)[0]) == brief(whole)


@pytest.mark.parametrize(
    "query",
    ["after=x", "after=1", "after=1-0", "after=%2d1-0123456789abcdef", "after=&after=",
     "limit=0", f"limit={MOST_CHANGES + 1}", "limit=x", "limit=", "limit=%C2%B2"],
)  # fmt: skip
def test_what_is_no_cursor_and_no_limit_is_refused(api: Asking, query: str) -> None:
    refused(api.ask("GET", f"/changes?{query}"), 400)


def test_who_has_this_page_already_is_told_so(api: Asking) -> None:
    deposited(api)
    answer = api.ask("GET", "/changes")
    tag = answer.headers["etag"]
    assert answer.headers["link"] == f'<{answer.content()["next"]}>; rel="next"'
    assert api.ask("GET", "/changes", if_none_match=tag).status == 304
    deposited(api)
    assert api.ask("GET", "/changes", if_none_match=tag).status == 200


@pytest.mark.one_store("sqlite", "begins with an older version of the file")
def test_a_catalogue_of_before_the_feed_can_be_followed_from_now_on(tmp_path: Path, api: Asking) -> None:
    """The last event gets its number, so that the first cursor is that of an event, too.

    The number behind it is of the migration that clears the log: since then anything may be different.
    """
    paths = [deposited(api) for _ in range(2)]
    older = tmp_path / "older.sqlite"
    with closing(sqlite3.connect(api.archive.data / "catalogue.sqlite")) as database:
        database.execute("VACUUM INTO ?", (str(older),))
    with closing(sqlite3.connect(older)) as database, database:
        (last,) = database.execute(
            "SELECT item, number, feed FROM event ORDER BY feed DESC LIMIT 1"
        ).fetchall()
        database.execute("DROP INDEX event_feed")
        database.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, item INTEGER NOT NULL)")
        database.execute("INSERT INTO log SELECT number, item FROM changed WHERE item IS NOT NULL")
        database.execute("DROP TABLE changed")
        database.execute("ALTER TABLE log RENAME TO changed")
        database.execute("ALTER TABLE event DROP COLUMN feed")
        for column in ("institution", "replacement"):
            database.execute(f"ALTER TABLE item DROP COLUMN {column}")
        for index in ("copied_from", "copied_due"):
            database.execute(f"DROP INDEX {index}")
        database.execute("ALTER TABLE copied DROP COLUMN due")
        database.execute("DROP TABLE followed")
        database.execute("CREATE TRIGGER changed_by_event AFTER INSERT ON event BEGIN SELECT 1; END")
        database.execute("UPDATE alembic_version SET version_num = 'catalogue_0005'")
    engine = open_engine(older)
    migrate(engine, schema.MIGRATIONS)
    with closing(Catalogue(engine)) as catalogue:
        item = catalogue.holding(parse_name(name_of(paths[0])))
        assert item is not None
        with catalogue.writing() as writer:
            history.add_event(writer.run, item.number, ItemEvent("2026-01-01T00:00:00Z", "x", "edited", {}))
        with catalogue.reading() as run:
            numbered = history.feed_after(run, 0, 10)
    assert [(each.item, each.number, each.feed) for each in numbered] == [last, (item.number, 2, last[2] + 2)]
