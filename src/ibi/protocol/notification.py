"""What I hold has changed: from an Archive to a resolver that remembers its answers (note 46, ours)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from ibi.errors import ParseError
from ibi.identifier.forms import IBI, Name, parse_ibi, parse_name
from ibi.protocol import vocabulary as say
from ibi.protocol.query_string import write_query
from ibi.protocol.vocabulary import Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_CHANGED: Final = 50
"""Names in one notification."""

_WHAT: Final = "request"


@final
@dataclass(frozen=True, slots=True)
class ChangeNotification:
    """What the Archive of this service says of these names may be another thing now; without names, all it says."""

    service_ibi: IBI
    changed: tuple[Name, ...] = ()

    def query(self) -> str:
        """The query string, names in alphabetical order; those of items in their canonical form."""
        pairs = [
            (say.CHANGED, " ".join(name.canonical for name in self.changed)),
            (say.ARCHIVE_SERVICE, str(self.service_ibi)),
            (say.SERVICE_SUBJECT, Subject.CHANGE.value),
        ]
        return write_query((name, value) for name, value in pairs if value)

    @classmethod
    def of(cls, values: Mapping[str, str]) -> ChangeNotification:
        """Read from decoded pairs. Raises ParseError."""
        service, changed = values.get(say.ARCHIVE_SERVICE, ""), values.get(say.CHANGED)
        if not service:
            raise ParseError(_WHAT, "", "the pair {name} is missing", name=say.ARCHIVE_SERVICE)
        names = changed.split() if changed is not None else []
        if len(names) > MOST_CHANGED or (changed is not None and not names):
            problem = "a notification tells from 1 to {limit} changed names, or has no such pair"
            raise ParseError(_WHAT, changed or "", problem, limit=MOST_CHANGED)
        return cls(parse_ibi(service), tuple(map(parse_name, names)))
