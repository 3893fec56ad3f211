"""An Archive whose items have editions, translations, people and files: for the tests of the pages about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ibi.archive.service.service import ArchiveService
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.tables import copies, fixity, usage
from ibi.archive.store.tables.copies import CopySource
from ibi.archive.store.tables.fixity import AuditResult, FileFault
from ibi.archive.store.tables.rows import ListedFile
from ibi.archive.store.tables.usage import UsageCounts
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_name
from ibi.web.assets import WithAssets
from support.archive.archive_fixture import Clock, NewArchive, Served, listener, serving, settings_for
from support.web.unnamed import RENDERER

RESOLVER = "http://resolver.example"
CONTACT = "keeper@archive.example"
ORCID = "https://orcid.org/0000-0002-1825-0097"
LICENCE = "https://creativecommons.org/licenses/by/4.0/"
EVIL = "</script><script>alert(1)</script>\"'><!--figures--><img src=x onerror=alert(1)>"

FIRST = "a.example/b/2021/01.01.00.00"
ITEM = "a.example/b/2022/01.01.00.00"
IBIP = "8JMKD3MGP8W/35MME4E"
NEXT = "other.example/b/2023/01.01.00.00"
PORTUGUESE = "a.example/b/2022/02.01.00.00"
FRENCH = "other.example/b/2022/03.01.00.00"
GONE = "a.example/b/2022/04.01.00.00"
EMBARGOED = "a.example/b/2022/05.01.00.00"
HIDDEN = "a.example/b/2022/06.01.00.00"
COPY = "a.example/b/2022/07.01.00.00"
HOSTILE = "a.example/b/2022/08.01.00.00"
MANY = "a.example/b/2022/09.01.00.00"
BARE = "a.example/b/2022/10.01.00.00"

METADATA = {
    "title": [{"value": "Names that stay", "lang": "en"}, {"value": "Nomes que ficam", "lang": "pt-BR"}],
    "creator": ["Silva, Maria (https://orcid.org/0000-0002-1825-0097)", "Souza, Ana"],
    "description": [{"value": "About names.", "lang": "en"}, {"value": "Sobre nomes.", "lang": "pt-BR"}],
    "date": ["2022-01-01"],
    "type": ["report"],
    "publisher": ["INPE"],
}
ITEMS = [
    {
        "rep": FIRST,
        "next_edition": ITEM,
        "metadata": {"title": ["The first draft"]},
        "url": "http://far.example/1",
    },
    {
        "rep": ITEM,
        "ibip": IBIP,
        "language": "en",
        "next_edition": NEXT,
        "translations": {"pt-BR": PORTUGUESE, "fr": FRENCH},
        "files": {"index.html": "a.txt", "report.pdf": "a.txt", "a%20b.txt": "a.txt"},
        "target": "report.pdf",
        "licence": LICENCE,
        "rights": "All may read it.",
        "metadata": METADATA,
    },
    {"rep": PORTUGUESE, "language": "pt-BR", "files": {"a.txt": "a.txt"}, "metadata": {"title": ["Nomes"]}},
    {
        "rep": GONE,
        "state": "Deleted",
        "timestamp": "2023-02-01T00:00:00Z",
        "reason": "Withdrawn.",
        "metadata": {"title": ["It was here"]},
    },
    {
        "rep": EMBARGOED,
        "files": {"a.txt": "a.txt"},
        "access": "embargoed",
        "embargo": "2030-01-01",
        "metadata": {"title": ["Wait"]},
    },
    {
        "rep": HIDDEN,
        "files": {"a.txt": "a.txt"},
        "file_list_public": False,
        "metadata": {"title": ["Hidden"]},
    },
    {"rep": COPY, "state": "Copy", "files": {"a.txt": "a.txt"}, "metadata": {"title": ["A copy"]}},
    {
        "rep": HOSTILE,
        "files": {"%3Cb%3E%22.txt": "a.txt"},
        "rights": EVIL,
        "metadata": {
            name: [EVIL, {"value": EVIL, "lang": "en"}]
            for name in (
                "title",
                "creator",
                "description",
                "subject",
                "publisher",
                "type",
                "date",
                "contributor",
            )
        },
    },
    {
        "rep": MANY,
        "files": {f"data/{number:04}.txt": "a.txt" for number in range(400)},
        "metadata": {
            "title": ["Many"],
            "creator": [f"Person, {number}" for number in range(500)],
            "description": ["word " * 50_000],
        },
    },
    {"rep": BARE, "url": "http://far.example/y"},
]


@contextmanager
def landing_archive(data: Path) -> Iterator[Served]:
    """It is served until the end of the block, with all that its pages need."""
    clock = Clock()
    directory = DataDirectory(data, clock.machine)
    directory.reserve()
    heard = listener()
    settings = settings_for(
        f"127.0.0.1:{heard.getsockname()[1]}", resolver=RESOLVER, admin=CONTACT, networks=("127.0.0.2/32",)
    )
    directory.create(settings)
    archive = NewArchive(data, settings, directory.open_catalogue(), directory.file_store(), clock)
    (data / "a.txt").write_bytes(b"data")
    assert archive.load(*ITEMS).added == len(ITEMS), archive.refused
    app = ArchiveService(settings, archive.catalogue, archive.file_store, clock.seconds, RENDERER)
    with serving(archive, heard, Service(WithAssets(app), close=app.close)) as served:
        yield served


def tell_more(archive: NewArchive) -> None:
    """What time brings: audits, visits, and a copy that lags behind."""
    holding, copy = (archive.catalogue.holding(parse_name(name)) for name in (ITEM, COPY))
    assert holding is not None
    assert copy is not None
    faults = {"a%20b.txt": FileFault.DIGEST, "index.html": None}
    with archive.catalogue.writing() as writer:
        for file in holding.files:
            if file.name in faults:
                listed = ListedFile(holding.number, holding.forms, file)
                fixity.record_results(
                    writer.run, [AuditResult(listed, faults[file.name], "2023-10-03T10:00:00Z")]
                )
        usage.count_visits(writer.run, holding.number, "2023-09", "BR", UsageCounts(40, 30, 10, 9))
        usage.count_visits(writer.run, holding.number, "2023-09", "", UsageCounts(2, 2, 1, 1))
        usage.count_visits(writer.run, holding.number, "2023-11", "BR", UsageCounts(8, 8, 0, 0))
        source = CopySource(
            archive="http://there.example", checked="2023-11-02T00:00:00Z", since="2023-11-01T00:00:00Z"
        )
        copies.save_source(writer.run, copy.number, source)
