"""The administration of a resolver under `/-/admin`: who may take part, what was alarming, what was written down.

It does what `ibi resolver approve`, `refuse`, `rotate`, `allow-move`, `unregister`, `set` and `log show` do, and what
programs ask for under `/-/api/`, by the same rooms.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.adjusting import OVER_HTTP, adjust, said
from ibi.resolver.api.policies import SECRET
from ibi.resolver.api.records import wanted_of
from ibi.resolver.log_pages import page
from ibi.settings import ResolverSettings
from ibi.signing_in.visit import ROOT, ReadOnly
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from ibi.resolver.chain import Entry
    from ibi.resolver.registrar import Registrar
    from ibi.resolver.registry import RegisteredArchive
    from ibi.resolver.status import Member
    from ibi.resolver.suspects import Suspects, Suspicions
    from ibi.resolver.witness import Witness
    from ibi.signing_in.visit import Form, Visit

    Look = Callable[[], Sequence[Member]]
    """How the included Archives are, as far as this process knows."""

_LONGEST_WORD: Final = 40
_LONGEST_NUMBER: Final = 18
_NOT_OURS: Final = "this is not the form of this page; open the page again"


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """The beginning: who takes part, who waits, and the alerts of late of which somebody should know."""

    archives: int
    included: int
    waiting: int
    moving: int
    silent: int
    alerts: Sequence[Suspects]


@dataclass(frozen=True, slots=True)
class ApplicationsPage:
    """The Archives that want to be registered."""

    waiting: Sequence[RegisteredArchive]


@dataclass(frozen=True, slots=True)
class ArchivesPage:
    """The registered Archives, and how the included ones are, by name.

    `made`: the one that has a new `key`, which is shown this once; or, without a key, the one whose form was wrong.
    """

    archives: Sequence[RegisteredArchive]
    members: Mapping[str, Member]
    made: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class AlertsPage:
    """Alerts of two Originals of one item with their evidence; `at` leads to earlier ones, 0 at the end.

    `unread`: lines of the log that are not as they were written, where these were looked for.
    """

    alerts: Sequence[Suspects]
    at: int
    unread: int


@dataclass(frozen=True, slots=True)
class LogPage:
    """What was written down, the latest first; `what`, `ibi`: only such entries; `at` leads to earlier ones.

    `unread`: lines among them that are not as they were written.
    """

    entries: Sequence[Entry]
    what: str
    ibi: str
    at: int
    unread: int


@dataclass(frozen=True, slots=True)
class PoliciesPage:
    """The settings by which the resolver judges.

    `values`: what can be changed, as it was typed where it was changed on the page; `now`: as it is now. `theirs`:
    names of those that somebody else has changed too meanwhile.
    """

    values: Mapping[str, str]
    now: Mapping[str, str]
    others: Sequence[tuple[str, str]]
    theirs: Collection[str] = ()
    notes: Sequence[IbiError] = ()


class Overview(ReadOnly):
    """The beginning."""

    scope = Scope.READ

    def __init__(self, registrar: Registrar, suspicions: Suspicions, look: Look) -> None:
        self._registrar = registrar
        self._suspicions = suspicions
        self._look = look

    def show(self, _visit: Visit, _typed: Form | None) -> OverviewPage:
        """Counts, and the last alerts of two Originals."""
        archives = self._registrar.registered()
        return OverviewPage(
            archives=len(archives),
            included=sum(each.included is not None for each in archives),
            waiting=len(self._registrar.waiting()),
            moving=sum(each.move is not None for each in archives),
            silent=sum(member.standing == "silent" for member in self._look()),
            alerts=self._suspicions.found().alerts,
        )


class ApplicationsForm:
    """Who wants to be registered: approved or refused."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, registrar: Registrar) -> None:
        self._registrar = registrar

    def show(self, _visit: Visit, _typed: Form | None) -> ApplicationsPage:
        """Those who wait."""
        return ApplicationsPage(self._registrar.waiting())

    def do(self, visit: Visit, form: Form) -> str:
        """Approve or refuse one. Raises ParseError, SetupError."""
        service, by = parse_ibi(form.one("ibi")), _by(visit)
        if form.one("what") == "approve":
            self._registrar.approve(service, by)
            return f"{ROOT}/applications?done=approved"
        if form.one("what") == "refuse":
            self._registrar.refuse(service, by)
            return f"{ROOT}/applications?done=refused"
        raise IbiError(_NOT_OURS)


