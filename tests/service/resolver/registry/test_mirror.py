"""The signed list of a resolver's Archives, and the resolver that mirrors it: real databases, real sockets."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from ibi.errors import BadItem, IbiError, PeerError
from ibi.http.client import AddressPolicy, HostPort
from ibi.http.client.download import Downloads
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.resolver.registry.mirror import Mirror, MirrorChanges, apply_list, fetch_list
from ibi.resolver.registry.published_list import KIND, SIGNATURE_SECONDS, Publisher, read_list
from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.runtime.database import migrate, open_engine
from ibi.runtime.shared.store import close_store
from ibi.runtime.signing import Signer, canonical, signer
from support.engines.shared_store import new_store, opened_registry, share
from support.resolver.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY = "12345678901234567890"
NOW = 1_700_000_000.0
SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
OWN = (HostPort.parse("mirror.example"),)
ONE, TWO, THREE = (f"{name}.example/w/2020/01.01.00.00" for name in ("one", "two", "three"))


class Resolver:
    """A registry in a folder of its own, and the list that it signs."""

    def __init__(self, data: Path, empty: Path, url: str) -> None:
        data.mkdir()
        self.data = data
        self.clock = Clock(NOW)
        if url:
            share(data, url)
            self.registry = opened_registry(data, self.clock)
        else:
            shutil.copy(empty, data / "registry.sqlite")
            self.registry = Registry(open_engine(data / "registry.sqlite"), self.clock)
        self.signer = signer(data)
        self.publisher = Publisher(
            self.registry.listed, SERVICE, "urlib.net", lambda: self.signer, self.clock
        )

    @property
    def key(self) -> str:
        return self.signer.public

    def include(
        self, service: str, address: str, *, confirmed: bool = True, hosts: tuple[str, ...] = ()
    ) -> None:
        ibi = parse_ibi(service)
        self.registry.register(ibi, KEY, hosts)
        request = InclusionRequest(address, ibi, "192.0.2.1", "1", "admin@archive.example", KEY)
        assert self.registry.include(request, self.registry.open_change(ibi), confirmed=confirmed)

    def mirror_list(self, other: Resolver) -> MirrorChanges:
        text = other.publisher.text()
        return apply_list(self.registry, read_list(text, other.key, self.clock.now, OWN), other.key)

    def mirrored(self) -> dict[str, tuple[str, bool, tuple[str, ...]]]:
        return {
            str(each.service_ibi): (each.address, each.confirmed, each.url_hosts)
            for each in self.registry.archives()
        }


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty registry."""
    path = tmp_path_factory.mktemp("empty") / "registry.sqlite"
    engine = open_engine(path)
    migrate(engine, MIGRATIONS)
    engine.dispose()
    return path


@pytest.fixture(params=["files", "store"])
def made(request: pytest.FixtureRequest, tmp_path: Path, empty: Path) -> Iterator[Callable[[str], Resolver]]:
    """Makes resolvers, in files or each with a store of its own."""
    found: list[Resolver] = []

    def make(name: str) -> Resolver:
        url = new_store(request.getfixturevalue("postgresql")) if request.param == "store" else ""
        found.append(Resolver(tmp_path / name, empty, url))
        return found[-1]

    yield make
    for each in found:
        each.registry.close()
        close_store(each.data)


def resigned(text: bytes, by: Signer, **changes: Any) -> bytes:
    """The list with other contents, properly signed with this key."""
    content = json.loads(text)["registry"] | changes
    return canonical({"registry": content, "signature": by.sign(canonical(content))}) + b"\n"


# The list


def test_the_list_tells_where_the_included_archives_are_and_no_secret(
    made: Callable[[str], Resolver],
) -> None:
    one = made("one")
    one.include(ONE, "one.example:8080", hosts=("far.example",))
    one.include(TWO, "two.example", confirmed=False)
    one.registry.register(parse_ibi(THREE), KEY)
    value = json.loads(one.publisher.text())["registry"]
    assert value == {
        "kind": KIND,
        "version": 1,
        "resolver": {"service": str(SERVICE), "address": "urlib.net"},
        "issued": "2023-11-14T22:13:20Z",
        "archives": [
            {
                "service_ibi": ONE, "address": "one.example:8080", "url_hosts": ["far.example"], "confirmed": True,
                "since": "2023-11-14T22:13:20Z",
            },
            {
                "service_ibi": TWO, "address": "two.example", "url_hosts": [], "confirmed": False,
                "since": "2023-11-14T22:13:20Z",
            },
        ],
        "key": {"type": "Ed25519", "public": one.key},
    }  # fmt: skip
    text = one.publisher.text()
    assert KEY.encode() not in text
    assert b"argon" not in text
    assert b"admin@" not in text


