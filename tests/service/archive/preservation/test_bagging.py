"""Bags: any repository can read them, and an item comes back out of its bag as it went in."""

from __future__ import annotations

import json
import tarfile
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import bagit
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.archive.model.item import StoredFile
from ibi.archive.preservation.bag_ingest import take_bag
from ibi.archive.preservation.bagging import bag_at, bag_name, payload_paths, write_bag
from ibi.archive.store.tables import history
from ibi.errors import BadItem, SetupError
from ibi.identifier.forms import parse_ibi
from support.archive.fixtures import IN_A_FOLDER
from support.archive.preservation_fixture import LINKED, NAME, OTHER, WHO, ArchiveFolder, make_archive

pytestmark = pytest.mark.usefixtures("files_place")

WHEN = "2026-11-21T10:00:00Z"
FILES = {
    "index.html": b"<p>",
    "a%20b.txt": b"hello",
    "caf%E9.txt": b"latin",
    "caf%C3%A9/d.txt": b"utf",
    "100%25.txt": b"percent",
    "@big": bytes(range(256)) * 5000,
    "%20blank": b"blank",
    "empty": b"",
}


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive")
    kept.put(
        NAME,
        FILES,
        ibip="LK47B6W/362SFKH",
        metadata={"title": ["Título\nlongo"], "creator": ["Ana"]},
        target="index.html",
        language="pt",
        licence="https://example.org/by",
    )
    return kept


@pytest.fixture
def other(tmp_path: Path) -> ArchiveFolder:
    """Another Archive, which takes bags in."""
    return make_archive(tmp_path / "other")


def pack(kept: ArchiveFolder, target: Path, name: str = NAME) -> Path:
    held = kept.held(name)
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        events = history.events_of(run, held.number)
    with bag_at(target) as put:
        write_bag(put, kept.file_store, held, events, "archive.example", WHEN)
    return target


