"""The examples of the resolution standard, answered by our own Archives and resolver under the names of the documents.

What is compared is what went over the wire, with the vectors made from the documents. Settled repairs: AMB-21 (typos),
AMB-29 (`%` is escaped), AMB-49 (`url.persistent` without the default port), AMB-50 (state is always sent).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from ibi.protocol.pair_list import PairList, read_pairs
from support.network.own_network import KEY, Exchange, OwnNetwork, Peer
from support.oracles.vectors import Vector, load

M16C, M16D, M21 = "mtc-m16c.sid.inpe.br", "mtc-m16d.sid.inpe.br", "mtc-m21.sid.inpe.br"
M16C_SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
M16D_SERVICE = "sid.inpe.br/mtc-m19@80/2009/08.21.17.02"
M21_SERVICE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
SECOND_EDITION = "sid.inpe.br/mtc-m18/2012/07.12.18.08"
READER = {
    "x_forwarded_for": "172.16.44.200, 150.163.68.1",
    "accept_language": "pt-BR,fr;q=0.8,en;q=0.5,pt;q=0.3",
}
NINE_RELATIONS = (
    "", ".lastedition", ".lastedition.metadata", ".lastedition.metadata(oai_dc)", ".metadata", ".metadata(oai_dc)",
    ".metadata.translation", ".translation(en)", ".translation(pt)",
)  # fmt: skip


def _vector(group: str, name: str) -> Vector:
    return next(vector for vector in load(group) if vector.id == name)


def _printed(name: str) -> PairList:
    """The pairs of an answer as printed, each value a word or a tuple of words."""
    pairs = _vector("pairlist", name).expected["pairs"]
    return {key: value if isinstance(value, str) else tuple(value) for key, value in pairs.items()}


def _without_key(pairs: PairList) -> PairList:
    """urlkeys are new in every answer."""
    return {name: value for name, value in pairs.items() if name != "urlkey"}


def pairs_of(exchange: Exchange) -> PairList:
    return read_pairs(exchange.body.encode("ascii"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The items of the examples; those of the second edition of 10.2 also in a file of their own."""
    folder = tmp_path_factory.mktemp("samples") / "samples"
    with as_file(files("ibi.cli") / "samples") as source:
        shutil.copytree(source, folder)
    lines = (folder / "standard-m16c.jsonl").read_text().splitlines(keepends=True)
    second = [line for line in lines if json.loads(line).get("rep", "").startswith(SECOND_EDITION)]
    (folder / "second-edition.jsonl").write_text("".join(second))
    (folder / "first-edition.jsonl").write_text("".join(line for line in lines if line not in second))
    return folder


@pytest.fixture(scope="module")
def network(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNetwork]:
    """m16c with all its items, m16d, and m21 of chapter 7."""
    m16c = Peer(
        M16C, M16C_SERVICE, (samples / "standard-m16c.jsonl",), settings={"relations": NINE_RELATIONS}
    )
    m16d = Peer(M16D, M16D_SERVICE, (samples / "standard-m16d.jsonl",))
    m21 = Peer(M21, M21_SERVICE, ip="150.163.34.239")
    with OwnNetwork(tmp_path_factory.mktemp("network"), m16c, m16d, m21) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def joining(network: OwnNetwork) -> list[Exchange]:
    """What went over the wire when the network began, before any test has had it forgotten."""
    return network.heard()


@pytest.fixture(scope="module")
def two_homes(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNetwork]:
    """The editions of 10.2 in two Archives: only then does the first not know where the second is."""
    m16c = Peer(M16C, M16C_SERVICE, (samples / "first-edition.jsonl",))
    m16d = Peer(M16D, M16D_SERVICE, (samples / "second-edition.jsonl",))
    with OwnNetwork(tmp_path_factory.mktemp("homes"), m16c, m16d) as running:
        yield running


