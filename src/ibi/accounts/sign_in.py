"""Authenticate people: sign-in, sessions in cookies, and whether a form belongs to its session (T44: stolen accounts).

A session is a random id in a cookie that scripts cannot read and other sites cannot send. Every form has a
token derived from the id. A form that another site has sent is refused by Sec-Fetch-Site, or by Origin.

A second cookie identifies a browser in which an account has signed in before: a random number, signed with
the password hash of the account. It does not authenticate, and becomes void when the password changes.
Attempts from such a browser are counted separately, so that strangers cannot lock the owner out.
So are the passwords that a session checks again: only who is signed in can use these attempts up.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import normalize
from urllib.parse import urlsplit

from ibi.accounts.people import Accounts, decoy_hash, is_hash_of
from ibi.accounts.sessions import ABSOLUTE, AttemptLimit, Sessions
from ibi.errors import IbiError
from ibi.http.client_address import is_loopback
from ibi.http.limits.token_bucket import client_key
from ibi.http.public_url import uses_https
from ibi.http.request import host_of
from ibi.http.response import Refusal
from ibi.runtime.i18n import chosen_language
from ibi.runtime.json_list import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ibi.accounts.people import Account, Role
    from ibi.accounts.sessions import SignInAttempt
    from ibi.http.request import Request


BROWSER_KNOWN: Final = 365 * 86_400.0
"""Seconds for which a browser is known after its last sign-in."""
SHORT_WHILE: Final = 900.0
"""Seconds within which wrong passwords from one network or one session count."""
LONG_WHILE: Final = 3600.0
"""Seconds within which wrong passwords for one account count, wherever they come from."""
WRONG_BY_ONE: Final = 5
"""Wrong passwords for one account from one network in a short while."""
WRONG_FROM_NETWORK: Final = 30
"""Wrong passwords from one network in a short while, for all accounts together, known or unknown."""
WRONG_FOR_ACCOUNT: Final = 50
"""Wrong passwords for one account in a long while, from browsers in which it has not signed in before."""
WRONG_IN_SESSION: Final = 5
"""Wrong present passwords from one session in a short while."""
WRONG_IN_SESSIONS: Final = 50
"""Wrong present passwords from all sessions of one account in a long while."""
MOST_WAITING: Final = 16
"""Sign-ins that wait; only two passwords are compared at a time, because each comparison takes 19 MiB."""

_BYTES: Final = 16  # random bytes in the number by which a browser is known
_COOKIE: Final = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{64}")
_OF_ONE: Final = AttemptLimit("account and network", WRONG_BY_ONE, SHORT_WHILE)
_OF_NETWORK: Final = AttemptLimit("network", WRONG_FROM_NETWORK, SHORT_WHILE)
_OF_DEVICE: Final = AttemptLimit("account and device", WRONG_BY_ONE, SHORT_WHILE)
_OF_ACCOUNT: Final = AttemptLimit("account", WRONG_FOR_ACCOUNT, LONG_WHILE)
_OF_SESSION: Final = AttemptLimit("session", WRONG_IN_SESSION, SHORT_WHILE)
_OF_SESSIONS: Final = AttemptLimit("sessions of account", WRONG_IN_SESSIONS, LONG_WHILE)
_AT_ONCE: Final = 2
"""Passwords that are hashed at the same time: Argon2 takes 19 MiB and most of a processor for each (T44: stolen
accounts)."""
_CHECKING: Final = ThreadPoolExecutor(_AT_ONCE, "sign-in")
# A request with any of these headers comes from a proxy, not directly from a browser.
_OF_PROXIES: Final = (
    b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip",
)  # fmt: skip
_DIGITS: Final = 8
_LONGEST_ID: Final = 64  # characters of a session's number that is read
_LONGEST_TYPED: Final = 4 * LONGEST_NAME  # characters of a name that are normalised (slow)


class Client(NamedTuple):
    """The client of a request: its trusted `address`, and whether it uses https, or runs on this machine."""

    address: str | None
    secure: bool
    local: bool


class SignedInUser(NamedTuple):
    """A user who is signed in. `token`: that of every form of the session; `session`: its id.

    `language`: the one that was chosen for the pages of the session, "" for none.
    """

    name: str
    role: Role
    token: str
    session: str
    language: str = ""


class Authentication:
    """Authenticates the users of one service, with accounts and sessions in a folder; `now`: POSIX seconds.

    `label` distinguishes it from other services on the same host, because cookies ignore ports.
    """

    def __init__(self, folder: Path, label: str, now: Callable[[], float]) -> None:
        self.accounts = Accounts(folder)
        self.sessions = Sessions(folder / "sessions.sqlite", now)
        self._cookie = f"ibi-{sha256(label.encode()).hexdigest()[:_DIGITS]}"
        self._waiting = 0

    def close(self) -> None:
        """Close the file of the sessions."""
        self.sessions.close()

    def signed_in(self, request: Request, client: Client) -> SignedInUser | None:
        """Return the user of a request; None without a session. May wait for the disk. Raises SetupError."""
        session = _cookies(request).get(self._name(client), "")
        if not 0 < len(session) <= _LONGEST_ID:
            return None
        found = self.sessions.find(session)
        if found is None:
            return None
        account = self.accounts.find(found.account)
        if account is None:
            return None
        if not compare_digest(account.stamp, found.stamp):
            self.sessions.end(session)
            return None
        language = chosen_language(request.query) or found.language
        if language != found.language:
            self.sessions.choose_language(session, language)
        return SignedInUser(account.name, account.role, _form_token(session), session, language)

    async def sign_in(
        self, request: Request, client: Client, name: str, password: str
    ) -> tuple[SignedInUser, tuple[str, ...]]:
        """Sign in: start a new session; return the user and each Set-Cookie. Raises Refusal, SetupError."""
        self.check_transport(client)
        name = normalize("NFKC", name[:_LONGEST_TYPED]).strip().lower()[: LONGEST_NAME + 1]
        self._refuse_when_busy()
        account = await asyncio.to_thread(self.accounts.find, name)
        device = _device_of(_cookies(request).get(self._name(client, known=True), ""), account)
        source = client_key(client.address or "")
        limits: tuple[tuple[AttemptLimit, str], ...] = (
            (_OF_ONE, f"{name} {source}"), (_OF_NETWORK, source), (_OF_ACCOUNT, name),
        )  # fmt: skip
        # The attempts of a known browser count separately: strangers cannot use them up.
        if device:
            limits = ((_OF_DEVICE, f"{name} {device}"),)
        attempt = await asyncio.to_thread(self._attempt, limits)
        # An unknown account takes as long as a wrong password, or the time would reveal names of accounts.
        right = await self._checked(account.hash if account else decoy_hash(), password)
        if account is None or not right:
            raise Refusal(403, IbiError("the name or the password is wrong; look at both and try again"))
        await asyncio.to_thread(self.sessions.clear, attempt, *limits[0])
        # A new id at every sign-in, so that an id that was planted in the browser before is void.
        before = _cookies(request).get(self._name(client))
        if before:
            await asyncio.to_thread(self.sessions.end, before)
        language = chosen_language(request.query)
        session = await asyncio.to_thread(self.sessions.start, account.name, account.stamp, language)
        signed = SignedInUser(account.name, account.role, _form_token(session), session, language)
        device = device or secrets.token_hex(_BYTES)
        cookie = f"{device}.{_sign(device, account)}"
        known = self._set(client, cookie, int(BROWSER_KNOWN), known=True)
        return signed, (known, self._set(client, session, int(ABSOLUTE)))

    def check_password(self, signed: SignedInUser, password: str) -> None:
        """Check the password of a signed-in user again; slow on purpose. Raises Refusal, SetupError."""
        # Attempts to sign in are not counted here, because strangers could use them up, and so keep the owner
        # from changing her password. The limits are there so that a stolen session cannot guess it.
        limits = ((_OF_SESSION, signed.session), (_OF_SESSIONS, signed.name.lower()))
        attempt = self._attempt(limits)
        account = self.accounts.find(signed.name)
        if account is None or not _CHECKING.submit(is_hash_of, account.hash, password).result():
            raise Refusal(403, IbiError("this is not your current password"))
        self.sessions.clear(attempt, *limits[0])

    def sign_out(self, signed: SignedInUser, client: Client, *, everywhere: bool) -> str:
        """End the session, or all sessions of the account; return the Set-Cookie that deletes the cookie."""
        if everywhere:
            self.sessions.end_all(signed.name)
        else:
            self.sessions.end(signed.session)
        return self._set(client, "", 0)

    @staticmethod
    def check_transport(client: Client) -> None:
        """Refuse a password that others could read on its way. Raises Refusal."""
        if not (client.secure or client.local):
            problem = (
                "signing in needs https: open this page by an address that begins with https, or ask the "
                "administrator of the server to provide one"
            )
            raise Refusal(403, IbiError(problem))

    @staticmethod
    def check_origin(request: Request) -> None:
        """Refuse a request that another site has sent, or that does not name its origin. Raises Refusal."""
        site, origin = request.header(b"sec-fetch-site"), request.header(b"origin")
        ours = _netloc(origin) == request.header(b"host").lower() != "" if origin else bool(site)
        if not ours or site not in {"", "same-origin"}:
            problem = "this form was not sent from a page of ours; open the page again and repeat it"
            raise Refusal(403, IbiError(problem))

    @staticmethod
    def check_form(signed: SignedInUser, token: str) -> None:
        """Refuse a form that does not belong to this session. Raises Refusal."""
        if not compare_digest(signed.token.encode(), token.encode("utf-8", "replace")):
            problem = "this form belongs to an earlier session; open the page again and repeat it"
            raise Refusal(403, IbiError(problem))

    def _attempt(self, limits: Sequence[tuple[AttemptLimit, str]]) -> SignInAttempt:
        """Count an attempt under these limits. Raises Refusal if a limit is reached."""
        attempt = self.sessions.attempt(limits)
        if attempt.wait:
            minutes = int(attempt.wait // 60) + 1
            why = IbiError("too many attempts; wait {minutes} minutes, then try again", minutes=minutes)
            raise Refusal(429, why, ("retry-after", str(int(attempt.wait) + 1)))
        return attempt

    async def _checked(self, kept: str, password: str) -> bool:
        """Compare a password, two at a time. Raises Refusal if too many sign-ins wait already."""
        self._refuse_when_busy()
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(_CHECKING, is_hash_of, kept, password)
        finally:
            self._waiting -= 1

    def _refuse_when_busy(self) -> None:
        """Refuse a sign-in while too many wait, before anything is counted. Raises Refusal."""
        if self._waiting >= MOST_WAITING:
            why = IbiError("too many people are signing in just now; try again in a moment")
            raise Refusal(503, why, ("retry-after", "6"))

    def _name(self, client: Client, *, known: bool = False) -> str:
        cookie = f"{self._cookie}-known" if known else self._cookie
        # With this prefix, browsers accept the cookie only from this host over https: no other can plant it.
        return f"__Host-{cookie}" if client.secure else cookie

    def _set(self, client: Client, value: str, seconds: int, *, known: bool = False) -> str:
        """Return a Set-Cookie for this host, for a cookie that no script reads and no other site sends."""
        name, secure = self._name(client, known=known), "; Secure" if client.secure else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def client_of(request: Request, address: str | None, *, proxied: bool) -> Client:
    """Return the client of a request. `address`: the trusted one, if known.

    `proxied`: whether the connection comes from a trusted proxy, whose X-Forwarded-Proto then counts.
    """
    https = uses_https(request, proxied=proxied)
    direct = not (proxied or any(request.header(name) for name in _OF_PROXIES))
    # A proxy on this machine that is not configured must not count as a local browser, whatever its Host.
    here = is_loopback(request.peer) and is_loopback(host_of(request.header(b"host")))
    return Client(address, https, direct and here)


def _device_of(cookie: str, account: Account | None) -> str:
    """Return the number of a browser in which this account has signed in before; "" for other browsers."""
    if account is None or not _COOKIE.fullmatch(cookie):
        return ""
    device, signature = cookie.split(".")
    return device if compare_digest(signature, _sign(device, account)) else ""


def _sign(device: str, account: Account) -> str:
    return hmac.digest(account.hash.encode(), f"device {device}".encode(), "sha256").hex()


def _netloc(origin: str) -> str:
    """Return host and port of an origin; "" for a malformed one."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _cookies(request: Request) -> dict[str, str]:
    """Return the cookies of a request; of a repeated cookie, the first counts."""
    found: dict[str, str] = {}
    for pair in request.header(b"cookie").split(";"):
        name, _, value = pair.strip().partition("=")
        found.setdefault(name, value)
    return found


def _form_token(session: str) -> str:
    """Return the token for the forms of a session, from which the session id cannot be derived."""
    return sha256(f"form {session}".encode()).hexdigest()
