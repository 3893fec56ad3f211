"""The Archives of a resolver in its administration: how they are, what can be done with each, and applications."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from ibi.accounts.layout import ROOT, PageHandler
from ibi.accounts.tokens import Scope
from ibi.api.operation_pages import form_fields
from ibi.api.operations import etag_of
from ibi.errors import ForbiddenAddress, IbiError, NotHeld
from ibi.http.client import HostPort
from ibi.identifier.repository import UniformRepositoryName
from ibi.resolver.cache.recent import put_newest
from ibi.resolver.model.archive import moment_text
from ibi.resolver.operations import registrations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.accounts.layout import Form, PageRequest
    from ibi.identifier.forms import IBI
    from ibi.resolver.members.status import MemberStatus
    from ibi.resolver.model.archive import RegisteredArchive
    from ibi.resolver.operations.context import ActingOnResolver

    MemberStatuses = Callable[[], Sequence[MemberStatus]]
    """Returns the status of the included Archives, as far as this process knows."""
    Confirm = Callable[[IBI, str], bool]
    """Asks an Archive at an address for confirmation. Raises ForbiddenAddress, TimeoutError."""

PAGE: Final = 20
"""Archives on one page of the list."""
MOST_CHECKED: Final = 256
"""Archives of which this process remembers that an administrator had them checked."""
OTHER_FORM: Final = "this is not the form of this page; open the page again"


CHECKS: Final = {
    "may-be-contacted": "Its address may be contacted",
    "not-contacted": "Its address may not be contacted: {problem}. Inside one network a private address is right:",
    "not-asked": "Not known yet whether it answers: it is asked once it may be contacted",
    "answered-then": "It answered at its address as this service when it applied, on {moment}",
    "answers": "It answers at its address as this service: asked on {moment}",
    "silent": "It did not answer as this service: asked on {moment}. It must be switched on and reachable there",
    "own-names": "Its names begin with its own host",
    "other-names": "Its names begin with another host, {host}: ask the applicant whether that host is theirs",
}
"""Check of an application -> what it has found."""


class ArchiveState(StrEnum):
    """How an Archive is; those in trouble first."""

    MOVING = "moving"
    """It wants to move, and no administrator has allowed it."""
    PAUSED = "paused"
    """It failed, and its circuit is open."""
    SILENT = "silent"
    """It gave no answer when it was asked last."""
    UNCONFIRMED = "unconfirmed"
    """It is included, but could not be reached."""
    OFF = "off"
    """It was included before, and is not now."""
    NEW = "new"
    """It is registered, and was never heard."""
    INCLUDED = "included"


_ORDER: Final = list(ArchiveState)


class ContactResult(NamedTuple):
    """What came of asking an Archive because an administrator wanted it. `problem`: it may not be contacted."""

    moment: str
    answered: bool
    problem: IbiError | None = None


class ListedArchive(NamedTuple):
    """An Archive in the list. `member`: its status while it is included; `checked`: the result of the last check."""

    archive: RegisteredArchive
    state: ArchiveState
    member: MemberStatus | None
    checked: ContactResult | None

    @property
    def name(self) -> str:
        """The IBI of its service."""
        return str(self.archive.service_ibi)

    @property
    def last_heard(self) -> str:
        """When it was heard last, "" if never."""
        if self.member is not None and self.member.heard is not None:
            return moment_text(self.member.heard)
        return self.archive.heard_at or ""

    @property
    def is_in_trouble(self) -> bool:
        """Whether a reason is shown beneath it."""
        return self.state in {
            ArchiveState.MOVING,
            ArchiveState.PAUSED,
            ArchiveState.SILENT,
            ArchiveState.UNCONFIRMED,
        }

    @property
    def queries(self) -> int:
        """Queries of readers in the last 24 hours, as far as this process sent them."""
        return sum(map(sum, self.member.hours)) if self.member else 0

    @property
    def unanswered(self) -> int:
        """How many of these had no answer."""
        return sum(failed for _, failed in self.member.hours) if self.member else 0


@dataclass(frozen=True, slots=True)
class ArchivesPage:
    """Some of the registered Archives; `counts`: of all, by state; `text`, `state`: what was looked for.

    `before` and `after`: the queries of the pages beside this one, "" for none.
    """

    archives: Sequence[ListedArchive]
    counts: Mapping[ArchiveState, int]
    text: str = ""
    state: str = ""
    before: str = ""
    after: str = ""
    found: int = 0


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """One Archive; `key`: its new one, shown only this once; `what`: the act whose form was wrong."""

    each: ListedArchive
    key: str = ""
    what: str = ""


class Check(NamedTuple):
    """One check of an application: whether it holds (None: it is not known), in words, and what would settle it.

    `what`: a word of CHECKS, whose sentence is filled from `facts`; `setting`: the one that allows it, which is
    changed by command only.
    """

    holds: bool | None
    what: str
    facts: Mapping[str, object]
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Application:
    """An Archive that has applied, with the version that its form is made from, and its checks."""

    archive: RegisteredArchive
    version: str
    checks: Sequence[Check]

    @property
    def passes(self) -> bool:
        """Whether all checks hold."""
        return all(each.holds for each in self.checks)


@dataclass(frozen=True, slots=True)
class ApplicationsPage:
    """The Archives that have applied; `refusing`: the one whose refusal was wrong, with the `reason` as typed."""

    waiting: Sequence[Application]
    refusing: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ArchivePages:
    """The pages of Archives and applications of one resolver.

    `_confirm` asks an Archive; `_check` raises ForbiddenAddress for an address at which no Archive can be;
    `_now` returns POSIX seconds.
    """

    _acting: ActingOnResolver
    _statuses: MemberStatuses
    _confirm: Confirm
    _check: Callable[[IBI, str], None]
    _now: Callable[[], float]
    _checked: dict[tuple[str, str], ContactResult] = field(default_factory=dict, init=False)

    def handlers(self) -> dict[str, PageHandler]:
        """Return the handler of each page, by the word in its path."""
        return {
            "applications": PageHandler(Scope.ADMIN, self._show_applications, self._judge),
            "archives": PageHandler(Scope.ADMIN, self._show_archives, self._decide),
        }

    def waiting(self) -> dict[str, int]:
        """Count what waits for a person, by the word of the page where it is. Raises SetupError."""
        registrar = self._acting.registrar
        moving = sum(each.move is not None and not each.move_allowed for each in registrar.registered())
        silent = sum(member.standing == "silent" for member in self._statuses())
        return {"applications": len(registrar.waiting()), "archives": moving + silent}

    def _show_archives(self, visit: PageRequest, typed: Form | None) -> ArchivesPage | ArchivePage:
        """Return the list, or one Archive: that of the path, or that of a form which was wrong."""
        every = self._listed()
        name = typed.one("ibi") if typed else visit.name.canonical if visit.rest else ""
        if name:
            return ArchivePage(_one(every, name), what=typed.one("what") if typed else "")
        text, state = visit.query.get("text", "").strip(), visit.query.get("state", "")
        found = [each for each in every if state in {"", each.state} and _has(each, text)]
        begin = visit.query.get("from", "")
        at = int(begin) if begin.isdecimal() and len(begin) < 7 else 0  # noqa: PLR2004 - no such list is longer

        def page(start: int) -> str:
            values = {"text": text, "state": state, "from": str(start) if start else ""}
            return "?" + urlencode({name: value for name, value in values.items() if value})

        counts = {state: sum(each.state == state for each in every) for state in ArchiveState}
        before = page(max(0, at - PAGE)) if at else ""
        after = page(at + PAGE) if at + PAGE < len(found) else ""
        return ArchivesPage(found[at : at + PAGE], counts, text, state, before, after, len(found))

    def _listed(self) -> list[ListedArchive]:
        """Return all registered Archives, those in trouble first. Raises SetupError."""
        members = {member.service_ibi: member for member in self._statuses()}
        found = []
        for archive in self._acting.registrar.registered():
            member = members.get(str(archive.service_ibi))
            checked = self._checked.get((archive.service_ibi.canonical, archive.address))
            found.append(ListedArchive(archive, _state(archive, member), member, checked))
        return sorted(found, key=lambda each: (_ORDER.index(each.state), each.name))

    def _decide(self, visit: PageRequest, form: Form) -> ArchivePage | str:
        """Do what the form says with one Archive. Raises ParseError, NotHeld, SetupError, IbiError."""
        fields = form_fields(registrations.ArchiveFields, form)
        context, what = self._acting.for_administrator(visit), form.one("what")
        here = f"{ROOT}/archives/{fields.ibi}"
        if what == "ask":
            known = registrations.known(context, fields)
            self._ask(known)
            return here
        if what not in {"move", "key", "forget"}:
            raise IbiError(OTHER_FORM)
        if what in {"key", "forget"}:
            # Neither can be undone: the old key is void at once, and a forgotten Archive is asked no more.
            form.check_confirmed()
        if what == "move":
            registrations.allow_move(context, fields)
            return f"{here}?done=may-move"
        if what == "forget":
            registrations.forget(context, fields)
            return f"{ROOT}/archives?done=forgotten"
        # The page first: a new key that then cannot be shown would be lost, and the old one is void.
        page = ArchivePage(_one(self._listed(), fields.ibi))
        return replace(page, key=registrations.rotate(context, fields)["key"])

    def _show_applications(self, _visit: PageRequest, typed: Form | None) -> ApplicationsPage:
        waiting = [
            Application(each, _version(each), self._checks(each)) for each in self._acting.registrar.waiting()
        ]
        if typed is None or typed.one("what") != "refuse":
            return ApplicationsPage(waiting)
        return ApplicationsPage(waiting, typed.one("ibi"), typed.one("reason"))

    def _judge(self, visit: PageRequest, form: Form) -> str:
        """Approve or refuse an application, or ask its Archive. Raises Conflict, NotHeld, ParseError, SetupError.

        The form sends the version that it was made from, so that administrators approve only what they saw:
        an Archive may have replaced its application by another one.
        """
        context = self._acting.for_administrator(visit)
        context.if_match = form.one("version")
        match form.one("what"):
            case "approve":
                registrations.approve(context, form_fields(registrations.ArchiveFields, form))
                return f"{ROOT}/applications?done=approved"
            case "refuse":
                registrations.refuse(context, form_fields(registrations.RefuseFields, form))
                return f"{ROOT}/applications?done=refused"
            case "ask":
                fields = form_fields(registrations.ArchiveFields, form)
                self._ask(registrations.known(context, fields))
                return f"{ROOT}/applications"
        raise IbiError(OTHER_FORM)

    def _ask(self, archive: RegisteredArchive) -> None:
        """Ask an Archive at its address for confirmation, and remember what came of it."""
        now = moment_text(self._now())
        try:
            self._check(archive.service_ibi, archive.address)
            checked = ContactResult(now, self._confirm(archive.service_ibi, archive.address))
        except ForbiddenAddress as problem:
            checked = ContactResult(now, answered=False, problem=problem)
        except TimeoutError:
            checked = ContactResult(now, answered=False)
        put_newest(self._checked, (archive.service_ibi.canonical, archive.address), checked, MOST_CHECKED)

    def _checks(self, archive: RegisteredArchive) -> list[Check]:
        """Check an application by what is known of it, without asking the Archive."""
        checked = self._checked.get((archive.service_ibi.canonical, archive.address))
        checks = [self._address_check(archive)]
        if not checks[0].holds:
            checks.append(Check(holds=None, what="not-asked", facts={}))
        elif checked is None:
            checks.append(Check(holds=True, what="answered-then", facts={"moment": archive.registered_at}))
        elif checked.answered:
            checks.append(Check(holds=True, what="answers", facts={"moment": checked.moment}))
        else:
            checks.append(Check(holds=False, what="silent", facts={"moment": checked.moment}))
        names = _names_check(archive)
        return [*checks, names] if names else checks

    def _address_check(self, archive: RegisteredArchive) -> Check:
        try:
            self._check(archive.service_ibi, archive.address)
        except ForbiddenAddress as problem:
            # A private address is right inside one network: then a setting allows it.
            return Check(
                holds=False,
                what="not-contacted",
                facts={"problem": problem},
                setting="allow_private_archives",
            )
        return Check(holds=True, what="may-be-contacted", facts={})


def _names_check(archive: RegisteredArchive) -> Check | None:
    """Compare the host in the name of the service with the address; None for a name without a host."""
    name = archive.service_ibi
    if not isinstance(name, UniformRepositoryName):
        return None
    try:
        own = HostPort.parse(archive.address).host == name.host
    except ForbiddenAddress:
        own = False
    return (
        Check(holds=True, what="own-names", facts={})
        if own
        else Check(holds=None, what="other-names", facts={"host": name.host})
    )


def _state(archive: RegisteredArchive, member: MemberStatus | None) -> ArchiveState:
    if archive.move is not None and not archive.move_allowed:
        return ArchiveState.MOVING
    if archive.included is None:
        return ArchiveState.OFF if archive.heard_at else ArchiveState.NEW
    if member is not None and member.is_suspended:
        return ArchiveState.PAUSED
    if member is not None and member.standing == "silent":
        return ArchiveState.SILENT
    return ArchiveState.INCLUDED if archive.included.confirmed else ArchiveState.UNCONFIRMED


def _has(each: ListedArchive, text: str) -> bool:
    """Whether an Archive has this text in its name, its address or its administrator's name, in any case."""
    words = (each.name, each.archive.address, each.archive.contact_name, each.archive.contact)
    return text.lower() in " ".join(words).lower()


def _one(every: Sequence[ListedArchive], name: str) -> ListedArchive:
    """Return the Archive of this name. Raises NotHeld."""
    found = next((each for each in every if each.name.lower() == name.lower()), None)
    if found is None:
        raise NotHeld("{ibi} is not registered here", ibi=name)
    return found


def _version(archive: RegisteredArchive) -> str:
    return etag_of(registrations.registration_facts(archive))
