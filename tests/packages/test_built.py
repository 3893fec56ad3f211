"""What is in the wheel and in the source archive."""

from __future__ import annotations

import subprocess
import tarfile
import tomllib
import zipfile
from email.parser import Parser

import pytest

from ibi import __version__
from support.packages.built import Built
from support.style.layers import ROOT

pytestmark = pytest.mark.long


def _tracked() -> set[str]:
    listed = subprocess.run(
        ["git", *"ls-files --cached --others --exclude-standard".split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {name for name in listed.splitlines() if (ROOT / name).is_file()}


def test_the_wheel_has_all_of_the_package_and_nothing_else(built: Built) -> None:
    """Templates, styles, samples, catalogues and SQL are read from it at run time."""
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    wanted = {name.removeprefix("src/") for name in _tracked() if name.startswith("src/")}
    assert names == {name for name in names if name.startswith(f"ibi-{__version__}.d")} | wanted
    data = f"ibi-{__version__}.data/data/share/man"
    manuals = {name.replace(data, "man") for name in names if name.startswith(data)}
    assert manuals == {name for name in _tracked() if name.startswith("man/")}
    assert {
        "ibi/py.typed",
        "ibi/runtime/locale/pt_BR/LC_MESSAGES/ibi.mo",
        "ibi/web/templates/base.html",
    } <= names


def test_the_source_archive_has_everything(built: Built) -> None:
    with tarfile.open(built.archive) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == _tracked() | {"PKG-INFO"}


def test_the_wheel_of_the_source_archive_is_that_of_the_checkout_byte_for_byte(built: Built) -> None:
    assert built.wheel_of_archive.name == built.wheel.name == f"ibi-{__version__}-py3-none-any.whl"
    assert built.wheel_of_archive.read_bytes() == built.wheel.read_bytes()


def test_the_metadata_say_what_an_installer_needs(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        folder = f"ibi-{__version__}.dist-info"
        metadata = Parser().parsestr(wheel.read(f"{folder}/METADATA").decode())
        scripts = wheel.read(f"{folder}/entry_points.txt").decode()
        licences = {name.rpartition("/")[2] for name in wheel.namelist() if f"{folder}/licenses/" in name}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (metadata["Name"], metadata["Version"]) == ("ibi", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert licences == {"LICENSE", "NOTICE"}
    assert metadata["Requires-Python"] == project["requires-python"]
    needed = metadata.get_all("Requires-Dist") or []
    assert [each for each in needed if "extra ==" not in each] == []
    assert set(metadata.get_all("Provides-Extra") or []) == {"node", "otel", "postgres", "s3"}
    assert len([each for each in needed if "'node'" in each]) == len(project["optional-dependencies"]["node"])
    assert "ibi = ibi.cli:main" in scripts.splitlines()


def test_the_versions_of_python_are_those_that_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = [each.rpartition(" ")[2] for each in project["classifiers"] if "Python :: 3." in each]
    assert promised == ["3.11", "3.12", "3.13", "3.14"]
