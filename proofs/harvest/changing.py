"""A harvester that always asks for what is new, and an Archive that changes all the time, even between two pages."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from ibi.archive.model.item_json import read_item
from ibi.archive.oai.provider import OAI
from ibi.archive.store.item_changes import deposit, edit
from ibi.identifier.forms import parse_ibi
from proofs.common.report import Report, Scale
from proofs.harvest.served import holding, line, name_of

if TYPE_CHECKING:
    from proofs.common.served_archive import Served

HOLDS = "what stands still comes once in a list; after the last change one more list makes the harvester's copy true"
_BEGINNING = 250
_TIMEOUT = 60.0
_EACH_WHOLE = 5
"""One list of so many restarts: it has several pages."""


class Changer:
    """Changes, adds and removes items; `truth`: name -> title, None of what is gone; `when`: of its last change."""

    def __init__(self, archive: Served, seed: int) -> None:
        self.truth: dict[str, str | None] = {name_of(n): f"Title {n}" for n in range(_BEGINNING)}
        self.when: dict[str, float] = {}
        self.count = 0
        self._directory = archive.directory
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._chance.choice((0, 0, 0.01, 0.2))):
            name = self._change()
            self.when[name] = time.monotonic()
            self.count += 1

    def _change(self) -> str:
        living = [name for name, title in self.truth.items() if title is not None]
        name, action = self._chance.choice(living), self._chance.choice(("edit", "edit", "add", "remove"))
        number = len(self.truth)
        if action == "add" or len(living) < _BEGINNING // 2:
            name = name_of(number)
        self.when[name] = time.monotonic()  # it may be told from now on
        with self._directory.item_store() as item_store:
            if name not in self.truth:
                deposit(item_store, read_item(line(number, f"Title {number}")), [], "proof")
                self.truth[name] = f"Title {number}"
            elif action == "remove":
                with item_store.unit_of_work("proof") as work:
                    work.remove(work.get(parse_ibi(name)))
                self.truth[name] = None
            else:
                title = f"Title {self._chance.random()}"
                edit(item_store, parse_ibi(name), {"metadata": {"title": title}}, "proof")
                self.truth[name] = title
        return name


class Harvester:
    """Keeps what it was told: `known` is name -> title, None of what is gone."""

    def __init__(self, archive: Served) -> None:
        self.known: dict[str, str | None] = {}
        self._port = archive.port
        self._since = ""

    def list(self, report: Report, changer: Changer, *, whole: bool = False) -> None:
        """Ask for all that is new, or for all there is, page by page."""
        begun, records, token, since = time.monotonic(), [], "", ""
        first = {"metadataPrefix": "oai_dc"} | ({"from": self._since} if self._since and not whole else {})
        while True:
            answer = self._ask({"resumptionToken": token} if token else first)
            report.count("pages")
            if not token:
                since = answer.findtext("{*}responseDate")
            for record in answer.iterfind(".//{*}record"):
                header = record.find("{*}header")
                name = header.findtext("{*}identifier").split(":", 2)[2]
                records.append(name)
                gone = header.get("status") == "deleted"
                self.known[name] = None if gone else "".join(each.text for each in record.iter("{*}title"))
            token = answer.findtext(".//{*}resumptionToken") or ""
            if not token:
                break
        self._since = since
        report.count("records", len(records))
        # The index may see a change some seconds later; what changed shortly before may come once more.
        still = [name for name in records if changer.when.get(name, 0.0) < begun - _TIMEOUT]
        for name in {each for each in still if still.count(each) > 1} if len(still) > len(set(still)) else ():
            report.violate(f"{name} came twice in a list, and had not changed")

    def _ask(self, words: dict[str, str]) -> Any:
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            connection.request("GET", f"{OAI}?{urlencode({'verb': 'ListRecords', **words})}")
            return etree.fromstring(connection.getresponse().read())


def prove(scale: Scale, seed: int) -> Report:
    """Harvest for some seconds while items change; then, when nothing changes any more, once more."""
    report = Report("changing", HOLDS)
    with holding(line(number, f"Title {number}") for number in range(_BEGINNING)) as archive:
        harvester, changer = Harvester(archive), Changer(archive, seed)
        end = time.monotonic() + scale.pick(4, 60, 1_200)
        with changer:
            while time.monotonic() < end:
                harvester.list(report, changer, whole=report.counts["lists"] % _EACH_WHOLE == 0)
                report.count("lists")
        report.count("changes", changer.count)
        end = time.monotonic() + _TIMEOUT
        while harvester.known != changer.truth and time.monotonic() < end:  # the index comes a moment later
            time.sleep(0.5)
            harvester.list(report, changer)
        for name in changer.truth.keys() | harvester.known.keys():
            if harvester.known.get(name, "") != changer.truth.get(name, ""):
                report.violate(
                    f"{name} is {harvester.known.get(name)!r}, and should be {changer.truth.get(name)!r}"
                )
    return report
