"""Proxies that write into X-Forwarded-For what is not a bare address (threat T24)."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from ibi.app.doctor import Finding
from ibi.app.doctor.doctor import Checkup, CheckupOptions
from ibi.cli import main
from ibi.minting.machine import this_machine
from support.archive.administration_fixture import administered_archive
from support.archive.archive_fixture import listener, make_archive
from support.archive.archive_fixture import serving as serving_archive
from support.resolver.one_item import IBI, item, m16c, play
from support.resolver.process import make, serving
from support.resolver.running_resolver import LOOPBACK, Running

if TYPE_CHECKING:
    from pathlib import Path

HIDING = ["unknown", "[_hidden]", "fe80::1%eth0", "203.0.113.7, unknown", "203.0.113.7:", "[203.0.113.7"]


@pytest.mark.proves("AMB-54")
@pytest.mark.parametrize(
    "readers",
    [
        ("203.0.113.1:4711", "198.51.100.1:4712"),
        ("[2001:db8:1::1]:4711", "[2001:db8:2::1]:4711"),
        ("[2001:db8:1::1]", "[2001:db8:2::1]"),
    ],
)
def test_readers_behind_a_proxy_that_writes_ports_are_counted_one_by_one(
    tmp_path: Path, readers: tuple[str, str]
) -> None:
    archive = m16c(item())

    async def scene(running: Running) -> None:
        for reader in readers:
            statuses = [
                (await running.ask(f"/{IBI}", f"X-Forwarded-For: 192.0.2.9, {reader}")).status
                for _ in range(2)
            ]
            assert statuses == [302, 429]
            assert (await running.ask("/-/metrics", f"X-Forwarded-For: {reader}")).status == 404

    play(tmp_path, [archive], scene, trusted=[LOOPBACK], request_rate=0.01, request_burst=1)
    seen = [request.pairs["clientinformation.ipaddress"] for request in archive.requests("urlRequest")]
    bare = [reader.rpartition("]")[0].strip("[") or reader.rpartition(":")[0] for reader in readers]
    assert seen == [f"192.0.2.9 {address}" for address in bare]


@pytest.mark.parametrize("trusted", [[LOOPBACK], []])
def test_a_proxy_that_hides_its_clients_opens_no_metrics(tmp_path: Path, trusted: list[object]) -> None:
    async def scene(running: Running) -> None:
        for forwarded in HIDING:
            answer = await running.ask("/-/metrics", f"X-Forwarded-For: {forwarded}")
            assert (forwarded, answer.status) == (forwarded, 404)
        assert (await running.ask("/-/metrics")).status == 200

    play(tmp_path, [], scene, trusted=trusted)


def test_it_is_logged_once_and_tells_of_no_reader(tmp_path: Path) -> None:
    make(tmp_path)
    with serving(tmp_path, "--trusted-proxy", "127.0.0.0/8") as running:
        for _ in range(3):
            answer = running.get(f"/{IBI}", x_forwarded_for="203.0.113.7, secret-reader")
            assert answer.status in {404, 503}
        written = running.stop()
    lines = [line for line in written.splitlines() if "X-Forwarded-For" in line]
    assert len(lines) == 1
    assert "the proxy 127.0.0.1 writes into X-Forwarded-For what is no address" in lines[0]
    assert "secret-reader" not in written


def test_an_archive_tells_of_it_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make_archive(tmp_path / "archive", "archive.example", {"trusted_proxies": ("127.0.0.0/8",)})
    with closing(made.catalogue), serving_archive(made, listener()) as served:
        for _ in range(3):
            proxy = HTTPConnection("127.0.0.1", served.port, timeout=10, source_address=("127.9.9.9", 0))
            with closing(proxy):
                headers = {"Host": "archive.example", "X-Forwarded-For": "unknown"}
                proxy.request("GET", "/", headers=headers)
                assert proxy.getresponse().status == 200
    assert caplog.text.count("the proxy 127.9.9.9 writes into X-Forwarded-For what is no address") == 1


def test_a_proxy_that_is_not_declared_is_logged_once_and_told_by_the_doctor(tmp_path: Path) -> None:
    make(tmp_path)
    with serving(tmp_path) as running:
        for reader in (7, 8, 9, 9, 10, 9):
            running.get(f"/{IBI}", x_forwarded_for=f"192.0.2.1, 203.0.113.{reader}")
        written = running.stop()
    lines = [line for line in written.splitlines() if "X-Forwarded-For" in line]
    assert len(lines) == 1
    assert "127.0.0.1 brings X-Forwarded-For and is not declared as a trusted proxy" in lines[0]
    assert "203.0.113." not in written
    (warned,) = proxy_warnings(tmp_path)
    assert "127.0.0.1 brings readers" in str(warned.sentence)
    assert str(warned.remedy) == "ibi resolver serve --trusted-proxy 127.0.0.1"
    with serving(tmp_path, "--trusted-proxy", "127.0.0.1/32"):
        assert proxy_warnings(tmp_path) == []


def test_a_reader_who_writes_the_header_alone_is_no_proxy(tmp_path: Path) -> None:
    make(tmp_path)
    with serving(tmp_path) as running:
        for _ in range(5):
            running.get(f"/{IBI}", x_forwarded_for="203.0.113.7")
        assert "X-Forwarded-For" not in running.stop()
    assert proxy_warnings(tmp_path) == []


def proxy_warnings(data: Path) -> list[Finding]:
    """What the doctor says of proxies."""
    found = Checkup(data, this_machine(), CheckupOptions()).findings(served=False)
    return [finding for finding in found if "declared" in str(finding.sentence)]


def test_an_archive_notes_such_a_proxy_until_it_is_declared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with administered_archive(tmp_path) as made:
        for reader in (7, 8, 9, 9, 10, 9):
            proxy = HTTPConnection("127.0.0.1", made.port, timeout=10)
            with closing(proxy):
                proxy.request("GET", "/", headers={"X-Forwarded-For": f"203.0.113.{reader}"})
                assert proxy.getresponse().status == 200
        sentence = "127.0.0.1 brings X-Forwarded-For and is not declared as a trusted proxy"
        assert caplog.text.count(sentence) == 1
        (warned,) = proxy_warnings(made.archive.data)
        assert str(warned.remedy) == "ibi archive set --trusted-proxy 127.0.0.1"
        assert main(["archive", "set", "--data", str(made.archive.data), "--trusted-proxy", "127.0.0.1"]) == 0
        assert proxy_warnings(made.archive.data) == []
