"""The bounds of every number among the settings, at both edges and just beyond them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ibi.errors import ParseError, SetupError
from ibi.runtime.settings.rules import (
    ARCHIVE_BOUNDS,
    ARCHIVE_RULES,
    RESOLVER_BOUNDS,
    RESOLVER_RULES,
    bucket_and_prefix,
    with_point,
)

Rules = Mapping[str, Callable[[str, Any], None]]
FRACTIONS_OF_A_RESOLVER: dict[str, tuple[float, float]] = {
    "connect_seconds": (0.05, 30),
    "archive_seconds": (0.1, 60),
    "overall_seconds": (0.2, 120),
    "hedge_seconds": (0, 10),
    "grace_seconds": (0, 10),
    "stale_after_seconds": (0, 60),
    "request_rate": (0, 100_000),
}
WHOLE_OF_A_RESOLVER: dict[str, tuple[float, float]] = {
    "stale_seconds": (0, 31_536_000),
    "lease_seconds_at_most": (0, 86_400),
    "negative_seconds": (0, 86_400),
    "redirect_seconds": (0, 60),
    "redirect_mebibytes": (1, 65_536),
    "original_days": (1, 36_500),
    "request_burst": (1, 1_000_000),
}
FRACTIONS_OF_AN_ARCHIVE: dict[str, tuple[float, float]] = {
    "page_rate": (0, 100_000),
    "costly_rate": (0, 100_000),
}
WHOLE_OF_AN_ARCHIVE: dict[str, tuple[float, float]] = {
    "reuse_seconds": (0, 86_400),
    "largest_upload": (1, 1_125_899_906_842_624),
    "audit_days": (0, 3_650),
    "refresh_hours": (0, 8_760),
    "page_burst": (1, 1_000_000),
    "costly_burst": (1, 1_000_000),
    "mint_port": (1, 65_535),
    "mint_ip_port": (1, 65_535),
}


def _cases() -> list[tuple[Rules, str, float, float, str]]:
    return [
        (rules, name, least, most, kind)
        for rules, bounds, kind in (
            (RESOLVER_RULES, FRACTIONS_OF_A_RESOLVER, "number"),
            (RESOLVER_RULES, WHOLE_OF_A_RESOLVER, "whole number"),
            (ARCHIVE_RULES, FRACTIONS_OF_AN_ARCHIVE, "number"),
            (ARCHIVE_RULES, WHOLE_OF_AN_ARCHIVE, "whole number"),
        )
        for name, (least, most) in bounds.items()
    ]


def test_every_number_is_here() -> None:
    assert FRACTIONS_OF_A_RESOLVER.keys() | WHOLE_OF_A_RESOLVER.keys() == RESOLVER_BOUNDS.keys()
    assert FRACTIONS_OF_AN_ARCHIVE.keys() | WHOLE_OF_AN_ARCHIVE.keys() == ARCHIVE_BOUNDS.keys()


@pytest.mark.parametrize(
    ("rules", "name", "least", "most", "kind"), _cases(), ids=[name for _, name, *_ in _cases()]
)
def test_a_number_may_be_its_least_and_its_most_and_nothing_beyond(
    rules: Rules, name: str, least: float, most: float, kind: str
) -> None:
    for value in (least, most):
        rules[name](name, value)
    step = 1 if kind == "whole number" else 0.01
    refused: list[object] = [
        least - step,
        most + step,
        True,
        str(least),
        *([] if kind == "number" else [most - 0.5]),
    ]
    for wrong in refused:
        with pytest.raises(SetupError) as found:
            rules[name](name, wrong)
        assert str(found.value) == f"{name} is a {kind} from {least} to {most}"


@pytest.mark.parametrize("name", ["metrics_networks"])
def test_networks_of_a_resolver(name: str) -> None:
    RESOLVER_RULES[name](name, ("10.0.0.0/8", "2001:db8::/32", "127.0.0.1"))
    with pytest.raises(SetupError, match=r"this is no address or network: 10\.0\.0\.1/8 has host bits set"):
        RESOLVER_RULES[name](name, ("10.0.0.1/8",))


@pytest.mark.parametrize("name", ["networks", "trusted_resolvers", "trusted_proxies", "metrics_networks"])
def test_networks_of_an_archive(name: str) -> None:
    ARCHIVE_RULES[name](name, ("10.0.0.0/8",))
    with pytest.raises(SetupError, match="this is no address or network: 'example' does not appear"):
        ARCHIVE_RULES[name](name, ("10.0.0.0/8", "example"))


LONGEST_ADDRESS = f"{'a' * 64}@{'b' * 253}"


@pytest.mark.parametrize("text", ["", "a@b", "a.b+c@example.org", LONGEST_ADDRESS])
def test_a_plain_mail_address(text: str) -> None:
    RESOLVER_RULES["admin"]("admin", text)


@pytest.mark.parametrize(
    "value", ["a", "@b", "a@", "a@.b", "a b@c", f"a{LONGEST_ADDRESS}", f"{LONGEST_ADDRESS}b", 7]
)
def test_what_is_no_plain_mail_address_is_told_shortened(value: object) -> None:
    with pytest.raises(SetupError) as found:
        RESOLVER_RULES["admin"]("admin", value)
    assert str(found.value) == f"this is not a plain mail address: {str(value)[:80]}"


@pytest.mark.parametrize("text", ["", "/", "/internal/"])
def test_a_place_inside_nginx(text: str) -> None:
    ARCHIVE_RULES["accel_prefix"]("accel_prefix", text)


@pytest.mark.parametrize(
    "text", ["internal/", "/a b/", "/a?", "/a#", "/a%20/", "/a\\", "/../", "/é/", "/a\n"]
)
def test_what_is_no_place_inside_nginx_is_told(text: str) -> None:
    with pytest.raises(SetupError) as found:
        ARCHIVE_RULES["accel_prefix"]("accel_prefix", text)
    assert str(found.value) == (
        f"the internal location is a path such as /internal/, and this is not: {text}"
    )


@pytest.mark.parametrize(
    ("typed", "read"),
    [("0,05", "0.05"), (" 1,5 ", "1.5"), ("1,000", "1,000"), ("0.05", "0.05"), ("a,b", "a,b")],
)
def test_a_decimal_comma_is_read_where_it_can_be_nothing_else(typed: str, read: str) -> None:
    assert with_point(typed) == read


@pytest.mark.parametrize(
    ("name", "words"), [("policy", "hardened, strict"), ("registration", "closed, form")]
)
def test_a_setting_with_a_choice_is_one_of_its_words(name: str, words: str) -> None:
    for word in words.split(", "):
        RESOLVER_RULES[name](name, word)
    for value in ("soft", "", "Strict", 1, None):
        with pytest.raises(SetupError) as refused:
            RESOLVER_RULES[name](name, value)
        assert str(refused.value) == f"{name} is one of: {words}"


LONGEST_BUCKET = f"a{'b' * 61}c"


@pytest.mark.parametrize(
    ("place", "read"),
    [
        ("s3://abc", ("abc", "")),
        ("s3://a.1/Files/of._-x", ("a.1", "Files/of._-x")),
        (f"s3://{LONGEST_BUCKET}/9", (LONGEST_BUCKET, "9")),
        *(
            (f"s3://{rest}", None)
            for rest in ("ab", f"x{LONGEST_BUCKET}", "-ab", "ab-", "aBc", "abc/", "abc//x", "abc/.x", "abc/é")
        ),
        ("s3:/abc", None),
        (" s3://abc", None),
    ],
)  # fmt: skip
def test_a_place_of_files_is_a_bucket_and_perhaps_a_prefix(place: str, read: tuple[str, str] | None) -> None:
    if read is not None:
        assert bucket_and_prefix(place) == read
        return
    with pytest.raises(SetupError) as refused:
        bucket_and_prefix(place)
    assert str(refused.value) == f"files are kept in a place like s3://bucket/prefix, and not in {place}"


@pytest.mark.parametrize("rules", [RESOLVER_RULES, ARCHIVE_RULES], ids=["resolver", "archive"])
def test_a_store_is_the_url_of_a_database_and_is_never_told(rules: Rules) -> None:
    for text in ("", "postgresql://a/b", "postgres://user:secret@a:1/b?sslmode=verify-full"):
        rules["store"]("store", text)
    for text in (
        "a",
        "postgresql",
        "postgresql://",
        "postgres://a",
        "postgres://a/",
        "mysql://a/b",
        "postgresql://a?x/b",
    ):
        with pytest.raises(SetupError) as refused:
            rules["store"]("store", text)
        assert str(refused.value) == (
            "a store is a URL such as postgresql://user:password@host/database, and this is not"
        )


@pytest.mark.parametrize("rules", [RESOLVER_RULES, ARCHIVE_RULES], ids=["resolver", "archive"])
def test_a_public_url_is_a_root_and_is_told_shortened(rules: Rules) -> None:
    for text in ("", "http://a.example", "https://a.example:8443/"):
        rules["public_url"]("public_url", text)
    for text in (
        "a.example",
        "ftp://a.example",
        "https://",
        "https:///",
        "https://a.example/b",
        f"http://{'a b' * 30}",
    ):
        with pytest.raises(SetupError) as refused:
            rules["public_url"]("public_url", text)
        assert str(refused.value) == (
            "a public URL is a scheme and a host, such as https://archive.example, and this is not: "
            f"{text[:80]}"
        )


def test_rules_that_another_part_of_the_program_has() -> None:
    for name, good, wrong in (
        ("mint_ip", ("", "192.0.2.1", "2001:db8::1"), ("a.example", "192.0.2.256")),
        ("granularity", ("60", "1", "0.1"), ("", "5")),
    ):
        for text in good:
            ARCHIVE_RULES[name](name, text)
        for text in wrong:
            with pytest.raises(ParseError):
                ARCHIVE_RULES[name](name, text)
