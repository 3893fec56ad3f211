"""The two policies of a resolver: which answers are believed, and which Archives are asked first; pure.

Other modules call `Policy` wherever the two differ (`DIFFERENCES`, note 7).

    strict     the letter of the standard: all Archives are asked, and the first answer that satisfies is taken
    hardened   the standard's rules, and these: an answer must name its Archive and its item, likely holders are asked
               first, the known holder of an original is preferred, answers for all readers are reused

`Policy.plan` changes when an Archive is asked, never whether its answer counts. In the hardened policy the likely
holders are asked first, and all others if none of the likely holders' answers satisfies. The likely holders are the
Archives of the first of these kinds that has any:

    1. the Archive that first showed the original of the item, and the one that held it last (hints)
    2. an Archive whose own filter says that it may hold the item
    3. an Archive whose service has the prefix of the item (GEN-05: a prefix is no location, but may be a hint)

All likely holders are asked at the same moment. If no holder of the original is known (a new item, or a disputed
one), and only one Archive has the prefix, it is asked with them, and its answer is awaited for `grace_seconds` after a
faster one (T04: a rogue first answer).

All Archives are asked at once if none is likely, if the original is required, and in the strict policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ibi.errors import IbiError, WrongArchive
from ibi.identifier.legacy import LegacyId
from ibi.resolver.resolve.selection import is_numeric, one_spelling, safe_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ibi.protocol.messages import UrlRequest
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.model.archive import Archive, Members


MOST_LIKELY: Final = 4
"""Likely holders by filter or by prefix at most: if more are likely, the filters (or the prefixes) decide nothing.

The one Archive that has the prefix of the item may come in addition to four by filter."""

Why = Literal["hint", "filter", "prefix", "everybody", "memory"]
"""Why the Archives of a plan are asked first. The last two values are for a plan without any: all are asked at once; or
none is asked, because the negative cache answers."""


class Plan(NamedTuple):
    """The Archives that are asked first, and why; all others are asked if no answer of theirs satisfies."""

    archives: tuple[Archive, ...]
    why: Why = "everybody"


class Difference(NamedTuple):
    """Something that only the hardened policy does: its name, and a sentence for people."""

    name: str
    sentence: str


DIFFERENCES: Final = (
    Difference(
        "speaks-for-itself", "An answer must name the item that was asked for and the Archive that was asked."
    ),
    Difference(
        "likely-first", "Likely holders are asked first; all other Archives when these do not settle it."
    ),
    Difference(
        "known-holder",
        "The Archive that first showed the original is preferred to a faster one, and stays its holder until it says "
        "otherwise; at first sight the Archive with the item's prefix goes before others.",
    ),
    Difference(
        "memory",
        "Answers are used again as long as their Archive allows; that no Archive has an item, for a minute.",
    ),
    Difference(
        "own-name",
        "Where only copies of an edition, a translation or metadata are offered, a further round asks for that item "
        "by its own name, to find its original.",
    ),
    Difference("probation", "An Archive that has not confirmed its inclusion is not waited for."),
)
"""Everything that only the hardened policy does, as the page `/-/about` shows it."""


def wrong_archive() -> WrongArchive:
    """Return the error for an answer that names another Archive than the one that was asked."""
    return WrongArchive("the answer is not in the name of this Archive")


def another_item() -> WrongArchive:
    """Return the error for an answer about another item than the one that was asked for."""
    return WrongArchive("the answer is about another item")


class Policy:
    """One of the two policies. `private_urls`: whether a redirect may lead to an address that is not public.

    `own`: the hosts and ports at which this resolver answers, as `places_of` spells them; no redirect leads there.
    """

    __slots__ = (
        "_own",
        "_own_hosts",
        "_own_ports",
        "differences",
        "name",
        "private_urls",
        "reuses",
        "strict",
    )

    def __init__(
        self,
        strict: bool = False,  # noqa: FBT001, FBT002 - a setting
        private_urls: bool = False,  # noqa: FBT001, FBT002 - a setting
        own: Collection[tuple[str, int]] = (),
    ) -> None:
        self.strict = strict
        self.private_urls = private_urls
        self._own = frozenset(own)
        self._own_hosts = frozenset([host for host, _ in own])
        self._own_ports = frozenset([port for _, port in own])
        self.name = "strict" if strict else "hardened"
        """Its name on the command line."""
        self.differences = () if strict else DIFFERENCES
        """What it does beyond the letter of the standard."""
        self.reuses = not strict
        """Whether a resolution uses, and keeps for later ones, answers, "no Archive has it", and known holders."""

    def plan(
        self,
        members: Members,
        request: UrlRequest,
        hinted: Sequence[str | None],
        may_hold: Callable[[str], Sequence[str]] | None,
        homes: Sequence[Archive] = (),
        *,
        original_required: bool,
    ) -> Plan:
        """Return the Archives to ask first.

        `hinted`: canonical service IBIs, the likeliest first. `may_hold` returns the services whose filter
        says that they may hold the item of a canonical name; None where no Archive publishes a filter.
        `homes`: where no holder of the original is known, the Archives whose service has the prefix of the
        item; if there is one only, it stands before the other likely holders.
        """
        # Where the original is required, every answer counts (RES-08: the original is required); the standard asks
        # all at once (RES-04: all are asked at once).
        if self.strict or original_required:
            return Plan(members.regular)
        included, home = members.by_service, homes[0] if len(homes) == 1 else None
        # First the hints.
        likely = tuple([included[service] for service in dict.fromkeys(hinted) if service in included])
        if likely:
            return Plan(likely if home is None or home in likely else (home, *likely), "hint")
        # Then the filters, if there are any.
        if may_hold is not None:
            published = may_hold(request.ibi.canonical)
            likely = tuple([included[service] for service in published if service in included])
            if 0 < len(likely) <= MOST_LIKELY:
                return Plan(likely if home is None or home in likely else (home, *likely), "filter")
        # Then the prefix of the item.
        likely = tuple(homes) or members.by_prefix.get(request.ibi.prefix.lower(), ())
        if 0 < len(likely) <= MOST_LIKELY:
            return Plan(likely, "prefix")
        return Plan(members.regular)

    def disbelief(self, archive: Archive, request: UrlRequest, answer: UrlList) -> IbiError | None:
        """Return why a non-empty answer is not believed, None if it is believed (T08: false answers)."""
        if self.strict:
            return None
        if not answer.is_of(archive.service_ibi):
            return wrong_archive()
        if isinstance(request.ibi, LegacyId):  # no pair of an answer can repeat such a name
            return None
        forms = answer.forms  # kept in a variable, because each access parses the pairs
        if forms is None or not forms.names(request.ibi):
            return another_item()
        return None

    def is_safe(self, archive: Archive, url: str | None) -> bool:
        """Whether a reader may be sent to a URL."""
        where = None if url is None else safe_place(url, allow_private=self.private_urls)
        if where is None:
            return False
        host, port = where
        # A redirect to this resolver itself would loop: a browser follows some twenty of them (T13: unsafe
        # redirects).
        mine = port in self._own_ports and (host in self._own_hosts or is_numeric(host))
        if mine and (one_spelling(host), port) in self._own:
            return False
        return not archive.url_hosts or host in archive.url_hosts
