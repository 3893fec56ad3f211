"""An Archive and a resolver with administrations, where everything has happened of which a page can tell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ibi.accounts.administration import Administration as Pages
from ibi.accounts.layout import Layout
from ibi.accounts.people import Accounts, Role
from ibi.app import archive_admin, resolver_admin
from ibi.app.archive import archive_directory
from ibi.app.resolver import open_registry, resolver_service
from ibi.archive.store.tables import fixity, usage
from ibi.archive.store.tables.fixity import AuditResult, FileFault
from ibi.archive.store.tables.rows import ListedFile
from ibi.archive.store.tables.usage import UsageCounts
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.messages import InclusionRequest
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.model.archive import Move
from ibi.resolver.registry.registry import Registry
from ibi.runtime.i18n import LANGUAGES
from ibi.runtime.settings import ResolverSettings
from ibi.web import administration_pages, resolver_pages
from ibi.web.branding import Branding
from ibi.web.rendering import html as write
from support.archive.administration_fixture import PASSWORD, AdministeredArchive, administered_archive
from support.archive.archive_fixture import REP
from support.ports import free_port
from support.resolver.membership_fixture import SERVICE, use_cheap_keys
from support.served import served

WAITING = ("sid.inpe.br/mtc-m21/2012/06.05.15.34.39", "a.example/b/2014/01.01.00.00")
TAKING_PART = "a.example/taking/2015/01.01.00.00"
FOR_COPIES = "A picture of a river"
TEMPLATES = {
    name for table in (administration_pages.TEMPLATES, resolver_pages.TEMPLATES) for _, name in table
}
"""Every template by which a page of an administration can be written."""


class Written(NamedTuple):
    """A page as it was sent: its template, its service and the word of its address; whether it tells of a problem."""

    template: str
    address: str
    word: str
    trouble: bool
    html: dict[str, bytes]
    """In each of our languages: in the reader's as it was sent."""


@dataclass
class Administrations:
    """The administrations, and what they write. `words`: those of the pages of each, by the address of its service."""

    archive: AdministeredArchive
    resolver_port: int
    copied: str
    """The item of another Archive of which a copy can be taken, and the address of that Archive."""
    other: str
    written: list[Written] = field(default_factory=list)
    words: dict[str, set[str]] = field(default_factory=dict)


@contextmanager
def administrations(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Administrations]:
    """They are served until the end of the block; whatever they write is written down."""
    written, words = _watched(patch)
    use_cheap_keys(patch)
    with ExitStack() as stack:
        other = stack.enter_context(administered_archive(folder / "other"))
        archive = stack.enter_context(administered_archive(folder / "here"))
        resolver_port = stack.enter_context(_resolver(folder / "resolver"))
        _tell_more(archive, other)
        maria = other.new_browser("maria")
        maria.look("/-/admin/deposit")
        fields = (
            ("once", None, b"1"),
            ("dc.title", None, FOR_COPIES.encode()),
            ("dc.title.lang", None, b"en"),
        )
        item = maria.send_files("/-/admin/deposit", ("file", "a.txt", b"water"), *fields)
        copied = item.headers["location"].partition("/items/")[2].partition("?")[0]
        written.clear()
        yield Administrations(archive, resolver_port, copied, other.new_browser().origin, written, words)


def _watched(patch: pytest.MonkeyPatch) -> tuple[list[Written], dict[str, set[str]]]:
    """Write down what the administrations write and which routes they have, and change nothing."""
    written: list[Written] = []
    words: dict[str, set[str]] = {}

    def seen(template: str, language: str, branding: Branding, *, frame: Layout, **values: Any) -> bytes:
        bodies = {each: write(template, each, branding, frame=frame, **values) for each in LANGUAGES}
        written.append(Written(template, frame.address, frame.here, frame.problem is not None, bodies))
        return bodies[language]

    class Watched(Pages):
        def __init__(
            self,
            users: Any,
            pages: Any,
            render: Any,
            client_of: Any,
            address: str,
            *more: Any,
            **named: Any,
        ) -> None:
            words[address] = set(pages)
            super().__init__(users, pages, render, client_of, address, *more, **named)

    patch.setattr(administration_pages, "html", seen)
    patch.setattr(archive_admin, "Administration", Watched)
    patch.setattr(resolver_admin, "Administration", Watched)
    return written, words


def _tell_more(archive: AdministeredArchive, other: AdministeredArchive) -> None:
    """What time brings: visits, a damaged file, and an Archive that originals can go to."""
    with closing(archive_directory(archive.archive.data).open_catalogue()) as catalogue:
        holding = catalogue.holding(parse_name(REP))
        assert holding is not None
        with catalogue.writing() as writer:
            usage.count_visits(writer.run, holding.number, "2026-09", "BR", UsageCounts(40, 30, 10, 9))
            damaged = ListedFile(holding.number, holding.forms, holding.files[0])
            fixity.record_results(
                writer.run, [AuditResult(damaged, FileFault.DIGEST, "2026-10-03T10:00:00Z")]
            )
    peers = f'[far]\naddress = "{other.new_browser().origin}"\ntoken = "t"\n'
    (archive.archive.data / "peers.toml").write_text(peers)


@contextmanager
def _resolver(data: Path) -> Iterator[int]:
    """A resolver at which Archives take part, wait and want to move, and of which two claim one original."""
    data.mkdir()
    port = free_port()
    ResolverSettings(address=f"127.0.0.1:{port}", service=SERVICE).write(data)
    registry = open_registry(data, new=True)
    Accounts(data).add("root", Role.ADMINISTRATOR, PASSWORD, "2026-11-22T10:00:00Z")
    _fill(registry)
    evidence = Evidence(data / EVIDENCE_FILE, time.time)
    evidence.write("alert", kind="suspect-originals", ibi=WAITING[0], archives=f"{TAKING_PART} {WAITING[1]}")
    evidence.write("registered", ibi=TAKING_PART, by="command")
    evidence.close()
    with served(lambda: resolver_service(data), f"127.0.0.1:{port}"):
        yield port
    registry.close()


def _fill(registry: Registry) -> None:
    for waiting in WAITING:
        registry.apply(
            parse_ibi(waiting), "archive.example", "ada@archive.example", "Ada Lovelace", ("a.example",)
        )
    service = parse_ibi(TAKING_PART)
    key = registry.register(service, None, ("a.example",), "bob@archive.example", "Bob")
    change = registry.open_change(service)
    request = InclusionRequest("127.0.0.1:9", service, "127.0.0.1", "1", "bob@archive.example", key)
    assert registry.include(request, change, confirmed=True)
    registry.hold_move(service, Move("127.0.0.1:8", "127.0.0.1", time.time(), None, 0))
