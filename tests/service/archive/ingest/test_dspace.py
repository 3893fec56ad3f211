"""Folders that DSpace has exported: items with their files, and the names that a harvest has given them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote

import pytest

from ibi.archive.ingest.batch import ImportReport, RecordNotice
from ibi.archive.ingest.harvesting import Harvester
from ibi.archive.ingest.importing import FileImporter
from ibi.archive.ingest.sources import dspace
from ibi.archive.model.item import Access, Holding
from ibi.archive.model.item_json import Draft
from ibi.errors import BadItem
from ibi.http.client.address_policy import AddressPolicy
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


REFUSED = "the XML contains a document type or an entity, which is not accepted"
TOO_LARGE = f"dublin_core.xml has more than {dspace.LARGEST_RECORD} bytes"
OUTSIDE = "the file name ../2/tese.pdf has an empty, relative or overlong part"
NOT_UTF8 = "'utf-8' codec can't decode byte 0xed in position 0: invalid continuation byte"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("dublin_core.xml", "<dublin_core>", "dublin_core.xml is not XML: no element found: line 1, column 13"),
        ("dublin_core.xml", '<!DOCTYPE d [<!ENTITY a "b">]><d>&a;</d>', REFUSED),
        ("dublin_core.xml", "<!DOCTYPE d><d/>", REFUSED),
        ("dublin_core.xml", f"<d>{' ' * (dspace.LARGEST_RECORD - 6)}</d>", TOO_LARGE),
        ("contents", "nada.pdf\tbundle:ORIGINAL\n", "1/nada.pdf cannot be read: No such file or directory"),
        ("contents", "../2/tese.pdf\tbundle:ORIGINAL\n", OUTSIDE),
        ("handle", "\ud800", f"it cannot be read: {NOT_UTF8}"),
    ],
)  # fmt: skip
def test_an_item_that_cannot_be_read_harms_no_other(
    archive: NewArchive, tmp_path: Path, name: str, text: str, reason: str
) -> None:
    folder = export(tmp_path / "export")
    (folder / "1" / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    assert load(archive, folder) == ImportReport(added=1, refused=1)
    (refused,) = archive.refused
    assert (refused.line, refused.name) == (0, "123456789/1" if name == "contents" else "1")
    assert str(refused.why).replace(f"{folder}/", "") == reason


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


@pytest.mark.parametrize(
    ("contents", "names", "target"),
    [
        ("a.txt\tbundle:ORIGINAL\nb.txt\tprimary:true\tbundle:ORIGINAL\n", ["a.txt", "b.txt"], "b.txt"),
        ("b.txt\n\n \tbundle:ORIGINAL\na.txt\tdescription:x\n", ["a.txt", "b.txt"], "b.txt"),
        ("a.txt\tbundle:ORIGINAL\tbundle:TEXT\nb.txt\tbundle:THUMBNAIL\tprimary:true\n", [], ""),
        ("-r -s 1 -f a b.txt\tbundle:ORIGINAL\n", ["a%20b.txt"], "a%20b.txt"),
        ("", [], ""),
        (None, [], ""),
    ],
)
def test_the_originals_are_taken_and_the_primary_one_is_the_target(
    tmp_path: Path, contents: str | None, names: list[str], target: str
) -> None:
    folder = export(tmp_path / "export", (1,))
    (folder / "1/contents").unlink()
    if contents is not None:
        (folder / "1/contents").write_text(contents)
    (found,) = dspace.read_dspace(folder, {})
    assert isinstance(found.draft, Draft)
    assert found.draft.files == {name: f"1/{unquote(name)}" for name in names}
    assert sorted(found.draft.files) == names
    assert found.draft.facts.get("target", "") == target


def test_a_record_of_the_longest_size_is_read(tmp_path: Path) -> None:
    folder = export(tmp_path / "export", (1,))
    core = folder / "1/dublin_core.xml"
    core.write_bytes(core.read_bytes().ljust(dspace.LARGEST_RECORD))
    (found,) = dspace.read_dspace(folder, {})
    assert isinstance(found.draft, Draft)


VALUES = """<dublin_core>
  <dcvalue element="title" qualifier="alternative">Other</dcvalue>
  <dcvalue element="title">T &lt; U</dcvalue>
  <dcvalue element="title" qualifier="" language="pt_BR">A
    maré</dcvalue>
  <dcvalue element="title" language="!">Odd</dcvalue>
  <dcvalue element="title"> </dcvalue>
  <other element="title">None</other>
  <dcvalue element="creator" qualifier="author">Silva</dcvalue>
  <dcvalue element="contributor" qualifier="editor">Lima</dcvalue>
  <dcvalue element="identifier" qualifier="isbn">1</dcvalue>
  <dcvalue element="relation" qualifier="uri">http://far.example/</dcvalue>
  <dcvalue element="colour">red</dcvalue>
  <dcvalue element="language" qualifier="iso">klingon</dcvalue>
  <dcvalue element="language" qualifier="iso">por</dcvalue>
</dublin_core>
"""


def test_a_value_becomes_that_of_its_element_and_the_rest_is_told(tmp_path: Path) -> None:
    folder = export(tmp_path / "export", (1,))
    (folder / "1/dublin_core.xml").write_text(VALUES)
    (folder / "1/handle").unlink()
    (folder / "1/metadata_a.xml").write_text(
        '<d><dcvalue element="x" qualifier="y">1</dcvalue><dcvalue element="x" qualifier="y">2</dcvalue></d>'
    )
    (found,) = dspace.read_dspace(folder, {})
    assert (found.line, found.name, found.read, found.left_out) == (
        0,
        "1",
        0,
        ["a.x.y", "thesis.degree.grantor"],
    )
    assert isinstance(found.draft, Draft)
    assert found.draft.facts["metadata"] == {
        "title": (("T < U", None), ("A maré", "pt-BR"), ("Odd", None), ("Other", None)),
        "creator": (("Silva", None),),
        "contributor": (("Lima", None),),
        "identifier": (("ISBN 1", None),),
        "relation": (("http://far.example/", None),),
        "language": (("klingon", None), ("por", None)),
    }
    assert found.draft.facts["language"] == "pt"
    assert not {"access", "licence"} & found.draft.facts.keys()


def test_another_folder_is_refused_in_a_sentence(archive: NewArchive, tmp_path: Path) -> None:
    with pytest.raises(
        BadItem, match=r"is a folder, but none that DSpace has exported: no dublin_core\.xml is in it"
    ):
        load(archive, tmp_path)


def test_items_come_in_the_order_of_their_folders(archive: NewArchive, tmp_path: Path) -> None:
    export(tmp_path / "export", (10, 9, 2))
    load(archive, tmp_path / "export")
    assert [item.key for item in archive.catalogue.all() if item.key] == [
        f"123456789/{number}" for number in (2, 9, 10)
    ]
