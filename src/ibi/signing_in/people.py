"""Who may sign in, as administrators decide: on pages, at a terminal, and by programs with a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ibi.errors import NotHeld, ParseError
from ibi.signing_in.passwords import new_password
from ibi.signing_in.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.signing_in.accounts import Account, Accounts


class People:
    """The accounts of one service, in these roles. `moment` gives the time as RFC 3339.

    `ended` is told the name of an account whose sessions are over; they are also where nobody is told.
    """

    def __init__(
        self,
        accounts: Accounts,
        roles: Sequence[Role],
        moment: Callable[[], str],
        ended: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.roles = roles
        self._accounts = accounts
        self._moment = moment
        self._ended = ended

    def all(self) -> Sequence[Account]:
        """Every account, in the order in which they were made."""
        return self._accounts.all()

    def add(self, name: str, role: str, password: str = "") -> tuple[Account, str]:
        """Make an account, and a password for it unless one is given. Raises IbiError."""
        chosen = password or new_password()
        return self._accounts.add(name, self._role(role), chosen, self._moment()), chosen

    def set_role(self, name: str, role: str) -> Account:
        """Let an account be for something else. Raises NotHeld, IbiError."""
        chosen = self._role(role)
        self._check(name)
        return self._accounts.set_role(name, chosen)

    def set_password(self, name: str, password: str = "") -> tuple[Account, str]:
        """Give an account another password, made unless one is given; its sessions end. Raises NotHeld, IbiError."""
        self._check(name)
        chosen = password or new_password()
        account = self._accounts.set_password(name, chosen)
        self._ended(account.name)
        return account, chosen

    def remove(self, name: str) -> None:
        """Forget an account; its sessions end. Raises NotHeld."""
        self._check(name)
        self._accounts.remove(name)
        self._ended(name)

    def _check(self, name: str) -> None:
        if self._accounts.find(name) is None:
            raise NotHeld("there is no account of the name {name}", name=name)

    def _role(self, role: str) -> Role:
        if role not in set(self.roles):
            raise ParseError("role", role, "choose what the account is for")
        return Role(role)


def facts(account: Account) -> dict[str, Any]:
    """An account as it is told to programs: nothing of its password."""
    return {"name": account.name, "role": account.role.value, "made": account.made}
