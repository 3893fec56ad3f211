"""A published list is read as it was signed; with a byte changed, cut off or put in, it is refused."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.model.archive import moment_text
from ibi.resolver.registry.published_list import ListedArchive, Publisher, read_list
from ibi.runtime.signing import Signer

SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
NOW = 1_700_000_000.0
SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(b"\x01" * 32))

services = st.builds("{}.example/{}/20{}/01.01.00.0{}".format, *[st.integers(10, 99)] * 3, st.integers(0, 9))
moments = st.integers(0, 2**33).map(moment_text)
names = st.text("ab09.-", max_size=12).map("a{}0".format)
literals = st.ip_addresses(v=6).map("[{}]".format)
addresses = st.builds(
    "{}{}".format,
    st.sampled_from(["one.example", "x-y.two.example", "192.0.2.7", "[2001:db8::1]"]),
    st.just("") | st.integers(8000, 8999).map(":{}".format),
)
archives = st.lists(
    st.builds(
        ListedArchive,
        service_ibi=services.map(parse_ibi),
        address=addresses,
        url_hosts=st.lists(names | literals, max_size=3).map(tuple),
        confirmed=st.booleans(),
        since=moments,
    ),
    max_size=4,
    unique_by=lambda archive: archive.service_ibi.canonical,
)

FEWER = settings(max_examples=max(1, settings().max_examples // 3))  # each signs a list


def signed(listed: list[ListedArchive], address: str, now: float = NOW) -> bytes:
    return Publisher(lambda: listed, SERVICE, address, lambda: SIGNER, lambda: now).text()


@FEWER
@given(listed=archives, address=st.text(st.characters(exclude_categories=["Cs"])), now=st.integers(0, 2**33))
def test_a_list_is_read_as_it_was_published(listed: list[ListedArchive], address: str, now: int) -> None:
    text = signed(listed, address, now)
    assert text.count(b"\n") == 1
    for spelled in (text, text.removesuffix(b"\n")):  # editors lose the last line feed
        found = read_list(spelled, SIGNER.public, now)
        assert (found.resolver, found.issued) == (str(SERVICE), moment_text(now))
        assert (found.archives, found.left_out) == (tuple(listed), 0)


@FEWER
@given(listed=archives, at=st.integers(0, 10_000), byte=st.integers(0, 255))
@example(listed=[], at=0, byte=0)
@example(listed=[], at=0, byte=ord(" "))
@example(listed=[], at=1, byte=0)
@example(listed=[], at=2, byte=0xFF)
def test_a_list_that_was_changed_is_refused(listed: list[ListedArchive], at: int, byte: int) -> None:
    text = signed(listed, "urlib.net")
    at %= len(text)
    new = bytes([byte])
    for changed in (text[:at] + new + text[at + 1 :], text[:at] + new + text[at:], text[:at]):
        if changed not in {text, text[:-1]}:
            with pytest.raises(BadItem):
                read_list(changed, SIGNER.public, NOW)
