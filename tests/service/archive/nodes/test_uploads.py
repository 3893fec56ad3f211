"""Uploads in the store that nodes share: each node goes on with them, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibi.archive.api import uploads
from ibi.archive.api.shared_uploads import SharedUploads
from ibi.archive.api.uploads import LIFETIME, MOST_UPLOADS, UploadInUse
from ibi.errors import NotHeld
from ibi.http.response import Refusal
from ibi.runtime.database import migrate
from ibi.runtime.shared.store import MIGRATIONS, SharedStore
from support.archive.archive_fixture import Clock
from support.engines.postgresql import PostgreSQL

PIECE = 1 << 20
_END_HOLDERS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Ends the connections that hold uploads of this database, as the death of their nodes does."""
CONTENT = bytes(range(251)) * (3 * PIECE // 251)


class Nodes:
    """Two nodes, each with connections of its own, and one clock."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self.clock = Clock()
        self.stores = [SharedStore(url) for _ in range(2)]
        for store in self.stores:
            stack.callback(store.close)
        self.folder = folder
        migrate(self.stores[0].engine, MIGRATIONS)
        self.here, self.there = (
            SharedUploads(folder, store, self.clock.seconds, 10 * PIECE) for store in self.stores
        )


@pytest.fixture
def nodes(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(postgresql.new_database(), tmp_path / "uploads", stack)


def test_what_one_node_has_begun_the_other_goes_on_with_and_uses(nodes: Nodes) -> None:
    upload = nodes.here.start("t", len(CONTENT), "filename YQ==").id
    at = 0
    for node, end in ((nodes.here, 10), (nodes.there, PIECE + 7), (nodes.here, len(CONTENT))):
        with node.writing(upload, "t") as writing:
            assert (writing.offset, writing.found.offset) == (at, at)
            while at < end:
                piece = CONTENT[at : min(at + 65_536, end)]
                writing.write(piece)
                at += len(piece)
        assert nodes.there.find(upload, "t").offset == nodes.here.find(upload, "t").offset == end
    assert nodes.there.find(upload, "t").metadata == "filename YQ=="
    with nodes.there.used(upload, "t") as path:
        assert path.read_bytes() == CONTENT
    assert list(nodes.folder.iterdir()) == []
    for node in (nodes.here, nodes.there):
        with pytest.raises(NotHeld):
            node.find(upload, "t")


def test_an_upload_is_used_by_one_request_at_a_time_over_all_nodes(nodes: Nodes) -> None:
    upload = nodes.here.start("t", 10, "").id
    with nodes.here.writing(upload, "t"):
        with pytest.raises(UploadInUse), nodes.there.writing(upload, "t"):
            pass
        with pytest.raises(UploadInUse):
            nodes.there.delete(upload, "t")
        with pytest.raises(NotHeld):  # who has another token does not hear that there is one
            nodes.there.delete(upload, "another token")
    with pytest.raises(Refusal, match="is not complete: 0 of 10 bytes"), nodes.there.whole(upload, "t"):
        pass
    with pytest.raises(NotHeld):
        nodes.there.find(upload, "another token")
    nodes.there.delete(upload, "t")
    with pytest.raises(NotHeld):
        nodes.here.find(upload, "t")


def test_bytes_that_came_before_a_node_died_stay(nodes: Nodes) -> None:
    upload = nodes.here.start("t", len(CONTENT), "").id
    writing = nodes.here.writing(upload, "t")
    writer = writing.__enter__()
    writer.write(CONTENT[: 2 * PIECE + 5])
    nodes.stores[0].engine.dispose()
    with nodes.stores[1].transaction() as run:
        run.exec_driver_sql(_END_HOLDERS)
    assert nodes.there.find(upload, "t").offset == 2 * PIECE
    with nodes.there.writing(upload, "t") as other:
        other.write(CONTENT[2 * PIECE :])
    with nodes.there.whole(upload, "t") as path:
        assert path.read_bytes() == CONTENT
    # The late node can add nothing any more.
    with pytest.raises(Exception, match="cannot be used"):
        writing.__exit__(None, None, None)
    assert nodes.there.find(upload, "t").offset == len(CONTENT)


def test_the_limits_hold_over_all_nodes(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_UPLOADS", 3)
    assert MOST_UPLOADS > 3
    for node in (nodes.here, nodes.there, nodes.here):
        node.start("t", 1, "")
    with pytest.raises(Refusal, match="too much is being uploaded with this token"):
        nodes.there.start("t", 1, "")
    nodes.there.start("another", 40 * PIECE, "")
    with pytest.raises(Refusal, match="too much"):
        nodes.here.start("another", 1, "")
    nodes.clock.now += LIFETIME
    nodes.here.start("t", 1, "")


def test_an_upload_expires_a_day_after_its_last_bytes(nodes: Nodes) -> None:
    upload = nodes.here.start("t", 2, "").id
    nodes.clock.now += LIFETIME - 1
    with nodes.there.writing(upload, "t") as writing:
        writing.write(b"a")
    nodes.clock.now += 2
    nodes.here.expire()
    assert nodes.here.find(upload, "t").offset == 1
    nodes.clock.now += LIFETIME
    with pytest.raises(Refusal, match="has expired"):
        nodes.there.find(upload, "t")
    nodes.there.expire()
    with pytest.raises(NotHeld):
        nodes.here.find(upload, "t")


def test_what_a_killed_process_has_put_together_goes_after_a_day(nodes: Nodes) -> None:
    nodes.folder.mkdir(exist_ok=True)
    for name, seconds in (("old.whole", LIFETIME), ("young.whole", LIFETIME - 1), ("old.other", LIFETIME)):
        moment = nodes.clock.now - seconds
        (nodes.folder / name).touch()
        os.utime(nodes.folder / name, (moment, moment))
    (nodes.folder / "gone.whole").symlink_to("nothing")  # as if another node had removed it meanwhile
    nodes.here.expire()
    assert {path.name for path in nodes.folder.iterdir()} == {"young.whole", "old.other", "gone.whole"}
