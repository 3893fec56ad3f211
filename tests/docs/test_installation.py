"""Every example of the page about installation is typed, in both languages, with the files of a release."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from ibi import __version__
from support.engines.debian import wheels
from support.packages.built import run
from support.pages.blocks import blocks, commands
from support.pages.runner import language_of, run_page, shell
from support.style.layers import ROOT


def _page(tree: str) -> Path:
    return ROOT / f"docs/{tree}/how-to/install.md"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_each_example_works(tmp_path: Path) -> None:
    page = _page("pt-BR")
    run(ROOT / "tools/dist.sh", tmp_path / "release", bin=str(Path(sys.executable).parent))
    environment = {
        "LANGUAGE": language_of(page),
        "LC_ALL": "C.UTF-8",
        # What an index would give, as it is locked.
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels("{}.{}".format(*sys.version_info))),
    }
    (tmp_path / "local/bin").mkdir(parents=True)
    here = {"sudo ": "", "/opt/ibi": f"{tmp_path}/opt/ibi", "/usr/local/bin": f"{tmp_path}/local/bin"}
    with shell(tmp_path / "release", environment) as at:
        at.run(f"PATH={tmp_path}/local/bin:{sys.base_prefix}/bin:{os.environ['PATH']}")
        done = run_page(page, at, tmp_path, here)
    assert [each.text for each in done] == [_replaced(text, here) for text in _typed(page)]


def _replaced(text: str, here: dict[str, str]) -> str:
    for shown, other in here.items():
        text = text.replace(shown, other)
    return text


def _typed(page: Path) -> list[str]:
    return [command.typed for block in blocks(page) if block.is_run for command in commands(block)]


def test_both_languages_show_the_same_commands_and_this_version() -> None:
    portuguese, english = map(_typed, map(_page, ("pt-BR", "en")))
    assert portuguese == english
    assert len(portuguese) == 7
    assert re.findall(r"ibi-([0-9.]+)-py3", "".join(portuguese)) == [__version__] * 3
