"""JSON that two programs could read as two values is refused; everything else is read as it stands."""

from __future__ import annotations

from typing import Any

import pytest

from ibi.runtime.strict_json import NameTwice, read_strict_json


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (
            b'{"a": 1.5, "b": [-0.25, 1e3], "c": {"a": null}}',
            {"a": 1.5, "b": [-0.25, 1000.0], "c": {"a": None}},
        ),
        (b'[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ('"é"'.encode(), "é"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (bytearray(b"true"), True),
    ],
)
def test_a_value_is_read_as_it_stands(body: bytes | bytearray, value: Any) -> None:
    assert read_strict_json(body) == value


@pytest.mark.parametrize(
    "body",
    [
        b"NaN",
        b"[Infinity]",
        b'{"a": -Infinity}',
        b"1e999",
        b"-1e999",
        b'"\\ud800"',
        b'{"\\udfff": 1}',
        b'"\xe9"',
        b"",
    ],
)
def test_what_is_no_value_everywhere_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of several libraries, each with words of its own
        read_strict_json(body)


@pytest.mark.parametrize("body", [b'{"a": 1, "a": 1}', b'[{"b": {"a": 1, "\\u0061": 2}}]'])
def test_a_name_twice_is_refused(body: bytes) -> None:
    with pytest.raises(NameTwice):
        read_strict_json(body)
