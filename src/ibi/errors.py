"""Everything that this library raises on purpose.

    IbiError
    ├── ParseError          a text is not what it should be: which part, and the nearest valid spelling
    │   └── TextTooLong         it may be right, but is longer than is read
    ├── MintingError        no label can be given now
    │   ├── MintingNotAllowed       this prefix may not be minted under, or not for this item
    │   ├── LostState           the last date is unknown, so the next label might be a second one
    │   └── ClockError          the clock cannot be believed
    ├── HoldingError        the Archive cannot do this with this item
    │   ├── NotHeld
    │   ├── AlreadyHeld
    │   ├── Conflict        the item was changed meanwhile
    │   ├── Unsettled       the item came back from a backup, and may have moved or been removed since
    │   ├── BadItem         the description of an item contradicts itself or the rules
    │   └── AnswerTooLong   the answer to one question would be longer than a resolver reads
    ├── BadField            a field of an operation is missing, unknown, or not what it may be
    ├── WrongArchive        an answer in the name of another Archive, or about another item
    ├── PeerError           another machine failed
    │   ├── ForbiddenAddress        it is at an address that must never be contacted
    │   ├── PeerSilent              no connection, no answer, or not in time
    │   │   ├── PeerUnreachable     no connection could be made
    │   │   └── QueryNotSent        it was not sent: too much was in flight here, or the circuit of the peer is open
    │   │       └── ResponseNotRead     it was sent, and its response was not read: too much was in flight here
    │   └── PeerGarbled             an answer that is no message of the protocol
    │       ├── QueryRefused        this query was refused, or its answer is too large
    │       └── PeerBusy            it asks for a pause
    └── SetupError          a data directory or a setting cannot be used
        └── StoreSilent         a store on another machine does not answer now, and may do so later

What a resolution comes to (a redirect, an alert) is a value, never an error.
"""

from __future__ import annotations

LONGEST_SHOWN = 120
"""Characters of a faulty text that are worth showing to a person."""


class IbiError(Exception):
    """The root of the tree.

    `problem` is a plain English sentence, or a template filled from `details`; as a template it is also the key
    under which translations are found. `str(error)` is the filled sentence.
    """

    def __init__(self, problem: str, **details: object) -> None:
        super().__init__(problem)
        self.problem = problem
        self.details = details

    def __str__(self) -> str:
        return self.problem.format(**self.details) if self.details else self.problem


class ParseError(IbiError, ValueError):
    """A text is not what it should be.

    `what` names the noun that was expected ("IBIp"); `text[start:end]` is the part at fault; `suggestion` is the
    nearest valid spelling, or None.
    """

    def __init__(
        self,
        what: str,
        text: str,
        problem: str,
        start: int = 0,
        end: int | None = None,
        suggestion: str | None = None,
        **details: object,
    ) -> None:
        super().__init__(problem, **details)
        self.what = what
        self.text = text
        # Grammars report "at the end" by a position behind the text; a caret must stay under it.
        self.start = min(start, len(text))
        self.end = min(max(len(text) if end is None else end, self.start), len(text))
        self.suggestion = suggestion

    def within(self, what: str, text: str, offset: int) -> ParseError:
        """The same fault, seen in a larger text in which this one starts at `offset`."""
        start, end = self.start + offset, self.end + offset
        return ParseError(what, text, self.problem, start, end, self.suggestion, **self.details)

    def caret(self) -> str:
        """The text, and below it carets under the fault (two lines; long or unprintable texts are cut and masked)."""
        first = max(0, self.start - LONGEST_SHOWN // 2)
        # The text is a stranger's: what is not printable ASCII could steer the terminal on which it is shown.
        shown = "".join(c if " " <= c <= "~" else "?" for c in self.text[first : first + LONGEST_SHOWN])
        at = self.start - first
        width = max(1, min(self.end, first + LONGEST_SHOWN) - self.start)
        return f"{shown}\n{' ' * at}{'^' * width}"


def with_text(error: IbiError) -> IbiError:
    """The error as people and programs are told it: of a text that cannot be parsed, after the text."""
    if isinstance(error, ParseError) and error.text:
        return IbiError("{text}: {reason}", text=error.text[:LONGEST_SHOWN], reason=error)
    return error


class TextTooLong(ParseError):
    """A text, which may be right, is longer than is read."""


class MintingError(IbiError):
    """No label can be given now."""


class MintingNotAllowed(MintingError):
    """The prefix may not be minted under (AMB-10: names for trying), or not for items like this one."""


class LostState(MintingError):
    """The last date given is missing, damaged or older than what was given (AMB-18: lost state)."""


class ClockError(MintingError):
    """The clock stands where it cannot be believed (GEN-44: the last date is on disk first)."""


class HoldingError(IbiError):
    """The Archive cannot do this with this item."""


class NotHeld(HoldingError):
    """The Archive knows no such item."""


class AlreadyHeld(HoldingError):
    """The Archive already holds an item of this name (ARC-01, ARC-04)."""


class Conflict(HoldingError):
    """The item was changed meanwhile, by another request."""


class Unsettled(HoldingError):
    """The item came back from a backup, and may have moved or been removed since."""


class BadItem(HoldingError):
    """The description of an item contradicts itself or the rules."""


class AnswerTooLong(HoldingError):
    """The answer to one question would be longer than a resolver reads (T10: huge answers)."""


class BadField(IbiError):
    """A field of an operation is missing, unknown, or not what it may be; `details["name"]` names it."""


class PeerError(IbiError):
    """Another machine failed."""


class ForbiddenAddress(PeerError):
    """The peer is at an address that must never be contacted."""


class PeerSilent(PeerError):
    """No connection, no answer, or not in time."""


class PeerUnreachable(PeerSilent):
    """No connection could be made: whatever was to be asked had no part in it."""


class QueryNotSent(PeerSilent):
    """The query was not sent: too much was in flight here, or the circuit of the peer is open."""


class ResponseNotRead(QueryNotSent):
    """The query was sent, and its response was not read: too much was in flight here."""

    # A subclass of QueryNotSent: as little as a query that was never sent does it count against the peer.


class PeerGarbled(PeerError):
    """Something answered, but not with a message of the protocol."""


class WrongArchive(IbiError):
    """An answer in the name of another Archive, or about another item than was asked for (T08: false answers)."""


class QueryRefused(PeerGarbled):
    """The query was refused, or its answer is too large: that tells of the query, not of the peer."""


class PeerBusy(PeerGarbled):
    """The peer asks for a pause of so many `seconds` (Retry-After)."""

    def __init__(self, problem: str, seconds: int) -> None:
        super().__init__(problem, seconds=seconds)
        self.seconds = seconds


class SetupError(IbiError):
    """A data directory or a setting cannot be used."""


class StoreSilent(SetupError):
    """A store on another machine does not answer now, and may do so later."""
