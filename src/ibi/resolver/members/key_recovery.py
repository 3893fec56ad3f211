"""A new key for an Archive that has lost its own: it proves that it controls its address (note 34, threat T15).

First it gets a challenge; then it shows the proof at /-/nonce, under the address where it confirmed last, and gets a
new key. The proof is the first 32 digits of the SHA-256 of the challenge, a blank, and the resolver's address.
"""

from __future__ import annotations

import asyncio
import hmac
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.errors import PeerError, SetupError
from ibi.http.client import HostPort
from ibi.resolver.members.confirmation import CONFIRMATION_SECONDS
from ibi.resolver.registry.keys import is_challenge, new_challenge, proof_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.http.client import Client
    from ibi.identifier.forms import IBI
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.registry.registry import Registry

PROOF_PATH: Final = "/-/nonce"
"""Where an Archive shows a proof."""

_OK: Final = 200


class KeyRecovery:
    """Gives new keys for proofs. `addresses` are those of this resolver; `now` returns POSIX seconds."""

    def __init__(
        self,
        addresses: Iterable[str],
        registry: Registry,
        client: Client,
        now: Callable[[], float],
        evidence: Evidence,
        mail: MailSender,
    ) -> None:
        # The Archive takes the address by which it knows this resolver, never one from the challenge: a hostile
        # resolver that passes on our challenge gets a proof that is good for that resolver only.
        self._addresses = [str(HostPort.parse(address)) for address in addresses]
        self._registry = registry
        self._client = client
        self._now = now
        self._evidence = evidence
        self._mail = mail

    async def challenge(self, service_ibi: IBI) -> str:
        """Make a challenge for an Archive, registered or not. Raises SetupError."""
        secret = await asyncio.to_thread(self._registry.challenge_secret, service_ibi)
        return new_challenge(secret, service_ibi.canonical, self._now())

    async def new_key(self, service_ibi: IBI, challenge: str) -> tuple[IBI, str] | None:
        """Give an Archive a new key; return its IBI as registered and the key, or None where nothing is proved.

        Raises SetupError.
        """
        secret = await asyncio.to_thread(self._registry.challenge_secret, service_ibi)
        known = await asyncio.to_thread(self._registry.entry, service_ibi)
        if not is_challenge(challenge, secret, service_ibi.canonical, self._now()) or known is None:
            return None
        if not known.confirmed_address or not await self._shows_proof(known.confirmed_address, challenge):
            return None
        record = partial(self._evidence.write, "rotated", ibi=str(known.service_ibi), by="proof")
        try:
            key = await asyncio.to_thread(self._registry.rotate, service_ibi, secret, record)
        except SetupError:
            # The proof stays in view for a while, so two calls may use it: only the first one gets a key.
            if await asyncio.to_thread(self._registry.challenge_secret, service_ibi) != secret:
                return None
            raise
        self._mail.rotated(known)
        return known.service_ibi, key

    async def _shows_proof(self, address: str, challenge: str) -> bool:
        try:
            reply = await self._client.get(address, PROOF_PATH, CONFIRMATION_SECONDS)
        except PeerError:
            return False
        shown, proofs = reply.body.strip(), [proof_of(challenge, own).encode() for own in self._addresses]
        return reply.status == _OK and any(hmac.compare_digest(shown, proof) for proof in proofs)
