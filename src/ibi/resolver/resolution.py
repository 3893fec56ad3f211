"""One resolution, from the persistent URL to a redirect or an alert (R15 chapter 8, RES-01 to RES-14); pure.

It has no socket, no clock and no task: it says what to ask (`request`), hears who answered what, and decides.

    asking ──hear──▶ Redirect              as soon as an answer satisfies (normal mode)
       │
       └─close_round─▶ Redirect | Alert    when all have answered, or time is up
                    └▶ AskAgain            a new round: an edition, a translation, metadata elsewhere
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.protocol.choice import Found, wanted, without_bare_translation
from ibi.protocol.messages import Acknowledgment, UrlRequest
from ibi.protocol.query_string import with_query
from ibi.protocol.relation import Kind as StepKind
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, State
from ibi.resolver.alerts import Alert, Kind, Round
from ibi.resolver.selection import (
    Archive,
    Policy,
    living_relations,
    next_requests,
    others,
)

if TYPE_CHECKING:
    from ibi.errors import IbiError
    from ibi.identifier.forms import IBIForms, Name
    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.persistent_url import PersistentURL

MAX_ROUNDS: Final = 32
"""Rounds of one resolution (docs/threats.md); circles end earlier, when nothing new is left to ask."""


class Redirect(NamedTuple):
    """Send the reader to `url`; then thank `archive`, if it gave a key to thank with.

    `complete`: whether everyone had answered when an original was chosen among all answers.
    """

    url: str
    archive: Archive
    found: Found
    acknowledgment: Acknowledgment | None
    complete: bool


class AskAgain(NamedTuple):
    """Ask all Archives the next request."""

    request: UrlRequest


class _Heard(NamedTuple):
    archive: Archive
    answer: UrlList


class _Offer(NamedTuple):
    archive: Archive
    answer: UrlList
    found: Found

    def contradicts(self, other: _Offer) -> bool:
        """Whether both cannot be the original: for one relation there is one, and each item has one (ARC-03)."""
        if other is self:
            return False
        mine, theirs = self.found.entry.forms, other.found.entry.forms
        same_item = mine is None or theirs is None or mine.shares(theirs)
        return same_item or self.found.relation == other.found.relation


class Resolution:
    """The resolution of one persistent URL for one reader.

    `persistent` is that URL as a whole, for the acknowledgment (note 16).
    """

    def __init__(
        self,
        url: PersistentURL,
        persistent: str,
        client_addresses: tuple[str, ...],
        preference: LanguagePreference,
        policy: Policy,
    ) -> None:
        self._url = url
        self._persistent = persistent
        self._preference = preference
        self._policy = policy
        self._relation = url.relation
        self._asked: set[tuple[str, tuple[str, ...]]] = set()
        self._heard: list[_Heard] = []
        self._answered: set[str] = set()
        self._silent: dict[str, IbiError] = {}
        self._unsafe: list[Archive] = []
        self._known = False
        self._fallbacks: list[tuple[Name, VerbList]] = []
        self.rounds = 0
        self.request = UrlRequest(client_addresses, url.ibi, url.file_path, url.verbs)
        """What every Archive is to be asked in this round."""
        self._remember(url.ibi.canonical, url.verbs)

    def hear(self, archive: Archive, answer: UrlList) -> Redirect | None:
        """Take an answer. In normal mode the first that satisfies decides (RES-05)."""
        doubt = self._policy.disbelief(archive, self.request, answer) if answer else None
        if doubt is not None:
            self.silent(archive, doubt)
            return None
        self._answered.add(str(archive.service_ibi))
        if not answer:
            return None
        self._heard.append(_Heard(archive, answer))
        if self._url.original_required:
            return None
        found = self._wanted(archive, answer)
        return self._redirect(archive, answer, found, complete=True) if found else None

    def silent(self, archive: Archive, why: IbiError) -> None:
        """Take note that an Archive gave no answer that could be read or believed."""
        self._silent[str(archive.service_ibi)] = why

    def close_round(self) -> Redirect | AskAgain | Alert:
        """Decide on what was heard; nobody else will answer in this round."""
        self.rounds += 1
        living = [heard for heard in self._heard if heard.answer.state is not State.DELETED]
        self._known = self._known or bool(living)
        decided = self._original(living) if self._url.original_required else None
        if decided is not None:
            return decided
        following = self._next(living) if self.rounds < MAX_ROUNDS else None
        if following is not None:
            return following
        return self._alert(self._kind(living), self._subjects(living))

    def _original(self, living: list[_Heard]) -> Redirect | Alert | None:
        """The one Original among all answers (RES-08, AMB-51); None if the wanted item is nowhere yet.

        Claims count whether or not a reader may be sent to their URLs: whoever claims is part of the question.
        """
        offers = [
            _Offer(*heard, found) for heard in living if (found := self._found(heard.answer)) is not None
        ]
        claims = [offer for offer in offers if offer.found.entry.state is State.ORIGINAL]
        suspects = [claim for claim in claims if any(map(claim.contradicts, claims))]
        if suspects:
            return self._alert(Kind.SUSPECT_ORIGINALS, [claim.archive for claim in suspects])
        if claims:
            claim = self._preferred(claims)
            if not self._policy.leads(claim.archive, claim.found.entry.url):
                return self._alert(Kind.UNSAFE_URL, [claim.archive])
            return self._redirect(*claim, complete=not self._silent)
        if offers:
            return self._alert(Kind.NO_ORIGINAL, [offer.archive for offer in offers])
        return None

    def _preferred(self, claims: list[_Offer]) -> _Offer:
        """Of originals of different items, which only differ in language, the one that suits the reader."""
        said = {name: value for claim in reversed(claims) for name, value in claim.answer.pairs.items()}
        relations = [claim.found.relation for claim in claims]
        found = wanted(UrlList(said), self._relation, self._preference, relations)
        chosen = found.relation if found else relations[0]
        return next(claim for claim in claims if claim.found.relation == chosen)

    def _found(self, answer: UrlList) -> Found | None:
        return wanted(answer, self._relation, self._preference, answer.relations())

    def _wanted(self, archive: Archive, answer: UrlList) -> Found | None:
        if answer.state is State.DELETED:
            return None
        usable = living_relations(archive, answer, self._policy)
        found = wanted(answer, self._relation, self._preference, usable)
        if found is None and self._found(answer) is not None:
            self._unsafe.append(archive)
        return found

    def _next(self, living: list[_Heard]) -> AskAgain | None:
        """The next request: what an answer leads to, else an item in the language it has (RES-09, AMB-46)."""
        fewer = without_bare_translation(self._relation)
        if living and fewer is not None:
            self._fallbacks.append((self.request.ibi, VerbList.of(fewer, file_list=self._url.file_list)))
        for heard in living:
            for forms, verbs in next_requests(
                heard.answer, self._relation, self._preference, file_list=self._url.file_list
            ):
                if not any((name, verbs.verbs) in self._asked for name in forms.canonicals):
                    if heard.answer.forms is not None:  # its other name is not asked again (threat T09)
                        self._remember_all(heard.answer.forms, self.request.verbs)
                    self._remember_all(forms, verbs)
                    return self._ask(forms.main, verbs)
        while self._fallbacks:
            name, verbs = self._fallbacks.pop()
            if (name.canonical, verbs.verbs) not in self._asked:
                self._remember(name.canonical, verbs)
                return self._ask(name, verbs)
        return None

    def _ask(self, ibi: Name, verbs: VerbList) -> AskAgain:
        self.request = UrlRequest(self.request.client_addresses, ibi, self.request.file_path, verbs)
        self._relation = verbs.relation
        self._heard = []
        self._answered = set()
        return AskAgain(self.request)

    def _remember(self, canonical: str, verbs: VerbList) -> None:
        self._asked.add((canonical, verbs.verbs))

    def _remember_all(self, forms: IBIForms, verbs: VerbList) -> None:
        for canonical in forms.canonicals:
            self._remember(canonical, verbs)

    def _redirect(self, archive: Archive, answer: UrlList, found: Found, *, complete: bool) -> Redirect:
        entry = found.entry
        url = entry.url or ""
        last = found.relation.steps[-1:]
        described = ContentType.METADATA if last and last[0].kind is StepKind.METADATA else ContentType.DATA
        thanks = None
        if answer.url_key is not None:
            thanks = Acknowledgment(
                self.request.client_addresses,
                entry.content_type or described,
                entry.state,
                url,
                self._persistent,
                answer.url_key,
                entry.forms,
            )
        return Redirect(with_query(url, self._url.foreign_query), archive, found, thanks, complete)

    def _kind(self, living: list[_Heard]) -> Kind:
        """Why there is no redirect, as far as that is known (RES-13, note 6)."""
        if self._unsafe:
            return Kind.UNSAFE_URL
        if living and any(
            step.kind is StepKind.TRANSLATION and step.parameter for step in self._relation.steps
        ):
            return Kind.NO_TRANSLATION
        return Kind.DELETED if self._heard and not living else Kind.NOT_FOUND

    def _subjects(self, living: list[_Heard]) -> list[Archive]:
        return self._unsafe or [heard.archive for heard in living or self._heard]

    def _alert(self, kind: Kind, archives: list[Archive]) -> Alert:
        asked = len(self._answered | self._silent.keys())
        if kind is not Kind.SUSPECT_ORIGINALS and (self._silent or not asked):
            kind = Kind.INCOMPLETE
        removed = [heard.answer.timestamp for heard in self._heard if kind is Kind.DELETED]
        return Alert(
            kind,
            url=self._persistent,
            ibi=str(self._url.ibi),
            round=Round(asked, tuple(self._silent.items())),
            archives=tuple(str(archive.service_ibi) for archive in archives),
            timestamp=next((moment for moment in removed if moment), ""),
            alternates=tuple(sorted(self._others().items())) if kind is Kind.NO_TRANSLATION else (),
            proposals=tuple(self._others().values()) if kind is Kind.NOT_FOUND else (),
            known=self._known,
        )

    def _others(self) -> dict[str, str]:
        """Persistent URLs of what is offered in other languages or formats, by the last of these (note 19)."""
        root = self._persistent.removesuffix(self._url.text)
        found: dict[str, str] = {}
        for heard in self._heard:
            for relation in others(heard.answer, self._url.relation):
                parameters = [step.parameter for step in relation.steps if step.parameter]
                url = f"{root}/{self._url.ibi}{relation.modifier}{self._url.file_path}"
                found.setdefault(parameters[-1] if parameters else "", url)
        return found
