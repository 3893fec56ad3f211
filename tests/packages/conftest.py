"""What is built once for all tests of packages, and where their files lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.packages.built import Built, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """On the disk, even if other tests have their files in memory: each may take a gigabyte.

    Containers run in a namespace with a /dev/shm of its own, which would hide files in that of the machine.
    """
    with TemporaryDirectory(prefix="ibi-packages-", ignore_cleanup_errors=True) as name:
        yield Path(name)
