"""An Archive in the manner of other systems: Memento, handles, ARK inflections, well-known addresses, rate limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote
from urllib.robotparser import RobotFileParser

import pytest
from openapi_schema_validator import OAS31Validator

from ibi.accounts.tokens import Tokens
from ibi.api.dispatch import Api
from ibi.archive.api import items, openapi
from ibi.archive.model.access import day_of
from ibi.archive.model.item import Holding
from ibi.archive.pages.handle_records import HandleRecords
from ibi.archive.pages.mementos import Mementos
from ibi.archive.service.service import ArchiveService
from ibi.http.limits.token_bucket import NEIGHBOURS
from ibi.http.server.service import Service
from ibi.identifier.forms import IBIForms
from support.archive.archive_fixture import (
    GONE,
    LAST,
    LINKED,
    REP,
    SERVICE,
    WHEN,
    Answer,
    NewArchive,
    Served,
    fill,
    listener,
    serving,
)
from support.checks.description import document_faults
from support.web.unnamed import RENDERER

SECOND = "a.example/b/2010/06.01.00.00"
FOREIGN = "far.example/b/2015/01.01.00.00"
LEAVING = "a.example/b/2014/01.01.00.00"
CLOSED = "a.example/b/2013/04.01.00.00"
MORE = [
    {"rep": SECOND, "next_edition": LAST, "url": "http://far.example/2"},
    {"rep": LEAVING, "next_edition": FOREIGN, "url": "http://far.example/3"},
    {
        "rep": CLOSED,
        "files": {"a.txt": "a.txt"},
        "access": "closed",
        "metadata": {"title": ["Kept\nstate: Original"]},
    },
]
ROOT = "http://resolver.example"
LIMITS = {"page_rate": 0.0, "costly_rate": 0.0}


@contextmanager
def archive_with(make: Callable[..., NewArchive], **settings: Any) -> Iterator[Served]:
    """An Archive with these routes and items, as it is put together for its users."""
    socket = listener()
    address = f"127.0.0.1:{socket.getsockname()[1]}"
    archive = make(address, **settings)
    fill(archive)
    assert archive.load(*MORE, file="more.jsonl").added == len(MORE), archive.refused
    seconds = archive.clock.seconds
    brief = HandleRecords(archive.settings, archive.catalogue, seconds)
    table = (*items.ItemView(archive.catalogue, lambda: day_of(seconds())).routes(), *brief.routes())
    api = Api(openapi.routes(table, "0"), Tokens(archive.data), 1 << 20)
    app = ArchiveService(
        archive.settings, archive.catalogue, archive.file_store, seconds, RENDERER, api=api.answer
    )
    with serving(archive, socket, Service(app, close=app.close)) as served:
        yield served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from support.archive.archive_fixture import make_archive

    def make(address: str, **more: Any) -> NewArchive:
        return make_archive(tmp_path_factory.mktemp("full") / "archive", address, more)

    with archive_with(make, resolver=ROOT) as made:
        yield made


def base(served: Served) -> str:
    return f"http://{served.archive.settings.address}"


def links(answer: Answer) -> dict[str, str]:
    """The targets of a link header or of a list of links, by relation."""
    text = answer.body.decode() if answer.headers.get("content-type") == "application/link-format" else ""
    found = re.findall(r'<([^>]*)>; rel="([^"]*)"', text or answer.headers["link"])
    return {relation: url for url, relation in found}


def all_links(served: Served, target: str, **headers: str) -> list[str]:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=10)
    try:
        connection.request("GET", target, headers=headers)
        return [value for name, value in connection.getresponse().getheaders() if name.lower() == "link"]
    finally:
        connection.close()


# --- Memento -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("URL-18")
@pytest.mark.parametrize(
    ("moment", "edition"),
    [
        ("", LAST), ("Fri, 01 Jan 2010 00:00:00 GMT", REP), ("Tue, 01 Jun 2010 00:00:00 GMT", SECOND),
        ("Mon, 31 May 2010 23:59:59 GMT", REP), ("Thu, 01 Jan 1998 00:00:00 GMT", REP),
        ("Mon, 01 Jan 2035 00:00:00 GMT", LAST),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [REP, LAST, SECOND, "8JMKD3MGP8W/35MME4E"])
def test_a_timegate_leads_to_the_edition_of_a_time(
    served: Served, name: str, moment: str, edition: str
) -> None:
    given = {"accept_datetime": moment} if moment else {}
    answer = served.get(f"/-/timegate/{name}", **given)
    assert (answer.status, answer.headers["location"]) == (302, f"{base(served)}/-/item/{edition}")
    assert answer.headers["vary"] == "accept-datetime"
    assert "memento-datetime" not in answer.headers
    assert links(answer) == {
        "original": f"{ROOT}/{REP}!",
        "timegate": f"{base(served)}/-/timegate/{REP}",
        "timemap": f"{base(served)}/-/timemap/{REP}",
        "first memento": f"{base(served)}/-/item/{REP}",
        "last memento": f"{base(served)}/-/item/{LAST}",
    }


def test_a_date_that_is_none_is_refused_with_an_example(served: Served) -> None:
    for text in (
        "yesterday",
        "2010-01-01",
        "Fri, 32 Jan 2010 00:00:00 GMT",
        "Fri, 01 Jan 2010 00:00:00 +0100",
    ):
        answer = served.get(f"/-/timegate/{REP}", accept_datetime=text)
        assert answer.status == 400
        assert "Thu, 31 May 2007 20:35:00 GMT" in answer.text


def test_a_timemap_lists_the_editions_as_links_and_as_json(served: Served) -> None:
    answer = served.get(f"/-/timemap/{SECOND}")
    assert answer.headers["content-type"] == "application/link-format"
    assert links(answer) == {
        "original": f"{ROOT}/{REP}!",
        "timegate": f"{base(served)}/-/timegate/{REP}",
        "self": f"{base(served)}/-/timemap/{REP}",
        "first memento": f"{base(served)}/-/item/{REP}",
        "memento": f"{base(served)}/-/item/{SECOND}",
        "last memento": f"{base(served)}/-/item/{LAST}",
    }
    assert 'datetime="Tue, 01 Jun 2010 00:00:00 GMT"' in answer.text
    as_json = served.get(f"/-/timemap/{REP}?format=json")
    by_accept = served.get(f"/-/timemap/{REP}", accept="application/json")
    timemap = json.loads(as_json.body)
    assert timemap == json.loads(by_accept.body)
    assert [each["uri"].removeprefix(f"{base(served)}/-/item/") for each in timemap["mementos"]["list"]] == [
        REP, SECOND, LAST,
    ]  # fmt: skip
    assert (timemap["original_uri"], timemap["beyond"]) == (f"{ROOT}/{REP}!", None)


def test_a_line_that_goes_on_in_another_archive_says_where_to_ask(served: Served) -> None:
    answer = served.get(f"/-/timemap/{LEAVING}")
    assert links(answer)["timemap"] == f"{ROOT}/-/timemap/{FOREIGN}"
    assert links(answer)["first last memento"] == f"{base(served)}/-/item/{LEAVING}"


def test_the_page_of_an_edition_is_a_memento_and_that_of_a_single_item_is_none(served: Served) -> None:
    page = served.get(f"/-/item/{REP}", accept="text/html")
    assert page.headers["memento-datetime"] == "Fri, 01 Jan 2010 00:00:00 GMT"
    links = " ".join(all_links(served, f"/-/item/{REP}", Accept="text/html"))
    assert f'<{base(served)}/-/timegate/{REP}>; rel="timegate"' in links
    assert f'<{ROOT}/{REP}!>; rel="original"' in links
    assert "memento-datetime" not in served.get(f"/-/item/{CLOSED}", accept="text/html").headers


@pytest.mark.parametrize(
    ("target", "original"),
    [
        (f"/{REP}", REP), (f"/{REP}!", REP), (f"/col/{REP}/doc/index.html", REP), (f"/-/item/{REP}", f"{REP}!"),
        (f"/{CLOSED}", CLOSED), (f"/-/item/{CLOSED}", f"{CLOSED}!"),
    ],
)  # fmt: skip
def test_pages_files_and_redirects_lead_to_the_gates(served: Served, target: str, original: str) -> None:
    name = original.rstrip("!")
    found = ", ".join(all_links(served, target, accept="text/html"))
    assert f'<{ROOT}/{original}>; rel="original"' in found
    assert f'<{base(served)}/-/timegate/{name}>; rel="timegate"' in found
    assert f'<{base(served)}/-/timemap/{name}>; rel="timemap"' in found


@pytest.mark.parametrize("scheme", ["http://", "https://", "http:/", "HTTP://"])
@pytest.mark.parametrize("ending", ["", "!", "!+(pt):", "/a/file.txt"])
def test_a_gate_takes_a_whole_persistent_url(served: Served, scheme: str, ending: str) -> None:
    plain = served.get(f"/-/timegate/{REP}")
    whole = f"{scheme}127.0.0.1/{REP}{ending}"
    for spelled in (whole, quote(whole, safe="")):
        answer = served.get(f"/-/timegate/{spelled}")
        assert (answer.status, answer.headers["location"]) == (302, plain.headers["location"])
        assert served.get(f"/-/timemap/{spelled}").status == 200
    strange = served.get(f"/-/timegate/{scheme}strange.example/{REP}")
    assert (strange.status, "no persistent URL of this service" in strange.text) == (400, True)


def test_what_is_removed_or_not_held_has_no_timegate(served: Served) -> None:
    for route in ("timegate", "timemap"):
        assert served.get(f"/-/{route}/{GONE}").status == 410
        assert served.get(f"/-/{route}/{FOREIGN}").status == 404
        assert served.get(f"/-/{route}/nothing").status == 400


def test_a_circle_of_editions_has_an_end(new_archive: Callable[..., NewArchive]) -> None:
    archive = new_archive("archive.example")
    one, two = (IBIForms.parse(f"rep a.example/c/{year}/01.01.00.00") for year in (2010, 2011))
    for forms, following in ((one, two), (two, one)):  # as no deposit and no import would leave it
        archive.catalogue.put(
            Holding(forms=forms, timestamp=WHEN, url="http://a.example/", next_edition=following)
        )
    holding = archive.catalogue.holding(one.main)
    assert holding is not None
    line = Mementos(archive.catalogue, "http://b", "http://r").series(holding)
    assert ([each.holding.forms for each in line.mementos], line.beyond) == ([one, two], None)


# --- handles and inflections -----------------------------------------------------------------------------------------


def values(answer: Answer) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in json.loads(answer.body)["values"]:
        found.setdefault(each["type"], []).append(each["data"]["value"])
    return found


def test_a_handle_client_learns_the_kernel_information_of_an_item(served: Served) -> None:
    answer = served.get(f"/-/api/handles/{REP}")
    record = json.loads(answer.body)
    assert (answer.status, record["responseCode"], record["handle"]) == (200, 1, REP)
    found = values(answer)
    assert found["URL"] == found["digitalObjectLocation"] == [f"{base(served)}/col/{REP}/doc/index.html"]
    assert found["IBI"] == [REP, "8JMKD3MGP8W/35MME4E"]
    assert (found["IBI_STATE"], found["IBI_ARCHIVE"]) == (["Original"], [str(SERVICE.main)])
    assert found["dateCreated"] == ["2010-01-01T00:00:00Z"]
    assert found["alternateOf"] == [f"{ROOT}/{LINKED}"]
    assert found["specializationOf"] == [f"{ROOT}/{REP}!"]
    assert len(found["etag"][0]) == 64
    assert values(served.get(f"/-/api/handles/{LAST}"))["wasRevisionOf"] == [
        f"{ROOT}/{REP}",
        f"{ROOT}/{SECOND}",
    ]
    indexes = [each["index"] for each in record["values"]]
    assert len(indexes) == len(set(indexes))
    encoded = REP.replace("/", "%2F")
    assert values(served.get(f"/-/api/handles/{encoded}?type=URL&index=2")).keys() == {"URL", "IBI"}
    assert json.loads(served.get(f"/-/api/handles/{REP}?type=HS_ADMIN").body)["responseCode"] == 200


@pytest.mark.proves("SVC-10")
def test_a_handle_client_gets_no_address_of_data_that_are_kept_back(served: Served) -> None:
    found = values(served.get(f"/-/api/handles/{CLOSED}"))
    assert found["URL"] == [f"{base(served)}/-/item/{CLOSED}"]
    assert "etag" not in found


def test_a_removed_item_is_still_told_of_and_one_that_is_elsewhere_is_asked_for_at_the_resolver(
    served: Served, new_archive: Callable[..., NewArchive]
) -> None:
    gone = values(served.get(f"/-/api/handles/{GONE}"))
    assert (gone["IBI_STATE"], gone["dateModified"]) == (["Deleted"], ["2012-02-01T00:00:00Z"])
    assert "URL" not in gone
    elsewhere = served.get(f"/-/api/handles/{FOREIGN}?type=URL")
    assert elsewhere.status == 303
    assert elsewhere.headers["location"] == f"{ROOT}/-/api/handles/{FOREIGN}?type=URL"
    with archive_with(new_archive) as alone:
        unknown = alone.get(f"/-/api/handles/{FOREIGN}")
        assert (unknown.status, json.loads(unknown.body)["responseCode"]) == (404, 100)
    bad = served.get("/-/api/handles/10.1000%2F182")
    assert (bad.status, json.loads(bad.body)["responseCode"]) == (400, 2)


@pytest.mark.proves("URL-15")
def test_info_tells_of_an_item_and_any_other_query_is_the_items_own(served: Served) -> None:
    record = served.get(f"/{CLOSED}?info")
    assert (record.status, record.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    lines = record.text.splitlines()
    assert lines[0] == "erc:"
    assert "what: Kept state: Original" in lines
    assert [line for line in lines if line.startswith("state:")] == ["state: Original"]
    assert f"where: {ROOT}/{CLOSED}" in lines
    assert "erc-support:" in lines
    page = served.get(f"/{REP}?info", accept="text/html")
    assert (page.status, page.headers["location"]) == (303, f"/-/item/{REP}")
    for query in ("info=1", "x=1&info", "information"):
        there = served.get(f"/{LINKED}?{query}")
        assert (there.status, there.headers["location"]) == (302, f"http://far.example/x?y=1&{query}")


def test_json_tells_the_same_as_json_with_what_is_promised(served: Served) -> None:
    metadata = json.loads(served.get(f"/{REP}!?json").body)
    assert metadata["ibi"] == LAST
    assert metadata["persistence"]["who"] == served.archive.settings.address
    assert "never changes" in metadata["persistence"]["what"]
    first = json.loads(served.get(f"/{REP}?json", accept="text/html").body)
    assert first["metadata"] == {"title": ["One & <two>"]}
    assert first["kernel"]["IBI_STATE"] == "Original"
    gone = served.get(f"/{GONE}?json")
    assert (gone.status, json.loads(gone.body)["persistence"]["until"]) == (410, "2012-02-01T00:00:00Z")
    away = served.get(f"/{FOREIGN}?json")
    assert (away.status, away.headers["location"]) == (302, f"{ROOT}/{FOREIGN}?json")


def test_the_description_has_the_new_route_and_its_answers_validate(served: Served) -> None:
    document = json.loads(served.get("/-/api/openapi.json").body)
    assert document_faults(document) == []
    operation = document["paths"]["/handles/{ibi}"]["get"]
    assert {"200", "303", "404", "429"} <= operation["responses"].keys()
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    for name in (REP, GONE, LINKED):
        record = json.loads(served.get(f"/-/api/handles/{name}").body)
        assert list(OAS31Validator(schema).iter_errors(record)) == []


# --- well-known addresses --------------------------------------------------------------------------------------------


def test_security_txt_and_the_api_catalog_are_there(served: Served) -> None:
    text = served.get("/.well-known/security.txt").text
    assert text.startswith("Contact: mailto:admin@archive.example\nExpires: 2024-05-")
    catalog = served.get("/.well-known/api-catalog")
    assert catalog.headers["content-type"].startswith("application/linkset+json")
    linkset = json.loads(catalog.body)["linkset"]
    assert linkset[0]["item"] == [{"href": f"{base(served)}/-/api/"}, {"href": f"{base(served)}/-/oai"}]
    [description] = linkset[1]["service-desc"]
    assert served.get(description["href"].removeprefix(base(served))).status == 200
    assert served.get("/.well-known/nothing").status == 404


def test_robots_may_read_items_and_files_and_leave_what_is_dear(served: Served) -> None:
    rules = RobotFileParser()
    rules.parse(served.get("/robots.txt").text.splitlines())
    good = ["/", f"/-/item/{REP}", f"/-/metadata/{REP}", f"/col/{REP}/doc/a.txt", f"/{REP}", "/sitemap.xml"]
    assert [path for path in good if not rules.can_fetch("any", path)] == []
    dear = [f"/-/zip/{REP}", "/-/api/items", "/-/oai?verb=Identify", f"/-/timemap/{REP}"]
    assert [path for path in dear if rules.can_fetch("any", path)] == []


# --- rate limits -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from support.archive.archive_fixture import make_archive

    def make(address: str, **more: Any) -> NewArchive:
        return make_archive(tmp_path_factory.mktemp("limited") / "archive", address, more)

    few = {"page_rate": 1.0, "page_burst": 3, "costly_rate": 0.5, "costly_burst": 2}
    with archive_with(make, trusted_proxies=("127.0.0.0/8",), **few) as made:
        yield made


def test_a_flood_is_told_when_to_come_back_and_others_are_not_kept_out(limited: Served) -> None:
    path = f"/-/item/{CLOSED}"
    first = [limited.get(path, x_forwarded_for="192.0.2.1") for _ in range(5)]
    assert [answer.status for answer in first] == [200, 200, 200, 429, 429]
    assert first[0].headers["ratelimit-policy"] == '"pages";q=3;w=3'
    assert first[0].headers["ratelimit"].startswith('"pages";r=2;')
    assert first[-1].headers["retry-after"] == "1"
    assert "more than one reader may ask for at a time; please come back in 1 s" in first[-1].text
    assert limited.get(path, x_forwarded_for="192.0.2.2").status == 200
    limited.archive.clock.now += 1
    assert limited.get(path, x_forwarded_for="192.0.2.1").status == 200
    assert limited.get(path, x_forwarded_for="192.0.2.1").status == 429


def test_below_the_interface_for_programs_it_is_a_problem(limited: Served) -> None:
    statuses = [limited.get(f"/-/api/handles/{REP}", x_forwarded_for="2001:db8:1::1") for _ in range(4)]
    assert [answer.status for answer in statuses] == [200, 200, 200, 429]
    assert statuses[-1].headers["content-type"] == "application/problem+json"
    same, other = (
        limited.get(f"/-/api/handles/{REP}", x_forwarded_for=address).status
        for address in ("2001:db8:1:0:ffff::9", "2001:db8:1:2::9")
    )
    assert (same, other) == (429, 200)  # of the same /64, and of another one


def test_neighbours_together_do_not_get_much_more_than_one(limited: Served) -> None:
    path = f"/-/item/{CLOSED}"
    statuses = [limited.get(path, x_forwarded_for=f"203.0.113.{number}").status for number in range(30)]
    assert statuses == [200] * 3 * NEIGHBOURS + [429] * (30 - 3 * NEIGHBOURS)


def test_what_is_dear_has_a_budget_of_its_own(limited: Served) -> None:
    answers = [limited.get(f"/-/zip/{REP}", x_forwarded_for="198.51.100.1") for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 429]
    assert (
        int(answers[1].headers["retry-after"]) == 8
    )  # a zip file costs five tokens, and half a one comes a second
    assert limited.get(f"/-/item/{REP}", x_forwarded_for="198.51.100.1").status == 200


def test_a_harvester_is_told_to_wait_as_harvesters_know_it(limited: Served) -> None:
    answers = [limited.get("/-/oai?verb=Identify", x_forwarded_for="198.51.101.1") for _ in range(3)]
    assert answers[-1].status == 503
    assert int(answers[-1].headers["retry-after"]) == 2


def test_files_messages_and_this_machine_are_never_counted(limited: Served) -> None:
    query = "servicesubject=urlRequest&clientinformation.ipaddress=1.2.3.4&parsedibiurl.ibi=" + REP.replace(
        "/", "%2F"
    )
    free = [
        f"/col/{REP}/doc/a%20b.txt", f"/{SERVICE.main}?{query}", f"/{REP}", "/robots.txt", "/-/healthz", "/",
    ]  # fmt: skip
    for target in free:
        answers = [limited.get(target, x_forwarded_for="203.0.113.5") for _ in range(6)]
        assert 429 not in {answer.status for answer in answers}
        assert "ratelimit" not in answers[0].headers
    assert {limited.get(f"/-/item/{REP}").status for _ in range(6)} == {200}


def test_a_rate_of_zero_limits_no_client(new_archive: Callable[..., NewArchive]) -> None:
    with archive_with(new_archive, trusted_proxies=("127.0.0.0/8",), **LIMITS) as open_to_all:
        answers = [open_to_all.get(f"/-/zip/{REP}", x_forwarded_for="192.0.2.1") for _ in range(8)]
        assert {answer.status for answer in answers} == {200}
        assert "ratelimit" not in answers[0].headers
