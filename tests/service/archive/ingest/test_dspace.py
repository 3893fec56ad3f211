"""Folders that DSpace has exported: items with their files, and the names that a harvest has given them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ibi.archive.ingest.batch import ImportReport, RecordNotice
from ibi.archive.ingest.harvesting import Harvester
from ibi.archive.ingest.importing import FileImporter
from ibi.archive.ingest.sources import dspace
from ibi.archive.model.item import Access, Holding
from ibi.errors import BadItem
from ibi.http.client.address import AddressPolicy
from ibi.http.client.download import Downloads
from support.archive.archive_fixture import NewArchive
from support.archive.oai_repository import Entry, Repository, answering, thesis
from support.pages.dspace_export import export


def load(archive: NewArchive, folder: Path, *, dry: bool = False, update: bool = False) -> ImportReport:
    archive.refused.clear()
    importer = FileImporter(archive.item_store, "tester", archive.refused.append)
    return importer.run(folder, dry=dry, update=update)


def held(archive: NewArchive, key: str) -> Holding:
    found = archive.catalogue.holding_by_key(key)
    assert found is not None
    return found


def texts(item: Holding, element: str) -> list[str]:
    assert item.metadata is not None
    return [value for value, _ in item.metadata.get(element, ())]


def test_an_export_becomes_items_with_their_files(archive: NewArchive, tmp_path: Path) -> None:
    folder = export(tmp_path / "export")
    assert load(archive, folder, dry=True) == ImportReport(added=2)
    assert load(archive, folder) == ImportReport(added=2)
    item = held(archive, "123456789/1")
    assert [file.name for file in item.files] == ["dados.csv", "tese.pdf"]
    assert (item.target, item.language, item.licence, item.access) == (
        "tese.pdf", "pt-BR", "http://creativecommons.org/licenses/by/4.0/", Access.OPEN,
    )  # fmt: skip
    assert texts(item, "creator") == ["Silva, Maria"]
    assert texts(item, "contributor") == ["Souza, João [adviser]"]
    assert texts(item, "date") == ["2021"]
    assert texts(item, "description") == ["Estudo do mangue & do mar.", "Mestrado"]
    assert texts(item, "identifier") == ["http://dspace.example.org/handle/123456789/1", "ISSN 1234-5679"]
    assert load(archive, folder) == ImportReport(unchanged=2)


def test_a_field_for_which_an_item_has_no_place_is_named(archive: NewArchive, tmp_path: Path) -> None:
    notices: list[RecordNotice] = []
    importer = FileImporter(archive.item_store, "tester", archive.refused.append, noticed=notices.append)
    importer.run(export(tmp_path / "export", (1,)))
    assert ["thesis.degree.grantor" in str(each.note) for each in notices] == [True]


def harvest(archive: NewArchive, repository: Repository) -> ImportReport:
    async def pause(_: float) -> None:
        pass

    async def run() -> ImportReport:
        async with Downloads(AddressPolicy(allow_private=True)) as downloads:
            harvester = Harvester(archive.item_store, downloads, "tester", archive.refused.append, pause)
            return await harvester.run(repository.url)

    archive.refused.clear()
    return asyncio.run(run())


def test_what_was_harvested_keeps_its_names_when_its_files_come(archive: NewArchive, tmp_path: Path) -> None:
    with answering(Repository([thesis(1)])) as repository:
        harvest(archive, repository)
    before = held(archive, "oai:dspace.example.org:123456789/1")
    assert before.url
    folder = export(tmp_path / "export")
    assert load(archive, folder, update=True) == ImportReport(added=1, changed=1)
    after = held(archive, before.key)
    assert (after.forms, after.url) == (before.forms, "")
    assert [file.name for file in after.files] == ["dados.csv", "tese.pdf"]
    assert archive.catalogue.holding_by_key("123456789/1") is None


def test_a_later_harvest_neither_changes_nor_removes_what_has_its_files_here(
    archive: NewArchive, tmp_path: Path
) -> None:
    with answering(Repository([thesis(1)])) as repository:
        harvest(archive, repository)
        load(archive, export(tmp_path / "export", (1,)), update=True)
        before = held(archive, "oai:dspace.example.org:123456789/1")
        assert harvest(archive, repository) == ImportReport(refused=1)
        assert "has its files in this Archive" in str(archive.refused[0].why)
        repository.entries[0] = Entry(before.key, "2022-04-01T00:00:00Z", deleted=True)
        assert harvest(archive, repository) == ImportReport(refused=1)
    assert held(archive, before.key) == before


@pytest.mark.parametrize(
    "rights", ["info:eu-repo/semantics/embargoedAccess", "Acesso Restrito", "Closed Access"]
)
def test_what_was_not_open_there_is_closed_here(archive: NewArchive, tmp_path: Path, rights: str) -> None:
    load(archive, export(tmp_path / "export", (1,), rights))
    assert held(archive, "123456789/1").access is Access.CLOSED


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("dublin_core.xml", "<dublin_core>", "is not XML"),
        ("dublin_core.xml", '<!DOCTYPE d [<!ENTITY a "b">]><d>&a;</d>', "document type"),
        ("dublin_core.xml", "<!DOCTYPE d><d/>", "document type"),
        ("dublin_core.xml", " " * (dspace.LARGEST_RECORD + 1), "bytes"),
        ("contents", "nada.pdf\tbundle:ORIGINAL\n", "nada.pdf"),
        ("contents", "../2/tese.pdf\tbundle:ORIGINAL\n", "tese.pdf"),
        ("handle", "\ud800", "cannot be read"),
    ],
)
def test_an_item_that_cannot_be_read_harms_no_other(
    archive: NewArchive, tmp_path: Path, name: str, text: str, reason: str
) -> None:
    folder = export(tmp_path / "export")
    (folder / "1" / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    assert load(archive, folder) == ImportReport(added=1, refused=1)
    assert reason in str(archive.refused[0].why)


def test_no_file_outside_the_export_is_taken(archive: NewArchive, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    folder = export(tmp_path / "export", (1,))
    (folder / "1/contents").write_text("../../secret\tbundle:ORIGINAL\n")
    assert load(archive, folder).refused == 1
    (folder / "1/tese.pdf").unlink()
    (folder / "1/tese.pdf").symlink_to(tmp_path / "secret")
    (folder / "1/contents").write_text("tese.pdf\tbundle:ORIGINAL\n")
    assert load(archive, folder).refused == 1


def test_a_registered_file_is_taken_by_its_name(archive: NewArchive, tmp_path: Path) -> None:
    folder = export(tmp_path / "export", (1,))
    (folder / "1/contents").write_text("-r -s 1 -f tese.pdf\tbundle:ORIGINAL\n")
    load(archive, folder)
    assert [file.name for file in held(archive, "123456789/1").files] == ["tese.pdf"]


def test_another_folder_is_refused_in_a_sentence(archive: NewArchive, tmp_path: Path) -> None:
    with pytest.raises(BadItem, match="none that DSpace has exported"):
        load(archive, tmp_path)


def test_items_come_in_the_order_of_their_folders(archive: NewArchive, tmp_path: Path) -> None:
    export(tmp_path / "export", (10, 9, 2))
    load(archive, tmp_path / "export")
    assert [item.key for item in archive.catalogue.all() if item.key] == [
        f"123456789/{number}" for number in (2, 9, 10)
    ]
