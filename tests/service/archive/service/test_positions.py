"""Answers with the position of their snapshot, and replies to requests for what has changed since a position."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import ibi
from ibi.archive.membership.resolver_addresses import ResolverAddresses
from ibi.archive.preservation.backup import Backup, restore
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.preservation.rebuild import rebuild
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.tables import change_log, history
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.archive.store.tables.history import ItemEvent
from ibi.errors import SetupError
from ibi.http.server.head import Head
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_name
from ibi.protocol.extensions.changes import MOST_NAMES, MOST_RESTS, ChangesReply, ChangesRequest, Validity
from support.archive.archive_fixture import (
    LINKED,
    REP,
    SERVICE,
    NewArchive,
    Served,
    listener,
    serving,
)
from support.archive.messages import PATH, request, running, url_list
from support.web.unnamed import RENDERER

EMBARGO_ENDS = 1_700_006_400  # the first moment of 2023-11-15
A_DAY = 86_400


def name_of(number: int) -> str:
    return f"a.example/c/2010/{number // 3600 % 12 + 1:02}.01.{number // 60 % 60:02}.{number % 60:02}"


def line(number: int, **more: object) -> dict[str, object]:
    return {"rep": name_of(number), "url": f"http://far.example/{number}"} | more


def validity(served: Served, ibi: str, verbs: str = "") -> Validity | None:
    """What an answer says of how long it may be reused by a resolver that asks for changes."""
    return Validity.of(url_list(served.get(request(ibi, verbs))).pairs)


def position(served: Served, ibi: str = REP) -> str:
    found = validity(served, ibi)
    assert found is not None
    return found.position


def asking(after: str = "") -> tuple[str, str]:
    """The target of a request for changes, and its word."""
    message = ChangesRequest(secrets.token_hex(8), after)
    return f"{PATH}?{message.query()}", message.word


def changes(served: Served, after: str = "") -> ChangesReply:
    target, word = asking(after)
    answer = served.get(target)
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store"), answer.text
    return ChangesReply.read(answer.body, word)


def edit(archive: NewArchive, *names: str, url: str = "http://far.example/new") -> None:
    with archive.item_store.unit_of_work("maria") as work:
        for name in names:
            held = work.get(parse_name(name))
            work.change(held, replace(held, url=url))


# Answers


def test_a_position_changes_with_each_change_and_not_without(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, line(1), line(2)) as served:
        first = position(served)
        assert [position(served, name) for name in (REP, LINKED, name_of(1))] == [first] * 3
        seen = [first]
        for url in ("http://far.example/a", "http://far.example/b"):
            edit(served.archive, name_of(1), url=url)
            assert position(served) not in seen
            seen.append(position(served))
        served.archive.load(line(3))
        assert position(served) not in seen
        number, _, word = position(served).partition(".")
        assert int(number) == int(seen[-1].partition(".")[0]) + 1
        assert len(word) == 16


def test_an_answer_names_what_was_looked_up_for_it_found_or_not(
    new_archive: Callable[..., NewArchive],
) -> None:
    absent = "a.example/b/2031/01.01.00.00"
    items = (line(1, next_edition=name_of(2)), line(2), line(3, translations={"pt": absent, "fr": REP}))
    with running(new_archive, *items) as served:
        plain = validity(served, name_of(1))
        assert plain is not None
        assert (plain.rests, plain.seconds) == ((), A_DAY)
        assert "changes.rests" not in url_list(served.get(request(name_of(1)))).pairs
        edition = validity(served, name_of(1), "GetLastEdition")
        assert edition is not None
        assert edition.rests == (name_of(2),)
        translation = validity(served, name_of(3), "GetTranslation(fr)")
        assert translation is not None
        assert set(translation.rests) == {absent, parse_name(REP).canonical}


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_that_rests_on_too_many_names_has_no_position(
    new_archive: Callable[..., NewArchive], more: int
) -> None:
    chain = MOST_RESTS + more
    items = [line(number, next_edition=name_of(number + 1)) for number in range(chain)]
    with running(new_archive, *items, line(chain)) as served:
        answer = served.get(request(name_of(0), "GetLastEdition"))
        found = Validity.of(url_list(answer).pairs)
        assert url_list(answer).pairs["acknowledgment.batch"] == "yes"
        if more:
            assert found is None
            assert answer.headers["cache-control"] == "max-age=60"
        else:
            assert found is not None
            assert found.rests == tuple(name_of(number) for number in range(1, chain + 1))
            assert answer.headers["cache-control"] == "max-age=60, s-maxage=0"


@pytest.mark.parametrize(
    ("before", "seconds"), [(90_000, A_DAY), (3600, 3600), (59.5, 59), (0.5, None), (0, A_DAY)]
)
def test_an_answer_ends_with_an_embargo(
    new_archive: Callable[..., NewArchive], before: float, seconds: int | None
) -> None:
    with running(new_archive, line(1, access="embargoed", embargo="2023-11-15")) as served:
        served.archive.clock.now = EMBARGO_ENDS - before
        found = validity(served, name_of(1))
        assert (found and found.seconds) == seconds


@pytest.mark.parametrize("access", ["restricted", "closed"])
def test_an_answer_that_depends_on_the_reader_has_no_position(
    new_archive: Callable[..., NewArchive], access: str
) -> None:
    with running(new_archive, line(1, access=access)) as served:
        assert validity(served, name_of(1)) is None


def test_without_reuse_there_are_no_positions(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, reuse_seconds=0) as served:
        assert validity(served, REP) is None


def test_where_resolvers_are_named_only_they_get_positions(new_archive: Callable[..., NewArchive]) -> None:
    trust = {"trusted_resolvers": ("203.0.113.5",), "trusted_proxies": ("127.0.0.1",)}
    with running(new_archive, **trust) as served:
        for client, has_one in (("203.0.113.5", True), ("198.51.100.1", False)):
            pairs = url_list(served.get(request(REP), x_forwarded_for=client)).pairs
            assert ("changes.asof" in pairs) is has_one


def test_position_and_items_are_of_one_snapshot_whatever_changes_meanwhile(
    new_archive: Callable[..., NewArchive],
) -> None:
    """Each answer rests on two items, which change together."""
    pair = (line(1, next_edition=name_of(2), translations={"pt": name_of(2)}), line(2))
    truth: dict[str, str] = {}
    stop = threading.Event()
    with running(new_archive, *pair) as served:

        def go_on() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                with served.archive.item_store.unit_of_work("maria") as work:
                    for name in (name_of(1), name_of(2)):
                        held = work.get(parse_name(name))
                        work.change(held, replace(held, url=f"http://far.example/now/{number}"))
                    newest, _, _ = change_log.changes_after(work.writer.run, "")
                    truth[newest] = f"http://far.example/now/{number}"

        thread = threading.Thread(target=go_on)
        heard: list[tuple[str, set[str]]] = []
        edit(served.archive, name_of(1), name_of(2), url="http://far.example/now/0")
        truth[position(served)] = "http://far.example/now/0"
        thread.start()
        try:
            end = time.monotonic() + 30  # a busy machine may change little while it answers much
            while len(heard) < 300 or (len({place for place, _ in heard}) <= 10 and time.monotonic() < end):
                pairs = url_list(served.get(request(name_of(1), "GetTranslation(pt)"))).pairs
                urls = {str(value) for name, value in pairs.items() if name.startswith("url.")}
                heard.append((str(pairs["changes.asof"]), urls))
        finally:
            stop.set()
            thread.join()
    assert len({place for place, _ in heard}) > 10
    assert [(place, urls) for place, urls in heard if urls != {truth[place]}] == []


@contextmanager
def also_serving(archive: NewArchive, **other: object) -> Iterator[Served]:
    """A second process, as it were, that answers by settings of its own."""
    catalogue = DataDirectory(archive.data, archive.clock.machine).open_catalogue()
    changed = replace(archive, settings=replace(archive.settings, **other), catalogue=catalogue)  # type: ignore[arg-type]  # what a test gives is right
    app = ArchiveService(changed.settings, catalogue, archive.file_store, archive.clock.seconds, RENDERER)
    with serving(changed, listener(), Service(app, close=app.close)) as served:
        yield served


def test_only_who_answers_by_the_settings_that_were_logged_last_gives_positions(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive) as served:
        before = position(served)
        with also_serving(served.archive) as second:
            assert position(second) == before
        with also_serving(served.archive, public_url="https://archive.example") as other:
            answer = other.get(request(REP))
            assert Validity.of(url_list(answer).pairs) is None
            assert answer.headers["cache-control"] == "max-age=60"
            assert position(served) == before


def test_who_follows_new_settings_a_moment_later_does_not_log_the_former_ones(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not if that happens again an hour later; but those that are still in use after seconds are logged."""
    clock = SimpleNamespace(now=5.0)
    monkeypatch.setattr("ibi.archive.service.changes.time", SimpleNamespace(monotonic=lambda: clock.now))
    with running(new_archive) as served:
        before = position(served)
        with also_serving(served.archive, public_url="https://archive.example") as other:
            for now in (5.0, 6.9, 3600.0, 3601.0):
                clock.now = now
                assert validity(other, REP) is None
                assert position(served) == before
            clock.now = 3603.0
            assert validity(other, REP) is None
            end = time.monotonic() + 10
            while validity(other, REP) is None and time.monotonic() < end:
                time.sleep(0.02)
            assert changes(served, before).names is None
            assert position(other) == changes(served).to


