"""Registration keys and challenges for new ones, and how a key is hashed and compared (threats T15 and T16)."""

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
"""Keys with fewer digits are valid (MSG-21: the form of a key), but a stolen database gives them away: accepted with
a warning."""

CHALLENGE_SECONDS: Final = 600
"""How long a challenge is valid."""

_CHALLENGE = re.compile(r"[0-9]{1,12}-[0-9a-f]{32}-[0-9a-f]{64}")


def strong_key() -> str:
    """Make a registration key that cannot be guessed: two numbers of 20 digits."""
    return f"{secrets.randbelow(10**20):020d}-{secrets.randbelow(10**20):020d}"


def is_weak_key(key: str) -> bool:
    """Whether a valid key has so few digits that it can be found from its hash."""
    return sum(char != "-" for char in key) < STRONG_KEY_DIGITS


def hash_key(key: str) -> str:
    """Hash a key for the database; slow on purpose."""
    return _hasher().hash(key)


def matches_hash(key_hash: str, key: str) -> bool:
    """Whether a hash was made of this key; slow on purpose."""
    try:
        return _hasher().verify(key_hash, key)
    except (VerificationError, InvalidHashError):
        return False


def challenge_secret(key_hash: str) -> str:
    """Derive the secret that signs challenges for an Archive: it changes with the key."""
    return sha256(key_hash.encode()).hexdigest()


def new_challenge(secret: str, service_ibi: str, now: float) -> str:
    """Make the text that an Archive has to answer with a proof before it gets a new key (note 34: keys)."""
    # Signed instead of stored: a stranger who asks for challenges all day fills no table, and a challenge is void as
    # soon as the key, from which the secret is derived, has changed.
    text = f"{int(now) + CHALLENGE_SECONDS}-{secrets.token_hex(16)}"
    return f"{text}-{_signature(secret, service_ibi, text)}"


def is_challenge(text: str, secret: str, service_ibi: str, now: float) -> bool:
    """Whether a text is a challenge that was made for this Archive, and is still valid."""
    signed, _, signature = text.rpartition("-")
    expires = signed.partition("-")[0]
    if not (
        _CHALLENGE.fullmatch(text) and hmac.compare_digest(signature, _signature(secret, service_ibi, signed))
    ):
        return False
    return now <= int(expires)


def proof_of(challenge: str, address: str) -> str:
    """Return what the Archive shows at /-/nonce to prove that it knows a challenge.

    `address` is that of the resolver, as the Archive knows it.
    """
    # A hash, because every client can read /-/nonce. It includes the address: if a hostile resolver passes on a
    # challenge from here, what the Archive then shows proves nothing at this resolver (T15: keys in logs).
    return sha256(f"{challenge} {address}".encode()).hexdigest()[:32]


def _signature(secret: str, service_ibi: str, text: str) -> str:
    return hmac.new(secret.encode(), f"{service_ibi} {text}".encode(), sha256).hexdigest()


@cache
def decoy_hash() -> str:
    """Return a hash to compare the key of an unknown Archive with, which then takes as long as any other."""
    return hash_key(strong_key())


@cache
def _hasher() -> PasswordHasher:
    # Argon2id with 19 MiB and two passes: the least that OWASP recommends, and still bearable when many Archives
    # switch themselves on at the same time.
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
