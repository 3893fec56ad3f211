"""Where a service listens: what is made of an address, or of a socket that was passed on, and what is wrong with it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest

from ibi.errors import SetupError
from ibi.http.server.service import address_of, is_passed, listen

NOT_AN_ADDRESS = "not an address and port"


def refusal(bind: str, act: Callable[[str], object] = listen) -> str:
    with pytest.raises(SetupError) as refused:
        act(bind)
    start = f"cannot listen on {bind}: "
    assert str(refused.value).startswith(start)
    return str(refused.value).removeprefix(start)


@pytest.mark.parametrize(
    ("bind", "why"),
    [
        ("127.0.0.1", NOT_AN_ADDRESS),
        ("127.0.0.1:x", NOT_AN_ADDRESS),
        ("127.0.0.1:\u0663", NOT_AN_ADDRESS),  # a digit, but none of ours
        ("127.0.0.1:99999", NOT_AN_ADDRESS),
        ("127.0.0.1:-1", NOT_AN_ADDRESS),
        ("[]:0", NOT_AN_ADDRESS),
        ("\ud800:0", NOT_AN_ADDRESS),
        ("192.0.2.1:0", "Cannot assign requested address"),
        ("no.such.host.invalid:0", "Name or service not known"),
        ("[::1:0", "Name or service not known"),
        ("[127.0.0.1]:0", "Address family for hostname not supported"),
    ],
)
def test_what_is_wrong_with_an_address(bind: str, why: str) -> None:
    assert refusal(bind) == why


@pytest.mark.parametrize(
    ("bind", "host", "family"),
    [
        ("127.0.0.1:0", "127.0.0.1", socket.AF_INET),
        (":0", "127.0.0.1", socket.AF_INET),
        ("[::1]:0", "::1", socket.AF_INET6),
    ],
)
def test_a_socket_that_listens_waits_for_nothing_and_its_port_is_free_again_at_once(
    bind: str, host: str, family: int
) -> None:
    with listen(bind) as made:
        assert (made.family, made.getsockname()[0]) == (family, host)
        assert (made.type, made.proto) == (socket.SOCK_STREAM, socket.IPPROTO_TCP)
        assert not made.getblocking()
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        port = made.getsockname()[1]
        taken = bind.rpartition(":")[0] + f":{port}"
        assert refusal(taken) == "Address already in use"
    assert address_of(taken) == taken
    assert not is_passed(taken)


def test_a_socket_that_was_passed_on_is_used_as_it_is() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        listener.set_inheritable(True)
        bind = f"fd://{listener.fileno()}"
        assert is_passed(bind)
        assert address_of(bind) == f"127.0.0.1:{listener.getsockname()[1]}"
        assert address_of(f"fd://{six.fileno()}") == f"[::1]:{six.getsockname()[1]}"
        made = listen(bind)
        assert (made.getsockname(), made.fileno()) == (listener.getsockname(), listener.fileno())
        assert not made.getblocking()
        assert not made.get_inheritable()
        made.detach()
        listener.getsockname()  # it is still open


def test_what_is_wrong_with_what_was_passed_on() -> None:
    handle = os.open(os.devnull, os.O_RDONLY)
    with (
        socket.socket() as deaf,
        socket.socket(type=socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind("\0ibi-listening")
        local.listen()
        for act in (listen, address_of):
            for number in (handle, 9999, -1, "x", "", 2**70):
                assert refusal(f"fd://{number}", act) == "not an open socket"
            for each in (deaf, datagrams, local):
                assert refusal(f"fd://{each.fileno()}", act) == "not a listening TCP socket"
                each.getsockname()  # it is still open
    os.fstat(handle)
    os.close(handle)
