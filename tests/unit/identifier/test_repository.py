"""Uniform repository names as values."""

import pickle

import pytest

from ibi.errors import ParseError
from ibi.identifier.dates import TICKS
from ibi.identifier.repository import UniformRepositoryName, rep_prefix, rep_suffix

PRINTED = "sid.inpe.br/mtc-m18@80/2009/02.16.17.46"


@pytest.mark.proves("GEN-01", "GEN-10", "GEN-11", "GEN-12", "GEN-21", "GEN-22", "CON-06", "AMB-02", "AMB-04")
def test_a_name_tells_its_parts() -> None:
    name = UniformRepositoryName.parse(PRINTED)
    assert str(name) == PRINTED
    assert (name.prefix, name.suffix) == ("sid.inpe.br/mtc-m18@80", "2009/02.16.17.46")
    assert name.path == ("sid.inpe.br", "mtc-m18@80", "2009", "02.16.17.46")
    assert (name.subdomain, name.word, name.separator, name.port) == ("sid.inpe.br", "mtc-m18", "@", 80)
    assert name.host == "mtc-m18.sid.inpe.br"
    assert (name.year, name.month, name.day, name.hour, name.minute) == ("2009", "02", "16", "17", "46")
    assert (name.second, name.fraction) == (None, "")
    assert name.date.text == "2009-02-16T17:46:00Z"
    assert name.date.precision == 60


def test_a_name_without_a_port_says_so() -> None:
    name = UniformRepositoryName.parse("sid.inpe.br/mtc-m19/2013/09.04.12.27.57.05")
    assert (name.word, name.separator, name.port) == ("mtc-m19", "", None)
    assert (name.second, name.fraction, name.date.precision) == ("57", "05", 0.01)


@pytest.mark.proves("GEN-13")
def test_case_does_not_matter_but_the_spelling_is_kept() -> None:
    shouted = UniformRepositoryName.parse(PRINTED.upper())
    assert shouted == UniformRepositoryName.parse(PRINTED)
    assert len({shouted, UniformRepositoryName.parse(PRINTED)}) == 1
    assert str(shouted) == PRINTED.upper()
    assert shouted.canonical == PRINTED


@pytest.mark.proves("AMB-03")
def test_the_three_spellings_of_port_80_are_three_names() -> None:
    spellings = ["sid.inpe.br/mtc-m18@80", "sid.inpe.br/mtc-m18.80", "sid.inpe.br/mtc-m18"]
    assert len({UniformRepositoryName.parse(f"{prefix}/2009/02.16.17.46") for prefix in spellings}) == 3


@pytest.mark.proves("AMB-13")
def test_dates_that_no_calendar_has_are_read_and_have_no_moment() -> None:
    for text in (
        "a.br/b/2009/99.16.17.46",
        "a.br/b/2009/02.30.17.46",
        "a.br/b/12020/01.02.03.04",
        "a.br/b/2009/01.02.03.60",
    ):
        assert UniformRepositoryName.parse(text).date.seconds is None


def test_a_moment_on_the_full_second_is_never_normalised_away() -> None:
    shown = UniformRepositoryName.parse("dpi.inpe.br/banon/2004/02.16.09.30.00")
    assert shown != UniformRepositoryName.parse("dpi.inpe.br/banon/2004/02.16.09.30")
    assert shown.date.text == "2004-02-16T09:30:00Z"


def test_names_sort_by_time() -> None:
    texts = [
        "a.br/b/2009/99.01.01.01",
        "a.br/z/2009/02.16.17.46",
        "a.br/b/2009/02.16.17.46.05",
        "a.br/a/2010/01.01.01.01",
    ]
    assert [str(name) for name in sorted(map(UniformRepositoryName.parse, reversed(texts)))] == texts


def test_a_name_never_changes_and_survives_copying() -> None:
    name = UniformRepositoryName.parse(PRINTED)
    with pytest.raises(AttributeError, match="never changes"):
        name.canonical = "other"
    assert pickle.loads(pickle.dumps(name)) == name  # noqa: S301 - our own bytes


@pytest.mark.proves("GEN-14", "GEN-19")
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("sid.inpe.br/mtc_m18/2020/01.02.03.04", "_"),
        ("sid.inpe.br/-mtc/2020/01.02.03.04", "-mtc"),
        ("sid.inpe.br/mtc-/2020/01.02.03.04", "mtc-"),
        ("163.2.174/150/2020/01.02.03.04", "163.2.174"),
        ("sid.inpe.br/mtc/202/01.02.03.04", "202"),
        ("sid.inpe.br/mtc/2020/1.02.03.04", "1.02.03.04"),
        ("sid.inpe.br/mtc/2020/01.02.03.04-RPQ", "01.02.03.04-RPQ"),
        ("sid.inpe.br/mtc@/2020/01.02.03.04", "mtc@"),
        ("sid.inpe.br/mtc/2020/01.02.03.04/x", "/x"),
        ("sid.inpe.br/mtc/2020/01.02.03.0４", "４"),
    ],
)
def test_the_part_at_fault_is_pointed_at(text: str, part: str) -> None:
    with pytest.raises(ParseError) as fault:
        UniformRepositoryName.parse(text)
    assert text[fault.value.start : fault.value.end] == part