def test_settings_that_decide_answers_are_logged_once_and_a_start_is_not(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive) as served:
        archive, before = served.archive, position(served)

        def made(**other: object) -> None:
            settings = replace(archive.settings, **other)  # type: ignore[arg-type]  # what a test gives is right
            catalogue = DataDirectory(archive.data, archive.clock.machine).open_catalogue()
            app = ArchiveService(settings, catalogue, archive.file_store, archive.clock.seconds, RENDERER)
            app.log_rules()
            catalogue.close()

        none: list[dict[str, object]] = [{}, {"admin": "other@archive.example"}, {"page_rate": 1.0}]
        for other in none:
            made(**other)
            assert position(served) == before
        many: list[dict[str, object]] = [
            {"address": "other.example"},
            {"public_url": "https://archive.example"},
            {"relations": ("",)},
            {"networks": ("10.0.0.0/8",)},
            {"trusted_resolvers": ("10.0.0.0/8",)},
            {"filter_answers": False},
            {"reuse_seconds": 30},
            {"secret": "cd" * 32},
            {"platform_software": SERVICE},
        ]
        for number, other in enumerate(many, 1):
            made(**other)
            made(**other)
            newest = changes(served, before)
            assert (newest.names, newest.to.partition(".")[0]) == (
                None,
                str(int(before.partition(".")[0]) + number),
            )
        made()
        assert changes(served, before).names is None
        assert position(served) == changes(served).to


