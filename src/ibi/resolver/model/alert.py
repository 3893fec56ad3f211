"""Alerts: what a reader gets instead of a redirect (RES-13: the fitting alert); as values, plain text and JSON.

An alert says what was asked for, how many Archives were asked and how many answered, and what the reader can
do. HTML is made of the same values by `web.resolution_pages`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.errors import IbiError, ParseError
    from ibi.protocol.extensions.tombstone import Tombstone
    from ibi.resolver.model.statements import Statements
    from ibi.resolver.model.suggestion import Absence, Suggestions

    Say = Callable[[str, Mapping[str, object]], str]
    """(English sentence with named fields, their values) -> the filled sentence in the reader's language."""


class AlertKind(StrEnum):
    """The kind of an alert. The values are stable: programs may rely on them."""

    BAD_URL = "bad-url"
    NOT_FOUND = "not-found"
    DELETED = "deleted"
    NO_TRANSLATION = "no-translation"
    NO_ORIGINAL = "no-original"
    SUSPECT_ORIGINALS = "suspect-originals"
    INCOMPLETE = "incomplete"
    UNSAFE_URL = "unsafe-url"
    TOO_FAR = "too-far"
    NO_SUCH_PAGE = "no-such-page"
    WRONG_HOST = "wrong-host"
    WRONG_METHOD = "wrong-method"
    TOO_LONG = "too-long"
    LOOP = "loop"
    BUSY = "busy"
    TOO_MANY = "too-many"


INCOMPLETE_RETRY: Final = 30
"""Seconds after which a reader is asked to try again if an Archive was silent; equals `breaker.OPEN_SECONDS`."""

