"""What the value of a setting may be: one rule for files, the environment, commands, pages and the JSON interface.

A rule is a function of name and value that raises SetupError or ParseError; numbers have their bounds in a
table. Whether a file or a group exists on this machine is no rule, because that may change after a setting
was made. So `archive.store.settings_changes` checks it when the setting is made, and so does its user later.
"""

from __future__ import annotations

import re
from functools import partial
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ParseError, SetupError
from ibi.identifier.dates import granularity_of
from ibi.identifier.ibip import canonical_ip
from ibi.identifier.repository import LAST_PORT
from ibi.protocol.messages import split_hostport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Rule = Callable[[str, Any], None]

Bounds = tuple[float, float]
"""The least and the largest value of a number."""

RESOLVER_BOUNDS: Final[Mapping[str, Bounds]] = {
    "connect_seconds": (0.05, 30),
    "archive_seconds": (0.1, 60),
    "overall_seconds": (0.2, 120),
    "hedge_seconds": (0, 10),
    "grace_seconds": (0, 10),
    "stale_after_seconds": (0, 60),
    "stale_seconds": (0, 31_536_000),
    "lease_seconds_at_most": (0, 86_400),
    "negative_seconds": (0, 86_400),
    "redirect_seconds": (0, 60),
    "redirect_mebibytes": (1, 65_536),
    "original_days": (1, 36_500),
    "request_rate": (0, 100_000),
    "request_burst": (1, 1_000_000),
}
"""The bounds of the numbers of a resolver."""

RESOLVER_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "policy": ("hardened", "strict"),
    "registration": ("closed", "form"),
}
"""The words of each setting of a resolver that is one of a few."""

ARCHIVE_BOUNDS: Final[Mapping[str, Bounds]] = {
    "reuse_seconds": (0, 86_400),
    "largest_upload": (1, 1 << 50),
    "audit_days": (0, 3_650),
    "refresh_hours": (0, 8_760),
    "page_rate": (0, 100_000),
    "page_burst": (1, 1_000_000),
    "costly_rate": (0, 100_000),
    "costly_burst": (1, 1_000_000),
    "mint_port": (1, LAST_PORT),
    "mint_ip_port": (1, LAST_PORT),
}
"""The bounds of the numbers of an Archive."""

WHOLE: Final = frozenset({
    "stale_seconds", "lease_seconds_at_most", "negative_seconds", "redirect_seconds", "redirect_mebibytes",
    "original_days", "request_burst", "reuse_seconds", "largest_upload", "audit_days", "refresh_hours", "page_burst",
    "costly_burst", "mint_port", "mint_ip_port",
})  # fmt: skip
"""The numbers that must be whole."""

_PLAIN_MAIL: Final = re.compile(r"[A-Za-z0-9._~$&'*+=-]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,252}")
_COMMA: Final = re.compile(r"([0-9]+),([0-9]{1,2})", re.ASCII)
_IN_A_BUCKET: Final = re.compile(
    r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9][A-Za-z0-9._-]*)*)", re.ASCII
).fullmatch
_SHOWN: Final = 80  # characters of a faulty value that are shown


def bucket_and_prefix(place: str) -> tuple[str, str]:
    """Return bucket and prefix of "s3://BUCKET/PREFIX". Raises SetupError."""
    found = _IN_A_BUCKET(place)
    if found is None:
        raise SetupError("files are kept in a place like s3://bucket/prefix, and not in {place}", place=place)
    return found[1], found[2].removeprefix("/")


def check_number(bounds: Mapping[str, Bounds], name: str, value: Any) -> None:
    """Refuse a value that is no number within its bounds, or not whole if it must be. Raises SetupError."""
    least, most = bounds[name]
    kind = int if name in WHOLE else int | float
    if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
        problem = "{name} is a whole number from {least} to {most}" if name in WHOLE else (
            "{name} is a number from {least} to {most}"
        )  # fmt: skip
        raise SetupError(problem, name=name, least=least, most=most)


