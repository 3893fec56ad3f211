"""How the words "that satisfies the request" are read, and what a resolver may know beforehand; pure.

One machine resolves; the two policies differ in the few functions of this room and in nothing else (note 7).

    strict     the letter of the standard: everybody is asked, and the first answer that satisfies is taken
    hardened   only narrower readings: an answer must speak for itself, likely holders are asked first, the known
               holder of an original is preferred, and answers that depend on no reader may be used again
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ibi.errors import IbiError
from ibi.identifier.legacy import LegacyId
from ibi.resolver.plan import Archive as Planned
from ibi.resolver.plan import Members, Plan, everybody, likely_first
from ibi.resolver.selection import host_of_url, is_safe_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibi.protocol.messages import UrlRequest
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.plan import Filters
    from ibi.resolver.selection import Archive

_Asked = TypeVar("_Asked", bound=Planned)


class Difference(NamedTuple):
    """Something that only the hardened policy does: its name, and a sentence for people."""

    name: str
    sentence: str


DIFFERENCES: Final = (
    Difference(
        "speaks-for-itself", "An answer must name the item that was asked for and the Archive that was asked."
    ),
    Difference("likely-first", "Likely holders are asked first; everybody else when these do not settle it."),
    Difference("known-holder", "The Archive that first showed the original is preferred to a faster one."),
    Difference(
        "memory", 'Answers are used again as long as their Archive allows; "nobody has it" for a minute.'
    ),
    Difference(
        "own-name", "Where an item is offered but its original is not, the item is asked for by its own name."
    ),
    Difference("probation", "An Archive that has not confirmed its inclusion keeps nobody waiting."),
)
"""What the hardened policy does and the strict one does not, as `/-/about` tells it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One of the two policies. `private_urls`: whether a redirect may lead to an address that is not public."""

    strict: bool = False
    private_urls: bool = False

    @property
    def name(self) -> str:
        """As the command line calls it."""
        return "strict" if self.strict else "hardened"

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What it does beyond the letter of the standard."""
        return () if self.strict else DIFFERENCES

    @property
    def looks_further(self) -> bool:
        """Whether an item that is offered, but not as the original, is asked for by its own name before an alert."""
        return not self.strict

    @property
    def remembers(self) -> bool:
        """Whether answers, absence and holders are remembered from one resolution to the next."""
        return not self.strict

    def members(self, archives: Iterable[_Asked]) -> Members[_Asked]:
        """Who may be asked, and who is on probation."""
        return Members.of(archives, probation=not self.strict)

    def plan(
        self,
        members: Members[_Asked],
        request: UrlRequest,
        hinted: Sequence[str],
        filters: Filters | None,
        *,
        original_required: bool,
    ) -> Plan[_Asked]:
        """Whom to ask first. Where the original is required, every answer counts, so all are asked at once."""
        if self.strict or original_required:
            return everybody(members)
        return likely_first(members, request.ibi, hinted, filters)

    def holder(self, service: str | None) -> str | None:
        """The known holder of an original whose answer is preferred, if any is."""
        return None if self.strict else service

    def disbelief(self, archive: Archive, request: UrlRequest, answer: UrlList) -> IbiError | None:
        """Why a non-empty answer is not taken for one, None if it is (threat T08)."""
        if self.strict:
            return None
        if not answer.is_of(archive.service_ibi):
            return IbiError("the answer is not in the name of this Archive")
        if isinstance(request.ibi, LegacyId):  # an answer has no place to repeat such a name
            return None
        if answer.forms is None or not answer.forms.names(request.ibi):
            return IbiError("the answer is about another item")
        return None

    def leads(self, archive: Archive, url: str | None) -> bool:
        """Whether a reader may be sent to a URL."""
        if url is None or not is_safe_url(url, allow_private=self.private_urls):
            return False
        return not archive.url_hosts or host_of_url(url) in archive.url_hosts
