"""Changes of settings: each value as it is read, each refusal whole, what is written down and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibi.errors import SetupError
from ibi.http.response import Refusal
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import ArchiveTitles
from ibi.resolver.members.registrar import application_facts, archive_facts
from ibi.resolver.members.settings_changes import (
    CHANGEABLE_BY_COMMAND,
    CHANGEABLE_OVER_HTTP,
    change_settings,
    checked_setting,
    setting_text,
)
from ibi.resolver.model.archive import Archive, Move, RegisteredArchive
from ibi.runtime.settings import ResolverSettings
from support.resolver.membership_fixture import RecordedEvidence

SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53")


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("negative_seconds", "5", 5),
        ("negative_seconds", 5, 5),
        ("archive_seconds", "0,5", 0.5),
        ("archive_seconds", 2, 2.0),
        ("policy", "strict", "strict"),
        ("admin", "ada@a.example", "ada@a.example"),
        ("admin", "", ""),
        ("aliases", " a.example, b.example:81,, a.example ", ("a.example", "b.example:81")),
        ("allow_private_archives", "yes", True),
        ("allow_private_archives", "true", True),
        ("allow_private_archives", "no", False),
        ("allow_private_archives", "false", False),
        ("metrics_networks", "10.0.0.0/8,::1", ("10.0.0.0/8", "::1/128")),
        ("public_url", "https://urlib.net/", "https://urlib.net"),
        ("public_url", "", ""),
    ],
)
def test_a_value_is_read_from_json_or_as_it_was_typed(name: str, value: Any, read: Any) -> None:
    found = checked_setting(name, value, CHANGEABLE_BY_COMMAND)
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("service", "x", f"service is no setting that is changed here; these are: {', '.join(CHANGEABLE_BY_COMMAND)}"),
        ("x" * 81, "x",
         f"{'x' * 80} is no setting that is changed here; these are: {', '.join(CHANGEABLE_BY_COMMAND)}"),
        ("policy", "loose", "policy is one of: hardened, strict"),
        ("registration", "open", "registration is one of: closed, form"),
        ("allow_private_archives", "perhaps", "allow_private_archives is yes or no"),
        ("allow_private_archives", True, "allow_private_archives is yes or no"),
        ("admin", "x y", "this is not a plain mail address: x y"),
        ("metrics_networks", "x",
         "this is no address or network: 'x' does not appear to be an IPv4 or IPv6 network"),
        ("public_url", "ftp://x",
         "a public URL is a scheme and a host, such as https://archive.example, and this is not: ftp://x"),
    ],
)  # fmt: skip
def test_any_other_value_is_refused(name: str, value: Any, problem: str) -> None:
    with pytest.raises(SetupError) as caught:
        checked_setting(name, value, CHANGEABLE_BY_COMMAND)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("negative_seconds", "x"), ("negative_seconds", "1.5"), ("negative_seconds", -1), ("negative_seconds", None),
        ("archive_seconds", "nan"), ("archive_seconds", "x"), ("archive_seconds", True),
    ],
)  # fmt: skip
def test_what_is_out_of_its_bounds_names_its_setting(name: str, value: Any) -> None:
    with pytest.raises(SetupError) as caught:
        checked_setting(name, value, CHANGEABLE_BY_COMMAND)
    assert caught.value.details.get("name") == name


def test_a_value_is_written_as_a_person_types_it() -> None:
    shown = [setting_text(each) for each in (True, False, ("a", "b"), (), 3.0, 0.05, 7, "x")]
    assert shown == ["yes", "no", "a,b", "", "3", "0.05", "7", "x"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    ResolverSettings(address="urlib.net", service=SERVICE).write(tmp_path)
    return tmp_path


def test_what_changes_is_written_down_before_and_told(data: Path) -> None:
    evidence, seen = RecordedEvidence(), list[ResolverSettings]()
    before = ResolverSettings.read(data)
    changes = {"policy": "strict", "negative_seconds": "60", "stale_seconds": 9}
    found = change_settings(data, changes, CHANGEABLE_OVER_HTTP, evidence, "account root", check=seen.append)
    after = ResolverSettings.read(data)
    assert (after.policy, after.negative_seconds, after.stale_seconds) == ("strict", 60, 9)
    assert (found.settings, found.changed, seen) == (after, ("policy", "stale_seconds"), [before])
    assert [str(each) for each in found.notes] == [
        "stale_seconds takes effect once the resolver is restarted"
    ]
    assert evidence.recorded == [
        ("setting", {"name": "policy", "before": "hardened", "after": "strict", "by": "account root"}),
        ("setting", {"name": "stale_seconds", "before": "86400", "after": "9", "by": "account root"}),
    ]
    again = change_settings(data, changes, CHANGEABLE_OVER_HTTP, evidence, "account root")
    assert (again.changed, again.notes, len(evidence.recorded)) == ((), (), 2)


def test_all_is_changed_or_nothing(data: Path) -> None:
    evidence, before = RecordedEvidence(), ResolverSettings.read(data)

    def change(*, names: Any = CHANGEABLE_OVER_HTTP, **changes: Any) -> None:
        change_settings(data, changes, names, evidence, "x")

    for changes in ({"policy": "strict", "negative_seconds": "x"}, {"policy": "strict", "public_url": ""}):
        with pytest.raises(SetupError):
            change(**changes)
    evidence.full = True
    with pytest.raises(SetupError):
        change(policy="strict")
    assert (evidence.recorded, ResolverSettings.read(data)) == ([], before)


def test_what_another_administrator_has_changed_is_not_undone(data: Path) -> None:
    evidence = RecordedEvidence()
    for shown, now in (({"admin": "old@a.example"}, "-"), ({"admin": "older@a.example"}, "ada@a.example")):
        with pytest.raises(Refusal) as refused:
            change_settings(data, {"admin": "me@a.example"}, CHANGEABLE_OVER_HTTP, evidence, "x", shown)
        assert (refused.value.status, str(refused.value)) == (
            409, f"somebody else has changed admin meanwhile, so nothing was saved: now it is {now}",
        )  # fmt: skip
        change_settings(data, {"admin": "ada@a.example"}, CHANGEABLE_OVER_HTTP, evidence, "x")
    # Who has typed what it is now, or has seen what it is, undoes nothing.
    for value, seen in (("ada@a.example", "x"), ("me@a.example", "ada@a.example")):
        change_settings(data, {"admin": value}, CHANGEABLE_OVER_HTTP, evidence, "x", {"admin": seen})
    assert ResolverSettings.read(data).admin == "me@a.example"


def test_the_facts_of_an_archive_are_told_whole_and_nothing_of_its_key() -> None:
    service = parse_ibi("a.example/w/2020/01.01.00.00")
    archive = Archive(service, "a.example:81", "192.0.2.1", "HTTP", "1", "ada@a.example", confirmed=False)
    known = RegisteredArchive(
        service, ("c.example",), "2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z", archive, contact="bob@a.example",
        contact_name="Bob", address="a.example:81", heard_at="2026-11-03T10:00:00Z", confirmed_address="old.example",
        move=Move("new.example", "192.0.2.2", 0.0), key_hash="$argon2", titles=ArchiveTitles("The Sea", "O Mar"),
    )  # fmt: skip
    common = {
        "service_ibi": str(service), "title": "The Sea", "title_pt": "O Mar", "mail": "bob@a.example", "name": "Bob",
        "url_hosts": ["c.example"],
    }  # fmt: skip
    facts = {
        **common, "registered": "2026-11-01T10:00:00Z", "included": True, "changed": "2026-11-02T10:00:00Z",
        "heard": "2026-11-03T10:00:00Z", "confirmed_address": "old.example", "moving_to": "new.example",
    }  # fmt: skip
    of_inclusion = {
        "address": "a.example:81", "ip": "192.0.2.1", "protocol": "HTTP", "platform_version": "1",
        "admin_mail": "ada@a.example", "confirmed": False,
    }  # fmt: skip
    assert archive_facts(known) == {**facts, **of_inclusion}
    bare = RegisteredArchive(service, (), "2026-11-01T10:00:00Z", None, None)
    assert archive_facts(bare) == {
        **dict.fromkeys(facts), **dict.fromkeys(("title", "title_pt", "mail", "name"), ""), "service_ibi": str(service),
        "registered": "2026-11-01T10:00:00Z", "included": False, "url_hosts": [],
    }  # fmt: skip
    assert application_facts(known) == {
        **common,
        "applied": "2026-11-01T10:00:00Z",
        "address": "a.example:81",
    }