def test_the_list_is_signed_anew_when_it_has_changed_or_a_minute_has_passed(
    made: Callable[[str], Resolver],
) -> None:
    one = made("one")
    first = one.publisher.text()
    one.clock.now += SIGNATURE_SECONDS - 1
    assert one.publisher.text() == first
    one.include(ONE, "one.example")
    second = one.publisher.text()
    assert second != first
    one.clock.now += SIGNATURE_SECONDS
    assert one.publisher.text() != second


def test_a_list_in_which_one_byte_was_changed_is_refused(made: Callable[[str], Resolver]) -> None:
    one = made("one")
    one.include(ONE, "one.example")
    text = one.publisher.text()
    assert read_list(text, one.key, NOW).archives
    for at in range(len(text)):
        changed = bytearray(text)
        changed[at] ^= 1
        with pytest.raises(BadItem):
            read_list(bytes(changed), one.key, NOW)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{}", b"[]", b"null", b'{"registry":{},"signature":""}', b'{"registry":[],"signature":""}', b"\xff",
        b"[" * 100_000, b'{"registry":{"kind":1.5},"signature":""}', b'"' + b"x" * (17 << 20) + b'"',
    ],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_list_is_refused(text: bytes) -> None:
    with pytest.raises(BadItem):
        read_list(text, "a" * 64, NOW)


def test_a_list_is_taken_only_under_the_key_that_was_given(made: Callable[[str], Resolver]) -> None:
    one, other = made("one"), made("other")
    text = one.publisher.text()
    with pytest.raises(BadItem, match="not signed with this key"):
        read_list(text, other.key, NOW)
    with pytest.raises(BadItem, match="64 hexadecimal digits"):
        read_list(text, "1234", NOW)
    odd: tuple[dict[str, Any], ...] = (
        {"kind": "ibi receipt"}, {"version": 2}, {"archives": {}}, {"archives": [1]}, {"issued": 5},
        {"archives": [{"service_ibi": ONE}]}, {"issued": "2099-01-01T00:00:00Z"}, {"issued": "yesterday"},
        {"archives": [{}] * 10_001}, {"resolver": None},
    )  # fmt: skip
    for changes in odd:
        with pytest.raises(BadItem):
            read_list(resigned(text, one.signer, **changes), one.key, NOW)


def test_archives_that_cannot_be_asked_from_here_are_left_out(made: Callable[[str], Resolver]) -> None:
    one = made("one")
    one.include(ONE, "one.example")
    text = one.publisher.text()
    entry = json.loads(text)["registry"]["archives"][0]
    odd = [
        entry | {"service_ibi": TWO, "address": address}
        for address in (
            "127.1",
            "a.example:25",
            "u@a.example",
            "a b",
            "",
            "mirror.example:80",
            "MIRROR.example.",
        )
    ]
    odd += [entry | {"service_ibi": "no/ibi/at/all"}, entry | {"service_ibi": TWO, "url_hosts": ["a b"]}]
    found = read_list(resigned(text, one.signer, archives=[entry, *odd]), one.key, NOW, OWN)
    assert [str(each.service_ibi) for each in found.archives] == [ONE]
    assert found.left_out == len(odd)


# The mirror


@pytest.mark.proves("REG-01")
def test_a_mirror_asks_the_archives_of_the_list_and_follows_it(made: Callable[[str], Resolver]) -> None:
    one, mirror = made("one"), made("mirror")
    one.include(ONE, "one.example", hosts=("far.example",))
    one.include(TWO, "two.example", confirmed=False)
    assert mirror.mirror_list(one) == MirrorChanges(added=2)
    assert mirror.mirrored() == {
        ONE: ("one.example", True, ("far.example",)),
        TWO: ("two.example", False, ()),
    }
    first = mirror.registry.archives()
    assert mirror.mirror_list(one) == MirrorChanges()
    assert mirror.registry.archives() is first

    one.clock.now = mirror.clock.now = NOW + 100
    one.include(ONE, "one.example:8080", hosts=("far.example",))
    one.registry.unregister(parse_ibi(TWO))
    one.include(THREE, "three.example")
    assert mirror.mirror_list(one) == MirrorChanges(added=1, changed=1, gone=1)
    assert set(mirror.mirrored()) == {ONE, THREE}
    assert mirror.mirrored()[ONE][0] == "one.example:8080"
    since = {str(each.service_ibi): each.included_at for each in mirror.registry.archives()}
    assert since == {ONE: NOW + 100, THREE: NOW + 100}

    one.registry.exclude(parse_ibi(ONE), one.registry.open_change(parse_ibi(ONE)))
    assert mirror.mirror_list(one) == MirrorChanges(gone=1)
    assert set(mirror.mirrored()) == {THREE}


