"""The name of the institution stays with an item that goes to another Archive: two running Archives (decision 0046)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.cli import main
from ibi.identifier.forms import IBIForms
from ibi.runtime.settings import Peer
from ibi.runtime.settings.institution import Institution
from support.archive.replication_fixture import make_archive
from support.archive.running_archive import running_archive
from support.programs import MADE, Program

NAME = "a.example/b/2020/01.01.00.00"
NAMES = {"": "University of the Sea", "pt": "Universidade do Mar"}
ORIGIN, OTHER = NAMES[""], "Institute of the Shore"


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until a running Archive has done what it does by itself."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


@dataclass(frozen=True)
class Running:
    """A running Archive of an institution."""

    program: Program

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.program.port}"

    def do(self, action: str, *words: str) -> None:
        assert main(["archive", action, "--data", str(self.program.data), *words]) == 0

    def put(self, folder: Path, **more: object) -> None:
        (folder / "a.txt").write_text("words")
        line = {"rep": NAME, "files": {"a.txt": "a.txt"}, "metadata": {"title": ["Waves"]}, **more}
        (folder / "line.jsonl").write_text(json.dumps(line))
        self.do("import", str(folder / "line.jsonl"))

    def publishers(self) -> dict[str, bool]:
        """Whether the item bears the name of its origin, by the format."""
        self.do("index")
        places = {name: f"/-/metadata/{NAME}?format={name}" for name in FORMATS}
        places |= {
            f"OAI {prefix}": f"/-/oai?verb=GetRecord&identifier=oai:127.0.0.1:{NAME}&metadataPrefix={prefix}"
            for prefix in ("oai_dc", "oai_datacite", "oai_openaire")
        }
        texts = {name: self.program.get(path).text for name, path in places.items()}
        texts["feed"] = self.program.get("/-/feed?text=waves").text.partition("<entry>")[2]
        page = self.program.get(f"/-/item/{NAME}").text
        texts |= {"page": page.partition("</head>")[2], "head": page.partition("</head>")[0]}
        assert all(ORIGIN in text or OTHER in text for text in texts.values()), texts
        return {name: ORIGIN in text for name, text in texts.items()}

    def rename(self, **names: str) -> None:
        Institution.of(self.program.data).changed(names).write(self.program.data)


FORMATS = ("csl", "bibtex", "ris", "citation", "datacite-xml", "datacite-json", "jsonld", "turtle")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Running, Running]]:
    """Where the item is deposited, and another Archive; each lets the other one in."""
    service = IBIForms.parse("rep other.example/w/2020/01.01.00.00")
    with (
        running_archive(tmp_path / "origin") as first,
        running_archive(tmp_path / "other", service=service) as second,
    ):
        origin, other = Running(first), Running(second)
        origin.rename(name=ORIGIN, name_pt=NAMES["pt"])
        other.rename(name=OTHER)
        token = Tokens(second.data).make("origin", MADE, (Scope.TRANSFER,))
        Peer.write_tables(first.data, {"other": Peer(address=other.root, token=token)})
        Peer.write_tables(second.data, {"origin": Peer(address=origin.root, token="")})
        wait_until(lambda: ORIGIN in first.get("/").text and OTHER in second.get("/").text)
        yield origin, other


def institution(archive: Running) -> object:
    return archive.program.ask("GET", f"/items/{NAME}").content().get("institution")


def test_a_copy_bears_the_name_and_follows_it_when_it_is_refreshed(
    pair: tuple[Running, Running], tmp_path: Path
) -> None:
    origin, other = pair
    origin.put(tmp_path)
    other.do("copy", NAME, "--from", origin.root, "--allow-private")
    assert institution(other) == institution(origin) == NAMES
    assert set(origin.publishers().values()) == set(other.publishers().values()) == {True}
    origin.rename(name="New name", name_pt="")
    wait_until(lambda: "New name" in origin.program.get("/").text)
    assert institution(other) == NAMES
    other.do("refresh", NAME)
    assert institution(other) == {"": "New name"}


def test_an_item_that_is_handed_over_keeps_the_name_it_had_then_at_both_archives(
    pair: tuple[Running, Running], tmp_path: Path
) -> None:
    origin, other = pair
    origin.put(tmp_path)
    origin.do("transfer", NAME, "--to", "other")
    wait_until(lambda: other.program.ask("GET", f"/items/{NAME}").content().get("state") is None)
    assert institution(other) == NAMES
    assert set(other.publishers().values()) == {True}
    origin.rename(name="New name")
    wait_until(lambda: "New name" in origin.program.get("/").text)
    assert institution(other) == institution(origin) == NAMES


def test_a_bag_takes_the_name_along_and_at_home_the_settings_are_followed(
    pair: tuple[Running, Running], tmp_path: Path
) -> None:
    origin, other = pair
    origin.put(tmp_path)
    origin.do("export", NAME, "--to", str(tmp_path / "bag.zip"))
    other.do("import-bag", str(tmp_path / "bag.zip"))
    assert institution(other) == NAMES
    assert set(other.publishers().values()) == {True}


def test_a_publisher_of_its_own_comes_first(pair: tuple[Running, Running], tmp_path: Path) -> None:
    origin, other = pair
    origin.put(tmp_path, metadata={"title": ["Waves"], "publisher": ["A publisher"]})
    other.do("copy", NAME, "--from", origin.root, "--allow-private")
    record = f"/-/oai?verb=GetRecord&identifier=oai:127.0.0.1:{NAME}&metadataPrefix=oai_dc"
    other.do("index")
    assert other.program.get(record).text.count("<dc:publisher>") == 1
    assert "PB  - A publisher" in other.program.get(f"/-/metadata/{NAME}?format=ris").text


def test_an_original_that_comes_home_follows_the_settings(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, 1)
    replace(Institution(), name=ORIGIN).write(archive.data)
    assert archive.put(NAME, institution={"": ORIGIN}).institution == {}
    assert archive.put(f"{NAME}.01", institution=NAMES).institution == NAMES
