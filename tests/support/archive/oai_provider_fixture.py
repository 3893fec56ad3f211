"""What tests of the OAI-PMH repository share: one that answers in memory or on a socket, and a harvester of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from ibi.archive.model.item_json import read_item
from ibi.archive.oai.provider import OAI, OaiHandler, OaiProvider
from ibi.archive.search.index import SearchIndex
from ibi.archive.search.indexing import Indexer
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.item_changes import deposit, edit
from ibi.http.request import host_of
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_ibi
from ibi.runtime.settings.institution import Institution
from ibi.web.formats import RECORD_FORMATS
from support.archive.archive_fixture import NewArchive, Served, listener, serving
from support.archive.search_fixture import indexer_of, item
from support.web.unnamed import RENDERER

Answer = Any
"""The root of an XML document, as lxml gives it."""


@cache
def _rules() -> Any:
    return etree.RelaxNG(etree.parse(Path(__file__).with_name("oai_pmh.rng")))


def valid(body: bytes) -> Answer:
    """An answer of OAI-PMH 2.0, every element of which is as the protocol wants it."""
    answer = etree.fromstring(body, etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True))
    _rules().assertValid(answer)
    return answer


def texts(answer: Answer, name: str) -> list[str]:
    """The texts of all elements of a name, wherever they stand."""
    return [element.text or "" for element in answer.iter(f"{{*}}{name}")]


def identifiers(answer: Answer) -> list[str]:
    """The identifiers of the headers in an answer."""
    return [found.text or "" for found in answer.iterfind(".//{*}header/{*}identifier")]


def token_of(answer: Answer) -> str:
    """The token at the end of an answer, "" if nothing follows."""
    return next(iter(texts(answer, "resumptionToken")), "")


@dataclass
class Repository:
    """The OAI-PMH repository of an Archive; what changes is seen once `look` has been called."""

    archive: NewArchive
    indexer: Indexer
    index: SearchIndex
    provider: OaiProvider

    def look(self) -> None:
        """Have the index see what has changed."""
        self.indexer.bring_up_to_date()

    def ask(self, verb: str, **arguments: str) -> Answer:
        """The answer to a question, "from_" standing for "from"."""
        named = {name.rstrip("_"): value for name, value in arguments.items()}
        return valid(self.provider.answer(urlencode({"verb": verb, **named})))

    def pages(self, verb: str = "ListRecords", **arguments: str) -> Iterator[Answer]:
        """All pages of a list."""
        answer = self.ask(verb, **(arguments or {"metadataPrefix": "oai_dc"}))
        yield answer
        while token := token_of(answer):
            answer = self.ask(verb, resumptionToken=token)
            yield answer

    def fault(self, verb: str, **arguments: str) -> str:
        """The code of the error that a question is answered with, "" if it is answered."""
        error = self.ask(verb, **arguments).find("{*}error")
        return "" if error is None else error.get("code", "")

    def name(self, number: int) -> str:
        """The identifier of one of the items that `search_fixture.item` makes."""
        return f"oai:{host_of(self.archive.settings.address)}:{item(number)['rep']}"

    def put(self, number: int, title: str = "", **more: object) -> None:
        """Deposit one of those items."""
        facts = {name: value for name, value in item(number, title, **more).items() if value is not None}
        deposit(self.archive.item_store, read_item(facts), [], "maria")

    def change(self, number: int, title: str) -> None:
        """Give one of those items another title."""
        edit(
            self.archive.item_store,
            parse_ibi(str(item(number)["rep"])),
            {"metadata": {"title": title}},
            "maria",
        )

    def remove(self, number: int) -> None:
        """Remove one of those items."""
        with self.archive.item_store.unit_of_work("maria") as work:
            work.remove(work.get(parse_ibi(str(item(number)["rep"]))))


@contextmanager
def repository(archive: NewArchive) -> Iterator[Repository]:
    """The OAI-PMH repository of an Archive; its index has seen all there is."""
    indexer, index = indexer_of(archive), SearchIndex(archive.data)
    indexer.bring_up_to_date()
    provider = OaiProvider(
        archive.settings,
        archive.catalogue,
        index,
        RECORD_FORMATS,
        archive.clock.seconds,
        Institution.of(archive.data),
    )
    try:
        yield Repository(archive, indexer, index, provider)
    finally:
        indexer.close()
        index.close()


@contextmanager
def answering(held: Repository, listening: object = None) -> Iterator[Served]:
    """The same on a socket of this machine, as part of the whole Archive."""
    archive = held.archive
    app = ArchiveService(
        archive.settings,
        archive.catalogue,
        archive.file_store,
        archive.clock.seconds,
        RENDERER,
        handlers={OAI: OaiHandler(held.provider, held.index.close, archive.settings.trusted_proxies).answer},
    )
    made = listening if listening is not None else listener()
    with serving(archive, made, Service(app, close=app.close)) as served:  # type: ignore[arg-type]  # a socket
        yield served


@dataclass
class Mirror:
    """A harvester that keeps what it was told: identifier -> title, None of what was removed.

    `since`: what it asks from the next time, which is the responseDate of the first answer of the last list.
    """

    known: dict[str, str | None] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    since: str = ""
    _token: str = ""
    _begun: str = ""

    def step(self, held: Repository) -> bool:
        """Ask for one page; False if it was the last one."""
        if self._token:
            answer = held.ask("ListRecords", resumptionToken=self._token)
        else:
            self.names.clear()
            more = {"from_": self.since} if self.since else {}
            answer = held.ask("ListRecords", metadataPrefix="oai_dc", **more)
            self._begun = texts(answer, "responseDate")[0]
        for record in answer.iterfind(".//{*}record"):
            header = record.find("{*}header")
            assert header is not None
            name = texts(header, "identifier")[0]
            self.names.append(name)
            gone = header.get("status") == "deleted"
            self.known[name] = None if gone else "".join(texts(record, "title"))
        self._token = token_of(answer)
        if not self._token:
            self.since = self._begun
        return bool(self._token)
