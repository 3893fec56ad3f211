"""Accounts in the administration: one's own, and for administrators those of all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ibi.errors import IbiError
from ibi.signing_in.frames import AccountPage, AccountsPage
from ibi.signing_in.passwords import new_password
from ibi.signing_in.roles import Role
from ibi.signing_in.visit import ROOT
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.signing_in.door import Door
    from ibi.signing_in.visit import Form, Visit


class AccountForm:
    """One's own account."""

    scope = Scope.READ
    files = False

    def __init__(self, door: Door) -> None:
        self._door = door

    def show(self, _visit: Visit, _typed: Form | None) -> AccountPage:
        """The form."""
        return AccountPage()

    def do(self, visit: Visit, form: Form) -> str:
        """Another password; every session of the account ends, this one too. Raises Denied, IbiError."""
        now, new = (next(iter(form.many(name)), "") for name in ("password", "new_password"))
        if form.many("again_password") != [new]:
            raise IbiError("the two passwords differ; nothing was changed")
        self._door.check_password(visit.signed, visit.caller, now)
        self._door.accounts.set_password(visit.signed.name, new)
        self._door.sessions.end_all(visit.signed.name)
        return f"{ROOT}/sign-in?done=password"


class AccountsForm:
    """The accounts of people, in these roles. `moment` gives the time as RFC 3339."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, door: Door, moment: Callable[[], str], roles: Sequence[Role]) -> None:
        self._door = door
        self._moment = moment
        self._roles = roles

    def show(self, _visit: Visit, typed: Form | None) -> AccountsPage:
        """Those that there are."""
        name, role = (typed.one("name"), typed.one("role")) if typed else ("", "")
        return AccountsPage(self._door.accounts.all(), self._roles, name=name, role=role)

    def do(self, visit: Visit, form: Form) -> AccountsPage | str:
        """Make one, or give one a new password, which is shown now and never again; or remove one."""
        accounts, what, name = self._door.accounts, form.one("what"), form.one("name")
        if what == "remove":
            if name.lower() == visit.signed.name.lower():
                raise IbiError("you cannot remove the account that you are signed in with")
            accounts.remove(name)
            self._door.sessions.end_all(name)
            return f"{ROOT}/accounts?done=removed-account"
        password = new_password()
        if what == "password":
            accounts.set_password(name, password)
        elif form.one("role") in set(self._roles):
            accounts.add(name, Role(form.one("role")), password, self._moment())
        else:
            raise IbiError("choose what the account is for")
        return replace(self.show(visit, None), made=(name, password))
