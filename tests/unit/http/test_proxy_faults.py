"""Proxies behind which all readers count as one: who is told of, when, and what the list of them holds."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from ibi.http.proxy_faults import FILE, ProxyFaults, UndeclaredProxies
from ibi.http.request import Request

TRUSTED = (ip_network("10.0.0.0/8"),)
DAY = 86_400.0


def looked(faults: ProxyFaults, peer: str, *readers: str) -> None:
    """Let a proxy bring a request of each of these readers."""
    for reader in readers:
        faults.look(Request("GET", "/", "", {b"x-forwarded-for": reader.encode()}, peer=peer))


def undeclared(proxy: str) -> str:
    return (
        f"{proxy} brings X-Forwarded-For and is not declared as a trusted proxy: all its readers count as one"
    )


def test_a_proxy_is_told_of_once_when_it_has_brought_three_readers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = UndeclaredProxies(tmp_path, lambda: DAY)
    faults = ProxyFaults(TRUSTED, known)
    looked(faults, "127.0.0.1", "203.0.113.1", "203.0.113.1", "203.0.114.1", "203.0.113.1")
    assert (caplog.messages, known.read()) == ([], {})
    looked(faults, "127.0.0.1", "203.0.115.1", "203.0.116.1")
    assert caplog.messages == [undeclared("127.0.0.1")]
    assert known.read() == {"127.0.0.1": "1970-01-02"}


def test_a_public_proxy_of_readers_in_a_private_network_is_not_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = ProxyFaults(())
    looked(faults, "8.8.8.8", "192.168.1.1", "192.168.2.1", "192.168.3.1")
    assert caplog.messages == []
    looked(faults, "8.8.8.8", "9.9.1.1", "9.9.2.1", "9.9.3.1")
    looked(faults, "192.168.9.9", "192.168.1.1", "192.168.2.1", "192.168.3.1")
    assert caplog.messages == [undeclared("8.8.8.8"), undeclared("192.168.9.9")]


def test_a_trusted_proxy_is_told_of_only_if_it_hides_its_readers(caplog: pytest.LogCaptureFixture) -> None:
    faults = ProxyFaults(TRUSTED)
    looked(faults, "10.9.8.7", "203.0.113.1", "203.0.114.1", "203.0.115.1")
    assert caplog.messages == []
    looked(faults, "10.9.8.7", "unknown", "hidden")
    assert caplog.messages == [
        "the proxy 10.9.8.7 writes into X-Forwarded-For what is no address: all its clients count as one"
    ]


def test_so_many_proxies_are_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    faults = ProxyFaults(())
    for number in range(17):
        looked(faults, f"192.168.0.{number}", "203.0.113.1")
    looked(faults, "192.168.0.16", "203.0.114.1", "203.0.115.1")
    assert caplog.messages == []
    looked(faults, "192.168.0.15", "203.0.114.1", "203.0.115.1")
    assert caplog.messages == [undeclared("192.168.0.15")]


def test_the_list_has_the_last_sixteen_each_once(tmp_path: Path) -> None:
    known = UndeclaredProxies(tmp_path, lambda: DAY)
    for number in range(17):
        known.add(f"192.168.0.{number}")
    known.add("192.168.0.1")
    assert [*known.read()] == [f"192.168.0.{number}" for number in (*range(2, 17), 1)]
    known.forget((ip_network("192.168.0.0/29"),))
    assert [*known.read()] == [f"192.168.0.{number}" for number in range(8, 17)]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_list_that_is_too_long_or_no_list_is_read_as_far_as_it_can_be(tmp_path: Path) -> None:
    line = b"127.0.0.1 2026-11-27\n"
    known = UndeclaredProxies(tmp_path, lambda: DAY)
    for text, read in (
        (b"x" * (4096 - len(line)) + b"\n" + line[:-1], {"127.0.0.1": "2026-11-27"}),
        (b"x" * (4097 - len(line)) + b"\n" + line[:-1], {"127.0.0.1": "2026-11-2"}),
        (b"127.0.0.1\n127.0.0.2 a b\n\xff \xff\n", {"\ufffd": "\ufffd"}),
    ):
        (tmp_path / FILE).write_bytes(text)
        assert known.read() == read


def test_a_list_that_cannot_be_written_is_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    with caplog.at_level("INFO", "ibi"):
        UndeclaredProxies(folder, lambda: DAY).add("127.0.0.1")
    assert caplog.messages == [f"{folder / FILE} was not written: No such file or directory"]


def test_what_is_declared_meanwhile_leaves_the_list_and_another_list_is_not_written(tmp_path: Path) -> None:
    known = UndeclaredProxies(tmp_path, lambda: DAY)
    known.add("127.0.0.1")
    before = (tmp_path / FILE).stat().st_ino
    ProxyFaults(TRUSTED, known)
    assert (tmp_path / FILE).stat().st_ino == before
    ProxyFaults((ip_network("127.0.0.0/8"),), known)
    assert known.read() == {}
