"""What the client does with servers that are late, slow, endless or not who they should be."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.client import Archive, AsyncMinting, Label, Minting, Refused, Retries, Unavailable
from ibi.client.transport import LARGEST_ANSWER
from ibi.errors import PeerError, PeerGarbled, PeerSilent
from support.client.scripted_server import Script, answer, scripted
from support.network.https_network import make_authority
from support.ports import free_port

IBI = "8JMKD3MGP8W/35MMLL8"
ITEM = answer(200, b'{"ibip": "8JMKD3MGP8W/35MMLL8"}')
AT_ONCE = Retries(pause=0)
NOW, SOON = "Sat, 28 Nov 2026 14:00:00 GMT", "Sat, 28 Nov 2026 14:00:00 GMT"
LONG_AFTER = "Sat, 28 Nov 2026 15:00:00 GMT"


@pytest.mark.parametrize(
    "first",
    [
        answer(503, retry_after="0"),
        answer(429, retry_after="0"),
        answer(503, retry_after=SOON, date=NOW),
        answer(503, retry_after=NOW, date=LONG_AFTER),
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_what_comes_too_early_or_breaks_is_asked_for_again(first: bytes) -> None:
    with scripted(first, ITEM) as there, Archive(there.root, "t", retries=AT_ONCE) as archive:
        assert archive.item(IBI).ibi == IBI
        assert len(there.requests) == 2
    with scripted(first, ITEM) as there, Archive(there.root, "t", retries=AT_ONCE) as archive:
        assert archive.deposit("x", files={"a": b"y"}).ibi == IBI
        one, other = (each["idempotency-key"] for each in there.headers)
        assert one == other


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "9" * 5000}, None),
        ({"retry_after": LONG_AFTER}, None),
        ({"retry_after": LONG_AFTER, "date": NOW}, 3600),
        ({"retry_after": "3600"}, 3600),
    ],
)
def test_a_pause_that_is_too_long_or_unknown_is_for_the_caller(
    headers: dict[str, str], seconds: float | None
) -> None:
    with (
        scripted(answer(503, b"{}", "application/json", **headers)) as there,
        Archive(there.root, retries=AT_ONCE) as archive,
        pytest.raises(Unavailable) as unavailable,
    ):
        archive.item(IBI)
    assert (unavailable.value.retry_after, len(there.requests)) == (seconds, 1)


def test_attempts_are_counted() -> None:
    with (
        scripted(answer(503, retry_after="0")) as there,
        Archive(there.root, retries=Retries(attempts=3)) as archive,
        pytest.raises(Unavailable),
    ):
        archive.item(IBI)
    assert len(there.requests) == 3


def test_the_last_attempt_has_its_time() -> None:
    with (
        scripted(b"") as there,
        Archive(there.root, retries=Retries(attempts=9, seconds=0.2, pause=0.15)) as archive,
        pytest.raises(PeerSilent),
    ):
        archive.item(IBI)
    assert len(there.requests) == 2


@pytest.mark.parametrize("first", [b"", answer(503, retry_after="0")])
def test_an_order_of_labels_is_never_sent_again(first: bytes) -> None:
    with (
        scripted(first, answer(200, b'{"labels": [{}]}')) as there,
        Minting(there.root, "t", retries=AT_ONCE) as mint,
        pytest.raises((PeerSilent, Unavailable)),
    ):
        mint.mint()
    assert there.requests == ["POST /-/api/mint"]


def test_a_mint_must_give_as_many_labels_as_were_ordered() -> None:
    with scripted(answer(200, b'{"labels": [{"rep": "r", "ibip": null}]}')) as there:
        with Minting(there.root, "t") as mint:
            assert mint.mint() == [Label("r", "", "")]
            with pytest.raises(PeerGarbled):
                mint.mint(2)

        async def work() -> None:
            async with AsyncMinting(there.root, "t") as mint:
                assert await mint.mint(forms="rep", collection="theses") == [Label("r", "", "")]

        asyncio.run(work())


def _head(more: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{more}".encode()


@pytest.mark.parametrize(
    "endless",
    [
        itertools.chain([_head("\r\n")], itertools.repeat(b"x" * 65536)),
        itertools.chain([_head("transfer-encoding: chunked\r\n\r\n")], itertools.repeat(b"5\r\nabcde\r\n")),
        [_head(f"content-length: {LARGEST_ANSWER + 1}\r\n\r\n"), b"x" * (LARGEST_ANSWER + 1)],
        itertools.chain([_head("")], itertools.repeat(b"a: b\r\n")),
        [_head(f"a: {'x' * 70_000}\r\n\r\n")],
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
)
def test_an_answer_without_end_is_not_read(endless: Script) -> None:
    with (
        scripted(endless) as there,
        Archive(there.root, retries=AT_ONCE) as archive,
        pytest.raises(PeerGarbled, match=r"longer than|does not speak HTTP"),
    ):
        archive.item(IBI)
    assert len(there.requests) == 1


def _drip(begin: bytes) -> Iterator[bytes]:
    yield begin
    while True:
        time.sleep(0.02)
        yield b"x"


@pytest.mark.parametrize(
    "begin", [b"", b"HTTP/1.1 200 OK\r\na: ", _head("\r\n"), _head("content-length: 99999\r\n\r\n")]
)
def test_an_answer_that_drips_is_given_up(begin: bytes) -> None:
    once = Retries(attempts=1, seconds=0.2)
    with (
        scripted(_drip(begin)) as there,
        Archive(there.root, retries=once) as archive,
        pytest.raises(PeerSilent, match="timed out"),
    ):
        archive.item(IBI)


def _silence() -> Iterator[bytes]:
    time.sleep(0.5)
    yield b""


def test_a_server_that_says_nothing_is_given_up() -> None:
    with scripted(_silence()) as there:
        archive = Archive(there.root, timeout=0.1, retries=Retries(attempts=1))
        with archive, pytest.raises(PeerSilent, match="timed out"):
            archive.item(IBI)


def test_an_unreachable_server_is_one_error() -> None:
    with (
        Archive(f"http://127.0.0.1:{free_port()}", retries=AT_ONCE) as archive,
        pytest.raises(PeerSilent, match="reached"),
    ):
        archive.item(IBI)


def test_a_refusal_of_a_large_body_is_read() -> None:
    with scripted(answer(413, b'{"detail": "too large"}', "application/problem+json")) as there:
        with Archive(there.root, "t", retries=AT_ONCE) as archive, pytest.raises(Refused, match="too large"):
            archive.deposit("x", files={"a": b"y" * (1 << 20)})
        assert len(there.requests) == 1


def test_certificates_are_checked(tmp_path: Path) -> None:
    authority = make_authority(tmp_path / "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.certify("server"))
    known = ssl.create_default_context(cafile=str(authority.file))
    with scripted(ITEM, context=context) as there:
        with Archive(there.root, context=known) as archive:
            assert archive.item(IBI).ibi == IBI
        with (
            Archive(there.root, "t", retries=AT_ONCE) as archive,
            pytest.raises(PeerError, match="certificate"),
        ):
            archive.item(IBI)
        assert len(there.requests) == 1
