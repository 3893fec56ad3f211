"""Labels, dates and numerals under texts and numbers drawn at random: a value or the one error, and back again."""

from __future__ import annotations

from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibi.errors import ParseError
from ibi.identifier.dates import GRANULARITIES, TICKS, LabelDate, granularity_text, parse_granularity
from ibi.identifier.forms import IBIForms, parse_ibi, parse_name
from ibi.identifier.ibip import EPOCH, IBIp, canonical_ip, ibip_prefix, ibip_suffix
from ibi.identifier.legacy import LegacyId
from ibi.identifier.numerals import IBIP, IPV4, IPV6
from ibi.identifier.repository import UniformRepositoryName, rep_prefix, rep_suffix
from support.oracles import labels as oracle
from support.oracles.attempts import attempt
from support.oracles.texts import MANY, any_text, ibips, labels, repositories
from support.printed_tables import is_loose_ibip

if TYPE_CHECKING:
    from collections.abc import Callable

YEAR_9999 = 253402300799  # the last second of the calendar
MOMENTS = st.integers(EPOCH * TICKS, YEAR_9999 * TICKS) | st.builds(
    lambda seconds, granularity: seconds * TICKS - seconds * TICKS % granularity,
    st.integers(EPOCH, YEAR_9999),
    st.sampled_from(GRANULARITIES),
)
ADDRESSES = st.ip_addresses(v=4) | st.ip_addresses(v=6)


@pytest.mark.proves("GEN-10", "GEN-63", "GEN-30", "AMB-11", "AMB-13")
@pytest.mark.parametrize(
    "parse",
    [
        UniformRepositoryName.parse,
        IBIp.parse,
        LegacyId.parse,
        parse_ibi,
        parse_name,
        IBIForms.parse,
        IPV4.read,
        IPV6.read,
        IBIP.read,
        canonical_ip,
        parse_granularity,
        rep_prefix,
        ibip_prefix,
        is_loose_ibip,
    ],
)
@given(text=labels)
@MANY
def test_any_text_gives_a_value_or_the_one_parse_error(parse: Callable[[str], object], text: str) -> None:
    read = attempt(parse, text)
    if isinstance(read, ParseError):
        assert str(read)
        assert 0 <= read.start <= read.end <= len(text)
        line, carets = read.caret().split("\n")
        assert line.isprintable()
        assert set(carets) <= {" ", "^"}
        if read.suggestion is not None:
            parse(read.suggestion)


@pytest.mark.proves("GEN-13", "GEN-62", "GEN-11")
@given(text=repositories() | ibips() | labels)
@MANY
def test_every_part_of_a_label_that_parses_can_be_read(text: str) -> None:
    try:
        name = parse_name(text)
    except ParseError:
        return
    assert str(name) == text
    assert parse_name(str(name)) == name
    parts = [field for field in dir(name) if not field.startswith("_") and field not in {"parse", "make"}]
    for part in parts:
        getattr(name, part)
    assert isinstance(name.date, LabelDate)
    assert name.date.text is None or name.date.text.endswith("Z")
    assert name.date.precision >= 0
    assert name.date.ticks is None or isinstance(name.date.ticks, int)
    assert f"{name.prefix}/{name.suffix}" == text
    assert not name < parse_name(text)


@pytest.mark.proves("GEN-10", "GEN-11", "GEN-13", "GEN-21")
@given(text=repositories())
@MANY
def test_a_repository_name_keeps_its_spelling_and_equals_every_case_of_itself(text: str) -> None:
    name = UniformRepositoryName.parse(text)
    other = UniformRepositoryName.parse(text.swapcase())
    assert str(name) == text
    assert name.canonical == text.lower()
    assert name == other
    assert hash(name) == hash(other)
    assert str(other) == text.swapcase()
    assert "/".join(name.path) == text
    assert name.path == tuple(text.split("/"))
    assert parse_ibi(text) == name
    assert UniformRepositoryName.parse(name.canonical) == name


