"""One resolution, from the persistent URL to a redirect or an alert (R15 chapter 8, RES-01 to RES-14); pure.

It has no socket, no clock and no task: it says what to ask (`request`), hears who answered what, and decides.

    asking ──hear──▶ Redirect              as soon as an answer satisfies (normal mode)
       │                                   · unless the item's known holder is still awaited: `candidate`, `take`
       │
       └─close_round─▶ Redirect | Alert    when all have answered, or time is up
                    └▶ AskAgain            a new round: an edition, a translation, metadata elsewhere
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.protocol.choice import Found, without_bare_translation
from ibi.protocol.messages import Acknowledgment, UrlRequest
from ibi.protocol.query_string import with_query
from ibi.protocol.relation import Kind as StepKind
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, State
from ibi.resolver.alerts import Alert, Kind, Round
from ibi.resolver.asked import Asked
from ibi.resolver.originals import Offer, contradicting, preferred
from ibi.resolver.selection import Archive, alternatives, next_requests, offered, removed_on, satisfying

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.errors import IbiError
    from ibi.identifier.forms import Name
    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.persistent_url import PersistentURL
    from ibi.resolver.policy import Policy

MAX_ROUNDS: Final = 32
"""Rounds of one resolution (docs/threats.md); circles end earlier, when nothing new is left to ask."""


class Redirect(NamedTuple):
    """Send the reader to `url`; then thank `archive`, if it gave a key to thank with.

    `request`: what had been asked; `answer`: what the Archive said. `complete`: whether everyone had answered when an
    original was chosen among all answers. `preferred`: to a faster answer, for this Archive is known to hold the
    original. `again`: the answer was given before, and may be used again. `stale`: so was this one, of an Archive that
    is silent now.
    """

    url: str
    archive: Archive
    found: Found
    acknowledgment: Acknowledgment | None
    request: UrlRequest
    answer: UrlList
    complete: bool
    preferred: bool = False
    again: bool = False
    stale: bool = False


class AskAgain(NamedTuple):
    """Ask all Archives the next request."""

    request: UrlRequest


class _Heard(NamedTuple):
    archive: Archive
    answer: UrlList


class Resolution:
    """The resolution of one persistent URL for one reader.

    `persistent` is that URL as a whole, for the acknowledgment (note 16). `holder` tells which Archive, if it is asked
    at all, is known to hold the original of an item: the canonical IBI of its service for the canonical name of the
    item. In normal mode its answer is preferred to a faster one (threat T04), and it may say that the item is deleted.
    """

    def __init__(
        self,
        url: PersistentURL,
        persistent: str,
        client_addresses: tuple[str, ...],
        preference: LanguagePreference,
        policy: Policy,
        holder: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._url = url
        self._persistent = persistent
        self._preference = preference
        self._policy = policy
        self._holder_of = holder
        self._holder = self._awaited = holder(url.ibi.canonical)
        self.candidate: Redirect | None = None
        """What would be chosen if the known holder were not awaited."""
        self._relation = url.relation
        self._asked = Asked()
        self._heard: list[_Heard] = []
        self._answered: set[str] = set()
        self._silent: dict[str, tuple[str, IbiError]] = {}
        self._unsafe: list[Archive] = []
        self._known = False
        self._fallbacks: list[tuple[Name, VerbList]] = []
        self.doubt: IbiError | None = None  # why the last answer was not taken for one
        self.rounds = 0
        self.request = UrlRequest(client_addresses, url.ibi, url.file_path, url.verbs)
        """What every Archive is to be asked in this round."""
        self._asked.add([url.ibi.canonical], url.verbs)

    @property
    def original_required(self) -> bool:
        """Whether nothing but the original will do (RES-08)."""
        return self._url.original_required

    def hear(self, archive: Archive, answer: UrlList, *, again: bool = False) -> Redirect | None:
        """Take an answer, given before if `again`. In normal mode the first that satisfies decides (RES-05)."""
        if answer.pairs:
            doubt = self.doubt = self._policy.disbelief(archive, self.request, answer)
            if doubt is not None:
                return self.silent(archive, doubt)
            self._heard.append(_Heard(archive, answer))
        self._answered.add(archive.service_ibi.canonical)
        if self._url.original_required:
            return None
        self._await_no_more(archive.service_ibi.canonical)
        found = self._wanted(archive, answer) if answer.pairs else None
        if found is None:
            if answer.pairs and answer.state is not State.DELETED and self._found(answer) is not None:
                self._unsafe.append(archive)
            return None if self._awaited else self.candidate
        chosen = self._redirect(archive, answer, found, complete=True)._replace(again=again)
        if not self._awaited:
            return chosen._replace(preferred=self.candidate is not None)
        self.candidate = self.candidate or chosen
        return None

    def silent(self, archive: Archive, why: IbiError) -> Redirect | None:
        """Take note that an Archive gave no answer that could be read or believed."""
        self._silent[archive.service_ibi.canonical] = str(archive.service_ibi), why
        self._await_no_more(archive.service_ibi.canonical)
        return None if self._awaited else self.candidate

    def hear_again(self, archive: Archive, answer: UrlList) -> Redirect | None:
        """Take an older answer of an Archive that says nothing now: better than nothing, in normal mode."""
        if self._url.original_required or not answer or self._policy.disbelief(archive, self.request, answer):
            return None
        found = self._wanted(archive, answer)
        if found is None:
            return None
        chosen = self._redirect(archive, answer, found, complete=False)
        return chosen._replace(acknowledgment=None, stale=True)

    def take(self) -> Redirect | None:
        """The candidate, now that the known holder has been awaited long enough."""
        self._awaited = None
        return self.candidate

    def _await_no_more(self, service: str) -> None:
        if service == self._awaited:
            self._awaited = None

    def close_round(self, *, may_go_on: bool = True) -> Redirect | AskAgain | Alert:
        """Decide on what was heard; nobody else will answer in this round, nor, without `may_go_on`, in another one."""
        self.rounds += 1
        may_go_on = may_go_on and self.rounds < MAX_ROUNDS
        if self.candidate is not None:
            return self.candidate
        living = [heard for heard in self._heard if heard.answer.state is not State.DELETED]
        self._known = self._known or bool(living)
        decided = self._original(living, may_go_on=may_go_on) if self._url.original_required else None
        if decided is not None:
            return decided
        following = self._next(living) if may_go_on else None
        if following is not None:
            return following
        subjects = self._unsafe or [heard.archive for heard in living or self._heard]
        return self._alert(self._kind(living), subjects)

    def _original(self, living: list[_Heard], *, may_go_on: bool) -> Redirect | AskAgain | Alert | None:
        """The one Original among all answers (RES-08, AMB-51); None if the wanted item is nowhere yet."""
        offers = [
            Offer(*heard, found) for heard in living if (found := self._found(heard.answer)) is not None
        ]
        claims = [offer for offer in offers if offer.found.entry.state is State.ORIGINAL]
        suspects = contradicting(claims)
        if suspects:
            return self._alert(Kind.SUSPECT_ORIGINALS, [claim.archive for claim in suspects])
        if claims:
            claim = preferred(claims, self._relation, self._preference)
            if not self._policy.leads(claim.archive, claim.found.entry.url):
                return self._alert(Kind.UNSAFE_URL, [claim.archive])
            return self._redirect(*claim, complete=not self._silent)
        further = self._further(living) if may_go_on and offers and self._policy.looks_further else None
        if further is not None:
            return further
        if offers:
            return self._alert(Kind.NO_ORIGINAL, [offer.archive for offer in offers])
        return None

    def _further(self, living: list[_Heard]) -> AskAgain | None:
        """Where the wanted item is offered, but not as the original: what is said of it under its own name."""
        return next((again for heard in living if (again := self._lead(heard.answer)) is not None), None)

    def _found(self, answer: UrlList) -> Found | None:
        return offered(answer, self._relation, self._preference)

    def _wanted(self, archive: Archive, answer: UrlList) -> Found | None:
        if answer.state is State.DELETED:
            return None
        return satisfying(archive, answer, self._relation, self._preference, self._policy.leads)

    def _next(self, living: list[_Heard]) -> AskAgain | None:
        """The next request: what an answer leads to, else an item in the language it has (RES-09, AMB-46)."""
        fewer = without_bare_translation(self._relation)
        if living and fewer is not None:
            self._fallbacks.append((self.request.ibi, VerbList.of(fewer, file_list=self._url.file_list)))
        for heard in living:
            leading = self._lead(heard.answer)
            if leading is not None:
                return leading
        while self._fallbacks:
            name, verbs = self._fallbacks.pop()
            if not self._asked.has([name.canonical], verbs):
                self._asked.add([name.canonical], verbs)
                return self._ask(name, verbs)
        return None

    def _lead(self, answer: UrlList) -> AskAgain | None:
        """The most promising request that an answer leads to and that was not made yet."""
        file_list = self._url.file_list
        for forms, verbs in next_requests(answer, self._relation, self._preference, file_list=file_list):
            if not self._asked.has(forms.canonicals, verbs):
                if answer.forms is not None:  # its other name is not asked again (threat T09)
                    self._asked.add(answer.forms.canonicals, self.request.verbs)
                self._asked.add(forms.canonicals, verbs)
                return self._ask(forms.main, verbs)
        return None

    def _ask(self, ibi: Name, verbs: VerbList) -> AskAgain:
        self.request = UrlRequest(self.request.client_addresses, ibi, self.request.file_path, verbs)
        self._relation = verbs.relation
        self._holder = self._awaited = self._holder_of(ibi.canonical)
        self._heard = []
        self._answered = set()
        return AskAgain(self.request)

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
        location = with_query(url, self._url.foreign_query)
        return Redirect(location, archive, found, thanks, self.request, answer, complete)

    def _kind(self, living: list[_Heard]) -> Kind:
        """Why there is no redirect, as far as that is known (RES-13, note 6)."""
        if self._unsafe:
            return Kind.UNSAFE_URL
        if living and any(
            step.kind is StepKind.TRANSLATION and step.parameter for step in self._relation.steps
        ):
            return Kind.NO_TRANSLATION
        return Kind.DELETED if self._heard and not living else Kind.NOT_FOUND

    def _alert(self, kind: Kind, archives: list[Archive]) -> Alert:
        asked = len(self._answered | self._silent.keys())
        cause = kind  # what it would be if all had answered
        if kind is not Kind.SUSPECT_ORIGINALS and (self._silent or not asked) and not self._removed(kind):
            kind = Kind.INCOMPLETE
        answers = [heard.answer for heard in self._heard]
        others = alternatives(answers, self._url, self._persistent)
        return Alert(
            kind,
            url=self._persistent,
            ibi=str(self._url.ibi),
            round=Round(asked, tuple(self._silent.values())),
            archives=tuple(str(archive.service_ibi) for archive in archives),
            timestamp=removed_on(answers) if kind is Kind.DELETED else "",
            alternates=tuple(sorted(others.items())) if cause is Kind.NO_TRANSLATION else (),
            proposals=tuple(others.values()) if cause is Kind.NOT_FOUND else (),
            known=self._known,
        )

    def _removed(self, kind: Kind) -> bool:
        """Whether the one who may say so says that the item was removed: the known holder (note 6)."""
        by = {heard.archive.service_ibi.canonical for heard in self._heard}
        return kind is Kind.DELETED and self._holder in by
