"""Registration keys: made strong, kept only as argon2 hashes, compared at one cost whatever the answer (threat T16)."""

from __future__ import annotations

import hmac
import re
import secrets
from functools import cache
from hashlib import sha256
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

STRONG_KEY_DIGITS: Final = 20
"""Keys with fewer digits are valid (MSG-21), but a stolen database gives them away: accepted with a warning."""

CHALLENGE_SECONDS: Final = 600
"""How long a challenge holds."""

_CHALLENGE = re.compile(r"[0-9]{1,12}-[0-9a-f]{32}-[0-9a-f]{64}")


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


def seal_of(kept: str) -> str:
    """A secret that is drawn from what is kept of a key, and changes with it."""
    return sha256(kept.encode()).hexdigest()


def challenge(seal: str, service_ibi: str, now: float) -> str:
    """What an Archive that wants a new key has to prove that it was told (note 34); good for ten minutes.

    Nobody keeps it: it is sealed with what only the registry knows, and void once the key has changed.
    """
    told = f"{int(now) + CHALLENGE_SECONDS}-{secrets.token_hex(16)}"
    return f"{told}-{_signature(seal, service_ibi, told)}"


def is_challenge(text: str, seal: str, service_ibi: str, now: float) -> bool:
    """Whether a text is a challenge that was given to this Archive, and still holds."""
    told, _, signature = text.rpartition("-")
    until = told.partition("-")[0]
    if not (
        _CHALLENGE.fullmatch(text) and hmac.compare_digest(signature, _signature(seal, service_ibi, told))
    ):
        return False
    return now <= int(until)


def proof_of(text: str, address: str) -> str:
    """What the Archive shows at /-/nonce to prove that it was told a challenge, without telling it to others.

    `address` is that of the resolver, as the Archive knows it: a challenge that another resolver passes on proves
    nothing here.
    """
    return sha256(f"{text} {address}".encode()).hexdigest()[:32]


def _signature(seal: str, service_ibi: str, told: str) -> str:
    return hmac.new(seal.encode(), f"{service_ibi} {told}".encode(), sha256).hexdigest()


@cache
def decoy_hash() -> str:
    """What the key of an unknown Archive is compared with, so that the time tells nothing."""
    return hash_key(strong_key())


@cache
def _hasher() -> PasswordHasher:
    """Argon2id with 19 MiB and two passes: what OWASP asks for, and bearable when many Archives start at once."""
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