@pytest.mark.proves("MSG-02", "MSG-03", "MSG-20", "MSG-22", "MSG-23", "REG-03", "REG-04", "REG-06")
def test_examples_7_2_and_7_4_inclusion_and_its_call_back(joining: list[Exchange]) -> None:
    requests = [each for each in joining if each.pairs.get("servicesubject") == "inclusionRequest"]
    request = next(each for each in requests if each.pairs["archiveaddress"] == M21)
    printed = _vector("message", "msg-02").expected
    ours = {
        "archiveadmemailaddress": "admin@archive.example",
        "archiveplatformversion": request.pairs["archiveplatformversion"],
    }
    assert request.pairs == printed["params"] | ours
    assert request.url.partition("?")[0] == printed["base"].replace("www.", "")
    assert request.pairs["registrationkey"] == KEY
    assert pairs_of(request) == {"status.archive": "included", "status.confirmation": "successful"}
    confirmations = [
        each for each in joining if each.pairs.get("servicesubject") == "inclusionConfirmationRequest"
    ]
    call_back = next(each for each in confirmations if each.host == M21)
    assert call_back.url == _vector("message", "msg-04").input["url"]
    assert call_back.body == "confirmation yes"


@pytest.mark.proves("SVC-22", "MSG-25", "MSG-26", "MSG-13")
def test_examples_6_1_and_6_2_a_url_request_and_its_answer(network: OwnNetwork) -> None:
    url = _vector("message", "msg-01").input["url"]
    answer = network.ask(M16D, url.removeprefix(f"http://{M16D}"))
    assert answer.headers["content-type"] == "text/plain"
    assert _without_key(read_pairs(answer.body)) == _without_key(_printed("pl-01"))
    assert "urlkey" in read_pairs(answer.body)


@pytest.mark.proves("SVC-23", "SVC-03", "SVC-14", "SVC-17")
def test_example_9_2_all_49_pairs_from_the_catalogue(samples: Path, tmp_path: Path) -> None:
    whole = {"relations": NINE_RELATIONS, "filter_answers": False}
    peer = Peer(M16C, M16C_SERVICE, (samples / "standard-m16c.jsonl",), settings=dict(whole))
    with OwnNetwork(tmp_path, peer) as network:
        pairs = _url_list(network, "8JMKD3MGP8W/35MME4E")
        assert len(pairs) == 49
        assert _without_key(pairs) == _without_key(_printed("pl-02"))


@pytest.mark.proves("SVC-24", "SVC-19")
def test_example_9_3_the_15_pairs_that_the_filter_leaves(network: OwnNetwork) -> None:
    pairs = _url_list(network, "8JMKD3MGP8W/35MME4E", "GetTranslation")
    assert len(pairs) == 15
    assert _without_key(pairs) == _without_key(_printed("pl-03"))


def _url_list(network: OwnNetwork, ibi: str, verbs: str = "") -> PairList:
    more = f"&parsedibiurl.verblist={verbs}" if verbs else ""
    query = (
        f"clientinformation.ipaddress=150.163.2.175&parsedibiurl.ibi={ibi}{more}&servicesubject=urlRequest"
    )
    return read_pairs(network.ask(M16C, f"/{M16C_SERVICE}?{query}").body)


@pytest.mark.proves("SVC-26", "RES-01", "RES-02", "RES-03", "RES-11", "RES-12", "MSG-27", "MSG-28")
def test_example_10_1_a_whole_resolution_on_the_wire(network: OwnNetwork) -> None:
    trace = _vector("resolve", "res-01").expected
    network.forget()
    answer = network.resolve("/8JMKD3MGP8W/35MMLL8", **READER)
    assert (answer.status, answer.location) == (302, trace["redirect"])
    [query] = [each for each in network.heard("urlRequest") if each.host == M16C]
    assert [query.url] == trace["requests"]
    repaired = {
        name: value.replace("\\", "") if isinstance(value, str) else value
        for name, value in _printed("pl-04").items()
    }
    assert _without_key(pairs_of(query)) == _without_key(repaired)
    _check_acknowledgment(network, M16C, query, trace["ack"])


