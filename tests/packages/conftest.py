"""What is built once for all tests of packages."""

from __future__ import annotations

import pytest

from support.packages.built import Built, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory)
