from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.resolver.membership_fixture import use_cheap_keys

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _cheap_keys() -> Iterator[None]:
    """In this process only, where a third of the time went into hashing. Servers that tests start are as shipped."""
    with pytest.MonkeyPatch.context() as patch:
        use_cheap_keys(patch)
        yield