@pytest.mark.proves("ARC-12")
def test_who_has_left_the_list_is_away_for_a_month_and_may_come_back(made: Callable[[str], Resolver]) -> None:
    """It may only be restarting, and what it is known to hold stays its own meanwhile (T04)."""
    one, mirror = made("one"), made("mirror")
    ibi = parse_ibi(ONE)

    def away() -> list[str]:
        mirror.mirror_list(one)
        mirror.registry.archives()
        return [str(each.archive.service_ibi) for each in mirror.registry.away().values()]

    one.include(ONE, "one.example")
    one.include(TWO, "two.example")
    assert away() == []
    one.registry.exclude(ibi, one.registry.open_change(ibi))
    assert away() == [ONE]
    one.include(ONE, "one.example")
    assert away() == []
    assert set(mirror.mirrored()) == {ONE, TWO}
    one.registry.exclude(ibi, one.registry.open_change(ibi))
    assert away() == [ONE]
    for clock in (one.clock, mirror.clock):
        clock.now += 30 * 86_400 + 2
    assert away() == []
    assert [str(each.service_ibi) for each in mirror.registry.registered()] == [TWO]


def test_a_mirrored_archive_has_no_key_and_cannot_switch_itself(made: Callable[[str], Resolver]) -> None:
    one, mirror = made("one"), made("mirror")
    one.include(ONE, "one.example")
    mirror.mirror_list(one)
    ibi = parse_ibi(ONE)
    for key in (KEY, "!", "0000000000"):
        assert not mirror.registry.check_key(ibi, key)
    request = InclusionRequest("evil.example", ibi, "192.0.2.1", "1", "a@b.example", KEY)
    assert not mirror.registry.include(request, mirror.registry.open_change(ibi), confirmed=True)
    assert not mirror.registry.exclude(ibi, mirror.registry.open_change(ibi))
    assert mirror.mirrored()[ONE][0] == "one.example"
    (entry,) = mirror.registry.registered()
    assert entry.mirrored_from == one.key


def test_what_is_registered_here_stays_and_a_mirrored_one_can_be_registered_later(
    made: Callable[[str], Resolver],
) -> None:
    one, mirror = made("one"), made("mirror")
    one.include(ONE, "one.example")
    one.include(TWO, "two.example")
    mirror.include(ONE, "here.example")
    assert mirror.mirror_list(one) == MirrorChanges(added=1, elsewhere=1)
    assert mirror.mirrored()[ONE][0] == "here.example"

    mirror.include(TWO, "two.example:8080")  # its administrator has registered it here too
    assert mirror.registry.check_key(parse_ibi(TWO), KEY)
    assert mirror.mirror_list(one) == MirrorChanges(elsewhere=2)
    assert mirror.mirrored()[TWO][0] == "two.example:8080"
    one.registry.unregister(parse_ibi(TWO))
    one.clock.now += 1
    assert mirror.mirror_list(one) == MirrorChanges(elsewhere=1)
    assert set(mirror.mirrored()) == {ONE, TWO}


def test_two_lists_do_not_take_each_others_archives(made: Callable[[str], Resolver]) -> None:
    one, other, mirror = made("one"), made("other"), made("mirror")
    one.include(ONE, "one.example")
    other.include(ONE, "elsewhere.example")
    other.include(TWO, "two.example")
    mirror.mirror_list(one)
    assert mirror.mirror_list(other) == MirrorChanges(added=1, elsewhere=1)
    assert mirror.mirrored()[ONE][0] == "one.example"
    one.registry.unregister(parse_ibi(ONE))
    one.clock.now += 1
    assert mirror.mirror_list(one) == MirrorChanges(gone=1)
    assert set(mirror.mirrored()) == {TWO}
    assert mirror.mirror_list(other) == MirrorChanges(added=1)
    assert mirror.mirrored()[ONE][0] == "elsewhere.example"


