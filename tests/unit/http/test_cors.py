"""Which answers pages of other origins may read: public paths, read without a token, the same for every reader."""

from __future__ import annotations

import pytest

from ibi.http.cors import ALLOW, ARCHIVE, EXPOSE, RESOLVER, PublicPaths, shared
from ibi.http.request import Request
from ibi.http.response import Response

NAME = "urlib.net/www/2014/10.22.11.53"
OF_BOTH = {"/", f"/{NAME}", "/-/about", "/-/programs", f"/-/timegate/{NAME}", f"/-/timemap/{NAME}", "/robots.txt",
           f"/-/api/handles/{NAME}", "/-/api/openapi.json", "/.well-known/api-catalog", "/-", "/-x", "/col",
           "/.well-known"}  # fmt: skip
OF_ARCHIVE = {"/-/search", "/-/browse", "/-/statistics", "/-/feed", "/-/oai", "/-/api/search", "/-/api/changes",
              "/.well-known/resourcesync", f"/-/item/{NAME}", f"/-/metadata/{NAME}", f"/-/linkset/{NAME}",
              f"/-/qr/{NAME}.svg", "/-/sitemap/1.xml", "/-/resourcesync/changelist.xml"}  # fmt: skip
OF_RESOLVER = {"/-/status", "/-/find", f"/-/explain/{NAME}"}
OF_NONE = {"/-/", "/-/admin", "/-/nonce", "/-/healthz", "/-/api", f"/-/api/items/{NAME}", f"/-/files/{NAME}", "/col/",
           f"/col/{NAME}", "/.well-known/", "/.well-known/security.txt", "/-/about/", "/-/searching", "/-/item",
           "/-/explain"}  # fmt: skip


@pytest.mark.parametrize(
    ("paths", "public"), [(ARCHIVE, OF_BOTH | OF_ARCHIVE), (RESOLVER, OF_BOTH | OF_RESOLVER)], ids=["A", "R"]
)
def test_which_paths_are_public(paths: PublicPaths, public: set[str]) -> None:
    every = OF_BOTH | OF_ARCHIVE | OF_RESOLVER | OF_NONE
    assert {path for path in every if paths.have(path)} == public


FOR_ONE = ("cache-control", "private, no-cache")
FOR_ALL = ("cache-control", "public, no-cache")


@pytest.mark.parametrize(
    ("request_", "status", "header", "is_shared"),
    [
        (Request("GET", "/", "", {}), 200, FOR_ALL, True),
        (Request("HEAD", "/", "", {}), 200, FOR_ALL, True),
        (Request("POST", "/", "", {}), 200, FOR_ALL, False),
        (Request("GET", "/", "", {b"authorization": b""}), 200, FOR_ALL, False),
        (Request("GET", "/", "servicesubject=x", {}), 200, FOR_ALL, False),
        (Request("GET", "/", "a=servicesubject", {}), 200, FOR_ALL, True),
        (Request("GET", "/-/admin", "", {}), 200, FOR_ALL, False),
        (Request("GET", "/", "", {}), 200, FOR_ONE, False),
        (Request("GET", "/", "", {}), 304, FOR_ONE, False),
        (Request("GET", "/", "", {}), 302, FOR_ONE, True),
        (Request("GET", "/", "", {}), 404, FOR_ONE, True),
    ],
)
def test_an_answer_is_shared_if_all_readers_get_the_same(
    request_: Request, status: int, header: tuple[str, str], is_shared: bool
) -> None:
    response = Response(status, b"x", headers=(header,))
    found = shared(request_, response, ARCHIVE)
    if is_shared:
        assert found == response.having(ALLOW, EXPOSE)
    else:
        assert found is response
