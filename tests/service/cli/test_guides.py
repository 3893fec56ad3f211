"""The examples of the guides for those who keep an Archive, or run a resolver, are run as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.runtime.settings import ResolverSettings
from support.style.layers import ROOT

Typed = Callable[..., tuple[int, str, str]]


def part(guide: str, begin: str, end: str) -> str:
    """What a guide says from one text to the next other text."""
    text = (ROOT / "docs/en/how-to" / guide).read_text(encoding="utf-8")
    assert text.count(begin) == 1
    return text.partition(begin)[2].partition(end)[0]


def blocks(text: str) -> list[list[str]]:
    """The commands that have lines of their own, without `ibi`."""
    return [shlex.split(line, comments=True) for line in re.findall(r"^    ibi (.+)$", text, re.MULTILINE)]


@pytest.fixture
def here(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, in which the folder `archive` is a new Archive."""
    data.rename(data.parent / "archive")
    monkeypatch.chdir(data.parent)
    for name in ("report", "report2", "report-en", "errata"):
        Path(f"{name}.pdf").write_bytes(name.encode())
    return data.parent


def shown(typed: Typed, *names: str) -> dict[str, object]:
    status, out, _ = typed("archive", "show", "--data", "archive", *names, "--json")
    assert status == 0
    value: dict[str, object] = json.loads(out)
    return value


@pytest.mark.usefixtures("here")
def test_the_life_of_an_item(typed: Typed) -> None:
    text = part("keep-an-archive.md", "## The life of an item\n", "\n## ")
    *commands, removal = blocks(text)
    assert [words[1] for words in (*commands, removal)] == [*["deposit"] * 3, "edit", "delete"]
    names: list[str] = []
    for words in commands:
        status, out, err = typed(*(names[0] if word == "<ibi>" else word for word in words))
        assert (status, err) == (0, "")
        names += out.split()[:1] if words[1] == "deposit" else []
    first, edition, translation = names
    item = shown(typed, first)
    assert (item["metadata"]["title"], item["target"]) == (["Report, corrected"], "report.pdf")  # type: ignore[index]  # a mapping
    assert (edition in str(item["next_edition"]), translation in str(item["translations"])) == (True, True)
    options = re.findall(r"`(--field target=[^`]*)`", text)
    assert len(options) == 2
    for option in options:
        assert typed("archive", "edit", "--data", "archive", first, *option.split())[0] == 0
        assert shown(typed, first).get("target", "") == option.partition("target=")[2]
    assert typed(*(first if word == "<ibi>" else word for word in removal))[0] == 0
    assert shown(typed, first)["reason"] == removal[-1]


def test_archives_in_a_private_network_are_allowed(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begin = next(
        words for words in blocks(part("run-a-resolver.md", "## Begin\n", "\n## ")) if "init" in words
    )
    text = part("run-a-resolver.md", "**In a private network**", "**lost key**")
    (allowing,) = blocks(text)
    for option, allowed in (((), False), (("--allow-private-archives",), True)):
        assert all(f"`{each}` at `init`" in text for each in option)
        assert typed(*begin, *option)[0] == 0
        assert ResolverSettings.read(Path("resolver")).allow_private_archives is allowed
        assert typed(*allowing)[0] == 0
        assert ResolverSettings.read(Path("resolver")).allow_private_archives
        shutil.rmtree("resolver")