@pytest.mark.proves("GEN-62", "GEN-63", "AMB-11", "AMB-12")
@given(text=ibips())
@MANY
def test_an_ibip_keeps_its_spelling_and_equals_every_case_of_itself(text: str) -> None:
    label = IBIp.parse(text)
    other = IBIp.parse(text.swapcase())
    assert str(label) == text
    assert label.canonical == text.upper()
    assert label == other
    assert hash(label) == hash(other)
    assert is_loose_ibip(text)
    assert parse_ibi(text) == label


@pytest.mark.proves("GEN-13", "GEN-62", "AMB-03", "AMB-12")
@given(one=repositories() | ibips(), two=repositories() | ibips())
@MANY
def test_labels_are_equal_exactly_when_they_differ_in_case_only(one: str, two: str) -> None:
    first, second = parse_ibi(one), parse_ibi(two)
    assert (first == second) == (one.lower() == two.lower())


@pytest.mark.proves("GEN-18", "GEN-19", "GEN-20", "GEN-69", "GEN-70", "GEN-71", "AMB-06", "AMB-07", "GEN-73")
@given(ticks=MOMENTS)
@example(ticks=EPOCH * TICKS)
@example(ticks=EPOCH * TICKS + 1)
@example(ticks=YEAR_9999 * TICKS + TICKS - 1)
@MANY
def test_a_suffix_is_what_the_report_words_and_decodes_to_its_moment(ticks: int) -> None:
    date = Fraction(ticks, TICKS)
    assert rep_suffix(ticks) == oracle.repository_suffix(date)
    assert ibip_suffix(ticks) == oracle.ibip_suffix(date)
    rep = UniformRepositoryName.parse(f"archive.org/www/{rep_suffix(ticks)}")
    ibip = IBIp.parse(f"LK47B6W/{ibip_suffix(ticks)}")
    assert rep.date.ticks == ibip.date.ticks == ticks
    assert rep.date == ibip.date


@pytest.mark.proves("GEN-70")
@given(ticks=st.integers(-(10**20), EPOCH * TICKS - 1))
@MANY
def test_no_ibip_is_older_than_the_epoch(ticks: int) -> None:
    with pytest.raises(ParseError):
        ibip_suffix(ticks)


@pytest.mark.proves("GEN-66", "GEN-67", "GEN-68", "GEN-73", "AMB-08", "AMB-09")
@given(address=ADDRESSES, port=st.integers(1, 65535) | st.sampled_from([80, 800, 802]))
@example(address=IPv4Address("0.0.0.0"), port=800)
@example(address=IPv4Address("0.1.2.3"), port=800)
@example(address=IPv6Address("::"), port=800)
@example(address=IPv6Address("::1"), port=1)
@example(address=IPv6Address("0:1:2:3:4:5:6:7"), port=65535)
@example(address=IPv6Address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), port=800)
@example(address=IPv6Address("::ffff:1.2.3.4"), port=800)
@MANY
def test_a_prefix_is_what_the_report_words_and_decodes_to_its_address(
    address: IPv4Address | IPv6Address, port: int
) -> None:
    mapped = getattr(address, "ipv4_mapped", None)
    canonical = str(mapped or address)
    prefix = ibip_prefix(str(address), port)
    assert prefix == oracle.ibip_prefix(canonical, port)
    label = IBIp.parse(f"{prefix}/34PGRBS")
    assert (label.ip, label.port) == (canonical, port)
    assert ibip_prefix(address.exploded if address.version == 6 else str(address), port) == prefix
    assert ibip_prefix(str(address).upper(), port) == prefix


@pytest.mark.proves("GEN-64", "GEN-65")
@given(
    number=st.integers(0, 27**40)
    | st.sampled_from([n for p in range(12) for n in (27**p - 1, 27**p, 27**p + 1)])
)
@MANY
def test_numerals_write_what_they_read(number: int) -> None:
    for system, table in ((IPV4, "ipv4"), (IPV6, "ipv6"), (IBIP, "ibip")):
        written = system.write(number)
        assert written == oracle.convert_from_decimal(number, table)
        assert system.read(written) == oracle.convert_to_decimal(written, table) == number


