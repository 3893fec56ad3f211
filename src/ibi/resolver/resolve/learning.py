"""Learns from resolutions which Archives hold an item, and which one showed its original first.

If it is lost or wrong, no redirect becomes wrong: it only decides which Archives are asked first, and which of two
right answers is preferred (ARC-12: Archives know where items are). `resolver/cache/README.md` says what else readers
notice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.identifier.forms import IBIForms, parse_ibi, parse_name
from ibi.identifier.legacy import LegacyId
from ibi.protocol.relation import StepKind
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.cache.hints import HolderHint
from ibi.resolver.cache.rows import question
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.resolve.resolution import Redirect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.identifier.forms import Name
    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.cache.answers import AnswerCache
    from ibi.resolver.cache.hints import HintCache
    from ibi.resolver.cache.rows import Snapshot
    from ibi.resolver.evidence.claims import ClaimTimes
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.model.archive import ArchiveResponse, Members
    from ibi.resolver.resolve.policy import Policy
    from ibi.resolver.resolve.resolution import Decision

NO_HINT: Final = HolderHint(None, None)
"""The hint of an item of which nothing is known."""

_GROWING: Final = frozenset({StepKind.LAST_EDITION, StepKind.TRANSLATION})
"""Relations whose items may be created at any moment."""


@dataclass(slots=True)
class Knowledge:
    """The hints, answers and evidence in one data directory. `now` returns POSIX seconds.

    `claims`: since when Archives claim originals; None where the evidence is not read. `disputes`: how often this
    process has found two Archives that claim one original.
    """

    hints: HintCache
    cache: AnswerCache
    evidence: Evidence
    now: Callable[[], float]
    claims: ClaimTimes | None = None
    disputes: int = 0

    def learn(
        self,
        query: UrlRequest,
        hint: HolderHint,
        responses: Sequence[ArchiveResponse],
        decision: Decision,
        policy: Policy,
        members: Members,
    ) -> None:
        """Record what a round has shown about the item of its query; `hint`: what was known before.

        README.md has a table of all cases ("What a round teaches"). Nothing is learned in the strict policy, nor where
        two Archives claim the original.
        """
        disputed = isinstance(decision, Alert) and decision.kind is AlertKind.SUSPECT_ORIGINALS
        if disputed or not policy.reuses:
            return
        chosen = _informative(query, responses, decision, policy)
        if chosen is None or chosen.answer is None:
            return
        answer, service = chosen.answer, chosen.archive.service
        # Whether this Archive claims the original, and is not known as its holder yet. "": the original is disputed.
        is_new_holder = answer.state is ItemState.ORIGINAL and hint.original not in {service, ""}
        if hint.likely == service and not (is_new_holder or hint.early):
            return  # all of this is known already, as for most responses
        early = hint.original is None and _comes_too_early(query, chosen, responses, members)
        is_new_holder = is_new_holder and not early  # not before the Archive with the prefix is heard
        named = answer.forms
        names = {query.ibi.canonical, *(named.canonicals if named else ())}
        forms = named or _forms(query.ibi) if is_new_holder else None
        # The first holder is stored only if the evidence has it; if not, the next answer counts as the first (T42).
        is_first = forms is not None and hint.original is None and self.evidence.original(forms, service)
        if (hint.likely, hint.early) != (service, early) or is_first:
            self.hints.remember(names, likely=service, original=service if is_first else None, early=early)
        # Another holder is known: this one takes its place only if the other has given the original up.
        if forms is None or hint.original is None or not _gave_up(hint.original, responses, members):
            return
        if self.evidence.migrated(forms, hint.original, service):
            # An Archive may give the item a further name that belongs to another item, to become the holder of that
            # one, too (T08: false answers). So a name is left as it is if a third Archive is known as the holder of
            # its item.
            own = {None, hint.original}
            moved = [name for name in names if self.hints.of(name).original in own]
            self.hints.moved(moved, service)
            self.cache.leases.change_versions(moved)  # redirects to the former holder's copy

    def is_not_known(self, query: UrlRequest, archives: str) -> bool:
        """Whether the negative cache has it that none of these Archives (`Members.version`) knows the item."""
        return self.cache.is_not_known(f"{question(query)} {archives}")

    def put_not_known(
        self, alert: Alert, query: UrlRequest, archives: str, seconds: int, snapshot: Snapshot
    ) -> None:
        """Put into the negative cache that no Archive knows an item, if the alert says so.

        That an item has no later edition or translation is not cached: one may be created at any moment.
        `snapshot`: of the cache, taken before the Archives were asked.
        """
        complete = alert.kind is AlertKind.NOT_FOUND and not alert.known
        grows = any(step.kind in _GROWING for step in query.verbs.relation.steps)
        if seconds and complete and not grows:
            self.cache.put_not_known(f"{question(query)} {archives}", seconds, snapshot)

    def record(
        self,
        alert: Alert,
        name: Name,
        query: UrlRequest,
        responses: Sequence[ArchiveResponse],
        policy: Policy,
    ) -> None:
        """Write an alert that an administrator may have to investigate, or a removal, into the evidence.

        `name` is that of the URL; `query` and `responses` are those of the last round. Where several Archives
        claim the original of the item of that query, none counts as its holder from now on.
        """
        forms = _forms(name)
        if alert.kind is AlertKind.SUSPECT_ORIGINALS:
            disputed = _disputed(query, responses)
            if policy.reuses:
                self.hints.dispute(disputed)
            self.disputes += 1
            self.evidence.alert(str(alert.kind), str(name), alert.archives, sorted(disputed))
        elif alert.kind is AlertKind.DELETED and forms is not None and alert.archives:
            # The known holder's report counts, although an Archive that had a copy may have answered first.
            holder = self.hints.of(forms.main.canonical).original
            removers = [
                each for each in alert.archives if parse_ibi(each).canonical == holder
            ] or alert.archives
            self._keep_removed(forms, removers[0], reuses=policy.reuses)

    def note_changed(self, names: Sequence[str], service: str) -> None:
        """Have the Archive of this service asked first for items (canonical names) that it says it has changed.

        It may have got them from another Archive by a hand-over. Then both announce the item, and either notice may
        come last. A hint stays if it names this Archive; or if it is early (`HolderHint`) and this Archive has the
        prefix of the item, because then it is asked first anyway, beside the Archive that the hint names.
        """
        for canonical in names:
            hint = self.hints.of(canonical)
            is_home = hint.early and _has_prefix(service, canonical)
            if service not in {hint.likely, hint.original} and not is_home:
                # Marked `early` if no holder is known: then the Archive with the prefix of the item is asked, too.
                self.hints.remember([canonical], likely=service, early=hint.original is None)

    def note_removed(self, names: Sequence[Name], service: str) -> None:
        """Record that the Archive of this service says that it has removed items."""
        for name in names:
            forms = _forms(name)
            if forms is not None:
                self._keep_removed(forms, service)

    def _keep_removed(self, forms: IBIForms, archive: str, *, reuses: bool = True) -> None:
        service = parse_ibi(archive).canonical
        recorded = self.evidence.deleted(forms, archive)
        if not reuses:
            return
        # An Archive that is not the known holder must not become the holder by reporting a removal (T04: a rogue
        # first answer). So its report is stored for this Archive alone, and only if the evidence has it, because the
        # evidence is limited per day: an Archive could report items without end.
        if recorded:
            self.hints.say_removed(forms.canonicals, service)
        if self.hints.of(forms.main.canonical).original == service:
            self.hints.removed(forms.canonicals, service)

    def close(self) -> None:
        """Write what waits to be written."""
        self.hints.close()
        self.cache.close()
        self.evidence.close()


def _informative(
    query: UrlRequest, responses: Sequence[ArchiveResponse], decision: Decision, policy: Policy
) -> ArchiveResponse | None:
    """Return the response to learn from: the chosen one, or the first that knows the item as not removed."""
    chosen = None
    if isinstance(decision, Redirect):
        if decision.stale:
            return None
        for each in responses:
            if each.archive is decision.archive:
                chosen = each
                break
    else:
        for each in responses:
            if each.answer is not None and each.answer.pairs and each.answer.state is not ItemState.DELETED:
                chosen = each
                break
    if chosen is None or chosen.answer is None:
        return None
    # A chosen answer was checked already; another one is checked now, so that nothing is learned from a false answer.
    believed = isinstance(decision, Redirect) and chosen.answer is decision.answer
    if not believed and policy.disbelief(chosen.archive, query, chosen.answer) is not None:
        return None
    return chosen


def _disputed(query: UrlRequest, responses: Sequence[ArchiveResponse]) -> set[str]:
    """Return the canonical names on which all claimants of an original agree; none without two claims."""
    claims = [
        {query.ibi.canonical, *(each.answer.forms.canonicals if each.answer.forms else ())}
        for each in responses
        if each.counts and each.answer is not None and each.answer.state is ItemState.ORIGINAL
    ]
    # With one claim, the dispute is about another item, such as the last edition. A name that only one claimant gives
    # may be another item's: a false claim could bring that item into dispute (T08: false answers).
    return set.intersection(*claims) if len(claims) > 1 else set()


def _gave_up(former: str, responses: Sequence[ArchiveResponse], members: Members) -> bool:
    """Whether the former holder of an original reports that it does not hold it now, or is gone.

    Silence and "nothing known" do not count: the former holder may be busy, or restored from an old backup. See T04:
    a rogue first answer.
    """
    if former not in members.by_service and former not in members.away:
        return True
    return any(
        each.archive.service == former
        and each.counts
        and each.source != "stale"
        and each.answer is not None
        and each.answer.state in {ItemState.COPY, ItemState.DELETED}
        for each in responses
    )


def _comes_too_early(
    query: UrlRequest, chosen: ArchiveResponse, responses: Sequence[ArchiveResponse], members: Members
) -> bool:
    """Whether an Archive that has a prefix of the item, and so takes precedence, is not yet heard, or is away."""
    forms = chosen.answer.forms if chosen.answer is not None else None
    # An answer that is believed names the item as the query does, in one of its forms.
    names = (query.ibi,) if forms is None else (forms.rep, forms.ibip)
    for name in names:
        homes = () if name is None else members.by_prefix.get(name.prefix.lower(), ())
        if homes and chosen.archive not in homes:
            heard = [each.archive.service for each in responses if each.counts]
            if any(home.service not in heard for home in homes):
                return True
    if not members.away:
        return False
    prefixes = {name.prefix.lower() for name in names if name is not None}
    prefixes.discard(chosen.archive.service_ibi.prefix.lower())
    return not prefixes.isdisjoint(
        [away.archive.service_ibi.prefix.lower() for away in members.away.values()]
    )


def _has_prefix(service: str, canonical: str) -> bool:
    """Whether the service of this IBI has the prefix of a name."""
    name = parse_name(canonical)
    return not isinstance(name, LegacyId) and name.prefix.lower() == parse_ibi(service).prefix.lower()


def _forms(name: Name) -> IBIForms | None:
    return None if isinstance(name, LegacyId) else IBIForms.of(name)
