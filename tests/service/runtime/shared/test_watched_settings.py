"""Settings in a shared store: what cannot be used is looked at again, since it may be the store that was away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.errors import SetupError
from ibi.runtime.reload import WatchedSettings
from ibi.runtime.shared.documents import Documents, documents_of
from ibi.runtime.shared.store import close_store
from support.engines.postgresql import PostgreSQL
from support.engines.shared_store import new_store, share

NAME = "resolver.toml"


@pytest.fixture
def documents(tmp_path: Path, postgresql: PostgreSQL) -> Iterator[Documents]:
    """The documents of a data directory in a new store."""
    found = documents_of(share(tmp_path, new_store(postgresql)))
    assert found is not None
    yield found
    close_store(tmp_path)


def test_settings_that_cannot_be_used_are_read_again_at_each_look_and_said_once(
    tmp_path: Path, documents: Documents, caplog: pytest.LogCaptureFixture
) -> None:
    documents.make(NAME, "first")
    faults, reads = list[str](), list[str]()

    def read() -> str:
        if faults:
            raise SetupError(faults.pop(0))
        reads.append(str(documents.read(NAME)))
        return reads[-1]

    def change(text: str, *problems: str) -> list[str]:
        """Change the document; return what is seen of it at each look, with these problems at the first ones."""
        faults.extend(problems)
        with documents.changing(NAME) as document:
            document.write(text)
        return [settings.current() for _ in range(len(problems) + 2)]

    settings = WatchedSettings([tmp_path / NAME], read, lambda *_: None)
    with caplog.at_level("INFO", "ibi.runtime.reload"):
        assert change("second", "away", "away", "damaged") == ["first", "first", "first", "second", "second"]
        assert change("third", "damaged") == ["second", "third", "third"]
    assert reads == ["first", "second", "third"]
    unusable = "the settings were changed and cannot be used: {}".format
    assert caplog.messages == [
        unusable("away"), unusable("damaged"), "the settings were changed",
        unusable("damaged"), "the settings were changed",
    ]  # fmt: skip
