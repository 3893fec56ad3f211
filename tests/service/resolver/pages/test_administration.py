"""The administration of a resolver over HTTP: who takes part, what was alarming, what was written down."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import unescape
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.resolver.evidence import reading
from ibi.resolver.evidence.chain import Entry
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.members.settings_changes import CHANGEABLE_OVER_HTTP
from ibi.resolver.model.archive import Move
from ibi.runtime.settings import ResolverSettings
from ibi.web.rendering import moment
from support.archive.archive_fixture import Answer
from support.resolver.administration_fixture import AdministeredResolver, administered_resolver, unwritable

FIRST, SECOND = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39", "a.example/b/2014/01.01.00.00"
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def running(tmp_path: Path) -> Iterator[AdministeredResolver]:
    with administered_resolver(tmp_path) as made:
        yield made


def test_an_application_is_approved_and_another_refused_under_the_name_of_the_account(
    running: AdministeredResolver,
) -> None:
    for service in (FIRST, SECOND):
        running.registry.apply(parse_ibi(service), "archive.example", "ada@archive.example", HOSTILE, ())
    root = running.browser("root")
    assert "Archives that want to be registered: 2" in root.look("/-/admin").text
    page = root.look("/-/admin/applications")
    assert FIRST in page.text
    assert "<script>alert" not in page.text
    assert root.send("/-/admin/applications", ("ibi", FIRST), ("what", "approve")).status == 303
    assert root.send("/-/admin/applications", ("ibi", SECOND), ("what", "refuse")).status == 422
    refusal = ("ibi", SECOND), ("what", "refuse"), ("reason", "Not ours.")
    assert root.send("/-/admin/applications", *refusal).status == 303
    assert root.send("/-/admin/applications", ("ibi", SECOND), ("what", "approve")).status == 422
    assert root.send("/-/admin/applications", ("ibi", "nothing"), ("what", "approve")).status == 422
    known = running.registry.entry(parse_ibi(FIRST))
    assert known is not None
    assert not known.applied
    assert running.registry.entry(parse_ibi(SECOND)) is None
    assert FIRST in root.look("/-/admin/archives").text
    page = root.look("/-/admin/log?what=approved")
    assert "account root" in page.text
    assert SECOND not in page.text


@pytest.mark.parametrize("what", ["approve", "refuse"])
def test_an_application_that_was_exchanged_meanwhile_is_looked_at_again(
    running: AdministeredResolver, what: str
) -> None:
    service = parse_ibi(FIRST)

    def apply(address: str) -> str:
        running.registry.apply(service, address, "ada@archive.example", "Ada", ())
        page = root.look("/-/admin/applications").text
        return unescape(re.findall('name="version" value="([^"]+)"', page)[0])

    root = running.browser("root")
    seen = apply("archive.example")
    running.registry.refuse(service)  # another administrator, upon which the Archive applies once more
    new = apply("other.example")
    fields = ("ibi", FIRST), ("what", what), *([("reason", "Not ours.")] if what == "refuse" else [])
    refused = root.send("/-/admin/applications", ("version", seen), *fields)
    assert (refused.status, "changed meanwhile" in refused.text) == (422, True)
    known = running.registry.entry(service)
    assert known is not None
    assert known.applied
    assert root.send("/-/admin/applications", ("version", new), *fields).status == 303


def test_alerts_of_two_originals_are_shown_with_their_evidence(running: AdministeredResolver) -> None:
    evidence = Evidence(running.data / EVIDENCE_FILE, time.time)
    evidence.write("original", ibi=f"rep {FIRST} ibip J8LNKB5R7W/3FUQHC5", archive=SECOND)
    evidence.write("alert", kind="suspect-originals", ibi=FIRST.upper(), archives=f"{SECOND} {HOSTILE}")
    evidence.write("alert", kind="not-found", ibi="x")
    [anchor] = [entry.hash[:16] for entry in evidence.entries() if entry.facts["ibi"] == FIRST.upper()]
    evidence.close()
    root = running.browser("root")
    assert "Alerts of two originals of one item: 1" in root.look("/-/admin").text
    alerts = root.look("/-/admin/alerts")
    for page in (root.look("/-/admin"), alerts):
        assert FIRST.upper() in page.text
        assert anchor in page.text
        assert "<script>alert" not in page.text
    assert f"First seen with the original: {SECOND}" in alerts.text
    root.look("/-/admin/alerts")
    assert root.send("/-/admin/alerts", ("ibi", FIRST)).status == 303
    assert "Settled by account root" in root.look("/-/admin/alerts").text
    assert "Alerts of two originals of one item" not in root.look("/-/admin").text
    assert root.send("/-/admin/alerts", ("ibi", FIRST)).status == 422


def test_a_long_log_is_read_page_by_page_and_of_each_no_more_than_must_be(tmp_path: Path) -> None:
    evidence, path = Evidence(tmp_path / EVIDENCE_FILE, time.time), tmp_path / EVIDENCE_FILE
    for number in range(400):
        evidence.write(
            "registered", ibi=f"item {number} {'x' * 1000}", by="command" if number % 9 else "form"
        )
    evidence.close()
    with path.open("ab") as file:
        file.write(b"nothing that we wrote\n")
    pages = paged(path, lambda entry: entry.facts["by"] == "form", 7)
    assert max(len(found.entries) for found in pages) <= 7
    assert [found.unread for found in pages if found.unread] == [1]
    seen = [entry.number for found in pages for entry in found.entries]
    assert seen == [number + 1 for number in range(400) if number % 9 == 0][::-1]
    assert [each.number for each in reading.read_slice(path, lambda _: True, 200, 2).entries] == [199, 198]
    assert reading.read_slice(path, lambda _: True, 10**17, 1).entries[0].number == 400
    path.unlink()
    assert reading.read_slice(path, lambda _: True) == ([], 0, 0)


def test_lines_that_cannot_be_read_end_no_page_in_silence_and_all_before_them_are_found(
    tmp_path: Path,
) -> None:
    path = tmp_path / EVIDENCE_FILE

    def write(count: int) -> None:
        evidence = Evidence(path, time.time)
        for number in range(count):
            evidence.write("registered", ibi=f"item {number}", by="command")
        evidence.close()

    write(20)
    with path.open("ab") as file:
        file.write(b"x\n" * 50_000 + b"y" * 100_000 + b"\n" + b"z\n" * 7)
    (tmp_path / "evidence.head").unlink()
    write(20)
    pages = paged(path, lambda _: True, 10)
    seen = [entry.facts["ibi"] for found in pages for entry in found.entries if entry.what == "registered"]
    assert seen == [f"item {number}" for number in reversed(range(20))] * 2
    assert 50_000 + 1 + 7 <= sum(found.unread for found in pages) <= 50_000 + 7 + 8  # the long one in pieces
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"number":42,"mom')  # a write in progress
    assert reading.read_slice(path, lambda _: True, most=1).unread == 0
    path.write_bytes(b"\0" * whole)
    pages = paged(path, lambda _: True, 10)
    assert [found.entries for found in pages] == [[]] * len(pages)
    assert all(found.unread for found in pages[1:])  # the end might be a write in progress


def paged(path: Path, wanted: Callable[[Entry], bool], most: int) -> list[reading.LogSlice]:
    """All pages of a log, each of which looks at little."""
    pages = [reading.read_slice(path, wanted, 0, most, slice_bytes=30_000)]
    while pages[-1].at:
        pages.append(reading.read_slice(path, wanted, 0, most, slice_bytes=30_000, at=pages[-1].at))
        assert pages[-1].at < pages[-2].at
        assert len(pages) < 1000
    return pages


@pytest.mark.one_store("sqlite", "writes into the file of the evidence")
def test_more_unreadable_lines_than_one_page_looks_at_are_told_and_there_is_a_way_past_them(
    running: AdministeredResolver,
) -> None:
    evidence = Evidence(running.data / EVIDENCE_FILE, time.time)
    evidence.write("alert", kind="suspect-originals", ibi=FIRST, archives=SECOND)
    with (running.data / EVIDENCE_FILE).open("ab") as file:
        file.write(b"nothing that we wrote\n" * 50_000)
    evidence.close()
    root = running.browser("root")
    for name in ("log", "alerts"):
        page = root.look(f"/-/admin/{name}")
        assert "Lines here that are not as they were written, and so are not shown: 4" in page.text
        assert FIRST not in page.text
        following = re.search(rf'href="(/-/admin/{name}\?at=\d+)"', page.text)
        assert following
        assert FIRST in root.look(following[1]).text
        facts = running.get_json(f"/{name}")
        assert facts["unread"] > 40_000
        facts = running.ask("GET", facts["next"].removeprefix("/-/api"), None, Scope.READ).content()
        assert FIRST in str(facts)
        assert "next" not in facts


def test_alerts_are_worked_out_once_while_nothing_is_written_and_by_one_at_a_time(
    running: AdministeredResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked, here = Counter[int](), Semaphore(1)
    look: Callable[..., reading.LogSlice] = reading.read_slice

    def counted(*what: Any, at: int) -> reading.LogSlice:
        assert here.acquire(blocking=False)  # no other thread reads them
        worked[at] += 1
        try:
            if worked == {0: 1}:
                time.sleep(0.2)  # the others come meanwhile
            return look(*what, at=at)
        finally:
            here.release()

    monkeypatch.setattr(reading, "read_slice", counted)
    evidence = Evidence(running.data / EVIDENCE_FILE, time.time)
    evidence.write("alert", kind="suspect-originals", ibi=FIRST, archives=SECOND)
    running.token(Scope.READ)
    with ThreadPoolExecutor(8) as many:
        found = list(many.map(lambda _: len(running.get_json("/alerts")["alerts"]), range(24)))
    root = running.browser("root")
    assert FIRST in root.look("/-/admin/alerts").text
    assert FIRST in root.look("/-/admin").text
    assert (found, worked[0]) == ([1] * 24, 1)
    evidence.write("alert", kind="suspect-originals", ibi=SECOND, archives=FIRST)
    evidence.close()
    assert [each["ibi"] for each in running.get_json("/alerts")["alerts"]] == [SECOND, FIRST]
    for _ in range(3):
        for place in range(1, reading.MOST_CACHED):
            running.get_json(f"/alerts?at={place}")
        running.get_json("/alerts")
    assert set(worked.values()) == {1, 2}
    assert worked[0] == 2
    for place in range(100, 100 + reading.MOST_CACHED):
        running.get_json(f"/alerts?at={place}")
    assert running.get_json("/alerts")["alerts"]
    assert worked[0] == 3  # no more than so many pages are remembered


def filled(page: Answer, **changes: str) -> list[tuple[str, str]]:
    """The form of the settings on a page as a browser sends it, with some fields changed."""
    was = [
        (name, unescape(value)) for name, value in re.findall(r'name="was\.(\w+)" value="([^"]*)"', page.text)
    ]
    assert {name for name, _ in was} == set(CHANGEABLE_OVER_HTTP)
    return [(f"was.{name}", value) for name, value in was] + list((dict(was) | changes).items())


def test_a_policy_is_changed_on_a_page_counts_and_stands_in_the_log(running: AdministeredResolver) -> None:
    root = running.browser("root")
    page = root.look("/-/admin/policies")
    assert "SECRETKEY" not in page.text
    assert root.send("/-/admin/policies", *filled(page)).headers["location"].endswith("unchanged")
    form = filled(page, policy="strict", negative_seconds="5", admin="a@b.example")
    assert root.send("/-/admin/policies", *form).status == 303
    settings = ResolverSettings.read(running.data)
    assert (settings.policy, settings.negative_seconds, settings.admin) == ("strict", 5, "a@b.example")
    page = root.look("/-/admin/policies")
    wrong = root.send("/-/admin/policies", *filled(page, negative_seconds="many", policy="hardened"))
    assert wrong.status == 422
    assert 'value="many"' in wrong.text
    for field in (("archive_seconds", "-1"), ("request_rate", "nan"), ("policy", HOSTILE), ("admin", "x y")):
        refused = root.send("/-/admin/policies", *filled(page, **dict([field])))
        assert refused.status == 422
        assert "<script>alert" not in refused.text
    older = root.send("/-/admin/policies", ("policy", "hardened"))  # it does not tell what it was made from
    assert (older.status, "open the page again" in older.text) == (422, True)
    assert ResolverSettings.read(running.data) == settings
    text = root.look("/-/admin/log?what=setting").text
    assert "account root" in text
    assert "negative_seconds" in text
    assert "archive_seconds" not in text


NEGATIVE_LABEL = "Seconds for which the resolver remembers that no Archive holds an item; 0: not at all"
"""The label of negative_seconds."""


@pytest.mark.one_store("sqlite", "a comment is in the file of the settings")
def test_a_page_leaves_comments_and_what_the_environment_decides(
    running: AdministeredResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = running.data / "resolver.toml"
    path.write_text(f"# Ask Maria first.\n{path.read_text()}")
    root = running.browser("root")
    page = root.look("/-/admin/policies")
    assert root.send("/-/admin/policies", *filled(page, negative_seconds="5")).status == 303
    assert path.read_text().startswith("# Ask Maria first.\n")
    monkeypatch.setenv("IBI_RESOLVER_NEGATIVE_SECONDS", "9")
    page = root.look("/-/admin/policies")
    refused = root.send("/-/admin/policies", *filled(page, negative_seconds="6"))
    assert refused.status == 422
    assert (
        f"“{NEGATIVE_LABEL}” is decided by IBI_RESOLVER_NEGATIVE_SECONDS in the environment" in refused.text
    )
    assert root.send("/-/admin/policies", *filled(page, overall_seconds="7")).status == 303
    assert "negative_seconds = 5" in path.read_text()


def test_two_administrators_who_change_different_settings_undo_nothing(running: AdministeredResolver) -> None:
    ada, root = running.browser("root"), running.browser("root")
    hers, his = ada.look("/-/admin/policies"), root.look("/-/admin/policies")
    assert ada.send("/-/admin/policies", *filled(hers, policy="strict", overall_seconds="7")).status == 303
    assert root.send("/-/admin/policies", *filled(his, negative_seconds="5")).status == 303
    settings = ResolverSettings.read(running.data)
    assert (settings.policy, settings.overall_seconds, settings.negative_seconds) == ("strict", 7, 5)
    log = [
        entry.facts
        for entry in Evidence(running.data / EVIDENCE_FILE, time.time).entries()
        if entry.what == "setting"
    ]
    assert [(facts["name"], facts["after"]) for facts in log] == [
        ("policy", "strict"), ("overall_seconds", "7"), ("negative_seconds", "5"),
    ]  # fmt: skip


def test_two_administrators_who_change_the_same_setting_are_told_beside_it(
    running: AdministeredResolver,
) -> None:
    ada, root = running.browser("root"), running.browser("root")
    hers, his = ada.look("/-/admin/policies"), root.look("/-/admin/policies")
    theirs = {"negative_seconds": "7", "admin": "ada@b.example", "request_burst": "9", "hedge_seconds": "0.5"}
    assert ada.send("/-/admin/policies", *filled(hers, **theirs)).status == 303
    before = ResolverSettings.read(running.data)
    form = filled(his, negative_seconds="5", admin="root@b.example", request_burst="9", grace_seconds="0.3")
    sent = root.send("/-/admin/policies", *form)
    assert sent.status == 409
    assert ResolverSettings.read(running.data) == before  # all or nothing
    [beside] = re.findall(r'<p class="fault" id="fault">([^<]*)</p>', sent.text)
    changed = f"Somebody else has changed “{NEGATIVE_LABEL}” meanwhile, so nothing was saved: now it is 7"
    assert beside == changed
    assert re.findall(r'<p class="theirs">[^<]*<q>([^<]*)</q>', sent.text) == ["ada@b.example"]
    for shown in ('value="5"', 'value="root@b.example"', 'value="9"', 'value="0.5"', 'value="0.3"'):
        assert shown in sent.text
    typed = {"negative_seconds": "5", "admin": "root@b.example", "grace_seconds": "0.3"}
    again = root.send("/-/admin/policies", *filled(sent, **typed))
    assert again.status == 303
    after = replace(before, negative_seconds=5, admin="root@b.example", grace_seconds=0.3)
    assert ResolverSettings.read(running.data) == after


def test_a_setting_whose_change_cannot_be_written_down_stays_as_it_is(running: AdministeredResolver) -> None:
    before = ResolverSettings.read(running.data)
    with unwritable(running.data):
        answer = running.ask("PATCH", "/settings", {"negative_seconds": 5}, Scope.ADMIN)
    assert answer.status in {503, 507}
    assert ResolverSettings.read(running.data) == before


def test_the_move_of_an_archive_its_new_key_and_its_end_are_written_down(
    running: AdministeredResolver,
) -> None:
    key = running.registry.register(parse_ibi(FIRST), None)
    running.registry.hold_move(parse_ibi(FIRST), Move("new.example", "192.0.2.7", 1.0))
    root = running.browser("root")
    page = root.look("/-/admin/archives")
    assert "Let it move once" in page.text
    assert "Archives that want to move: 1" in root.look("/-/admin").text
    assert "new.example" in page.text
    assert root.send("/-/admin/archives", ("ibi", FIRST), ("what", "move")).status == 303
    assert "may move once" in root.look("/-/admin/archives?done=may-move").text
    assert root.send("/-/admin/archives", ("ibi", FIRST), ("what", "key")).status == 422
    shown = root.send("/-/admin/archives", ("ibi", FIRST), ("what", "key"), ("sure", "yes"))
    made = re.search(r"<pre>([0-9-]+)</pre>", shown.text)
    assert made
    assert made[1] != key
    assert running.registry.check_key(parse_ibi(FIRST), made[1])
    assert root.send("/-/admin/archives", ("ibi", FIRST), ("what", "forget"), ("sure", "yes")).status == 303
    assert running.registry.entry(parse_ibi(FIRST)) is None
    entries = list(Evidence(running.data / EVIDENCE_FILE, time.time).entries())
    assert [entry.what for entry in entries] == ["move-allowed", "rotated", "unregistered"]
    assert entries[0].facts == {"ibi": FIRST, "address": "new.example", "by": "account root"}


def test_an_archive_that_may_not_be_contacted_is_not_asked_and_its_page_says_why(
    running: AdministeredResolver,
) -> None:
    service = parse_ibi(FIRST)
    running.registry.apply(service, "127.0.0.1:8080", "ada@archive.example", "Ada", ())
    root = running.browser("root")
    root.look("/-/admin/applications")
    assert root.send("/-/admin/applications", ("ibi", FIRST), ("what", "ask")).status == 303
    page = root.look("/-/admin/applications").text
    assert "Its address may not be contacted" in page
    assert "ibi resolver set --data DIR allow_private_archives yes" in page
    assert "It did not answer" not in page
    running.registry.approve(service)
    assert root.send("/-/admin/archives", ("ibi", FIRST), ("what", "ask")).status == 303
    page = root.look(f"/-/admin/archives/{FIRST}").text
    assert "must not be contacted" in page
    assert "It gave no answer" not in page


def test_an_application_shows_what_is_known_of_it_before_it_is_asked_again(
    running: AdministeredResolver,
) -> None:
    own, other = parse_ibi(SECOND), parse_ibi(FIRST)
    running.registry.apply(own, "B.A.example:81", "ada@archive.example", "Ada", ())
    running.registry.apply(other, "elsewhere.example", "ada@archive.example", "Ada", ())
    page = running.browser("root").look("/-/admin/applications").text
    words = " ".join(re.sub("<[^>]*>", " ", page).split())
    good, other_good = (part.split(" Approve ")[0] for part in words.split(" Applied ")[1:])
    for part in (good, other_good):
        assert (
            "Passed: Its address may be contacted Passed: It answered at its address as this service" in part
        )
    assert good.endswith("Passed: Its names begin with its own host")
    assert "Not certain: Its names begin with another host, mtc-m21.sid.inpe.br: ask the" in other_good


def test_when_an_archive_was_heard_last_is_shown_also_after_it_has_switched_itself_off(
    running: AdministeredResolver,
) -> None:
    service = parse_ibi(FIRST)
    key = running.registry.register(service, None)
    root = running.browser("root")
    assert "never" in root.look(f"/-/admin/archives/{FIRST}").text
    request = InclusionRequest("archive.example", service, "192.0.2.1", "1", "ada@archive.example", key)
    assert running.registry.include(request, running.registry.open_change(service), confirmed=True)
    assert running.registry.exclude(service, running.registry.open_change(service))
    known = running.registry.entry(service)
    assert known is not None
    assert known.heard_at is not None
    page = root.look(f"/-/admin/archives/{FIRST}").text
    assert f"<dt>Last response</dt><dd>{moment(known.heard_at, 'en')}</dd>" in page
    assert "never" not in page


def test_the_settings_are_shown_without_secrets_and_every_page_is_there(
    running: AdministeredResolver,
) -> None:
    root = running.browser("root")
    for word in ("", "/applications", "/archives", "/alerts", "/log", "/policies", "/accounts", "/account"):
        page = root.look(f"/-/admin{word}", "pt-BR")
        assert page.status == 200, word
        assert "SECRETKEY" not in page.text
        assert page.headers["content-language"] == "pt-BR"
    assert root.look("/-/admin/deposit").status == 404
    assert "hardened" in root.look("/-/admin/policies").text


def test_no_one_else_gets_in_and_readers_are_served_as_before(running: AdministeredResolver) -> None:
    stranger = running.browser()
    assert stranger.look("/-/admin/log").status == 303
    assert stranger.sign_in("root", "something else").status == 403
    assert stranger.sign_in("root", origin="http://far.example").status == 403
    assert stranger.look("/-/admin", "en").status == 303
    assert stranger.ask("GET", "/-/admin", None, host="far.example").status == 421
    assert stranger.look("/").status == 200
    assert stranger.look("/-/administrator").status == 404
    root = running.browser("root")
    root.look("/-/admin/applications")
    forged = root.post("/-/admin/applications", ("form_token", "x"), ("ibi", FIRST), ("what", "approve"))
    assert forged.status == 403


def test_accounts_are_made_at_the_terminal(
    running: AdministeredResolver, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["resolver", "account", "add", "ada", "--role", "administrator", "--generate"]
    assert main([*words, "--data", str(running.data)]) == 0
    password = capsys.readouterr().out.strip()
    ada = running.browser()
    assert ada.sign_in("ada", password).status == 303
    assert re.search(r"ada", ada.look("/-/admin/accounts").text)
    assert main(["resolver", "account", "remove", "ada", "--data", str(running.data)]) == 0
    assert ada.look("/-/admin").status == 303


def test_a_long_list_of_archives_is_read_page_by_page_and_stays_narrowed(
    running: AdministeredResolver,
) -> None:
    for number in range(45):
        running.registry.register(parse_ibi(f"many.example/w/2020/01.01.00.{number:02}"), None)
    root = running.browser("root")
    path, page, seen, sizes = "/-/admin/archives?text=many.example", "", set[str](), []
    while path:
        page = root.look(path).text
        shown = set(re.findall(r"many\.example/w/2020/01\.01\.00\.[0-9]{2}", page))
        sizes.append(len(shown))
        seen |= shown
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = unescape(following[1]) if following else ""
        assert not path or "text=many.example" in path
    assert (sizes, len(seen)) == ([20, 20, 5], 45)
    back = re.search(r'rel="prev" href="([^"]+)"', page)
    assert back is not None
    assert unescape(back[1]) == "/-/admin/archives?text=many.example&from=20"
