"""The door for people: who is signed in, who may be let in, and whether a form is really theirs (threat T44).

A session is a random id in a cookie that scripts cannot read and other sites cannot send. Every form carries a token
that is made from the id, and a form that another site has sent is refused by Sec-Fetch-Site, or by Origin.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import normalize
from urllib.parse import urlsplit

from ibi.errors import IbiError
from ibi.exchange import host_of
from ibi.limits import is_loopback, source_of
from ibi.roll import LONGEST_NAME
from ibi.signing_in.accounts import Accounts
from ibi.signing_in.devices import REMEMBERED, device_cookie, device_of
from ibi.signing_in.passwords import decoy_hash, is_hash_of
from ibi.signing_in.sessions import ABSOLUTE, Limit, Sessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.exchange import Asked
    from ibi.signing_in.roles import Role

SHORT_WHILE: Final = 900.0
"""Seconds within which wrong passwords from one network count."""
LONG_WHILE: Final = 3600.0
"""Seconds within which wrong passwords for one account count, wherever they come from."""
WRONG_BY_ONE: Final = 5
"""Wrong passwords for one account from one network in a short while."""
WRONG_FROM_NETWORK: Final = 30
"""Wrong passwords from one network in a short while, for whatever accounts, known or not."""
WRONG_FOR_ACCOUNT: Final = 50
"""Wrong passwords for one account in a long while, from all browsers in which it has not signed in before."""
MOST_WAITING: Final = 16
"""Sign-ins that wait for their turn; two are looked at at a time, since each costs 19 MiB."""

_OF_ONE: Final = Limit("account and network", WRONG_BY_ONE, SHORT_WHILE)
_OF_NETWORK: Final = Limit("network", WRONG_FROM_NETWORK, SHORT_WHILE)
_OF_DEVICE: Final = Limit("account and device", WRONG_BY_ONE, SHORT_WHILE)
_OF_ACCOUNT: Final = Limit("account", WRONG_FOR_ACCOUNT, LONG_WHILE)
_AT_ONCE: Final = 2
_CHECKING: Final = ThreadPoolExecutor(_AT_ONCE, "sign-in")
_OF_PROXIES: Final = (
    b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip",
)  # fmt: skip
_DIGITS: Final = 8
_LONGEST_ID: Final = 64
_LONGEST_TYPED: Final = 4 * LONGEST_NAME  # to bring very long texts into one spelling takes very long


class Denied(Exception):
    """What is not let in: the status of the answer, why, and in how many seconds it may be tried again (0: never)."""

    def __init__(self, status: int, why: IbiError, wait: float = 0.0) -> None:
        super().__init__(str(why))
        self.status = status
        self.why = why
        self.wait = wait


class Caller(NamedTuple):
    """From where somebody asks: the `address`, as far as it is vouched for; whether over https; or on this machine."""

    address: str | None
    secure: bool
    local: bool


class Signed(NamedTuple):
    """Somebody who is signed in. `token`: what every form of theirs carries; `session`: its id."""

    name: str
    role: Role
    token: str
    session: str


class Door:
    """The door of one service, whose accounts and sessions lie in a folder. `now` gives POSIX seconds.

    `label` tells it from others on the same host: cookies know hosts, but no ports.
    """

    def __init__(self, folder: Path, label: str, now: Callable[[], float]) -> None:
        self.accounts = Accounts(folder)
        self.sessions = Sessions(folder / "sessions.sqlite", now)
        self._cookie = f"ibi-{sha256(label.encode()).hexdigest()[:_DIGITS]}"
        self._waiting = 0

    def close(self) -> None:
        """Give up the file of the sessions."""
        self.sessions.close()

    def who(self, asked: Asked, caller: Caller) -> Signed | None:
        """Who asks; None if nobody is signed in. May wait for the disk. Raises SetupError."""
        session = _cookies(asked).get(self._name(caller), "")
        if not 0 < len(session) <= _LONGEST_ID:
            return None
        found = self.sessions.find(session)
        account = self.accounts.find(found.account) if found else None
        if found is None or account is None:
            return None
        if not compare_digest(account.stamp, found.stamp):
            self.sessions.end(session)
            return None
        return Signed(account.name, account.role, _form_token(session), session)

    async def sign_in(
        self, asked: Asked, caller: Caller, name: str, password: str
    ) -> tuple[Signed, tuple[str, ...]]:
        """Let somebody in: a new session, whatever there was before, and each Set-Cookie. Raises Denied, SetupError.

        Whoever has signed in with this browser before has attempts of his own: no stranger uses them up.
        """
        self.check_way(caller)
        name = normalize("NFKC", name[:_LONGEST_TYPED]).strip().lower()[: LONGEST_NAME + 1]
        self._wait_for_turn()
        account = await asyncio.to_thread(self.accounts.find, name)
        device = device_of(_cookies(asked).get(self._name(caller, known=True), ""), account)
        source = _source(caller)
        limits: tuple[tuple[Limit, str], ...] = (
            (_OF_ONE, f"{name} {source}"), (_OF_NETWORK, source), (_OF_ACCOUNT, name),
        )  # fmt: skip
        if device:
            limits = ((_OF_DEVICE, f"{name} {device}"),)
        attempt = await asyncio.to_thread(self.sessions.attempt, limits)
        if attempt.wait:
            raise _too_many(attempt.wait)
        right = await self._checked(account.hash if account else decoy_hash(), password)
        if account is None or not right:
            raise Denied(403, IbiError("the name or the password is wrong; look at both and try again"))
        await asyncio.to_thread(self.sessions.forgive, attempt, *limits[0])
        before = _cookies(asked).get(self._name(caller))
        if before:
            await asyncio.to_thread(self.sessions.end, before)
        session = await asyncio.to_thread(self.sessions.begin, account.name, account.stamp)
        signed = Signed(account.name, account.role, _form_token(session), session)
        known = self._set(caller, device_cookie(device, account), int(REMEMBERED), known=True)
        return signed, (known, self._set(caller, session, int(ABSOLUTE)))

    def check_password(self, signed: Signed, caller: Caller, password: str) -> None:
        """Make sure that it is still the owner who sits there. Waits, slow on purpose. Raises Denied, SetupError."""
        name = signed.name.lower()
        limits = ((_OF_ONE, f"{name} {_source(caller)}"), (_OF_ACCOUNT, name))
        attempt = self.sessions.attempt(limits)
        if attempt.wait:
            raise _too_many(attempt.wait)
        account = self.accounts.find(signed.name)
        if account is None or not _CHECKING.submit(is_hash_of, account.hash, password).result():
            raise Denied(403, IbiError("this is not your present password"))
        self.sessions.forgive(attempt, *limits[0])

    def sign_out(self, signed: Signed, caller: Caller, *, everywhere: bool) -> str:
        """End the session, or all sessions of the account; the Set-Cookie that takes the cookie away."""
        if everywhere:
            self.sessions.end_all(signed.name)
        else:
            self.sessions.end(signed.session)
        return self._set(caller, "", 0)

    @staticmethod
    def check_way(caller: Caller) -> None:
        """Refuse to take a password where others could read it on its way. Raises Denied."""
        if not (caller.secure or caller.local):
            problem = (
                "signing in needs https: open this page by an address that begins with https, "
                "or ask whoever runs the server to provide one"
            )
            raise Denied(403, IbiError(problem))

    @staticmethod
    def check_origin(asked: Asked) -> None:
        """Refuse what another site has sent, and what does not say who has sent it. Raises Denied."""
        site, origin = asked.header(b"sec-fetch-site"), asked.header(b"origin")
        ours = _netloc(origin) == asked.header(b"host").lower() != "" if origin else bool(site)
        if not ours or site not in {"", "same-origin"}:
            raise Denied(
                403, IbiError("this form was not sent from a page of ours; open the page again and repeat it")
            )

    @staticmethod
    def check_form(signed: Signed, token: str) -> None:
        """Refuse a form that belongs to no page of this session. Raises Denied."""
        if not compare_digest(signed.token.encode(), token.encode("utf-8", "replace")):
            raise Denied(
                403, IbiError("this form belongs to an earlier session; open the page again and repeat it")
            )

    async def _checked(self, kept: str, password: str) -> bool:
        """Compare a password, two at a time. Raises Denied where too many wait already."""
        self._wait_for_turn()
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(_CHECKING, is_hash_of, kept, password)
        finally:
            self._waiting -= 1

    def _wait_for_turn(self) -> None:
        """Refuse who comes while too many wait, before anything is counted. Raises Denied."""
        if self._waiting >= MOST_WAITING:
            raise Denied(503, IbiError("too many people are signing in just now; try again in a moment"), 5.0)

    def _name(self, caller: Caller, *, known: bool = False) -> str:
        cookie = f"{self._cookie}-known" if known else self._cookie
        return f"__Host-{cookie}" if caller.secure else cookie

    def _set(self, caller: Caller, value: str, seconds: int, *, known: bool = False) -> str:
        """A cookie for this host alone, that no script reads and no other site sends."""
        name, secure = self._name(caller, known=known), "; Secure" if caller.secure else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def caller_of(asked: Asked, address: str | None, *, proxied: bool) -> Caller:
    """From where somebody asks. `address`: as far as it is vouched for.

    `proxied`: whether the other end is a trusted proxy, whose X-Forwarded-Proto then counts. A proxy on this machine
    that nobody has named is no browser on this machine, whatever it writes into Host.
    """
    https = asked.secure or (proxied and asked.header(b"x-forwarded-proto").strip().lower() == "https")
    direct = not (proxied or any(asked.header(name) for name in _OF_PROXIES))
    here = is_loopback(asked.peer) and is_loopback(host_of(asked.header(b"host")))
    return Caller(address, https, direct and here)


def _source(caller: Caller) -> str:
    return source_of(caller.address or "")


def _netloc(origin: str) -> str:
    """Host and port of an origin; "" of what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _cookies(asked: Asked) -> dict[str, str]:
    """The cookies of a request; of one that comes twice the first counts."""
    found: dict[str, str] = {}
    for pair in asked.header(b"cookie").split(";"):
        name, _, value = pair.strip().partition("=")
        found.setdefault(name, value)
    return found


def _form_token(session: str) -> str:
    """What the forms of a session carry: it tells nothing of the session."""
    return sha256(f"form {session}".encode()).hexdigest()


def _too_many(wait: float) -> Denied:
    """For whoever has tried too often; `wait` in seconds."""
    minutes = int(wait // 60) + 1
    return Denied(
        429, IbiError("too many attempts; wait {minutes} minutes, then try again", minutes=minutes), wait
    )
