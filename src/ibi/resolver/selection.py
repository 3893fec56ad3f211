"""Which answer satisfies, and where it leads (R15 8.2 and 8.3, RES-05 to RES-09); pure.

Every function looks at one answer of one Archive. What follows from all of them is the business of `resolution`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.identifier.legacy import LegacyId
from ibi.protocol.relation import ITEM, Kind, Relation, Step
from ibi.protocol.url_list import UrlList, relations_of
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ibi.identifier.forms import IBI, IBIForms
    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.messages import UrlRequest
    from ibi.protocol.url_list import Entry

_LONGEST_URL: Final = 8192


class Archive(Protocol):
    """What the machine must know of an Archive: its identity, and where its redirects may lead."""

    @property
    def service_ibi(self) -> IBI:
        """The IBI of its Archive service, as registered."""

    @property
    def url_hosts(self) -> Sequence[str]:
        """The only hosts that its URLs may name, in lower case; empty where any may be named (SETTLED 4)."""


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

    def disbelief(self, archive: Archive, request: UrlRequest, answer: UrlList) -> str | None:
        """Why a non-empty answer is not taken for one, None if it is."""
        if self.strict:
            return None
        service = answer.archive_service
        if service is None or not service.names(archive.service_ibi):
            return "the answer is not in the name of this Archive"
        if isinstance(request.ibi, LegacyId):  # an answer has no place to repeat such a name
            return None
        if answer.forms is None or not answer.forms.names(request.ibi):
            return "the answer is about another item"
        return None

    def leads(self, archive: Archive, url: str | None) -> bool:
        """Whether a reader may be sent to a URL."""
        if url is None or not is_safe_url(url, allow_private=self.private_urls):
            return False
        return not archive.url_hosts or _host(url) in archive.url_hosts


class Found(NamedTuple):
    """The wanted item in an answer: the relation under which the answer gives it, and what it says of it."""

    relation: Relation
    entry: Entry


def wanted(
    answer: UrlList, relation: Relation, preference: LanguagePreference, usable: Iterable[Relation]
) -> Found | None:
    """The entry that a relation asks for, among the usable relations of an answer; None if there is none.

    A bare translation is decided by the reader's preference, step by step (RES-07): the best language; a translation
    without language; the item itself, if the answer shows which one that is. A bare language also takes one with a
    country (AMB-47).
    """
    candidates = [offered for offered in usable if relation.accepts(offered)]
    for index, step in enumerate(relation.steps):
        if step.kind is not Kind.TRANSLATION or not candidates:
            continue
        lead = Relation(candidates[0].steps[:index])
        offered = {candidate.steps[index].parameter for candidate in candidates}
        chosen = _choose(answer, lead, step, offered, preference)
        candidates = [candidate for candidate in candidates if candidate.steps[index].parameter in chosen]
    return Found(candidates[0], answer.entry(candidates[0])) if candidates else None


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
    known = [known for known in relations_of(answer.pairs, "ibi") if known != ITEM]
    for part in (relation, *relation.leading()):
        found = wanted(answer, part, preference, known)
        if found is not None and found.entry.forms is not None:
            yield found.entry.forms, VerbList.of(relation.after(part), file_list=file_list)
    if relation.steps and relation.steps[0].kind is Kind.LAST_EDITION and answer.next_edition is not None:
        yield answer.next_edition, VerbList.of(relation, file_list=file_list)


def without_bare_translation(relation: Relation) -> Relation | None:
    """The relation without its last translation into whatever language, None if it has none (AMB-46)."""
    for index in range(len(relation.steps) - 1, -1, -1):
        if relation.steps[index] == Step(Kind.TRANSLATION):
            return Relation(relation.steps[:index] + relation.steps[index + 1 :])
    return None


def is_safe_url(url: str, *, allow_private: bool = False) -> bool:
    """Whether a redirect may lead to a URL at all (SETTLED 4).

    http or https, with a host and without userinfo; ASCII without control characters, blanks and backslash; at most
    8 KiB; no literal address, in whatever notation browsers read as one, that is not public.
    """
    if len(url) > _LONGEST_URL or _SAFE(url) is None:
        return False
    return allow_private or _is_public_host(_host(url))


def with_query(url: str, foreign: str) -> str:
    """A URL with the item's own query pairs appended, before any fragment, otherwise byte for byte (AMB-48)."""
    if not foreign:
        return url
    base, hash_sign, fragment = url.partition("#")
    joint = "" if base.endswith(("?", "&")) else "&" if "?" in base else "?"
    return f"{base}{joint}{foreign}{hash_sign}{fragment}"


def _choose(
    answer: UrlList, lead: Relation, step: Step, offered: set[str | None], preference: LanguagePreference
) -> tuple[str | None, ...]:
    """The parameter of the translation to take, as a tuple of one; empty if none will do."""
    languages = sorted(language for language in offered if language is not None)
    if step.parameter is not None:
        return (step.parameter if step.parameter in offered else languages[0],)
    best = preference.choose(languages)
    if best is not None:
        return (best,)
    if None in offered:
        return (None,)
    own = answer.entry(lead).forms
    for language in languages:
        translated = answer.entry(Relation((*lead.steps, Step(Kind.TRANSLATION, language)))).forms
        if own is not None and translated is not None and own.shares(translated):
            return (language,)
    return ()


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
    r"https?://([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?#][!-\[\]-~]*)?", re.IGNORECASE
).fullmatch
_DOTTED = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}").fullmatch
