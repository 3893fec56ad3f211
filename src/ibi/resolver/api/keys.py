"""Archives ask for a new key: POST /-/api/keys, twice (note 34, threat T15).

{"service_ibi": "..."}
    200 {"challenge": "...", "at": "/-/nonce", "seconds": 600}; the same for Archives that are not registered
{"service_ibi": "...", "challenge": "..."}
    200 {"service_ibi": "...", "key": "..."}: the new key, shown once; the old one is void
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ParseError, SetupError
from ibi.http.limits.token_bucket import client_key
from ibi.http.limits.window import FailureLimit
from ibi.http.response import JSON, NO_STORE, Response
from ibi.identifier.forms import parse_ibi
from ibi.resolver.members.key_recovery import PROOF_PATH
from ibi.resolver.registry.keys import CHALLENGE_SECONDS

if TYPE_CHECKING:
    from ibi.http.limits.window import FailureWindows
    from ibi.http.request import Request
    from ibi.identifier.forms import IBI
    from ibi.resolver.members.key_recovery import KeyRecovery

PATH: Final = "/-/api/keys"
"""Where Archives ask for a new key."""

# More for an Archive than for one source: a stranger who asks in its name cannot use up its attempts alone.
_BY_IBI: Final = FailureLimit("new key of", 30, 60.0)
_BY_SOURCE: Final = FailureLimit("new key from", 10, 60.0)


class KeyRecoveryHandler:
    """Answers at /-/api/keys."""

    def __init__(self, recovery: KeyRecovery, throttle: FailureWindows) -> None:
        self._recovery = recovery
        self._throttle = throttle

    async def answer(self, request: Request, body: bytes) -> Response:
        """Answer a request with this body."""
        if request.method != "POST":
            return _refusal(405, "only POST is answered here", ("allow", "POST"))
        kind = request.header(b"content-type").partition(";")[0].strip().lower()
        # Browsers send Origin with every POST, and JSON from another site only after asking: no page on the web can
        # make its readers' browsers ask for keys.
        if kind != "application/json" or request.header(b"origin"):
            return _refusal(415, "the body must be plain JSON: Content-Type: application/json")
        try:
            service_ibi, challenge = read_body(body)
        except ParseError as error:
            return _refusal(400, str(error))
        wait = self._wait(service_ibi, request.source, counts_for_ibi=bool(challenge))
        if wait:
            return _refusal(429, "too many attempts", ("retry-after", str(int(wait) + 1)))
        try:
            return await (self._new_key(service_ibi, challenge) if challenge else self._begin(service_ibi))
        except SetupError as error:
            return _refusal(503, str(error), ("retry-after", "5"))

    def _wait(self, service_ibi: IBI, source: str, *, counts_for_ibi: bool) -> float:
        """Return the seconds to wait; 0 where the attempt is counted and may go on."""
        names = {_BY_SOURCE: client_key(source)}
        # To ask for a challenge costs the Archive nothing; only what makes this resolver call it counts for it.
        if counts_for_ibi:
            names[_BY_IBI] = service_ibi.canonical
        wait = max(self._throttle.wait(limit, name) for limit, name in names.items())
        if not wait:
            for limit, name in names.items():
                self._throttle.failed(limit, name)
        return wait

    async def _begin(self, service_ibi: IBI) -> Response:
        challenge = await self._recovery.challenge(service_ibi)
        return _json(200, {"challenge": challenge, "at": PROOF_PATH, "seconds": CHALLENGE_SECONDS})

    async def _new_key(self, service_ibi: IBI, challenge: str) -> Response:
        recovered = await self._recovery.new_key(service_ibi, challenge)
        if recovered is None:
            problem = "this proves nothing: the address where the Archive confirmed must show the proof"
            return _refusal(403, problem)
        registered, key = recovered
        return _json(200, {"service_ibi": str(registered), "key": key})


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
