"""The parsers of an Archive: items, what other Archives and repositories say, forms, and its own files."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.ingest.harvesting import PageReader
from ibi.archive.ingest.sources.bibtex import read_bibtex
from ibi.archive.ingest.sources.dspace import CORE, read_dspace
from ibi.archive.ingest.sources.oai_records import item_of
from ibi.archive.ingest.sources.records import read_json_lines
from ibi.archive.ingest.sources.table import read_table
from ibi.archive.model.file_names import check_names, file_parts
from ibi.archive.model.item import read_dublin_core, write_oai_dc
from ibi.archive.model.item_fields import read_mapping
from ibi.archive.model.item_json import read_facts, read_item, read_line
from ibi.archive.model.record_values import Source, day_of, doi_address, language_of, names_in, web_address
from ibi.archive.preservation.bag_ingest import _described, _read_tags
from ibi.archive.preservation.packages import Package, PackageLimits
from ibi.errors import IbiError
from proofs.fuzz import corpus
from proofs.fuzz.places import folder
from proofs.fuzz.target import Target, as_object, as_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.archive.ingest.sources.records import SourceRecord


def records(read: Callable[[Any], Iterable[SourceRecord]]) -> Callable[[bytes], list[tuple[object, ...]]]:
    """All records of a file; an error in one is said as every error is."""

    def of_bytes(text: bytes) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for each in read(io.BytesIO(text)):
            if isinstance(each.draft, IbiError):
                str(each.draft)
            found.append(each)
        return found

    return of_bytes


def _page(text: bytes) -> list[dict[str, Any]]:
    reader = PageReader()
    for at in range(0, len(text), 97):
        reader.feed(text[at : at + 97])
    found = []
    for record in reader.close().records:
        value = item_of(record, "a.example")
        try:
            read_item(value)
        except IbiError as error:
            str(error)
        found.append(value)
    return found


def _described_again(value: Any) -> Any:
    metadata = read_dublin_core(value)
    write_oai_dc(metadata)
    return metadata


def _values(text: str) -> Any:
    """What a cell means; those with half a character in them are refused before."""
    text = text.encode("utf-8", "replace").decode()
    return names_in([text]), web_address(text), doi_address(text), language_of(text)


def _file_names(text: str) -> Any:
    names = text.split("\n")
    for name in names:
        file_parts(name)
    return check_names(names)


def _bag(text: bytes) -> Any:
    """A bag whose tag files are these bytes, one after each line of dashes."""
    bag = folder() / "bag"
    if not bag.exists():
        (bag / "data").mkdir(parents=True)
        (bag / "data" / "a.txt").write_bytes(b"abc")
        (bag / "bagit.txt").write_bytes(b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    tags = [*text.split(b"\n---\n"), b"", b"", b""][:3]
    for name, tag in zip(("manifest-md5.txt", "metadata.json", "bag-info.txt"), tags, strict=True):
        (bag / name).unlink(missing_ok=True)
        if tag:
            (bag / name).write_bytes(tag)
    return _described(_read_tags(Package(bag, PackageLimits())), "bag")


def _export(text: bytes) -> list[tuple[object, ...]]:
    """An item that DSpace has exported, whose files are these bytes, one after each line of dashes."""
    item = folder() / "export" / "1"
    item.mkdir(parents=True, exist_ok=True)
    names = (CORE, "contents", "handle", "metadata_x.xml")
    parts = [*text.split(b"\n---\n"), b"", b"", b"", b""][: len(names)]
    for name, part in zip(names, parts, strict=True):
        (item / name).write_bytes(part)
    return records(lambda _: read_dspace(item.parent, {}))(b"")


def _package(text: bytes) -> Any:
    """A packed bag, of which all is read."""
    path = folder() / "package"
    path.write_bytes(text)
    package = Package(path, PackageLimits())
    return package.names(), [sum(map(len, package.chunks(member))) for member in package.members()]


def _packed() -> tuple[str, ...]:
    """A small zip and tar files, a character for each byte."""
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("b/bagit.txt", "BagIt-Version: 1.0\n")
        package.writestr("b/data/a.txt", "abc" * 50)
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        info = tarfile.TarInfo("b/bagit.txt")
        info.size = 19
        tar.addfile(info, io.BytesIO(b"BagIt-Version: 1.0\n"))
    plain = tarred.getvalue()
    found = (zipped.getvalue(), plain, gzip.compress(plain), lzma.compress(plain), bz2.compress(plain))
    return tuple(each.decode("latin-1") for each in found)


_MANIFEST: Final = "900150983cd24fb0d6963f7d28e17f72  data/a.txt\n"
_METADATA: Final = json.dumps({**corpus.ITEM, "target": "a.txt", "files": {"a.txt": {"path": "data/a.txt"}}})
_BAGS: Final = (
    f"{_MANIFEST}\n---\n{_METADATA}",
    f"{_MANIFEST}\n---\n\n---\nExternal-Description: A title\n",
    _MANIFEST,
)
_CORE: Final = (
    '<dublin_core schema="dc"><dcvalue element="contributor" qualifier="author" language="pt_BR">Silva, Ana</dcvalue>'
    '<dcvalue element="title" qualifier="none">T &amp; <b>U</b></dcvalue>'
    '<dcvalue element="rights">http://creativecommons.org/licenses/by/4.0/</dcvalue></dublin_core>'
)
_EXPORTS: Final = (
    f"{_CORE}\n---\na.pdf\tbundle:ORIGINAL\tprimary:true \n-r -s 1 -f b.txt\n---\n123456789/1\n---\n{_CORE}",
    f"{_CORE}\n---\n\n---\n1/2",
    _CORE,
)

ITEMS: Final = (
    Target("archive.model.item_json.read_line", read_line, "bytes", corpus.items(), values=corpus.ITEMS),
    Target(
        "archive.model.item_json.read_item",
        as_object(read_item),
        "value",
        values=corpus.ITEMS,
        also=frozenset({"archive.model.item_fields.read_text"}),
    ),
    Target("archive.model.item_json.read_facts", as_object(read_facts), "value", values=corpus.ITEMS),
    Target(
        "archive.model.item_fields.read_mapping",
        as_value(lambda value: read_mapping(value, "x")),
        "value",
        values=({"a": "b"},),
    ),
    Target(
        "archive.model.item.read_dublin_core",
        as_value(_described_again),
        "value",
        values=(corpus.ITEM["metadata"],),
    ),
    Target(
        "archive.model.file_names.file_parts",
        _file_names,
        "text",
        ("a/b%20c.txt\nA/b c.txt", "doc/%C3%A9.pdf\n@big"),
    ),
    Target(
        "archive.ingest.sources.records.read_json_lines",
        records(read_json_lines),
        "bytes",
        corpus.items(),
    ),
    Target("archive.ingest.sources.bibtex.read_bibtex", records(read_bibtex), "bytes", corpus.BIBTEX),
    Target("archive.ingest.sources.table.read_table", records(read_table), "bytes", corpus.TABLES),
    Target("archive.ingest.harvesting.PageReader.feed", _page, "bytes", corpus.OAI),
    Target("archive.ingest.sources.dspace.read_dspace", _export, "bytes", _EXPORTS),
    Target("archive.model.record_values.names_in", _values, seeds=corpus.wild(), rule="prose"),
    Target(
        "archive.model.record_values.Source.parse",
        Source.parse,
        seeds=("Revista do Mar, v. 12, n. 3, p. 45-67", "v. 2, pp. 1; 3"),
    ),
    Target(
        "archive.model.record_values.day_of",
        lambda text: day_of(text, "en-US") or day_of(text),
        seeds=("12/03/2026", "1º de maio de 2026", "Sept. 3rd, 2026", "2026-09-14T10:00:00Z"),
    ),
    Target("archive.preservation.bag_ingest.take_bag", _bag, "bytes", _BAGS, swift=False),
    Target("archive.preservation.packages.Package.names", _package, "bytes", _packed(), swift=False),
)
