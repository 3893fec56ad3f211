"""The client of a resolver, with a real one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

import ibi
from ibi.accounts.tokens import Scope
from ibi.client import (
    AsyncResolver,
    NotFound,
    Refused,
    Removed,
    Resolver,
    Retries,
    TwoOriginals,
    Unavailable,
)
from ibi.errors import PeerGarbled, PeerSilent, SetupError
from support.client.scripted_server import answer, scripted
from support.style.layers import ROOT

if TYPE_CHECKING:
    from support.client.network import Network

TEXT = "archive.example/first/2026/03.02.10.15"
SERVICE = "archive.example/first/2026/02.01.09.00"
GONE = "archive.example/first/2026/04.01.08.00"
CLAIMED_TWICE = "archive.example/first/2026/05.20.11.05?ibiurl.requireditemstatus=Original"
ALERT = '{"outcome": {"status": 503, "alert": {"kind": "incomplete", "title": "T", "detail": "D"}}}'


def test_it_resolves_names_in_every_form_without_a_reader(resolver: Resolver, network: Network) -> None:
    name = "archive.example/first/2026/09.14.16.40"  # which no other test follows
    here = f"{network.archive}/col/{name}/doc/index.html"
    ibip = network.program.ask("GET", f"/items/{name}").content()["ibip"]
    for text in (name, ibi.parse_ibi(name), f"ibi:{name}", f"see {network.resolver}/{name}).", ibip):
        found = resolver.resolve(text)
        assert (found.url, found.archive, found.state) == (here, SERVICE, "Original")
        assert (found.incomplete, found.explanation["policy"]) == (False, "hardened")
    assert network.program.ask("GET", f"/items/{name}", None, Scope.READ).content()["thanks"] == 0


def test_it_raises_what_the_alert_says(resolver: Resolver) -> None:
    with pytest.raises(Removed, match="was removed") as removed:
        resolver.resolve(GONE)
    assert removed.value.moment.startswith("2026-")
    with pytest.raises(NotFound) as missing:
        resolver.resolve(f"{TEXT}+(fr)")
    assert (missing.value.kind, missing.value.facts["known"]) == ("no-translation", True)
    assert "pt" in missing.value.facts["alternates"]
    with pytest.raises(TwoOriginals) as claimed:
        resolver.resolve(CLAIMED_TWICE)
    assert sorted(claimed.value.archives) == [SERVICE, "archive.example/second/2026/02.01.09.30"]
    with pytest.raises(ibi.ParseError):
        resolver.resolve("no name")


def test_it_fetches_metadata_where_they_are(resolver: Resolver, network: Network) -> None:
    found = resolver.metadata(TEXT)
    assert found.url == f"{network.archive}/-/metadata/{TEXT}?format=oai_dc"
    assert b"Names that stay" in found.content
    with pytest.raises(NotFound):
        resolver.metadata(TEXT, "nothing")
    with pytest.raises(Removed):
        resolver.metadata(GONE)


def test_it_reads_records_as_handles_have_them(resolver: Resolver) -> None:
    values = {each.type: each.data for each in resolver.handle_values(TEXT, everywhere=True)}
    assert values["IBI_STATE"] == "Original"
    assert "<location " in values["10320/loc"]
    assert values["URL"].endswith("index.html")


def test_the_language_is_the_programs(network: Network) -> None:
    with Resolver(network.resolver, language="pt-BR") as resolver, pytest.raises(Removed, match="removido"):
        resolver.resolve(GONE)


def test_the_same_with_asyncio(network: Network) -> None:
    async def work() -> None:
        async with AsyncResolver(network.resolver) as resolver:
            one, other = await asyncio.gather(resolver.resolve(TEXT), resolver.resolve("32G4GKPW/4F97PUL"))
            assert one.url == other.url
            assert (await resolver.metadata(TEXT)).media_type == "application/xml"
            assert (await resolver.explain(GONE))["outcome"]["status"] == 410
            assert await resolver.handle_values(TEXT)
            with pytest.raises(Removed):
                await resolver.resolve(GONE)

    asyncio.run(work())


def test_connections_are_used_again(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[HTTPConnection] = []
    connect = HTTPConnection.connect

    def counted(connection: HTTPConnection) -> None:
        connected.append(connection)
        connect(connection)

    monkeypatch.setattr(HTTPConnection, "connect", counted)
    for _ in range(3):
        resolver.resolve(TEXT)
    assert len(connected) == 1


def test_an_outcome_that_may_be_another_one_later_is_asked_for_again() -> None:
    later = answer(200, ALERT.encode(), ibi_outcome="503", retry_after="0")
    found = answer(
        200,
        b'{"outcome": {"status": 302, "location": "http://a.example/"}}',
        ibi_outcome="302",
        ibi_incomplete="1 of 3",
    )
    with scripted(later, found) as there, Resolver(there.root) as resolver:
        resolution = resolver.resolve(TEXT)
        assert (resolution.silent, resolution.incomplete, resolution.state) == (1, True, "")
        assert there.requests == [f"GET /-/explain/{TEXT}"] * 2
    with scripted(later) as there, Resolver(there.root, retries=Retries(attempts=2)) as resolver:
        with pytest.raises(Unavailable, match=r"T\. D") as unavailable:
            resolver.resolve(TEXT)
        assert (unavailable.value.retry_after, len(there.requests)) == (0, 2)


def test_the_token_goes_only_to_the_resolver() -> None:
    with (
        scripted(answer(200, b"metadata", "text/plain")) as archive,
        scripted(answer(302, b"", location=f"{archive.root}/m?x=%C3%A9")) as there,
        Resolver(there.root, "secret") as resolver,
    ):
        assert resolver.metadata(TEXT).content == b"metadata"
        assert there.headers[0]["authorization"] == "Bearer secret"
        assert archive.requests == ["GET /m?x=%C3%A9"]
        assert "authorization" not in archive.headers[0]


@pytest.mark.parametrize("location", ["/again", "ftp://a.example/x", "http://[", "http://"])
def test_redirects_that_lead_nowhere_end(location: str) -> None:
    with scripted(answer(302, b"", location=location)) as there, Resolver(there.root) as resolver:
        with pytest.raises((PeerGarbled, PeerSilent)):
            resolver.metadata(TEXT)
        assert len(there.requests) <= 6


@pytest.mark.parametrize(
    ("outcome", "body"),
    [
        ("302", b"[]"),
        ("302", b"{}"),
        ("302", b"[" * 100_000),
        ("302", b"\xff"),
        ("302", b'{"outcome": 5}'),
        ("302", b'{"outcome": {"location": 5}}'),
        ("302", b'{"outcome": {"location": "http://a.example/"}, "rounds": [5]}'),
        ("302", b'{"outcome": {"location": "http://a.example/"}, "rounds": [{"statements": {}}]}'),
        ("404", b'{"outcome": {"alert": []}}'),
    ],
)
def test_an_answer_that_makes_no_sense_is_one_error(outcome: str, body: bytes) -> None:
    with (
        scripted(answer(200, body, ibi_outcome=outcome)) as there,
        Resolver(there.root) as resolver,
        pytest.raises(PeerGarbled, match="cannot be understood"),
    ):
        resolver.resolve(TEXT)


def test_alerts_of_any_form_are_refusals() -> None:
    body = b'{"kind": [], "title": 5, "detail": null, "about": [1, "x"], "timestamp": {}, "archives": 5}'
    for status in (400, 404, 409, 410, 500, 502):
        with (
            scripted(answer(status, body, "application/problem+json")) as there,
            Resolver(there.root) as resolver,
            pytest.raises(Refused, match=f"answers with the status {status}") as refused,
        ):
            resolver.resolve(TEXT)
        assert refused.value.status == status
        assert not isinstance(refused.value, TwoOriginals)


@pytest.mark.parametrize(
    "root", ["", "urlib.net", "ftp://a.example/", "http://a.example/?x", "http://a:b", "http://é.br"]
)
def test_what_is_no_root_url_is_refused(root: str) -> None:
    with pytest.raises(SetupError, match="root URL"):
        Resolver(root)
    with pytest.raises(SetupError, match="token"):
        Resolver("http://a.example/", "a\r\nb")


def test_it_needs_only_python() -> None:
    start = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import ibi.client; "
    tell = "print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + tell], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= {"ibi", "__main__", *sys.stdlib_module_names}
