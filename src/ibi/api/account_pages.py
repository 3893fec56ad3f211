"""The pages of accounts: a user's own, and all accounts of a service, by the operations of `accounts`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ibi.accounts.layout import ROOT, AccountPage, AccountsPage, PageHandler
from ibi.accounts.tokens import Scope
from ibi.api import accounts
from ibi.api.operation_pages import form_fields
from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.accounts.layout import Form, PageRequest
    from ibi.accounts.people import AccountManager
    from ibi.accounts.sign_in import Authentication
    from ibi.api.accounts import AccountContext


class AccountPages:
    """The pages of a user's own account and of all accounts. `context_of` makes the context of operations."""

    def __init__(
        self,
        authentication: Authentication,
        people: AccountManager,
        context_of: Callable[[PageRequest], AccountContext],
    ) -> None:
        self._authentication = authentication
        self._people = people
        self._context_of = context_of

    def handlers(self) -> dict[str, PageHandler]:
        """Return the handler of each page, by the word in its path."""
        return {
            "accounts": PageHandler(Scope.ADMIN, self._accounts, self._change_accounts),
            "account": PageHandler(Scope.READ, lambda _request, _typed: AccountPage(), self._set_password),
        }

    def _set_password(self, page_request: PageRequest, form: Form) -> str:
        """Set another password; all sessions of the account end, also this one. Raises Refusal, IbiError."""
        now, new = (next(iter(form.many(name)), "") for name in ("password", "new_password"))
        if form.many("again_password") != [new]:
            raise IbiError("the two passwords differ; nothing was changed")
        self._authentication.check_password(page_request.signed, now)
        self._authentication.accounts.set_password(page_request.signed.name, new)
        self._authentication.sessions.end_all(page_request.signed.name)
        return f"{ROOT}/sign-in?done=password"

    def _accounts(self, _page_request: PageRequest, typed: Form | None) -> AccountsPage:
        shown = AccountsPage(self._people.all(), self._people.roles)
        if typed is None:
            return shown
        what, name = typed.one("what"), typed.one("name")
        if what != "add":
            return replace(shown, unconfirmed=(what, name))
        return replace(shown, name=name, role=typed.one("role"))

    def _change_accounts(self, page_request: PageRequest, form: Form) -> AccountsPage | str:
        """Make, change or remove an account; a new password is shown only once."""
        what, context = form.one("what"), self._context_of(page_request)
        mine = form.one("name").lower() == page_request.signed.name.lower()
        if what == "remove":
            if mine:
                raise IbiError("you cannot remove the account that you are signed in with")
            form.check_confirmed()
            accounts.remove_account(context, form_fields(accounts.AccountName, form))
            return f"{ROOT}/accounts?done=removed-account"
        if what == "role":
            if mine:
                raise IbiError("you cannot change the role of the account that you are signed in with")
            accounts.set_role(context, form_fields(accounts.RoleFields, form))
            return f"{ROOT}/accounts?done=role"
        if what == "password":
            form.check_confirmed()
            made = accounts.set_password(context, form_fields(accounts.AccountName, form))
        else:
            made = accounts.add_account(context, form_fields(accounts.RoleFields, form))
        return replace(self._accounts(page_request, None), made=(made["name"], made["password"]))
