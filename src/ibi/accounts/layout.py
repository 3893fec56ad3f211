"""The pages of an administration as values, the layout around them, and the request that a page handler gets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import BadField, IbiError, ParseError
from ibi.http.response import Refusal
from ibi.identifier.forms import parse_name
from ibi.protocol.query_string import read_query, unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.accounts.people import Account, Role
    from ibi.accounts.sign_in import Client, SignedInUser
    from ibi.accounts.tokens import Scope
    from ibi.http.request import Request
    from ibi.identifier.forms import Name


ROOT: Final = "/-/admin"
"""The path of an administration."""

SURE: Final = "sure"
"""The field of a form by which what cannot be undone is confirmed."""


CONFIRMED: Final = "confirmed"
"""The field of a form by which a page of confirmation says what it has named, as `confirmation` writes it."""


def confirmation(*named: str) -> str:
    """Return a short digest of what a page of confirmation names, in this order."""
    return sha256(json.dumps(named).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, in the order of the page, and its files, if the service accepts files.

    `kept`: what a page needs to show the files again, after an error or before the last step. `problem`: why the
    files could not be stored; then nothing is done with the form, and the page shows the problem and the fields.
    """

    fields: Sequence[tuple[str, str]] = ()
    files: Any = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    problem: Exception | None = None

    def one(self, name: str) -> str:
        """Return the first value of a field, without blanks around it; "" if there is none."""
        return next((value.strip() for each, value in self.fields if each == name), "")

    def many(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for each, value in self.fields if each == name]

    def check_stored(self) -> None:
        """Check that the files could be stored. Raises the problem."""
        if self.problem is not None:
            raise self.problem

    def check_confirmed(self, *named: str) -> None:
        """Check that the box was ticked that names what cannot be undone, or what readers notice. Raises BadField.

        `named`: what the act is done with, if a page of its own has named it: the confirmation was given for exactly
        this, and for nothing that has come into the form, or gone out of it, since.
        """
        if named and self.one(CONFIRMED) != confirmation(*named):
            raise BadField(
                "this is not what was confirmed: read once more what it is done with, and confirm", name=SURE
            )
        if self.one(SURE) != "yes":
            raise BadField("tick the box to confirm", name=SURE)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of a user who is signed in. `rest`: the path after the word of the page, not decoded."""

    request: Request
    signed: SignedInUser
    client: Client
    rest: str = ""

    @property
    def name(self) -> Name:
        """The identifier in the path. Raises ParseError."""
        return parse_name(unescape(self.rest))

    @property
    def query(self) -> Mapping[str, str]:
        """The words of the query, decoded; {} for a malformed query."""
        return query_of(self.request)


def query_of(request: Request) -> Mapping[str, str]:
    """Return the words of a query, decoded; {} for a malformed query."""
    try:
        pairs = list(read_query(request.query)) if request.query else []
        return {name: value.encode("latin-1").decode() for name, value in pairs}
    except (ParseError, UnicodeError):
        return {}


def no_such_page() -> Refusal:
    """Return the refusal for an address without a page."""
    return Refusal(404, IbiError("there is no such page here"))


def _no_form(_page_request: PageRequest, _form: Form) -> Any:
    raise no_such_page()


@dataclass(frozen=True, slots=True)
class PageHandler:
    """One page of an administration, and what its form does. `scope`: the scope that a role needs for it.

    `show` returns the page as a value (after a failed form, with the typed values), or a response, such as a
    file to save. `do` acts on a form, and returns the next address, a page, or a response. Both run in
    threads, because they may wait for the disk, unless `do` is a coroutine. Their errors are shown on the
    page, beside the typed values. `files`: whether the form may have files; `small_files`: whether it may have
    small ones, which are kept in memory as bytes.
    """

    scope: Scope
    show: Callable[[PageRequest, Form | None], Any]
    do: Callable[[PageRequest, Form], Any] = _no_form
    files: bool = False
    small_files: bool = False


@dataclass(frozen=True, slots=True)
class SignInPage:
    """The form to sign in. `next`: where it leads; `kept`: the fields of a form whose session had ended."""

    next: str = ""
    name: str = ""
    kept: tuple[tuple[str, str], ...] = ()
    possible: bool = True
    """Whether a password may be typed here: only over https, or on this machine."""


class NoticePage:
    """A page that has only its layout, which shows a problem or a notice."""


class AccountPage:
    """The user's own account: its password and its sessions."""


@dataclass(frozen=True, slots=True)
class AccountsPage:
    """The accounts of people; `made`: name and password of a new one, shown once; the rest as typed.

    `unconfirmed`: the act that was not confirmed, and the name of the account, ("", "") if none.
    """

    accounts: Sequence[Account]
    roles: Sequence[Role]
    made: tuple[str, str] = ("", "")
    name: str = ""
    role: str = ""
    unconfirmed: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Layout:
    """A page and what is shown around it: the user, a problem, what was done, and the service.

    `here`: the word of the page in its path; `nonce`: the value by which the policy allows the page's script.
    `kept_query`: the words of its query without the language, for the links to other languages; `lang`: the
    "?lang=…" of a language that was chosen, "" if none was.
    `scopes`: the scope that a role needs for each page of the administration, by its word.
    `waiting`: how many things wait for a person on other pages, by the words of these. `retry_after`: seconds after
    which trying again makes sense, None if that is not known; `reads`: whether the request changes nothing.
    """

    page: Any = NoticePage()  # noqa: RUF009 - it has no state
    status: int = 200
    signed: SignedInUser | None = None
    problem: IbiError | None = None
    done: str = ""
    here: str = ""
    nonce: str = ""
    address: str = ""
    kept_query: str = ""
    lang: str = ""
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    retry_after: int | None = None
    reads: bool = True
