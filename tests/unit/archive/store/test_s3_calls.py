"""The calls of a client of S3, whole: how it is made, what it asks, and what it says when that fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import aclosing
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from ibi.archive.store import s3_client
from ibi.archive.store.s3_client import KeyFile, S3Client
from ibi.errors import SetupError, StoreSilent
from support.in_memory.s3 import ENDPOINT, PLACE, MemoryS3, memory_s3

SERVICE = "archive.example/w/2020/01.01.00.00"
NO_KEYS = f"the keys for {PLACE} are refused by {ENDPOINT}: check AWS_ACCESS_KEY_ID and its secret"
NO_BUCKET = f"there is no bucket bucket at {ENDPOINT}: make it, or correct `files` in archive.toml"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryS3]:
    with memory_s3(monkeypatch) as made:
        yield made


@pytest.fixture
def client(bucket: MemoryS3) -> S3Client:
    made = S3Client(PLACE)
    assert made.place == PLACE
    assert len(bucket.made) == 1
    return made


def refusal(act: Callable[[], object]) -> SetupError:
    with pytest.raises(SetupError) as refused:
        act()
    return refused.value


def silent(reason: str) -> str:
    return f"the store of the files, {PLACE} at {ENDPOINT}, cannot be used now: {reason}"


def options(**changes: Any) -> dict[str, Any]:
    """How a client is made, with these changes."""
    plain: dict[str, Any] = {
        "prefix": "prefix",
        "endpoint": ENDPOINT,
        "client_options": {
            "timeout": timedelta(seconds=8),
            "connect_timeout": timedelta(seconds=2),
            "allow_http": True,
        },
        "retry_config": {"max_retries": 1, "retry_timeout": timedelta(seconds=8)},
        "credential_provider": None,
    }
    return {name: value for name, value in (plain | changes).items() if value is not ...}


def test_a_client_gives_up_in_time_and_is_made_as_the_environment_says(
    bucket: MemoryS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    S3Client(PLACE)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example")
    S3Client("s3://bucket")
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    at_amazon = S3Client(PLACE)
    secure = options()["client_options"] | {"allow_http": False}
    (_, (arguments, last)) = bucket.made[1:]
    assert bucket.made[:2] == [
        (("bucket",), options()),
        (("bucket",), options(prefix=None, endpoint="https://s3.example", client_options=secure)),
    ]
    keys = last.pop("credential_provider")
    assert (arguments, last) == (
        ("bucket",),
        options(endpoint=..., client_options=secure, credential_provider=...),
    )
    assert str(refusal(keys)) == f"no keys for S3 can be read from {tmp_path / 'keys'}, profile default"
    bucket.failing = GenericError("x")
    assert str(refusal(lambda: at_amazon.size("a"))) == str(keys.fault)
    (tmp_path / "keys").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    assert keys()["token"] is None
    assert "at Amazon S3, cannot be used now: x" in str(refusal(lambda: at_amazon.size("a")))


def test_a_place_is_claimed_once_and_belongs_to_its_archive(client: S3Client, bucket: MemoryS3) -> None:
    missing = refusal(lambda: client.check(SERVICE))
    assert str(missing) == (
        f"{PLACE} at {ENDPOINT} is not prepared for this Archive: its object ibi-archive.json is missing; "
        "correct `files` or AWS_ENDPOINT_URL, or run: ibi archive move-files"
    )
    for _ in range(2):
        client.claim(SERVICE)
        client.check(SERVICE)
    assert json.loads(bucket.content("ibi-archive.json")) == {"archive": SERVICE}
    taken = f"{PLACE} belongs to another Archive: {SERVICE}; give each Archive a prefix of its own"
    assert str(refusal(lambda: client.claim("other"))) == str(refusal(lambda: client.check("other"))) == taken
    for odd in (b"no JSON", b"[]", b"{}"):
        bucket.store.put("ibi-archive.json", odd)
        owner = "None" if odd == b"{}" else ""
        assert str(refusal(lambda: client.check(SERVICE))) == taken.replace(SERVICE, owner)


def test_objects_are_put_read_copied_listed_and_deleted(
    client: S3Client, bucket: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "READ_SIZE", 3)
    client.put("a/one", b"0123456789", 10, "text/plain")
    client.put("a/two", BytesIO(b"xy"), 2, "text/html")
    assert (client.size("a/one"), client.read("a/one", 2, 3), client.read("a/one", 2, 0)) == (10, b"234", b"")

    async def parts(start: int, size: int) -> list[bytes]:
        async with aclosing(client.parts("a/one", start, size)) as pieces:
            return [piece async for piece in pieces]

    assert asyncio.run(parts(1, 7)) == [b"123", b"456", b"7"]
    assert asyncio.run(parts(1, 6)) == [b"123", b"456"]
    assert asyncio.run(parts(1, 0)) == []
    client.copy("a/one", "b/one")
    assert {(each.key, each.size) for each in client.listed("a")} == {("a/one", 10), ("a/two", 2)}
    [[known]] = bucket.store.list("b")
    [copied] = client.listed("b")
    assert (copied.key, copied.size, copied.changed) == ("b/one", 10, known["last_modified"].timestamp())
    assert list(client.listed("c")) == []
    calls = len(bucket.calls)
    client.delete([])
    assert len(bucket.calls) == calls
    client.delete(["a/one", "a/none"])
    assert bucket.names() == ["a/two", "b/one"]
    assert client.signed("a/two", 300) == "http://signed.example/a/two?GET&300"


MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "part"),
    [(0, 8 * MIB), (9000 * 8 * MIB, 8 * MIB), (9000 * 8 * MIB + 1, 8 * MIB + 1), (9000 * 9 * MIB, 9 * MIB)],
)
def test_a_large_object_is_put_in_at_most_nine_thousand_parts_two_at_once(
    client: S3Client, bucket: MemoryS3, size: int, part: int
) -> None:
    client.put("a", b"", size, "text/plain")
    named = {"attributes": {"Content-Type": "text/plain"}, "chunk_size": part, "max_concurrency": 2}
    assert bucket.calls == [("put", ("a", b""), named)]


async def first_part(client: S3Client) -> bytes:
    async with aclosing(client.parts("a", 0, 1)) as pieces:
        return await anext(pieces)


def every(client: S3Client) -> dict[str, Callable[[], object]]:
    """A call of each kind."""
    return {
        "size": lambda: client.size("a"),
        "read": lambda: client.read("a", 0, 1),
        "copy": lambda: client.copy("a", "b"),
        "delete": lambda: client.delete(["a"]),
        "check": lambda: client.check(SERVICE),
        "listed": lambda: list(client.listed("a")),
        "signed": lambda: client.signed("a", 1),
        "parts": lambda: asyncio.run(first_part(client)),
        "put": lambda: client.put("a", b"", 0, ""),
        "claim": lambda: client.claim(SERVICE),
    }


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (GenericError("<Code>NoSuchBucket</Code>"), NO_BUCKET),
        (PermissionDeniedError("x"), NO_KEYS),
        (UnauthenticatedError("x"), NO_KEYS),
        (GenericError("error with http://127.0.0.1:9/x - timed out  \nDebug source: y"), silent("timed out")),
        (GenericError("an odd error Debug source: y\nz"), silent("an odd error")),
        (GenericError("x" * 201), silent("x" * 200)),
        (GenericError(""), silent("no reason was given")),
        (OSError("the disk"), silent("the disk")),
    ],
    ids=repr,
)
def test_each_failure_is_one_sentence_whatever_was_asked(
    client: S3Client, bucket: MemoryS3, error: Exception, sentence: str
) -> None:
    bucket.failing = error
    for act in every(client).values():
        found = refusal(act)
        assert str(found) == sentence
        assert isinstance(found, StoreSilent) == sentence.startswith("the store of")


def test_a_missing_object_is_no_missing_bucket_but_where_one_is_put(
    client: S3Client, bucket: MemoryS3
) -> None:
    bucket.failing = FileNotFoundError("a")
    acts = every(client)
    for name in ("size", "read", "copy", "delete"):
        with pytest.raises(FileNotFoundError) as missing:
            acts[name]()
        assert (missing.value.errno, missing.value.strerror, missing.value.filename) == (
            2,
            "no such object",
            PLACE,
        )
    for name in ("put", "claim"):
        assert str(refusal(acts[name])) == NO_BUCKET


def test_after_a_call_that_took_long_all_calls_fail_at_once_for_two_seconds(
    client: S3Client, bucket: MemoryS3
) -> None:
    bucket.failing, bucket.seconds = GenericError("odd"), 1.0
    for _ in range(2):
        assert str(refusal(lambda: client.size("a"))) == silent("odd")
    assert len(bucket.calls) == 2  # a second is not long
    bucket.seconds = 1.5
    assert str(refusal(lambda: client.size("a"))) == silent("odd")
    before = len(bucket.calls)
    for seconds in (0, 1.75):
        bucket.now += seconds
        for act in every(client).values():
            assert str(refusal(act)) == silent("it did not answer in time")
    assert len(bucket.calls) == before
    bucket.now += 0.25
    bucket.failing, bucket.seconds = None, 9.0
    client.put("a", b"x", 1, "")
    assert client.size("a") == 1  # what took long and was answered counts for nothing


def test_keys_are_read_from_the_profile_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    keys = KeyFile(str(file), "b")
    for text in (
        "no keys",
        "[a]\naws_access_key_id = x\naws_secret_access_key = y\n",
        "[b]\naws_access_key_id = x\n",
    ):
        file.write_text(text)
        assert str(refusal(keys)) == f"no keys for S3 can be read from {file}, profile b"
        assert keys.fault is not None
    file.write_bytes(b"\xff")
    assert keys.fault is not refusal(keys) is not None
    file.write_text("[b]\naws_access_key_id = x\naws_secret_access_key = y\n")
    given = keys()
    assert (given["access_key_id"], given["secret_access_key"], given["token"], keys.fault) == (
        "x",
        "y",
        None,
        None,
    )
