"""The wheel in empty environments: what an institution has after `pip install`, on each Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from ibi import __version__
from support.engines.debian import LOCK, wheels
from support.network.up import Up, get
from support.packages.built import VERSIONS, Built, Environment, interpreters, lowest, run
from support.ports import free_port
from support.style.layers import ROOT

NAME = "8JMKD3MGP8W/34PGRBS"
DEBIAN = {"3.13": "trixie", "3.14": "forky"}
"""The releases of Debian whose Python is tried, whatever this machine has."""
# What the packages of the services are used for, apart from the network that `ibi up` shows.
LOWEST_TESTS = "accounts api archive http resolver runtime web".split()

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
each_version = pytest.mark.parametrize("version", sorted(interpreters()))


def _reads_a_name(place: Environment) -> None:
    assert place.run("--version") == f"ibi {__version__}\n"
    found = json.loads(place.run("inspect", NAME, "--json"))
    assert (found["canonical"], found["ip"]) == (NAME, "150.163.34.243")


def _shows_a_network(place: Environment, folder: Path) -> None:
    """Start the resolver and the Archives of `ibi up`, follow a link, and end them."""
    with Up("--port", str(free_port(3)), temporary=folder, installed=place.program) as up:
        reply = get(up.link("a text"))
        assert reply.status == 302
        page = get(reply.location)
        assert (page.status, bool(page.body)) == (200, True)


@each_version
def test_without_extras_the_library_and_inspect_are_there(version: str, built: Built, tmp_path: Path) -> None:
    place = Environment.empty(tmp_path / "bare", interpreters()[version])
    place.install("--offline", "--no-index", built.wheel)
    assert (place.version, place.packages()) == (version, {"ibi": __version__})
    _reads_a_name(place)
    refused = place.run("up", status=1)
    assert refused.startswith("ibi: this command needs more than the library: pip install 'ibi[node]'")
    assert "só funciona" not in refused
    refused = place.run("up", status=1, LANGUAGE="pt_BR")
    assert refused.startswith(
        "ibi: este comando precisa de mais do que a biblioteca: pip install 'ibi[node]'"
    )
    assert (place.folder / "share/man/man1/ibi.1").is_file()
    code = f"import ibi; print(ibi.parse_ibi({NAME!r}).ip)"
    assert run(place.folder / "bin/python", "-I", "-c", code) == "150.163.34.243\n"


@pytest.mark.parametrize("version", sorted(interpreters().keys() - DEBIAN.keys()))
def test_with_the_extra_everything_runs(version: str, built: Built, tmp_path: Path) -> None:
    place = Environment.empty(tmp_path / "node", interpreters()[version])
    place.install("--constraint", LOCK, f"ibi[node] @ {built.wheel.as_uri()}")
    _reads_a_name(place)
    _shows_a_network(place, tmp_path)


def test_a_release_has_a_list_of_its_components_and_checksums(tmp_path: Path) -> None:
    program = ROOT / "tools/dist.sh"
    for folder in ("first", "second"):
        run(program, tmp_path / folder, bin=str(Path(sys.executable).parent))
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("first", "second")
    )
    assert first == second
    stem = f"ibi-{__version__}"
    names = {f"{stem}-py3-none-any.whl", f"{stem}.tar.gz", f"{stem}.cdx.json"}
    assert set(first) == {"SHA256SUMS", *names}
    assert {line.split()[1] for line in first["SHA256SUMS"].decode().splitlines()} == names
    run("sha256sum", "--check", "--strict", "SHA256SUMS", folder=tmp_path / "first")
    listed = json.loads(first[f"{stem}.cdx.json"])
    release = listed["metadata"]["component"]
    assert (release["name"], release["version"]) == ("ibi", __version__)
    found = {each["name"].lower().replace("_", "-"): each["version"] for each in listed["components"]}
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text("utf-8"), re.MULTILINE))
    assert set(found.items()) <= set(locked.items())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {re.split("[>=<]", each)[0] for each in project["optional-dependencies"]["node"]} <= set(found)
    unlicensed = [each["name"] for each in listed["components"] if not each.get("licenses")]
    assert unlicensed == ["crawler-user-agents"]  # its licence (MIT) is a file of it, no field


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mmdebstrap") is None, reason="needs root and mmdebstrap"
)
@pytest.mark.parametrize("version", sorted(DEBIAN))
def test_the_python_of_a_debian_runs_everything(version: str, built: Built, tmp_path: Path) -> None:
    """Without any network, from the wheels, as where there is no Internet."""
    root = tmp_path / "root"
    place = Environment.rooted(root, DEBIAN[version])
    assert place.version == version
    shutil.copytree(wheels(version), root / "wheels")
    shutil.copy(built.wheel, root / "wheels")
    offline = ("install", "--quiet", "--no-index", "--find-links", "/wheels", "ibi[node]")
    run(*place.inside, place.folder / "bin/pip", *offline)
    _reads_a_name(place)
    _shows_a_network(place, place.folder)


def test_the_lowest_versions_that_are_admitted_work(built: Built, tmp_path: Path) -> None:
    """On the oldest Python: newer ones have no wheels of some of them. What only tests need is as it is locked."""
    oldest = interpreters()[VERSIONS[0]]
    place = Environment.empty(tmp_path / "lowest", oldest)
    place.install("--requirement", lowest(oldest, tmp_path / "lowest.txt"))
    place.install("--no-deps", built.wheel)
    assert {"cryptography": "43.0.0", "lmdb": "1.4.1"}.items() <= place.packages().items()
    _shows_a_network(place, tmp_path)
    place.see_packages_of_tests()
    words = (
        "-q -p no:cacheprovider -p no:xdist --hypothesis-profile=few --first-cases --fifths"
        " -W ignore:open_text:DeprecationWarning"
    )
    folders = [f"tests/unit/{each}" for each in LOWEST_TESTS]
    python = place.folder / "bin/python"
    run(python, "-m", "pytest", *words.split(), "-m", "not long", *folders, folder=ROOT)