@pytest.mark.proves("SVC-27", "RES-09", "SVC-16")
def test_example_10_2_the_metadata_of_the_last_edition_in_two_rounds(two_homes: OwnNetwork) -> None:
    trace = _vector("resolve", "res-02").expected
    two_homes.forget()
    answer = two_homes.resolve("/8JMKD3MGP8W/35MMLL8!:(oai_dc)", **READER)
    assert (answer.status, answer.location) == (302, trace["redirect"])
    rounds = two_homes.heard("urlRequest")
    assert [each.url for each in rounds if each.host == M16C] == trace["requests"]
    first, second = [each for each in rounds if each.body]
    assert pairs_of(first) == _printed("pl-05")
    home = {"archiveaddress": M16D, "ibi.archiveservice": ("rep", M16D_SERVICE)}
    assert _without_key(pairs_of(second)) == _without_key(_printed("pl-06")) | home
    _check_acknowledgment(two_homes, M16D, second, trace["ack"])


@pytest.mark.proves("SVC-27")
def test_example_10_2_the_second_answer_as_printed(network: OwnNetwork) -> None:
    pairs = _url_list(network, SECOND_EDITION, "GetLastEdition%20GetMetadata(oai_dc)")
    assert _without_key(pairs) == _without_key(_printed("pl-06"))


def _check_acknowledgment(
    network: OwnNetwork, host: str, answered: Exchange, printed: dict[str, str]
) -> None:
    """One acknowledgment, with the values that are printed, the key of this answer, and the notice as its reply."""
    persistent = printed["url.persistent"].replace(":80/", "/")

    def heard() -> list[Exchange]:
        return [
            each for each in network.heard("acknowledgment") if each.pairs["url.persistent"] == persistent
        ]

    network.wait_for(lambda: bool(heard()), "the acknowledgment")
    [acknowledgment] = heard()
    ours = {"urlkey": pairs_of(answered)["urlkey"], "url.persistent": persistent}
    assert acknowledgment.host == host
    assert acknowledgment.pairs == printed | ours
    assert acknowledgment.body == "notice {acknowledgment received}"


@pytest.mark.proves("MSG-27", "MSG-13")
def test_example_8_9_an_acknowledgment_of_a_name_with_foreign_letters(network: OwnNetwork) -> None:
    network.forget()
    answer = network.resolve("/8JMKD3MGP7W/3EPGUE5", x_forwarded_for="150.163.2.175")
    printed = dict(_vector("message.build", "msg-05b").input["params"])
    assert answer.location.endswith("/doc/Relat%f3rio%20Final.pdf")
    [query] = [each for each in network.heard("urlRequest") if each.host == M16D]
    ours = {
        "state": "Original",
        "url.persistent": "http://urlib.net/8JMKD3MGP7W/3EPGUE5",
        "url": answer.location,
    }
    _check_acknowledgment(network, M16D, query, printed | ours)


BASE_C = f"http://{M16C}/col/sid.inpe.br/mtc-m18@80/2009"
BASE_D = f"http://{M16D}/col/iconet.com.br/banon/2009/09.09.22.01/doc"
SECOND = f"http://{M16C}/col/{SECOND_EDITION}"
REDIRECTS = {
    "8.1": [
        ("/8JMKD3MGP8W/35MME4E", f"{BASE_C}/07.21.13.23/doc/CCSDS%20643.0-B-1.pdf"),
        ("/8JMKD3MGP8W/35MMLL8", f"{BASE_C}/07.21.14.43/doc/CCSDS%20650.0-B-1.pdf"),
        ("/LK47B6W/362SFKH", f"{BASE_D}/@relatorio.pdf"),
        ("/iconet.com.br/banon/2009/09.09.22.01", f"{BASE_D}/@relatorio.pdf"),
    ],
    "8.2": [
        ("/8JMKD3MGP8W/35MME4E:", f"{BASE_C}/07.21.13.23.47/doc/metadata.cgi"),
        ("/8JMKD3MGP8W/35MME4E:(oai_dc)", f"{BASE_C}/07.21.13.23.47/doc/metadata.cgi?choice=oai_dc"),
    ],
    "8.3": [
        ("/8JMKD3MGP8W/35MME4E+", f"{BASE_C}/08.25.19.43/doc/RTC-07.pdf"),
        ("/8JMKD3MGP8W/35MME4E+(pt)", f"{BASE_C}/08.25.19.43/doc/RTC-07.pdf"),
        ("/8JMKD3MGP8W/35MME4E+(en)", f"{BASE_C}/07.21.13.23/doc/CCSDS%20643.0-B-1.pdf"),
    ],
    "8.4": [
        ("/8JMKD3MGP8W/35MMLL8!", f"{SECOND}/doc/second-edition.pdf"),
        ("/8JMKD3MGP8W/35MMLL8!:(oai_dc)", f"{SECOND}.49/doc/metadata.cgi?choice=oai_dc"),
    ],
    "8.5": [
        (
            "/8JMKD3MGP8W/35MMLL8?ibiurl.verblist=GetLastEdition+GetMetadata(oai_dc)",
            f"{SECOND}.49/doc/metadata.cgi?choice=oai_dc",
        )
    ],
    "8.6": [
        (
            "/LK47B6W/362SFKH?ibiurl.verblist=GetFileList",
            f"http://{M16D}/-/files/iconet.com.br/banon/2009/09.09.22.01",
        )
    ],
    "8.7": [("/LK47B6W/362SFKH/reference.bib", f"{BASE_D}/reference.bib")],
}


