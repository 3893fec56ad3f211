"""Write the pages of a resolver and of its administration as HTML in the reader's language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

import ibi
from ibi.accounts import layout
from ibi.api import institution_pages, operation_pages
from ibi.api.fields import described
from ibi.errors import ParseError
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.members.status import LATELY_SECONDS, STANDINGS
from ibi.resolver.model.alert import STATUS, TITLE, AlertKind
from ibi.resolver.model.archive import moment_text as stamp
from ibi.resolver.operations.settings import SettingsFields
from ibi.resolver.pages import admin_archives, administration
from ibi.resolver.pages.admin_archives import CHECKS, ArchiveState
from ibi.runtime.i18n import say
from ibi.runtime.settings.rules import RESOLVER_BOUNDS, RESOLVER_CHOICES
from ibi.web.administration_pages import fields_on, framed
from ibi.web.rendering import html, moment, sayer
from ibi.web.resolution_pages import caret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.accounts.layout import Layout
    from ibi.resolver.members.status import NetworkStatus
    from ibi.resolver.pages.admin_archives import Check
    from ibi.resolver.pages.page_language import PageLanguage
    from ibi.resolver.pages.site import RegistrationPage
    from ibi.web.branding import Branding


WRAPPER_NAMES: Final = {
    "resolver address": "the address of a resolver",
    "archive address": "the address of an Archive",
    "url scheme": "a URL scheme",
    "archive path": "a path of an Archive",
    "cgi wrapper": "a program of an Archive",
    "upn": "a uniform persistent name",
    "ibi scheme": "the scheme ibi:",
    "relative path": "a relative path",
    "query parameter": "a query parameter",
    "wrapper site": "the link of another site",
    "report code": "a report code",
    "fragment": "a fragment",
    "punctuation": "punctuation",
    "words": "words around it",
    "invisible characters": "invisible characters",
    "entity": "an HTML entity",
    "percent encoding": "percent encoding",
    "blanks": "blanks",
    "line break": "a line break",
}
"""Kind of text around an identifier -> words."""

FORMS: Final = {
    UniformRepositoryName: "uniform repository name",
    IBIp: "IBIp, the opaque form",
    LegacyId: "opaque identifier from before the standard",
}
"""Form of an identifier -> words."""

MODIFIERS: Final = (
    ("!", "the last edition", True),
    ("+", "the translation into the language of your browser", False),
    ("+(pt)", "the translation into a given language", False),
    (":", "the metadata", True),
    ("!+(en)", "the English translation of the last edition", False),
    ("?info", "how the link is resolved, instead of the item", True),
)
"""Mark behind an identifier, what it leads to, and whether every item has that."""

MOST_ON_FRONT: Final = 8
"""Archives that the front page names."""

MOST_MEMBERS: Final = 200
"""Archives on the status page, silent ones first; the JSON document lists all."""


def home(network: NetworkStatus, root: str, reader: PageLanguage, branding: Branding) -> bytes:
    """Write the front page: a box for anything with an identifier in it, figures, marks, and who takes part.

    `root`: what persistent URLs begin with.
    """
    # Every Archive holds the item of its own service, so a link to that works; nothing else is sure to be there.
    heard = [each for each in network.members if each.standing == "heard"] or network.members
    example = heard[0].service_ibi if heard else ""
    link = f"{root}/{example}"
    order = ("heard", "not asked", "silent")
    return html(
        "home.html",
        reader.language,
        branding,
        page=reader,
        status=network,
        line=network.line(sayer(reader.language)),
        example=example,
        link=link,
        citation=say("Institute (2026). A report. {link}", reader.language, link=link),
        modifiers=MODIFIERS,
        shown=sorted(network.members, key=lambda each: order.index(each.standing))[:MOST_ON_FRONT],
        minutes=int(LATELY_SECONDS // 60),
    )


def programs(root: str, ibi: str, reader: PageLanguage, branding: Branding) -> bytes:
    """Write what programs can read at the resolver at `root`, with examples about the item `ibi`, if not ""."""
    return html("programs_resolver.html", reader.language, branding, page=reader, root=root, ibi=ibi)


def about(facts: Mapping[str, Any], reader: PageLanguage, branding: Branding) -> bytes:
    """Write the page about the resolver: its identity, the standards, and the meaning of its alerts."""
    return html(
        "about.html",
        reader.language,
        branding,
        page=reader,
        facts=facts,
        version=ibi.__version__,
        policy=CHOICES[facts["policy"]],
        alerts=[(kind.value, STATUS[kind], TITLE[kind]) for kind in AlertKind],
    )


def status(network: NetworkStatus, reader: PageLanguage, branding: Branding) -> bytes:
    """Write the state of the network, Archive by Archive."""
    order = ("silent", "not asked", "heard")
    members = sorted(network.members, key=lambda member: order.index(member.standing))
    return html(
        "status.html",
        reader.language,
        branding,
        page=reader,
        line=network.line(sayer(reader.language)),
        status=network,
        shown=members[:MOST_MEMBERS],
        more=max(0, len(members) - MOST_MEMBERS),
        standings=STANDINGS,
        stamp=stamp,
    )


def find(text: str, reader: PageLanguage, branding: Branding) -> bytes:
    """Write the page that shows the identifier in a text, the text around it, and the link to its item."""
    found, problem = None, None
    if text.strip():
        try:
            found = _found(text)
        except ParseError as error:
            problem = error
    return html(
        "find.html",
        reader.language,
        branding,
        page=reader,
        kept_query=urlencode({"text": text}) if text else "",
        asked=text,
        found=found,
        problem=say(problem, reader.language) if problem else "",
        caret=caret(problem),
        suggestion=problem.suggestion if problem else None,
    )


def registration(page: RegistrationPage, reader: PageLanguage, branding: Branding) -> bytes:
    """Write the form by which an Archive applies for registration; after that, its key (REG-01: registration)."""
    return html(
        "register.html",
        reader.language,
        branding,
        page=reader,
        form=page,
        fields=page.fields,
        problem=say(page.problem, reader.language) if page.problem else "",
        suggestion=getattr(page.problem, "suggestion", None) or "",
    )


def _found(text: str) -> dict[str, object]:
    """Find an identifier in a text, the path of its persistent URL, and the removed text around it."""
    unwrapped = unwrap(text)
    ibi = unwrapped.ibi
    path = f"/{ibi}{unwrapped.after}"
    try:
        PersistentURL.from_text(path)
    except ParseError:
        path = f"/{ibi}"
    wrappers = [(WRAPPER_NAMES[kind], piece) for kind, piece in unwrapped.wrappers]
    return {"ibi": ibi, "path": path, "form": FORMS[type(ibi)], "date": ibi.date.text, "wrappers": wrappers}


TEMPLATES: Final = (
    (layout.SignInPage, "sign_in.html"),
    (layout.NoticePage, "admin_notice.html"),
    (institution_pages.IdentityPage, "admin_identity.html"),
    (layout.AccountsPage, "admin_accounts.html"),
    (layout.AccountPage, "admin_account.html"),
    (administration.OverviewPage, "admin_resolver.html"),
    (admin_archives.ApplicationsPage, "admin_applications.html"),
    (admin_archives.ArchivesPage, "admin_archives.html"),
    (admin_archives.ArchivePage, "admin_archive.html"),
    (administration.AlertsPage, "admin_alerts.html"),
    (administration.LogPage, "admin_log.html"),
    (administration.PoliciesPage, "admin_policies.html"),
    (operation_pages.OperationsPage, "admin_operations.html"),
    (operation_pages.OperationPage, "admin_operation.html"),
)
"""Pairs of a page class and its template."""

MENU_GROUPS: Final = {
    "network": "Network",
    "evidence": "Evidence",
    "resolver": "This resolver",
    "people": "People and programs",
}
"""The headings of the groups of the menu."""

MENU: Final = (
    (MENU_GROUPS["network"], {"": "Overview", "archives": "Archives", "applications": "Requests"}),
    (MENU_GROUPS["evidence"], {"alerts": "Alerts", "log": "Log"}),
    (MENU_GROUPS["resolver"], {"policies": "Policies", "identity": "Identity"}),
    (MENU_GROUPS["people"], {"accounts": "Accounts", "do": "More", "account": "My account"}),
)
"""The menu: groups of pages in order, each page by the word in its address, with its heading."""

ROLES: Final = {"administrator": "Administrator: decides who takes part"}
"""Role of an account -> description."""

MEANINGS: Final = {each.name: each.text for each in described(SettingsFields)}
"""Setting that can be changed while the resolver runs -> description."""

CHOICES: Final = {
    "hardened": "hardened: narrower readings, likely holders first",
    "strict": "strict: the letter of the standard",
    "closed": "closed: the administrator registers them",
    "form": "form: they may apply, and wait for an approval",
}
"""Choice of a setting -> description."""

ARCHIVE_STATES: Final = {
    ArchiveState.MOVING: "wants to move",
    ArchiveState.PAUSED: "paused after failures",
    ArchiveState.SILENT: "not responding",
    ArchiveState.UNCONFIRMED: "included, not confirmed",
    ArchiveState.OFF: "switched off",
    ArchiveState.NEW: "not included yet",
    ArchiveState.INCLUDED: "included",
}
"""State of an Archive -> words."""

ENTRIES: Final = {
    "registered": "registered",
    "unregistered": "unregistered",
    "approved": "approved",
    "rotated": "new key",
    "included": "included",
    "excluded": "switched off",
    "moved-address": "moved",
    "move-allowed": "may move",
    "setting": "setting",
    "original": "original seen",
    "migrated": "original moved",
    "deleted": "removed",
    "alert": "alert",
    "settled": "settled",
    "damage": "log damaged",
    "left-out": "left out",
    "overflow": "notes lost",
}
"""Kind of an entry of the log -> words; unknown kinds are shown as they are."""

ENTRY_FACTS: Final = {
    "by": "by",
    "address": "address",
    "confirmed": "confirmed",
    "source": "asked from",
    "end": "until",
    "still_answers": "still answers",
    "before": "before",
    "after": "after",
    "outcome": "outcome",
    "allowed": "allowed",
    "old_answers": "old address answers",
    "name": "name",
    "archive": "Archive",
    "archives": "Archives",
    "from": "from",
    "to": "to",
    "kind": "kind",
    "disputed": "disputed names",
    "count": "count",
    "entries": "entries",
    "number": "number",
    "bytes": "bytes",
    "ibi": "IBI",
}
"""Fact of an entry -> words; unknown facts are shown as they are."""

SPARK_WIDTH: Final = 96
SPARK_HEIGHT: Final = 24
"""The size of a line of answers, in pixels."""


class Spark(NamedTuple):
    """A line of the answers of 24 hours, as SVG: the points of the line, and where hours had failures."""

    line: str
    failed: list[tuple[int, int]]


def spark(hours: Sequence[tuple[int, int]]) -> Spark:
    """Draw the answers of the last hours as a line, with a mark at each hour that had failures."""
    most = max((answered for answered, _ in hours), default=0) or 1
    step = SPARK_WIDTH / max(len(hours) - 1, 1)
    points = [
        (round(at * step), round((SPARK_HEIGHT - 4) * (1 - answered / most)) + 2)
        for at, (answered, _) in enumerate(hours)
    ]
    failed = [point for point, (_, failures) in zip(points, hours, strict=True) if failures]
    return Spark(" ".join(f"{x},{y}" for x, y in points), failed)


def _stated(check: Check, language: str) -> str:
    """Write the sentence of a check."""
    facts = dict(check.facts)
    if "moment" in facts:
        facts["moment"] = moment(str(facts["moment"]), language)
    return say(CHECKS[check.what], language, **facts)


def render(frame: Layout, language: str, branding: Branding) -> bytes:
    """Write a page of the administration of a resolver as HTML in one of our languages."""
    field = str(frame.problem.details.get("name", "")) if frame.problem else ""
    return framed(
        dict(TEMPLATES)[type(frame.page)],
        frame,
        language,
        branding,
        MENU,
        MEANINGS if isinstance(frame.page, administration.PoliciesPage) else {},
        program="ibi resolver",
        wrong=field if field in {*MEANINGS, *fields_on(frame.page)} else "",
        role_words=ROLES,
        standings=STANDINGS,
        state_words={state.value: words for state, words in ARCHIVE_STATES.items()},
        spark=spark,
        entry_words=ENTRIES,
        entry_facts=ENTRY_FACTS,
        stated=lambda check: _stated(check, language),
        meanings=MEANINGS,
        choices={name: {word: CHOICES[word] for word in words} for name, words in RESOLVER_CHOICES.items()},
        numbers=RESOLVER_BOUNDS,
    )