class ArchivesForm:
    """The registered Archives and how they are; one gets a new key, may move once, or is forgotten."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, registrar: Registrar, look: Look) -> None:
        self._registrar = registrar
        self._look = look

    def show(self, _visit: Visit, typed: Form | None) -> ArchivesPage:
        """All of them."""
        members = {member.service_ibi: member for member in self._look()}
        return ArchivesPage(self._registrar.registered(), members, typed.one("ibi") if typed else "")

    def do(self, visit: Visit, form: Form) -> ArchivesPage | str:
        """Decide about one. Raises ParseError, NotHeld, SetupError."""
        service, by, what = parse_ibi(form.one("ibi")), _by(visit), form.one("what")
        if what == "move":
            self._registrar.allow_move(service, by)
            return f"{ROOT}/archives?done=may-move"
        if what in {"key", "forget"} and form.one("sure") != "yes":
            raise IbiError("tick that you mean it")
        if what == "key":
            page = self.show(visit, None)  # before: a key that is made and cannot be shown is lost
            return replace(page, made=str(service), key=self._registrar.rotate(service, by))
        if what == "forget":
            self._registrar.unregister(service, by)
            return f"{ROOT}/archives?done=forgotten"
        raise IbiError(_NOT_OURS)


class AlertsScreen(ReadOnly):
    """Alerts of two Originals of one item."""

    scope = Scope.READ

    def __init__(self, suspicions: Suspicions) -> None:
        self._suspicions = suspicions

    def show(self, visit: Visit, _typed: Form | None) -> AlertsPage:
        """Some of them, each with what the log tells of it."""
        return AlertsPage(*self._suspicions.found(_number(visit, "before"), _number(visit, "at")))


class LogScreen(ReadOnly):
    """What was written down."""

    scope = Scope.READ

    def __init__(self, log: Path) -> None:
        self._log = log

    def show(self, visit: Visit, _typed: Form | None) -> LogPage:
        """One page of entries, all or of one kind or about one item or Archive. Raises ParseError."""
        what, ibi = visit.query.get("what", "")[:_LONGEST_WORD], visit.query.get("ibi", "").strip()
        found = page(self._log, wanted_of(what, ibi), _number(visit, "before"), at=_number(visit, "at"))
        return LogPage(found.entries, what, ibi, found.at, found.unread)


class PoliciesForm:
    """How the resolver judges; what is changed counts within a second, and stands in the evidence.

    The form tells of each field what it was made from (`was.` and its name), so that what somebody else has changed
    meanwhile is not undone.
    """

    scope = Scope.ADMIN
    files = False

    def __init__(self, data: Path, witness: Witness) -> None:
        self._data = data
        self._witness = witness

    def show(self, _visit: Visit, typed: Form | None) -> PoliciesPage:
        """The settings, without those that are secret."""
        settings = ResolverSettings.read(self._data)
        now = {name: said(getattr(settings, name)) for name in OVER_HTTP}
        mine, seen = _changed(typed)
        others = [
            (each.name, said(getattr(settings, each.name)) or "-")
            for each in fields(settings)
            if each.name not in {*SECRET, *OVER_HTTP}
        ]
        theirs = [name for name, text in mine.items() if now[name] not in {text, seen[name]}]
        return PoliciesPage(now | mine, now, others, theirs)

    def do(self, visit: Visit, form: Form) -> PoliciesPage | str:
        """Change what was changed in the form. Raises SetupError."""
        mine, seen = _changed(form)
        found = adjust(self._data, mine, OVER_HTTP, self._witness, _by(visit), seen)
        if found.notes:
            return replace(self.show(visit, None), notes=found.notes)
        return f"{ROOT}/policies?done={'set' if found.changed else 'unchanged'}"


def _changed(form: Form | None) -> tuple[dict[str, str], dict[str, str]]:
    """What was changed in the form of the settings, and what each field was made from. Raises IbiError."""
    if form is None:
        return {}, {}
    typed = {name: form.one(name) for name in OVER_HTTP if form.many(name)}
    seen = {name: form.one(f"was.{name}") for name in typed if form.many(f"was.{name}")}
    if seen.keys() != typed.keys():
        raise IbiError(_NOT_OURS)
    return {name: text for name, text in typed.items() if text != seen[name]}, seen


def _by(visit: Visit) -> str:
    return f"account {visit.signed.name}"


def _number(visit: Visit, word: str) -> int:
    text = visit.query.get(word, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER else 0
