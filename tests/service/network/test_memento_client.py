"""A client of Memento that is not ours finds the editions of items in a network of Archives and a resolver."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from memento_client import MementoClient  # type: ignore[import-untyped]  # it has no types

from support.network.up import Up
from support.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

FIRST, LAST = "archive.example/first/2026/03.02.10.15", "archive.example/first/2026/09.14.16.40"
NAMED = {FIRST: "2026-03-02T10:15", LAST: "2026-09-14T16:40"}


def _moment(text: str) -> datetime:
    """A moment as the client has it, without a zone."""
    return datetime.fromisoformat(text)


class OnlyHere(requests.Session):
    """Asks this machine alone."""

    def send(self, request: Any, **options: Any) -> Any:
        """Send a request, unless it is for another host."""
        assert urlsplit(request.url).hostname == "127.0.0.1", request.url
        return super().send(request, **options)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up("--port", str(free_port(3)), temporary=tmp_path_factory.mktemp("up")) as running:
        yield running


@pytest.mark.parametrize(
    ("wanted", "edition"),
    [
        ("2026-01-01T00:00", FIRST),
        ("2026-05-01T00:00", FIRST),
        ("2026-12-01T00:00", LAST),
    ],
)
@pytest.mark.parametrize("by_whole_url", [False, True])
@pytest.mark.parametrize("path", ["/{first}", "/{first}!", "/{last}"])
def test_a_client_finds_the_edition_of_a_time(
    up: Up, path: str, wanted: str, edition: str, by_whole_url: bool
) -> None:
    url = f"{up.root}{path.format(first=FIRST, last=LAST)}"
    with OnlyHere() as session:
        gate = {"timegate_uri": f"{up.root}/-/timegate/"} if by_whole_url else {}
        client = MementoClient(session=session, check_native_timegate=not by_whole_url, **gate)
        client.get_memento_info(url, _moment(wanted))
        client.get_memento_info(url, _moment(wanted))
        info = client.get_memento_info(url, _moment(wanted))  # the redirect comes from the fast path
    found = info["mementos"]["closest"]
    assert [urlsplit(uri).path for uri in found["uri"]] == [f"/-/item/{edition}"]
    assert (found["datetime"], found["http_status_code"]) == (_moment(NAMED[edition]), 200)
    ends = {
        word: (urlsplit(info["mementos"][word]["uri"][0]).path, info["mementos"][word]["datetime"])
        for word in ("first", "last")
    }
    assert ends == {
        "first": (f"/-/item/{FIRST}", _moment(NAMED[FIRST])),
        "last": (f"/-/item/{LAST}", _moment(NAMED[LAST])),
    }
