"""The pages of the administration of a resolver, as HTML in the reader's language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.resolver import administration
from ibi.signing_in import frames
from ibi.tokens import Scope
from ibi.web.administration_pages import framed

if TYPE_CHECKING:
    from ibi.signing_in.frames import Frame

TEMPLATES: Final = (
    (frames.SignInPage, "sign_in.html"),
    (frames.NoticePage, "admin_notice.html"),
    (frames.AccountsPage, "admin_accounts.html"),
    (frames.AccountPage, "admin_account.html"),
    (administration.OverviewPage, "admin_resolver.html"),
    (administration.ApplicationsPage, "admin_applications.html"),
    (administration.ArchivesPage, "admin_archives.html"),
    (administration.LogPage, "admin_log.html"),
    (administration.PoliciesPage, "admin_policies.html"),
)
"""Which template writes which page."""

HEADINGS: Final = {
    "": "Overview",
    "applications": "Applications",
    "archives": "Archives",
    "log": "Log",
    "policies": "Policies",
    "accounts": "Accounts",
    "account": "My account",
}
"""The pages that the menu leads to, and what it calls them."""

ROLES: Final = {"administrator": "Administrator: decides about who takes part"}
"""What an account is for, in words."""

_FOR_ADMINISTRATORS: Final = frozenset({"applications", "archives", "accounts"})


def render(frame: Frame, language: str) -> bytes:
    """A page of the administration of a resolver as HTML in one of our languages."""
    role = frame.signed.role if frame.signed else None
    return framed(
        dict(TEMPLATES)[type(frame.page)],
        frame,
        language,
        program="ibi resolver",
        menu=[
            (word, name)
            for word, name in HEADINGS.items()
            if role and role.may(Scope.ADMIN if word in _FOR_ADMINISTRATORS else Scope.READ)
        ],
        wrong="",
        may=lambda word: bool(role and role.may(Scope(word))),
        role_words=ROLES,
    )
