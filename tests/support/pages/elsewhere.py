"""What the how-to pages of coming from elsewhere need: an Archive, repositories that are harvested, an export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.archive.oai_repository import Entry, Repository, answering, journal_article, thesis
from support.cli.in_process import ibi
from support.pages.dspace_export import export
from support.pages.runner import Shell, language_of, shell

ADDRESS = {"pt-BR": "arquivo.example.org", "en": "archive.example.org"}
"""The address of the Archive on the pages of each tree."""

EXPORT = {"pt-BR": "vinda", "en": "coming"}
"""The folder of the pages that DSpace has exported."""


FILES = (
    "pdf/45.pdf",
    "pdf/46.pdf",
    "pdf/ata-001.pdf",
    "relatorio.pdf",
    "report.pdf",
    "col/dpi.inpe.br/sbsr@80/2008/11.12.16.41/doc/4647-4653.pdf",
)
"""The files that the pages bring."""


@dataclass(frozen=True)
class Elsewhere:
    """A shell at an Archive, its folder, and what the pages show in place of what is here."""

    shell: Shell
    folder: Path
    replaced: dict[str, str]


@contextmanager
def coming(page: Path, folder: Path) -> Iterator[Elsewhere]:
    """Found an Archive, let repositories answer on this machine, and open a shell for a page."""
    (tree,) = ADDRESS.keys() & set(page.parts)
    data = folder / "archive"
    founding = ("--address", ADDRESS[tree], "--ip", "192.0.2.7", "--for-trying", "--resolver", "")
    assert ibi("archive", "init", "--data", data, *founding).returncode == 0
    export(folder / EXPORT[tree])
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"%PDF-1.4 {name}".encode())
    repositories: dict[str, list[Entry]] = {
        "https://dspace.example.org/server/oai/request": [thesis(1), thesis(2)],
        "https://revista.example.org/index.php/mar/oai": [journal_article(45), journal_article(46)],
    }
    with ExitStack() as stack:
        replaced = {f"/var/lib/ibi/archive/{ADDRESS[tree]}": str(data)}
        for shown, entries in repositories.items():
            here = stack.enter_context(answering(Repository(entries)))
            replaced[shown] = f"{here.url} --allow-private"
        at = stack.enter_context(shell(folder, {"LANGUAGE": language_of(page), "LC_ALL": "C.UTF-8"}))
        yield Elsewhere(at, folder, replaced)
