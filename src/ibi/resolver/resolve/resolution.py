"""One resolution, from the persistent URL to a redirect or an alert (R15 chapter 8, RES-01 to RES-14); pure.

A `Resolution` has no socket, no clock and no task. Its caller (`Resolver`) does this in each round:

    1. It calls `expect`, which says whose answer is preferred to a faster one; that Archive is awaited.
    2. It sends `query` to the Archives, and passes each response to `hear`. `hear` returns a Redirect when an answer
       satisfies. It does not do so if the original is required; nor while another Archive is awaited: then the first
       answer that satisfies is the `candidate`.
    3. If the awaited Archive has had its time, it calls `take_candidate`.
    4. If no response has decided by the end of the round, it calls `close_round`, which returns

           Redirect     the candidate, or the one original
           Alert        no answer leads to the item, or two Archives claim the original
           UrlRequest   the query of a next round, about another item: an edition, a translation, metadata
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from ibi.errors import WrongArchive
from ibi.protocol.extensions.tombstone import Tombstone
from ibi.protocol.messages import Acknowledgment, UrlRequest
from ibi.protocol.query_string import with_query
from ibi.protocol.relation import StepKind
from ibi.protocol.url_list import UrlList, WantedEntry, without_bare_translation
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.resolver.model.alert import Alert, AlertKind, Coverage
from ibi.resolver.resolve.selection import (
    Offer,
    alternatives,
    contradicting,
    item_claims,
    next_requests,
    offered,
    preferred,
    removed_on,
    satisfying,
)

if TYPE_CHECKING:
    from ibi.errors import IbiError
    from ibi.identifier.forms import IBIForms, Name
    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.persistent_url import PersistentURL
    from ibi.resolver.model.archive import Archive, ArchiveResponse
    from ibi.resolver.resolve.policy import Policy


MOST_ROUNDS: Final = 32
"""Rounds of one resolution, apart from those for later editions (docs/reference/threats.md)."""

MOST_EDITIONS: Final = 256
"""Rounds of one resolution for later editions. If editions name each other in a circle, it ends before, because no
query is sent twice."""


class Redirect(NamedTuple):
    """The decision to send the reader to `url`, which the entry `found` in the `answer` of `archive` gives.

    `acknowledgment`: what the Archive gets, None if its answer has no URL key. `coverage`: how complete the answers
    were; None unless the original was required. `preferred`: why this answer was chosen although another one came
    earlier: "holder", because this Archive is known to hold the original; "prefix", because no holder is known and
    the service of this Archive has the item's prefix. `reused`: whether the answer came from the cache, and was
    fresh, or was shared with another reader. `stale`: whether it came from the cache, had expired, and was used
    because its Archive is silent; then nothing is acknowledged.
    """

    url: str
    archive: Archive
    found: WantedEntry
    acknowledgment: Acknowledgment | None
    answer: UrlList
    coverage: Coverage | None = None
    preferred: Literal["", "holder", "prefix"] = ""
    reused: bool = False
    stale: bool = False

    @property
    def complete(self) -> bool:
        """False if the original was required and an Archive was silent, else true."""
        return self.coverage is None or not self.coverage.silent

    @property
    def incomplete(self) -> tuple[int, int]:
        """How many Archives were silent, and how many were asked; (0, 0) unless the original was required."""
        return (0, 0) if self.coverage is None else (len(self.coverage.silent), self.coverage.total)


class UpstreamRedirect(NamedTuple):
    """The decision to send the reader to `url`, which an upstream resolver gave; it was checked.

    `incomplete`: as of a `Redirect`, counted at both resolvers together. See note 43: an upstream resolver.
    """

    url: str
    incomplete: tuple[int, int] = (0, 0)


Decision = Redirect | Alert | UrlRequest
"""The result of a round: the end, or the query of the next round."""


class Resolution:
    """The resolution of one persistent URL for one reader.

    `persistent` is the text of that URL as a whole, for the acknowledgment (note 16: the whole persistent URL).
    `preference`: the languages of the reader. `client_addresses` are sent with each query.

    What it notes of the present round:

        _holder      the Archive that is known to hold the original of the item of this round (`expect`)
        _awaited     the Archive whose answer is preferred to a faster one, until it has responded or its time has ended
        _heard       the responses that know the item, and are believed
        _answered    the services of all Archives that have answered anything, and are believed

    And of all rounds so far:

        _silent      name and error of each Archive that gave no answer, or one that is not believed, by service
        _unsafe      the Archives that offer the wanted item at a URL to which no reader is sent
        _away        the Archives that may hold the item, and are excluded for now
        _back_in     the seconds after which the first of these is back, None where none has said when
        _known       whether an Archive knew the item of any round as not removed
        _requested   what was asked for: names of items, with verbs
        _fallbacks   what to ask, the last first, if no answer leads on: for `+`, the item in any language
        _editions    how many rounds asked for a later edition
    """

    def __init__(
        self,
        url: PersistentURL,
        persistent: str,
        client_addresses: tuple[str, ...],
        preference: LanguagePreference,
        policy: Policy,
    ) -> None:
        self.url = url
        self.original_required = url.original_required
        """Whether the URL requires the original (RES-08: the original is required)."""
        self.persistent = persistent
        """The persistent URL as a whole."""
        self._preference = preference
        self._policy = policy
        self._holder: str | None = None
        self._awaited: str | None = None
        self.candidate: Redirect | None = None
        """The redirect that is chosen if the awaited Archive does not answer in time; None without any."""
        self._relation = url.relation
        # No item is asked for twice with the same verbs, under any of its names (AMB-53: what is asked next; note 5:
        # no question twice; T09: circles of editions).
        self._requested: set[tuple[str, tuple[str, ...]]] = set()
        self._heard: list[ArchiveResponse] = []
        self._answered: set[str] = set()
        self._silent: dict[str, tuple[str, IbiError]] = {}
        self._unsafe: list[Archive] = []
        self._away: list[Archive] = []
        self._back_in: int | None = None
        self._known = False
        self._fallbacks: list[tuple[Name, VerbList]] = []
        self._editions = 0
        self.disbelieved: tuple[Archive, ...] = ()
        """The Archives whose answers in this round were not believed."""
        self.rounds_closed = 0
        self.query = UrlRequest(client_addresses, url.ibi, url.file_path, url.verbs)
        """The query for every Archive in this round."""
        self._requested.add((url.ibi.canonical, url.verbs.verbs))

    def expect(self, holder: str | None, home: str | None = None) -> None:
        """Begin a round, and choose the Archive that is awaited: `holder`, or else `home`, or none.

        `holder` is known to hold the original of the item; None if no Archive is. If it says "Deleted", the reader is
        told so however many others are silent (note 6: silence is no absence). `home` is the only Archive whose
        service has the prefix of the item, which is seen for the first time. Both are canonical IBIs of services that
        are asked. Unless the original is required, the awaited answer is preferred to a faster one (T04: a rogue
        first answer).
        """
        self._holder = None if self._policy.strict else holder
        self._awaited = None if self._policy.strict else holder or home

    def count_absent(self, response: ArchiveResponse, back_in: int | None) -> None:
        """Count an Archive as silent that may well hold the item, and is excluded for now (T04: a rogue first answer).

        `back_in`: the seconds after which it expects to be back, None where it has not said when.
        """
        self._hear_error(response)
        self._away.append(response.archive)
        if back_in is not None:
            self._back_in = back_in if self._back_in is None else min(self._back_in, back_in)

    def hear(self, response: ArchiveResponse) -> Redirect | None:
        """Take the response of an Archive; return a redirect if the resolution is decided now, else None.

        The first answer that satisfies decides (RES-05: the first answer decides), unless the original is required or
        another Archive is awaited. An answer that is not believed gets its error here (T08: false answers).
        """
        archive, answer = response.archive, response.answer
        if answer is None:
            return self._hear_error(response)
        if response.source == "stale":
            return self._hear_stale(archive, answer)
        if answer.pairs:
            response.error = self._policy.disbelief(archive, self.query, answer)
            if response.error is not None:
                self.disbelieved = (*self.disbelieved, archive)
                return self._hear_error(response)
            self._heard.append(response)
        self._answered.add(archive.service)
        return None if self.original_required else self._choose(response, archive, answer)

    def _choose(self, response: ArchiveResponse, archive: Archive, answer: UrlList) -> Redirect | None:
        """Return what this answer decides: a redirect to it, a redirect to the candidate, or None.

        While another Archive is awaited, the first answer that satisfies becomes the candidate (T04: a rogue first
        answer). README.md has a table of all cases.
        """
        if archive.service == self._awaited:
            self._awaited = None
        found = self._wanted(archive, answer) if answer.pairs else None
        if found is None:  # the answer does not satisfy
            if answer.pairs and answer.state is not ItemState.DELETED and self._found(answer) is not None:
                self._unsafe.append(archive)
            return None if self._awaited else self.candidate
        chosen = self._redirect(archive, answer, found)
        if response.source in {"cache", "shared"}:
            chosen = chosen._replace(reused=True)
        if self._awaited:
            self.candidate = self.candidate or chosen
            return None
        if self.candidate is None:
            return chosen
        # There is a candidate, so another Archive was awaited until now, and this is its answer.
        return chosen._replace(preferred="holder" if self._holder else "prefix")

    def _hear_error(self, response: ArchiveResponse) -> Redirect | None:
        """Count an Archive as silent; return the candidate if this was the Archive that was awaited."""
        archive, error = response.archive, response.error
        # Where a probe has proved that another server answers in its place (`WrongArchive`), an Archive counts as
        # silent only if it is the known holder, or the original is required. Otherwise readers can still be told that
        # no Archive holds the item (T08: false answers).
        replaced = response.source == "breaker" and isinstance(error, WrongArchive)
        if not replaced or self.original_required or archive.service == self._holder:
            self._silent[archive.service] = archive.name, cast("IbiError", error)
        if archive.service == self._awaited:
            self._awaited = None
        return None if self._awaited else self.candidate

    def _hear_stale(self, archive: Archive, answer: UrlList) -> Redirect | None:
        """Take an expired answer of a silent Archive; it decides if it satisfies (RFC 8767)."""
        if self.original_required or not answer or self._policy.disbelief(archive, self.query, answer):
            return None
        found = self._wanted(archive, answer)
        if found is None:
            return None
        chosen = self._redirect(archive, answer, found)
        return chosen._replace(acknowledgment=None, stale=True)

    def take_candidate(self) -> Redirect | None:
        """Return the candidate: the awaited Archive has had its time."""
        self._awaited = None
        return self.candidate

    def close_round(self, *, may_go_on: bool = True, in_time: bool = True) -> Redirect | UrlRequest | Alert:
        """Decide by all responses of this round: return a redirect, the query of a next round, or an alert.

        `may_go_on`: whether the caller allows a next round. `in_time`: whether the round ended before the deadline of
        the resolution.
        """
        self.rounds_closed += 1
        others = self.rounds_closed - self._editions
        may_go_on = may_go_on and others < MOST_ROUNDS and self._editions < MOST_EDITIONS
        if self.candidate is not None:
            return self.candidate
        living = [heard for heard in self._heard if _answer(heard).state is not ItemState.DELETED]
        self._known = self._known or bool(living)
        if self.original_required:
            decided = self._original(living, may_go_on=may_go_on)
            if decided is not None:
                return decided
        following = self._next(living)
        if following is not None and may_go_on:
            return self._ask(*following)
        subjects = self._unsafe or [heard.archive for heard in living or self._heard]
        if following is not None:
            return self._alert(AlertKind.TOO_FAR, subjects, following[0])
        if not in_time and self._editions >= MOST_ROUNDS:
            # Rounds of later editions count in `_editions` alone, not against MOST_ROUNDS. So many of them have used up
            # the time: it was not used up by silent Archives.
            alert = self._alert(AlertKind.TOO_FAR, subjects, self.query.ibi)
            return replace(alert, kind=AlertKind.TOO_FAR, coverage=None, wait=None)
        # A later round asks for a related item, such as a translation: the alert names it if no Archive knows it.
        is_missing = not self._heard and self.query.ibi.canonical != self.url.ibi.canonical
        return self._alert(self._kind(living), subjects, self.query.ibi if is_missing else None)

    def _original(
        self, living: list[ArchiveResponse], *, may_go_on: bool
    ) -> Redirect | UrlRequest | Alert | None:
        """Decide where an Original is required; None if no answer offers the wanted item.

        An Archive that calls the item an Original claims it, even without the wanted URL (note 6: silence is no
        absence). See RES-08: the original is required; AMB-51: no claim of the original.
        """
        offers = [
            Offer(heard.archive, _answer(heard), found)
            for heard in living
            if (found := self._found(_answer(heard))) is not None
        ]
        claims = [offer for offer in offers if offer.found.entry.state is ItemState.ORIGINAL]
        # The hardened policy also counts claims to the item itself, if a related one is wanted.
        suspects = contradicting(claims if self._policy.strict else [*claims, *item_claims(living)])
        if suspects:
            return self._alert(AlertKind.SUSPECT_ORIGINALS, [claim.archive for claim in suspects])
        if claims:
            claim = preferred(claims, self._relation, self._preference)
            if not self._policy.is_safe(claim.archive, claim.found.entry.url):
                return self._alert(AlertKind.UNSAFE_URL, [claim.archive])
            return self._redirect(*claim)._replace(coverage=self._coverage())
        if may_go_on and offers and not self._policy.strict:
            for heard in living:  # before there is an alert, the item is asked for by its own name
                further = self._onward(_answer(heard))
                if further is not None:
                    return self._ask(*further)
        if offers:
            return self._alert(AlertKind.NO_ORIGINAL, [offer.archive for offer in offers])
        return None

    def _found(self, answer: UrlList) -> WantedEntry | None:
        """Return what is wanted, if the answer offers it at any URL."""
        return offered(answer, self._relation, self._preference)

    def _wanted(self, archive: Archive, answer: UrlList) -> WantedEntry | None:
        """Return what is wanted, if the answer offers it at a URL to which a reader may be sent: it *satisfies*."""
        if answer.state is ItemState.DELETED:
            return None
        return satisfying(archive, answer, self._relation, self._preference, self._policy.is_safe)

    def _next(self, living: list[ArchiveResponse]) -> tuple[Name, VerbList] | None:
        """Return what to ask next: what the answers lead to, else the item in any language; None if there is nothing.

        See RES-09: further rounds; AMB-46: ends at the item itself.
        """
        # If the URL wants a translation into the language of the browser, the item itself will do at last.
        fewer = without_bare_translation(self._relation)
        if living and fewer is not None:
            self._fallbacks.append((self.query.ibi, VerbList.of(fewer, file_list=self.url.file_list)))
        for heard in living:
            leading = self._onward(_answer(heard))
            if leading is not None:
                return leading
        while self._fallbacks:
            name, verbs = self._fallbacks.pop()
            if (name.canonical, verbs.verbs) not in self._requested:
                self._requested.add((name.canonical, verbs.verbs))
                return name, verbs
        return None

    def _onward(self, answer: UrlList) -> tuple[Name, VerbList] | None:
        """Return the most promising query to which an answer leads, and which was not asked yet."""
        file_list = self.url.file_list
        for forms, verbs in next_requests(answer, self._relation, self._preference, file_list=file_list):
            if not any((name, verbs.verbs) in self._requested for name in forms.canonicals):
                if answer.forms is not None:  # its other name is not asked again (T09: circles of editions)
                    self._note_requested(answer.forms, self.query.verbs)
                self._note_requested(forms, verbs)
                is_edition = StepKind.LAST_EDITION in self._relation.kinds[:1] and verbs == self.query.verbs
                self._editions += is_edition
                return forms.main, verbs
        return None

    def _note_requested(self, forms: IBIForms, verbs: VerbList) -> None:
        self._requested.update((name, verbs.verbs) for name in forms.canonicals)

    def _ask(self, ibi: Name, verbs: VerbList) -> UrlRequest:
        """Make the query of the next round, and forget what counts for one round only."""
        self.query = UrlRequest(self.query.client_addresses, ibi, self.query.file_path, verbs)
        self._relation = verbs.relation
        self._holder = self._awaited = None
        self._heard = []
        self._answered = set()
        self.disbelieved = ()
        return self.query

    def _coverage(self) -> Coverage:
        """Count the Archives that have answered or were silent."""
        queried = self._answered.union(self._silent) if self._silent else self._answered
        return Coverage(len(queried), tuple(self._silent.values()))

    def _redirect(self, archive: Archive, answer: UrlList, found: WantedEntry) -> Redirect:
        """Return the redirect to an entry of an answer, with the acknowledgment that its Archive gets."""
        entry = found.entry
        url = entry.url or ""
        last = found.relation.steps[-1:]
        described = ContentType.METADATA if last and last[0].kind is StepKind.METADATA else ContentType.DATA
        acknowledgment = None
        if answer.url_key is not None:
            acknowledgment = Acknowledgment(
                self.query.client_addresses,
                entry.content_type or described,
                entry.state,
                url,
                self.persistent,
                answer.url_key,
                entry.forms,
            )
        foreign = self.url.foreign_query
        location = with_query(url, foreign) if foreign else url
        return Redirect(location, archive, found, acknowledgment, answer)

    def _kind(self, living: list[ArchiveResponse]) -> AlertKind:
        """Return why there is no redirect, as if no Archive had been silent."""
        if self._unsafe:
            return AlertKind.UNSAFE_URL
        if living and any(
            step.kind is StepKind.TRANSLATION and step.parameter for step in self._relation.steps
        ):
            return AlertKind.NO_TRANSLATION
        return AlertKind.DELETED if self._heard and not living else AlertKind.NOT_FOUND

    def _alert(self, kind: AlertKind, archives: list[Archive], leads_to: Name | None = None) -> Alert:
        """Return the alert of this kind; or INCOMPLETE in its place, if an Archive was silent that may hold the item.

        `archives`: those that the alert names. `leads_to`: the item that could not be asked for, or was not found.
        """
        coverage = self._coverage()
        cause = kind  # the kind if all Archives had answered
        # The known holder may say that the item was removed, however many Archives are silent (note 6: silence is no
        # absence).
        removed = kind is AlertKind.DELETED and any(
            heard.archive.service == self._holder for heard in self._heard
        )
        if kind is not AlertKind.SUSPECT_ORIGINALS and (self._silent or not coverage.total) and not removed:
            kind = AlertKind.INCOMPLETE
            archives = self._away or archives
        answers = [_answer(heard) for heard in self._heard]
        others = alternatives(answers, self.url, self.persistent)
        return Alert(
            kind,
            url=self.persistent,
            ibi=str(self.url.ibi),
            coverage=coverage,
            archives=tuple(dict.fromkeys(archive.name for archive in archives)),
            timestamp=removed_on(answers) if kind is AlertKind.DELETED else "",
            tombstone=self._tombstone() if kind is AlertKind.DELETED else None,
            alternates=tuple(sorted(others.items())) if cause is AlertKind.NO_TRANSLATION else (),
            proposals=tuple(others.values()) if cause is AlertKind.NOT_FOUND else (),
            known=self._known,
            leads_to="" if leads_to is None else str(leads_to),
            wait=self._back_in if kind is AlertKind.INCOMPLETE else None,
        )

    def _tombstone(self) -> Tombstone | None:
        """Return what stays known of the removed item, by its known holder, else by the first that says anything."""
        heard = sorted(self._heard, key=lambda each: each.archive.service != self._holder)
        found = (Tombstone.of(_answer(each).pairs) for each in heard)
        return next((each for each in found if any(each)), None)


def _answer(response: ArchiveResponse) -> UrlList:
    """Return the answer of a response in `_heard`, which always has one."""
    return cast("UrlList", response.answer)
