"""A service that has ended has no file open: its data directory can be moved, and a reload costs no descriptors."""

from __future__ import annotations

from pathlib import Path

from ibi.accounts.tokens import Scope
from support.archive.administration_fixture import administered_archive
from support.archive.archive_fixture import REP
from support.concurrency.open_files import open_files
from support.resolver.administration_fixture import administered_resolver


def test_a_resolver_that_has_ended_has_no_file_open(tmp_path: Path) -> None:
    def use() -> None:
        with administered_resolver(tmp_path) as running:
            root = running.browser("root")
            for page in ("/-/admin", "/-/admin/log", "/-/admin/alerts", "/a.example/b/2014/01.01.00.00"):
                root.look(page)
            assert running.get_json("/log/verify", Scope.ADMIN)["whole"]
            assert open_files(tmp_path)

    use()
    # Counters in shared memory are mapped as long as an object has them, and that is for the garbage collector to say.
    assert open_files(tmp_path, mapped=False) == []


def test_an_archive_that_has_ended_has_no_file_open(tmp_path: Path) -> None:
    with administered_archive(tmp_path) as running:
        root = running.new_browser("root")
        for page in (
            "/-/admin",
            "/-/search?q=x",
            f"/-/item/{REP}",
            f"/-/files/{REP}",
            "/-/oai?verb=Identify",
        ):
            root.look(page)
        assert open_files(tmp_path)
    # What its processes share in memory, as above.
    assert open_files(tmp_path, mapped=False) == []
