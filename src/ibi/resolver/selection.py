"""Which answer satisfies, and where it leads (R15 8.2 and 8.3, RES-05, RES-08, RES-09); pure.

Every function looks at one answer of one Archive. What follows from all of them is the business of `resolution`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Protocol

from ibi.errors import IbiError
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import LAST_PORT
from ibi.protocol import vocabulary as say
from ibi.protocol.choice import wanted
from ibi.protocol.relation import ITEM, Kind, Relation
from ibi.protocol.url_list import UrlList, relations_of
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ibi.identifier.forms import IBI, IBIForms
    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.messages import UrlRequest

_LONGEST_URL: Final = 8192


class Archive(Protocol):
    """What the machine must know of an Archive: its identity, and where its redirects may lead."""

    @property
    def service_ibi(self) -> IBI:
        """The IBI of its Archive service, as registered."""

    @property
    def url_hosts(self) -> Sequence[str]:
        """The only hosts that its URLs may name, in lower case; empty where any may be named (note 4)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How the words "that satisfies the request" are read.

    `strict`: to the letter. Otherwise (hardened) an answer must also name the item that was asked for and the Archive
    that was asked. `private_urls`: whether a redirect may lead to an address that is not public.
    """

    strict: bool = False
    private_urls: bool = False

    @property
    def name(self) -> str:
        """As the command line calls it."""
        return "strict" if self.strict else "hardened"

    def disbelief(self, archive: Archive, request: UrlRequest, answer: UrlList) -> IbiError | None:
        """Why a non-empty answer is not taken for one, None if it is."""
        if self.strict:
            return None
        service = answer.archive_service
        if service is None or not service.names(archive.service_ibi):
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
        return not archive.url_hosts or _host(url) in archive.url_hosts


def living_relations(archive: Archive, answer: UrlList, policy: Policy) -> list[Relation]:
    """The relations for which an answer offers a living item at a URL that a reader may be sent to."""
    return [
        relation
        for relation in answer.relations()
        if (entry := answer.entry(relation)).state is not State.DELETED and policy.leads(archive, entry.url)
    ]


def next_requests(
    answer: UrlList, relation: Relation, preference: LanguagePreference, *, file_list: bool
) -> Iterator[tuple[IBIForms, VerbList]]:
    """What to ask next when an answer lacks the wanted URL, the most promising first (RES-09, AMB-53).

    The IBI at the end of the longest leading part of the relation that the answer knows, with the verbs that are
    left; then the next edition, with all verbs, where the last edition of this very item is the first thing wanted.
    """
    known = [known for known in relations_of(answer.pairs, say.IBI) if known != ITEM]
    for part in (relation, *relation.leading()):
        found = wanted(answer, part, preference, known)
        if found is not None and found.entry.forms is not None:
            yield found.entry.forms, VerbList.of(relation.after(part), file_list=file_list)
    if relation.steps and relation.steps[0].kind is Kind.LAST_EDITION and answer.next_edition is not None:
        yield answer.next_edition, VerbList.of(relation, file_list=file_list)


def others(answer: UrlList, relation: Relation) -> Iterator[Relation]:
    """What an answer offers in other languages or formats than those that were asked for."""
    for word in (say.URL, say.IBI):
        for offered in relations_of(answer.pairs, word):
            if offered.kinds == relation.kinds and not relation.accepts(offered):
                yield offered


def is_safe_url(url: str, *, allow_private: bool = False) -> bool:
    """Whether a redirect may lead to a URL at all (note 4).

    http or https, with a host and without userinfo; ASCII without control characters, blanks and backslash; at most
    8 KiB; no literal address, in whatever notation browsers read as one, that is not public.
    """
    match = _SAFE(url) if len(url) <= _LONGEST_URL else None
    if match is None or not 0 < int(match[2] or 80) <= LAST_PORT:
        return False
    return allow_private or _is_public_host(_host(url))


def _host(url: str) -> str:
    match = _SAFE(url)
    return match[1].lower().removesuffix(".") if match else ""


def _is_public_host(host: str) -> bool:
    if host.startswith("["):
        try:
            return is_public_ip(str(ip_address(host[1:-1])))
        except ValueError:
            return False
    last = host.rpartition(".")[2]
    if last in TRIAL_DOMAINS - {
        "example",
        "test",
        "invalid",
    }:  # names that lead to this machine or this network
        return False
    if last.isdecimal() or last.startswith("0x"):  # browsers read such hosts as IPv4, in many notations
        return _DOTTED(host) is not None and is_public_ip(host)
    return True


_SAFE = re.compile(
    r"https?://([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:[/?#][!-\[\]-~]*)?", re.IGNORECASE
).fullmatch
_DOTTED = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}").fullmatch
