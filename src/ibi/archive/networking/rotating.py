"""A new key for a resolver, for the proof that this Archive answers at its address (note 34).

Archive                                          resolver
   | -- POST /-/api/keys, its service IBI --------> |
   | <-- a challenge, and what to show for it ----- |
it shows that at /-/nonce
   | -- POST /-/api/keys, with the challenge -----> |
   | <-------- GET /-/nonce at its address -------- |
   | <-- the new key, once ------------------------ |
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.networking.membership import resolver_address
from ibi.errors import PeerGarbled
from ibi.protocol.messages import is_key
from ibi.transport import HostPort

if TYPE_CHECKING:
    from ibi.identifier.forms import IBI
    from ibi.nonce import Nonce
    from ibi.transport.download import Downloads

SECONDS: Final = 15.0
"""How long a resolver may take; it calls back meanwhile."""

_PATH: Final = "/-/api/keys"
_OK = 200


async def rotate(door: Downloads, root: str, service_ibi: IBI, nonce: Nonce) -> str:
    """The new key of an Archive at the resolver with this root URL; the old one is void from now on.

    The Archive must be served. Raises PeerError where the resolver is silent or gives none, SetupError where the
    proof cannot be shown.
    """
    begun = await _ask(door, root, {"service_ibi": str(service_ibi)})
    challenge = begun.get("challenge")
    if not isinstance(challenge, str) or not challenge.isascii():
        raise PeerGarbled("{resolver} gave no challenge", resolver=root)
    with nonce.laid_out(_proof(challenge, root)):
        given = await _ask(door, root, {"service_ibi": str(service_ibi), "challenge": challenge})
    key = given.get("key")
    if not isinstance(key, str) or not is_key(key):
        raise PeerGarbled("{resolver} gave no key", resolver=root)
    return key


def _proof(challenge: str, root: str) -> str:
    """What proves that we were told a challenge by the resolver that we have asked, and by no other."""
    where = str(HostPort.parse(resolver_address(root)))
    return sha256(f"{challenge} {where}".encode()).hexdigest()[:32]


async def _ask(door: Downloads, root: str, message: dict[str, str]) -> dict[str, Any]:
    reply = await door.send("POST", f"{root}{_PATH}", json=message, seconds=SECONDS)
    if reply.status != _OK:
        problem = "{resolver} gives no new key: it answered with status {status}"
        raise PeerGarbled(problem, resolver=root, status=reply.status)
    told = reply.json()
    return told if isinstance(told, dict) else {}