@pytest.mark.proves("URL-04", "URL-05", "URL-12", "URL-13", "URL-19", "URL-20", "SVC-11")
@pytest.mark.parametrize(
    ("target", "location"),
    [pair for pairs in REDIRECTS.values() for pair in pairs],
    ids=[f"{example}-{number}" for example, pairs in REDIRECTS.items() for number in range(len(pairs))],
)
def test_examples_8_1_to_8_7_lead_to_a_document_that_is_there(
    network: OwnNetwork, target: str, location: str
) -> None:
    answer = network.resolve(target, **READER)
    assert (answer.status, answer.location) == (302, location)
    host, slash, path = location.removeprefix("http://").partition("/")
    assert network.ask(host, slash + path).status == 200


@pytest.mark.proves("RES-02", "RES-03")
def test_example_8_8_nothing_of_language_and_required_state_reaches_an_archive(network: OwnNetwork) -> None:
    network.forget()
    answer = network.resolve(
        "/LK47B6W/362SFKH+?ibiurl.requireditemstatus=Original&ibiurl.verblist=GetMetadata",
        accept_language="pt-br,fr;q=0.8,en;q=0.5,pt;q=0.3",
        x_forwarded_for="172.16.44.200, 150.163.68.1",
    )
    assert answer.status == 404  # it has no metadata
    queries = network.heard("urlRequest")
    assert {each.host for each in queries} == {M16C, M16D, M21}
    first = next(each for each in queries if each.host == M16D)
    assert first.pairs == {
        "clientinformation.ipaddress": "172.16.44.200 150.163.68.1",
        "parsedibiurl.ibi": "LK47B6W/362SFKH",
        "parsedibiurl.verblist": "GetTranslation GetMetadata",
        "servicesubject": "urlRequest",
    }
    for each in queries:
        assert not any(
            word in (each.target + each.head).lower() for word in ("original", "language", "fr;q", "pt-br")
        )


@pytest.mark.proves("REG-07", "REG-06")
def test_example_7_3_exclusion_when_an_archive_is_switched_off(tmp_path: Path) -> None:
    with OwnNetwork(tmp_path, Peer(M21, M21_SERVICE, ip="150.163.34.239")) as network:
        pass
    [request] = network.heard("exclusionRequest")
    printed = _vector("message", "msg-03").expected["params"]
    ours = {
        "archiveadmemailaddress": "admin@archive.example",
        "archiveplatformversion": request.pairs["archiveplatformversion"],
    }
    # It is stopped, and says until when beside what is printed (note 48); `switch off` says nothing of that.
    more = {"exclusion.end": request.pairs["exclusion.end"]}
    assert request.pairs == printed | ours | more
    assert pairs_of(request) == {"status.archive": "excluded"}
