"""The administration of a resolver under `/-/admin`: who may take part, what was alarming, what was written down.

It does what `ibi resolver approve`, `refuse`, `allow-move`, `archives` and `log show` do, by the same rooms.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.chain import Entry, read_line
from ibi.settings import ResolverSettings
from ibi.signing_in.visit import ROOT, ReadOnly
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ibi.resolver.mail import Mail
    from ibi.resolver.registry import RegisteredArchive, Registry
    from ibi.resolver.witness import Witness
    from ibi.signing_in.visit import Form, Visit

MOST_ENTRIES: Final = 200
"""Entries of the log that are shown."""
LAST_BYTES: Final = 1 << 20
"""Bytes of the end of the log that are read for that."""

_SUSPECT: Final = "suspect-originals"
_SECRET: Final = frozenset({"mirror_key"})


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """The beginning: who takes part, who waits, and the alerts of late of which somebody should know."""

    archives: int
    included: int
    waiting: int
    moving: int
    alerts: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class ApplicationsPage:
    """The Archives that want to be registered."""

    waiting: Sequence[RegisteredArchive]


@dataclass(frozen=True, slots=True)
class ArchivesPage:
    """The registered Archives, and how they are."""

    archives: Sequence[RegisteredArchive]


@dataclass(frozen=True, slots=True)
class LogPage:
    """What was written down last, the latest first; `what`: only such entries."""

    entries: Sequence[Entry]
    what: str


@dataclass(frozen=True, slots=True)
class PoliciesPage:
    """The settings by which the resolver judges, as its file says them now."""

    settings: Sequence[tuple[str, str]]


class Overview(ReadOnly):
    """The beginning."""

    scope = Scope.READ

    def __init__(self, registry: Registry, log: Path) -> None:
        self._registry = registry
        self._log = log

    def show(self, _visit: Visit, _typed: Form | None) -> OverviewPage:
        """Counts, and the last alerts of two Originals with their evidence."""
        known = self._registry.registered()
        archives = [each for each in known if not each.applied]
        return OverviewPage(
            archives=len(archives),
            included=sum(each.included is not None for each in archives),
            waiting=sum(each.applied for each in known),
            moving=sum(each.move is not None for each in archives),
            alerts=latest(self._log, lambda entry: entry.facts.get("kind") == _SUSPECT),
        )


class ApplicationsForm:
    """Who wants to be registered: approved or refused."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, registry: Registry, witness: Witness, mail: Mail) -> None:
        self._registry = registry
        self._witness = witness
        self._mail = mail

    def show(self, _visit: Visit, _typed: Form | None) -> ApplicationsPage:
        """Those who wait."""
        return ApplicationsPage([each for each in self._registry.registered() if each.applied])

    def do(self, visit: Visit, form: Form) -> str:
        """Approve or refuse one. Raises ParseError, SetupError."""
        service, by = parse_ibi(form.one("ibi")), f"account {visit.signed.name}"
        known = self._registry.entry(service)
        if form.one("what") == "approve":
            self._registry.approve(service)
            self._witness.write("approved", ibi=str(service), by=by)
            self._mail.registered(service, known.contact if known else "")
            return f"{ROOT}/applications?done=approved"
        if form.one("what") == "refuse":
            self._registry.refuse(service)
            self._witness.write("unregistered", ibi=str(service), by=by)
            return f"{ROOT}/applications?done=refused"
        raise IbiError("this is not the form of this page; open the page again")


class ArchivesForm:
    """The registered Archives; one that has moved and cannot prove it may be let go."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def show(self, _visit: Visit, _typed: Form | None) -> ArchivesPage:
        """All of them."""
        return ArchivesPage([each for each in self._registry.registered() if not each.applied])

    def do(self, _visit: Visit, form: Form) -> str:
        """Let one move once. Raises ParseError, SetupError."""
        self._registry.allow_move(parse_ibi(form.one("ibi")))
        return f"{ROOT}/archives?done=may-move"


class LogScreen(ReadOnly):
    """What was written down."""

    scope = Scope.READ

    def __init__(self, log: Path) -> None:
        self._log = log

    def show(self, visit: Visit, _typed: Form | None) -> LogPage:
        """The last entries, all or of one kind."""
        what = visit.query.get("what", "")[:40]
        return LogPage(latest(self._log, lambda entry: what in {"", entry.what}), what)


class PoliciesScreen(ReadOnly):
    """How the resolver judges."""

    scope = Scope.READ

    def __init__(self, data: Path) -> None:
        self._data = data

    def show(self, _visit: Visit, _typed: Form | None) -> PoliciesPage:
        """The settings, without those that are secret."""
        settings = ResolverSettings.read(self._data)
        return PoliciesPage(
            [
                (each.name, _said(getattr(settings, each.name)))
                for each in fields(settings)
                if each.name not in _SECRET
            ]
        )


def latest(log: Path, wanted: Callable[[Entry], bool]) -> list[Entry]:
    """The last entries of the evidence that are wanted, the latest first; read from its end, and only so far."""
    found: deque[Entry] = deque(maxlen=MOST_ENTRIES)
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LAST_BYTES))
            if size > LAST_BYTES:
                file.readline()
            found.extend(entry for line in file if (entry := read_line(line)) is not None and wanted(entry))
    except FileNotFoundError:
        return []
    return list(reversed(found))


def _said(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    return str(value) if value not in {"", None} else "-"
