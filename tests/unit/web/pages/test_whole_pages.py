"""Pages whole, from a value with all that they may show, and from one with little; in both languages.

They are in `pages.txt`, each below a line with its name: the title, what search engines are told, and the main part.
To write that file anew after a change that is meant, and then read what has changed:

    PYTHONPATH=src:.:tests python -m tests.unit.web.pages.test_whole_pages
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi import __version__
from ibi.accounts.layout import AccountPage, AccountsPage, Layout, NoticePage, SignInPage
from ibi.accounts.people import Account, Role
from ibi.accounts.sign_in import SignedInUser
from ibi.accounts.tokens import Scope
from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.pages import models
from ibi.archive.pages.statistics import UsageReport
from ibi.archive.search.hints import Hint, SearchHints
from ibi.archive.search.search import FacetValue, SearchResults
from ibi.archive.search.words import NO_YEAR, ORDERS, SearchQuery
from ibi.archive.store.tables.usage import ItemUsage, UsageCounts
from ibi.errors import BadField, IbiError, ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import ArchiveTitles
from ibi.resolver.evidence.chain import Entry
from ibi.resolver.evidence.reading import AlertsSlice, OriginalsAlert
from ibi.resolver.members.status import MemberStatus
from ibi.resolver.model.archive import Archive, Move, RegisteredArchive
from ibi.resolver.pages import admin_archives, administration
from ibi.runtime.settings import ResolverSettings
from ibi.web import resolver_pages
from support.web.unnamed import OF_A_RESOLVER, render

PAGES = Path(__file__).parent / "pages.txt"
PLACE = models.SiteContext(
    "http://archive.example", "http://resolver.example/", "ada@archive.example", search=True
)
NAME = "a.example/b/2013/01.02.00.00"
FORMS = IBIForms.parse(f"rep {NAME} ibip 32G4GKPW/4GE5BA8")
PDF = StoredFile("a%20b.pdf", 2048, "0" * 64, "application/pdf")
METADATA = {
    "title": (MetadataValue("Water <quality>", "en"), MetadataValue("Qualidade da água", "pt")),
    "creator": (MetadataValue("Silva, Ana", None),),
    "type": (MetadataValue("dataset", None),),
    "description": (MetadataValue("Rivers of the valley", "en"),),
}
ITEM = models.ListedItem(
    Holding(forms=FORMS, timestamp="2026-09-15T16:40:00Z", metadata=METADATA, files=(PDF,), target=PDF.name),
    METADATA,
    Access.OPEN,
)
MONTHS = tuple((f"2026-{month:02}", UsageCounts(month * 10, 1, month * 7, 1)) for month in (9, 10, 11))
REPORT = UsageReport(MONTHS, 300, 210, 1, (), (("Dataset", 200), ("Other", 10)))


def values(*named: str) -> tuple[FacetValue, ...]:
    return tuple(FacetValue(each, "", number) for number, each in enumerate(named, 1))


FACETS = {
    "kind": values("Dataset", "Other"), "year": (FacetValue("2011", "", 3), FacetValue(str(NO_YEAR), "", 1)),
    "language": values("pt", "xx"), "person": (FacetValue("silva", "Silva, Ana", 2),),
    "subject": values(*"abcdefghi"),
}  # fmt: skip


def search(query: SearchQuery, found: SearchResults | None = None, **facts: Any) -> models.SearchPage:
    return models.SearchPage(PLACE, query, found, **facts)


WORDS = SearchQuery(text="rivers", year=2011, person="Silva")
SEARCHES: dict[str, models.SearchPage] = {
    "empty": search(SearchQuery()),
    "found": search(
        WORDS,
        SearchResults(WORDS, (), 25, False, FACETS, replace(WORDS, page=2), "best", ORDERS),
        results=(ITEM,), leads=(NAME, f"/-/item/{NAME}"), lang="?lang=pt-BR",
    ),
    "second page": search(
        replace(WORDS, page=2, order="title"), SearchResults(WORDS, (), 5000, True, {}, None, "title", ORDERS[::3]),
        results=(ITEM,),
    ),
    "a year": search(SearchQuery(year=NO_YEAR), SearchResults(WORDS, (), 1, False, {}, None), results=(ITEM,)),
    "a kind": search(SearchQuery(kind="Dataset", before=7), SearchResults(WORDS, (), 0, False, {}, None)),
    "nothing": search(
        WORDS, SearchResults(WORDS, (), 0, False, {}, None), meant="32G4GKPW/4GE5BA8",
        hints=SearchHints(
            (Hint(WORDS.having(text="river"), 2, False, ""), Hint(SearchQuery(text="river"), 1000, True, "")),
            (Hint(WORDS.without("year"), 3, True, "year"),),
        ),
    ),
}  # fmt: skip
BROWSED = models.BrowsePage(
    PLACE, values("fish", "water"), 2, 2010,
    (FacetValue("2012", "", 4), FacetValue("2011", "", 3), FacetValue("1998", "", 1)),
    values("pt", "en"), values("Dataset"), values("a", "b"), "a", values("Silva, Ana"), "silva", lang="?lang=en",
)  # fmt: skip
FACTS = models.CollectionFacts(values("Other", "Text", "Dataset"), values("fish"), "2012", REPORT, 41)
FAULT = ParseError("year", "2O11", "a year has {digits} digits", digits=4)
OF_AN_ARCHIVE: Mapping[str, Any] = {
    **{f"search, {name}": page for name, page in SEARCHES.items()},
    "browse": BROWSED,
    "browse, by decade": replace(BROWSED, letter="", after="", decade=1990, people=()),
    "browse, nothing": models.BrowsePage(PLACE),
    "front": models.ArchivePage(42, PLACE, (ITEM,), FACTS, lang="?lang=pt-BR"),
    "front, nothing": models.ArchivePage(0),
    "about": models.AboutPage("archive.example", NAME, 42, PLACE),
    "statistics": models.StatisticsPage(PLACE, REPORT, 41, ((ITEM, ItemUsage(1, 30, 20)),)),
    "statistics, few": models.StatisticsPage(PLACE, UsageReport(MONTHS[:2], 10, 0, 1), 1),
    "programs": models.ProgramsPage(PLACE, ITEM.holding),
    "programs, nothing": models.ProgramsPage(PLACE),
    "notice": models.NoticePage(
        404, FAULT, (("The item", "/-/x"),), PLACE, "http://resolver.example/x", None, reads=False
    ),
    "notice, later": models.NoticePage(429, IbiError("wait {n} s", n=3), place=PLACE, retry_after=3),
    "notice, odd": models.NoticePage(418, IbiError("from {date} on", date="2031-01-31")),
    "files": models.FileListPage(ITEM.holding, lang="?lang=en"),
    "metadata": models.MetadataPage(ITEM.holding, METADATA, {"bibtex": "/-/bibtex"}),
}
SERVICE = "c.example/w/2020/01.01.00.00"


def registered(**facts: Any) -> RegisteredArchive:
    service = parse_ibi(SERVICE)
    known: dict[str, Any] = {
        "included": Archive(service, "c.example:8080", "192.0.2.1", "HTTP", "1", "ada@c.example", included_at=0.0),
        "address": "c.example:8080", "contact": "ada@c.example", "contact_name": "Ada",
        "heard_at": "2026-11-01T10:00:00Z", "confirmed_address": "c.example:8080",
        "titles": ArchiveTitles("The Sea", "O Mar"),
    }  # fmt: skip
    return RegisteredArchive(service, ("c.example",), "2026-11-01T10:00:00Z", None, **{**known, **facts})


STATUS = MemberStatus(
    SERVICE, "c.example:8080", "silent", True, 0.0, None, True, IbiError("no answer within {n} s", n=3),
    ArchiveTitles("The Sea", "O Mar"), tuple((hour, hour % 3) for hour in range(24)),
)  # fmt: skip
MOVE = Move("new.example", "192.0.2.7", 0.0, 60.0, 2)
RESULT = admin_archives.ContactResult("2026-11-02T10:00:00Z", answered=False)
PAUSED = admin_archives.ListedArchive(
    registered(move=MOVE), admin_archives.ArchiveState.PAUSED, STATUS, RESULT
)
NEW = admin_archives.ListedArchive(
    registered(included=None, heard_at=None),
    admin_archives.ArchiveState.NEW,
    None,
    RESULT._replace(answered=True),
)
COUNTS = dict.fromkeys(admin_archives.ArchiveState, 1)
CHECKS = [
    admin_archives.Check(True, "may-be-contacted", {}),
    admin_archives.Check(False, "silent", {"moment": "2026-11-02T10:00:00Z"}),
    admin_archives.Check(None, "other-names", {"host": "w.c.example"}),
    admin_archives.Check(
        False, "not-contacted", {"problem": IbiError("it is private")}, "allow_private_archives"
    ),
]
APPLIED = admin_archives.Application(registered(included=None, applied=True), '"v"', CHECKS)


def entry(number: int, what: str, **facts: Any) -> Entry:
    return Entry(number, f"2026-11-0{number}T10:00:00Z", what, facts, "0" * 64, "1" * 64)


ALERT = OriginalsAlert(
    entry(3, "alert", kind="suspect-originals", ibi=NAME, archives=f"{SERVICE} {NAME}"), (SERVICE, NAME),
    (entry(1, "original", ibi=NAME, archive=SERVICE), entry(2, "migrated", ibi=NAME, to=SERVICE)),
)  # fmt: skip
SETTLED_ALERT = ALERT._replace(history=(*ALERT.history, entry(4, "settled", ibi=NAME, by="account root")))
NAMES = {parse_ibi(SERVICE).canonical: ArchiveTitles("The Sea", "O Mar")}
ADA = Account("Ada", Role.ADMINISTRATOR, "$argon2", "2026-11-01T10:00:00Z")
ROLES = (Role.ADMINISTRATOR,)
SETTINGS = dict.fromkeys(resolver_pages.MEANINGS, "1") | {"policy": "strict", "registration": "form"}
OF_A_RESOLVERS_ADMINISTRATION: Mapping[str, Any] = {
    "sign in": SignInPage("/-/admin/x", "ada", (("a", "b"),)),
    "sign in, not here": SignInPage(possible=False),
    "notice": NoticePage(),
    "account": AccountPage(),
    "accounts": AccountsPage((ADA,), ROLES, ("bob", "secret"), "eve", "administrator", ("remove", "Ada")),
    "overview": administration.OverviewPage(3, 2, 1, 1, 1, [ALERT], NAMES),
    "overview, nothing": administration.OverviewPage(0, 0, 0, 0, 0, [], {}),
    "archives": admin_archives.ArchivesPage([PAUSED, NEW], COUNTS, "sea", "paused", "?from=0", "?from=40", 45),
    "archives, nothing": admin_archives.ArchivesPage([], COUNTS),
    "archive": admin_archives.ArchivePage(PAUSED, "new key", "forget"),
    "archive, new": admin_archives.ArchivePage(NEW),
    "applications": admin_archives.ApplicationsPage([APPLIED], SERVICE, "Not ours."),
    "applications, nothing": admin_archives.ApplicationsPage([]),
    "alerts": administration.AlertsPage(AlertsSlice([ALERT, SETTLED_ALERT], 7, 2), NAMES),
    "log": administration.LogPage([entry(5, "unheard", x=1), *SETTLED_ALERT.history], "original", NAME, 9, 1),
    "policies": administration.PoliciesPage(
        SETTINGS | {"negative_seconds": "2"}, SETTINGS, [("address", "urlib.net")], ["admin"],
        [IbiError("{name} takes effect once the resolver is restarted", name="stale_seconds")],
    ),
}  # fmt: skip
SIGNED = SignedInUser("root", Role.ADMINISTRATOR, "token", "session")


def in_a_frame(page: Any, language: str) -> bytes:
    """A page of the administration of a resolver; a wrong field where it has one."""
    scopes = {word: Scope.READ for _, group in resolver_pages.MENU for word in group}
    frame = Layout(
        page, signed=None if isinstance(page, SignInPage) else SIGNED, nonce="n", address="urlib.net", scopes=scopes,
        waiting={"applications": 2}, done="set", here="archives",
        problem=BadField("{name} is wrong", name="negative_seconds"), retry_after=7, reads=False,
    )  # fmt: skip
    return resolver_pages.render(frame, language, OF_A_RESOLVER)


GROUPS: dict[str, tuple[Mapping[str, Any], Callable[[Any, str], bytes]]] = {
    "archive": (OF_AN_ARCHIVE, render),
    "resolver": (OF_A_RESOLVERS_ADMINISTRATION, in_a_frame),
}


_HEAD = re.compile('<title>.*?</title>|<meta name="robots"[^>]*>|<link rel="(?:canonical|next|prev)"[^>]*>')


def reported(body: bytes) -> str:
    """The title, what search engines are told, and the main part, without blanks that mean nothing."""
    page = body.decode()
    head = _HEAD.findall(page)
    main = page.partition("<main")[2].partition("</main>")[0]
    lines = (" ".join(line.split()) for line in (*head, *main.split("\n")))
    text = re.sub("/-/static/[0-9a-f]{12}/", "/-/static/…/", "\n".join(filter(None, lines)))
    return text.replace(__version__, "VERSION")


def written(group: str) -> Iterator[tuple[str, str]]:
    pages, write = GROUPS[group]
    for name, page in pages.items():
        for language in ("en",) if "," in name else ("en", "pt-BR"):
            yield f"{name}, {language}", reported(write(page, language))


def kept() -> dict[str, dict[str, str]]:
    """The file: group -> page -> what it shows."""
    groups: dict[str, dict[str, str]] = {}
    for part in PAGES.read_text(encoding="utf-8").split("\n== ")[1:]:
        head, _, text = part.partition("\n")
        group, _, name = head.partition(": ")
        groups.setdefault(group, {})[name] = text.rstrip("\n")
    return groups


@pytest.mark.parametrize("group", GROUPS)
def test_each_page_is_as_it_was_read_last(group: str) -> None:
    known, found = kept()[group], dict(written(group))
    assert list(found) == list(known)
    for name, text in found.items():
        assert text == known[name], name


def test_all_settings_of_the_page_are_in_its_value() -> None:
    assert SETTINGS.keys() <= set(ResolverSettings.__dataclass_fields__)


if __name__ == "__main__":
    PAGES.write_text(
        "".join(f"\n== {group}: {name}\n{text}\n" for group in GROUPS for name, text in written(group)),
        "utf-8",
    )