def validate(folder: Path) -> bagit.Bag:
    """Ask the Library of Congress's own program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves files open
        found = bagit.Bag(str(folder))
        found.validate()
        return found


def test_a_bag_is_valid_for_the_program_of_those_who_made_the_standard(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    found = validate(pack(kept, tmp_path / "bag"))
    assert found.info["External-Identifier"] == [NAME, "LK47B6W/362SFKH"]
    assert found.info["External-Description"] == "Título longo"
    assert found.info["Payload-Oxum"] == f"{sum(map(len, FILES.values()))}.{len(FILES)}"
    assert len(list(found.payload_files())) == len(FILES)


def test_a_bag_holds_the_item_with_its_history(kept: ArchiveFolder, tmp_path: Path) -> None:
    metadata = json.loads((pack(kept, tmp_path / "bag") / "metadata.json").read_bytes())
    assert (metadata["rep"], metadata["language"]) == (NAME, "pt")
    assert [event["what"] for event in metadata["history"]] == ["deposited"]
    assert metadata["files"]["caf%C3%A9/d.txt"]["path"] == "data/café/d.txt"
    assert (tmp_path / "bag" / metadata["files"]["a%20b.txt"]["path"]).read_bytes() == b"hello"


@pytest.mark.parametrize("kind", ["bag", "bag.zip", "bag.tar"])
@pytest.mark.proves("ARC-01")
def test_an_item_comes_back_out_of_its_bag_as_it_went_in(
    kept: ArchiveFolder, other: ArchiveFolder, tmp_path: Path, kind: str
) -> None:
    path = pack(kept, tmp_path / kind.removesuffix(".tar"))
    if kind == "bag.tar":
        path = tmp_path / kind
        with tarfile.open(path, "w") as package:
            package.add(tmp_path / "bag", "./a bag")
    with other.item_store() as item_store:
        take_bag(item_store, path, WHO)
    assert replace(other.held(), number=0) == replace(kept.held(), number=0)
    assert other.contents() == FILES
    assert other.staging() == []


@pytest.mark.parametrize("kind", ["bag", "bag.zip"])
def test_items_without_files_go_into_bags_too(
    kept: ArchiveFolder, other: ArchiveFolder, tmp_path: Path, kind: str
) -> None:
    kept.put(LINKED, url="http://far.example/")
    path = pack(kept, tmp_path / kind, LINKED)
    if kind == "bag":
        validate(path)
    with other.item_store() as item_store:
        take_bag(item_store, path, WHO)
    assert other.held(LINKED).url == "http://far.example/"


def test_a_removed_item_goes_into_a_bag_as_what_is_left_of_it(
    kept: ArchiveFolder, other: ArchiveFolder, tmp_path: Path
) -> None:
    kept.put(OTHER, {"x": b"x"})
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        work.remove(work.get(parse_ibi(OTHER)), "asked for")
    path = pack(kept, tmp_path / "bag", OTHER)
    validate(path)
    with other.item_store() as item_store:
        take_bag(item_store, path, WHO)
    assert (other.held(OTHER).deleted, other.held(OTHER).reason) == (True, "asked for")


def test_a_bag_of_another_program_becomes_an_item_with_a_name_of_ours(tmp_path: Path) -> None:
    kept = make_archive(tmp_path / "mint", mint_host="archive.example", mint_ip="127.0.0.1", for_trying=True)
    folder = tmp_path / "theirs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a b.txt").write_bytes(b"a")
    (folder / "sub/é.txt").write_bytes(b"b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves files open
        bagit.make_bag(str(folder), {"External-Description": "Their bag"}, checksums=["md5", "sha512"])
    with kept.item_store() as item_store:
        first = take_bag(item_store, folder, WHO)
    with kept.item_store() as item_store:
        again = take_bag(item_store, folder, WHO)
    assert again.number == first.number  # known again by its manifest (note 11)
    held = kept.held(str(first.forms.main))
    assert held.metadata is not None
    assert [each.value for each in held.metadata["title"]] == ["Their bag"]
    assert [file.name for file in held.files] == ["a%20b.txt", "sub/%C3%A9.txt"]
    assert kept.staging() == []


@IN_A_FOLDER
def test_a_damaged_file_never_goes_into_a_bag(kept: ArchiveFolder, tmp_path: Path) -> None:
    kept.path("a%20b.txt").write_bytes(b"hellO")
    with pytest.raises(SetupError, match="not the one that was listed"):
        pack(kept, tmp_path / "bag")
    assert list(tmp_path.glob("*bag*")) == []
    with pytest.raises(SetupError, match="not the one that was listed"):
        pack(kept, tmp_path / "bag.zip")
    assert list(tmp_path.glob("*bag*")) == []


def test_nothing_is_written_over(kept: ArchiveFolder, tmp_path: Path) -> None:
    (tmp_path / "bag").write_bytes(b"mine")
    with pytest.raises(SetupError, match="is there already"):
        pack(kept, tmp_path / "bag")
    assert (tmp_path / "bag").read_bytes() == b"mine"


def test_a_bag_that_was_changed_on_the_way_is_refused(
    kept: ArchiveFolder, other: ArchiveFolder, tmp_path: Path
) -> None:
    path = pack(kept, tmp_path / "bag")
    metadata = path / "metadata.json"
    metadata.write_bytes(metadata.read_bytes().replace(b"Ana", b"Eva"))
    with other.item_store() as item_store, pytest.raises(BadItem, match="not as"):
        take_bag(item_store, path, WHO)


def test_a_zip_is_one_that_other_programs_read(kept: ArchiveFolder, tmp_path: Path) -> None:
    with zipfile.ZipFile(pack(kept, tmp_path / "bag.zip")) as package:
        assert package.testzip() is None
        package.extractall(tmp_path / "out")  # noqa: S202 - it is ours
    validate(tmp_path / "out/bag")


def test_a_bag_is_called_after_its_item(kept: ArchiveFolder) -> None:
    assert bag_name(kept.held()) == "a.example_b_2010_01.01.00.00"


parts = st.binary(min_size=1, max_size=6).filter(
    lambda raw: not set(raw) & {0, 47, 92} and raw not in {b".", b".."}
)


@given(raws=st.sets(parts, max_size=6))
def test_each_file_of_a_bag_has_a_path_of_its_own_that_every_program_spells_alike(raws: set[bytes]) -> None:
    files = [StoredFile("".join(f"%{byte:02X}" for byte in raw), 1, "", "") for raw in sorted(raws)]
    paths = payload_paths(files)
    assert len({path.casefold() for path in paths.values()}) == len(files)
    for path in paths.values():
        assert path.isprintable()
        assert path == path.strip()
        assert "%" not in path
