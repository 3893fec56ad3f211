"""Archives that have lost their key ask for a new one: POST /-/api/keys, twice (note 34: keys; T15: keys in logs).

{"service_ibi": "..."}
    200 {"challenge": "...", "at": "/-/nonce", "seconds": 600}; the same for Archives that are not registered
{"service_ibi": "...", "challenge": "..."}
    200 {"service_ibi": "...", "key": "..."}: the new key, shown once; the old one is void

In between, the Archive shows the proof at /-/nonce, under the address where it confirmed last, and so proves that it
controls this address: the first 32 digits of the SHA-256 of the challenge, a blank, and the resolver's address.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ParseError, PeerError, SetupError
from ibi.http.client import HostPort
from ibi.http.limits.token_bucket import client_key
from ibi.http.limits.window import FailureLimit, unblocked
from ibi.http.response import JSON, NO_STORE, Response
from ibi.identifier.forms import parse_ibi
from ibi.resolver.members.confirmation import CONFIRMATION_SECONDS
from ibi.resolver.registry.keys import CHALLENGE_SECONDS, is_challenge, new_challenge, proof_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.http.client import Client
    from ibi.http.limits.window import Failures
    from ibi.http.request import Request
    from ibi.identifier.forms import IBI
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.registry.registry import Registry

PATH: Final = "/-/api/keys"
"""Where Archives ask for a new key."""

PROOF_PATH: Final = "/-/nonce"
"""Where an Archive shows a proof."""

# More for an Archive than for one source, so that one stranger cannot use up the attempts of an Archive.
_BY_IBI: Final = FailureLimit("new key of", 30, 60.0)
_BY_SOURCE: Final = FailureLimit("new key from", 10, 60.0)


@dataclass(frozen=True, slots=True)
class KeyRecoveryHandler:
    """Answers at /-/api/keys. `_addresses` are those of this resolver; `_now` returns POSIX seconds."""

    _addresses: Sequence[str]
    _registry: Registry
    _client: Client
    _throttle: Failures
    _now: Callable[[], float]
    _evidence: Evidence
    _mail: MailSender

    async def answer(self, request: Request, body: bytes) -> Response:
        """Answer a request with this body."""
        if request.method != "POST":
            return _refusal(405, "only POST is answered here", ("allow", "POST"))
        kind = request.header(b"content-type").partition(";")[0].strip().lower()
        # Browsers send Origin with every POST, and JSON from another site only after a preflight request, so
        # no page on the web can make its readers' browsers ask for keys.
        if kind != "application/json" or request.header(b"origin"):
            return _refusal(415, "the body must be plain JSON: Content-Type: application/json")
        try:
            service_ibi, challenge = read_body(body)
        except ParseError as error:
            return _refusal(400, str(error))
        waiting = partial(self._wait, counts_for_ibi=bool(challenge))
        wait = await unblocked(self._throttle, waiting, service_ibi, request.client_address)
        if wait:
            return _refusal(429, "too many attempts", ("retry-after", str(int(wait) + 1)))
        return await self._proceed(service_ibi, challenge)

    async def _proceed(self, service_ibi: IBI, challenge: str) -> Response:
        """Make a challenge for an Archive, registered or not; or check the proof of one."""
        try:
            secret = await asyncio.to_thread(self._registry.challenge_secret, service_ibi)
            if challenge:
                return await self._new_key(service_ibi, secret, challenge)
            challenge = new_challenge(secret, service_ibi.canonical, self._now())
            facts = {"challenge": challenge, "at": PROOF_PATH, "seconds": CHALLENGE_SECONDS}
            return _json(200, facts)
        except SetupError as error:
            return _refusal(503, str(error), ("retry-after", "5"))

    def _wait(self, service_ibi: IBI, source: str, *, counts_for_ibi: bool) -> float:
        """Return the seconds to wait; 0 if the attempt is counted and may go on."""
        names = {_BY_SOURCE: client_key(source)}
        # Only a request that makes this resolver call the Archive counts for it; a challenge does not.
        if counts_for_ibi:
            names[_BY_IBI] = service_ibi.canonical
        wait = max(self._throttle.wait(limit, name) for limit, name in names.items())
        if not wait:
            for limit, name in names.items():
                self._throttle.record_failure(limit, name)
        return wait

    async def _new_key(self, service_ibi: IBI, secret: str, challenge: str) -> Response:
        """Give an Archive a new key if it shows the proof. Raises SetupError."""
        refused = _refusal(
            403, "this proves nothing: the address where the Archive confirmed must show the proof"
        )
        known = await asyncio.to_thread(self._registry.entry, service_ibi)
        if not is_challenge(challenge, secret, service_ibi.canonical, self._now()) or known is None:
            return refused
        if not known.confirmed_address or not await self._shows_proof(known.confirmed_address, challenge):
            return refused
        record = partial(self._evidence.write, "rotated", ibi=str(known.service_ibi), by="proof")
        try:
            key = await asyncio.to_thread(self._registry.rotate, service_ibi, secret, record)
        except SetupError:
            # The proof stays visible for a while, so two calls may use it: only the first one gets a key.
            if await asyncio.to_thread(self._registry.challenge_secret, service_ibi) != secret:
                return refused
            raise
        self._mail.rotated(known)
        return _json(200, {"service_ibi": str(known.service_ibi), "key": key})

    async def _shows_proof(self, address: str, challenge: str) -> bool:
        try:
            reply = await self._client.get(address, PROOF_PATH, CONFIRMATION_SECONDS)
        except PeerError:
            return False
        # The Archive hashes the address by which it knows the resolver, never one from the challenge: a hostile
        # resolver that passes on our challenge gets a proof that is valid only there (T15: keys in logs).
        addresses = [str(HostPort.parse(address)) for address in self._addresses]
        shown, proofs = reply.body.strip(), [proof_of(challenge, own).encode() for own in addresses]
        return reply.status == HTTPStatus.OK and any(hmac.compare_digest(shown, proof) for proof in proofs)


def read_body(body: bytes) -> tuple[IBI, str]:
    """Read the Archive and, in a second call, the challenge. Raises ParseError."""
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    fields = value if isinstance(value, dict) else {}
    service_ibi, challenge = fields.get("service_ibi"), fields.get("challenge", "")
    if not isinstance(service_ibi, str) or not isinstance(challenge, str):
        raise ParseError("request", "", "the body is a JSON object with service_ibi and perhaps challenge")
    return parse_ibi(service_ibi), challenge


def _json(status: int, facts: dict[str, Any], *headers: tuple[str, str]) -> Response:
    return Response(status, json.dumps(facts).encode() + b"\n", JSON, (*NO_STORE, *headers))


def _refusal(status: int, problem: str, *headers: tuple[str, str]) -> Response:
    return _json(status, {"problem": problem}, *headers)
