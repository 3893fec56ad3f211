"""The address of a client: how far X-Forwarded-For is believed, and what an Archive gets of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.errors import SetupError
from ibi.http.client_address import (
    MOST_ADDRESSES,
    check_networks,
    hides_client,
    in_networks,
    is_loopback,
    list_addresses,
    networks_of,
    read_addresses,
    trusted_address,
)

LICENSED, STRANGER = "192.0.2.7", "198.51.100.1"
PROXIES = networks_of(("10.0.0.0/8", "::1"))
MANY = [f"203.0.113.{number}" for number in range(1, MOST_ADDRESSES + 3)]


@pytest.mark.proves("SVC-10", "AMB-54")
@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        (STRANGER, "", STRANGER),
        (STRANGER, LICENSED, STRANGER),
        ("10.1.2.3", STRANGER, STRANGER),
        ("10.1.2.3", f"{LICENSED}, {STRANGER}", STRANGER),
        ("10.1.2.3", f"{LICENSED}, {STRANGER}, 10.9.9.9", STRANGER),
        ("::1", f" {STRANGER} ", STRANGER),
        ("::ffff:10.1.2.3", f"::ffff:{STRANGER}", STRANGER),
        ("10.1.2.3", "", None),
        ("10.1.2.3", f"{LICENSED}, unknown", None),
        ("10.1.2.3", f"{LICENSED}, {STRANGER}:80", STRANGER),
        ("10.1.2.3", f"{LICENSED}, [2001:db8::7]:4711", "2001:db8::7"),
        ("10.1.2.3", f"{LICENSED}, [2001:db8::7]", "2001:db8::7"),
        ("10.1.2.3", f"{LICENSED}, {STRANGER}:80, 10.9.9.9:81", STRANGER),
        ("10.1.2.3", f"{LICENSED}, {STRANGER}:", None),
        ("10.1.2.3", f"{LICENSED}, {STRANGER}:80:80", None),
        ("10.1.2.3", f"{LICENSED}, [{STRANGER}", None),
        ("10.1.2.3", f"{STRANGER}, [::1]:80", STRANGER),
        ("10.1.2.3", f"{LICENSED},", None),
        ("10.1.2.3", "10.4.5.6", None),
        ("", LICENSED, None),
        ("fe80::1%eth0", LICENSED, None),
    ],
)
def test_an_address_counts_as_far_as_it_is_vouched_for(
    peer: str, forwarded: str, address: str | None
) -> None:
    assert trusted_address(peer, forwarded, PROXIES) == address


@given(st.text(max_size=60))
def test_no_header_of_an_untrusted_client_changes_its_address(forwarded: str) -> None:
    assert trusted_address(STRANGER, forwarded, PROXIES) == STRANGER
    assert trusted_address("10.1.2.3", f"{forwarded}, {STRANGER}", PROXIES) == STRANGER
    assert list_addresses(STRANGER, forwarded, PROXIES)[-1] == STRANGER


@pytest.mark.proves("RES-02", "MSG-25", "AMB-54")
@pytest.mark.parametrize(
    ("peer", "forwarded", "addresses"),
    [
        (STRANGER, "", (STRANGER,)),
        (STRANGER, LICENSED, (LICENSED, STRANGER)),
        ("10.1.2.3", f"{LICENSED}, {STRANGER}", (LICENSED, STRANGER)),
        ("10.1.2.3", f"{LICENSED}:4711, 10.9.9.9", (LICENSED,)),
        ("10.1.2.3", f"{LICENSED}, 10.9.9.9, {STRANGER}", (LICENSED, STRANGER)),
        ("10.1.2.3", f"{LICENSED}, unknown, {STRANGER}", (STRANGER,)),
        ("::1", f"2001:DB8::1, ::ffff:{STRANGER}", ("2001:db8::1", STRANGER)),
        ("10.1.2.3", ", ".join(MANY), tuple(MANY[-MOST_ADDRESSES:])),
        # No address is vouched for: the connection's own, so that there is one.
        ("10.1.2.3", "", ("10.1.2.3",)),
        ("10.1.2.3", f"{LICENSED}, unknown", ("10.1.2.3",)),
        ("", LICENSED, ("127.0.0.1",)),
        # Nothing is believed of a connection whose address means nothing elsewhere.
        ("fe80::1%eth0", LICENSED, ("fe80::1",)),
    ],
)
def test_the_list_has_the_reader_first_and_the_vouched_address_last(
    peer: str, forwarded: str, addresses: tuple[str, ...]
) -> None:
    assert list_addresses(peer, forwarded, PROXIES) == addresses


@given(st.sampled_from(["", STRANGER, "10.1.2.3", "::1", "?"]), st.text(max_size=80))
def test_both_uses_agree_about_who_is_vouched_for(peer: str, forwarded: str) -> None:
    vouched = trusted_address(peer, forwarded, PROXIES)
    addresses = list_addresses(peer, forwarded, PROXIES)
    assert read_addresses(peer, forwarded, PROXIES) == (addresses if vouched else ())
    assert vouched in {addresses[-1], None}


@pytest.mark.parametrize(
    ("peer", "forwarded", "hidden"),
    [
        ("10.1.2.3", "unknown", True),
        ("10.1.2.3", f"{LICENSED}, unknown", True),
        ("10.1.2.3", f"{LICENSED}, unknown, 10.9.9.9:80", True),
        ("10.1.2.3", f"{LICENSED},", True),
        ("10.1.2.3", "", False),
        ("10.1.2.3", "10.4.5.6", False),
        ("10.1.2.3", f"unknown, {STRANGER}:4711", False),
        # What a stranger writes tells nothing of a proxy.
        (STRANGER, "unknown", False),
        ("", "unknown", False),
        ("fe80::1%eth0", "unknown", False),
    ],
)
def test_a_proxy_whose_word_cannot_be_read_hides_its_clients(peer: str, forwarded: str, hidden: bool) -> None:
    assert hides_client(peer, forwarded, PROXIES) is hidden


def test_what_is_no_network_is_one_clear_sentence() -> None:
    assert check_networks(["10.0.0.0/8", "::1", "10.9.9.9/8"]) == ("10.0.0.0/8", "::1", "10.9.9.9/8")
    with pytest.raises(SetupError, match="is no address or network"):
        check_networks(["10.0.0.0/8", "everybody"])


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("::1", True),
        ("::2", False),
        (STRANGER, False),
        ("10.1.2.3:80", False),
        ("010.1.2.3", False),
        ("", False),
        (None, False),
    ],
)
def test_which_addresses_lie_in_networks(address: str | None, inside: bool) -> None:
    assert in_networks(address, ("10.0.0.0/8", "::1")) is inside
    assert in_networks(address, ("10.9.9.9/8", "::1")) is inside
    assert not in_networks(address, ())


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True), ("localhost", True),
        ("192.0.2.1", False), ("::", False), ("", False), ("no address", False), ("localhost.example", False),
    ],
)  # fmt: skip
def test_this_machine_is_known_by_its_addresses(host: str, here: bool) -> None:
    assert is_loopback(host) is here
