"""Commands that cannot be: in which words they are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.cli import main

Typed = Callable[..., tuple[int, str, str]]
ARCHIVE = "--address archive.example:80 --ip 127.0.0.1 --for-trying --json"
LABELS = "--host archive.example --for-trying"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of an Archive, in which nothing is done."""
    folder = tmp_path_factory.mktemp("refused") / "a"
    assert main(["archive", "init", "--data", str(folder), *ARCHIVE.split()]) == 0
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a link, and two files of one name."""
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "link").symlink_to("/etc/hostname")
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(folder)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("export --to bag.zip", "export needs one IBI, or --all"),
        ("export a/b --all --to bag.zip", "export needs one IBI, or --all"),
        (
            "export a/b --zip --to bag",
            "--zip is used only with --all; a single bag is a zip file if its name ends in .zip",
        ),
        ("deposit --title T --field nonsense one/a.txt", "a field is given as NAME=VALUE, not nonsense"),
        ("deposit --title T linked", "linked/link is a link; give its target instead"),
        ("deposit --title T one/a.txt two/a.txt", "two files have the name a.txt"),
    ],
)
def test_of_an_archive(
    typed: Typed, data: Path, files: Path, monkeypatch: pytest.MonkeyPatch, words: str, sentence: str
) -> None:
    monkeypatch.chdir(files)
    command, *rest = words.split()
    assert typed("archive", command, "--data", data, *rest) == (1, "", f"ibi: {sentence}\n")


def test_of_a_mint(typed: Typed, tmp_path: Path) -> None:
    data = tmp_path / "labels"
    data.mkdir()
    serve = ("mint", "serve", "--data", data, "--bind", "127.0.0.1:0")
    assert typed(*serve) == (
        1,
        "",
        f"ibi: no token for minting exists yet; make one: ibi mint token add NAME --data {data}\n",
    )
    assert typed("mint", "token", "add", "n", "--data", data)[0] == 0
    listed = data / "subsystems.toml"
    assert typed(*serve) == (
        1,
        "",
        f"ibi: which name should the labels carry? Give --host, or list subsystems in {listed}\n",
    )
    listed.write_text('[a]\nhost = "a.example"\nfor_trying = true\n')
    assert typed(*serve, *LABELS.split()) == (
        1,
        "",
        f"ibi: {listed} lists the names to mint under; leave out --host, --for-trying\n",
    )
