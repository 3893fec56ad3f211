"""Ask a resolver: where a persistent URL leads, what is known of it, its metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ibi.client.answers import members_of, metadata_of, refusal, refusal_of
from ibi.client.transport import JSON, PROBLEM, Client
from ibi.errors import PeerGarbled
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.persistent_url import persistent_path
from ibi.protocol.vocabulary import INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.client.answers import Members, Metadata
    from ibi.client.transport import Reply
    from ibi.identifier.forms import Name
    from ibi.protocol.persistent_url import PersistentURL

_FOUND: Final = 302
_SILENT: Final = re.compile("([0-9]{1,9}) of [0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Resolution:
    """Where a persistent URL leads.

    `archive`: the service IBI of the Archive that was chosen, and `state` what it holds there: "Original", "Copy", or
    "" if the resolver does not tell; `silent`: how many Archives, which might hold the original, were silent;
    `explanation`: all that the resolver tells, as JSON.
    """

    url: str
    archive: str
    state: str
    silent: int
    explanation: Mapping[str, Any]

    @property
    def incomplete(self) -> bool:
        """Whether an original was demanded, and an Archive that might hold another one was silent."""
        return self.silent > 0


@dataclass(frozen=True, slots=True)
class HandleValue:
    """One value of a record of the Handle System: its type, as "URL", and its data."""

    index: int
    type: str
    data: str


class Resolver(Client):
    """A resolver, by its root URL. A name may be a persistent URL, an IBI, or a text with one in it."""

    def resolve(self, name: str | Name | PersistentURL) -> Resolution:
        """Return where a persistent URL leads. No reader is counted.

        Raises ParseError, NotFound, Removed, TwoOriginals, Unavailable and other Refused, and PeerError.
        """
        target = persistent_path(str(name))
        reply = self._explained(target)
        if reply.kind not in {JSON, PROBLEM}:
            return self._resolve_without_explanation(target)
        answer = members_of(reply, self.host)
        outcome = answer.members("outcome")
        if reply.outcome != _FOUND:
            raise refusal(self.host, reply.outcome, outcome.members("alert").all, reply.retry_after)
        archive, url = outcome.text("archive"), outcome.text("location")
        if not url:
            raise PeerGarbled("the answer of {host} cannot be understood", host=self.host)
        silent = _SILENT.fullmatch(reply.headers.get(INCOMPLETE, ""))
        state = _state(answer.list("rounds"), archive)
        return Resolution(url, archive, state, int(silent[1]) if silent else 0, answer.all)

    def explain(self, name: str | Name | PersistentURL) -> Mapping[str, Any]:
        """Return how a persistent URL is resolved, also if it leads nowhere. Raises ParseError, Refused, PeerError."""
        reply = self._explained(persistent_path(str(name)))
        if reply.kind not in {JSON, PROBLEM}:
            raise PeerGarbled("this resolver does not explain what it does")
        return members_of(reply, self.host).all

    def metadata(self, name: str | Name | PersistentURL, format: str = "oai_dc") -> Metadata:  # noqa: A002 - the word of the interface
        """Return the metadata of an item in a format that its Archive offers at resolvers.

        Follows `<ibi>:(format)`, so it counts as a reader. Raises as `resolve`.
        """
        reply = self.follow(f"/{unwrap(str(name)).ibi}:({format})", f"{PROBLEM}, */*;q=0.5")
        return metadata_of(reply, self.host)

    def handle_values(self, name: str | Name, *, everywhere: bool = False) -> list[HandleValue]:
        """Return the record of an item as the Handle System has it; `everywhere`: with all its places.

        Raises as `resolve`.
        """
        words = "?all" if everywhere else ""
        reply = self.ask("GET", f"/-/api/handles/{unwrap(str(name)).ibi}{words}", JSON)
        values = members_of(reply, self.host).list("values")
        return [
            HandleValue(each.number("index") or 0, each.text("type"), _data(each.members("data")))
            for each in values
        ]

    def _explained(self, target: str) -> Reply:
        return self.ask("GET", f"/-/explain{target}", JSON)

    def _resolve_without_explanation(self, target: str) -> Resolution:
        """Return the redirect of a resolver of another make."""
        # HEAD, because a GET would be counted as a reader, and acknowledged to the Archive.
        reply = self.ask("HEAD", target, "text/plain")
        location = reply.headers.get("location", "")
        if not location:
            raise refusal_of(reply, self.host)
        return Resolution(location, "", "", 0, {})


def _state(rounds: list[Members], archive: str) -> str:
    """Return the state that the chosen Archive gave in the last round."""
    statements = rounds[-1].list("statements") if rounds else []
    states = [each.members("pairs").text("state") for each in statements if each.text("archive") == archive]
    return states[-1] if states else ""


def _data(data: Members) -> str:
    value = data.all.get("value")
    return value if isinstance(value, str) else ""