def test_settings_that_cannot_be_logged_are_told_and_stop_nothing(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with running(new_archive) as served:
        archive, before = served.archive, position(served)
        settings = replace(archive.settings, reuse_seconds=30)
        catalogue = DataDirectory(archive.data, archive.clock.machine).open_catalogue()
        app = ArchiveService(settings, catalogue, archive.file_store, archive.clock.seconds, RENDERER)

        def refuse() -> None:
            raise SetupError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(catalogue, "writing", refuse)
            app.log_rules()
        assert [each.getMessage() for each in caplog.records if each.name.endswith("service.changes")] == [
            "answers live for a short time only: the disk is full"
        ]
        assert position(served) == before
        app.log_rules()
        assert changes(served, before).names is None
        catalogue.close()


def test_another_version_is_logged_once_whether_newer_or_older(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(new_archive) as served:
        archive, before = served.archive, position(served)
        numbers = []
        for version in ("99.0.0", "99.0.0", ibi.__version__, ibi.__version__):
            monkeypatch.setattr(ibi, "__version__", version)
            catalogue = DataDirectory(archive.data, archive.clock.machine).open_catalogue()
            app = ArchiveService(
                archive.settings, catalogue, archive.file_store, archive.clock.seconds, RENDERER
            )
            app.log_rules()
            catalogue.close()
            newest = changes(served, before)
            assert newest.names is None
            numbers.append(int(newest.to.partition(".")[0]) - int(before.partition(".")[0]))
        assert numbers == [1, 1, 2, 2]


def test_a_database_that_was_set_back_under_a_running_archive_gets_its_settings_logged_again(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.archive.service.changes.RECONCILED_AFTER", 0.0)
    with running(new_archive) as served:
        before = position(served)
        with served.archive.catalogue.writing() as writer:
            change_log.log_rules(writer.run, 7)
        assert validity(served, REP) is None
        for _ in range(200):
            if validity(served, REP) is not None:
                break
        assert changes(served, before).names is None
        assert position(served) == changes(served).to


# Replies


def test_a_resolver_asks_what_has_changed_since_a_position(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, line(1), line(2), line(3)) as served:
        first = changes(served)
        assert (first.names, first.more, first.to) == (None, False, position(served))
        again = changes(served, first.to)
        assert again == ChangesReply(again.word, first.to)
        edit(served.archive, name_of(1))
        edit(served.archive, name_of(2), name_of(1), url="http://far.example/newer")
        reply = changes(served, first.to)
        assert (reply.names, reply.more, reply.to) == ((name_of(1), name_of(2)), False, position(served))
        with served.archive.item_store.unit_of_work("maria") as work:
            work.remove(work.get(parse_name(REP)))
        assert changes(served, reply.to).names == (parse_name("8JMKD3MGP8W/35MME4E").canonical, REP)
        served.archive.load(line(4))
        assert changes(served, position(served, LINKED)).names == ()


def test_a_reply_is_not_cached_and_made_without_a_task(archive: NewArchive) -> None:
    app = ArchiveService(
        archive.settings, archive.catalogue, archive.file_store, archive.clock.seconds, RENDERER
    )
    target, word = asking()
    head = Head()
    head.append((b"host", archive.settings.address.encode()))
    made = app.at_once(b"GET", target.encode(), head, "192.0.2.1")
    assert made is not None
    status, rest = made
    assert status == 200
    lines, _, body = rest.partition(b"\r\n\r\n")
    assert b"cache-control: no-store" in lines.lower()
    assert ChangesReply.read(body, word).names is None


@pytest.mark.parametrize(
    "query",
    ["changes.word=1", "changes.word=5d1e0c4b7a9f2368&changes.after=x", "",
     "changes.word=5d1e0c4b7a9f2368&changes.after=01.9f3c01d2aa07b6e4"],
)  # fmt: skip
def test_what_is_no_request_for_changes_is_refused(full: Served, query: str) -> None:
    assert full.get(f"{PATH}?servicesubject=changesRequest&{query}").status == 400


def test_a_head_request_is_answered_without_a_body(full: Served) -> None:
    answer = full.get(asking()[0], "HEAD")
    assert (answer.status, answer.body) == (200, b"")


def test_an_item_is_in_one_reply_with_all_its_names_and_a_reply_has_so_many_names_at_most(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive) as served:
        before = changes(served).to
        served.archive.load(*map(line, range(MOST_NAMES)))
        whole = changes(served, before)
        assert whole.names is not None
        assert (len(whole.names), whole.more, whole.to) == (MOST_NAMES, False, position(served))
        served.archive.load(
            {"rep": name_of(600), "ibip": "8JMKD3MGP8W/36MME4E", "url": "http://far.example/"}
        )
        page = changes(served, before)
        assert page == replace(whole, word=page.word, more=True)
        rest = changes(served, page.to)
        assert (rest.names, rest.more, rest.to) == (
            ("8JMKD3MGP8W/36MME4E", name_of(600)),
            False,
            position(served),
        )


def test_one_item_that_changes_again_and_again_is_named_once(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, line(1)) as served:
        before, pages = changes(served).to, 0
        with served.archive.item_store.unit_of_work("maria") as work:
            for _ in range(MOST_NAMES * 2):
                work.record_event(work.get(parse_name(name_of(1))), "noted")
        after = before
        while True:
            reply, pages = changes(served, after), pages + 1
            assert reply.names == (name_of(1),)
            after = reply.to
            if not reply.more:
                break
        assert (after, pages) == (position(served), 2)


def test_a_log_that_does_not_reach_back_says_that_anything_has_changed(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "KEPT", 100)
    with running(new_archive, line(1)) as served:
        before = changes(served).to

        def note(count: int) -> None:
            with served.archive.item_store.unit_of_work("maria") as work:
                for _ in range(count):
                    work.record_event(work.get(parse_name(name_of(1))), "noted")

        note(3000)
        assert changes(served, before).names == (name_of(1),)  # all of the last day is kept
        monkeypatch.setattr(change_log, "KEPT_SECONDS", -1)
        note(900)
        kept = changes(served).to
        note(100)
        assert changes(served, before).names is None
        assert changes(served, kept).names == (name_of(1),)
        with served.archive.catalogue.reading() as run:
            numbers = [row[0] for row in run("SELECT number FROM changed ORDER BY number")]
        assert 100 <= len(numbers) < 1100
        assert numbers == list(range(numbers[0], numbers[-1] + 1))


@pytest.mark.one_store("sqlite", "puts an older copy of the file back")
def test_a_database_that_was_set_back_does_not_find_positions_that_it_lost(
    new_archive: Callable[..., NewArchive], tmp_path: Path
) -> None:
    archive = new_archive()
    archive.load(line(1), line(2))

    def after(place: str) -> tuple[str, bool, list[object]]:
        with archive.catalogue.snapshot() as snapshot:
            return change_log.changes_after(snapshot, place)  # type: ignore[return-value]  # only read here

    early = after("")[0]
    archive.catalogue.close()
    shutil.copy(archive.data / "catalogue.sqlite", tmp_path / "copy")
    edit(archive, name_of(1))
    lost = after("")[0]
    archive.catalogue.close()
    for path in archive.data.glob("catalogue.sqlite*"):
        path.unlink()
    shutil.copy(tmp_path / "copy", archive.data / "catalogue.sqlite")
    assert after(lost) == (early, False, [])
    edit(archive, name_of(2))
    newest, known, _ = after(lost)
    assert newest.partition(".")[0] == lost.partition(".")[0]
    assert (newest == lost, known) == (False, False)
    assert after(early)[1:] == (True, [(newest, (name_of(2),))])


def newest_of(catalogue: Catalogue, after: str = "") -> tuple[str, bool, bool]:
    """The newest position of a store, whether it finds another one, and whether anything may have changed since."""
    with catalogue.snapshot() as snapshot:
        newest, known, entries = change_log.changes_after(snapshot, after)
        return newest, known, any(names is None for _, names in entries)


def number_of(place: str) -> int:
    return int(place.partition(".")[0])


@pytest.mark.one_store("sqlite", "a backup is put back, and a lost file is made anew, in a folder")
def test_a_store_is_made_and_restored_and_rebuilt_with_a_position_that_no_other_store_has(
    new_archive: Callable[..., NewArchive], tmp_path: Path
) -> None:
    archive = new_archive()
    made = newest_of(archive.catalogue)[0]
    archive.load(line(1))
    directory, store = DataDirectory(archive.data, archive.clock.machine), BackupStore(tmp_path / "backups")
    saved = newest_of(archive.catalogue)[0]
    assert number_of(saved) > number_of(made)
    Backup(directory, store).run(1)
    restore(store, store.backups()[-1], tmp_path / "restored")
    with DataDirectory(tmp_path / "restored", archive.clock.machine).catalogue() as catalogue:
        newest, known, _ = newest_of(catalogue, saved)
        assert (number_of(newest) > number_of(saved), known) == (True, False)
        with catalogue.reading() as run:
            assert run("SELECT count(*) FROM changed").fetchone() == (1,)
    archive.catalogue.close()
    rebuild(directory)
    with directory.catalogue() as catalogue:
        newest, known, _ = newest_of(catalogue, saved)
        assert (number_of(newest) > number_of(saved), known) == (True, False)
    assert len({made, saved, newest}) == 3


def test_a_migrated_catalogue_has_a_position_and_no_change_without_a_word(archive: NewArchive) -> None:
    """What was logged without words is forgotten; the feed of events goes on."""
    archive.load(line(1))
    with closing(DataDirectory(archive.data, archive.clock.machine).open_catalogue()) as catalogue:
        with catalogue.reading() as run:
            before = run("SELECT max(feed) FROM event").fetchone()[0]
            assert run("SELECT count(*) FROM changed WHERE length(word) <> 16").fetchone() == (0,)
        with catalogue.writing() as writer:
            change_log.begin_again(writer.run)
            item = catalogue.held(parse_name(name_of(1))).number
            history.add_event(writer.run, item, ItemEvent("2026-01-01T00:00:00Z", "x", "noted", {}))
        with catalogue.reading() as run:
            feeds = [
                row[0] for row in run("SELECT feed FROM event WHERE item = :item ORDER BY number", item=item)
            ]
        assert feeds == [before, before + 2]


# Access


def test_an_archive_that_does_not_publish_its_names_replies_to_its_resolvers_alone(
    new_archive: Callable[..., NewArchive],
) -> None:
    """The addresses of those that it has joined are looked up when they are needed, and then for a minute."""
    looked_up = []

    async def names(host: str, port: int) -> list[tuple[str, int]]:
        looked_up.append(host)
        return [("192.0.2.7", port)]

    made = listener()
    archive = new_archive(
        f"127.0.0.1:{made.getsockname()[1]}",
        holdings_filter=False,
        trusted_proxies=("127.0.0.1",),
        trusted_resolvers=("203.0.113.5",),
    )
    joined = ResolverAddresses(["http://resolver.example"], names)
    app = ArchiveService(
        archive.settings,
        archive.catalogue,
        archive.file_store,
        archive.clock.seconds,
        RENDERER,
        joined=joined,
    )
    with serving(archive, made, Service(app, close=app.close, at_once=app.at_once)) as served:
        for client, status in (("203.0.113.5", 200), ("198.51.100.1", 403), ("192.0.2.7", 200)) * 2:
            target, word = asking()
            answer = served.get(target, x_forwarded_for=client)
            assert (answer.status, answer.headers["cache-control"]) == (status, "no-store")
            if status == 200:
                assert ChangesReply.read(answer.body, word).names is None
            else:
                assert answer.text.startswith("error {only resolvers")
    assert looked_up == ["resolver.example"]
