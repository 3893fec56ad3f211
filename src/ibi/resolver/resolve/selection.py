"""Decides which answer satisfies, and where it leads; pure.

    relation        what the URL wants of the item: nothing for the item itself, or steps, such as "the last edition, of
                    that the translation into English" (`protocol.relation`)
    entry           what an answer says of the item itself, or of one related item: its URL, IBI, state
    wanted entry    the entry that the relation asks for, and the languages of the reader choose
    to offer        of an answer: it has the wanted entry, with a URL
    to satisfy      of an answer: it offers it at a URL to which a reader may be sent
    to claim        of an answer: its wanted entry has the state Original; a claim counts even if its URL is unsafe

Most functions look at one answer of one Archive; `contradicting` and `preferred` compare claims. `resolution` decides
by all answers. See R15 8.2 and 8.3; RES-05: the first answer decides; RES-08: the original is required; RES-09: further
rounds; AMB-51: no claim of the original.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.http.client_address import is_loopback
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.identifier.repository import LAST_PORT
from ibi.protocol import vocabulary
from ibi.protocol.messages import URL_LENGTH_SURE_TO_FIT, fit_into_message
from ibi.protocol.relation import ITEM, Relation, StepKind
from ibi.protocol.url_list import UrlList, WantedEntry, find_wanted
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ibi.identifier.forms import IBIForms
    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.persistent_url import PersistentURL
    from ibi.resolver.model.archive import Archive, ArchiveResponse


MOST_ALTERNATIVES: Final = 30
"""Other languages or formats that one alert offers."""

MOST_WEIGHED: Final = 2_000
"""Relations, of all answers together, in which an alert looks for alternatives."""

_WEB_PORTS: Final = (80, 443)
_LONGEST_URL: Final = 8192  # characters of a URL that a reader is sent to
_LONGEST_MOMENT: Final = 40  # characters of a timestamp
_ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
_THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1", *_ANY_ADDRESS)
_HERE: Final = TRIAL_DOMAINS - {"example", "test", "invalid"}
"""Top-level domains whose names lead to this machine or this network."""


def offered(answer: UrlList, relation: Relation, preference: LanguagePreference) -> WantedEntry | None:
    """Return the wanted entry if an answer offers it, even if no reader may be sent to its URL."""
    if relation.steps:
        return find_wanted(answer, relation, preference, answer.offered())
    entry = answer.entry()  # most URLs want the item itself, of which an answer has one entry
    return None if entry.url is None or entry.state is ItemState.DELETED else WantedEntry(ITEM, entry)


def satisfying(
    archive: Archive,
    answer: UrlList,
    relation: Relation,
    preference: LanguagePreference,
    is_safe: Callable[[Archive, str | None], bool],
) -> WantedEntry | None:
    """Return the wanted entry if an answer offers it at a URL that `is_safe`."""
    if relation.steps:
        usable = [each for each in answer.offered() if is_safe(archive, answer.url(each))]
        return find_wanted(answer, relation, preference, usable)
    found = offered(answer, relation, preference)
    return found if found is not None and is_safe(archive, found.entry.url) else None


def next_requests(
    answer: UrlList, relation: Relation, preference: LanguagePreference, *, file_list: bool
) -> Iterator[tuple[IBIForms, VerbList]]:
    """Yield what to ask next when an answer lacks the wanted URL, the most promising first.

    Each is an item and the verbs with which to ask for it. For example, `!+(en)` is wanted, the English translation of
    the last edition. If the answer names the last edition, that is asked for with `+(en)`, the steps that are left. If
    the answer names only later editions, the farthest one that the Archive knows, and then the next one, are asked for
    with `!+(en)`. A metadata item is asked for with the wanted format again, since it may be had in several formats.
    See RES-09: further rounds; AMB-53: what is asked next.
    """
    known = [known for known in answer.relations_of(vocabulary.IBI) if known != ITEM]
    for part in (relation, *relation.leading()):  # the longest leading part of the relation first
        found = find_wanted(answer, part, preference, known)
        if found is not None and found.entry.forms is not None:
            formats = [step for step in part.steps if step.kind is StepKind.METADATA and step.parameter]
            left = Relation((*formats, *relation.after(part).steps))
            yield found.entry.forms, VerbList.of(left, file_list=file_list)
    names_last_edition = Relation(relation.steps[:1]) in known
    if relation.kinds[:1] == (StepKind.LAST_EDITION,) and not names_last_edition:
        for edition in filter(None, (answer.farthest_edition, answer.next_edition)):
            yield edition, VerbList.of(relation, file_list=file_list)


def alternatives(answers: Iterable[UrlList], url: PersistentURL, persistent: str) -> dict[str, str]:
    """Map each other language or format that answers offer to the persistent URL for it."""
    root, kinds = persistent.removesuffix(url.text), url.relation.kinds
    related = (
        each
        for answer in answers
        for word in (vocabulary.URL, vocabulary.IBI)
        for each in answer.relations_of(word)
    )
    found: dict[str, str] = {}
    for relation in islice(related, MOST_WEIGHED):
        if relation.kinds != kinds or url.relation.accepts(relation):
            continue
        if len(found) == MOST_ALTERNATIVES:
            break
        parameters = [step.parameter for step in relation.steps if step.parameter]
        language_or_format = parameters[-1] if parameters else ""
        found.setdefault(language_or_format, f"{root}/{url.ibi}{relation.modifier}{url.file_path}")
    return found


def removed_on(answers: Iterable[UrlList]) -> str:
    """Return the first moment of removal in the answers, or ""; a text too long for a moment is ignored."""
    times = (answer.timestamp or "" for answer in answers)
    return next((moment for moment in times if 0 < len(moment) <= _LONGEST_MOMENT), "")


def safe_place(url: str, *, allow_private: bool = False) -> tuple[str, int] | None:
    """Return the host of a URL, in lower case, and its port; None if no redirect may lead there.

    A redirect needs http or https, a host whose labels all have a letter or digit, and no userinfo; ASCII without
    control characters, blanks and backslash; at most 8 KiB; and no literal address that is not public, in any
    notation that browsers read as an address. See note 4: where a redirect may lead.
    """
    if len(url) > URL_LENGTH_SURE_TO_FIT and (len(url) > _LONGEST_URL or not fit_into_message(url)):
        return None  # too long for an acknowledgment
    match = _SAFE(url)
    if match is None:
        return None
    host, digits = match.groups("80")
    host, port = host.lower().removesuffix("."), int(digits)
    if not 0 < port <= LAST_PORT:
        return None
    return (host, port) if allow_private or _is_public_host(host) else None


def one_spelling(host: str) -> str:
    """Return a host in one spelling: an address can be spelled in many ways."""
    if not is_numeric(host):
        return host
    try:
        address = ip_address(host.strip("[]") if ":" in host else _ipv4(host))
    except (ValueError, OverflowError):
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)


def _ipv4(host: str) -> bytes:
    """Read an IPv4 address as browsers do: parts in base 8, 10 or 16, the last for all remaining bytes."""
    *first, last = [
        int(part, 16 if part[:2] == "0x" else 8 if part[:1] == "0" else 10) for part in host.split(".")
    ]
    return bytes(first) + last.to_bytes(4 - len(first))


def is_numeric(host: str) -> bool:
    """Whether browsers read a host as an address: IPv6, or IPv4 in whatever notation ("127.1", "0x7f.0.0.1")."""
    last = host.rpartition(".")[2]
    return ":" in host or last.isdecimal() or last.startswith("0x")


def places_of(own: Iterable[tuple[str, int]]) -> frozenset[tuple[str, int]]:
    """Return the hosts and ports whose URLs lead to a service that answers at `own`.

    Port 80 stands for port 443, too, and the other way round: a proxy may answer for the service at both.
    """
    found = {(one_spelling(host), port) for host, port in own}
    here = {port for host, port in found if is_loopback(host) or host in _ANY_ADDRESS}
    found.update([(host, port) for host in _THIS_MACHINE for port in here])
    found.update([(host, other) for host, port in found if port in _WEB_PORTS for other in _WEB_PORTS])
    return frozenset(found)


def _is_public_host(host: str) -> bool:
    if host.startswith("["):
        try:
            return is_public_ip(str(ip_address(host[1:-1])))
        except ValueError:
            return False
    if is_numeric(host):
        return _DOTTED(host) is not None and is_public_ip(host)
    return host.rpartition(".")[2] not in _HERE


_LABEL = "[_-]*[A-Z0-9][A-Z0-9_-]*"  # more than DNS allows: names with underscores are in use
_SAFE = re.compile(
    rf"https?://((?:{_LABEL}\.)*{_LABEL}\.?|\[[0-9A-F:.]+\])(?::([0-9]{{1,5}}))?(?:[/?#][!-\[\]-~]*)?",
    re.ASCII | re.IGNORECASE,
).fullmatch
_DOTTED = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}").fullmatch


class Offer(NamedTuple):
    """The wanted entry in the answer of one Archive."""

    archive: Archive
    answer: UrlList
    found: WantedEntry

    def contradicts(self, other: Offer) -> bool:
        """Whether both claim the original of one item, which has only one (ARC-03: one original).

        Two related items, such as translations, count as one if either has no name: they cannot be told apart.
        """
        if other.archive is self.archive:
            return False
        if self.found.relation == other.found.relation:
            return True
        if ITEM in {self.found.relation, other.found.relation}:
            mine, theirs = self._item(), other._item()
            return mine is not None and theirs is not None and mine.shares(theirs)
        mine, theirs = self.found.entry.forms, other.found.entry.forms
        return mine is None or theirs is None or mine.shares(theirs)

    def _item(self) -> IBIForms | None:
        """Return the names of the item; metadata without a name belong to the item that they describe."""
        steps = self.found.relation.steps
        if self.found.entry.forms is not None or len(steps) < 2:  # noqa: PLR2004 - one step from the item itself
            return self.found.entry.forms or self.answer.forms
        return self.answer.entry(Relation(steps[:-1])).forms


def item_claims(living: Iterable[ArchiveResponse]) -> list[Offer]:
    """Return the claims to the original of the item that was asked for, with a URL or without (T05)."""
    return [
        Offer(heard.archive, heard.answer, WantedEntry(ITEM, heard.answer.entry()))
        for heard in living
        if heard.answer is not None and heard.answer.state is ItemState.ORIGINAL
    ]


def contradicting(claims: Sequence[Offer]) -> list[Offer]:
    """Return the claims that contradict another one."""
    return [claim for claim in claims if any(map(claim.contradicts, claims))]


def preferred(claims: Sequence[Offer], wanted_relation: Relation, preference: LanguagePreference) -> Offer:
    """Return the claim that suits the reader; all are originals, but of several items, each in another language."""
    if len(claims) == 1:
        return claims[0]  # nearly always
    pairs = {name: value for claim in reversed(claims) for name, value in claim.answer.pairs.items()}
    relations = [claim.found.relation for claim in claims]
    found = find_wanted(UrlList(pairs), wanted_relation, preference, relations)
    chosen = found.relation if found else relations[0]
    return next(claim for claim in claims if claim.found.relation == chosen)
