"""The sample network of `ibi up`: what is in it, and how it is made.

Everything goes the ordinary way: `init`, `register` and `import` as an administrator would type them. Doing it twice
changes nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import secrets
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class SampleArchive:
    """One Archive of the sample network: its folder, service item, the name it mints under, and its items."""

    name: str
    service: str
    mint_host: str
    mint_ip: str
    items: tuple[str, ...]


ARCHIVES: Final = (
    SampleArchive(
        "first",
        "archive.example/first/2026/02.01.09.00",
        "first.archive.example",
        "192.0.2.1",
        ("first.jsonl", "standard-m16c.jsonl", "wild.jsonl"),
    ),
    SampleArchive(
        "second",
        "archive.example/second/2026/02.01.09.30",
        "second.archive.example",
        "192.0.2.2",
        ("second.jsonl", "standard-m16d.jsonl"),
    ),
)

FIRST_EDITION: Final = "archive.example/first/2026/03.02.10.15"
LAST_EDITION: Final = "archive.example/first/2026/09.14.16.40"
_TWO_CLAIMS: Final = "archive.example/first/2026/05.20.11.05?ibiurl.requireditemstatus=Original"
LINKS: Final = {
    FIRST_EDITION: "a text: you are sent to the Archive that holds it",
    "32G4GKPW/4F97PUL": "the same text by its other name, an IBIp",
    f"{FIRST_EDITION}!": "its last edition",
    f"{FIRST_EDITION}+": "its translation, if your browser prefers Portuguese",
    f"{FIRST_EDITION}!+(pt)": "the Portuguese translation of its last edition, in the other Archive",
    f"{LAST_EDITION}:": "its metadata",
    f"{LAST_EDITION}:(oai_dc)": "its metadata in the format oai_dc",
    f"{LAST_EDITION}?ibiurl.verblist=GetFileList": "the list of its files",
    f"{LAST_EDITION}/notes.txt": "one of its files",
    "8JMKD3MGP8W/35MMLL8!": "an example of the standard: the last edition of a report",
    "sid.inpe.br/mtc-m21b/2016/11.18.17.34": "a real item: you are sent to the server where it was found",
    f"-/explain/{FIRST_EDITION}!+(pt)": "who was asked, who answered what, and why",
    "archive.example/first/2026/04.01.08.00": "an item that was removed (410)",
    "archive.example/first/2026/01.01.00.00": "an item that no Archive holds (404)",
    f"{FIRST_EDITION}+(fr)": "a translation that does not exist (404)",
    _TWO_CLAIMS: "an original that two Archives claim to hold (409)",
    "archive.example/first/2026/O3.02.10.15": "a letter O instead of a zero (400)",
}
"""What to click, and what it shows."""


class SampleNetwork:
    """The network in one data directory: `data/resolver`, `data/first`, `data/second`; one port for each of them."""

    def __init__(self, data: Path, ports: Sequence[int]) -> None:
        self.addresses = [f"{HOST}:{port}" for port in ports]
        self.root = f"http://{self.addresses[0]}"
        self.resolver = data / "resolver"
        self.archives = [data / archive.name for archive in ARCHIVES]

    def make(self) -> None:
        """Initialise, register and import whatever is not there yet. Raises IbiError."""
        self._make_resolver()
        for archive, folder, address in zip(ARCHIVES, self.archives, self.addresses[1:], strict=True):
            self._make_archive(archive, folder, address)
            with as_file(files("ibi") / "samples") as samples:
                for name in archive.items:
                    _command("archive", "import", "--data", folder, samples / name)

    def _make_resolver(self) -> None:
        from ibi.settings import ResolverSettings

        folder, address = self.resolver, self.addresses[0]
        if not ResolverSettings.exists(folder):
            _command("resolver", "init", "--data", folder, "--address", address, "--allow-private-archives")
        settings = ResolverSettings.read(folder)
        if settings.address != address:
            replace(settings, address=address).write(folder)

    def _make_archive(self, archive: SampleArchive, folder: Path, address: str) -> None:
        from ibi.settings import ArchiveSettings

        if not ArchiveSettings.exists(folder):
            key = str(secrets.randbelow(10**20)).zfill(20)
            _command(
                "archive", "init", "--data", folder, "--address", address, "--ip", HOST,
                "--service-ibi", archive.service, "--mint-host", archive.mint_host, "--mint-ip", archive.mint_ip,
                "--for-trying", "--admin", "admin@archive.example", "--resolver", self.root, "--key", key,
            )  # fmt: skip
            registration = ("--archive-service", archive.service, "--key", key)
            _command("resolver", "register", "--data", self.resolver, *registration)
        settings = ArchiveSettings.read(folder)
        if (settings.address, settings.resolver) != (address, self.root):
            replace(settings, address=address, resolver=self.root).write(folder)


def _command(*words: object) -> None:
    """Run one of our own commands; what it says is passed on only if it fails. Raises IbiError."""
    from ibi.cli import archive, resolver

    parser = argparse.ArgumentParser(prog="ibi")
    commands = parser.add_subparsers(required=True)
    archive.add_parser(commands)
    resolver.add_parser(commands)
    args = parser.parse_args([str(word) for word in words])
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = args.run(args)
    if status:
        command = " ".join(("ibi", *map(str, words[:2])))
        raise SetupError("{command} failed: {why}", command=command, why=said.getvalue().strip())
