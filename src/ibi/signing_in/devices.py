"""Browsers in which somebody has signed in before: what strangers try meanwhile does not keep them out (threat T44).

A cookie of such a browser is a random number with a seal that only the password hash of its account makes. It opens
nothing, tells nothing, and is good for nothing once the password is another.
"""

from __future__ import annotations

import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ibi.signing_in.accounts import Account

REMEMBERED: Final = 365 * 86_400.0
"""Seconds for which a browser is known after somebody has signed in there."""

_BYTES: Final = 16
_COOKIE: Final = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{64}")


def device_of(cookie: str, account: Account | None) -> str:
    """The number of the browser in which this account has signed in before; "" where that is not so."""
    if account is None or not _COOKIE.fullmatch(cookie):
        return ""
    device, seal = cookie.split(".")
    return device if hmac.compare_digest(seal, _seal(device, account)) else ""


def device_cookie(device: str, account: Account) -> str:
    """What a browser keeps, in which this account has just signed in; `device` "" gives it a new number."""
    device = device or secrets.token_hex(_BYTES)
    return f"{device}.{_seal(device, account)}"


def _seal(device: str, account: Account) -> str:
    return hmac.digest(account.hash.encode(), f"device {device}".encode(), "sha256").hex()
