"""The OAI-PMH repository over sockets: harvested by a program that is not ours, and by our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from urllib.parse import urlencode

import pytest
from oaipmh_scythe import Scythe
from oaipmh_scythe.exceptions import BadResumptionToken, NoRecordsMatch
from oaipmh_scythe.models import Header, Identify, MetadataFormat, Record, Set

from ibi.archive.ingest.batch import ImportReport
from ibi.archive.ingest.harvesting import Harvester
from ibi.archive.oai.provider import MOST_HARVESTERS, MOST_OF_ONE, OAI
from ibi.archive.search import index as index_module
from ibi.cli import main
from ibi.http.client.address_policy import AddressPolicy
from ibi.http.client.download import Downloads
from ibi.identifier.forms import parse_ibi
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import GONE, Answer, NewArchive, Served, fill, listener
from support.archive.oai_provider_fixture import Repository, answering, repository, texts, valid
from support.archive.search_fixture import item

COUNT = 330


@contextmanager
def serving_repository(
    new_archive: Callable[..., NewArchive], *items: object
) -> Iterator[tuple[Repository, Served]]:
    """A repository with these items, that answers at its own address."""
    made = listener()
    archive = new_archive(f"127.0.0.1:{made.getsockname()[1]}")
    fill(archive)
    archive.load(*items)
    assert archive.refused == []
    with repository(archive) as held, answering(held, made) as served:
        yield held, served


def posted(served: Served, body: bytes, **headers: str) -> Answer:
    """The answer to a form, or to what is none."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = {"host": served.archive.settings.address, "content-type": "application/x-www-form-urlencoded"}
    try:
        connection.request("POST", OAI, body, kind | named)
        reply = connection.getresponse()
        return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    finally:
        connection.close()


def test_another_program_harvests_all_of_it(new_archive: Callable[..., NewArchive]) -> None:
    items = (item(number, f"Title {number}") for number in range(1, COUNT + 1))
    with serving_repository(new_archive, *items) as (held, served):
        for number in range(1, 21):
            held.remove(number)
        held.look()
        with Scythe(f"http://127.0.0.1:{served.port}{OAI}") as client:
            _harvested(client, held)


def _harvested(client: Scythe, held: Repository) -> None:
    """All six verbs, as that program asks them, and the lists to their ends."""
    who = client.identify()
    assert isinstance(who, Identify)
    assert who.xml.findtext("{*}deletedRecord", namespaces=None) == "persistent"
    formats = [each for each in client.list_metadata_formats() if isinstance(each, MetadataFormat)]
    assert {each.metadataPrefix for each in formats} >= {"oai_dc", "oai_datacite"}
    assert "openaire" in {each.setSpec for each in client.list_sets() if isinstance(each, Set)}
    records = [each for each in client.list_records() if isinstance(each, Record)]
    names = [record.header.identifier for record in records]
    assert len(names) == len(set(names)) == COUNT + 4
    gone = {record.header.identifier for record in records if record.header.deleted}
    assert len(gone) == 20 + 1
    living = [record for record in records if not record.header.deleted]
    titles = {record.header.identifier: record.metadata.get("title") for record in living}
    assert (len(titles), titles[held.name(21)]) == (COUNT + 4 - 21, ["Title 21"])
    assert len(list(client.list_records(metadata_prefix="oai_datacite", ignore_deleted=True))) == len(titles)
    headers = list(client.list_identifiers(set_="openaire"))
    assert len([each for each in headers if isinstance(each, Header)]) == COUNT + 4
    one = client.get_record(str(names[-1]))
    assert isinstance(one, Record)
    assert one.header.identifier == names[-1]
    with pytest.raises(NoRecordsMatch):
        list(client.list_records(until="1999-01-01"))
    with pytest.raises(BadResumptionToken):
        list(client.list_records(resumption_token="forged"))


def harvest(archive: NewArchive, url: str) -> ImportReport:
    """Harvest a repository as `ibi archive harvest` does."""

    async def pause(_seconds: float) -> None:
        raise AssertionError("nobody asks to wait")

    async def run() -> ImportReport:
        async with Downloads(AddressPolicy(allow_private=True)) as downloads:
            harvester = Harvester(archive.item_store, downloads, "tester", archive.refused.append, pause)
            return await harvester.run(url)

    return asyncio.run(run())


def test_our_own_harvest_takes_copies_under_the_same_names_and_hears_of_changes(
    new_archive: Callable[..., NewArchive],
) -> None:
    items = [item(number, f"Title {number}", language="pt") for number in range(1, 121)]
    with serving_repository(new_archive, *items) as (held, served):
        taker = new_archive("taker.example")
        url = f"http://127.0.0.1:{served.port}{OAI}"
        report = harvest(taker, url)
        assert (report.added, taker.refused) == (123, [])  # what was removed before is not taken
        copy = taker.catalogue.holding(parse_ibi(str(items[0]["rep"])))
        assert copy is not None
        assert copy.metadata is not None
        assert (copy.state, copy.language) == (ItemState.COPY, "pt")
        assert copy.metadata["title"] == (("Title 1", None),)
        held.archive.clock.now += 60
        held.remove(5)
        held.change(6, "Another title")
        held.put(121, "New")
        held.look()
        again = harvest(taker, url)
        assert (again.added, again.changed, again.removed, again.refused) == (1, 1, 1, 0)
        gone = taker.catalogue.holding(parse_ibi(str(items[4]["rep"])))
        assert gone is not None
        assert gone.deleted


