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
from ibi.resolver.suspects import suspects
from ibi.settings import ResolverSettings
from ibi.signing_in.visit import ROOT, ReadOnly
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ibi.resolver.chain import Entry
    from ibi.resolver.registrar import Registrar
    from ibi.resolver.registry import RegisteredArchive
    from ibi.resolver.status import Member
    from ibi.resolver.suspects import Suspects
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
    """Alerts of two Originals of one item with their evidence; `before` leads to earlier ones, 0 at the end."""

    alerts: Sequence[Suspects]
    before: int


@dataclass(frozen=True, slots=True)
class LogPage:
    """What was written down, the latest first; `what`, `ibi`: only such entries; `before` leads to earlier ones."""

    entries: Sequence[Entry]
    what: str
    ibi: str
    before: int


@dataclass(frozen=True, slots=True)
class PoliciesPage:
    """The settings by which the resolver judges, as its file says them now; what can be changed, as it was typed."""

    values: Mapping[str, str]
    others: Sequence[tuple[str, str]]
    notes: Sequence[IbiError] = ()


class Overview(ReadOnly):
    """The beginning."""

    scope = Scope.READ

    def __init__(self, registrar: Registrar, log: Path, look: Look) -> None:
        self._registrar = registrar
        self._log = log
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
            alerts=suspects(self._log)[0],
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
            key = self._registrar.rotate(service, by)
            return replace(self.show(visit, None), made=str(service), key=key)
        if what == "forget":
            self._registrar.unregister(service, by)
            return f"{ROOT}/archives?done=forgotten"
        raise IbiError(_NOT_OURS)


class AlertsScreen(ReadOnly):
    """Alerts of two Originals of one item."""

    scope = Scope.READ

    def __init__(self, log: Path) -> None:
        self._log = log

    def show(self, visit: Visit, _typed: Form | None) -> AlertsPage:
        """Some of them, each with what the log tells of it."""
        return AlertsPage(*suspects(self._log, _before(visit)))


class LogScreen(ReadOnly):
    """What was written down."""

    scope = Scope.READ

    def __init__(self, log: Path) -> None:
        self._log = log

    def show(self, visit: Visit, _typed: Form | None) -> LogPage:
        """One page of entries, all or of one kind or about one item or Archive. Raises ParseError."""
        what, ibi = visit.query.get("what", "")[:_LONGEST_WORD], visit.query.get("ibi", "").strip()
        found = page(self._log, wanted_of(what, ibi), _before(visit))
        return LogPage(found.entries, what, ibi, found.before)


class PoliciesForm:
    """How the resolver judges; what is changed counts within a second, and stands in the evidence."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, data: Path, witness: Witness) -> None:
        self._data = data
        self._witness = witness

    def show(self, _visit: Visit, typed: Form | None) -> PoliciesPage:
        """The settings, without those that are secret."""
        settings = ResolverSettings.read(self._data)
        values = {name: said(getattr(settings, name)) for name in OVER_HTTP}
        others = [
            (each.name, said(getattr(settings, each.name)) or "-")
            for each in fields(settings)
            if each.name not in {*SECRET, *OVER_HTTP}
        ]
        return PoliciesPage(values | _typed(typed), others)

    def do(self, visit: Visit, form: Form) -> PoliciesPage | str:
        """Change what differs. Raises SetupError."""
        settings = ResolverSettings.read(self._data)
        changes = {name: text for name, text in _typed(form).items() if text != said(getattr(settings, name))}
        found = adjust(self._data, changes, OVER_HTTP, self._witness, _by(visit))
        if found.notes:
            return replace(self.show(visit, None), notes=found.notes)
        return f"{ROOT}/policies?done={'set' if found.changed else 'unchanged'}"


def _typed(form: Form | None) -> dict[str, str]:
    return {name: form.one(name) for name in OVER_HTTP if form.many(name)} if form else {}


def _by(visit: Visit) -> str:
    return f"account {visit.signed.name}"


def _before(visit: Visit) -> int:
    text = visit.query.get("before", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER else 0
