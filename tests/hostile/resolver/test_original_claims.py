"""Liars that claim an original: they are found whatever was asked of the item, and silence beside them is told.

Threats T04 and T05, under the policy `hardened`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ibi.identifier.forms import IBIForms
from ibi.resolver.evidence.chain import Entry
from support.resolver.running_resolver import Running, resolver, until
from support.scripted_archive import Behaviour, ScriptedArchive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

REP = "example.org/w@80/2020/01.02.00.00"
DEMANDED = "?ibiurl.requireditemstatus=Original"

WANTED = [
    ("", "", "url", "state"),
    ("/missing.pdf", "", "url", "state"),
    ("!", "GetLastEdition", "url.lastedition", "state.lastedition"),
    ("+(fr)", "GetTranslation(fr)", "url.translation(fr)", "state.translation(fr)"),
    (":", "GetMetadata", "url.metadata", "state.metadata"),
]
"""What follows the name, its verb, and the pairs with which a liar offers it."""


def body_of(archive: str, pairs: Mapping[str, str]) -> bytes:
    """What an Archive of this name says about the item."""
    every = {
        "archiveaddress": f"{archive}.example",
        "ibi": f"{{rep {REP}}}",
        "ibi.archiveservice": f"{{rep example/{archive}/2020/01.01.00.00}}",
        **pairs,
    }
    return "\r\n".join(f"{name} {value}" for name, value in every.items()).encode()


def archive(name: str, number: int, body: bytes = b"", **conduct: str) -> ScriptedArchive:
    """An Archive that says the same to every question."""
    manner = Behaviour(body, **conduct)  # type: ignore[arg-type]  # of texts, only `lie`
    ip = f"127.77.0.{number}"
    return ScriptedArchive(
        name, f"{name}.example", f"example/{name}/2020/01.01.00.00", ip, script={}, manner=manner
    )


def alerts(running: Running) -> list[Entry]:
    return [entry for entry in running.knows.evidence.entries() if entry.what == "alert"]


@pytest.mark.proves("RES-08", "RES-10")
@pytest.mark.parametrize(("wanted", "verb", "url", "state"), WANTED)
@pytest.mark.parametrize("says_item", [True, False])
def test_two_originals_are_an_alert_also_where_the_true_one_lacks_what_was_asked(
    tmp_path: Path, wanted: str, verb: str, url: str, state: str, *, says_item: bool
) -> None:
    offer = {url: "http://liar.example/x", state: "Original", "urlkey": "1234567890"}
    liar = archive("liar", 1, body_of("liar", offer | ({"state": "Original"} if says_item else {})))
    holder = archive("holder", 2, body_of("holder", {"state": "Original"}))

    async def scene() -> None:
        async with resolver(tmp_path, [liar, holder, archive("other", 3)]) as running:
            answer = await running.ask(f"/{REP}{wanted}{DEMANDED}")
            assert (answer.status, answer.location) == (409, None)
            assert all(name.encode() in answer.body for name in (liar.service, holder.service))
            explained = await running.ask(f"/-/explain/{REP}{wanted}{DEMANDED}", "Accept: application/json")
            assert b'"suspect-originals"' in explained.body
            await until(lambda: alerts(running))

    asyncio.run(scene())
    assert (REP, tuple(verb.split())) in {question[:2] for question in holder.questions}


@pytest.mark.proves("RES-08", "RES-10")
def test_a_redirect_to_one_claimant_tells_how_many_were_silent(tmp_path: Path) -> None:
    claims = body_of("a", {"state": "Original", "url": "http://a.example/x", "urlkey": "1234567890"})
    cast = [archive("a", 1, claims), archive("b", 2), archive("c", 3, lie="reset")]

    async def scene() -> None:
        async with resolver(tmp_path, cast) as running:
            for method in ("GET", "HEAD", "GET"):
                answer = await running.ask(f"/{REP}{DEMANDED}", method=method)
                assert (answer.status, answer.location) == (302, "http://a.example/x")
                assert answer.headers["ibi-incomplete"] == "1 of 3"
            explained = await running.ask(f"/-/explain/{REP}{DEMANDED}")
            assert explained.headers["ibi-incomplete"] == "1 of 3"
            # What does not demand the original is decided by one answer, and is never incomplete.
            assert "ibi-incomplete" not in (await running.ask(f"/{REP}")).headers
            cast[2].manner = Behaviour(b"")
            answer = await running.ask(f"/{REP}{DEMANDED}")
            assert (answer.status, answer.headers.get("ibi-incomplete")) == (302, None)

    asyncio.run(scene())


@pytest.mark.proves("RES-08")
def test_a_resolver_passes_on_how_many_were_silent_at_the_one_that_it_asked(tmp_path: Path) -> None:
    claims = body_of("a", {"state": "Original", "url": "http://a.example/x", "urlkey": "1234567890"})
    above = [archive("a", 1, claims), archive("b", 2), archive("c", 3, lie="reset")]
    here = [archive("d", 4), archive("e", 5, lie="reset")]
    (tmp_path / "above").mkdir()
    (tmp_path / "here").mkdir()

    async def scene() -> None:
        async with resolver(tmp_path / "above", above) as upper:
            upstream = f"http://127.0.0.1:{upper.port}/"
            service = IBIForms.parse("rep example/r/2020/01.01.00.00")
            async with resolver(tmp_path / "here", here, upstream=upstream, service=service) as running:
                answer = await running.ask(f"/{REP}{DEMANDED}")
                assert (answer.status, answer.location) == (302, "http://a.example/x")
                assert answer.headers["ibi-incomplete"] == "2 of 5"
                assert "ibi-incomplete" not in (await running.ask(f"/{REP}")).headers
                above[2].manner = here[1].manner = Behaviour(b"")
                answer = await running.ask(f"/{REP}{DEMANDED}")
                assert (answer.status, answer.headers.get("ibi-incomplete")) == (302, None)

    asyncio.run(scene())
