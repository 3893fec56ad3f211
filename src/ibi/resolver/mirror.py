"""The list of a resolver's Archives under its signature, and the mirror that asks them too (note 44).

    {"registry": {…}, "signature": "…"}

One line of canonical JSON (`ibi.canonical`), signed like the receipts of Archives (`ibi.signing`). It holds no key
and no mail address: what a second resolver needs in order to ask the same Archives. Only Archives that switched
themselves on at the resolver itself are listed, none that it mirrors, so no list keeps another one's dead alive.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ibi.canonical import canonical
from ibi.errors import BadItem, ForbiddenAddress, IbiError, ParseError, PeerGarbled
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.registry.mirroring import Listed
from ibi.signing import KEY_TEXT, is_signed
from ibi.transport import HostPort

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from ibi.resolver.registry import Registry
    from ibi.resolver.registry.mirroring import Mirrored
    from ibi.signing import Signer
    from ibi.transport.download import Downloads

PATH: Final = "/-/registry"
"""Where a resolver tells its list."""

KIND: Final = "ibi registry"
VERSION: Final = 1
LONGEST: Final = 16 << 20
"""Bytes of the longest list that is read."""

MOST_LISTED: Final = 10_000
"""Archives of the longest list that is read."""

FETCH_SECONDS: Final = 30.0
"""How long the fetching of a list may take."""

REFRESH_SECONDS: Final = 300.0
"""Seconds between two looks at the list of a resolver that is mirrored."""

SIGNED_FOR: Final = 60.0
"""Seconds for which a list that nothing has changed in is not signed anew."""

_AHEAD = timedelta(days=1)
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII).fullmatch
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]", re.ASCII).fullmatch
_MOST_HOSTS = 1_000
_NO_LIST = "this is not a list of a resolver's Archives"
_log = logging.getLogger(__name__)


class Publisher:
    """Signs the list of one resolver. `signer` is asked when it is first needed; `now` gives POSIX seconds."""

    def __init__(
        self,
        registry: Registry,
        service: IBIForms,
        address: str,
        signer: Callable[[], Signer],
        now: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._service = service
        self._address = address
        self._signer = signer
        self._now = now
        self._last: tuple[list[Listed], float, bytes] | None = None

    @property
    def key(self) -> str:
        """The public key that it is signed with. Raises SetupError."""
        return self._signer().public

    def text(self) -> bytes:
        """The list as it is handed out: one line of JSON. Raises SetupError where the registry cannot be read."""
        listed, now = self._registry.listed(), self._now()
        if self._last is not None:
            then, signed_at, text = self._last
            if then == listed and 0 <= now - signed_at < SIGNED_FOR:
                return text
        signer = self._signer()
        content = {
            "kind": KIND,
            "version": VERSION,
            "resolver": {"service": str(self._service), "address": self._address},
            "issued": _written(now),
            "archives": [
                {
                    "service_ibi": str(each.service_ibi),
                    "address": each.address,
                    "url_hosts": list(each.url_hosts),
                    "confirmed": each.confirmed,
                    "since": each.since,
                }
                for each in listed
            ],
            "key": {"type": "Ed25519", "public": signer.public},
        }
        text = canonical({"registry": content, "signature": signer.sign(canonical(content))}) + b"\n"
        self._last = (listed, now, text)
        return text


@dataclass(frozen=True, slots=True)
class RegistryList:
    """A list whose signature is right. `odd`: how many Archives in it cannot be asked from here, and were left out."""

    resolver: str
    issued: str
    archives: tuple[Listed, ...]
    odd: int = 0


def read_list(text: bytes, key: str, now: float, own: Collection[HostPort] = ()) -> RegistryList:
    """Read a list and check that it was signed with the key (64 hexadecimal digits), not later than `now`.

    Left out are Archives at an address that no Archive can have, or that is one of our `own`. Raises BadItem.
    """
    if not KEY_TEXT.fullmatch(key):
        raise BadItem("a key is 64 hexadecimal digits, as the resolver tells it at /-/about")
    try:
        value = json.loads(text) if len(text) <= LONGEST else None
        content, signature = value["registry"], value["signature"]  # type: ignore[index]  # what is not: TypeError
        message, spelled = canonical(content), canonical(value)
        resolver, issued, archives = content["resolver"]["service"], content["issued"], content["archives"]
        ours = (content["kind"], content["version"]) == (KIND, VERSION)
    except (ValueError, KeyError, TypeError, RecursionError, BadItem):
        raise BadItem(_NO_LIST) from None
    if not (
        ours and isinstance(archives, list) and all(isinstance(x, str) for x in (resolver, issued, signature))
    ):
        raise BadItem(_NO_LIST)
    if spelled + b"\n" != text or not is_signed(message, signature, key):
        raise BadItem("the list was not signed with this key, or has been changed")
    if not _MOMENT(issued) or issued > _written(now + _AHEAD.total_seconds()):
        raise BadItem("the list was issued in the future, or its date is none")
    if len(archives) > MOST_LISTED:
        raise BadItem("the list has more than {most} Archives", most=MOST_LISTED)
    read = [_listed(each) for each in archives]
    usable = {
        each.service_ibi.canonical: each for each in read if each is not None and _where(each) not in own
    }
    return RegistryList(resolver, issued, tuple(usable.values()), len(read) - len(usable))


def take(registry: Registry, found: RegistryList, key: str) -> Mirrored:
    """Include the Archives of a list here. Raises BadItem for a list older than the one taken before, SetupError."""
    before = registry.mirrored_at(key)
    if found.issued < before:
        raise BadItem(
            "the list is of {issued}, older than that of {before}", issued=found.issued, before=before
        )
    return registry.mirror(key, found.archives, found.issued)


class Mirror:
    """The duty of a resolver that asks the Archives of another one too.

    `fetch` gets the text of the list and raises IbiError; `key` is the other resolver's; `own`: where we answer
    ourselves; `now` gives POSIX seconds. Several processes may do it at once.
    """

    def __init__(
        self,
        registry: Registry,
        key: str,
        fetch: Callable[[], Awaitable[bytes]],
        own: Collection[HostPort],
        now: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._key = key
        self._fetch = fetch
        self._own = own
        self._now = now
        self.problem: IbiError | None = None
        """Why the last look failed; None if it did not. Until one succeeds, the Archives of before are asked."""

    async def refresh(self) -> Mirrored:
        """Look at the list once. Raises IbiError."""
        found = read_list(await self._fetch(), self._key, self._now(), self._own)
        return await asyncio.to_thread(take, self._registry, found, self._key)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                done = await self.refresh()
            except IbiError as problem:
                if str(problem) != str(self.problem):
                    _log.warning("the list of Archives to mirror was not taken: %s", problem)
                self.problem = problem
            else:
                self.problem = None
                if done.added or done.changed or done.gone:
                    _log.info(
                        "mirrored Archives: %d new, %d changed, %d gone", done.added, done.changed, done.gone
                    )
            await asyncio.sleep(REFRESH_SECONDS)


async def fetch_list(door: Downloads, url: str) -> bytes:
    """The text of a list from its URL, or from the root URL of a resolver, through an open door. Raises PeerError."""
    root = "/" not in url.partition("://")[2].rstrip("/")
    whole = f"{url.rstrip('/')}{PATH}" if root else url
    async with door.get(whole, most_bytes=LONGEST, seconds=FETCH_SECONDS) as reply:
        if reply.status != 200:  # noqa: PLR2004 - OK
            raise PeerGarbled("the answer has the status {status}", status=reply.status)
        return await reply.read()


def _listed(value: Any) -> Listed | None:
    """An Archive of a list; None for one that cannot be asked from here. Raises BadItem for what is none."""
    try:
        ibi, address, hosts = value["service_ibi"], value["address"], value["url_hosts"]
        confirmed, since = value["confirmed"], value["since"]
    except (KeyError, TypeError):
        raise BadItem(_NO_LIST) from None
    texts = isinstance(hosts, list) and all(isinstance(x, str) for x in (ibi, address, since, *hosts))
    if not (texts and isinstance(confirmed, bool)):
        raise BadItem(_NO_LIST)
    if len(hosts) > _MOST_HOSTS or not all(map(_HOST, hosts)) or not _MOMENT(since):
        return None
    try:
        HostPort.parse(address)
        return Listed(parse_ibi(ibi), address, tuple(hosts), confirmed, since)
    except (ForbiddenAddress, ParseError):
        return None


def _where(each: Listed) -> HostPort:
    return HostPort.parse(each.address)


def _written(moment: float) -> str:
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
