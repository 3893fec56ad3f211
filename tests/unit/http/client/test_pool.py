"""How a connection comes about, without a network: what is tried, for how long, and what each failure is called."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from ibi.errors import ForbiddenAddress, PeerError, PeerUnreachable, QueryNotSent
from ibi.http.client import AddressPolicy, ClientLimits
from ibi.http.client.connection import Connection
from ibi.http.client.pool import ConnectionPool
from support.clock import FalseClockLoop

PUBLIC = ip_network("192.0.2.0/24")
IP = "192.0.2.7"


class Near(asyncio.Transport):
    """The near end of a connection to an address, as the system tells it."""

    def __init__(self, reached: str | None) -> None:
        super().__init__({"peername": None if reached is None else (reached, 80)})
        self.ended = False

    def abort(self) -> None:
        self.ended = True


class Network(FalseClockLoop):
    """A loop in which `outcome` decides what comes of each attempt: an error, a transport, or nothing ever."""

    def __init__(self, outcome: Callable[[str], Any]) -> None:
        super().__init__()
        self.outcome = outcome
        self.tried = list[tuple[Any, ...]]()

    async def create_connection(self, made: Any, host: Any = None, port: Any = None, **how: Any) -> Any:  # type: ignore[override]  # the base class has many forms
        self.tried.append((host, port, how["ssl"], how["server_hostname"]))
        found = self.outcome(host)
        if isinstance(found, Exception):
            raise found
        if found is None:
            await asyncio.sleep(3600)
        protocol = made()
        protocol.connection_made(found)
        return found, protocol


def played(
    outcome: Callable[[str], Any],
    address: str = "a.example",
    ips: tuple[str, ...] = (IP,),
    limits: ClientLimits | None = None,
) -> tuple[Any, float, list[tuple[Any, ...]]]:
    """The connection, or the error; after how long; and what was tried."""

    async def names(_host: str, port: int) -> list[tuple[str, int]]:
        return [(ip, port) for ip in ips]

    async def play() -> tuple[Any, float]:
        time = asyncio.get_running_loop().time
        began = time()
        pool = ConnectionPool(AddressPolicy(public=[PUBLIC]), names, limits or ClientLimits())
        try:
            found: Any = await pool.connect(pool.at(address))
        except PeerError as error:
            found = error
        except ForbiddenAddress as error:
            found = error
        return found, round(time() - began, 3)

    network = Network(outcome)
    with asyncio.Runner(loop_factory=lambda: network) as runner:
        return *runner.run(play()), network.tried


def lack(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def refused_certificate() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (lack(errno.ECONNREFUSED), "Connection refused"),
        (lack(errno.ECONNRESET), "Connection reset by peer"),
        (lack(errno.EHOSTUNREACH), "No route to host"),
        (lack(errno.ENETUNREACH), "Network is unreachable"),
        (OSError(errno.ETIMEDOUT, "whatever the system says"), "Connection timed out"),
        (OSError(errno.EACCES, "Permission denied"), "Permission denied"),
        (ConnectionError(), "ConnectionError"),
        (refused_certificate(), "self-signed certificate"),
        (Near(None), "Connection reset by peer"),
        (None, "no connection within 1 s"),
    ],
)
def test_why_a_peer_cannot_be_reached(failure: Any, reason: str) -> None:
    found, seconds, tried = played(lambda _: failure)
    assert (type(found), str(found)) == (PeerUnreachable, f"a.example cannot be reached: {reason}")
    assert tried == [(IP, 80, None, None)]
    assert seconds == (1.0 if failure is None else 0.0)
    assert not isinstance(failure, Near) or failure.ended


@pytest.mark.parametrize(
    "number", [errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM]
)
def test_what_this_machine_lacks_is_no_fault_of_a_peer(number: int) -> None:
    found, _, tried = played(lambda _: lack(number), ips=(IP, "192.0.2.8"))
    assert type(found) is QueryNotSent
    assert str(found) == f"no connection can be made here: {os.strerror(number)}"
    assert [ip for ip, *_ in tried] == [IP]  # another address would not help


def test_so_many_addresses_of_a_name_are_tried_one_after_the_other() -> None:
    ips = tuple(f"192.0.2.{number}" for number in range(1, 6))
    found, seconds, tried = played(lambda _: None, ips=ips)
    assert str(found) == "a.example cannot be reached: no connection within 1 s"
    assert (seconds, [ip for ip, *_ in tried]) == (4.0, list(ips[:4]))
    found, seconds, tried = played(lambda _: None, ips=ips, limits=ClientLimits(connect=0.25, addresses=2))
    assert str(found) == "a.example cannot be reached: no connection within 0.25 s"
    assert (seconds, [ip for ip, *_ in tried]) == (0.5, list(ips[:2]))
    found, _, tried = played(lambda ip: Near(ip) if ip == ips[1] else lack(errno.ECONNREFUSED), ips=ips)
    assert isinstance(found, Connection)
    assert (found.peer, len(tried)) == (ips[1], 2)


@pytest.mark.parametrize("ips", [(), ("192.0.2.7", "10.0.0.1")])
def test_a_name_is_not_tried_that_has_no_address_or_one_that_is_forbidden(ips: tuple[str, ...]) -> None:
    found, _, tried = played(Near, ips=ips)
    assert str(found) == (
        "a.example leads to an address that must not be contacted"
        if ips
        else "a.example cannot be reached: it has no address"
    )
    assert tried == []


def test_a_forbidden_address_is_named_where_it_was_given() -> None:
    found, _, tried = played(Near, "10.0.0.1")
    assert str(found) == "the address 10.0.0.1 must not be contacted: it is not public"
    assert tried == []


def test_a_connection_that_ends_at_another_address_is_ended() -> None:
    near = Near("192.0.2.9")
    found, _, _ = played(lambda _: near)
    assert (type(found), str(found)) == (ForbiddenAddress, f"the connection to {IP} ended somewhere else")
    assert near.ended


@pytest.mark.parametrize(
    ("address", "port", "name"),
    [
        ("a.example", 80, None),
        ("a.example:8080", 8080, None),
        ("https://a.example", 443, "a.example"),
        ("https://a.example:8443", 8443, "a.example"),
    ],
)
def test_by_https_the_certificate_of_the_name_is_checked(address: str, port: int, name: str | None) -> None:
    found, _, tried = played(Near, address)
    assert isinstance(found, Connection)
    ((ip, to, context, checked),) = tried
    assert (ip, to, checked) == (IP, port, name)
    if name is None:
        assert context is None
    else:
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_what_is_not_used_is_forgotten_and_what_is_used_stays() -> None:
    async def play() -> list[bool]:
        pool = ConnectionPool(AddressPolicy(), None, ClientLimits())  # type: ignore[arg-type]  # nothing is looked up
        there = pool.at("a.example")
        assert pool.at("a.example") is there
        known = list[bool]()
        for taken, idle, lookup in ((1, 0, None), (0, 1, None), (0, 0, object()), (0, 0, None)):
            there.slots.taken, there.lookup = taken, lookup  # type: ignore[assignment]  # any will do
            there.idle.extend([object()] * idle)  # type: ignore[list-item]  # the same
            pool.forget_if_unused(there)
            known.append(pool.find("a.example") is there)
            there.idle.clear()
        return known

    assert asyncio.run(play()) == [True, True, True, False]
