"""Accounts in the administration: one's own, and for administrators those of all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ibi.errors import IbiError
from ibi.signing_in.frames import AccountPage, AccountsPage
from ibi.signing_in.visit import ROOT
from ibi.tokens import Scope

if TYPE_CHECKING:
    from ibi.signing_in.door import Door
    from ibi.signing_in.people import People
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
    """The accounts of people."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, people: People) -> None:
        self._people = people

    def show(self, _visit: Visit, typed: Form | None) -> AccountsPage:
        """Those that there are."""
        name, role = (typed.one("name"), typed.one("role")) if typed else ("", "")
        return AccountsPage(self._people.all(), self._people.roles, name=name, role=role)

    def do(self, visit: Visit, form: Form) -> AccountsPage | str:
        """Make, change or remove one; a new password is shown now and never again."""
        what, name = form.one("what"), form.one("name")
        mine = name.lower() == visit.signed.name.lower()
        if what == "remove":
            if mine:
                raise IbiError("you cannot remove the account that you are signed in with")
            self._people.remove(name)
            return f"{ROOT}/accounts?done=removed-account"
        if what == "role":
            if mine:
                raise IbiError("you cannot change what the account is for that you are signed in with")
            self._people.set_role(name, form.one("role"))
            return f"{ROOT}/accounts?done=role"
        anew = what == "password"
        account, password = (
            self._people.set_password(name) if anew else self._people.add(name, form.one("role"))
        )
        return replace(self.show(visit, None), made=(account.name, password))
