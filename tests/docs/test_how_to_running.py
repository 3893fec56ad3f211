"""Every example of the how-to pages about running an Archive or a resolver is typed, in one language or the other.

A machine of their own has the host names, folders and services of the pages (`support.pages.machine`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

from support.pages.blocks import blocks, commands
from support.pages.machine import ADDRESSES, entered, last_item, make_machine
from support.pages.runner import language_of, run_page
from support.pages.turns import TREES, in_turn
from support.style.layers import ROOT

pytestmark = pytest.mark.long

ON_ONE_MACHINE = (
    # In this order: each leaves what the next one needs.
    ("service", "statistics", "troubleshooting", "upgrade", "tls"),
    ("backup-and-restore",),
    ("move-to-another-server",),
    ("proxy",),
)
PAGES = [name for names in ON_ONE_MACHINE for name in names]
SHOWN_ITEM = "8JMKD3MGP8W/35MMLL8"
WORDS = (
    ("arquivo.example.org", "archive.example.org"),
    ("resolvedor.example.org", "resolver.example.org"),
    ("repositorio.example.org", "repository.example.org"),
    ("arquivos.example.net", "files.example.net"),
    ("estatisticas", "statistics"),
    ("certificado|", "certificate|"),
    ("leva até aqui", "leads here"),
    ("não está declarado como proxy", "not declared as a proxy"),
    ("segredos", "secrets"),
    ("incluído", "included"),
)
"""What commands of Portuguese pages have in place of words in English."""


def page_of(tree: str, name: str) -> Path:
    return ROOT / "docs" / tree / "how-to" / f"{name}.md"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The new version for the page of upgrades, which is this one."""
    folder = tmp_path_factory.mktemp("wheel")
    words = "wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir".split()
    subprocess.run([sys.executable, "-m", "pip", *words, str(folder), str(ROOT)], check=True)
    (made,) = folder.iterdir()
    return made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the machine of the pages")
@pytest.mark.parametrize(("tree", "names"), in_turn(ON_ONE_MACHINE))
def test_each_example_of_a_page_works(
    tree: str, names: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pages = [page_of(tree, name) for name in names]
    language = language_of(pages[0])
    machine = make_machine(tmp_path / "machine", language)
    replaced = dict(ADDRESSES)
    if "upgrade" in names:
        replaced["'ibi[node]'"] = f"--no-index --no-deps {request.getfixturevalue('wheel')}"
    with entered(machine, language) as shell:
        replaced[SHOWN_ITEM] = last_item(shell, machine.hosts)
        for page in pages:
            done = run_page(page, shell, tmp_path, replaced)
            assert len(done) >= sum(block.is_run for block in blocks(page)) > 0
        if "upgrade" in names:
            assert "/opt/ibi/lib" in shell.run("/opt/ibi/bin/python -c 'import ibi; print(ibi.__file__)'")


@pytest.mark.parametrize("name", PAGES)
def test_both_languages_have_the_same_commands(name: str) -> None:
    """But for names that are words of a language."""
    typed = [
        [
            reduce(lambda text, word: text.replace(*word), WORDS, command.typed)
            for block in blocks(page_of(tree, name))
            if block.is_run
            for command in commands(block)
        ]
        for tree in TREES
    ]
    assert typed[0] == typed[1]
