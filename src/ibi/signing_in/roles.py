"""What people may do: each role stands for scopes, as tokens have them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ibi.tokens import Scope


class Role(StrEnum):
    """What an account is for."""

    DEPOSITOR = "depositor"
    """Brings in what is new."""
    KEEPER = "keeper"
    """Keeps what is there as well: corrects it, removes it, hands it over."""
    ADMINISTRATOR = "administrator"
    """Decides about the service itself too."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What a token would need to be good for the same."""
        return _SCOPES[self]

    def may(self, scope: Scope) -> bool:
        """Whether this role is good for what needs this scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


_SCOPES: Final = {
    Role.DEPOSITOR: (Scope.READ, Scope.DEPOSIT),
    Role.KEEPER: (Scope.READ, Scope.DEPOSIT, Scope.EDIT, Scope.DELETE, Scope.TRANSFER),
    Role.ADMINISTRATOR: (Scope.ADMIN,),
}