BUSY_RETRY: Final = 5
"""Seconds after which a reader is asked to try again if this resolver is overloaded (T37: overload)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindProperties:
    """What the kind of an alert alone decides.

    No field has a default, so that a new kind has to decide each of them.
    """

    status: int
    """The HTTP status (docs/reference/http.md, note 6)."""
    retry_after: int | None
    """Seconds after which a retry makes sense (`Retry-After`), unless the alert says another; None for none."""
    known: bool | None
    """Whether an Archive knows the item (`known` in JSON). None if the kind does not say, as it is no 404."""
    resolved: bool
    """Whether it comes from a resolution: shows the responsible Archives and a link to the explanation."""
    investigated: bool
    """Whether the administrator of the resolver can look into it, and is named."""
    shows_typos: bool
    """Whether it shows what looks wrong in the name."""
    offers_retry: bool
    """Whether it offers "Try again"."""
    archive_first: bool
    """Whether it is reported to the administrator of the Archive first, who can put it right."""
    offers_search: bool
    """Whether it shows the search field, because another spelling may succeed."""


ALERT_KINDS: Final[Mapping[AlertKind, KindProperties]] = {
    AlertKind.BAD_URL: KindProperties(
        status=400, retry_after=None, known=None, resolved=False, investigated=False,
        shows_typos=False, offers_retry=False, archive_first=False, offers_search=True,
    ),
    AlertKind.NOT_FOUND: KindProperties(
        status=404, retry_after=None, known=False, resolved=True, investigated=True,
        shows_typos=True, offers_retry=False, archive_first=False, offers_search=True,
    ),
    AlertKind.DELETED: KindProperties(
        status=410, retry_after=None, known=None, resolved=True, investigated=True,
        shows_typos=False, offers_retry=False, archive_first=True, offers_search=False,
    ),
    AlertKind.NO_TRANSLATION: KindProperties(
        status=404, retry_after=None, known=True, resolved=True, investigated=False,
        shows_typos=False, offers_retry=False, archive_first=True, offers_search=False,
    ),
    AlertKind.NO_ORIGINAL: KindProperties(
        status=404, retry_after=None, known=True, resolved=True, investigated=True,
        shows_typos=False, offers_retry=False, archive_first=True, offers_search=False,
    ),
    AlertKind.SUSPECT_ORIGINALS: KindProperties(
        status=409, retry_after=None, known=None, resolved=True, investigated=True,
        shows_typos=False, offers_retry=False, archive_first=False, offers_search=False,
    ),
    AlertKind.INCOMPLETE: KindProperties(
        status=503, retry_after=INCOMPLETE_RETRY, known=None, resolved=True, investigated=True,
        shows_typos=True, offers_retry=True, archive_first=False, offers_search=False,
    ),
    AlertKind.UNSAFE_URL: KindProperties(
        status=502, retry_after=None, known=None, resolved=True, investigated=True,
        shows_typos=False, offers_retry=False, archive_first=True, offers_search=False,
    ),
    AlertKind.TOO_FAR: KindProperties(
        status=502, retry_after=None, known=None, resolved=True, investigated=True,
        shows_typos=False, offers_retry=False, archive_first=True, offers_search=False,
    ),
    AlertKind.NO_SUCH_PAGE: KindProperties(
        status=404, retry_after=None, known=None, resolved=False, investigated=False,
        shows_typos=False, offers_retry=False, archive_first=False, offers_search=True,
    ),
    AlertKind.WRONG_HOST: KindProperties(
        status=421, retry_after=None, known=None, resolved=False, investigated=False,
        shows_typos=False, offers_retry=False, archive_first=False, offers_search=False,
    ),
    AlertKind.WRONG_METHOD: KindProperties(
        status=405, retry_after=None, known=None, resolved=False, investigated=False,
        shows_typos=False, offers_retry=False, archive_first=False, offers_search=False,
    ),
    AlertKind.TOO_LONG: KindProperties(
        status=414, retry_after=None, known=None, resolved=False, investigated=False,
        shows_typos=False, offers_retry=False, archive_first=False, offers_search=False,
    ),
    AlertKind.LOOP: KindProperties(
        status=508, retry_after=None, known=None, resolved=False, investigated=False,
        shows_typos=False, offers_retry=False, archive_first=False, offers_search=False,
    ),
    AlertKind.BUSY: KindProperties(
        status=503, retry_after=BUSY_RETRY, known=None, resolved=False, investigated=False,
        shows_typos=False, offers_retry=True, archive_first=False, offers_search=False,
    ),
    AlertKind.TOO_MANY: KindProperties(
        status=429, retry_after=None, known=None, resolved=False, investigated=False,
        shows_typos=False, offers_retry=True, archive_first=False, offers_search=False,
    ),
}  # fmt: skip
"""Kind -> its properties; every kind has a row."""

STATUS: Final = {kind: properties.status for kind, properties in ALERT_KINDS.items()}
"""HTTP statuses."""

TITLE: Final[dict[AlertKind, str]] = {
    AlertKind.BAD_URL: "This is not a persistent URL",
    AlertKind.NOT_FOUND: "No Archive holds this item",
    AlertKind.DELETED: "This item was removed",
    AlertKind.NO_TRANSLATION: "This translation does not exist",
    AlertKind.NO_ORIGINAL: "The original is not available",
    AlertKind.SUSPECT_ORIGINALS: "Two or more Archives claim to hold the original",
    AlertKind.INCOMPLETE: "Not every Archive has answered",
    AlertKind.UNSAFE_URL: "The Archive gave an address that is not safe to follow",
    AlertKind.TOO_FAR: "Too many steps to the item",
    AlertKind.NO_SUCH_PAGE: "There is no such page",
    AlertKind.WRONG_HOST: "This resolver does not answer under that name",
    AlertKind.WRONG_METHOD: "Persistent URLs are only read",
    AlertKind.TOO_LONG: "This URL is too long",
    AlertKind.LOOP: "A resolver is asking a resolver",
    AlertKind.BUSY: "This resolver cannot answer now",
    AlertKind.TOO_MANY: "Too many links at once",
}

_SENTENCE: Final[dict[AlertKind, str]] = {
    AlertKind.NOT_FOUND: "Every Archive that was queried has answered, and none of them knows this item.",
    AlertKind.DELETED: "The Archive that held this item says that it was removed, and no other Archive offers a copy.",
    AlertKind.NO_TRANSLATION: "The item is known, but not in the language that the link asks for.",
    AlertKind.NO_ORIGINAL: "The link requires the original. Archives offer the item, but none claims to hold the "
    "original.",
    AlertKind.SUSPECT_ORIGINALS: "Only one Archive can hold an original, and more than one claims to hold this one. "
    "Until only one does, no reader is sent to any of them as the original.",
    AlertKind.INCOMPLETE: "Not all Archives could be queried, and those that were do not offer the item. Please "
    "try again.",
    AlertKind.UNSAFE_URL: "An Archive offers the item at a URL that this resolver does not lead to.",
    AlertKind.TOO_FAR: "Each item led to another, and the limit of rounds or of time for one reader was reached "
    "before the last.",
    AlertKind.NO_SUCH_PAGE: "There is nothing under this path.",
    AlertKind.WRONG_HOST: "The request names another host than this resolver's.",
    AlertKind.WRONG_METHOD: "Only GET and HEAD are answered here.",
    AlertKind.TOO_LONG: "URLs of more than 8 KiB are not read, nor those that escaping makes too long for Archives "
    "(12.5 KiB).",
    AlertKind.LOOP: "The request was sent by a resolver that takes this one for an Archive, or has come by here "
    "before.",
    AlertKind.BUSY: "Please try again in a moment.",
    AlertKind.TOO_MANY: "From your address, too many links were followed at once. Please try again in a moment.",
}

MOST_SILENT: Final = 10
"""Archives whose reasons for silence are listed for a person; programs get all of them."""

# The words of alerts for which the kind alone says too little.
_KNOWN_TITLE: Final = "The item is known, but not what was requested of it"
_KNOWN_SENTENCE: Final = (
    "Every Archive that was queried has answered; none offers this edition, metadata or file of the item."
)
_PARTLY_SENTENCE: Final = (
    "Not all Archives could be queried. The item is known, but none of the Archives that "
    "answered offers what was requested of it. Please try again."
)
_NO_ARCHIVE_TITLE: Final = "There is no Archive to ask"
_NO_ARCHIVE_SENTENCE: Final = (
    "No Archive takes part in this resolver at the moment, so nothing is known of any item. Please try again."
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How complete a resolution was: how many Archives were asked, and which were silent, with the reason.

    An Archive that was silent in one round counts as silent even if it answered in a later one, because its
    missing answer might have led to another item.
    """

    total: int
    silent: tuple[tuple[str, IbiError], ...] = ()

    @property
    def answered(self) -> int:
        """How many Archives have answered, including those that do not know the item."""
        return self.total - len(self.silent)

    def as_dict(self, say: Say) -> dict[str, object]:
        """Return the coverage for JSON."""
        silent = [{"service_ibi": ibi, "why": say(why.problem, why.details)} for ibi, why in self.silent]
        return {"asked": self.total, "answered": self.answered, "silent": silent}


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    `url`: the persistent URL as received. `ibi`: the item asked for. `archives`: the service IBIs of the
    Archives that the alert is about (the claimants, or the Archive that removed the item). `timestamp`: the
    moment of removal. `alternates`: pairs of language and persistent URL. `problem`: the fault, where the URL
    is no persistent URL. `proposals`: URLs to try instead. `known`: whether an Archive knows the item, though
    not what the URL asks of it. `leads_to`: the name of the edition or related item to which the item leads,
    and which was not found. `first_holder`: the claimant that showed the original first. `contact`: the
    administrator's mail address. `elsewhere`: the title of the upstream resolver's alert. `wait`: the seconds
    after which a retry makes sense, where the kind does not decide them. `suggestions`: what may help the
    reader. `statements`: what each Archive answered. `absences`: which Archives gave no answer, and since when.
    `tombstone`: what stays known of the removed item. `claimed_since`: pairs of a claimant and the moment when its
    claim was first seen, "" if it was not seen before; none if nothing is known of that. `near`: names of items
    that are held, and differ from the requested one by one typing error.
    """

    kind: AlertKind
    url: str = ""
    ibi: str = ""
    coverage: Coverage | None = None
    archives: tuple[str, ...] = ()
    timestamp: str = ""
    alternates: tuple[tuple[str, str], ...] = ()
    problem: ParseError | None = None
    proposals: tuple[str, ...] = ()
    known: bool = False
    leads_to: str = ""
    first_holder: str = ""
    contact: str = ""
    elsewhere: str = ""
    wait: int | None = None
    suggestions: Suggestions | None = None
    statements: Statements | None = None
    absences: tuple[Absence, ...] = ()
    tombstone: Tombstone | None = None
    claimed_since: tuple[tuple[str, str], ...] = ()
    near: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """The HTTP status."""
        return ALERT_KINDS[self.kind].status

    @property
    def retry_after(self) -> int | None:
        """Seconds after which a retry makes sense; None if none does."""
        return ALERT_KINDS[self.kind].retry_after if self.wait is None else self.wait

    @property
    def investigated(self) -> bool:
        """Whether an administrator can investigate the alert."""
        return ALERT_KINDS[self.kind].investigated

    def title(self, say: Say) -> str:
        """Return the title of the alert."""
        if self._only_known:
            return say(_KNOWN_TITLE, {})
        return say(_NO_ARCHIVE_TITLE if self._no_archive else TITLE[self.kind], {})

    def sentences(self, say: Say) -> list[str]:
        """Return the facts that a person should know, a sentence each."""
        lines = [self.detail(say)]
        if self.leads_to:
            lines.append(self.leading(say))
        if self.archives:
            lines.append(say("It is about: {archives}", {"archives": ", ".join(self.archives)}))
        lines += self._claims(say)
        if self.timestamp:
            lines.append(say("Removed on {timestamp}", {"timestamp": self.timestamp}))
        if self.tombstone is not None:
            lines += _tombstone_lines(self.tombstone, say)
        if self.alternates:
            languages = ", ".join(f"{language} ({url})" for language, url in self.alternates)
            lines.append(say("It exists in: {languages}", {"languages": languages}))
        if self.proposals:
            lines.append(say("Did you mean: {proposals}", {"proposals": ", ".join(self.proposals)}))
        if self.near:
            lines.append(say("Held, and one typing error away: {names}", {"names": ", ".join(self.near)}))
        lines += self._silence(say)
        if self.elsewhere:
            lines.append(say("The other resolver says: {title}", {"title": self.elsewhere}))
        if self.contact and self.investigated:
            lines.append(say("Please tell {contact} about it", {"contact": self.contact}))
        return lines

    def _claims(self, say: Say) -> list[str]:
        """Return sentences on who claims the original since when."""
        lines = []
        if self.first_holder:
            lines.append(say("The first to show the original was {archive}", {"archive": self.first_holder}))
        for name, moment in self.claimed_since:
            if moment:
                lines.append(say("{archive} claims it since {moment}", {"archive": name, "moment": moment}))
        return lines

    def leading(self, say: Say) -> str:
        """Return the sentence that says where the item leads; "" where it leads nowhere."""
        if not self.leads_to:
            return ""
        if self.kind is AlertKind.TOO_FAR:
            return say("The next one would be {name}", {"name": self.leads_to})
        return say("It leads to {name}, which no Archive that has answered knows", {"name": self.leads_to})

    def _silence(self, say: Say) -> list[str]:
        """Return sentences on how many Archives answered, and why others were silent."""
        if self.coverage is None:
            return []
        counts = {"asked": self.coverage.total, "answered": self.coverage.answered}
        lines = [say("Archives queried: {asked}; answered: {answered}", counts)]
        if self.statements is not None:
            return lines + self.statements.lines(say)
        for archive, why in self.coverage.silent[:MOST_SILENT]:
            reason = say(why.problem, why.details)
            lines.append(say("No answer from {archive}: {why}", {"archive": archive, "why": reason}))
        more = len(self.coverage.silent) - MOST_SILENT
        if more > 0:
            lines.append(say("Others that did not answer: {number}", {"number": more}))
        return lines

    def text(self, say: Say) -> bytes:
        """Return the alert as plain text."""
        caret = f"\n{self.problem.caret()}\n" if self.problem else ""
        head = f"{self.title(say)}\n{caret}\n"
        url = f"{self.url}\n" if self.url and not self.problem else ""
        helps = ["", *self.suggestions.lines(say)] if self.suggestions else []
        return (head + url + "\n".join([*self.sentences(say), *helps]) + "\n").encode("utf-8", "replace")

    def problem_json(self, say: Say) -> bytes:
        """Return the alert as application/problem+json (RFC 9457)."""
        body: dict[str, object] = {
            "type": f"/-/about#{self.kind}",
            "kind": str(self.kind),
            "title": self.title(say),
            "status": self.status,
            "detail": self.detail(say),
        }
        optional: dict[str, object] = {
            "instance": self.url,
            "ibi": self.ibi,
            "about": list(self.archives),
            "timestamp": self.timestamp,
            "removed": _tombstone_facts(self.tombstone) if self.tombstone is not None else None,
            "alternates": dict(self.alternates),
            "proposals": list(self.proposals),
            "near": list(self.near),
            "leads_to": self.leads_to,
            "first": self.first_holder,
            "claimed_since": {name: moment for name, moment in self.claimed_since if moment},
            "contact": self.contact,
            "elsewhere": self.elsewhere,
        }
        body |= {name: value for name, value in optional.items() if value}
        known = ALERT_KINDS[self.kind].known
        if known is not None:
            body["known"] = self.known or known
        if self.problem is not None:
            problem = self.problem
            body["fault"] = {"start": problem.start, "end": problem.end, "caret": problem.caret()}
        if self.coverage is not None:
            body["archives"] = self.coverage.as_dict(say)
        for more in (self.statements, self.suggestions):
            body |= more.as_dict(say) if more is not None else {}
        letter = self.suggestions.letter(self.title(say), say) if self.suggestions is not None else ""
        body |= {"report": letter} if letter else {}
        return json.dumps(body, ensure_ascii=False, indent=1).encode("utf-8", "replace")

    def detail(self, say: Say) -> str:
        """Return the sentence that explains the alert."""
        if self.problem is not None:
            return say(self.problem.problem, self.problem.details)
        if self._only_known:
            return say(_KNOWN_SENTENCE, {})
        if self.known and self.kind is AlertKind.INCOMPLETE:
            return say(_PARTLY_SENTENCE, {})
        return say(_NO_ARCHIVE_SENTENCE if self._no_archive else _SENTENCE[self.kind], {})

    @property
    def _only_known(self) -> bool:
        return self.known and self.kind is AlertKind.NOT_FOUND

    @property
    def _no_archive(self) -> bool:
        return self.kind is AlertKind.INCOMPLETE and self.coverage is not None and not self.coverage.total


def _tombstone_lines(tombstone: Tombstone, say: Say) -> list[str]:
    """Return what stays known of a removed item, a sentence each."""
    lines = [", ".join(filter(None, (tombstone.title, tombstone.people, tombstone.date)))]
    if tombstone.reason:
        lines.append(say("Reason for the removal: {reason}", {"reason": tombstone.reason}))
    if tombstone.replacement is not None:
        lines.append(say("It is replaced by {name}", {"name": tombstone.replacement.main}))
    return [each for each in lines if each]


def _tombstone_facts(tombstone: Tombstone) -> dict[str, str]:
    """Return what stays known of a removed item, for JSON; the keys are stable."""
    facts = tombstone._asdict()
    replacement = tombstone.replacement
    facts["replacement"] = "" if replacement is None else str(replacement.main)
    return {name: value for name, value in facts.items() if value}


def in_english(sentence: str, details: Mapping[str, object]) -> str:
    """Fill an English sentence without translating it (a `Say`)."""
    return sentence.format(**details) if details else sentence