@pytest.mark.proves("GEN-65", "AMB-13")
@given(number=st.integers(max_value=-1))
@MANY
def test_negative_numbers_are_not_written(number: int) -> None:
    with pytest.raises(ValueError, match="zero"):
        IBIP.write(number)


@pytest.mark.proves("GEN-15", "GEN-16", "GEN-12", "AMB-01", "AMB-05")
@given(
    words=st.lists(
        st.from_regex(r"[A-Za-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True), min_size=2, max_size=5
    ),
    port=st.integers(1, 65535) | st.sampled_from([80, 800]),
)
@MANY
def test_a_host_and_port_are_found_again_in_the_prefix(words: list[str], port: int) -> None:
    host = ".".join(words)
    prefix = rep_prefix(host, port)
    assert prefix == oracle.repository_prefix(host, port)
    assert rep_prefix(f"{host}.", port) == prefix
    name = UniformRepositoryName.parse(f"{prefix}/2009/02.16.17.46")
    assert name.host == host.lower()
    assert name.port == (None if port == 80 else port)
    assert name.separator == ("" if port == 80 else ".")
    assert "@" not in prefix


@pytest.mark.proves("GEN-15", "AMB-05")
@pytest.mark.parametrize(
    "host", ["localhost", "", ".", "a..b", "150.163.2.174", "-a.org", "a-.org", "a_b.org", "é.org", "::1"]
)
def test_a_host_outside_the_rule_makes_no_prefix(host: str) -> None:
    with pytest.raises(ParseError):
        rep_prefix(host, 80)


@pytest.mark.proves("GEN-30", "GEN-45", "AMB-17")
@given(text=any_text | st.decimals(allow_nan=True).map(str) | st.fractions().map(str))
@MANY
def test_a_granularity_outside_g_is_refused(text: str) -> None:
    try:
        ticks = parse_granularity(text)
    except ParseError:
        return
    assert ticks in GRANULARITIES
    assert Fraction(text) * TICKS == ticks
    assert parse_granularity(granularity_text(ticks)) == ticks


@pytest.mark.proves("GEN-30")
def test_every_granularity_is_read_in_decimal_and_as_a_fraction() -> None:
    assert parse_granularity("60") == 60 * TICKS
    for power in range(10):
        ticks = TICKS // 10**power
        assert parse_granularity(f"1/{10**power}" if power else "1") == ticks
        assert parse_granularity(granularity_text(ticks)) == ticks
        assert Fraction(granularity_text(ticks)) == Fraction(1, 10**power)


@pytest.mark.proves("AMB-06", "AMB-07")
@given(fraction=st.from_regex(r"[0-9]{1,40}", fullmatch=True))
@MANY
def test_order_by_time_is_the_order_of_the_moments(fraction: str) -> None:
    first = UniformRepositoryName.parse(f"a.org/b/2009/02.16.17.46.00.{fraction}")
    second = UniformRepositoryName.parse("a.org/b/2009/02.16.17.46.00.5")
    if Fraction(f"0.{fraction}") != Fraction(1, 2):
        assert (first < second) == (Fraction(f"0.{fraction}") < Fraction(1, 2))


@pytest.mark.proves("GEN-07", "SVC-04", "AMB-20", "AMB-58")
@given(rep=st.none() | repositories(), ibip=st.none() | ibips())
@MANY
def test_ibi_forms_write_what_they_read(rep: str | None, ibip: str | None) -> None:
    words = [word for kind, text in (("rep", rep), ("ibip", ibip)) if text for word in (kind, text)]
    if not words:
        return
    forms = IBIForms.from_words(tuple(words))
    assert forms.words == tuple(words)
    assert IBIForms.parse(str(forms)) == forms
    assert forms.shares(
        IBIForms.parse(str(forms).swapcase().replace("REP ", "rep ").replace("IBIP ", "ibip "))
    )
    assert len(forms.canonicals) == len(words) // 2
