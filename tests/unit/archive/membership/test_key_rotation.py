"""A new key from a resolver: what is sent, what is published meanwhile, and each answer that gives no key."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.membership.key_rotation import rotate_key
from ibi.errors import PeerGarbled
from ibi.runtime.nonce import Nonce
from support.archive.archive_fixture import SERVICE

ROOT = "http://r.example:8080"
IBI = str(SERVICE.main)
NEW = "1234567890"


class Answering:
    """A resolver without a socket: it gives its answers in turn, and notes what it was sent and what was published."""

    def __init__(self, folder: Path, *answers: tuple[int, Any]) -> None:
        self._answers = list(answers)
        self._nonce = folder / "nonce"
        self.status = 0
        self.value: Any = None
        self.sent: list[tuple[str, str, dict[str, str], float]] = []
        self.published: list[str] = []

    async def send(self, method: str, url: str, *, json: dict[str, str], seconds: float) -> Any:
        self.sent.append((method, url, json, seconds))
        self.published.append(self._nonce.read_text().strip() if self._nonce.exists() else "")
        self.status, self.value = self._answers.pop(0)
        return self

    def json(self) -> Any:
        return self.value


def rotated(folder: Path, *answers: tuple[int, Any]) -> tuple[Answering, str]:
    resolver: Any = Answering(folder, *answers)
    return resolver, asyncio.run(rotate_key(resolver, ROOT, SERVICE.main, Nonce(folder, lambda: 0.0)))


def test_the_second_message_has_the_challenge_and_its_proof_is_published(tmp_path: Path) -> None:
    resolver, key = rotated(tmp_path, (200, {"challenge": "c"}), (200, {"key": NEW}))
    url, first = f"{ROOT}/-/api/keys", {"service_ibi": IBI}
    assert resolver.sent == [
        ("POST", url, first, 15.0), ("POST", url, first | {"challenge": "c"}, 15.0)
    ]  # fmt: skip
    assert resolver.published == ["", sha256(b"c r.example:8080").hexdigest()[:32]]
    assert (key, list(tmp_path.iterdir())) == (NEW, [])


NO_CHALLENGES: list[Any] = [None, [], {}, {"challenge": 7}, {"challenge": "é"}]
NO_KEYS: list[Any] = [[], {}, {"key": 1234567890}, {"key": "123456789"}, {"key": "secret"}]


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        *(([(200, value)], "gave no challenge") for value in NO_CHALLENGES),
        *(([(200, {"challenge": "c"}), (200, value)], "gave no key") for value in NO_KEYS),
        ([(201, {"challenge": "c"})], "gives no new key: it answered with status 201"),
        ([(200, {"challenge": "c"}), (403, {"key": NEW})], "gives no new key: it answered with status 403"),
    ],
)
def test_each_answer_without_a_key_has_its_sentence(
    tmp_path: Path, answers: list[tuple[int, Any]], sentence: str
) -> None:
    with pytest.raises(PeerGarbled) as refused:
        rotated(tmp_path, *answers)
    assert str(refused.value) == f"{ROOT} {sentence}"
    assert list(tmp_path.iterdir()) == []
