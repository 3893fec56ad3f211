"""Dicts of bounded size, in which the newest entry stands last."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

_K = TypeVar("_K", bound="Hashable")
_V = TypeVar("_V")


def put_newest(known: dict[_K, _V], key: _K, value: _V, most: int) -> None:
    """Put an entry at the end of a dict, from which the oldest goes if it has more than `most` then."""
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]
