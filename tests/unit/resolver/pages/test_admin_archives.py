"""The pages of Archives and of applications, as values: the whole list, each decision, and each check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ibi.accounts.layout import Form
from ibi.api.operations import etag_of
from ibi.errors import BadField, Conflict, ForbiddenAddress, IbiError, NotHeld
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.members.registrar import Registrar
from ibi.resolver.members.status import MemberStatus
from ibi.resolver.model.archive import Archive, Move, RegisteredArchive
from ibi.resolver.operations.context import ActingOnResolver
from ibi.resolver.operations.registrations import registration_facts
from ibi.resolver.pages.admin_archives import (
    MOST_CHECKED,
    PAGE,
    Application,
    ApplicationsPage,
    ArchivePage,
    ArchivePages,
    ArchivesPage,
    ArchiveState,
    Check,
    ContactResult,
    ListedArchive,
)
from support.acts.visits import visit

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.identifier.forms import IBI

NOW, MOMENT = 86_400.0, "1970-01-02T00:00:00Z"
SINCE = "2026-11-01T10:00:00Z"


def registered(name: str, address: str = "", **facts: Any) -> RegisteredArchive:
    """An Archive that is included, or as these facts say."""
    service = parse_ibi(f"{name}.example/w/2020/01.01.00.00")
    where = address or f"{name}.example"
    known: dict[str, Any] = {
        "included": Archive(service, where),
        "heard_at": SINCE,
        "contact": f"{name}@x.example",
    }
    return RegisteredArchive(**{
        "service_ibi": service, "url_hosts": (), "registered_at": SINCE, "changed_at": None, "address": where,
        **known, **facts,
    })  # fmt: skip


def status(name: str, **facts: Any) -> MemberStatus:
    known = MemberStatus(
        f"{name}.example/w/2020/01.01.00.00", f"{name}.example", "heard", True, 0.0, NOW, False, None
    )
    return known._replace(**facts)


class Resolver:
    """The pages of a resolver with these Archives; `done`: what was changed and written down, in order."""

    def __init__(self, *archives: RegisteredArchive, statuses: tuple[MemberStatus, ...] = ()) -> None:
        self.archives, self.statuses = list(archives), statuses
        self.done: list[Any] = []
        self.requests: list[tuple[str, str]] = []
        self.confirm: Callable[[], bool] = lambda: True
        self.forbidden: set[str] = set()
        evidence: Any = SimpleNamespace(write=lambda what, **facts: self.done.append((what, facts)))
        mail: Any = SimpleNamespace(
            registered=lambda ibi, to: self.done.append(("mail registered", str(ibi), to)),
            refused=lambda ibi, to, reason: self.done.append(("mail refused", str(ibi), to, reason)),
            rotated=lambda known: self.done.append(("mail rotated", str(known.service_ibi))),
        )
        service = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53")
        registrar = Registrar(self, evidence, lambda: mail, service)  # type: ignore[arg-type]  # no more is asked of them
        none: Any = None
        acting = ActingOnResolver(Path(), registrar, evidence, none, lambda: none)
        self.pages = ArchivePages(acting, lambda: self.statuses, self.confirms, self.check, lambda: NOW)
        self.handlers = self.pages.handlers()

    # What is asked of the registry

    def registered(self) -> list[RegisteredArchive]:
        return self.archives

    def entry(self, service: IBI) -> RegisteredArchive | None:
        return next((each for each in self.archives if each.service_ibi.canonical == service.canonical), None)

    def approve(self, service: IBI, record: Callable[[], None]) -> None:
        record()
        self.archives = [
            replace(each, applied=False) if each.service_ibi == service else each for each in self.archives
        ]

    def refuse(self, _service: IBI, record: Callable[[], None]) -> None:
        record()

    def unregister(self, _service: IBI, record: Callable[[], None]) -> None:
        record()

    def allow_move(self, _service: IBI, record: Callable[[], None]) -> None:
        record()

    def rotate(self, _service: IBI, record: Callable[[], None]) -> str:
        record()
        return "new key"

    # What is asked of the network

    def confirms(self, service: IBI, address: str) -> bool:
        self.requests.append((str(service), address))
        return self.confirm()

    def check(self, _service: IBI, address: str) -> None:
        if address in self.forbidden:
            raise ForbiddenAddress("it is private")

    # What an administrator does

    def show(self, word: str, rest: str = "", query: str = "", typed: Form | None = None) -> Any:
        return self.handlers[word].show(visit(rest, query), typed)

    def send(self, word: str, **fields: str) -> Any:
        return self.handlers[word].do(visit(), Form([*fields.items()]))


MOVE = Move("new.example", "192.0.2.1", 0.0)
IN_TROUBLE = (
    registered("f", move=MOVE),
    registered("e"),
    registered("d"),
    registered(
        "c", included=replace(registered("c").included or Archive(parse_ibi("x/y"), ""), confirmed=False)
    ),
    registered("b", included=None),
    registered("a2", included=None, heard_at=None),
    registered("a1", move=MOVE, move_allowed=True),
    registered("a0", applied=True),
)
STATUSES = (
    status("e", is_suspended=True, standing="silent", heard=None, hours=((3, 1), (2, 0))),
    status("d", standing="silent", heard=0.0),
    status("a1"),
)


def test_all_archives_are_listed_those_in_trouble_first_with_how_they_are() -> None:
    resolver = Resolver(*IN_TROUBLE, statuses=STATUSES)
    f, e, d, c, b, a2, a1 = (each for each in IN_TROUBLE if not each.applied)
    rows = [
        ListedArchive(f, ArchiveState.MOVING, None, None),
        ListedArchive(e, ArchiveState.PAUSED, STATUSES[0], None),
        ListedArchive(d, ArchiveState.SILENT, STATUSES[1], None),
        ListedArchive(c, ArchiveState.UNCONFIRMED, None, None),
        ListedArchive(b, ArchiveState.OFF, None, None),
        ListedArchive(a2, ArchiveState.NEW, None, None),
        ListedArchive(a1, ArchiveState.INCLUDED, STATUSES[2], None),
    ]
    assert resolver.show("archives") == ArchivesPage(rows, dict.fromkeys(ArchiveState, 1), found=7)
    assert [(each.last_heard, each.is_in_trouble, each.queries, each.unanswered) for each in rows] == [
        (SINCE, True, 0, 0),
        (SINCE, True, 6, 1),
        ("1970-01-01T00:00:00Z", True, 0, 0),
        (SINCE, True, 0, 0),
        (SINCE, False, 0, 0),
        ("", False, 0, 0),
        (MOMENT, False, 0, 0),
    ]
    assert resolver.pages.waiting() == {"applications": 1, "archives": 3}
    resolver.archives.append(registered("g", move=MOVE))
    assert resolver.pages.waiting() == {"applications": 1, "archives": 4}
    same = [registered(name) for name in ("b", "C", "a")]
    assert [each.name[0] for each in Resolver(*same).show("archives").archives] == ["C", "a", "b"]


@pytest.mark.parametrize(
    ("query", "names", "before", "after"),
    [
        ("", (0, 20), "", "?from=20"),
        ("from=20", (20, 40), "?", "?from=40"),
        ("from=25", (25, 45), "?from=5", ""),
        ("from=5", (5, 25), "?", "?from=25"),
        ("from=40", (40, 45), "?from=20", ""),
        ("from=999999", (45, 45), "?from=999979", ""),
        ("from=1000000", (0, 20), "", "?from=20"),
        ("from=-1", (0, 20), "", "?from=20"),
        ("text=A1&state=included", (10, 20), "", ""),
        ("text=%20a%20", (0, 20), "", "?text=a&from=20"),
        (
            "text=a&state=included&from=20",
            (20, 40),
            "?text=a&state=included",
            "?text=a&state=included&from=40",
        ),
        ("state=off", (0, 0), "", ""),
    ],
)
def test_a_list_has_twenty_archives_a_page_and_links_to_those_beside_it(
    query: str, names: tuple[int, int], before: str, after: str
) -> None:
    resolver = Resolver(*(registered(f"a{number:02}") for number in range(45)))
    page = resolver.show("archives", query=query)
    assert [each.archive for each in page.archives] == resolver.archives[slice(*names)]
    assert (page.before, page.after) == (before, after)
    words = dict(each.split("=") for each in query.split("&") if each)
    assert (page.text, page.state) == (words.get("text", "").replace("%20", ""), words.get("state", ""))
    assert page.found == {"A1": 10, "": 45, "a": 45}[page.text] * (page.state != "off")
    assert sum(page.counts.values()) == 45
    assert PAGE == 20


def test_an_archive_is_found_by_its_name_its_address_and_its_administrator() -> None:
    known = registered("a", "Place.example", contact="Mail@far.example", contact_name="Ada")
    for text, is_found in (
        ("A.EXAMPLE/W", True),
        ("place", True),
        ("ada", True),
        ("MAIL@", True),
        ("b", False),
    ):
        assert (Resolver(known).show("archives", query=f"text={text}").found == 1) is is_found, text


def test_one_archive_is_shown_by_its_path_or_by_a_form_that_was_wrong() -> None:
    known = registered("a")
    each = ListedArchive(known, ArchiveState.INCLUDED, None, None)
    resolver, name = Resolver(known), str(known.service_ibi)
    assert resolver.show("archives", name.upper()) == ArchivePage(each)
    typed = Form([("ibi", name), ("what", "key")])
    assert resolver.show("archives", "x/y", typed=typed) == ArchivePage(each, what="key")
    with pytest.raises(NotHeld) as caught:
        resolver.show("archives", "b.example/w/2020/01.01.00.00")
    assert str(caught.value) == "b.example/w/2020/01.01.00.00 is not registered here"


def test_each_decision_about_an_archive_is_written_down_and_leads_on() -> None:
    known = registered("a", move=MOVE)
    name, here = str(known.service_ibi), "/-/admin/archives"
    facts = {"ibi": name, "by": "account root"}

    def sent(**fields: str) -> tuple[Any, list[Any]]:
        resolver = Resolver(known)
        return resolver.send("archives", ibi=name, **fields), resolver.done

    assert sent(what="ask") == (f"{here}/{name}", [])
    assert sent(what="move") == (
        f"{here}/{name}?done=may-move", [("move-allowed", {**facts, "address": "new.example"})],
    )  # fmt: skip
    assert sent(what="forget", sure="yes") == (f"{here}?done=forgotten", [("unregistered", facts)])
    assert sent(what="key", sure="yes") == (
        ArchivePage(ListedArchive(known, ArchiveState.MOVING, None, None), key="new key"),
        [("rotated", facts), ("mail rotated", name)],
    )
    for fields in ({"what": "forget"}, {"what": "key"}):
        with pytest.raises(BadField) as caught:
            sent(**fields)
        assert str(caught.value) == "tick the box to confirm"
    with pytest.raises(IbiError) as other:
        sent(what="approve")
    assert str(other.value) == "this is not the form of this page; open the page again"


def test_what_came_of_asking_is_remembered_for_the_address_that_was_asked() -> None:
    known = registered("a")
    resolver, name = Resolver(known), str(known.service_ibi)

    def silent() -> bool:
        raise TimeoutError

    def checked() -> ContactResult | None:
        resolver.send("archives", ibi=name, what="ask")
        found: ContactResult | None = resolver.show("archives").archives[0].checked
        return found

    assert checked() == ContactResult(MOMENT, answered=True)
    resolver.confirm = lambda: False
    assert checked() == ContactResult(MOMENT, answered=False)
    resolver.confirm = silent
    assert checked() == ContactResult(MOMENT, answered=False)
    assert resolver.requests == [(name, "a.example")] * 3
    resolver.forbidden = {"a.example"}
    found = checked()
    assert found is not None
    assert (found.moment, found.answered, str(found.problem)) == (MOMENT, False, "it is private")
    assert len(resolver.requests) == 3
    resolver.archives = [replace(known, address="b.example")]
    assert resolver.show("archives").archives[0].checked is None


@pytest.mark.parametrize(("others", "is_known"), [(MOST_CHECKED - 1, True), (MOST_CHECKED, False)])
def test_so_many_results_are_remembered(others: int, *, is_known: bool) -> None:
    resolver = Resolver(*(registered(f"a{number:03}") for number in range(others + 1)))
    for each in resolver.archives:
        resolver.send("archives", ibi=str(each.service_ibi), what="ask")
    first = resolver.show("archives").archives[0].checked
    assert (first is not None) is is_known


APPLIED = registered("a", "W.a.example", included=None, applied=True, heard_at=None, contact_name="Ada")
MAY = Check(holds=True, what="may-be-contacted", facts={})
OWN = Check(holds=True, what="own-names", facts={})
OTHER = Check(holds=None, what="other-names", facts={"host": "w.a.example"})
THEN = Check(holds=True, what="answered-then", facts={"moment": SINCE})


def applied(*checks: Check, archive: RegisteredArchive = APPLIED) -> Application:
    return Application(archive, etag_of(registration_facts(archive)), checks)


def shown(resolver: Resolver) -> list[Application]:
    page = resolver.show("applications")
    assert (page.refusing, page.reason) == ("", "")
    return [Application(each.archive, each.version, tuple(each.checks)) for each in page.waiting]


def test_an_application_is_shown_with_what_is_known_of_it() -> None:
    resolver = Resolver(APPLIED, registered("b"))
    assert shown(resolver) == [applied(MAY, THEN, OWN)]
    assert shown(resolver)[0].passes
    resolver.send("applications", ibi=str(APPLIED.service_ibi), what="ask")
    assert shown(resolver) == [applied(MAY, Check(holds=True, what="answers", facts={"moment": MOMENT}), OWN)]
    resolver.confirm = lambda: False
    resolver.send("applications", ibi=str(APPLIED.service_ibi), what="ask")
    assert shown(resolver) == [applied(MAY, Check(holds=False, what="silent", facts={"moment": MOMENT}), OWN)]
    resolver.forbidden = {"W.a.example"}
    [first, second, third] = shown(resolver)[0].checks
    assert (first.holds, first.what, first.setting) == (False, "not-contacted", "allow_private_archives")
    assert {name: str(value) for name, value in first.facts.items()} == {"problem": "it is private"}
    assert (second, third) == (Check(holds=None, what="not-asked", facts={}), OWN)
    assert not shown(resolver)[0].passes


@pytest.mark.parametrize(
    ("name", "address", "checks"),
    [
        ("a.example/w/2020/01.01.00.00", "w.a.example:8080", (OWN,)),
        ("a.example/w/2020/01.01.00.00", "w.b.example", (OTHER,)),
        ("a.example/w/2020/01.01.00.00", "no address", (OTHER,)),
        ("8JMKD3MGP8W/35MMLL8", "a.example", ()),
    ],
)
def test_the_names_of_an_applicant_are_compared_with_its_host(
    name: str, address: str, checks: tuple[Check, ...]
) -> None:
    archive = replace(APPLIED, service_ibi=parse_ibi(name), address=address)
    assert shown(Resolver(archive)) == [applied(MAY, THEN, *checks, archive=archive)]


def test_each_decision_about_an_application_is_of_the_one_that_was_seen() -> None:
    name, version = str(APPLIED.service_ibi), etag_of(registration_facts(APPLIED))
    facts, here = {"ibi": name, "by": "account root"}, "/-/admin/applications"

    def sent(version: str = version, **fields: str) -> tuple[Any, list[Any]]:
        resolver = Resolver(APPLIED)
        return resolver.send("applications", ibi=name, version=version, **fields), resolver.done

    assert sent(what="approve") == (
        f"{here}?done=approved", [("approved", facts), ("mail registered", name, "a@x.example")],
    )  # fmt: skip
    assert sent(what="refuse", reason="Not ours.") == (
        f"{here}?done=refused",
        [("unregistered", facts), ("mail refused", name, "a@x.example", "Not ours.")],
    )
    assert sent(what="ask") == (here, [])
    for what in ("approve", "refuse"):
        with pytest.raises(Conflict):
            sent('"another"', what=what, reason="Not ours.")
    with pytest.raises(IbiError) as other:
        sent(what="move")
    assert str(other.value) == "this is not the form of this page; open the page again"


def test_a_refusal_that_was_wrong_is_shown_as_it_was_typed() -> None:
    resolver, name = Resolver(), str(APPLIED.service_ibi)
    for what, page in (
        ("refuse", ApplicationsPage([], name, "x" * 1001)),
        ("approve", ApplicationsPage([])),
    ):
        typed = Form([("ibi", name), ("what", what), ("reason", "x" * 1001)])
        assert resolver.show("applications", typed=typed) == page
