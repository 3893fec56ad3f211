"""An S3 store in the memory of a test, by the library of the program itself: no server, and each call can be seen.

What a real store answers is shown in tests/service/archive/store, with SeaweedFS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from obstore.store import MemoryStore

from ibi.archive.store import s3_client

PLACE = "s3://bucket/prefix"
ENDPOINT = "http://127.0.0.1:9"
AT = {"place": PLACE, "endpoint": ENDPOINT}


@dataclass
class MemoryS3:
    """The one bucket that all clients of a test lead to, and what was asked of it."""

    store: Any = field(default_factory=MemoryStore)
    made: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    """How each client was made."""
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    """(Name, arguments, named arguments) of each call."""
    failing: Exception | None = None
    """What each call raises instead of an answer."""
    seconds: float = 0.0
    """How long each call takes."""
    now: float = 0.5

    def names(self) -> list[str]:
        """The keys of all objects."""
        return sorted(each["path"] for page in self.store.list() for each in page)

    def content(self, key: str) -> bytes:
        """The bytes of an object."""
        return bytes(self.store.get(key).bytes())

    def monotonic(self) -> float:
        """The clock of clients."""
        return self.now

    def take(self) -> None:
        """Let the time of a call pass, and raise what it is to raise."""
        self.now += self.seconds
        if self.failing is not None:
            raise self.failing

    def list(self, folder: str | None = None) -> Iterator[Any]:
        """The pages of a list, of which the first is fetched when it is taken."""
        self.calls.append(("list", (folder,), {}))
        self.take()
        yield from self.store.list(folder)

    def __getattr__(self, name: str) -> Any:
        called = getattr(self.store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append((name, arguments, named))
            self.take()
            return called(*arguments, **named)

        return call


@contextmanager
def memory_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryS3]:
    """Have all clients that are made in this block lead to one store in memory."""
    bucket = MemoryS3()

    def made(*arguments: Any, **named: Any) -> MemoryS3:
        bucket.made.append((arguments, named))
        return bucket

    def sign(store: object, method: str, key: str, until: Any) -> str:
        assert store is bucket
        bucket.take()
        return f"http://signed.example/{key}?{method}&{until.total_seconds():g}"

    modules: dict[str, Any] = {
        "obstore": SimpleNamespace(sign=sign),
        "obstore.store": SimpleNamespace(S3Store=made),
    }

    def module(name: str) -> ModuleType:
        return modules[name]  # type: ignore[no-any-return]  # as much of it as a client takes

    with monkeypatch.context() as patch:
        patch.setattr(s3_client, "import_module", module)
        patch.setattr(s3_client, "time", bucket)
        patch.setenv("AWS_ENDPOINT_URL", ENDPOINT)
        patch.setenv("AWS_TEST", token_hex(8))  # clients are kept for each environment
        for name in ("AWS_ENDPOINT_URL_S3", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        yield bucket
