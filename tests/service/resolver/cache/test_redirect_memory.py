"""How much memory cached redirects take: what is counted is what they take, and the setting bounds it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from ibi.app import resolver_stores
from ibi.protocol.messages import Acknowledgment, read_request
from ibi.resolver.cache.redirects import CachedRedirect, RedirectCache
from ibi.runtime.settings import ResolverSettings
from proofs.resolver.lending import archives, item, make_resolver, service_of
from support.resolver.fast_path_fixture import serve_fast_path
from support.resolver.shared_files import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from ibi.resolver.cache.lease_table import LeaseTable

REDIRECTS = 120
ALIGNED = 16
"""The allocator gives no object less, nor a part of that."""


class _Observed(RedirectCache):
    """A redirect cache that says what was counted for its entries."""

    def __init__(self, leases: LeaseTable, most_bytes: int) -> None:
        super().__init__(leases, most_bytes)
        made.append(self)

    @property
    def most(self) -> int:
        return 2 * self._most

    @property
    def counted(self) -> int:
        return self._bytes


made = list[_Observed]()


def _taken(entries: dict[bytes, CachedRedirect]) -> int:
    """Return the bytes of all objects of these entries; what several share counts once."""
    sizes: dict[int, int] = {}

    def add(*objects: object) -> None:
        for each in objects:
            if id(each) not in sizes:
                sizes[id(each)] = -(-sys.getsizeof(each) // ALIGNED) * ALIGNED
                if isinstance(each, tuple):
                    add(*each)
                if isinstance(each, CachedRedirect):
                    add(*(getattr(each, name) for name in each.__struct_fields__))

    add(*entries.keys(), *entries.values())
    return sum(sizes.values()) + sys.getsizeof(entries)


def test_what_is_counted_is_what_redirects_take_and_a_smaller_cache_drops_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.clear()
    monkeypatch.setattr(resolver_stores, "RedirectCache", _Observed)
    with archives(2) as around:
        make_resolver(tmp_path, around)
        replace(ResolverSettings.read(tmp_path), redirect_mebibytes=3).write(tmp_path)
        with serve_fast_path(tmp_path, around) as one:
            one.warm(*(item(number % 2, number) for number in range(REDIRECTS)))
            (cache,) = made
            assert cache.most == 3 << 20
            assert len(cache.newer) == REDIRECTS
            assert 0.9 < cache.counted / _taken(cache.newer) < 1.1
            for target, redirect in cache.newer.items():
                service, _, query = redirect.message(target).partition(" ")
                message = read_request(query)
                assert isinstance(message, Acknowledgment)
                assert service == service_of(int(target[2:3]))
                assert message.url_persistent.endswith(target.decode())
                assert len(redirect.acknowledgment) < len(query) / 3
            replace(ResolverSettings.read(tmp_path), redirect_mebibytes=1).write(tmp_path)
            until(lambda: one.ask(item(0, 0)) != "" and cache.most == 1 << 20)
            assert len(cache) <= 1
            one.warm(item(0, 0))
