"""What is built once for all tests of packages, and the machine on which containers run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engines.debian import root_filesystem
from support.engines.images import make_caddy
from support.engines.world import World, what_is_missing, world
from support.packages.built import Built, build
from support.style.layers import ROOT

BASE = "localhost/debian:trixie-slim"  # found by the short name that the recipe has


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory)


@pytest.fixture(scope="session")
def _machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A machine that has the images which the recipe and the services name, for all tests of this process."""
    if missing := what_is_missing():
        pytest.skip(f"needs {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("containers")
    with world(folder / "world") as made:
        base = root_filesystem("trixie", "python3", "python3-venv", "ca-certificates")
        made.done(folder, f"podman import --quiet {base} {BASE}")
        make_caddy(made, folder, BASE)
        yield made


@pytest.fixture
def machine(_machine: World, tmp_path: Path) -> Iterator[World]:
    """That machine, without any container, volume or network before and after a test."""
    yield _machine
    _machine.run(
        tmp_path,
        "podman rm --all --force --time 0; podman volume prune --force; podman network prune --force",
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a checkout has for the pages about containers."""
    folder = tmp_path / "ibi"
    for name in ("src", "man", "requirements", "packaging"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "wheels"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    return folder
