"""The client of an Archive, with a real one: what it reads, and that a deposit makes one item, whatever breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ibi.accounts.tokens import Scope
from ibi.client import Archive, AsyncArchive, NotFound, Refused, Removed, Retries
from ibi.errors import BadField, PeerGarbled, PeerSilent, SetupError
from support.client.scripted_server import answer, losing, scripted

if TYPE_CHECKING:
    from support.client.network import Network

TEXT = "archive.example/first/2026/03.02.10.15"
GONE = "archive.example/first/2026/04.01.08.00"
AT_ONCE = Retries(pause=0)


@pytest.fixture
def archive(network: Network) -> Iterator[Archive]:
    with Archive(network.archive, network.program.token(Scope.DEPOSIT), retries=AT_ONCE) as made:
        yield made


def test_it_reads_an_item(archive: Archive) -> None:
    item = archive.item(f"ibi:{TEXT}")
    assert (item.rep, item.ibip, item.ibi) == (TEXT, "32G4GKPW/4F97PUL", "32G4GKPW/4F97PUL")
    assert (item.state, item.title) == ("Original", "Names that stay (first edition)")
    assert (item.etag[:1], item.facts["language"]) == ('"', "en")
    with pytest.raises(NotFound):
        archive.item("archive.example/first/2026/03.02.10.16")
    with pytest.raises(Removed) as removed:
        archive.item(GONE)
    assert removed.value.moment.startswith("2026-")


def test_it_gets_metadata_in_the_formats_of_the_archive(archive: Archive) -> None:
    assert archive.metadata(TEXT, "bibtex").content.startswith(b"@")
    assert json.loads(archive.metadata(TEXT, "csl").content)
    with pytest.raises(Refused):
        archive.metadata(TEXT, "nothing")


def test_it_deposits_files_and_editions(archive: Archive, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"z" * 700_000)
    files: dict[str, bytes | Path] = {"item": b"a", "file": b"b", 'data/a "b" é%.bin': path, "c.txt": b""}
    first = archive.deposit(
        "Title", metadata={"creator": ["A", "B"]}, files=files, target="c.txt", language="en"
    )
    assert first.facts["metadata"] == {"title": ["Title"], "creator": ["A", "B"]}
    sizes = {name: each["size"] for name, each in first.facts["files"].items()}
    assert sizes == {"item": 1, "file": 1, "data/a%20%22b%22%20%C3%A9%25.bin": 700_000, "c.txt": 0}
    second = archive.deposit("Title 2", url="http://far.example/x", edition_of=first.ibi)
    assert second.rep in str(archive.item(first.ibi).facts["next_edition"])


def test_a_deposit_that_is_refused_is_an_error_with_its_sentence(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nothing") as refused:
        archive.deposit("Title", nothing=1)
    assert refused.value.status == 422
    with pytest.raises(SetupError, match="cannot be read"):
        archive.deposit("Title", files={"a": tmp_path / "missing"})
    for key in ("", "x" * 256, "a\nb"):
        with pytest.raises(BadField):
            archive.deposit("Title", key=key)
    with Archive(archive.root) as nameless, pytest.raises(Refused) as refused:
        nameless.deposit("Title", files={"a.bin": b"x" * (8 << 20)})
    assert refused.value.status == 401


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("files", [None, {"a.txt": b"x" * 100_000}])
def test_an_answer_that_is_lost_makes_no_second_item(
    network: Network, share: float, files: dict[str, bytes | Path] | None
) -> None:
    before = network.count()
    with losing(network.program.port, share, share) as there:
        token = network.program.token(Scope.DEPOSIT)
        with Archive(there.root, token, retries=AT_ONCE) as archive:
            item = archive.deposit("Lost", files=files)
        assert len(there.requests) == 3
        assert len({each["idempotency-key"] for each in there.headers}) == 1
    assert network.count() == before + 1
    assert network.program.ask("GET", f"/items/{item.ibi}").content()["metadata"]["title"] == ["Lost"]


def test_each_deposit_has_a_key_of_its_own_unless_the_caller_gives_one(
    network: Network, archive: Archive
) -> None:
    before = network.count()
    for _ in range(2):
        archive.deposit("Alike")
    assert network.count() == before + 2
    names = {archive.deposit("Known", key="a key").ibi for _ in range(2)}
    assert (len(names), network.count()) == (1, before + 3)


def test_a_deposit_that_cannot_be_delivered_ends(network: Network) -> None:
    with losing(network.program.port, 0, 0, 0, 0) as there:
        token, thrice = network.program.token(Scope.DEPOSIT), Retries(attempts=3, pause=0)
        with Archive(there.root, token, retries=thrice) as archive, pytest.raises(PeerSilent):
            archive.deposit("Never told")
        assert len(there.requests) == 3


def test_it_searches_through_all_pages(archive: Archive, network: Network) -> None:

    def deposit(number: int) -> None:
        archive.deposit(f"Searched {number}", metadata={"creator": ["Ann Lee"], "date": ["2024"]})

    with ThreadPoolExecutor(
        23
    ) as threads:  # deposits that come together have not to wait for each other's label
        list(threads.map(deposit, range(23)))
    while len({each.title for each in archive.search("Searched")}) < 23:
        pass  # the index follows within seconds, and what is new moves the pages
    titles = [each.title for each in archive.search("Searched")]
    assert (len(titles), len(set(titles))) == (23, 23)
    one = next(archive.search("Searched 7", person="Lee, Ann", year=2024))
    assert (one.year, one.state, one.page) == (2024, "Original", f"{network.archive}/-/item/{one.ibi}")
    assert list(archive.search("Searched", year=2023)) == []


def test_it_follows_the_changes_from_any_cursor(archive: Archive, network: Network) -> None:
    reported = list(archive.changes())
    assert (
        len(reported) == len({each.ibi for each in reported}) >= network.count() - 1
    )  # without the service item
    assert (GONE, "removed", "Deleted") in {(each.ibi, each.what, each.state) for each in reported}
    made = [archive.deposit(f"Followed {number}") for number in range(3)]
    network.program.ask(
        "PATCH", f"/items/{made[0].ibi}", {"language": "pt"}, Scope.EDIT, if_match=made[0].etag
    ).content()
    later = list(archive.changes(reported[-1].cursor))
    assert [each.what for each in later] == ["added"] * 3 + ["edited"]
    assert (later[-1].ibi, later[-1].changed) == (made[0].rep, ("language",))
    assert later[0].page == f"{network.archive}/-/item/{made[0].rep}"
    assert list(archive.changes(later[1].cursor)) == later[2:]
    assert list(archive.changes(later[-1].cursor)) == []
    with pytest.raises(Removed):
        list(archive.changes("1-0123456789abcdef"))

    async def follow() -> list[str]:
        async with AsyncArchive(network.archive) as other:
            return [each.ibi async for each in other.changes(later[1].cursor)]

    assert asyncio.run(follow()) == [each.ibi for each in later[2:]]


def test_the_same_with_asyncio(network: Network) -> None:
    async def work() -> None:
        token = network.program.token(Scope.DEPOSIT)
        async with AsyncArchive(network.archive, token) as archive:
            made = await asyncio.gather(*(archive.deposit(f"Async {number}") for number in range(3)))
            assert len({item.ibi for item in made}) == 3
            assert (await archive.item(made[0].ibi)).title == "Async 0"
            assert (await archive.metadata(TEXT, "ris")).content
            assert [each.ibi async for each in archive.search("stay first edition")]

    asyncio.run(work())


@pytest.mark.parametrize(
    "body",
    [
        b'{"items": [{"ibi": "a"}], "next": "http://other.example/"}',
        b'{"items": [{"ibi": "a"}], "next": "/-/admin"}',
        b'{"items": [{"ibi": "a"}, 5]}',
        b'{"items": [{"ibi": "a", "people": [5]}]}',
        b'{"items": [{"ibi": "a", "year": "2024"}]}',
        b'{"items": [{"ibi": "a", "year": true}]}',
    ],
)
def test_a_page_of_any_other_form_is_one_error(body: bytes) -> None:
    with (
        scripted(answer(200, body)) as there,
        Archive(there.root) as archive,
        pytest.raises(PeerGarbled, match="cannot be understood"),
    ):
        list(archive.search("a"))


def test_pages_without_items_have_no_next_one() -> None:
    with (
        scripted(answer(200, b'{"items": [], "next": "/-/api/search?page=2"}')) as there,
        Archive(there.root) as archive,
    ):
        assert list(archive.search("a")) == []
        assert len(there.requests) == 1


Call = Callable[[Archive], object]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"rep": 5}', b'{"metadata": []}', b'"\xff"'])
@pytest.mark.parametrize("call", [lambda a: a.item(TEXT), lambda a: a.deposit("x")])
def test_an_item_that_makes_no_sense_is_one_error(body: bytes, call: Call) -> None:
    with (
        scripted(answer(200, body)) as there,
        Archive(there.root, "t") as archive,
        pytest.raises(PeerGarbled, match="cannot be understood"),
    ):
        call(archive)
