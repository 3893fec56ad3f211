"""A bag that is taken in, or refused, leaves nothing in staging while others are at work there."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.preservation.bag_ingest import take_bag
from ibi.archive.preservation.bagging import bag_at, write_bag
from ibi.errors import AlreadyHeld, BadItem, HoldingError
from support.archive.preservation_fixture import NAME, WHO, ArchiveFolder, make_archive

FILES = {"a.txt": b"one", "b.txt": b"two"}


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """The bag of an item with two files."""
    giving = make_archive(tmp_path / "giving")
    giving.put(NAME, FILES)
    with bag_at(tmp_path / "bag") as put:
        write_bag(put, giving.file_store, giving.held(), [], "archive.example", "2026-11-21T10:00:00Z")
    return tmp_path / "bag"


@pytest.fixture
def taking(tmp_path: Path) -> ArchiveFolder:
    return make_archive(tmp_path / "taking")


def take(taking: ArchiveFolder, bag: Path) -> Holding | str:
    """The item of a bag, or why it is refused; nothing is left in staging in either case."""
    with taking.item_store() as item_store:
        found: Holding | str
        try:
            found = take_bag(item_store, bag, WHO)
        except HoldingError as error:
            found = f"{type(error).__name__}: {error}"
        assert taking.staging() == []
    return found


def damaged(bag: Path) -> None:
    (bag / "data/b.txt").write_bytes(b"too")


def test_a_bag_whose_last_file_is_damaged_leaves_nothing(taking: ArchiveFolder, bag: Path) -> None:
    damaged(bag)
    assert take(taking, bag) == f"{BadItem.__name__}: data/b.txt is not as the manifest of the bag says"


def test_a_bag_of_an_item_that_is_held_already_leaves_nothing(taking: ArchiveFolder, bag: Path) -> None:
    taking.put(NAME, {"a.txt": b"other"})
    found = take(taking, bag)
    assert isinstance(found, str)
    assert found.startswith(f"{AlreadyHeld.__name__}: {NAME}")
    assert taking.contents() == {"a.txt": b"other"}


def foreign(bag: Path) -> None:
    """Leave what any program writes."""
    for name in ("metadata.json", "tagmanifest-sha256.txt"):
        (bag / name).unlink()


def test_a_bag_of_other_software_is_one_item_however_often_it_comes(bag: Path, tmp_path: Path) -> None:
    taking = make_archive(
        tmp_path / "minting", mint_host="archive.example", mint_ip="127.0.0.1", for_trying=True
    )
    foreign(bag)
    first, second = take(taking, bag), take(taking, bag)
    assert isinstance(first, Holding)
    assert isinstance(second, Holding)
    assert first.number == second.number
    digests = sorted((f"data/{name}", sha256(content).hexdigest()) for name, content in FILES.items())
    manifest = "".join(f"sha256 {digest} {path}\n" for path, digest in digests)
    assert first.key == f"bag:{sha256(manifest.encode()).hexdigest()}"
    assert first.metadata == {"title": ((NAME, None),)}


@pytest.mark.parametrize("change", [None, foreign])
def test_a_bag_may_have_a_folder_with_a_declaration_of_its_own(
    bag: Path, tmp_path: Path, change: Callable[[Path], None] | None
) -> None:
    taking = make_archive(
        tmp_path / "minting", mint_host="archive.example", mint_ip="127.0.0.1", for_trying=True
    )
    (bag / "a").mkdir()
    (bag / "a/bagit.txt").write_text("another one")
    if change:
        change(bag)
    found = take(taking, bag)
    assert isinstance(found, Holding)
    assert [file.name for file in found.files] == sorted(FILES)
