"""What the client sends, header by header and byte by byte; and what it refuses to send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ibi
from ibi.client import Archive, AsyncResolver, Minting, Resolver, Retries
from ibi.errors import BadField, PeerError, SetupError
from support.client.scripted_server import answer, scripted

IBI = "8JMKD3MGP8W/35MMLL8"
FOUND = b'{"outcome": {"status": 302, "location": "http://a.example/"}}'
ONCE = Retries(attempts=1, seconds=5)
JSON, METADATA = "application/json", "application/problem+json, */*;q=0.5"


@pytest.mark.parametrize(
    ("client", "call", "reply", "request_line", "accept"),
    [
        (Resolver, lambda it: it.resolve(IBI), answer(200, FOUND, ibi_outcome="302"), f"GET /-/explain/{IBI}", JSON),
        (Resolver, lambda it: it.explain(f"http://urlib.net/{IBI}+"), answer(200), f"GET /-/explain/{IBI}+", JSON),
        (Resolver, lambda it: it.metadata(IBI), answer(200), f"GET /{IBI}:(oai_dc)", METADATA),
        (Resolver, lambda it: it.metadata(IBI, "bibtex"), answer(200), f"GET /{IBI}:(bibtex)", METADATA),
        (Resolver, lambda it: it.handle_values(IBI), answer(200), f"GET /-/api/handles/{IBI}", JSON),
        (
            Resolver, lambda it: it.handle_values(IBI, everywhere=True), answer(200), f"GET /-/api/handles/{IBI}?all",
            JSON,
        ),
        (Archive, lambda it: it.item(f"urn:x {IBI}."), answer(200), f"GET /-/api/items/{IBI}", JSON),
        (Archive, lambda it: it.metadata(IBI), answer(200), f"GET /-/metadata/{IBI}?format=oai_dc", METADATA),
        (
            Archive,
            lambda it: list(it.search("a b", person="é", year=1999, language="pt", kind="Text")),
            answer(200, b'{"items": []}'),
            "GET /-/api/search?text=a+b&person=%C3%A9&year=1999&language=pt&kind=Text",
            JSON,
        ),
        (Archive, lambda it: list(it.search()), answer(200), "GET /-/api/search?", JSON),
        (
            Archive,
            lambda it: list(it.changes("c/1")),
            answer(200, b'{"changes": [], "next": "/-/api/changes?after=c"}'),
            "GET /-/api/changes?after=c%2F1",
            JSON,
        ),
    ],
)  # fmt: skip
def test_questions(
    client: type[Any], call: Callable[[Any], Any], reply: bytes, request_line: str, accept: str
) -> None:
    with (
        scripted(reply) as there,
        client(f"{there.root}/", "secret", language="pt-BR", retries=ONCE) as asking,
    ):
        call(asking)
    assert there.requests == [request_line]
    assert there.headers == [
        {
            "host": f"127.0.0.1:{there.port}",
            "accept-encoding": "identity",
            "accept": accept,
            "accept-language": "pt-BR",
            "user-agent": f"ibi-client/{ibi.__version__}",
            "authorization": "Bearer secret",
        }
    ]
    assert there.bodies == [b""]


def test_without_a_token_and_with_a_language_that_is_none() -> None:
    for language in ("é", "a\nb"):
        with scripted(answer(200)) as there, Resolver(there.root, language=language, retries=ONCE) as asking:
            asking.explain(IBI)
        assert there.headers[0]["accept-language"] == "en"
        assert "authorization" not in there.headers[0]


def test_an_asynchronous_client_asks_in_the_same_way() -> None:
    async def main(root: str) -> None:
        async with AsyncResolver(root, "secret", language="pt-BR", timeout=5, retries=ONCE) as asking:
            await asking.explain(IBI)

    with scripted(answer(200)) as there:
        asyncio.run(main(there.root))
    assert (there.headers[0]["accept-language"], there.headers[0]["authorization"]) == (
        "pt-BR",
        "Bearer secret",
    )


def deposited(**given: Any) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a deposit."""
    with scripted(answer(201)) as there, Archive(there.root, "t", retries=ONCE) as archive:
        archive.deposit(**given)
    assert there.requests == ["POST /-/api/items"]
    return there.headers[0], there.bodies[0]


