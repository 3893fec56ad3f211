"""Registration keys: made strong, kept only as argon2 hashes, compared at one cost whatever the answer (threat T16)."""

from __future__ import annotations

import secrets
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

STRONG_KEY_DIGITS: Final = 20
"""Keys with fewer digits are valid (MSG-21), but a stolen database gives them away: accepted with a warning."""


def strong_key() -> str:
    """A new registration key that nobody guesses: two numbers of 20 digits."""
    return f"{secrets.randbelow(10**20):020d}-{secrets.randbelow(10**20):020d}"


def is_weak_key(key: str) -> bool:
    """Whether a valid key has so few digits that it can be found from its hash."""
    return sum(char != "-" for char in key) < STRONG_KEY_DIGITS


def hash_key(key: str) -> str:
    """What is kept of a key; slow on purpose."""
    return _hasher().hash(key)


def is_hash_of(kept: str, key: str) -> bool:
    """Whether a hash was made of this key; slow on purpose."""
    try:
        return _hasher().verify(kept, key)
    except (VerificationError, InvalidHashError):
        return False


@cache
def decoy_hash() -> str:
    """What the key of an unknown Archive is compared with, so that the time tells nothing."""
    return hash_key(strong_key())


@cache
def _hasher() -> PasswordHasher:
    """Argon2id with 19 MiB and two passes: what OWASP asks for, and bearable when many Archives start at once."""
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
