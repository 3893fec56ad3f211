"""Write the pages of the administration of an Archive as HTML in the reader's language."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts import layout
from ibi.accounts.forms import packed
from ibi.accounts.tokens import Scope
from ibi.api import institution_pages, operation_pages
from ibi.archive.admin import bulk, item_lists, item_pages, other_pages
from ibi.archive.model.item import Access
from ibi.archive.model.item_fields import EDITED
from ibi.archive.preservation.status import STANDINGS
from ibi.errors import IbiError, with_text
from ibi.runtime import i18n
from ibi.web.administration import deposit_form, deposit_review
from ibi.web.administration.identity_preview import identity_words
from ibi.web.administration.operation_words import FAULTS, MOMENTS, VALUES, columns, fact_words
from ibi.web.archive_pages import ELEMENT_NAMES
from ibi.web.formats.record import kind_of
from ibi.web.item_values import short_title, shortened
from ibi.web.listed_items import kind_name
from ibi.web.rendering import capital, dates_in, html

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.accounts.layout import Layout
    from ibi.archive.model.item import Holding
    from ibi.web.branding import Branding

TEMPLATES: Final = (
    (layout.SignInPage, "sign_in.html"),
    (layout.NoticePage, "admin_notice.html"),
    (other_pages.OverviewPage, "admin_overview.html"),
    (item_lists.ItemsPage, "admin_items.html"),
    (bulk.BulkPage, "admin_bulk.html"),
    (item_pages.ItemPage, "admin_item.html"),
    (item_pages.ItemFormPage, "admin_form.html"),
    (item_pages.ReviewPage, "admin_review.html"),
    (item_pages.FilesPage, "admin_files.html"),
    (item_pages.DeletePage, "admin_delete.html"),
    (other_pages.CopyPage, "admin_copy.html"),
    (other_pages.TransferPage, "admin_transfer.html"),
    (other_pages.ImportPage, "admin_import.html"),
    (other_pages.MembershipPage, "admin_membership.html"),
    (other_pages.StatisticsPage, "admin_statistics.html"),
    (other_pages.AuditPage, "admin_audit.html"),
    (other_pages.TokensPage, "admin_tokens.html"),
    (institution_pages.IdentityPage, "admin_identity.html"),
    (layout.AccountsPage, "admin_accounts.html"),
    (layout.AccountPage, "admin_account.html"),
    (operation_pages.OperationsPage, "admin_operations.html"),
    (operation_pages.OperationPage, "admin_operation.html"),
)
"""Pairs of a page class and its template."""

DONE: Final = {
    "deposited": "The item was deposited. Its name and its persistent link will never change.",
    "deposited-open": "The item was deposited, without the end of an embargo: that counts only with “Embargoed”.",
    "edited": "The changes were saved.",
    "unchanged": "Nothing was different, so nothing was changed.",
    "files": "The files were saved.",
    "removed": "The item was removed. Its name, the date and the reason stay.",
    "copied": "The copy was taken, and every file that could be compared equals the original.",
    "offered": "The hand-over has begun. This Archive goes on with it by itself; look here again in a while.",
    "switched-on": "The Archive is switched on: it asks its resolvers to be included.",
    "switched-off": "The Archive is switched off at its resolvers. It goes on answering its own addresses.",
    "left": "The Archive leaves this resolver.",
    "revoked": "The token was revoked and can no longer be used.",
    "taken-back": "The item stays here, unless the other Archive has become its owner by now; the list tells.",
    "approved": "The Archive is registered. It is included as soon as it asks again.",
    "refused": "The request was refused.",
    "may-move": "The Archive may move once.",
    "settled": "The alert is settled. If two Archives still claim the item, its next reader causes another one.",
    "forgotten": "The Archive was unregistered: this resolver no longer queries it.",
    "identity": "The identity was changed; the pages show it within a second.",
    "set": "The settings were changed; the resolver follows within a second.",
    "role": "The role of the account was changed.",
    "removed-account": "The account was removed, and its sessions have ended.",
    "signed-out": "You are signed out.",
    "password": "Your password was changed, and all your sessions have ended. Sign in with the new one.",
    "signed-in-again": "You are signed in again. What you had typed is still here; look at it and send it once more.",
}
"""Word in the address of a page -> message after an act."""

MENU_GROUPS: Final = {
    "holdings": "Holdings",
    "care": "Care",
    "network": "Network",
    "institution": "Institution",
}
"""The headings of the groups of the menu."""

MENU: Final = (
    (MENU_GROUPS["holdings"], {"": "Overview", "items": "Items", "deposit": "Deposit", "import": "Import"}),
    (MENU_GROUPS["care"], {"audit": "Audit", "statistics": "Statistics"}),
    (MENU_GROUPS["network"], {"copy": "Take a copy", "transfer": "Hand-overs", "membership": "Resolvers"}),
    (
        MENU_GROUPS["institution"],
        {
            "identity": "Identity",
            "accounts": "Accounts",
            "tokens": "Tokens",
            "do": "More",
            "account": "My account",
        },
    ),
)
"""The menu: groups of pages in order, each page by the word in its address, with its heading."""

PARTS: Final = dict.fromkeys(("edit", "files", "delete", "bulk"), "items")
"""Word of a page that is not in the menu -> word of the page there that it belongs to."""

ACCESS: Final = {
    Access.OPEN: "all readers can open the files",
    Access.EMBARGOED: "readers can open the files from a day on",
    Access.RESTRICTED: "only readers in licensed networks can open the files",
    Access.CLOSED: "the files are kept, and readers cannot open them",
}
"""Who may have the data of an item, as a librarian chooses it."""

FIELD_NAMES: Final = {each.name: each.label for each in EDITED if each.label}
"""Field -> its label in the form, besides the elements of Dublin Core."""

SCOPES: Final = {
    Scope.READ: "see the history of items and lists of files that are not public",
    Scope.DEPOSIT: "deposit new items",
    Scope.EDIT: "edit metadata and files of items",
    Scope.DELETE: "remove items",
    Scope.TRANSFER: "hand originals over to this Archive",
    Scope.ADMIN: "all of these, and choose names",
}
"""Scope of a token -> what it permits, in words."""

ROLES: Final = {
    "depositor": "Depositor: brings in new items",
    "keeper": "Librarian: corrects, removes, copies and hands over items too",
    "administrator": "Administrator: decides about the Archive itself too",
}
"""Role of an account -> description."""

EVENTS: Final = {
    "deposited": "deposited",
    "imported": "imported",
    "edited": "edited",
    "removed": "removed",
    "copied": "copied",
    "refreshed": "made equal to its original",
    "harvested": "harvested",
    "repaired": "a file was repaired",
    "given": "handed over",
    "received": "received from another Archive",
    "returned": "taken back",
    "settled": "settled after it came back from a backup",
    "dropped": "its files were removed after the hand-over",
}
"""Event of an item -> words; unknown events are shown as they are."""

LABELS: Final[Mapping[type, Mapping[str, str]]] = {
    other_pages.TokensPage: {"name": "Name of the program", "scopes": "What it permits"},
    institution_pages.IdentityPage: {"font": "Font"},
    layout.AccountsPage: {"name": "Name of the account", "role": "Role"},
}
"""The labels of fields that are not the words of an operation."""

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})

LONGEST_NAME: Final = 60
"""Characters of the name of an author in a list."""


def render(frame: Layout, language: str, branding: Branding) -> bytes:
    """Write a page of the administration of an Archive as HTML in one of our languages."""
    problems = [frame.problem, *getattr(frame.problem, "others", ())] if frame.problem else []
    fields = [_field_of(frame.page, each) for each in problems]
    return framed(
        dict(TEMPLATES)[type(frame.page)],
        frame,
        language,
        branding,
        MENU,
        program="ibi archive",
        wrong=next(iter(fields), ""),
        problems=list(zip(fields, problems, strict=True)),
        **_values_of(frame, language, branding),
        titled=lambda holding: short_title(holding, language),
        kind_named=lambda holding: kind_of_holding(holding, language),
        people_of=lambda holding: people_of(holding, language),
        element_names=ELEMENT_NAMES,
        field_names=FIELD_NAMES,
        form_fields=[(each.name, each.form.value) for each in EDITED if each.label],
        access_words={each.value: words for each, words in ACCESS.items()},
        access_labels=deposit_form.ACCESS_NAMES,
        scope_words={each.value: words for each, words in SCOPES.items()},
        role_words=ROLES,
        event_words=EVENTS,
        fault_words=FAULTS,
        standing_words=STANDINGS,
    )


def _field_of(page: object, problem: IbiError) -> str:
    """Return the id of the field that a problem is about, "" if it is about none of the page."""
    field = str(problem.details.get("name", problem.details.get("where", "")))
    if field in {*FIELD_NAMES, *fields_on(page)}:
        return field
    return f"dc.{field}" if field in ELEMENT_NAMES else deposit_form.field_of(field)


def _values_of(frame: Layout, language: str, branding: Branding) -> dict[str, Any]:
    """Return the values that only the template of this page needs."""
    if isinstance(frame.page, item_pages.ItemFormPage):
        return deposit_form.values(frame.page, language)
    if isinstance(frame.page, item_pages.ReviewPage):
        return deposit_review.values(frame.page, language, branding)
    if isinstance(frame.page, bulk.BulkPage):
        return {"tongues": deposit_form.ITEM_LANGUAGES}
    return {}


def kind_of_holding(holding: Holding, language: str) -> str:
    """Return the kind of an item in words; "" if its metadata name none that is known."""
    types = [value for value, _ in (holding.metadata or {}).get("type", ())]
    return kind_name(kind_of(types).datacite, language) if types else ""


def people_of(holding: Holding, language: str) -> str:
    """Return the first author of an item, and how many others there are; "" without authors."""
    names = [value for value, _ in (holding.metadata or {}).get("creator", ())]
    if not names:
        return ""
    first, others = shortened(names[0], LONGEST_NAME), len(names) - 1
    if not others:
        return first
    return i18n.say_count(
        others, "{name} and {count} other", "{name} and {count} others", language, name=first
    )


def fields_on(page: object) -> list[str]:
    """Return the names of the fields of a page: those of its operation, or, on a page of its own, what was typed."""
    if isinstance(page, operation_pages.OperationPage | institution_pages.IdentityPage):
        return [*(each.name for each in page.fields), layout.SURE]
    return [*getattr(page, "__dataclass_fields__", ()), layout.SURE]


def framed(
    template: str,
    frame: Layout,
    language: str,
    branding: Branding,
    menu: Sequence[tuple[str, Mapping[str, str]]],
    named: Mapping[str, str] = NO_LABELS,
    **words: object,
) -> bytes:
    """Write a page of any administration.

    `menu`: groups of pages, each by its word; `named`: the labels of the fields of the page, if `labels_on` does not
    know them; `words`: further values for the template.
    """
    role = frame.signed.role if frame.signed else None
    identity = (
        identity_words(frame.page, branding, language)
        if isinstance(frame.page, institution_pages.IdentityPage)
        else {}
    )
    return html(
        template,
        language,
        branding,
        frame=frame,
        page=frame.page,
        kept_query=frame.kept_query,
        menu=[
            (group, [(word, name) for word, name in pages.items() if role.may(frame.scopes[word])])
            for group, pages in menu
            if role
        ],
        belongs=PARTS.get(frame.here),
        may=lambda word: bool(role and role.may(Scope(word))),
        done=DONE.get(frame.done, ""),
        packed=packed,
        error_sentence=lambda error: _sentence(error, language, named or labels_on(frame.page)),
        fact_words=fact_words(frame.page),
        value_words=VALUES,
        moments=MOMENTS,
        columns=columns,
        **identity,
        **words,
    )


def labels_on(page: object) -> Mapping[str, str]:
    """Return the label of each field of a page, by the name that errors call it; {} if labels say the same."""
    if isinstance(page, operation_pages.OperationPage | institution_pages.IdentityPage):
        return {**{each.name: each.text for each in page.fields}, **LABELS.get(type(page), {})}
    return LABELS.get(type(page), {})


def _sentence(error: IbiError, language: str, labels: Mapping[str, str] = NO_LABELS) -> str:
    error = with_text(error)
    label = labels.get(str(error.details.get("name", "")))
    named = {"name": f"“{capital(i18n.say(label, language))}”"} if label else {}
    sentence = i18n.say(error, language, **dates_in(error, language), **named)
    # A name at the beginning of a sentence is not capitalized.
    return sentence if error.problem.startswith("{") else capital(sentence)
