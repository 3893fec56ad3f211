"""Whether the caches of others may reuse a redirect: not at all, unless the operator has chosen so (note 3)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.runtime.settings import ResolverSettings
from proofs.resolver.lending import ADDRESS, archives, item, make_resolver
from support.cli.archive_commands import get
from support.resolver.fast_path_fixture import FastPathResolver, serve_fast_path
from support.resolver.shared_files import until

SECONDS = 30
PRIVATE, PUBLIC = "private, no-store", f"public, max-age={SECONDS}"
ONE, NOT_REUSABLE, MANY = item(0, 0, 2021), item(0, 1, 2022), item(0, 1, 2024)


def choose(data: Path, seconds: int) -> None:
    replace(ResolverSettings.read(data), redirect_seconds=seconds).write(data)


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[FastPathResolver]:
    with archives(2) as around:
        make_resolver(tmp_path, around)
        with serve_fast_path(tmp_path, around) as made:
            yield made


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[FastPathResolver]:
    with archives(2) as around:
        make_resolver(tmp_path, around)
        choose(tmp_path, SECONDS)
        with serve_fast_path(tmp_path, around) as made:
            yield made


def kept(resolver: FastPathResolver, target: str, headers: str = "", method: str = "GET") -> str:
    """The Cache-Control of an answer; there is one."""
    answer = resolver.ask(target, headers, method)
    (found,) = re.findall(r"(?mi)^cache-control: (.*?)\r?$", answer)
    return str(found)


def test_no_cache_keeps_a_redirect_by_default(resolver: FastPathResolver) -> None:
    assert kept(resolver, ONE) == PRIVATE
    resolver.warm(ONE)
    assert [kept(resolver, ONE, method=method) for method in ("GET", "HEAD")] == [PRIVATE] * 2


def test_caches_keep_what_the_operator_allows_as_long_as_that_is_so(resolver: FastPathResolver) -> None:
    resolver.warm(ONE)
    choose(resolver.data, SECONDS)
    until(lambda: kept(resolver, ONE) == PUBLIC)
    resolver.warm(ONE)
    assert [kept(resolver, ONE, method=method) for method in ("GET", "HEAD")] == [PUBLIC] * 2
    choose(resolver.data, 0)
    until(lambda: kept(resolver, ONE) == PRIVATE)
    resolver.warm(ONE)
    assert kept(resolver, ONE) == PRIVATE


@pytest.mark.parametrize(
    ("target", "status", "expected"),
    [
        (NOT_REUSABLE, 302, PRIVATE),
        (f"{MANY}+", 302, PRIVATE),
        (f"{ONE}?ibiurl.requireditemstatus=Original", 302, PRIVATE),
        (f"{MANY}+(pt)", 302, PUBLIC),
        (item(0, 0, 2025), 404, "no-store"),
        (f"-/explain/{ONE}", 200, "no-store"),
    ],
)
def test_only_what_is_the_same_for_every_reader_is_kept(
    shared: FastPathResolver, target: str, status: int, expected: str
) -> None:
    shared.warm(ONE)
    answers = [shared.ask(target, "Accept-Language: pt\r\n") for _ in range(5)]
    assert {int(each.split()[1]) for each in answers} == {status}
    if expected == PUBLIC:
        until(lambda: kept(shared, target) == PUBLIC)
        return
    found = [kept(shared, target, "Accept-Language: pt\r\n") for _ in range(5)]
    assert set(found) == {expected}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("allowed", [4, 3])  # as long as the operator allows, and less
def test_no_cache_keeps_a_redirect_longer_than_its_archive_allows(
    shared: FastPathResolver, allowed: int, method: str
) -> None:
    """Whenever it was given: what is left of the Archive's answer counts, not how long it was right at first."""
    choose(shared.data, 4)
    archive = shared.around[0]
    archive.seconds = allowed
    until(lambda: "public" in kept(shared, ONE))
    queries, heard_before, lifetimes = archive.queries, None, list[int]()
    while archive.queries < queries + 2:  # one answer of the Archive, from its beginning to its end
        before, sent_at = archive.queries, time.monotonic()
        cache_control = kept(shared, ONE, method=method)
        if archive.queries == before and before == queries + 1:
            seconds = int(cache_control.removeprefix("public, max-age="))
            assert heard_before is not None
            assert sent_at + seconds <= heard_before + allowed
            lifetimes.append(seconds)
        elif before == queries:
            heard_before = time.monotonic()
    assert set(range(allowed)) <= {*lifetimes}  # none is shorter than it must be, either


def test_an_older_answer_of_a_silent_archive_is_not_kept(shared: FastPathResolver) -> None:
    choose(shared.data, 1)
    shared.around[0].seconds = 2
    until(lambda: kept(shared, ONE) == "public, max-age=1")
    shared.around[0].garbled = True
    until(lambda: kept(shared, ONE) == PRIVATE)
    older = shared.ask(ONE)
    assert f"location: http://files.example/0/{ONE}" in older
    assert "cache-control: private, no-store" in older
    explained = get(shared.port, f"/-/explain/{ONE}", host=ADDRESS)[1].decode()
    assert "it holds the original (cached)" in explained
    assert "Its Archive is not responding now; this is its earlier answer." in explained
