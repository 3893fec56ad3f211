"""What several Archives are asked at one moment, each on a flight of its own, and what is heard of them (RES-04).

What goes out does not depend on how the answers will be judged: a `UrlRequest` knows nothing of the reader's language
or of a required state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from ibi.protocol.url_list import UrlList
from ibi.transport import path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.errors import IbiError
    from ibi.identifier.forms import IBI
    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.memory_rows import Mark
    from ibi.transport import Deadline, Path, Query

NOTHING: Final = UrlList({})
"""What most Archives say of most items."""


class Archive(Protocol):
    """What must be known of an Archive in order to ask it (MSG-03)."""

    @property
    def service_ibi(self) -> IBI:
        """The IBI of its Archive service, as registered; its text is the path of the base URL."""

    @property
    def address(self) -> str:
        """Its address, "host[:port]"."""


_Asked = TypeVar("_Asked", bound=Archive)


class Heard(NamedTuple, Generic[_Asked]):
    """An Archive has answered; an empty URL list says that it does not know the item.

    `again`: it said so before, and allowed that the answer be used again (note 1).
    """

    archive: _Asked
    url_list: UrlList
    again: bool = False


class Silent(NamedTuple, Generic[_Asked]):
    """An Archive gave no answer that counts, for a reason that is one of our own errors.

    `garbled`: it did answer, but not with a URL list (AMB-32). `asleep`: it was not asked, for it failed often lately.
    """

    archive: _Asked
    why: IbiError
    garbled: bool = False
    asleep: bool = False


@dataclass(slots=True, eq=False)
class Inquiry(Generic[_Asked]):
    """What several Archives are asked at the same moment, and who hears of it: `tell` is called once for each.

    `remembered`: whether an answer may be used that was given before; `joined`: one that somebody waits for already;
    `paced`: whether they are many, who are asked a few at a time; `judged`: whether silence is held against them.
    `latest`: nobody is sent the question after that time of the loop; `waits`: seconds that those took who have
    answered, to be counted when nobody of the `under_way` is left.
    """

    request: UrlRequest
    query: str
    target: Query
    tell: Callable[[Heard[_Asked] | Silent[_Asked]], None]
    deadline: Deadline
    begun: float
    latest: float
    mark: Mark
    remembered: bool
    joined: bool
    paced: bool
    judged: bool
    under_way: int = 0
    waits: list[float] = field(default_factory=list)


class Way(NamedTuple):
    """How an Archive is asked, and its most frequent answer: that it knows nothing."""

    archive: Archive
    path: Path
    nothing: Heard[Any]

    @classmethod
    def to(cls, archive: Archive) -> Way:
        """To an Archive as it is registered."""
        return cls(archive, path_of(f"/{archive.service_ibi}"), Heard(archive, NOTHING))


class Flight:
    """One question that is under way; `others`: who wants to hear what comes of it, besides who asked it."""

    __slots__ = ("inquiry", "others", "service", "way")

    def __init__(self, service: str, way: Way, inquiry: Inquiry[Any]) -> None:
        self.service = service
        self.way = way
        self.inquiry = inquiry
        self.others: list[Callable[[Heard[Any] | Silent[Any]], None]] | None = None
