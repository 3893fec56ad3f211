"""Passwords: long enough, kept only as argon2 hashes, compared at one cost whatever the answer (threat T44).

What is asked of them follows NIST SP 800-63B: a length, no rules of composition, nothing that anybody would try first.
"""

from __future__ import annotations

import secrets
from functools import cache
from typing import Final
from unicodedata import normalize

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ibi.errors import IbiError

SHORTEST: Final = 12
"""Characters of a password, at least."""
LONGEST: Final = 200
"""Characters of a password, at most: what is longer only costs time."""

_FEWEST_DIFFERENT: Final = 5
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another
_GROUPS, _IN_GROUP = 5, 5  # 124 random bits


def new_password() -> str:
    """A password that nobody guesses and everybody can copy from paper: five groups of five letters and digits."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(_IN_GROUP)) for _ in range(_GROUPS))


def check_password(password: str, account: str) -> None:
    """Refuse a password that would be among the first to be tried. Raises IbiError, which says what to do."""
    text = _normal(password[: LONGEST + 1])
    if len(text) < SHORTEST:
        raise IbiError("a password has at least {least} characters; a few words are good", least=SHORTEST)
    if max(len(text), len(password)) > LONGEST:
        raise IbiError("a password has at most {most} characters", most=LONGEST)
    if len(set(text)) < _FEWEST_DIFFERENT or account.lower() in text.lower():
        raise IbiError("this password is easy to guess; choose one without the name of the account")


def hash_password(password: str) -> str:
    """What is kept of a password; slow on purpose."""
    return _hasher().hash(_normal(password))


def is_hash_of(kept: str, password: str) -> bool:
    """Whether a hash was made of this password; slow on purpose, also for one that is too long."""
    try:
        return _hasher().verify(kept, _normal(password[: LONGEST + 1]))
    except (VerificationError, InvalidHashError):
        return False


@cache
def decoy_hash() -> str:
    """What the password of an unknown account is compared with, so that the time tells nothing."""
    return hash_password(new_password())


def _normal(password: str) -> str:
    """One spelling, whatever keyboard it was typed on."""
    return normalize("NFKC", password)


@cache
def _hasher() -> PasswordHasher:
    """Argon2id with 19 MiB and two passes, as for registration keys: what OWASP asks for."""
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