def check_choice(choices: Mapping[str, tuple[str, ...]], name: str, value: Any) -> None:
    """Refuse a value that is none of the words of a setting. Raises SetupError."""
    if value not in choices[name]:
        raise SetupError("{name} is one of: {words}", name=name, words=", ".join(choices[name]))


def with_point(text: str) -> str:
    """Return a number as programs write it, of one that a Brazilian has typed: "0,05"; other texts stay as they are."""
    # Never "1,000", which is a thousand to others.
    comma = _COMMA.fullmatch(text.strip())
    return f"{comma[1]}.{comma[2]}" if comma else text


def is_mail_address(text: str) -> bool:
    """Whether a text is a plain mail address."""
    return _PLAIN_MAIL.fullmatch(text) is not None


def check_admin(_name: str, value: Any) -> None:
    """Refuse a value that is neither a plain mail address nor "" (none). Raises SetupError."""
    if not isinstance(value, str) or (value and not is_mail_address(value)):
        raise SetupError("this is not a plain mail address: {text}", text=str(value)[:_SHOWN])


def check_networks(_name: str, texts: Iterable[str]) -> None:
    """Refuse a text that is no network. Raises SetupError."""
    # Strict: a network with host bits is a typing error, and would admit other addresses than were meant.
    try:
        for text in texts:
            ip_network(text)
    except ValueError as error:
        raise SetupError("this is no address or network: {reason}", reason=error) from None


def check_public_url(_name: str, text: str) -> None:
    """Refuse a text that is neither the root of http or https URLs nor "" (none). Raises SetupError."""
    scheme, _, address = text.partition("://")
    try:
        is_root = not text or (
            scheme in {"http", "https"} and bool(split_hostport(address.removesuffix("/")))
        )
    except ParseError:
        is_root = False
    if not is_root:
        problem = (
            "a public URL is a scheme and a host, such as https://archive.example, and this is not: {text}"
        )
        raise SetupError(problem, text=text[:_SHOWN])


def check_store(_name: str, text: str) -> None:
    """Refuse a text that is neither the URL of a database nor "" (none). Raises SetupError, without the text."""
    scheme, _, rest = text.partition("://")
    if text and not (scheme in {"postgresql", "postgres"} and rest.partition("?")[0].partition("/")[2]):
        # It may have a password in it.
        raise SetupError("a store is a URL such as postgresql://user:password@host/database, and this is not")


RESOLVER_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(RESOLVER_BOUNDS, partial(check_number, RESOLVER_BOUNDS)),
    **dict.fromkeys(RESOLVER_CHOICES, partial(check_choice, RESOLVER_CHOICES)),
    "admin": check_admin,
    "metrics_networks": check_networks,
    "public_url": check_public_url,
    "store": check_store,
}
"""The rules of a resolver, by the names of the settings."""


def _check_internal_location(_name: str, text: str) -> None:
    """Refuse a text that is no path for nginx, or would end its header; "": none. Raises SetupError."""
    safe = text.isascii() and text.isprintable() and not set(text) & set(" ?#%\\")
    if text and not (safe and text.startswith("/") and ".." not in text):
        raise SetupError(
            "the internal location is a path such as /internal/, and this is not: {text}", text=text
        )


def _check_ip(_name: str, text: str) -> None:
    """Refuse a text that is neither an IP address nor "" (none). Raises ParseError."""
    if text:
        canonical_ip(text)


def _check_granularity(_name: str, text: str) -> None:
    """Refuse a text that is no granularity. Raises ParseError."""
    granularity_of(text)


ARCHIVE_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(ARCHIVE_BOUNDS, partial(check_number, ARCHIVE_BOUNDS)),
    **dict.fromkeys(("networks", "trusted_resolvers", "trusted_proxies", "metrics_networks"), check_networks),
    "mint_ip": _check_ip,
    "granularity": _check_granularity,
    "accel_prefix": _check_internal_location,
    "public_url": check_public_url,
    "store": check_store,
}
"""The rules of an Archive; whether messages can carry its settings is checked for all of them together."""
