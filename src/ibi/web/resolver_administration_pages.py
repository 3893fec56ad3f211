"""The pages of the administration of a resolver, as HTML in the reader's language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.resolver import administration
from ibi.resolver.adjusting import NUMBERS, WORDS
from ibi.resolver.status import STANDINGS
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
    (administration.AlertsPage, "admin_alerts.html"),
    (administration.LogPage, "admin_log.html"),
    (administration.PoliciesPage, "admin_policies.html"),
)
"""Which template writes which page."""

HEADINGS: Final = {
    "": "Overview",
    "applications": "Applications",
    "archives": "Archives",
    "alerts": "Alerts",
    "log": "Log",
    "policies": "Policies",
    "accounts": "Accounts",
    "account": "My account",
}
"""The pages that the menu leads to, and what it calls them."""

ROLES: Final = {"administrator": "Administrator: decides about who takes part"}
"""What an account is for, in words."""

MEANINGS: Final = {
    "policy": "How answers are judged",
    "registration": "Whether Archives may apply at /-/register",
    "connect_seconds": "Seconds that a connection to an Archive may take",
    "archive_seconds": "Seconds that the whole answer of an Archive may take",
    "overall_seconds": "Seconds that a resolution may take",
    "hedge_seconds": "Seconds that likely holders are waited for before everybody is asked",
    "grace_seconds": "Seconds that the known holder of an original is waited for when another one was faster",
    "stale_after_seconds": "Seconds after which an older answer of a silent Archive is used",
    "stale_seconds": "Seconds for which such an older answer may be used; 0: never",
    "negative_seconds": "Seconds for which it is remembered that nobody holds an item; 0: not at all",
    "request_rate": "Resolutions a second for which one reader may have Archives asked; 0: nobody is limited",
    "request_burst": "How many of them at once",
    "admin": "Mail address of whoever runs this resolver",
}
"""What can be changed while the resolver runs, in words."""

CHOICES: Final = {
    "hardened": "hardened: narrower readings, likely holders first",
    "strict": "strict: the letter of the standard",
    "closed": "closed: the administrator registers them",
    "form": "form: they may apply, and wait for an approval",
}
"""What can be chosen, in words."""

_FOR_ADMINISTRATORS: Final = frozenset({"applications", "archives", "policies", "accounts"})


def render(frame: Frame, language: str) -> bytes:
    """A page of the administration of a resolver as HTML in one of our languages."""
    role = frame.signed.role if frame.signed else None
    field = str(frame.problem.details.get("name", "")) if frame.problem else ""
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
        wrong=field if field in MEANINGS else "",
        may=lambda word: bool(role and role.may(Scope(word))),
        role_words=ROLES,
        standings=STANDINGS,
        meanings=MEANINGS,
        choices={name: {word: CHOICES[word] for word in words} for name, words in WORDS.items()},
        numbers=NUMBERS,
    )
