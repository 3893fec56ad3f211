"""Whatever is sent, the resolver answers it itself: no exception, no status 500, no header that ends early."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.http.client import AddressPolicy
from ibi.http.client.address_policy import system_lookup
from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.resolver.service import ResolverService
from ibi.runtime.database import migrate, open_engine
from ibi.runtime.settings import ResolverSettings
from support.resolver.parts import outgoing, stores
from support.resolver.running_resolver import SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECES = tuple(
    b"/ 8JMKD3MGP8W/35MMLL8 sid.inpe.br/mtc-m18@80/2009/07.21.14.43 J8LNKB5R7W/3FUQHC5 ! + : (pt) (oai_dc) ( %2B %21"
    b" %00 %0d%0a %ff % .. // \xff ibi/ rep/ -/ explain/ find col/ doc/x.pdf ? \\ <script> {} urn: 0O1I".split()
)
QUERY = tuple(
    b"& = ibiurl.verblist GetMetadata GetLastEdition+ GetTranslation(pt) GetFileList ibiurl.requireditemstatus Original"
    b" servicesubject inclusionRequest exclusionRequest urlRequest archiveaddress 127.0.0.1 registrationkey 1234567890"
    b" info json ? text %ff %0a ;".split()
)
VALUES = (b"urlib.net", b"text/html;q=0.5", b"application/json", b"pt-BR", b"192.0.2.1, x", b"ibi-resolver")
HEADERS = (b"accept", b"accept-language", b"x-forwarded-for", b"host", b"cdn-loop", b"purpose", b"cookie")


def _joined(pieces: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    return st.lists(st.one_of(st.sampled_from(pieces), st.binary(max_size=3)), max_size=12).map(b"".join)


requests = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["GET", "HEAD", "POST", "QUERY"]),
        "raw_path": _joined(PIECES).map(lambda path: b"/" + path),
        "query_string": _joined(QUERY),
        "headers": st.lists(
            st.tuples(
                st.sampled_from(HEADERS),
                st.one_of(st.binary(max_size=20), st.sampled_from(VALUES)),
            ),
            max_size=4,
        ),
    }
)


@pytest.fixture(scope="module")
def service() -> Iterator[ResolverService]:
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(Path(folder) / "registry.sqlite")
        migrate(engine, MIGRATIONS)
        registry = Registry(engine, lambda: 0.0)
        settings = ResolverSettings(address="urlib.net", service=SERVICE, request_rate=0.0)
        kept = stores(registry, Path(folder), system_lookup)
        app = ResolverService(settings, kept, outgoing(AddressPolicy(), system_lookup))
        yield app
        asyncio.run(app.close())
        kept.close()


async def _ask(service: ResolverService, request: dict[str, Any]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    await service({"type": "http", "client": ("192.0.2.1", 1), **request}, receive, send)
    return sent


@pytest.mark.proves("RES-13", "AMB-32", "WILD-03")
@settings(max_examples=400)
@given(request=requests)
def test_any_request_gets_an_answer(service: ResolverService, request: dict[str, Any]) -> None:
    start, body = asyncio.run(_ask(service, request))
    assert start["status"] in {200, 204, 302, 303, 400, 403, 404, 405, 414, 421, 429, 503, 508}
    for name, value in start["headers"]:
        assert all(0x20 <= byte <= 0x7E for byte in name + value)
    headers = dict(start["headers"])
    if request["method"] == "HEAD":
        assert body["body"] == b""
    else:
        assert int(headers[b"content-length"]) == len(body["body"])
    assert b"This resolver cannot answer now" not in body["body"]
    assert b"busy" not in body["body"]
