"""The replies of both services but the URL list (MSG-23, MSG-24, MSG-28): frozen values, exact bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Self, final

from ibi.errors import ParseError
from ibi.protocol.pair_list import PairList, read_pairs, write_pairs


@dataclass(frozen=True, slots=True)
class _FixedReply:
    """What the replies that are always the same have in common."""

    pairs: ClassVar[PairList]

    def body(self) -> bytes:
        """The body, exactly."""
        return write_pairs(self.pairs)

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read a body; anything but these pairs is a ParseError (REG-09)."""
        _expect(body, cls.pairs)
        return cls()


@final
class Confirmation(_FixedReply):
    """The Archive is there (MSG-23)."""

    __slots__ = ()
    pairs: ClassVar[PairList] = {"confirmation": "yes"}


@final
class Notice(_FixedReply):
    """The acknowledgment was received (MSG-28)."""

    __slots__ = ()
    pairs: ClassVar[PairList] = {"notice": ("acknowledgment", "received")}


@final
class ChangeReceived(_FixedReply):
    """A change notification was received; the answers it names are cached no longer (note 46, ours)."""

    __slots__ = ()
    pairs: ClassVar[PairList] = {"notice": ("change", "received")}


@final
class ExclusionStatus(_FixedReply):
    """The Archive is excluded (REG-06)."""

    __slots__ = ()
    pairs: ClassVar[PairList] = {"status.archive": "excluded"}


@final
@dataclass(frozen=True, slots=True)
class Refusal:
    """Not registered, or not with this key (AMB-33; the standard has no words for it).

    `address`: the key is right, but the resolver contacts no Archive at the given address (an extension of ours).
    """

    address: bool = False

    def body(self) -> bytes:
        """The body, exactly."""
        return write_pairs({"status.archive": "refused"} | (_ADDRESS_REFUSED if self.address else {}))

    @classmethod
    def read(cls, body: bytes) -> Refusal:
        """Read the body of any refusal: resolvers of another make may say what they like."""
        try:
            pairs = read_pairs(body)
        except ParseError:
            return cls()
        return cls(_ADDRESS_REFUSED.items() <= pairs.items())


_ADDRESS_REFUSED: Final[PairList] = {"status.address": "refused"}


@final
@dataclass(frozen=True, slots=True)
class InclusionStatus:
    """The Archive is included; whether its confirmation arrived (REG-06)."""

    confirmed: bool

    def body(self) -> bytes:
        """The body, exactly."""
        outcome = "successful" if self.confirmed else "unsuccessful"
        return f"status.archive included status.confirmation {outcome}".encode("ascii")

    @classmethod
    def read(cls, body: bytes) -> InclusionStatus:
        """Read a body. Raises ParseError if it says anything else."""
        confirmed = read_pairs(body).get("status.confirmation") == "successful"
        outcome = "successful" if confirmed else "unsuccessful"
        _expect(body, {"status.archive": "included", "status.confirmation": outcome})
        return cls(confirmed)


@final
@dataclass(frozen=True, slots=True)
class RequestError:
    """The request was not understood (AMB-32; the standard has no words for it)."""

    problem: str

    def body(self) -> bytes:
        """The pair `error`, its words the sentence as far as ASCII goes."""
        # Braces, blanks and what is not ASCII cannot stand in a word of a pair list (Table 6.2).
        words = "".join(
            char if "!" <= char <= "~" and char not in "{}" else " " for char in self.problem
        ).split()
        return write_pairs({"error": tuple(words)})


def _expect(body: bytes, pairs: PairList) -> None:
    if read_pairs(body) != pairs:
        raise ParseError("reply", body.decode("latin-1"), "this is not the reply that was expected")
