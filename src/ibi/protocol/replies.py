"""The replies of both services, except the URL list, as frozen values (MSG-23, MSG-24, MSG-28)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Self, final

from ibi.errors import ParseError
from ibi.protocol.pair_list import PairList, read_pairs, write_pairs


@dataclass(frozen=True, slots=True)
class _FixedReply:
    """The common base of replies whose body is always the same."""

    pairs: ClassVar[PairList]

    def body(self) -> bytes:
        """Return the body."""
        return write_pairs(self.pairs)

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read a body. Raises ParseError for any other pairs (REG-09: what confirms)."""
        _expect(body, cls.pairs)
        return cls()


@final
class Confirmation(_FixedReply):
    """The reply of an Archive that it has asked to be included (MSG-23: the confirmation)."""

    __slots__ = ()
    pairs: ClassVar[PairList] = {"confirmation": "yes"}


@final
class AcknowledgmentReceived(_FixedReply):
    """The notice that an acknowledgment was received (MSG-28: the reply to an acknowledgment)."""

    __slots__ = ()
    pairs: ClassVar[PairList] = {"notice": ("acknowledgment", "received")}


@final
class ChangeReceived(_FixedReply):
    """The notice that a change notification was received and its answers are no longer cached (note 46)."""

    __slots__ = ()
    pairs: ClassVar[PairList] = {"notice": ("change", "received")}


@final
class ExclusionStatus(_FixedReply):
    """The reply that the Archive is excluded (REG-06: exact status texts)."""

    __slots__ = ()
    pairs: ClassVar[PairList] = {"status.archive": "excluded"}


@final
@dataclass(frozen=True, slots=True)
class Refusal:
    """The reply to an Archive that is not registered, or not with this key (AMB-33; not in the standard).

    `address`: the key is right, but the resolver contacts no Archive at the given address (our extension).
    """

    address: bool = False

    def body(self) -> bytes:
        """Return the body."""
        return write_pairs({"status.archive": "refused"} | (_ADDRESS_REFUSED if self.address else {}))

    @classmethod
    def read(cls, body: bytes) -> Refusal:
        """Read the body of any refusal; other implementations may send any body, so nothing is an error."""
        try:
            pairs = read_pairs(body)
        except ParseError:
            return cls()
        return cls(_ADDRESS_REFUSED.items() <= pairs.items())


_ADDRESS_REFUSED: Final[PairList] = {"status.address": "refused"}


@final
@dataclass(frozen=True, slots=True)
class InclusionStatus:
    """The reply that the Archive is included, and whether its confirmation arrived (REG-06: exact status texts)."""

    confirmed: bool

    def body(self) -> bytes:
        """Return the body."""
        outcome = "successful" if self.confirmed else "unsuccessful"
        return f"status.archive included status.confirmation {outcome}".encode("ascii")

    @classmethod
    def read(cls, body: bytes) -> InclusionStatus:
        """Read a body. Raises ParseError for any other pairs."""
        confirmed = read_pairs(body).get("status.confirmation") == "successful"
        outcome = "successful" if confirmed else "unsuccessful"
        _expect(body, {"status.archive": "included", "status.confirmation": outcome})
        return cls(confirmed)


@final
@dataclass(frozen=True, slots=True)
class RequestError:
    """The reply that a request was not understood (AMB-32; not in the standard)."""

    problem: str

    def body(self) -> bytes:
        """Return the pair `error`, whose value is the words of the sentence."""
        # Other characters are left out: a word of a pair list has no braces, blanks or non-ASCII (Table 6.2).
        words = "".join(
            char if "!" <= char <= "~" and char not in "{}" else " " for char in self.problem
        ).split()
        return write_pairs({"error": tuple(words)})


def _expect(body: bytes, pairs: PairList) -> None:
    if read_pairs(body) != pairs:
        raise ParseError("reply", body.decode("latin-1"), "this is not the reply that was expected")
