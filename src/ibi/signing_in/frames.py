"""What stands around every page of an administration, and the pages that every administration has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.errors import IbiError
    from ibi.signing_in.accounts import Account
    from ibi.signing_in.door import Signed
    from ibi.signing_in.roles import Role


@dataclass(frozen=True, slots=True)
class SignInPage:
    """The way in. `next`: where it leads; `kept`: what was typed into a form when the session had ended already."""

    next: str = ""
    name: str = ""
    kept: tuple[tuple[str, str], ...] = ()
    possible: bool = True
    """Whether a password may be typed here: it would not travel in the open."""


@dataclass(frozen=True, slots=True)
class NoticePage:
    """Nothing else is to be seen."""


@dataclass(frozen=True, slots=True)
class AccountPage:
    """One's own account: its password, and its sessions."""


@dataclass(frozen=True, slots=True)
class AccountsPage:
    """The accounts of people; `made`: the name and the password of a new one, shown this once; what was typed."""

    accounts: Sequence[Account]
    roles: Sequence[Role]
    made: tuple[str, str] = ("", "")
    name: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A page and what stands around it: who is signed in, what went wrong, what was done, and where this is.

    `here`: the word of the page in its address; `nonce`: what the policy knows the script of the page by.
    """

    page: Any
    status: int = 200
    signed: Signed | None = None
    problem: IbiError | None = None
    done: str = ""
    here: str = ""
    nonce: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class FrameRenderer:
    """How frames become pages for eyes; given from above."""

    render: Callable[[Frame, str], bytes]
    """(frame, language) -> HTML."""
    language: Callable[[str], str]
    """The header Accept-Language -> one of the languages that the house writes."""