@pytest.fixture
def served(new_archive: Callable[..., NewArchive]) -> Iterator[Served]:
    """A repository with the usual items."""
    with serving_repository(new_archive) as (_, made):
        yield made


def test_a_form_is_as_good_as_a_query(served: Served) -> None:
    query = urlencode(
        {"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": f"oai:127.0.0.1:{GONE}"}
    )
    by_get, by_post = served.get(f"{OAI}?{query}"), posted(served, query.encode())
    assert by_get.status == by_post.status == 200
    assert by_get.body == by_post.body
    for answer in (by_get, by_post):
        assert answer.headers["content-type"] == "text/xml; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
    assert texts(valid(by_post.body), "identifier") == [f"oai:127.0.0.1:{GONE}"]
    head = served.get(f"{OAI}?{query}", "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(by_get.body)))


def test_what_is_wrong_with_http_itself_is_refused_in_a_sentence(served: Served) -> None:
    for answer, status, sentence, more in (
        (posted(served, b"verb=Identify", content_type="text/xml"), 415,
         "a question is a form: Content-Type: application/x-www-form-urlencoded", {}),
        (posted(served, b"verb=Identify&x=" + b"y" * 20_000), 413,
         "the body is too long: at most 16384 bytes are read", {}),
        (served.get(OAI, "DELETE"), 405,
         "only GET, HEAD and POST are understood here", {"allow": "GET, HEAD, POST"}),
        (served.get(f"{OAI}/x?verb=Identify"), 404, "there is no such page here", {}),
    ):  # fmt: skip
        assert (answer.status, answer.body.decode()) == (status, f"{sentence}\n")
        expected = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store", **more}
        assert {
            name: answer.headers.get(name) for name in ("content-type", "cache-control", *more)
        } == expected
    assert served.get(f"{OAI}?verb=Identify", host="other.example").status == 421
    for body in (b"verb=%FF%00\xff\xfe", b"verb=Identify&verb=", b"\x00"):
        answer = posted(served, body)
        assert (answer.status, valid(answer.body).find("{*}error") is not None) == (200, True)


def test_the_command_line_tells_the_address_for_harvesters(
    archive: NewArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["archive", "show", "--data", str(archive.data), "--json"]) == 0
    address = json.loads(capsys.readouterr().out)["oai"]
    with repository(archive) as held:
        assert texts(held.ask("Identify"), "baseURL") == [address]


def test_while_the_index_is_made_harvesters_are_asked_to_come_again(
    new_archive: Callable[..., NewArchive],
) -> None:
    with serving_repository(new_archive) as (held, served):
        held.indexer.close()
        held.index.close()
        index_module.remove(Path(held.index.path))
        answer = served.get(f"{OAI}?verb=ListRecords&metadataPrefix=oai_dc")
        assert (answer.status, answer.headers["retry-after"]) == (503, "10")
        assert answer.headers["cache-control"] == "no-store"
        held.look()
        assert served.get(f"{OAI}?verb=ListRecords&metadataPrefix=oai_dc").status == 200


def ask_from(served: Served, ip: str) -> int:
    """The status of an answer to a harvester at this address of the machine."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=20, source_address=(ip, 0))
    try:
        connection.request("GET", f"{OAI}?verb=Identify", headers={"host": served.archive.settings.address})
        return connection.getresponse().status
    finally:
        connection.close()


def test_one_harvester_leaves_half_of_the_places_to_others(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    with serving_repository(new_archive) as (held, served), ThreadPoolExecutor(MOST_HARVESTERS) as threads:
        answer = held.provider.answer
        monkeypatch.setattr(held.provider, "answer", lambda raw: answer(raw) if go_on.wait(20) else b"")
        try:
            greedy = [threads.submit(ask_from, served, "127.0.0.2") for _ in range(MOST_OF_ONE + 2)]
            refused = [each.result() for _, each in zip(range(2), as_completed(greedy, 20), strict=False)]
            assert refused == [503, 503]
            other = threads.submit(ask_from, served, "127.0.0.3")
            assert not wait([other], 0.5).done  # it has a place, and waits for its answer
        finally:
            go_on.set()
        assert other.result(20) == 200
        assert sorted(each.result(20) for each in greedy) == [200] * MOST_OF_ONE + [503] * 2
        assert ask_from(served, "127.0.0.2") == 200
