"""Readers who ask a resolver for metadata by Accept, at Archives with and without the format (note 30)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ibi.runtime.settings import ResolverSettings
from proofs.resolver.lending import archives, make_resolver
from proofs.resolver.lending import item as lent_item
from support.resolver.fast_path_fixture import FastPathResolver, serve_fast_path, where
from support.resolver.one_item import (
    DELETED,
    IBI,
    KEY,
    M16D,
    REP,
    URL,
    answer_of,
    body,
    item,
    m16c,
    m16d,
    play,
)
from support.resolver.running_resolver import resolver
from support.resolver.shared_files import until
from support.scripted_archive import Behaviour, ScriptedArchive
from support.stream_server import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.resolver.running_resolver import Running

BIBTEX = "Accept: application/x-bibtex"
VERB = "GetMetadata(bibtex)"
PLACE = "http://mtc-m16c.sid.inpe.br/m?format=bibtex"
ANSWERED = body(
    urlkey=KEY, **{"url_metadata(bibtex)": PLACE, "state_metadata(bibtex)": "Original", "state": "Original"}
)  # fmt: skip
BROWSER = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8\r\n"


def with_metadata(**conduct: object) -> ScriptedArchive:
    """An Archive with an item and its BibTeX."""
    archive = m16c(item())
    archive.script[IBI.lower(), (VERB,), ""] = Behaviour(ANSWERED, **conduct)  # type: ignore[arg-type]  # by name
    return archive


@pytest.mark.proves("RES-11", "AMB-49")
def test_metadata_are_acknowledged_as_what_they_are_and_head_is_answered_alike(tmp_path: Path) -> None:
    archive = with_metadata()

    async def scene(running: Running) -> None:
        head = await running.ask(f"/{IBI}", BIBTEX, method="HEAD")
        get = await running.ask(f"/{IBI}", BIBTEX)
        await running.acknowledged()
        assert (head.status, head.location) == (get.status, get.location) == (303, PLACE)
        assert get.headers["link"].startswith(f'<http://urlib.net/{IBI}>; rel="cite-as", ')

    play(tmp_path, [archive], scene)
    [acknowledgment] = archive.acknowledgments
    assert acknowledgment["url.persistent"] == f"http://urlib.net/{IBI}:(bibtex)"
    assert (acknowledgment["contenttype"], acknowledgment["url"]) == ("Metadata", PLACE)


@pytest.mark.parametrize(
    "other",
    [
        Behaviour(b""),
        Behaviour(body(state="Original")),
        Behaviour(body(state="Original", **{"url_metadata(ris)": "http://a.example/ris"})),
        Behaviour(body(urlkey=KEY, **{"url_metadata(bibtex)": "ftp://a.example/bibtex"})),
        Behaviour(b"{ no pair list"),
        Behaviour(lie="reset"),
    ],
    ids=["unknown", "without metadata", "another format", "unsafe", "garbled", "broken off"],
)
def test_an_archive_without_the_format_gives_the_item(tmp_path: Path, other: Behaviour) -> None:
    archive = m16c(item())
    archive.script[IBI.lower(), (VERB,), ""] = other
    answer = answer_of(tmp_path, [archive, m16d()], f"/{IBI}", BIBTEX)
    assert (answer.status, answer.location, answer.headers["vary"]) == (302, URL, "Accept")


def test_two_resolutions_are_one_click_which_costs_what_they_cost(tmp_path: Path) -> None:
    """Of two resolutions that a client may ask for, the one click takes both."""
    archive = m16c(item())

    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{IBI}", BIBTEX)).status == 302
        metrics = (await running.ask("/-/metrics")).body.decode()
        assert 'ibi_resolver_resolutions_total{outcome="redirect"} 1' in metrics
        assert 'outcome="not-found"} 1' not in metrics
        assert (await running.ask(f"/{IBI}", BIBTEX)).status == 429

    play(tmp_path, [archive], scene, request_rate=0.001, request_burst=2)


@pytest.mark.parametrize(
    ("answers", "status", "kind"), [((), 404, "not-found"), ((DELETED,), 410, "deleted")]
)
def test_the_alert_is_that_of_the_item(
    tmp_path: Path, answers: tuple[bytes, ...], status: int, kind: str
) -> None:
    archive = m16c()
    for verbs in ((), (VERB,)):
        archive.script[IBI.lower(), verbs, ""] = Behaviour(answers[0] if answers else b"")
    answer = answer_of(tmp_path, [archive], f"/{IBI}", f"{BIBTEX}, application/problem+json;q=0.1")
    problem = json.loads(answer.body)
    assert (answer.status, problem["kind"]) == (status, kind)
    assert problem["instance"] == f"http://urlib.net/{IBI}"


def test_the_original_is_required_of_the_metadata_too(tmp_path: Path) -> None:
    copy = ScriptedArchive("m16d", "mtc-m16d.sid.inpe.br", M16D)
    copy.script[IBI.lower(), (VERB,), ""] = Behaviour(
        body(M16D, **{"url_metadata(bibtex)": "http://mtc-m16d.sid.inpe.br/m", "state_metadata(bibtex)": "Copy"})
    )  # fmt: skip
    target = f"/{IBI}?ibiurl.requireditemstatus=Original"
    answer = answer_of(tmp_path, [with_metadata(), copy], target, BIBTEX)
    assert (answer.status, answer.location) == (303, PLACE)


@pytest.mark.parametrize("knows_metadata", [True, False])
def test_an_upstream_resolver_is_asked_for_the_metadata_and_then_for_the_item(
    tmp_path: Path, knows_metadata: bool
) -> None:
    requested: list[str] = []

    async def above(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        requested.append(target)
        metadata = target.endswith(":(bibtex)")
        place = PLACE if metadata else URL
        status = "404 Not Found" if metadata and not knows_metadata else "302 Found"
        head = f"HTTP/1.1 {status}\r\nLocation: {place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        writer.close()

    async def scene() -> None:
        async with (
            listening(above) as port,
            resolver(tmp_path, [m16c(b"")], upstream=f"http://127.0.0.1:{port}/") as running,
        ):
            answer = await running.ask(f"/{REP}!", BIBTEX)
            expected = (303, PLACE) if knows_metadata else (302, URL)
            assert (answer.status, answer.location) == expected
            assert answer.headers["vary"] == "Accept, Accept-Language"

    asyncio.run(scene())
    assert requested == [f"/{REP}!:(bibtex)"] + ([] if knows_metadata else [f"/{REP}!"])


# The fast path

ONE = lent_item(0, 1)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[FastPathResolver]:
    with archives(1) as around:
        make_resolver(tmp_path, around)
        with serve_fast_path(tmp_path, around) as made:
            yield made


def test_browsers_stay_on_the_fast_path_and_programs_that_ask_for_metadata_do_not(
    one: FastPathResolver,
) -> None:
    one.warm(ONE)
    place = f"http://files.example/0/{ONE}"
    for accept in (BROWSER, "", "Accept: */*\r\n", "Accept: application/json\r\n", "Accept: \xff;q\r\n"):
        for _ in range(2):  # the second time it repeats its headers
            assert one.given(ONE, accept) == place
    for accept in (f"{BIBTEX}\r\n", "Accept: image/png\r\nAccept: text/turtle\r\n"):
        for _ in range(2):
            assert one.given(ONE, accept) is None
        assert where(one.ask(ONE, accept)) == place  # this Archive has no metadata
    assert one.given(ONE, BROWSER) == place


def test_a_redirect_to_metadata_is_never_given_to_a_browser(one: FastPathResolver) -> None:
    """What is cached for all is asked for without metadata, however often they were asked for first."""
    one.around[0].metadata = "http://files.example/metadata"
    for _ in range(5):
        answer = one.ask(ONE, f"{BIBTEX}\r\n")
        assert (answer.split()[1], where(answer)) == ("303", "http://files.example/metadata")
    one.warm(ONE, headers=BROWSER)
    for _ in range(3):
        assert one.given(ONE, BROWSER) == f"http://files.example/0/{ONE}"
        assert where(one.ask(ONE, f"{BIBTEX}\r\n")) == "http://files.example/metadata"
    assert "vary: Accept\r\n" in one.ask(ONE, BROWSER) + "\r\n"
    until(lambda: one.metrics()["thanks_queued"] == 0)


def test_what_caches_of_others_may_keep_says_that_accept_decides(one: FastPathResolver) -> None:
    replace(ResolverSettings.read(one.data), redirect_seconds=30).write(one.data)
    one.around[0].metadata = "http://files.example/metadata"
    until(lambda: "cache-control: public" in one.ask(ONE, BROWSER))
    one.warm(ONE, headers=BROWSER)
    kept = one.ask(ONE, BROWSER)
    assert "cache-control: public" in kept
    assert "vary: Accept\r\n" in f"{kept}\r\n"
    assert "cache-control: private, no-store" in one.ask(ONE, f"{BIBTEX}\r\n")
