"""One place in an S3 store, call by call. A real SeaweedFS answers."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from ibi.archive.store import s3_client
from ibi.archive.store.s3_client import KEYS_SECONDS, KeyFile, S3Client
from ibi.errors import SetupError
from support.engines.seaweedfs import BUCKET, SeaweedFS

CONTENT = bytes(range(250)) * 4


@pytest.fixture
def client(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> S3Client:
    """A place of its own, with one object, which is read in parts of 400 bytes."""
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3_client, "READ_SIZE", 400)
    made = S3Client(f"s3://{BUCKET}/{secrets.token_hex(6)}")
    made.put("a", CONTENT, len(CONTENT), "text/plain")
    return made


@pytest.mark.parametrize(
    ("start", "size", "lengths"),
    [
        (0, 1000, [400, 400, 200]),
        (0, 800, [400, 400]),
        (600, 400, [400]),
        (599, 401, [400, 1]),
        (999, 1, [1]),
        (0, 0, []),
        (1000, 0, []),
    ],
)
def test_a_range_is_read_in_whole_parts_and_a_rest(
    client: S3Client, start: int, size: int, lengths: list[int]
) -> None:
    async def read() -> list[bytes]:
        async with aclosing(client.parts("a", start, size)) as parts:
            return [part async for part in parts]

    found = asyncio.run(read())
    assert list(map(len, found)) == lengths
    assert b"".join(found) == CONTENT[start : start + size] == client.read("a", start, size)


def test_what_is_listed_copied_and_deleted(client: S3Client) -> None:
    client.copy("a", "b/c")
    client.put("b/d", b"", 0, "text/plain")
    assert {each.key: each.size for each in client.listed("b")} == {"b/c": 1000, "b/d": 0}
    assert client.size("b/c") == 1000
    client.delete([])
    client.delete(["b/c", "b/none"])
    assert [each.key for each in client.listed("b")] == ["b/d"]
    for missing in (
        lambda: client.size("b/c"),
        lambda: client.read("b/c", 0, 1),
        lambda: client.copy("b/c", "e"),
    ):
        with pytest.raises(FileNotFoundError, match="no such object"):
            missing()


def test_keys_of_a_file_are_used_for_so_many_seconds(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    keys = KeyFile(str(file), "archive")
    with pytest.raises(SetupError) as refused:
        keys()
    assert str(refused.value) == f"no keys for S3 can be read from {file}, profile archive"
    assert keys.fault is refused.value
    file.write_text("[archive]\naws_access_key_id = a\naws_secret_access_key = b%\naws_session_token = c\n")
    before = time.time()
    given = keys()
    assert before <= given.pop("expires_at").timestamp() - KEYS_SECONDS <= time.time()
    assert given == {"access_key_id": "a", "secret_access_key": "b%", "token": "c"}
    assert keys.fault is None
