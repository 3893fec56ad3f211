"""Opaque ids from before the standard, as they are still published."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.errors import ParseError
from ibi.identifier.forms import parse_name
from ibi.identifier.ibip import IBIp, canonical_ip
from ibi.identifier.legacy import OPAQUE, LegacyId
from ibi.identifier.repository import UniformRepositoryName

pytestmark = pytest.mark.proves("WILD-02")

WILD = Path(__file__).parents[3] / "conformance/wild"
IDENTIFIERS = [
    json.loads(line) for line in (WILD / "real_identifiers.jsonl").read_text(encoding="utf-8").splitlines()
]
PAIRS = [json.loads(line) for line in (WILD / "real_pairs.jsonl").read_text(encoding="utf-8").splitlines()]
LEGACY = [record["ibi"] for record in IDENTIFIERS if record["form"] == "other"]
IBIS = [record["ibi"] for record in IDENTIFIERS if record["form"] != "other"]
LEGACY_PAIRS = [pair for pair in PAIRS if pair["legacy"]]
LATIN = st.text("6qtX3pFwQZ59YCTUaJ/gl0OI1W-", max_size=40)


def test_the_wild_holds_seven_opaque_ids_and_ten_pairs() -> None:
    assert (len(LEGACY), len(LEGACY_PAIRS)) == (7, 10)


@pytest.mark.parametrize("text", LEGACY)
def test_every_opaque_id_of_the_wild_is_recognised(text: str) -> None:
    name = parse_name(text)

    assert isinstance(name, LegacyId)
    assert (str(name), name.canonical) == (text, text)
    assert f"{name.prefix}/{name.suffix}" == text
    assert name.date.text is not None
    assert "1995-08" < name.date.text < "2009"


@pytest.mark.parametrize("pair", LEGACY_PAIRS, ids=lambda pair: f"{pair['rep']} {pair['ibip']}")
def test_an_opaque_id_spells_the_time_of_the_name_it_is_published_with(pair: dict[str, object]) -> None:
    opaque = LegacyId.parse(str(pair["ibip"])).date
    name = UniformRepositoryName.parse(str(pair["rep"])).date

    assert opaque.seconds is not None
    assert name.seconds is not None
    assert name.seconds - opaque.seconds == pair["diff_s"]


@pytest.mark.parametrize("pair", LEGACY_PAIRS, ids=lambda pair: f"{pair['rep']} {pair['ibip']}")
def test_an_opaque_id_spells_the_address_it_is_published_with(pair: dict[str, object]) -> None:
    opaque = LegacyId.parse(str(pair["ibip"]))

    if pair["ip"]:
        assert (opaque.generation, opaque.ip, opaque.host) == (2, pair["ip"], None)
    else:
        assert (opaque.generation, opaque.ip) == (1, None)
        assert opaque.host == UniformRepositoryName.parse(str(pair["rep"])).host


@pytest.mark.parametrize(
    ("text", "ip", "host", "port"),
    [
        ("APM77Z/UaJFT", "127.0.0.1", None, None),
        ("6RPa7umaZ/UaJFT", "192.168.1.100", None, None),
        ("6qtX3pFwXQZ3r59YCT/GUQnU", None, "iris.sid.inpe.br", 1905),
        ("6qtX3pFwXQZGivnK2Y/SskcB", None, "mtc-m17.sid.inpe.br", 80),
        ("CBnmVX32PXQZeBBx/qg53m", None, "banon.iconet.com.br", None),
        ("6qtX3pFwXQZ222/qg53m", None, None, None),  # zeros spell no word
    ],
)
def test_a_prefix_tells_the_address_or_the_host_of_its_time(
    text: str, ip: str | None, host: str | None, port: int | None
) -> None:
    name = LegacyId.parse(text)
    assert (name.ip, name.host, name.port) == (ip, host, port)


@pytest.mark.parametrize(
    ("coded", "port"),
    [
        ("2", None),  # zero
        ("3", 1),
        ("22223", 1),
        ("222223", None),
        (OPAQUE.write(65535), 65535),
        (OPAQUE.write(65536), None),
    ],
)
def test_a_port_is_one_that_a_computer_has(coded: str, port: int | None) -> None:
    assert LegacyId.parse(f"6RPa7umaZ{coded}/UaJFT").port == port


def test_words_with_zeros_before_them_are_read_up_to_a_length() -> None:
    assert LegacyId.parse(f"{'2' * 7}6RPa7umaZ/UaJFT").ip == "192.168.1.100"
    with pytest.raises(ParseError) as raised:
        LegacyId.parse(f"{'2' * 8}6RPa7umaZ/UaJFT")
    assert str(raised.value) == "the word before Z spells no IP address"
    assert (raised.value.start, raised.value.end) == (0, 16)
    hosts = [LegacyId.parse(f"6qtX3pFwXQZ{'2' * zeros}GivnK2/SskcB").host for zeros in (58, 59)]
    assert hosts == ["mtc-m17.sid.inpe.br", None]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(60_000, False), (60_001, True), (60_059, True), (60_060, False)]
)
def test_a_full_minute_shows_no_seconds(seconds: int, shown: bool) -> None:
    date = LegacyId.parse(f"6RPa7umaZ/{OPAQUE.write(seconds)}").date
    assert (date.seconds, date.shows_seconds) == (807235200 + seconds, shown)


def test_upper_and_lower_case_are_different_ids() -> None:
    name = LegacyId.parse("6RPa7umaZ/UaJFT")

    assert name == LegacyId.parse("6RPa7umaZ/UaJFT")
    assert name != LegacyId.parse("6RPa7umaZ/UaJFt")
    assert len({name, LegacyId.parse("6RPa7umaZ/UaJFT"), LegacyId.parse("6RPa7umaZ/uaJFT")}) == 2


def test_ids_are_ordered_by_time_and_never_change() -> None:
    older, newer = LegacyId.parse("83LX3pFwXQZeBBx/65ij"), LegacyId.parse("6RPa7umaZ/UaJFT")

    assert older < newer
    assert copy.deepcopy(older) == older
    with pytest.raises(AttributeError):
        older.canonical = "other"


@pytest.mark.parametrize("text", IBIS)
def test_no_ibi_of_the_wild_is_taken_for_an_opaque_id(text: str) -> None:
    with pytest.raises(ParseError):
        LegacyId.parse(text)


@given(st.ip_addresses(v=4), st.integers(1, 65535), st.integers(807235200, 4102444800))
def test_no_ibip_is_ever_an_opaque_id(ip: object, port: int, seconds: int) -> None:
    for text in (
        str(IBIp.make(str(ip), port, seconds * 10**9)),
        str(IBIp.make(str(ip), port, seconds * 10**9)).lower(),
    ):
        with pytest.raises(ParseError):
            LegacyId.parse(text)


@given(LATIN)
def test_a_text_is_an_opaque_id_or_the_one_parse_error(text: str) -> None:
    try:
        name = LegacyId.parse(text)
    except ParseError:
        return
    assert LegacyId.parse(str(name)) == name
    assert name.date.text
    assert name.ip is None or canonical_ip(name.ip) == name.ip
    assert name.host is None or "." in name.host
    assert name.port is None or 0 < name.port < 65536
    with pytest.raises(ParseError):
        IBIp.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "Z/UaJFT",
        "abcZ/UaJFT",  # no IP address
        "6RPa7umaZ/UaJFT\n",
        "6RPa7umaZ/UaJFT/",
        "6RPa7umaZ/Ua",  # no date
        "6RPa7umaZ/UaJFTUaJFT",
        "6RPa7uma/UaJFT",
        "6RPa7umaW/UaJFT",
        "6qtX3pFwXQ/GUQnU",
        "6qtXX3pFwXQZ3r59/GUQnU",
        "6RPa7umaZ\uff15/UaJFT",
        "lRPa7umaZ/UaJFT",
        "6" * 200 + "Z/UaJFT",
        "6" * 60 + "Z/UaJFT",
        "6X" * 63 + "Z/UaJFT",
        "X" * 100_000,
    ],
)
def test_what_is_no_opaque_id_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        LegacyId.parse(text)
