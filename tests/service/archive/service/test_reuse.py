"""Answers that may be reused, and acknowledgments that stand for many readers (note 1)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from ibi.archive.model.url_key import LIFETIME, MOST_READERS
from ibi.archive.store.tables.usage import ID_SECONDS
from ibi.protocol.extensions.changes import LONGEST_VALIDITY
from ibi.protocol.messages import Acknowledgment, read_request
from support.archive.archive_fixture import GONE, LINKED, REP, NewArchive, Served
from support.archive.messages import acknowledgment, counted, request, running, url_list
from support.engines import by_hand

TOMORROW = {
    "rep": "a.example/c/2010/01.01.00.00",
    "url": "http://far.example/2",
    "access": "embargoed",
    "embargo": "2023-11-15",
}
RESTRICTED = {"rep": "a.example/c/2010/01.01.00.01", "url": "http://far.example/3", "access": "restricted"}
CLOSED = {"rep": "a.example/c/2010/01.01.00.02", "url": "http://far.example/4", "access": "closed"}
TRANSLATED = {
    "rep": "a.example/c/2010/01.01.00.03",
    "url": "http://far.example/5",
    "translations": {"pt": str(RESTRICTED["rep"])},
}
ITEMS = (TOMORROW, RESTRICTED, CLOSED, TRANSLATED)
EMBARGO_ENDS = 1_700_006_400  # the first moment of 2023-11-15


def seconds(served: Served, ibi: object, verbs: str = "") -> int | None:
    """For how long a resolver that does not ask for changes may reuse an answer, None if not; all signs of it agree."""
    answer = served.get(request(str(ibi), verbs))
    pairs, kept = url_list(answer).pairs, answer.headers["cache-control"]
    assert answer.headers["x-robots-tag"] == "noindex, nofollow"
    if "acknowledgment.batch" not in pairs:
        assert kept == "no-store"
        assert not [name for name in pairs if name.startswith("changes.")]
        return None
    assert pairs["acknowledgment.batch"] == "yes"
    assert "changes.asof" in pairs
    assert kept.startswith("max-age=")
    assert kept.endswith(", s-maxage=0")
    return int(kept.removeprefix("max-age=").removesuffix(", s-maxage=0"))


def wait_for(served: Served, readers: int, ibi: str = REP) -> int:
    end = time.monotonic() + 5
    while counted(served, ibi) < readers and time.monotonic() < end:
        time.sleep(0.05)
    return counted(served, ibi)


@pytest.mark.proves("SVC-10", "SVC-12", "ARC-16")
@pytest.mark.parametrize(
    "access",
    [{"access": "closed"}, {"access": "restricted"}, {"access": "embargoed", "embargo": "2023-11-15"}],
    ids=lambda access: access["access"],
)
@pytest.mark.parametrize(
    ("verbs", "path"), [("GetFileList", ""), ("", "/a.txt"), ("", "/none.txt"), ("GetLastEdition", "/a.txt")]
)
def test_files_that_a_reader_may_not_have_lead_to_the_page_that_says_so(
    new_archive: Callable[..., NewArchive], access: dict[str, str], verbs: str, path: str
) -> None:
    name = "a.example/c/2010/01.01.00.04"
    with running(new_archive, {"rep": name, "files": {"a.txt": "a.txt"}, **access}) as served:
        relation = ".lastedition" if verbs == "GetLastEdition" else ""
        url = url_list(served.get(request(name, verbs, path))).pairs[f"url{relation}"]
        assert str(url).endswith(f"/-/files/{name}")
        page = served.get(str(url).partition("//")[2].partition("/")[2].join(["/", ""]))
        assert page.status == 403
        assert "a.txt" not in page.text


@pytest.mark.proves("SVC-18")
def test_an_answer_that_is_the_same_for_all_says_twice_that_it_may_be_reused(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive, *ITEMS, reuse_seconds=40) as served:
        assert seconds(served, REP) == 40
        assert seconds(served, LINKED) == 40
        assert seconds(served, REP, "GetLastEdition") == 40
        assert seconds(served, TRANSLATED["rep"]) == 40
        head = served.get(request(REP), "HEAD")
        assert (head.headers["cache-control"], head.body) == ("max-age=40, s-maxage=0", b"")


def test_an_answer_that_depends_on_the_reader_is_never_reused(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, *ITEMS) as served:
        for item in (RESTRICTED, CLOSED):
            assert seconds(served, item["rep"]) is None
        assert seconds(served, TRANSLATED["rep"], "GetTranslation(pt)") is None
        assert seconds(served, TRANSLATED["rep"]) == 60


def test_an_answer_is_not_reused_beyond_the_end_of_an_embargo(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, *ITEMS) as served:
        page = f"http://{served.archive.settings.address}/-/item/{TOMORROW['rep']}"
        for before, age in ((3600, 60), (59.5, 59), (1.5, 1), (0.5, None), (0, 60)):
            served.archive.clock.now = EMBARGO_ENDS - before
            assert seconds(served, TOMORROW["rep"]) == age
            found = url_list(served.get(request(str(TOMORROW["rep"])))).entry().url
            assert found == (page if before else TOMORROW["url"])


def test_an_answer_without_an_acknowledgment_key_is_not_reused(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive) as served:
        assert seconds(served, GONE) is None
        assert seconds(served, REP, "GetTranslation(fr)") is None
        absent = served.get(request("a.example/b/2013/01.01.00.00"))
        assert (absent.body, absent.headers["cache-control"]) == (b"", "no-store")


def test_an_archive_may_forbid_all_reuse(new_archive: Callable[..., NewArchive]) -> None:
    with running(new_archive, reuse_seconds=0) as served:
        assert seconds(served, REP) is None
        key = url_list(served.get(request(REP))).url_key or ""
        for event in ("1", "2"):
            assert served.get(acknowledgment(key, 50, event)).status == 200
        assert wait_for(served, 1) == 1


# Acknowledgments for many readers


@pytest.mark.long
@pytest.mark.proves("SVC-20", "SVC-21")
def test_an_acknowledgment_stands_for_many_readers_and_counts_once(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive, trusted_resolvers=("127.0.0.1",)) as served:
        key = url_list(served.get(request(REP))).url_key or ""
        notices = [
            served.get(acknowledgment(key, readers, event)).body
            for readers, event in ((5, "1"), (5, "1"), (9, "1"), (3, "2"), (100_000, "3"), (1, ""), (1, ""))
        ]
        assert set(notices) == {b"notice {acknowledgment received}"}
        assert wait_for(served, 100_009) == 100_009
        served.get(acknowledgment(key, 5, "1"))
        served.get(acknowledgment(key, 1, "4"))
        assert wait_for(served, 100_010) == 100_010


@pytest.mark.long
@pytest.mark.proves("SVC-21")
def test_the_key_of_a_reused_answer_is_good_until_ten_minutes_after_its_last_use(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive, trusted_resolvers=("127.0.0.1",)) as served:
        key = url_list(served.get(request(REP))).url_key or ""
        served.archive.clock.now += LONGEST_VALIDITY + LIFETIME
        served.get(acknowledgment(key, 2, "1"))
        assert wait_for(served, 2) == 2
        served.archive.clock.now += 1
        served.get(acknowledgment(key, 2, "2"))
        served.get(acknowledgment(url_list(served.get(request(REP))).url_key or "", 3, "2"))
        assert wait_for(served, 5) == 5


@pytest.mark.proves("SVC-20")
def test_where_resolvers_are_named_only_they_speak_for_many(new_archive: Callable[..., NewArchive]) -> None:
    trust = {"trusted_resolvers": ("203.0.113.5",), "trusted_proxies": ("127.0.0.1",)}
    resolver, stranger = {"x_forwarded_for": "203.0.113.5"}, {"x_forwarded_for": "198.51.100.1"}
    with running(new_archive, **trust) as served:
        assert "acknowledgment.batch" not in url_list(served.get(request(REP), **stranger)).pairs
        answer = served.get(request(REP), **resolver)
        assert answer.headers["cache-control"] == "max-age=60, s-maxage=0"
        key = url_list(answer).url_key or ""
        served.get(acknowledgment(key, 7, "1"), **resolver)
        for event in ("2", "3"):
            served.get(acknowledgment(key, 1000, event), **stranger)
        assert wait_for(served, 8) == 8


@pytest.mark.long
@pytest.mark.proves("SVC-20", "SVC-21")
def test_where_no_resolver_is_named_all_are_offered_reuse_and_one_key_counts_for_one_reader(
    new_archive: Callable[..., NewArchive], caplog: pytest.LogCaptureFixture
) -> None:
    with running(new_archive) as served:
        answer = served.get(request(LINKED))
        assert answer.headers["cache-control"] == "max-age=60, s-maxage=0"
        first, second = url_list(answer).url_key or "", url_list(served.get(request(LINKED))).url_key or ""
        for number, readers in enumerate((60, 30, 30, 100_000, 100_000)):
            served.get(acknowledgment(first, readers, str(number)))
        assert wait_for(served, 1, LINKED) == 1
        for event in ("", "5", "6"):  # a key that is used up stays so
            served.get(acknowledgment(first, 9, event))
        served.get(acknowledgment(second, 100_000, "1"))
        assert wait_for(served, 2, LINKED) == 2
        rows = by_hand.run(served.archive.data, "SELECT count(*) FROM thanked")
        visits = by_hand.run(served.archive.data, "SELECT sum(investigations) FROM visits")
        assert rows == [(4,)]  # one of each key, and two sums
        assert visits == [(2,)]
    assert re.search("acknowledgments were refused, since the start: used-up [1-9]", caplog.text)


@pytest.mark.proves("SVC-21")
def test_the_key_of_a_named_resolver_counts_for_a_million_readers_at_most(
    new_archive: Callable[..., NewArchive],
) -> None:
    """An answer that may be reused for hours stands for as many more: here it ends with an embargo."""
    with running(new_archive, TOMORROW, trusted_resolvers=("127.0.0.1",)) as served:
        counted_by_then, name = 0, str(TOMORROW["rep"])
        for seconds, most in ((599, MOST_READERS), (1199, 2 * MOST_READERS)):
            served.archive.clock.now = EMBARGO_ENDS - seconds
            key = url_list(served.get(request(name))).url_key or ""
            for event in range(24):
                served.get(acknowledgment(key, 90_000, str(event)))
            counted_by_then += most
            assert wait_for(served, counted_by_then, name) == counted_by_then
        assert counted_by_then == 3_000_000


@pytest.mark.parametrize("counting", ["count=0", "count=100001", "count=-1", "count=01", "count=", "count=1.5",
                                      "count=%D9%A1", "id=x", "id=1-2", "id=" + "1" * 41, "id=%201"])  # fmt: skip
def test_an_acknowledgment_that_counts_oddly_is_refused_in_one_sentence(full: Served, counting: str) -> None:
    refused = full.get(f"{acknowledgment('1234567890')}&acknowledgment.{counting}")
    assert refused.status == 400
    assert refused.text.startswith("error {request: an acknowledgment counts from 1 to 100000")


@pytest.mark.long
def test_what_was_counted_is_forgotten_when_its_key_is_too_old(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive, trusted_resolvers=("127.0.0.1",)) as served:
        key = ""
        for _ in range(3):
            key = url_list(served.get(request(REP))).url_key or ""
            served.get(acknowledgment(key, 2, "1"))
        assert wait_for(served, 6) == 6
        served.archive.clock.now += ID_SECONDS + 1
        served.get(acknowledgment(key, 1, "2"))
        assert wait_for(served, 7) == 7
        left = "SELECT count(*), sum(readers) FROM thanked"
        assert by_hand.run(served.archive.data, left) == [
            (4, 7)
        ]  # the last acknowledgment, and the sums of three keys
        served.archive.clock.now += LONGEST_VALIDITY + LIFETIME + 1
        served.get(acknowledgment(url_list(served.get(request(REP))).url_key or "", 1, "1"))
        assert wait_for(served, 8) == 8
        assert by_hand.run(served.archive.data, left) == [
            (2, 1)
        ]  # the last acknowledgment, and the sum of its key


# The message


@pytest.mark.proves("MSG-27")
def test_count_and_id_go_over_the_wire_and_are_left_out_where_they_say_nothing() -> None:
    plain = acknowledgment("1234567890").partition("?")[2]
    assert "acknowledgment." not in plain
    many = acknowledgment("1234567890", 12, "007").partition("?")[2]
    assert many.startswith("acknowledgment.count=12&acknowledgment.id=007&clientinformation.ipaddress=")
    heard = read_request(many)
    assert isinstance(heard, Acknowledgment)
    assert (heard.count, heard.event, heard.query()) == (12, "007", many)
