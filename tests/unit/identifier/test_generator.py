"""Label generators and the twins they make."""

import pytest

from ibi.errors import MintingNotAllowed, ParseError
from ibi.identifier.dates import TICKS
from ibi.identifier.generator import LabelGenerator, is_public_ip


@pytest.mark.proves("GEN-02", "GEN-03", "GEN-06", "GEN-08", "GEN-72", "CON-06")
def test_one_date_makes_both_forms() -> None:
    generator = LabelGenerator("mtc-m18.sid.inpe.br", ip="150.163.34.243")
    assert (
        str(generator.label(1234806360 * TICKS))
        == "rep sid.inpe.br/mtc-m18/2009/02.16.17.46 ibip 8JMKD3MGP8W/34PGRBS"
    )


def test_without_an_address_only_the_name_is_made() -> None:
    assert LabelGenerator("archive.example.org").label(1234806360 * TICKS).ibip is None


@pytest.mark.proves("GEN-68", "AMB-08")
@pytest.mark.parametrize("spelling", ["2804:014C:0:0::1", "2804:14c::1%eth0", "2804:14C:0:0:0:0:0:1"])
def test_an_address_has_one_spelling_however_it_was_given(spelling: str) -> None:
    generator = LabelGenerator("archive.example.org", ip=spelling)
    assert generator.ip == "2804:14c::1"
    assert generator == LabelGenerator("archive.example.org", ip="2804:14c::1")


@pytest.mark.proves("AMB-10")
@pytest.mark.parametrize(
    ("host", "ip"),
    [
        ("archive.localhost", None),
        ("archive.test", None),
        ("a.example", None),
        ("archive.example.org", "127.0.0.1"),
        ("archive.example.org", "192.168.1.100"),
        ("archive.example.org", "10.1.2.3"),
        ("archive.example.org", "::1"),
        ("archive.example.org", "fe80::1"),
        ("archive.example.org", "224.0.0.1"),
        ("archive.example.org", "64:ff9b::7f00:1"),
        ("archive.example.org", "2002:7f00:1::"),
    ],
)
def test_names_and_addresses_without_an_owner_are_refused_unless_for_trying(
    host: str, ip: str | None
) -> None:
    with pytest.raises(MintingNotAllowed):
        LabelGenerator(host, ip=ip)
    assert LabelGenerator(host, ip=ip, for_trying=True).why_not_unique


@pytest.mark.proves("GEN-04")
@pytest.mark.parametrize(
    ("host", "port", "ip", "ip_port"),
    [
        ("localhost", 80, None, 800),
        ("a.br", 0, None, 800),
        ("a.br", 65536, None, 800),
        ("a.br", 80, "x", 800),
        ("a.br", 80, None, 0),
        ("a." * 200 + "br", 80, None, 800),
    ],
)
def test_a_subsystem_has_a_host_and_port_that_exist(
    host: str, port: int, ip: str | None, ip_port: int
) -> None:
    with pytest.raises(ParseError):
        LabelGenerator(host, port, ip, ip_port, for_trying=True)


@pytest.mark.parametrize("port", [1, 65535])
def test_the_first_and_the_last_port_exist(port: int) -> None:
    generator = LabelGenerator("a.br", port, "150.163.34.243", port, for_trying=True)
    assert (generator.port, generator.ip_port, len(generator.prefixes)) == (port, port, 2)


def test_the_longest_host_name_has_labels() -> None:
    longest = ".".join(["a" * 61] * 4) + ".exam"
    assert len(longest) == 252
    assert LabelGenerator(f"x{longest}").prefixes
    with pytest.raises(ParseError, match="at most 253 characters"):
        LabelGenerator(f"xx{longest}")


def test_a_fraction_of_the_first_second_of_a_minute_shows_the_second() -> None:
    forms = LabelGenerator("archive.example.org").label(1234806360 * TICKS + TICKS // 2)
    assert str(forms) == "rep example.org/archive/2009/02.16.17.46.00.5"


def test_public_addresses_are_public() -> None:
    assert is_public_ip("150.163.34.243")
    assert is_public_ip("2804:14c::1")
