"""More items, files and removals than are read at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.store.tables import batches
from ibi.archive.store.tables.history import ItemEvent
from ibi.archive.store.tables.rows import ListedFile, names_of
from ibi.identifier.forms import IBIForms
from support.archive.archive_fixture import WHEN

if TYPE_CHECKING:
    from support.archive.archive_fixture import NewArchive

AT_ONCE: Final = 500
PREFIX: Final = "a.example/b"
BESIDE: Final = [
    f"{prefix}/2010/01.01.00.00"
    for prefix in ("a.example/b-c", "a.example/b0", "a.example/b@80", "a.example/bb")
]


def _fill(archive: NewArchive, names: list[str]) -> None:
    new = [
        Holding(forms=IBIForms.parse(f"rep {name}"), timestamp=WHEN, url="http://far.example/")
        for name in names
    ]
    items = [(each, [name for name, _ in names_of(each)]) for each in new]
    with archive.catalogue.writing() as writer:
        batches.add_all(writer.run, items, ItemEvent(WHEN, "maria", "imported", {}))


def test_all_names_under_a_prefix_are_found_and_none_beside_it(archive: NewArchive) -> None:
    found = list[str]()
    for count in (AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE):
        _fill(archive, [f"{PREFIX}/2010/01.{number // 24 + 1:02}.{number % 24:02}.{count % 60:02}.{count // 60:02}"
                        for number in range(count - len(found))])  # fmt: skip
        found = list(archive.catalogue.names_under(PREFIX))
        assert found == sorted(set(found))
        assert len(found) == count
    _fill(archive, BESIDE)
    assert list(archive.catalogue.names_under(PREFIX)) == found
    items = [held.forms.main.canonical for held in archive.catalogue.all()]
    assert items == sorted({*found, *BESIDE, archive.settings.service.main.canonical})
    assert archive.catalogue.count() == len(items)


def test_every_file_is_placed_and_every_path_is_removed(archive: NewArchive) -> None:
    """As after an interruption that came when the files had reached their places."""
    files = tuple(
        StoredFile(f"{number:04}.txt", 1, "", "text/plain", f"{number:032}") for number in range(AT_ONCE + 1)
    )
    forms = IBIForms.parse(f"rep {PREFIX}/2010/01.01.00.00")
    archive.folder.create_folders()
    held = archive.catalogue.put(Holding(forms=forms, timestamp=WHEN, files=files))
    with archive.catalogue.writing() as writer:
        for number in range(AT_ONCE + 1):
            writer.schedule_removal(b"a.example/c/2010/01.01.00.00/doc/%04d" % number)
            writer.schedule_removal(b"a.example/c/2010/01.01.00.00/doc/%04d" % number)
    assert len(archive.catalogue.staged_files()) == len(archive.catalogue.paths_to_remove()) == AT_ONCE
    assert archive.catalogue.staged_names() == {file.staged for file in files}
    archive.folder.place_files(archive.catalogue)
    assert (archive.catalogue.staged_files(), archive.catalogue.paths_to_remove()) == ([], [])
    placed = tuple(replace(file, staged="") for file in files)
    assert archive.catalogue.held(forms.main) == replace(held, files=placed)


def test_a_file_is_placed_as_it_was_listed_and_listed_as_it_is_now(archive: NewArchive) -> None:
    forms = IBIForms.parse(f"rep {PREFIX}/2010/01.01.00.00")
    old, new = (
        StoredFile("a.txt", 1, digest, "text/plain", staged) for digest, staged in (("aa", "1"), ("bb", "2"))
    )
    held = archive.catalogue.put(Holding(forms=forms, timestamp=WHEN, files=(old,)))
    listed = ListedFile(held.number, forms, old)
    assert archive.catalogue.staged_files() == [listed]
    assert archive.catalogue.lists(listed)
    for other in (
        listed._replace(file=new),
        listed._replace(file=replace(old, name="b.txt")),
        listed._replace(forms=IBIForms.parse(f"rep {BESIDE[0]}")),
    ):
        assert not archive.catalogue.lists(other)
    with archive.catalogue.writing() as writer:
        writer.change(held, replace(held, files=(new,)))
        writer.record_placed(listed)  # too late: another file has its name
    assert archive.catalogue.held(forms.main).files == (new,)
    with archive.catalogue.writing() as writer:
        writer.record_placed(listed._replace(file=new))
    assert archive.catalogue.held(forms.main).files == (replace(new, staged=""),)
    with archive.catalogue.writing() as writer:
        writer.change(held, replace(held, files=()))
    assert archive.catalogue.held(forms.main).files == ()
