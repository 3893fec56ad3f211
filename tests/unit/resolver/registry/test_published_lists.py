"""A published list is read as it was signed; with a byte changed, cut off or put in, it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.model.archive import moment_text
from ibi.resolver.registry.published_list import ListedArchive, Publisher, read_list
from ibi.runtime.signing import Signer, canonical

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


ONE = ListedArchive(
    parse_ibi("a.example/w/2020/01.01.00.00"), "a.example:81", ("a.example",), True, "2023-01-01T00:00:00Z"
)


def test_a_list_is_signed_again_after_a_minute_or_once_it_is_another_one() -> None:
    listed, now, signatures = [ONE], [NOW], list[float]()

    def signer() -> Signer:
        signatures.append(now[0])
        return SIGNER

    publisher = Publisher(lambda: [*listed], SERVICE, "urlib.net", signer, lambda: now[0])
    for seconds, signed_again in (
        (0.0, True),
        (0.0, False),
        (59.5, False),
        (0.5, True),
        (30.0, False),
        (-40.0, True),
    ):
        now[0] += seconds
        before = len(signatures)
        text = publisher.text()
        assert (len(signatures) > before) == signed_again
        assert read_list(text, SIGNER.public, NOW).issued == moment_text(signatures[-1])
    listed.clear()
    assert read_list(publisher.text(), SIGNER.public, NOW).archives == ()
    assert publisher.key == SIGNER.public


def written(**changed: Any) -> bytes:
    """A list with a right signature, whatever it says."""
    content = json.loads(signed([ONE], "urlib.net"))["registry"] | changed
    return canonical({"registry": content, "signature": SIGNER.sign(canonical(content))}) + b"\n"


def archive(**changed: Any) -> dict[str, Any]:
    (found,) = json.loads(signed([ONE], "urlib.net"))["registry"]["archives"]
    return {**found, **changed}


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "ibi list"}, {"version": 2}, {"resolver": {}}, {"resolver": {"service": 1}}, {"issued": 1},
        {"archives": {}}, {"archives": "x"}, {"archives": [{}]}, {"archives": [1]},
        {"archives": [archive(confirmed=1)]}, {"archives": [archive(url_hosts="a.example")]},
        {"archives": [archive(url_hosts=[1])]},
        {"archives": [archive(since=1)]}, {"archives": [archive(address=None)]},
    ],
)  # fmt: skip
def test_what_is_no_list_is_refused_although_it_is_signed(changed: dict[str, Any]) -> None:
    assert read_list(written(), SIGNER.public, NOW).archives == (ONE,)
    with pytest.raises(BadItem, match=r"^this is not a list of a resolver's Archives$"):
        read_list(written(**changed), SIGNER.public, NOW)


@pytest.mark.parametrize(
    "changed",
    [
        {"service_ibi": "x"}, {"address": "a b"}, {"since": "yesterday"}, {"url_hosts": ["A b"]},
        {"url_hosts": ["a.example"] * 1_001},
    ],
)  # fmt: skip
def test_an_archive_that_cannot_be_asked_is_left_out_and_counted(changed: dict[str, Any]) -> None:
    other = "b.example/w/2020/01.01.00.00"
    most = archive(url_hosts=["a.example"] * 1_000)
    found = read_list(written(archives=[most, archive(service_ibi=other) | changed]), SIGNER.public, NOW)
    assert ([each.service_ibi for each in found.archives], found.left_out) == ([ONE.service_ibi], 1)
