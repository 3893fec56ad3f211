"""What a harvester is answered, whole: by the repository, and by HTTP around it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.oai.envelope import document, identify
from ibi.archive.oai.provider import MOST_HARVESTERS, MOST_OF_ONE, OAI, SETTLING, OaiHandler, OaiProvider
from ibi.archive.search import index as index_module
from ibi.archive.search.index import SearchIndex
from ibi.archive.search.index_writer import IndexState
from ibi.errors import SetupError
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.identifier.forms import IBIForms
from ibi.runtime.settings.institution import Institution
from ibi.web.formats import RECORD_FORMATS
from support.archive.archive_fixture import NOW, NewArchive
from support.archive.oai_provider_fixture import identifiers, repository, texts, valid
from support.archive.search_fixture import item

BASE = "http://archive.example/-/oai"
MAIL = "admin@archive.example"
DOMAIN = "archive.example"
ALL = {"metadataPrefix": "oai_dc"}


def of_service(archive: NewArchive) -> str:
    return f"oai:{DOMAIN}:{archive.settings.service.main}"


def test_a_repository_says_since_when_it_has_records_and_which_one_is_a_sample(archive: NewArchive) -> None:
    archive.load(item(1, "One"), item(2, "Two"))
    with repository(archive) as held:
        archive.clock.now += 100
        facts = identify(BASE, DOMAIN, MAIL, NOW + 1, DOMAIN, held.name(1), "")
        question = {"verb": "Identify"}
        assert held.provider.answer("verb=Identify") == document(BASE, NOW + 100 - SETTLING, question, facts)
        written = Institution(name="Names", welcome="Come in", about="What is kept")
        for institution, text in ((written, "What is kept"), (replace(written, about=""), "Come in")):
            named = provider(archive, held.index, institution)
            facts = identify(BASE, "Names", MAIL, NOW + 1, DOMAIN, held.name(1), text)
            assert named.answer("verb=Identify") == document(BASE, NOW + 100 - SETTLING, question, facts)


def provider(archive: NewArchive, index: SearchIndex, institution: Institution) -> OaiProvider:
    now = archive.clock.seconds
    return OaiProvider(archive.settings, archive.catalogue, index, RECORD_FORMATS, now, institution)


def test_a_repository_without_records_begins_now_and_has_its_service_as_a_sample(archive: NewArchive) -> None:
    with closing(index_module.open_to_write(archive.data / index_module.FILE)) as database:
        IndexState(0, 0, "", 0, None, None).keep(database)
    with closing(SearchIndex(archive.data)) as index:
        archive.clock.now += 0.9
        facts = identify(BASE, DOMAIN, MAIL, NOW, DOMAIN, of_service(archive), "")
        answer = provider(archive, index, Institution()).answer("verb=Identify")
        assert answer == document(BASE, NOW - SETTLING, {"verb": "Identify"}, facts)


def test_sets_are_listed_by_a_thousand_kinds_and_a_thousand_languages(archive: NewArchive) -> None:
    with repository(archive) as held:
        held.index.close()
        with closing(sqlite3.connect(held.index.path)) as database, database:
            rows = [(what, f"x{number}", "", 1) for what in ("kind", "language") for number in range(1001)]
            database.executemany("INSERT INTO facet (what, value, label, items) VALUES (?, ?, ?, ?)", rows)
        assert len(texts(held.ask("ListSets"), "setSpec")) == 4 + 1000 + 1000


def test_a_record_is_known_under_the_names_of_this_archive_once_the_index_has_it(archive: NewArchive) -> None:
    with repository(archive) as held:
        held.put(1, "One")
        unknown = "there is no record of this identifier here"
        for name in (held.name(1), held.name(1).replace("archive", "brchive"), "oai:archive.example:x"):
            error = held.ask("GetRecord", identifier=name, **ALL).find("{*}error")
            assert error is not None
            assert (error.get("code"), error.text) == ("idDoesNotExist", unknown)
        held.look()
        for name in (held.name(1), held.name(1).replace("archive.example", "Archive.EXAMPLE", 1)):
            assert identifiers(held.ask("GetRecord", identifier=name, **ALL)) == [held.name(1)]
        of_another = held.name(1).replace("archive", "brchive")
        assert held.fault("GetRecord", identifier=of_another, **ALL) == "idDoesNotExist"


def test_where_there_is_no_service_item_every_item_is_a_record(archive: NewArchive) -> None:
    archive.load(item(1, "One"))
    service = IBIForms.parse("rep archive.example/w/2021/01.01.00.00")
    with repository(archive) as held:
        settings = replace(archive.settings, service=service)
        other = OaiProvider(settings, archive.catalogue, held.index, RECORD_FORMATS, archive.clock.seconds)
        found = identifiers(valid(other.answer("verb=ListIdentifiers&metadataPrefix=oai_dc")))
        assert found == [of_service(archive), held.name(1)]


def test_a_removed_record_is_a_header_and_one_that_is_not_open_says_so_by_its_sets(
    archive: NewArchive,
) -> None:
    with repository(archive) as held:
        held.put(1, "One", type="tese", language="pt")
        held.put(2, "Two", access="embargoed", embargo="2023-11-20")
        held.put(3, "Three", url=None)
        held.remove(1)
        held.look()
        listed = held.provider.answer("verb=ListIdentifiers&metadataPrefix=oai_dc").decode()
        stamp = "<datestamp>2023-11-14T22:13:21Z</datestamp>"
        in_all = "".join(f"<setSpec>{spec}</setSpec>" for spec in ("openaccess", "openaire", "driver"))
        of_thesis = "<setSpec>kind-Dissertation</setSpec><setSpec>language-pt</setSpec>"
        other = "<setSpec>kind-Other</setSpec>"
        assert listed[listed.index("<ListId") : listed.index("</OAI")] == (
            "<ListIdentifiers>\n"
            f'<header status="deleted"><identifier>{held.name(1)}</identifier>{stamp}{in_all}{of_thesis}</header>\n'
            f"<header><identifier>{held.name(2)}</identifier>{stamp}{other}</header>\n"
            f"<header><identifier>{held.name(3)}</identifier>{stamp}{other}</header>\n"
            "</ListIdentifiers>\n"
        )
        record = held.provider.answer(
            f"verb=GetRecord&metadataPrefix=oai_dc&identifier={held.name(1)}"
        ).decode()
        assert "</header>\n</record>\n</GetRecord>\n" in record


class ScriptedProvider:
    """A provider that is told what to answer, or to raise."""

    def __init__(self, act: Callable[[str], bytes]) -> None:
        self.answer = act


def handler(act: Callable[[str], bytes] = str.encode) -> OaiHandler:
    return OaiHandler(ScriptedProvider(act), lambda: None, ("10.0.0.0/8",))  # type: ignore[arg-type]  # it only answers


def answer_of(by: OaiHandler, request: Request, *messages: dict[str, Any]) -> Response:
    left = list(messages)

    async def receive() -> dict[str, Any]:
        return left.pop(0)

    return asyncio.run(by.answer(request, receive))


FORM = {b"content-type": b"Application/x-www-form-urlencoded; charset=utf-8"}
NO_STORE = ("cache-control", "no-store")


@pytest.mark.parametrize("resolver", ["", "http://resolver.example/"])
def test_an_item_without_metadata_is_described_by_its_persistent_url(
    new_archive: Callable[..., NewArchive], resolver: str
) -> None:
    archive = new_archive(resolver=resolver)
    with repository(archive) as held:
        held.put(1, url=None)
        held.look()
        answer = held.ask("GetRecord", identifier=held.name(1), **ALL)
        root = resolver or "http://archive.example/"
        assert [text for text in texts(answer, "identifier") if text.startswith("http")] == [
            f"{root}{item(1)['rep']}"
        ]


def test_a_question_is_a_query_or_a_form_or_both() -> None:
    by = handler()

    def answered(text: str) -> Response:
        return Response(200, text.encode(), "text/xml; charset=utf-8", (NO_STORE,))

    for method in ("GET", "HEAD"):
        assert answer_of(by, Request(method, OAI, "verb=Identify", {})) == answered("verb=Identify")
    for query, whole in (("verb=a", "verb=a&set=b"), ("", "set=b")):
        messages = (
            {"type": "http.request", "body": b"se", "more_body": True},
            {"type": "http.request", "body": b"t=b"},
        )
        assert answer_of(by, Request("POST", OAI, query, FORM), *messages) == answered(whole)
    assert answer_of(by, Request("POST", OAI, "verb=a", FORM), {"type": "http.request"}) == answered("verb=a")
    assert answer_of(by, Request("POST", OAI, "", FORM), {"type": "http.disconnect"}) == Response(400)


def failing(error: Exception) -> Callable[[str], bytes]:
    def act(_: str) -> bytes:
        raise error

    return act


LATER = ("retry-after", "10")


def test_each_refusal_is_a_sentence_with_its_status_and_headers() -> None:
    def refused(status: int, words: str, *headers: tuple[str, str]) -> Response:
        return Response(
            status, f"{words}\n".encode("utf-8", "replace"), "text/plain; charset=utf-8", (*headers, NO_STORE)
        )

    by, full = handler(), {"type": "http.request", "body": b"x" * 16_385}
    assert answer_of(by, Request("GET", f"{OAI}/x", "", {})) == refused(404, "there is no such page here")
    only = refused(405, "only GET, HEAD and POST are understood here", ("allow", "GET, HEAD, POST"))
    assert answer_of(by, Request("PUT", OAI, "", {})) == only
    kind = "a question is a form: Content-Type: application/x-www-form-urlencoded"
    assert answer_of(by, Request("POST", OAI, "", {b"content-type": b"text/xml"})) == refused(415, kind)
    long = "the body is too long: at most 16384 bytes are read"
    assert answer_of(by, Request("POST", OAI, "", FORM), full) == refused(413, long)
    ready = handler(failing(SetupError("not {what}", what="\ud800")))
    assert answer_of(ready, Request("GET", OAI, "", {})) == refused(503, "not \ud800", LATER)


def test_so_many_questions_wait_of_all_harvesters_and_half_as_many_of_one() -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def act(raw: str) -> bytes:
        begun.release()
        assert go_on.wait(30)
        return raw.encode()

    by = handler(act)

    def request(peer: str, client: str = "") -> Request:
        return Request("GET", OAI, "x", {b"x-forwarded-for": client.encode()} if client else {}, peer=peer)

    async def receive() -> None: ...

    async def scenario() -> list[int]:
        waiting = [by.answer(request("10.0.0.1", "192.0.2.1"), receive) for _ in range(MOST_OF_ONE)]
        waiting += [by.answer(request(f"192.0.2.{number}"), receive) for number in range(2, 2 + MOST_OF_ONE)]
        tasks = [asyncio.ensure_future(each) for each in waiting[:MOST_OF_ONE]]
        await asyncio.sleep(0)
        of_one = await by.answer(request("192.0.2.1"), receive)
        tasks += [asyncio.ensure_future(each) for each in waiting[MOST_OF_ONE:]]
        await asyncio.sleep(0)
        of_all = await by.answer(request("192.0.2.99"), receive)
        go_on.set()
        answers = await asyncio.gather(*tasks)
        again = [await by.answer(request("192.0.2.1"), receive) for _ in range(MOST_HARVESTERS + 1)]
        assert of_one == of_all
        sentence = b"too many harvesters are asking at once; ask again later\n"
        assert (of_one.body, of_one.headers) == (sentence, (LATER, NO_STORE))
        return [of_one.status, *(each.status for each in (*answers, *again))]

    assert asyncio.run(scenario()) == [503] + [200] * (2 * MOST_HARVESTERS + 1)


def test_who_was_answered_may_ask_once_more_and_no_more_often() -> None:
    ends = {str(number): threading.Event() for number in range(MOST_OF_ONE + 2)}
    first, *_, further, last = ends
    ends[last].set()

    def act(raw: str) -> bytes:
        assert ends[raw].wait(30)
        return raw.encode()

    by = handler(act)

    async def receive() -> None: ...

    async def scenario() -> int:
        requests = {raw: Request("GET", OAI, raw, {}, peer="192.0.2.1") for raw in ends}
        tasks = [asyncio.ensure_future(by.answer(requests[raw], receive)) for raw in list(ends)[:MOST_OF_ONE]]
        await asyncio.sleep(0)
        ends[first].set()
        assert (await tasks[0]).body == first.encode()
        tasks.append(asyncio.ensure_future(by.answer(requests[further], receive)))
        await asyncio.sleep(0)
        refused = await by.answer(requests[last], receive)
        for each in ends.values():
            each.set()
        assert [each.status for each in await asyncio.gather(*tasks)] == [200] * (MOST_OF_ONE + 1)
        return refused.status

    assert asyncio.run(scenario()) == 503


def test_what_names_no_publisher_has_the_institution_as_its_publisher(archive: NewArchive) -> None:
    archive.load(item(1, "One"))
    with repository(archive) as held:
        named = provider(archive, held.index, Institution(name="Names"))
        answer = valid(named.answer(f"verb=GetRecord&metadataPrefix=oai_dc&identifier={held.name(1)}"))
        assert texts(answer, "publisher") == ["Names"]
