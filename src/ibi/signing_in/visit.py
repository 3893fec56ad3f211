"""One visit to an administration: who is there, and what was typed; and what each of its pages has to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ibi.errors import IbiError, ParseError
from ibi.identifier.forms import parse_name
from ibi.protocol.query_string import read_query, unescape

if TYPE_CHECKING:
    from ibi.exchange import Asked
    from ibi.identifier.forms import Name
    from ibi.signing_in.door import Caller, Signed
    from ibi.tokens import Scope

ROOT: Final = "/-/admin"
"""Where an administration is."""


@dataclass(frozen=True, slots=True)
class Form:
    """What was typed, field by field in the order of the page; and the files, where a service takes any."""

    fields: Sequence[tuple[str, str]] = ()
    files: Any = field(default_factory=dict)

    def one(self, name: str) -> str:
        """The value of a field, without blanks around it; "" if it is not there."""
        return next((value.strip() for each, value in self.fields if each == name), "")

    def many(self, name: str) -> list[str]:
        """All values of a field."""
        return [value for each, value in self.fields if each == name]


@dataclass(frozen=True, slots=True)
class Visit:
    """One request. `rest`: what follows the word of the page in the path, as it came."""

    asked: Asked
    signed: Signed
    caller: Caller
    rest: str = ""

    @property
    def name(self) -> Name:
        """The identifier that the path tells. Raises ParseError."""
        return parse_name(unescape(self.rest))

    @property
    def query(self) -> Mapping[str, str]:
        """The words of the query, decoded; {} for a query that is none."""
        return query_of(self.asked)

    def may(self, scope: Scope) -> bool:
        """Whether whoever is there may do this."""
        return self.signed.role.may(scope)


def query_of(asked: Asked) -> Mapping[str, str]:
    """The words of a query, decoded; {} for a query that is none."""
    try:
        pairs = list(read_query(asked.query)) if asked.query else []
        return {name: value.encode("latin-1").decode() for name, value in pairs}
    except (ParseError, UnicodeError):
        return {}


class Screen(Protocol):
    """One page of an administration, which may also be sent back with something typed in.

    Both may wait for the disk: they run in threads. What they raise is shown on the page, beside what was typed.
    """

    scope: Scope
    """What a role must be good for."""
    files: bool
    """Whether files come with the form."""

    def show(self, visit: Visit, typed: Form | None) -> Any:
        """The page, a value; with what was `typed`, where that could not be done. Raises IbiError."""

    def do(self, visit: Visit, form: Form) -> Any:
        """Do what the form says; returns where to go next, a text, or a page. Raises IbiError."""


class NotFound(IbiError):
    """There is no such page."""


class ReadOnly:
    """A page on which there is nothing to send."""

    files = False

    def do(self, _visit: Visit, _form: Form) -> Any:
        """Refuse. Raises NotFound."""
        raise NotFound("there is no such page here")
