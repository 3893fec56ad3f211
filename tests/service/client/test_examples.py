"""The examples of docs/reference/library.md that ask servers, run as they stand there, with servers of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ibi.accounts.tokens import Scope
from ibi.client import Removed
from support.client.scripted_server import answer, scripted
from support.style.layers import ROOT

if TYPE_CHECKING:
    from support.client.network import Network

LABELS = b'{"labels": [{"rep": "a.example/b/2026/11.28.14.00.0%d", "ibip": null, "datetime": "x"}, {}, {}]}'


@contextmanager
def mint() -> Iterator[str]:
    with scripted(answer(200, LABELS)) as there:
        yield there.root


def examples() -> list[str]:
    page = (ROOT / "docs/reference/library.md").read_text(encoding="utf-8")
    text = page.partition("## Asking servers\n")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(text: str, network: Network, mint_root: str = "") -> list[str]:
    """What an example prints."""
    for written, here in (
        ("https://urlib.net/", network.resolver),
        ("https://archive.example/", network.archive),
        ("https://mint.example/", mint_root),
        ("TOKEN", network.program.token(Scope.DEPOSIT)),
    ):
        text = text.replace(f'"{written}"', f'"{here}"')
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(text, "docs/reference/library.md", "exec"), {"__name__": "example"})  # noqa: S102 - our own page
    return printed.getvalue().splitlines()


def test_each_example_is_run() -> None:
    clients = [re.findall(r"with (?:\(\s*)?(\w+)\(", text)[0] for text in examples()]
    assert clients == ["Resolver", "Archive", "Archive", "Minting", "AsyncResolver"]


def test_the_example_of_a_resolver(network: Network) -> None:
    found, record, removed = run(examples()[0], network)
    assert found.startswith(f"{network.archive}/col/")
    assert record.startswith(f"application/xml {network.archive}/-/metadata/")
    assert "This item was removed" in removed
    assert re.search(r" 2026-\S+Z$", removed)


def test_the_example_of_an_archive(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report.pdf").write_bytes(b"%PDF-1.4")
    before = network.count()
    editions, *more = run(examples()[1], network)
    next_edition, second = editions.rsplit(" ", 1)
    assert second in next_edition
    assert "Silva, Maria" in "\n".join(more)
    assert network.count() == before + 2


def test_the_example_of_a_follower(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = run(examples()[2], network)
    assert any(line.startswith("removed archive.example/first/2026/04.01.08.00 ") for line in whole)
    assert run(examples()[2], network) == []
    Path("cursor.txt").write_text("1-0123456789abcdef", encoding="utf-8")
    with pytest.raises(Removed):
        run(examples()[2], network)


def test_the_example_of_a_mint(network: Network) -> None:
    with mint() as root:
        assert len(run(examples()[3], network, root)) == 3


def test_the_example_of_asyncio(network: Network) -> None:
    one, other, *titles = run(examples()[4], network)
    assert (one.endswith("index.html"), other.endswith("index.html")) == (True, True)
    assert any("Names" in title for title in titles)