PARTS = "it has four parts with slashes between them: subdomain/word/year/month.day.hour.minute"
SUBDOMAIN = "the subdomain is words of letters, digits and inner hyphens, the last starting with a letter"
WORD = "the word is letters, digits and inner hyphens, then perhaps a port after a point or an @"
DATE = "the date is month.day.hour.minute, two digits each, then perhaps .second"


@pytest.mark.parametrize(
    ("text", "problem", "start", "end"),
    [
        ("a.br/b/2009", PARTS, 0, 11),
        ("a.br/b/2009/01.02.03.04/x/y", PARTS, 23, 27),
        ("/b/2009/01.02.03.04", SUBDOMAIN, 0, 1),
        ("a.br//2009/01.02.03.04", WORD, 5, 6),
        ("a.br/b@x/2009/01.02.03.04", WORD, 5, 8),
        ("a.br/b//01.02.03.04", "the year has at least four digits", 7, 8),
        ("a.br/b/2009/", DATE, 12, 12),
        ("a.br/b/2009/01_02.03.04", DATE, 14, 15),
        ("a.br/b/2009/01.02.03.04.05.", DATE, 12, 27),
        ("a" * 514, "it is longer than 512 characters", 512, 514),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, problem: str, start: int, end: int) -> None:
    with pytest.raises(ParseError) as fault:
        UniformRepositoryName.parse(text)
    assert (str(fault.value), fault.value.start, fault.value.end) == (problem, start, end)


@pytest.mark.parametrize(
    "text", [f"{PRINTED}\n", f" {PRINTED}", "", "/", "a" * 600, "a.br/b/2009/" + "1" * 5000]
)
def test_nothing_around_a_name_is_tolerated(text: str) -> None:
    with pytest.raises(ParseError):
        UniformRepositoryName.parse(text)


def test_a_port_that_no_computer_has_is_none() -> None:
    assert UniformRepositoryName.parse("a.br/b.99999/2009/02.16.17.46").port is None
    assert UniformRepositoryName.parse("a.br/b.0/2009/02.16.17.46").port is None
    ports = ("1", "65535", "65536", "0080", "000000080")
    found = [UniformRepositoryName.parse(f"a.br/b.{port}/2009/02.16.17.46").port for port in ports]
    assert found == [1, 65535, None, 80, 80]
    assert UniformRepositoryName.parse("a.br/b." + "9" * 300 + "/2009/02.16.17.46").port is None


@pytest.mark.proves("GEN-15", "GEN-16", "GEN-23", "AMB-01")
def test_only_the_first_dot_of_a_host_separates() -> None:
    assert rep_prefix("mtc-m18.sid.inpe.br", 80) == "sid.inpe.br/mtc-m18"
    assert rep_prefix("MTC-m18.sid.inpe.br.", 8080) == "sid.inpe.br/mtc-m18.8080"
    assert rep_prefix("a.b.cd") != rep_prefix("a.bc.d")


@pytest.mark.proves("GEN-16")
def test_port_800_is_nothing_special_here() -> None:
    assert rep_prefix("a.example.org", 800) == "example.org/a.800"


@pytest.mark.proves("AMB-05")
@pytest.mark.parametrize(
    "host", ["localhost", "150.163.2.174", "", ".", "a..br", "a_b.example.org", "-a.example.org", "a b.org"]
)
def test_hosts_that_no_label_can_be_made_of_are_refused(host: str) -> None:
    with pytest.raises(ParseError):
        rep_prefix(host)


@pytest.mark.proves("GEN-18", "GEN-20", "AMB-06")
def test_a_suffix_shows_as_little_as_it_can_and_keeps_leading_zeros() -> None:
    second = 1234806360 * TICKS
    assert rep_suffix(second) == "2009/02.16.17.46"
    assert rep_suffix(second + 7 * TICKS) == "2009/02.16.17.46.07"
    assert rep_suffix(second + TICKS // 2) == "2009/02.16.17.46.00.5"
    assert rep_suffix(second + TICKS // 20) == "2009/02.16.17.46.00.05"


@pytest.mark.proves("GEN-12")
def test_made_names_have_a_point_before_the_port() -> None:
    assert str(UniformRepositoryName.make("mtc-m18.sid.inpe.br", 8080, 1234806360 * TICKS)).startswith(
        "sid.inpe.br/mtc-m18.8080/"
    )
