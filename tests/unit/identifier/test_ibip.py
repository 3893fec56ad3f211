"""IBIps as values."""

import pytest

from ibi.errors import ParseError
from ibi.identifier.dates import TICKS, LabelDate
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
@pytest.mark.parametrize(
    "ip",
    [
        "0.1.2.3",
        "0:1:2:3:4:5:6:7",
        "::1",
        "::",
        "0.0.0.0",
        "2804:14c::1",
        "255.255.255.255",
        ":".join(["ffff"] * 8),
    ],
)
def test_an_address_that_starts_with_zero_is_decoded_whole(ip: str) -> None:
    assert IBIp.parse(f"{ibip_prefix(ip)}/2").ip == ip


def test_as_many_digits_are_read_as_the_longest_address_and_one_zero_more_have() -> None:
    longest = ":".join(["ffff"] * 8)
    prefix = ibip_prefix(longest)
    assert [IBIp.parse(f"{zeros}{prefix}/2").ip for zeros in ("", "2", "22")] == [longest, longest, None]


@pytest.mark.proves("AMB-12")
def test_spellings_that_decode_alike_are_different_labels() -> None:
    assert IBIp.parse("28JMKD3MGP8W/34PGRBS") != IBIp.parse("8JMKD3MGP8W/34PGRBS")
    assert IBIp.parse("8JMKD3MGP8W34K/34PGRBS").port == 800


def test_a_port_that_no_computer_has_is_none() -> None:
    assert IBIp.parse("8JMKD3MGP8WUUUU/34PGRBS").port is None
    assert IBIp.parse("8JMKD3MGP8W2/34PGRBS").port is None
    assert IBIp.parse("8JMKD3MGP8W22223/34PGRBS").port is None
    assert [IBIp.parse(f"{ibip_prefix('1.2.3.4', port)}/2").port for port in (1, 65535)] == [1, 65535]


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


def test_a_date_of_too_many_digits_is_none_that_a_calendar_has() -> None:
    longest = [IBIp.parse(f"8W/{'3' * 9}").date, IBIp.parse(f"8W/2W{'3' * 64}").date]
    longer = [IBIp.parse(f"8W/{'3' * 10}").date, IBIp.parse(f"8W/2W{'3' * 65}").date]
    assert [date.seconds is None for date in longest] == [False, False]
    assert longer == [LabelDate(None, "", shows_seconds=True)] * 2


def test_a_date_shows_its_seconds_if_they_or_a_fraction_are_written() -> None:
    minute = 807235200 * TICKS
    shown = [
        IBIp.parse(f"8W/{ibip_suffix(minute + ticks)}").date.shows_seconds
        for ticks in (0, 1, TICKS, 60 * TICKS)
    ]
    assert shown == [False, True, True, False]


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


LETTERS = "an IBIp has only letters, digits and one slash"
WORDS = "an IBIp is two words with one slash between them"
ADDRESS = "the first word has one W or X, after the coded IP address"
FRACTION = "the second word has at most one W, between the seconds and the fraction"


@pytest.mark.parametrize(
    ("text", "problem", "start", "end"),
    [
        ("8JM-8W/2", LETTERS, 3, 4),
        ("8JMé8W/2", LETTERS, 3, 4),
        ("8W/2\n", LETTERS, 4, 5),
        ("8W", WORDS, 2, 2),
        ("8W/", WORDS, 2, 3),
        ("/2", WORDS, 0, 1),
        ("/", WORDS, 0, 1),
        ("8W/2/2", WORDS, 4, 5),
        ("8W//2", WORDS, 3, 4),
        ("/2/2", WORDS, 2, 3),
        ("8JM/2", ADDRESS, 0, 3),
        ("WJM/2", ADDRESS, 0, 3),
        ("8WJX2/2", ADDRESS, 3, 5),
        ("8W/2W2W2", FRACTION, 3, 8),
        ("8W/W2", FRACTION, 3, 5),
        ("8" * 510 + "W/2", "it is longer than 512 characters", 512, 513),
    ],
)
def test_what_is_wrong_is_told_and_pointed_at(text: str, problem: str, start: int, end: int) -> None:
    with pytest.raises(ParseError) as raised:
        IBIp.parse(text)
    assert (str(raised.value), raised.value.start, raised.value.end) == (problem, start, end)


def test_the_printed_table_is_looser() -> None:
    assert is_loose_ibip("WW/X")
    assert not is_loose_ibip("8JMKD3MGP0W/34PGRBS")
