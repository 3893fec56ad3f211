"""The list of a resolver's Archives that other resolvers may mirror: GET /-/registry, signed (note 44: mirrors).

    {"registry": {…}, "signature": "…"}

One line of canonical JSON, signed like the receipts of Archives (both by `ibi.runtime.signing`). It has what
another resolver needs in order to ask the same Archives, and neither a key nor a mail address.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import BadItem, ForbiddenAddress, ParseError
from ibi.http.client import HostPort
from ibi.identifier.forms import IBI, IBIForms, parse_ibi
from ibi.resolver.model.archive import moment_text
from ibi.runtime.signing import canonical, is_key, is_signed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ibi.runtime.signing import Signer

LIST_PATH: Final = "/-/registry"
"""Where a resolver publishes its list."""

KIND: Final = "ibi registry"
VERSION: Final = 1
LONGEST_LIST: Final = 16 << 20
"""Bytes of the longest list that is read."""

MOST_LISTED: Final = 10_000
"""Archives of the longest list that is read."""

SIGNATURE_SECONDS: Final = 60.0
"""Seconds for which an unchanged list is not signed again."""

_CLOCK_SKEW = 86_400.0  # seconds
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII).fullmatch
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]", re.ASCII).fullmatch
_MOST_HOSTS = 1_000  # hosts of one Archive in a list
_NO_LIST = "this is not a list of a resolver's Archives"


@dataclass(frozen=True, slots=True)
class ListedArchive:
    """An Archive on such a list; `since`: when it was included there ("2026-11-21T10:00:00Z")."""

    service_ibi: IBI
    address: str
    url_hosts: tuple[str, ...]
    confirmed: bool
    since: str


@dataclass(eq=False, slots=True)
class Publisher:
    """Signs the list of one resolver.

    `listed` returns the Archives on it; `signer` is called when a list is signed; `now` returns POSIX seconds.
    """

    _listed: Callable[[], list[ListedArchive]]
    _service: IBIForms
    _address: str
    _signer: Callable[[], Signer]
    _now: Callable[[], float]
    _last: tuple[list[ListedArchive], float, bytes] | None = field(default=None, init=False)

    @property
    def key(self) -> str:
        """The public key of the signature. Raises SetupError."""
        return self._signer().public

    def text(self) -> bytes:
        """Return the signed list, one line of JSON. Raises SetupError where the registry cannot be read."""
        listed, now = self._listed(), self._now()
        # Every client may ask for the list, so up to 16 MiB are signed once a minute, not for each request.
        if self._last is not None:
            last_listed, signed_at, text = self._last
            if last_listed == listed and 0 <= now - signed_at < SIGNATURE_SECONDS:
                return text
        signer = self._signer()
        content = {
            "kind": KIND,
            "version": VERSION,
            "resolver": {"service": str(self._service), "address": self._address},
            "issued": moment_text(now),
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
    """A list with a valid signature. `left_out` counts the Archives in it that cannot be asked from here."""

    resolver: str
    issued: str
    archives: tuple[ListedArchive, ...]
    left_out: int = 0


def read_list(
    text: bytes, key: str, now: float, own: Collection[HostPort] = (), service: IBIForms | None = None
) -> RegistryList:
    """Read a list and check that it was signed with the key (64 hexadecimal digits), not later than `now`.

    Archives are left out if no Archive can have their address, if it is one of our `own`, or if they bear the
    name of our own `service`. The last line feed may be missing: editors and copying lose it. Raises BadItem.
    """
    if not is_key(key):
        raise BadItem("a key is 64 hexadecimal digits, as the resolver tells it at /-/about")
    try:
        value = json.loads(text) if len(text) <= LONGEST_LIST else None
        content, signature = value["registry"], value["signature"]  # type: ignore[index]  # None: TypeError
        message, canonical_text = canonical(content), canonical(value)
        resolver, issued, archives = content["resolver"]["service"], content["issued"], content["archives"]
        is_list = (content["kind"], content["version"]) == (KIND, VERSION)
    except (ValueError, KeyError, TypeError, RecursionError, BadItem):
        raise BadItem(_NO_LIST) from None
    if not (
        is_list
        and isinstance(archives, list)
        and all(isinstance(x, str) for x in (resolver, issued, signature))
    ):
        raise BadItem(_NO_LIST)
    # Only the canonical spelling is accepted, so that every JSON parser reads exactly what was signed.
    if canonical_text != text.removesuffix(b"\n") or not is_signed(message, signature, key):
        raise BadItem("the list was not signed with this key, or has been changed")
    # A day of grace, as clocks differ; a list from the far future would block all later ones (`apply_list`).
    if not _MOMENT(issued) or issued > moment_text(now + _CLOCK_SKEW):
        raise BadItem("the list was issued in the future, or its date is not valid")
    if len(archives) > MOST_LISTED:
        raise BadItem("the list has more than {most} Archives", most=MOST_LISTED)
    read = [_read_archive(each) for each in archives]
    usable = {
        each.service_ibi.canonical: each
        for each in read
        if each is not None
        and HostPort.parse(each.address) not in own
        and not (service is not None and service.names(each.service_ibi))
    }
    return RegistryList(resolver, issued, tuple(usable.values()), len(read) - len(usable))


def _read_archive(value: Any) -> ListedArchive | None:
    """Read an Archive of a list; None if it cannot be asked from here. Raises BadItem for anything else."""
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
        return ListedArchive(parse_ibi(ibi), address, tuple(hosts), confirmed, since)
    except (ForbiddenAddress, ParseError):
        return None
