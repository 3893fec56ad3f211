"""Every act that changes something, of both services, as programs ask for it: once for a key, and of a version.

The acts are those of the definitions; one that has no fields in the tables here fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator

from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Scope, Tokens
from ibi.api import accounts
from ibi.api.jobs import Jobs
from ibi.api.operations import Operation
from ibi.archive.operations import listed as of_an_archive
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.model.archive import Move
from ibi.resolver.operations import listed as of_a_resolver
from support.acts.beginnings import (
    KEY,
    RESOLVER,
    Beginning,
    bag,
    copied,
    damaged,
    filed,
    forgotten,
    handed,
    has_stopped,
    included,
    is_given,
    joined,
    kept,
    original,
    peered,
    restored,
    working,
)
from support.acts.requests import BYTES, JSONRequest, request_for
from support.archive.administration_fixture import PASSWORD
from support.archive.archive_fixture import LAST, REP
from support.archive.oai_repository import Repository, answering, article
from support.archive.replication_fixture import NAME
from support.archive.three_ways import JSON, wait_for_jobs
from support.checks.description import closed
from support.programs import MADE, Reply
from support.resolver.administration_fixture import AdministeredResolver, administered_resolver

pytestmark = pytest.mark.long

Values = Mapping[str, Any]
ARCHIVE, OTHER = "a.example/b/2014/01.01.00.00", "c.example/d/2015/01.01.00.00"


def nothing(_: Any) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Case:
    """An act: valid fields (or a function that makes them), and `other` ones, with which it is another request.

    `entries`: how many entries it leaves in the history of items, or in the
    evidence of the resolver. `prepare`: what comes before it; `after`: what happens then, so that it would be seen if
    it were done again.
    """

    given: Values | Callable[[Any], Values]
    other: Values
    entries: int = 0
    prepare: Callable[[Any], None] = nothing
    after: Callable[[Any], None] = nothing

    def values(self, at: Any) -> Values:
        """The values of its fields."""
        return self.given(at) if callable(self.given) else self.given


def lagging(at: Beginning) -> None:
    """Make a copy lag behind, once more."""
    at.there.edit(language="fr")


AT_AN_ARCHIVE: dict[str, Case] = {
    "deposit": Case({"url": "http://far.example/x"}, {"url": "http://far.example/y"}, 1),
    "edit": Case({"ibi": REP, "rights": "mine"}, {"rights": "yours"}, 1),
    "put-file": Case({"ibi": REP, "file": "more.txt", BYTES: b"words"}, {BYTES: b"others"}, 1),
    "take-out-file": Case({"ibi": REP, "file": "more.txt"}, {"file": "index.html"}, 1, filed),
    "delete": Case({"ibi": REP, "reason": "wrong"}, {"reason": "old"}, 1),
    "join": Case({"resolver": RESOLVER, "key": KEY}, {"key": KEY[::-1]}),
    "leave": Case({"resolver": RESOLVER}, {"resolver": "http://127.0.0.1:8098"}, 0, joined),
    "switch": Case({"switched_on": False}, {"switched_on": True}),
    "rotate-key": Case(lambda at: {"resolver": at.resolver}, {"resolver": ""}, 0, included),
    "set": Case({"audit_days": 3}, {"audit_days": 4}),
    "set-institution": Case({"name": "A library"}, {"name": "A museum"}),
    "peer": Case({"name": "b", "address": "http://b.example"}, {"address": "http://c.example"}),
    "forget-peer": Case({"name": "b"}, {"name": "c"}, 0, forgotten),
    "copy": Case(
        lambda at: {"ibi": NAME, "archive": at.there.root, "private": True},
        {"archive": ""},
        1,
        original,
        lagging,
    ),
    "refresh": Case({"ibi": NAME}, {"ibi": REP}, 1, copied, lagging),
    "hand-over": Case({"ibi": REP, "to": "there"}, {"remove": True}, 1, peered, is_given),
    "take-back": Case(lambda at: {"transfer": at.transfer}, {"transfer": "0" * 32}, 1, handed),
    "retire": Case({"to": "there"}, {"leave_them": True}, 3, peered),
    "harvest": Case(lambda at: {"url": at.repository, "allow_private": True}, {"set": "s"}, 2),
    "audit": Case({}, {"ibi": REP}),
    "check": Case({"repair": True}, {"repair": False}),
    "repair": Case(
        lambda at: {"ibi": LAST, "file": "a.txt", "upload": at.ways.uploaded(b"aaa")},
        {"ibi": REP},
        1,
        damaged,
    ),
    "backup": Case({}, {"verify": True}, 0, kept),
    # Before, it is not in the list of items, with the entry that it has.
    "settle": Case({"names": [REP]}, {"names": [LAST]}, 2, restored),
    "index": Case({}, {}),
    "import-bag": Case(lambda at: {"upload": at.ways.uploaded(bag(at)["upload"])}, {"title": "Bag"}, 1),
    "stop-job": Case(lambda at: {"id": at.job}, {"id": "0" * 32}, 0, working, has_stopped),
}


def applied(at: AdministeredResolver) -> None:
    """Two Archives have applied."""
    for name in (ARCHIVE, OTHER):
        at.registry.apply(parse_ibi(name), "archive.example", "ada@archive.example", "Ada", ["b.example"])


def registered(at: AdministeredResolver) -> None:
    """Two Archives are registered, and want to move."""
    for name in (ARCHIVE, OTHER):
        at.registry.register(parse_ibi(name))
        at.registry.hold_move(parse_ibi(name), Move("new.example", "192.0.2.7", 1.0))


def disputed(at: AdministeredResolver) -> None:
    """Two Archives have claimed two originals."""
    with closing(Evidence(at.data / EVIDENCE_FILE, time.time)) as evidence:
        for name in (ARCHIVE, OTHER):
            evidence.write("alert", kind="suspect-originals", ibi=name, archives=f"{ARCHIVE} {OTHER}")


AT_A_RESOLVER: dict[str, Case] = {
    "register": Case({"ibi": ARCHIVE}, {"ibi": OTHER}, 1),
    "approve": Case({"ibi": ARCHIVE}, {"ibi": OTHER}, 1, applied),
    "refuse": Case({"ibi": ARCHIVE, "reason": "Not ours."}, {"ibi": OTHER}, 1, applied),
    "rotate": Case({"ibi": ARCHIVE}, {"ibi": OTHER}, 1, registered),
    "allow-move": Case({"ibi": ARCHIVE}, {"ibi": OTHER}, 1, registered),
    "unregister": Case({"ibi": ARCHIVE}, {"ibi": OTHER}, 1, registered),
    "settle-alert": Case({"ibi": ARCHIVE}, {"ibi": OTHER}, 1, disputed),
    "set": Case({"grace_seconds": 0.25}, {"grace_seconds": 0.5}, 1),
    "set-institution": Case({"name": "A network"}, {"name": "Another"}),
}


def peopled(data: Path) -> None:
    """There are two accounts and two tokens more."""
    for name in ("ada", "bob"):
        Accounts(data).add(name, Role.ADMINISTRATOR, PASSWORD, MADE)
        Tokens(data).make(name, MADE, [Scope.READ])


OF_ACCOUNTS: dict[str, Case] = {
    "add-account": Case({"name": "eva", "role": "administrator"}, {"name": "otto"}),
    "remove-account": Case({"name": "ada"}, {"name": "bob"}),
    "set-password": Case({"name": "ada"}, {"name": "bob"}),
    "set-role": Case({"name": "ada", "role": "administrator"}, {"name": "bob"}),
    "make-token": Case({"name": "eva", "scopes": ["read"]}, {"name": "otto"}),
    "revoke-token": Case({"name": "ada"}, {"name": "bob"}),
}


@dataclass
class RunningService:
    """A running service. `entries`: how many a history has; `at`: what the cases of its own acts know of it."""

    data: Path
    send: Callable[[JSONRequest, dict[str, str]], Reply]
    entries: Callable[[], int]
    at: Any

    def left(self) -> dict[str, Any]:
        """All that acts leave: entries, settings and lists, each with the time of its writing, and jobs."""
        files = [*self.data.glob("*.toml"), *self.data.glob("*.json"), *self.data.glob("evidence.jsonl")]
        written = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
        jobs = {each.id: each.state for each in Jobs(self.data, time.time, time.monotonic).all()}
        return {"entries": self.entries(), "files": written, "jobs": jobs}


@contextmanager
def an_archive(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[RunningService]:
    """A running Archive."""
    (folder / JSON).mkdir()
    with answering(Repository([article(1), article(2)])) as repository, ExitStack() as stack:
        at = Beginning.begin(stack, JSON, folder / JSON, capsys, repository.url)

        def send(request: JSONRequest, headers: dict[str, str]) -> Reply:
            return at.ways.program(
                request.method, request.target, request.body, **{**request.headers, **headers}
            )

        yield RunningService(at.ways.data, send, lambda: sum(map(len, at.history().values())), at)
        wait_for_jobs(at.ways.data)


@contextmanager
def a_resolver(folder: Path, _capsys: pytest.CaptureFixture[str]) -> Iterator[RunningService]:
    """A running resolver."""
    with administered_resolver(folder) as at:
        evidence = at.data / "evidence.jsonl"
        at.token(Scope.ADMIN)

        def send(request: JSONRequest, headers: dict[str, str]) -> Reply:
            more = {**request.headers, **headers}
            return at.ask(request.method, request.target, request.body, Scope.ADMIN, **more)

        def entries() -> int:
            return len(evidence.read_bytes().splitlines()) if evidence.exists() else 0

        yield RunningService(at.data, send, entries, at)


Act = tuple[str, Operation[Any, Any]]
Begin = Callable[[Path, pytest.CaptureFixture[str]], AbstractContextManager[RunningService]]
Acts = tuple[Operation[Any, Any], ...]
SERVICES: dict[str, tuple[Begin, Acts, dict[str, Case]]] = {
    "archive": (an_archive, (*of_an_archive.OPERATIONS, *accounts.OPERATIONS), AT_AN_ARCHIVE | OF_ACCOUNTS),
    "resolver": (a_resolver, (*of_a_resolver.OPERATIONS, *accounts.OPERATIONS), AT_A_RESOLVER | OF_ACCOUNTS),
}
ACTS: list[Act] = [(kind, each) for kind, (_, acts, _) in SERVICES.items() for each in acts if each.changes]
each_act = pytest.mark.parametrize("act", ACTS, ids=[f"{kind} {each.name}" for kind, each in ACTS])


@pytest.fixture
def service(tmp_path: Path, capsys: pytest.CaptureFixture[str], act: Act) -> Iterator[RunningService]:
    """The running service of an act, prepared for it."""
    with SERVICES[act[0]][0](tmp_path, capsys) as made:
        peopled(made.data)
        case_of(act).prepare(made.at)
        yield made


def case_of(act: Act) -> Case:
    """The fields of an act; there is none that has none."""
    kind, operation = act
    table = SERVICES[kind][2]
    assert operation.name in table, f"{operation.name} has no fields in the tables of this test"
    return table[operation.name]


def wait_until_done(service: RunningService, act: Act) -> None:
    """Wait until an act has been done, and whatever comes after it."""
    if act[1].is_long:
        wait_for_jobs(service.data)
    case_of(act).after(service.at)


def answered(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    """What a client is answered, but for the moment and the connection."""
    names = ("content-type", "location", "etag")
    return reply.status, reply.body, {name: reply.headers[name] for name in names if name in reply.headers}


def check_results(service: RunningService, operation: Operation[Any, Any]) -> None:
    """Check that each job of a long operation has left what this operation says that it gives."""
    for job in Jobs(service.data, time.time, time.monotonic).all():
        if job.operation == operation.name:
            result = {name: each for name, each in job.result.items() if name != "notes"}
            assert list(OAS31Validator(closed(operation.gives)).iter_errors(result)) == [], result


@each_act
def test_what_is_sent_twice_under_one_key_is_done_once(service: RunningService, act: Act) -> None:
    operation, case, before = act[1], case_of(act), service.left()
    values, headers = case.values(service.at), {"if_match": "*", "idempotency_key": "once"}
    first = service.send(request_for(operation, values), headers)
    assert first.status < 300, first.text
    wait_until_done(service, act)
    left = service.left()
    assert left["entries"] - before["entries"] == case.entries
    assert len(left["jobs"]) - len(before["jobs"]) == operation.is_long
    assert left != before
    check_results(service, operation)
    again = service.send(request_for(operation, values), headers)
    if operation.shown_once:
        assert (again.status, "not shown again" in again.text) == (409, True), again.text
    elif operation.name == "deposit":  # its key is kept with the item, which is there already
        assert (again.status, *answered(again)[1:]) == (200, *answered(first)[1:])
    else:
        assert answered(again) == answered(first)
    assert service.left() == left
    other = request_for(operation, {**values, **case.other})
    if not operation.fields.__struct_fields__:
        other = replace(other, body=b"{}", headers={"content_type": "application/json"})
    refused = service.send(other, headers)
    reason = (
        "this request has already created"
        if operation.name == "deposit"
        else "this Idempotency-Key was another"
    )
    assert (refused.status, reason in json.loads(refused.body)["detail"]) == (422, True), refused.text
    assert service.left() == left


WITHOUT_VERSION = {
    "archive": {"deposit", "copy", "import-bag", "harvest", "retire", "check", "repair", "settle", "index"},
    "resolver": set[str](),
}
"""Acts on what no GET shows, or none with an ETag: of If-Match they take only *."""


def seen(service: RunningService, target: str) -> str:
    """The ETag of what GET gives on the same path, or on the nearest one above it; "" if nothing has one."""
    path = target.partition("?")[0]
    while path:
        reply = service.send(JSONRequest("GET", path, None, {}), {})
        if reply.status == 200:
            return reply.headers.get("etag", "")
        path = path.rpartition("/")[0]
    return ""


@each_act
def test_what_has_another_version_is_not_changed_and_what_is_as_it_was_seen_is(
    service: RunningService, act: Act
) -> None:
    kind, operation = act
    request = request_for(operation, case_of(act).values(service.at))
    etag, before = seen(service, request.target), service.left()
    stale = service.send(request, {"if_match": '"of another time"'})
    assert stale.status == 412, stale.text
    assert service.left() == before
    assert (not etag) == (operation.name in WITHOUT_VERSION[kind])
    done = service.send(request, {"if_match": etag or "*"})
    assert done.status < 300, done.text
    wait_until_done(service, act)
    assert service.left() != before
