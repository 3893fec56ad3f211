"""IBIps as values."""

import pytest

from ibi.errors import ParseError
from ibi.identifier.dates import TICKS
from ibi.identifier.ibip import IBIp, canonical_ip, ibip_prefix, ibip_suffix
from ibi.identifier.repository import UniformRepositoryName
from support.printed_tables import is_loose_ibip


@pytest.mark.proves("GEN-63", "GEN-73", "GEN-74", "AMB-11")
def test_a_label_tells_where_and_when_it_was_made() -> None:
    label = IBIp.parse("8JMKD3MGP8W/34PGRBS")
    assert (label.prefix, label.suffix) == ("8JMKD3MGP8W", "34PGRBS")
    assert (label.ip, label.port) == ("150.163.34.243", 800)
    assert label.date.text == "2009-02-16T17:46:00Z"
    assert label.date.precision == 60


@pytest.mark.proves("GEN-62")
def test_case_does_not_matter_but_the_spelling_is_kept() -> None:
    label = IBIp.parse("8jmkd3mgp8w/34pgrbs")
    assert label == IBIp.parse("8JMKD3MGP8W/34PGRBS")
    assert str(label) == "8jmkd3mgp8w/34pgrbs"
    assert label.canonical == "8JMKD3MGP8W/34PGRBS"
    assert label.ip == "150.163.34.243"


def test_a_label_is_no_repository_name_even_if_both_spell_the_same_moment() -> None:
    assert IBIp.parse("8JMKD3MGP8W/34PGRBS") != UniformRepositoryName.parse(
        "sid.inpe.br/mtc-m18@80/2009/02.16.17.46"
    )


@pytest.mark.proves("GEN-66", "GEN-67")
def test_port_800_is_left_out_and_port_80_is_written() -> None:
    assert ibip_prefix("150.163.34.243", 800) == "8JMKD3MGP8W"
    assert ibip_prefix("150.163.34.243", 80) == "8JMKD3MGP8W4U"
    assert IBIp.parse("8JMKD3MGP8W4U/34PGRBS").port == 80


@pytest.mark.proves("GEN-68", "AMB-08")
def test_every_spelling_of_an_address_makes_the_same_prefix() -> None:
    assert (
        ibip_prefix("2001:DB8:0::1")
        == ibip_prefix("2001:db8::1")
        == ibip_prefix("2001:0db8:0:0:0:0:0:1%eth0")
    )
    assert ibip_prefix("::ffff:150.163.34.243") == ibip_prefix("150.163.34.243")
    for text in ("01.2.3.4", "1.2.3", "x", "", "1.2.3.4.5", "１.2.3.4"):
        with pytest.raises(ParseError):
            canonical_ip(text)


@pytest.mark.proves("AMB-09")
@pytest.mark.parametrize("ip", ["0.1.2.3", "0:1:2:3:4:5:6:7", "::1", "::", "0.0.0.0"])
def test_an_address_that_starts_with_zero_is_decoded_whole(ip: str) -> None:
    assert IBIp.parse(f"{ibip_prefix(ip)}/2").ip == ip


@pytest.mark.proves("AMB-12")
def test_spellings_that_decode_alike_are_different_labels() -> None:
    assert IBIp.parse("28JMKD3MGP8W/34PGRBS") != IBIp.parse("8JMKD3MGP8W/34PGRBS")
    assert IBIp.parse("8JMKD3MGP8W34K/34PGRBS").port == 800


def test_a_port_that_no_computer_has_is_none() -> None:
    assert IBIp.parse("8JMKD3MGP8WUUUU/34PGRBS").port is None
    assert IBIp.parse("8JMKD3MGP8W2/34PGRBS").port is None


def test_a_prefix_that_spells_no_address_has_none() -> None:
    assert IBIp.parse("MX/FACE").ip is None
    assert IBIp.parse("9" * 400 + "W/2").ip is None


@pytest.mark.proves("GEN-69", "GEN-70", "AMB-13")
def test_seconds_are_counted_from_august_1995() -> None:
    assert ibip_suffix(807235200 * TICKS) == "2"
    with pytest.raises(ParseError, match="August 1995"):
        ibip_suffix(807235199 * TICKS)


@pytest.mark.proves("GEN-71", "AMB-07")
def test_no_two_fractions_are_written_alike() -> None:
    second = 807235200 * TICKS
    written = [ibip_suffix(second + ticks) for ticks in (600_000_000, 60_000_000, 6_000_000, 250_000_000)]
    assert written == ["2W8", "2W28", "2W228", "2WT"]
    assert [IBIp.parse(f"8JMKD3MGP8W/{suffix}").date.fraction for suffix in written] == [
        "6",
        "06",
        "006",
        "25",
    ]


@pytest.mark.proves("GEN-60", "GEN-61")
def test_look_alikes_and_reserved_letters_are_pointed_at() -> None:
    for letter in "01IOVYZ":
        with pytest.raises(ParseError) as fault:
            IBIp.parse(f"8JMKD3MGP{letter}W/34PGRBS")
        assert (fault.value.start, fault.value.end) == (9, 10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "8JMKD3MGP8W",
        "8JMKD3MGP8/34PGRBS",
        "WW/X",
        "W/2",
        "8W8X/2",
        "8W/2W2W2",
        "8W/",
        "8W/2/2",
        "8W/2\n",
        "8W/2" * 200,
    ],
)
def test_what_the_algorithms_never_make_is_no_label(text: str) -> None:
    with pytest.raises(ParseError):
        IBIp.parse(text)


def test_the_printed_table_is_looser() -> None:
    assert is_loose_ibip("WW/X")
    assert not is_loose_ibip("8JMKD3MGP0W/34PGRBS")
