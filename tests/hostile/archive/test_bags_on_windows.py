"""Files whose names Windows refuses: their bags can be unpacked there, and come back exactly (threat T22)."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import pytest

from support.archive.preservation_fixture import NAME, make_archive

NAMES = (
    "CON",
    "NUL.txt",
    "aux/x.txt",
    "com1.tar.gz",
    "LPT%C2%B9",
    "conout$",
    "prn%20.txt",
    "a.",
    "b/c./d.txt",
    "b%20/e.txt",
    "f.txt%20",
    "a:b",
    "a*b",
    "a%3Fb",
    "a%22b%7C",
    "%3Ca%3E",
    "=3A",
    ":",
    "q=3A/x",
    "Q:",
    "r:/x",
    "R=3A",
    "caf%E9*",
    "*" * 255,
    "plain.txt",
)
RESERVED = re.compile(r"CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³]", re.IGNORECASE)
FORBIDDEN = frozenset('<>:"|?*\\')


def is_good_on_windows(path: str) -> bool:
    """Whether Windows can make a file of this name, by Microsoft's rules for names of files."""
    parts = path.split("/")
    return not any(RESERVED.fullmatch(part.partition(".")[0].rstrip()) for part in parts) and all(
        part and not FORBIDDEN & set(part) and part[-1] not in ". " and len(part) <= 255 for part in parts
    )


def ibi(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "ibi", *map(str, words)], check=True, capture_output=True)


@pytest.mark.proves("ARC-01")
@pytest.mark.parametrize("kind", ["bag", "bag.zip"])
def test_a_bag_can_be_unpacked_on_windows_and_comes_back_exactly(tmp_path: Path, kind: str) -> None:
    here, there = make_archive(tmp_path / "here"), make_archive(tmp_path / "there")
    files = {name: name.encode() for name in NAMES}
    here.put(NAME, files, target="CON")
    bag = tmp_path / kind
    ibi("archive", "export", "--data", here.data, "--to", bag, NAME)
    if bag.is_file():
        with zipfile.ZipFile(bag) as package:
            names = package.namelist()
    else:
        names = [str(path.relative_to(bag)) for path in bag.rglob("*") if path.is_file()]
    paths = [name for name in names if "data/" in name and not name.endswith("/")]
    assert len(paths) == len(NAMES)
    assert [path for path in paths if not is_good_on_windows(path)] == []
    folded = [unicodedata.normalize("NFC", path).casefold() for path in paths]
    assert len(set(folded)) == len(folded)
    folders = {"/".join(path.split("/")[:end]) for path in folded for end in range(1, path.count("/") + 1)}
    assert not folders & set(folded)

    ibi("archive", "import-bag", "--data", there.data, bag)
    assert {name: there.path(name).read_bytes() for name in NAMES} == files
    assert (there.held().target, there.held().files) == (here.held().target, here.held().files)
