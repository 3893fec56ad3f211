"""All of an Archive, harvested by a program that is not ours, and by `ibi archive harvest` into another Archive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from oaipmh_scythe import Scythe
from oaipmh_scythe.models import Header, Record

from ibi.archive.oai.provider import OAI
from ibi.identifier.forms import parse_ibi
from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.common.served_archive import Served
from proofs.harvest.served import holding, line, name_of
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDS = (
    "each record once, in its last state; removed ones told as removed; a copy of all under the same names"
)
_EACH_REMOVED = 10  # one of so many
_LOOKED_AT = 50


def prove(scale: Scale, _seed: int) -> Report:
    """Harvest an Archive of 1,000, 10,000 or 100,000 records."""
    report, count = Report("whole", HOLDS), scale.pick(1_000, 10_000, 100_000)
    lines = (line(each, f"Title {each}", removed=each % _EACH_REMOVED == 0) for each in range(count))
    with holding(lines) as archive:
        for prefix in ("oai_dc", "oai_datacite"):
            _harvested(report, archive, count, prefix)
        _headers(report, archive, count)
        _taken(report, archive, count)
    return report


def _records(archive: Served, prefix: str) -> Iterator[Record]:
    with Scythe(f"http://127.0.0.1:{archive.port}{OAI}") as client:
        for each in client.list_records(metadata_prefix=prefix):
            assert isinstance(each, Record)  # noqa: S101 - what this client gives
            yield each


def _harvested(report: Report, archive: Served, count: int, prefix: str) -> None:
    seen: set[str] = set()
    for record in _records(archive, prefix):
        name = str(record.header.identifier)
        report.count("records")
        if name in seen:
            report.violate(f"{name} came twice")
        seen.add(name)
        if record.header.deleted:
            report.count("removed")
        elif prefix == "oai_dc":
            number = int(str(record.metadata["title"][0]).split()[1])
            if not name.endswith(f":{name_of(number)}") or not number % _EACH_REMOVED:
                report.violate(f"{name} is called {record.metadata['title']}")
    if seen != {f"oai:127.0.0.1:{name_of(number)}" for number in range(count)}:
        report.violate(f"{len(seen)} of {count} records came as {prefix}")


def _headers(report: Report, archive: Served, count: int) -> None:
    with Scythe(f"http://127.0.0.1:{archive.port}{OAI}") as client:
        headers = [each for each in client.list_identifiers(set_="openaire") if isinstance(each, Header)]
    report.count("headers", len(headers))
    if len({header.identifier for header in headers}) != count:
        report.violate(f"{len(headers)} headers of {count} came")


def _taken(report: Report, archive: Served, count: int) -> None:
    """What our own harvester makes of it: a copy of each that is there, under its own name."""
    with TemporaryDirectory() as folder:
        taker = Served("taker", Path(folder) / "archive", free_port())
        taker.make()
        words = [
            "harvest",
            f"http://127.0.0.1:{archive.port}{OAI}",
            "--allow-private",
            "--data",
            str(taker.data),
        ]
        subprocess.run(
            [sys.executable, "-m", "ibi", "archive", *words],
            check=True,
            capture_output=True,
            env=environment(),
        )
        with taker.directory.catalogue() as catalogue:
            held = catalogue.count() - 1  # its own service item
            report.count("copies", held)
            if held != count - -(-count // _EACH_REMOVED):
                report.violate(f"{held} of {count} items were taken")
            for number in range(1, count, count // _LOOKED_AT):
                found = catalogue.holding(parse_ibi(name_of(number)))
                if number % _EACH_REMOVED and (found is None or found.metadata is None):
                    report.violate(f"{name_of(number)} was not taken")