def test_a_deposit_without_files_is_json() -> None:
    given = {
        "title": "Ação",
        "metadata": {"title": ["Second"], "creator": ["A"]},
        "language": "pt",
        "key": "k" * 255,
    }
    headers, body = deposited(**given, edition_of=IBI)
    metadata = {"title": ["Ação", "Second"], "creator": ["A"]}
    value = {"language": "pt", "metadata": metadata, "edition_of": IBI}
    assert body == json.dumps(value, ensure_ascii=False).encode()
    assert (headers["content-type"], headers["idempotency-key"]) == (JSON, "k" * 255)
    assert json.loads(deposited(url="http://a/", number=Path("x"))[1]) == {"url": "http://a/", "number": "x"}
    assert deposited(title="\ud800")[1] == b'{"metadata": {"title": ["?"]}}'
    assert deposited(title="x")[0]["idempotency-key"] != deposited(title="x")[0]["idempotency-key"]


def test_a_deposit_with_files_is_a_form_of_known_length(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * 300_000)
    headers, body = deposited(title="T", files={"a/é.txt": b"one", "item": b"two", "large": large})
    boundary = headers["content-type"].partition("multipart/form-data; boundary=")[2]
    assert boundary.startswith("ibi-")
    assert len(boundary) == 4 + 32
    parts = [
        ('name="item"', b'{"metadata": {"title": ["T"]}}'),
        ('name="a/%C3%A9.txt"; filename="-"', b"one"),
        ('name="file"; filename="item"', b"two"),
        ('name="large"; filename="-"', large.read_bytes()),
    ]
    whole = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {named}\r\n\r\n".encode() + content + b"\r\n"
        for named, content in parts
    )
    assert body == whole + f"--{boundary}--\r\n".encode()
    assert headers["content-length"] == str(len(body))


@pytest.mark.parametrize("key", ["", "k" * 256, "é", "a\nb"])
def test_a_key_that_no_server_takes_is_refused(key: str) -> None:
    with Archive("http://127.0.0.1:1") as archive, pytest.raises(BadField) as refused:
        archive.deposit("x", key=key)
    assert str(refused.value) == "an Idempotency-Key has 1 to 255 visible characters"
    assert refused.value.details["name"] == "key"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with Archive("http://127.0.0.1:1", retries=ONCE) as archive:
        with pytest.raises(SetupError) as refused:
            archive.deposit("x", files={"a": path})
        assert str(refused.value) == f"the file {path} cannot be read: No such file or directory"


@pytest.mark.parametrize("token", ["", "a b", "a\r\nb", "é"])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    with pytest.raises(SetupError) as refused:
        Resolver("http://a.example/", token)
    assert str(refused.value) == "the token has characters that no token has"


def test_an_order_of_labels() -> None:
    label = b'{"labels": [{"rep": "r", "ibip": "i", "date": "d"}]}'
    with scripted(answer(200, label)) as there, Minting(there.root, "t", retries=ONCE) as mint:
        mint.mint()
        mint.mint(1, forms="rep", collection="theses")
    assert there.requests == ["POST /-/api/mint"] * 2
    assert [json.loads(each) for each in there.bodies] == [
        {"count": 1},
        {"count": 1, "forms": "rep", "collection": "theses"},
    ]
    assert {each["content-type"] for each in there.headers} == {JSON}


def test_a_server_that_cannot_be_reached_is_named() -> None:
    with Resolver("http://127.0.0.1:1", retries=ONCE) as asking, pytest.raises(PeerError) as silent:
        asking.explain(IBI)
    assert str(silent.value) == "127.0.0.1 cannot be reached: Connection refused"