def test_what_is_mirrored_is_not_listed_again_so_two_mirrors_keep_nothing_alive(
    made: Callable[[str], Resolver],
) -> None:
    one, other = made("one"), made("other")
    one.include(ONE, "one.example")
    other.mirror_list(one)
    assert one.mirror_list(other) == MirrorChanges()
    one.registry.unregister(parse_ibi(ONE))
    one.clock.now += 61
    other.mirror_list(one)
    assert other.mirrored() == one.mirrored() == {}


def test_an_older_list_is_refused(made: Callable[[str], Resolver]) -> None:
    one, mirror = made("one"), made("mirror")
    one.include(ONE, "one.example")
    old = one.publisher.text()
    one.clock.now += 3600
    one.include(TWO, "two.example")
    mirror.mirror_list(one)
    with pytest.raises(BadItem, match="older than"):
        apply_list(mirror.registry, read_list(old, one.key, NOW, OWN), one.key)
    assert set(mirror.mirrored()) == {ONE, TWO}


def test_who_has_confirmed_to_the_mirror_stays_confirmed_until_it_moves(
    made: Callable[[str], Resolver],
) -> None:
    one, mirror = made("one"), made("mirror")
    one.include(ONE, "one.example", confirmed=False)
    mirror.mirror_list(one)
    assert mirror.registry.confirm(mirror.registry.archives()[0])
    one.clock.now += 1
    assert mirror.mirror_list(one) == MirrorChanges()
    assert mirror.mirrored()[ONE][1]
    one.include(ONE, "moved.example", confirmed=False)
    assert mirror.mirror_list(one) == MirrorChanges(changed=1)
    assert mirror.mirrored()[ONE] == ("moved.example", False, ())


# Over HTTP


@contextmanager
def telling(answer: Callable[[str], tuple[int, bytes]]) -> Iterator[str]:
    """A server that answers GET; its root URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def test_the_duty_fetches_the_list_and_goes_on_with_the_last_one_when_it_cannot(
    made: Callable[[str], Resolver],
) -> None:
    one, mirror = made("one"), made("mirror")
    one.include(ONE, "one.example")
    answers = [(200, one.publisher.text()), (500, b""), (200, b"nonsense"), (200, one.publisher.text())]
    paths: list[str] = []

    def answer(path: str) -> tuple[int, bytes]:
        paths.append(path)
        return answers[len(paths) - 1]

    async def main(root: str) -> None:
        async with Downloads(AddressPolicy(allow_private=True)) as downloads:
            duty = Mirror(
                mirror.registry, one.key, lambda: fetch_list(downloads, root), OWN, SERVICE, mirror.clock
            )
            assert await duty.refresh() == MirrorChanges(added=1)
            for problem in (PeerError, BadItem):
                with pytest.raises(problem):
                    await duty.refresh()
            assert set(mirror.mirrored()) == {ONE}
            running = asyncio.create_task(duty.run())
            while len(paths) < 4:  # noqa: ASYNC110 - the server has no event
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert duty.problem is None
            running.cancel()

    with telling(answer) as root:
        asyncio.run(main(f"{root}/"))
        assert paths == ["/-/registry"] * 4
        answers.append((200, b"somewhere else"))
        assert asyncio.run(_fetched(f"{root}/lists/ours.json")) == b"somewhere else"
        assert paths[4:] == ["/lists/ours.json"]


async def _fetched(url: str) -> bytes:
    async with Downloads(AddressPolicy(allow_private=True)) as downloads:
        return await fetch_list(downloads, url)


def test_a_list_that_cannot_be_had_is_told_and_changes_nothing(
    made: Callable[[str], Resolver], caplog: pytest.LogCaptureFixture
) -> None:
    mirror = made("mirror")

    async def fails() -> bytes:
        raise PeerError("nobody is there")

    async def main() -> IbiError | None:
        duty = Mirror(mirror.registry, mirror.key, fails, OWN, SERVICE, mirror.clock)
        running = asyncio.create_task(duty.run())
        for _ in range(3):
            await asyncio.sleep(0.01)
        running.cancel()
        return duty.problem

    assert str(asyncio.run(main())) == "nobody is there"
    assert caplog.messages == ["the list of Archives to mirror was not taken: nobody is there"]
