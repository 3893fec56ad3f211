"""An Archive switches itself on and off at a resolver that follows a script, over real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Self
from urllib.parse import parse_qs, urlsplit

import pytest

from archive.world import SERVICE, settings_for
from ibi.archive import membership
from ibi.archive.membership import Membership, resolver_address
from ibi.errors import SetupError
from ibi.transport import AddressPolicy, Client

RESOLVER_SERVICE = "J8LNKB5R7W/3FUQHC5"
INCLUDED = b"status.archive included status.confirmation successful"


class ScriptedResolver:
    """Answers each request with the next line of its script, then with the last one for ever."""

    def __init__(self, *script: tuple[int, bytes] | None) -> None:
        self.script = list(script)
        self.targets: list[str] = []
        self.about = json.dumps({"service_ibi": RESOLVER_SERVICE}).encode()

    async def __aenter__(self) -> Self:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    @property
    def subjects(self) -> list[str]:
        """What was asked of its service, in order."""
        queries = [parse_qs(urlsplit(target).query) for target in self.targets]
        return [query["servicesubject"][0] for query in queries if query]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.split(b" ", 2)[1].decode()
        self.targets.append(target)
        if target == "/-/about":
            step: tuple[int, bytes] | None = (200, self.about)
        else:
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if step is not None:
            status, body = step
            writer.write(
                b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
                % (status, len(body), body)
            )
            await writer.drain()
        writer.close()


def archive_at(resolver: str, **more: object) -> Membership:
    settings = settings_for("archive.example:8080", resolver=f"http://{resolver}" if resolver else "", **more)
    return Membership(settings, Client(AddressPolicy(allow_private=True)), "0.1.0")


def play(script: ScriptedResolver) -> None:
    """Switch on, then off, at a resolver."""

    async def run() -> None:
        async with script:
            archive = archive_at(script.address)
            try:
                async with asyncio.timeout(20):
                    await archive.switch_on()
                    await archive.switch_off()
            finally:
                await archive.close()

    asyncio.run(run())


@pytest.mark.proves("REG-03", "MSG-20", "REG-01")
def test_an_archive_says_all_eight_pairs_when_it_switches_on_and_off() -> None:
    script = ScriptedResolver((200, INCLUDED), (200, b"status.archive excluded"))
    play(script)
    assert script.subjects == ["inclusionRequest", "exclusionRequest"]
    for target in script.targets[1:]:
        url = urlsplit(target)
        assert url.path == f"/{RESOLVER_SERVICE}"
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        del query["servicesubject"]
        assert query == {
            "archiveaddress": "archive.example:8080",
            "archiveserviceibi": str(SERVICE.main),
            "archiveip": "127.0.0.1",
            "archiveprotocol": "HTTP",
            "archiveplatformversion": "0.1.0",
            "archiveadmemailaddress": "admin@archive.example",
            "registrationkey": "12345678901234567890",
        }


@pytest.mark.proves("REG-04", "REG-06", "AMB-33")
@pytest.mark.parametrize(
    "bad",
    [
        (403, b"status.archive refused"),
        (200, b"status.archive excluded"),
        (200, b"hello"),
        (200, b""),
        (302, b""),
        (503, b"later"),
        None,
    ],
    ids=["refused", "another status", "no status", "nothing", "redirect", "busy", "closed"],
)
def test_an_archive_asks_again_until_it_is_included(
    bad: tuple[int, bytes] | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(membership, "FIRST_PAUSE", 0.01)
    script = ScriptedResolver(bad, bad, (200, INCLUDED), (200, b"status.archive excluded"))
    play(script)
    assert script.subjects[-1] == "exclusionRequest"
    assert script.subjects.count("inclusionRequest") >= 3
    assert "12345678901234567890" not in caplog.text


@pytest.mark.proves("REG-05")
def test_an_unconfirmed_inclusion_is_one_too() -> None:
    script = ScriptedResolver((200, b"status.archive included status.confirmation unsuccessful"), (200, b"x"))
    play(script)
    assert script.subjects == ["inclusionRequest", "exclusionRequest"]


@pytest.mark.parametrize("about", [b"", b"[]", b"{}", b'{"service_ibi": 5}', b"[" * 100_000, b"\xff"])
def test_what_is_no_resolver_is_told_no_key(about: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "FIRST_PAUSE", 0.01)

    async def run() -> list[str]:
        async with ScriptedResolver((200, INCLUDED)) as script:
            script.about = about
            archive = archive_at(script.address)
            switching = asyncio.create_task(archive.switch_on())
            await asyncio.sleep(0.3)
            assert not switching.done()
            switching.cancel()
            await archive.switch_off()
            await archive.close()
            return script.targets

    targets = asyncio.run(run())
    assert len(targets) > 1
    assert set(targets) == {"/-/about"}


def test_an_archive_that_has_joined_no_resolver_asks_nobody() -> None:
    async def run() -> None:
        archive = archive_at("")
        await archive.switch_on()
        await archive.switch_off()
        await archive.close()

    asyncio.run(run())


@pytest.mark.parametrize("root", ["https://r.example", "r.example", "http://r.example/path", "http://u@r.example",
                                  "http://", "http://r.example?x", "http://[::1"])  # fmt: skip
def test_what_is_no_root_of_a_resolver_is_refused(root: str) -> None:
    with pytest.raises(SetupError):
        resolver_address(root)


@pytest.mark.parametrize("root", ["http://r.example", "http://r.example/", "http://r.example:80"])
def test_a_root_of_a_resolver_gives_its_address(root: str) -> None:
    assert resolver_address(root).startswith("r.example")
