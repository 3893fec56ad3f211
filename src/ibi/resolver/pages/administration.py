"""The administration of a resolver under `/-/admin`: overview, alerts, the log, settings.

First the pages as values, then their handlers, which call what `ibi resolver` and the JSON interface call.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from ibi.accounts.layout import ROOT, PageHandler
from ibi.accounts.tokens import Scope
from ibi.api.fields import given
from ibi.api.operation_pages import form_fields, query_fields
from ibi.errors import IbiError
from ibi.http.response import Refusal
from ibi.resolver.evidence.reading import MOST_ENTRIES, entry_filter, read_slice
from ibi.resolver.members.settings_changes import (
    CHANGEABLE_OVER_HTTP,
    change_settings,
    setting_text,
)
from ibi.resolver.operations.evidence import LogFields, PositionFields, SettleFields, settle
from ibi.resolver.operations.settings import SettingsFields
from ibi.resolver.pages.admin_archives import OTHER_FORM
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from ibi.accounts.layout import Form, PageRequest
    from ibi.protocol.messages import ArchiveTitles
    from ibi.resolver.evidence.chain import Entry
    from ibi.resolver.evidence.reading import AlertsSlice, OriginalsAlert
    from ibi.resolver.model.archive import RegisteredArchive
    from ibi.resolver.operations.context import ActingOnResolver
    from ibi.resolver.pages.admin_archives import MemberStatuses


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """Counts of Archives and applications, and the latest alerts of two Originals; `names` as in `AlertsPage`."""

    archives: int
    included: int
    waiting: int
    moving: int
    silent: int
    alerts: Sequence[OriginalsAlert]
    names: Mapping[str, ArchiveTitles]


@dataclass(frozen=True, slots=True)
class AlertsPage:
    """Alerts of two Originals; `names`: what readers call an Archive, by the IBI of its service, if that is known."""

    found: AlertsSlice
    names: Mapping[str, ArchiveTitles]


@dataclass(frozen=True, slots=True)
class LogPage:
    """Entries of the log, the latest first, filtered by `what` and `ibi`; `at` leads to earlier ones.

    `unread`: how many lines among them are not as they were written.
    """

    entries: Sequence[Entry]
    what: str
    ibi: str
    at: int
    unread: int


@dataclass(frozen=True, slots=True)
class PoliciesPage:
    """The settings of the resolver.

    `values`: the settings that can be changed, as they were typed if the form changed them; `now`: the same
    as they are now; `others`: all others. `theirs`: those that another administrator has changed, too.
    """

    values: Mapping[str, str]
    now: Mapping[str, str]
    others: Sequence[tuple[str, str]]
    theirs: Collection[str] = ()
    notes: Sequence[IbiError] = ()


@dataclass(frozen=True, slots=True)
class AdministrationPages:
    """The pages of one resolver. `_statuses`: of the included Archives; `_log`: the file of its evidence."""

    _acting: ActingOnResolver
    _statuses: MemberStatuses
    _log: Path

    def handlers(self) -> dict[str, PageHandler]:
        """The handler of each page, by the word in its address."""
        return {
            "": PageHandler(Scope.READ, self._show_overview),
            "alerts": PageHandler(Scope.READ, self._show_alerts, self._settle_alert),
            "log": PageHandler(Scope.READ, self._show_log),
            "policies": PageHandler(Scope.ADMIN, self._show_policies, self._change_policies),
        }

    def _show_overview(self, _visit: PageRequest, _typed: Form | None) -> OverviewPage:
        archives = self._acting.registrar.registered()
        return OverviewPage(
            archives=len(archives),
            included=sum(each.included is not None for each in archives),
            waiting=len(self._acting.registrar.waiting()),
            moving=sum(each.move is not None for each in archives),
            silent=sum(member.standing == "silent" for member in self._statuses()),
            alerts=[each for each in self._acting.alerts.read().alerts if each.settled is None],
            names=_names(archives),
        )

    def _show_alerts(self, visit: PageRequest, typed: Form | None) -> AlertsPage:
        """Alerts of two Originals, each with its evidence."""
        words = given(query_fields(PositionFields, visit)) if typed is None else {}
        found = self._acting.alerts.read(words.get("before", 0), words.get("at", 0))
        return AlertsPage(found, _names(self._acting.registrar.registered()))

    def _settle_alert(self, visit: PageRequest, form: Form) -> str:
        """Settle the alerts of an item. Raises NotHeld, ParseError, SetupError."""
        if not visit.signed.role.may(Scope.ADMIN):
            raise Refusal(403, IbiError("your account does not permit this; ask an administrator"))
        settle(self._acting.for_administrator(visit), form_fields(SettleFields, form))
        return f"{ROOT}/alerts?done=settled"

    def _show_log(self, visit: PageRequest, typed: Form | None) -> LogPage:
        """Entries: all, of one kind, or about one item or Archive. Raises BadField, ParseError."""
        if typed is not None:  # it has failed already
            return LogPage([], typed.one("what"), typed.one("ibi"), 0, 0)
        words = given(query_fields(LogFields, visit))
        what, ibi, most = words.get("what", ""), words.get("ibi", ""), words.get("limit", MOST_ENTRIES)
        entries = read_slice(
            self._log, entry_filter(what, ibi), words.get("before", 0), most, at=words.get("at", 0)
        )
        return LogPage(entries.entries, what, ibi, entries.at, entries.unread)

    def _show_policies(self, _visit: PageRequest, typed: Form | None) -> PoliciesPage:
        """The settings without secrets; with the typed values, if these could not be stored."""
        settings = ResolverSettings.read(self._acting.data)
        now = {name: setting_text(getattr(settings, name)) for name in CHANGEABLE_OVER_HTTP}
        changes, expected = _changes(typed)
        others = [
            (each.name, setting_text(getattr(settings, each.name)) or "-")
            for each in fields(settings)
            if each.name not in {*settings.SECRET, *CHANGEABLE_OVER_HTTP}
        ]
        theirs = [name for name, text in changes.items() if now[name] not in {text, expected[name]}]
        return PoliciesPage(now | changes, now, others, theirs)

    def _change_policies(self, visit: PageRequest, form: Form) -> PoliciesPage | str:
        """Change the settings that were changed in the form. Raises SetupError.

        The form sends for each field the value that it was made from (`was.` and its name), so that changes
        that another administrator has made meanwhile are not undone.
        """
        _, expected = _changes(form)
        wanted = given(form_fields(SettingsFields, form))
        by = self._acting.for_administrator(visit).who
        done = change_settings(
            self._acting.data, wanted, CHANGEABLE_OVER_HTTP, self._acting.evidence, by, expected
        )
        if done.notes:
            return replace(self._show_policies(visit, None), notes=done.notes)
        return f"{ROOT}/policies?done={'set' if done.changed else 'unchanged'}"


def _names(archives: Sequence[RegisteredArchive]) -> Mapping[str, ArchiveTitles]:
    return {each.service_ibi.canonical: each.titles for each in archives if any(each.titles)}


def _changes(form: Form | None) -> tuple[dict[str, str], dict[str, str]]:
    """Read the changed fields of the form of the settings, and what each was made from. Raises IbiError."""
    if form is None:
        return {}, {}
    typed = {name: form.one(name) for name in CHANGEABLE_OVER_HTTP if form.many(name)}
    expected = {name: form.one(f"was.{name}") for name in typed if form.many(f"was.{name}")}
    if expected.keys() != typed.keys():
        raise IbiError(OTHER_FORM)
    return {name: text for name, text in typed.items() if text != expected[name]}, expected
