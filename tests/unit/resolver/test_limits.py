"""Limits of a resolver at their edge."""

from __future__ import annotations

import pytest

from ibi.resolver.members.registration_mail import read_registration
from ibi.resolver.registry.keys import is_weak_key
from ibi.resolver.resolve.selection import safe_place
from support.checks.limits import meet


def test_bytes_of_a_registration_mail() -> None:
    pairs = b"archiveserviceibi = dpi.inpe.br/banon/1999/01.09.22.14\nregistrationkey = 1234567890\n"
    refusal = "the mail is too long: at most 1048576 bytes are read"
    meet(1 << 20, lambda size: read_registration(pairs.ljust(size)), refusal)


@pytest.mark.parametrize(
    ("key", "weak"),
    [("1" * 19, True), ("1" * 20, False), (f"{'1' * 10}-{'1' * 10}", False), (f"{'1' * 10}-{'1' * 9}", True)],
)
def test_digits_of_a_strong_key(key: str, weak: bool) -> None:
    assert is_weak_key(key) is weak


def test_characters_of_a_url_that_a_reader_is_sent_to() -> None:
    begin = "https://a.example.org/"
    assert safe_place(begin.ljust(8192, "x")) == ("a.example.org", 80)
    assert safe_place(begin.ljust(8193, "x")) is None


@pytest.mark.parametrize(
    ("port", "place"),
    [(1, ("a.example.org", 1)), (65_535, ("a.example.org", 65_535)), (0, None), (65_536, None)],
)
def test_ports_of_a_url(port: int, place: tuple[str, int] | None) -> None:
    assert safe_place(f"https://a.example.org:{port}/") == place
