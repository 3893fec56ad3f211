"""Gets a new key from a resolver, by proving that the Archive answers at its address (note 34: keys).

Archive                                          resolver
   | -- POST /-/api/keys, its service IBI --------> |
   | <-- a challenge, and what to publish for it -- |
it publishes the nonce at /-/nonce
   | -- POST /-/api/keys, with the challenge -----> |
   | <-------- GET /-/nonce at its address -------- |
   | <-- the new key, once ------------------------ |
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.membership.membership import resolver_address
from ibi.errors import PeerGarbled
from ibi.http.client import HostPort
from ibi.protocol.messages import is_key

if TYPE_CHECKING:
    from ibi.http.client.download import Downloads
    from ibi.identifier.forms import IBI
    from ibi.runtime.nonce import Nonce

ROTATION_SECONDS: Final = 15.0
"""Seconds that a resolver may take for an answer; it calls back meanwhile."""

_OK: Final = 200
_PATH: Final = "/-/api/keys"


async def rotate_key(downloads: Downloads, root: str, service_ibi: IBI, nonce: Nonce) -> str:
    """Get a new key of an Archive from the resolver with this root URL; the old key is void from then on.

    The Archive must be served. Raises PeerError if the resolver is silent or gives no key, SetupError if no
    nonce can be published.
    """
    begun = await _post(downloads, root, {"service_ibi": str(service_ibi)})
    challenge = begun.get("challenge")
    if not isinstance(challenge, str) or not challenge.isascii():
        raise PeerGarbled("{resolver} gave no challenge", resolver=root)
    # It includes the resolver's address, so that a false resolver cannot relay another one's challenge.
    proven = f"{challenge} {HostPort.parse(resolver_address(root))}"
    with nonce.published(sha256(proven.encode()).hexdigest()[:32]):
        given = await _post(downloads, root, {"service_ibi": str(service_ibi), "challenge": challenge})
    key = given.get("key")
    if not isinstance(key, str) or not is_key(key):
        raise PeerGarbled("{resolver} gave no key", resolver=root)
    return key


async def _post(downloads: Downloads, root: str, message: dict[str, str]) -> dict[str, Any]:
    reply = await downloads.send("POST", f"{root}{_PATH}", json=message, seconds=ROTATION_SECONDS)
    if reply.status != _OK:
        problem = "{resolver} gives no new key: it answered with status {status}"
        raise PeerGarbled(problem, resolver=root, status=reply.status)
    value = reply.json()
    return value if isinstance(value, dict) else {}
