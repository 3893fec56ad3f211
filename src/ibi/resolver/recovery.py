"""A new key for an Archive that proves that it controls its address (note 34, threat T15).

    POST /-/api/keys {"service_ibi": "..."}
        200 {"challenge": "...", "at": "/-/nonce", "seconds": 600}
    the Archive shows the proof at /-/nonce, under the address where it confirmed last: the first 32 digits of the
    SHA-256 of challenge, blank, and the resolver's address, which the Archive knows by itself
    POST /-/api/keys {"service_ibi": "...", "challenge": "..."}
        200 {"service_ibi": "...", "key": "..."}: the new key, told once; the old one is void

Whoever sees the proof learns nothing that the second call needs. A resolver that hands on the challenge of another
gets a proof that is good for itself only. The first answer is the same for Archives that are not registered.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ParseError, PeerError, SetupError
from ibi.exchange import JSON, NO_STORE, Response
from ibi.identifier.forms import parse_ibi
from ibi.limits import source_of
from ibi.resolver.confirming import CONFIRMATION_SECONDS
from ibi.resolver.keys import CHALLENGE_SECONDS, challenge, is_challenge, proof_of
from ibi.resolver.throttle import Limit
from ibi.transport import HostPort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.identifier.forms import IBI
    from ibi.resolver.mail import Mail
    from ibi.resolver.registry import Registry
    from ibi.resolver.throttle import Throttle
    from ibi.resolver.visitor import Visitor
    from ibi.resolver.witness import Witness
    from ibi.transport import Client

PATH: Final = "/-/api/keys"
"""Where Archives ask for a new key."""

_PROOF: Final = "/-/nonce"
_BY_IBI: Final = Limit("new key of", 30, 60.0)  # more than one source has, so that no stranger holds it up
_BY_SOURCE: Final = Limit("new key from", 10, 60.0)
_OK = 200


class Recovery:
    """Gives new keys for proofs. `addresses` are those of this resolver; `now` gives POSIX seconds."""

    def __init__(
        self,
        addresses: Iterable[str],
        registry: Registry,
        client: Client,
        throttle: Throttle,
        now: Callable[[], float],
        witness: Witness,
        mail: Mail,
    ) -> None:
        self._addresses = [str(HostPort.parse(address)) for address in addresses]
        self._registry = registry
        self._client = client
        self._throttle = throttle
        self._now = now
        self._witness = witness
        self._mail = mail

    async def keys(self, visitor: Visitor, body: bytes) -> Response:
        """Answer a POST with this body."""
        if visitor.method != "POST":
            return _refusal(405, "only POST is answered here", ("allow", "POST"))
        kind = visitor.header(b"content-type").partition(";")[0].strip().lower()
        if kind != "application/json" or visitor.header(b"origin"):
            return _refusal(415, "the body must be plain JSON: Content-Type: application/json")
        try:
            service_ibi, told = _asked(body)
        except ParseError as error:
            return _refusal(400, str(error))
        names = {_BY_SOURCE: source_of(visitor.source)} | ({_BY_IBI: service_ibi.canonical} if told else {})
        wait = max(self._throttle.wait(limit, name) for limit, name in names.items())
        if wait:
            return _refusal(429, "too many attempts", ("retry-after", str(int(wait) + 1)))
        for limit, name in names.items():
            self._throttle.failed(limit, name)
        try:
            return await (self._prove(service_ibi, told) if told else self._begin(service_ibi))
        except SetupError as error:
            return _refusal(503, str(error), ("retry-after", "5"))

    async def _begin(self, service_ibi: IBI) -> Response:
        seal = await asyncio.to_thread(self._registry.seal, service_ibi)
        told = challenge(seal, service_ibi.canonical, self._now())
        return _told(200, {"challenge": told, "at": _PROOF, "seconds": CHALLENGE_SECONDS})

    async def _prove(self, service_ibi: IBI, told: str) -> Response:
        seal = await asyncio.to_thread(self._registry.seal, service_ibi)
        known = await asyncio.to_thread(self._registry.entry, service_ibi)
        refused = _refusal(
            403, "this proves nothing: the address where the Archive confirmed must show the proof"
        )
        if not is_challenge(told, seal, service_ibi.canonical, self._now()) or known is None:
            return refused
        if not known.confirmed_address or not await self._shows(known.confirmed_address, told):
            return refused
        tell = partial(self._witness.write, "rotated", ibi=str(known.service_ibi), by="proof")
        try:
            key = await asyncio.to_thread(self._registry.rotate, service_ibi, seal, tell)
        except SetupError:
            if await asyncio.to_thread(self._registry.seal, service_ibi) != seal:
                return refused  # another call was quicker
            raise
        self._mail.rotated(known)
        return _told(200, {"service_ibi": str(known.service_ibi), "key": key})

    async def _shows(self, address: str, challenge: str) -> bool:
        try:
            reply = await self._client.get(address, _PROOF, CONFIRMATION_SECONDS)
        except PeerError:
            return False
        proofs = [proof_of(challenge, own).encode() for own in self._addresses]
        return reply.status == _OK and any(hmac.compare_digest(reply.body.strip(), proof) for proof in proofs)


def _asked(body: bytes) -> tuple[IBI, str]:
    """The Archive and, of a second call, the challenge. Raises ParseError."""
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    told = value.get("challenge", "") if isinstance(value, dict) else None
    if (
        not isinstance(value, dict)
        or not isinstance(told, str)
        or not isinstance(value.get("service_ibi"), str)
    ):
        raise ParseError("request", "", "the body is a JSON object with service_ibi and perhaps challenge")
    return parse_ibi(value["service_ibi"]), told


def _told(status: int, facts: dict[str, Any], *headers: tuple[str, str]) -> Response:
    return Response(status, json.dumps(facts).encode() + b"\n", JSON, (*NO_STORE, *headers))


def _refusal(status: int, problem: str, *headers: tuple[str, str]) -> Response:
    return _told(status, {"problem": problem}, *headers)
