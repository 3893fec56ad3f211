"""What servers answer, checked: members of JSON, refusals with their facts, metadata."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ibi.client.transport import JSON, PROBLEM
from ibi.errors import IbiError, PeerGarbled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.client.transport import Reply

_NO_FACTS: Mapping[str, Any] = {}


class Refused(IbiError):
    """The server refused, with this HTTP `status`; of a resolution, the alert.

    `kind`: of an alert, else ""; `facts`: all members of the problem (RFC 9457); `retry_after`: seconds, or None.
    """

    def __init__(
        self, error: IbiError, status: int, facts: Mapping[str, Any], retry_after: float | None
    ) -> None:
        super().__init__(error.problem, **error.details)
        self.status = status
        self.facts = facts
        self.retry_after = retry_after
        self.kind = _text(facts.get("kind"))


class NotFound(Refused):
    """No such item, edition, translation or format (404)."""


class Removed(Refused):
    """The item was removed (410) at this `moment`, "" if that is not known."""

    @property
    def moment(self) -> str:
        """The timestamp of the removal."""
        item = self.facts.get("item")
        return _text((item if isinstance(item, dict) else self.facts).get("timestamp"))


class Unavailable(Refused):
    """The server cannot answer now, or was asked too often (429, 503)."""


class TwoOriginals(Refused):
    """Several Archives claim the original (409)."""

    @property
    def archives(self) -> tuple[str, ...]:
        """The service IBIs of those Archives."""
        about = self.facts.get("about")
        return tuple(filter(None, map(_text, about))) if isinstance(about, list) else ()


class Metadata(NamedTuple):
    """Metadata in a format, and the URL where they are."""

    content: bytes
    media_type: str
    url: str


class Members:
    """The members of a JSON object from outside. A missing one has a default; one of another type is PeerGarbled."""

    def __init__(self, value: object, host: str) -> None:
        if not isinstance(value, dict):
            raise garbled(host)
        self.all: dict[str, Any] = value
        self._host = host

    def text(self, name: str) -> str:
        """Return a text; "" if it is missing or null."""
        value: str = self._one(name, str, "")
        return value

    def number(self, name: str) -> int | None:
        """Return a whole number; None if it is missing or null."""
        value = self.all.get(name)
        return None if value is None else self._one(name, int, 0)

    def members(self, name: str) -> Members:
        """Return an object; an empty one if it is missing or null."""
        return Members(self._one(name, dict, {}), self._host)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list."""
        values = self._one(name, list, [])
        if not all(isinstance(each, str) for each in values):
            raise garbled(self._host)
        return tuple(values)

    def list(self, name: str) -> list[Members]:
        """Return the objects of a list."""
        return [Members(each, self._host) for each in self._one(name, list, [])]

    def _one(self, name: str, kind: type, default: Any) -> Any:
        value = self.all.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or isinstance(value, bool):
            raise garbled(self._host)
        return value


def garbled(host: str) -> PeerGarbled:
    """Return the error of an answer that makes no sense."""
    return PeerGarbled("the answer of {host} cannot be understood", host=host)


def members_of(reply: Reply, host: str) -> Members:
    """Return the JSON of an answer. Raises PeerGarbled, and Refused if it is a refusal."""
    if not 200 <= reply.status < 300:  # noqa: PLR2004 - the statuses of success
        raise refusal_of(reply, host)
    if reply.kind != JSON:
        raise garbled(host)
    return Members(_loaded(reply.body, host), host)


def metadata_of(reply: Reply, host: str) -> Metadata:
    """Return the metadata of an answer. Raises Refused."""
    if reply.status != 200:  # noqa: PLR2004 - OK
        raise refusal_of(reply, host)
    return Metadata(reply.body, reply.headers.get("content-type", ""), reply.url)


def refusal_of(reply: Reply, host: str) -> Refused:
    """Return the error of an answer that is a refusal. Raises PeerGarbled if its problem cannot be read."""
    facts = _NO_FACTS
    if reply.kind == PROBLEM:
        facts = Members(_loaded(reply.body, host), host).all
    return refusal(host, reply.status, facts, reply.retry_after)


def refusal(host: str, status: int, facts: Mapping[str, Any], retry_after: float | None = None) -> Refused:
    """Return the error of a status and the members of a problem."""
    title, detail, kind = (_text(facts.get(name)) for name in ("title", "detail", "kind"))
    line = f"{title}. {detail}" if kind else detail or title
    error = IbiError("{line}", line=line)
    if not line:
        error = IbiError("{host} answers with the status {status}", host=host, status=status)
    exception = _REFUSALS.get(status, Refused)
    if exception is TwoOriginals and kind != "suspect-originals":
        exception = Refused
    return exception(error, status, facts, retry_after)


_REFUSALS = {404: NotFound, 409: TwoOriginals, 410: Removed, 429: Unavailable, 503: Unavailable}


def _loaded(body: bytes, host: str) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise garbled(host) from None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
