"""Changes of an Archive's settings: what is stored, refused and told; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ibi.archive.store.settings_changes import change_settings
from ibi.errors import IbiError, SetupError
from ibi.runtime.settings import ArchiveSettings
from ibi.runtime.settings.rules import ARCHIVE_BOUNDS
from support.archive.archive_fixture import settings_for

NO_LABELS = (
    "no labels can be made under this name (the host name b.localhost has no owner, so its labels are only for "
    "trying out)"
)


@pytest.mark.proves("ARC-10", "REG-08")
def test_a_new_address_is_said_from_then_on_and_the_old_one_still_answers() -> None:
    before = settings_for("old.example:8080", aliases=("www.old.example",))
    found = change_settings(before, {"address": "new.example"})
    assert found.settings.inclusion_request("1").address == "new.example"
    assert found.settings.aliases == ("www.old.example", "old.example:8080")
    assert found.settings.service == before.service
    assert "address" in found.changed
    links = "links with old.example:8080 go on being answered, as long as that name leads here"
    anew = "ibi archive serve --bind"
    listening = f"a running server goes on listening where it is; for another port, start it anew: {anew}"
    assert [str(note) for note in found.notes] == [links, listening]
    assert [str(note) for note in change_settings(before, {"address": "new.example:8080"}).notes] == [links]
    back = change_settings(found.settings, {"address": "OLD.example:8080"}).settings
    assert back.aliases == ("www.old.example", "new.example")


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({"ip": "192.88.98.2"}, True),
        ({"ip": "192.88.98.2", "mint_ip": "192.88.98.1"}, True),
        ({"ip": "192.88.98.2", "mint_ip": "192.88.98.2"}, False),
        ({"ip": "192.88.98.2", "mint_ip": ""}, False),
        ({"ip": "192.88.98.1"}, False),
    ],
    ids=str,
)
def test_who_changes_the_ip_is_told_that_ibips_are_still_made_of_the_old_one(
    changes: dict[str, str], *, warned: bool
) -> None:
    before = settings_for("a.example", ip="192.88.98.1", mint_host="a.example.org", mint_ip="192.88.98.1")
    notes = [str(note) for note in change_settings(before, changes).notes]
    warning = (
        "IBIps are still made of 192.88.98.1, until the setting mint_ip is changed; the next owner of that IP "
        "address may make the same ones"
    )
    assert notes == [warning] * warned


def test_who_changes_the_address_alone_is_told_under_which_name_labels_are_made() -> None:
    before = settings_for("a.example.org", ip="192.88.98.1", mint_host="a.example.org", mint_ip="192.88.98.1")
    sentence = "labels are still made under a.example.org, until the setting mint_host is changed"
    alone = change_settings(before, {"address": "b.example.org"})
    both = change_settings(before, {"address": "b.example.org", "mint_host": "b.example.org"})
    assert (sentence in map(str, alone.notes), sentence in map(str, both.notes)) == (True, False)


def test_larger_uploads_are_accepted_after_a_restart() -> None:
    before = settings_for("a.example")
    sentence = "larger files are accepted over HTTP once the Archive is restarted"
    for more in (-1, 0, 1):
        notes = change_settings(before, {"largest_upload": before.largest_upload + more}).notes
        assert [str(note) for note in notes] == [sentence] * (more > 0)


def test_readers_are_sent_to_a_store_only_where_the_files_are_in_one() -> None:
    before = settings_for("a.example")
    command = "ibi archive move-files --to s3://BUCKET/PREFIX"
    sentence = f"readers are sent to an S3 store as soon as the files are in one: {command}"
    for files in ("", "s3://bucket/prefix"):
        for redirect in (True, False):
            settings = replace(before, files=files, files_redirect=not redirect)
            notes = change_settings(settings, {"files_redirect": redirect}).notes
            assert [str(note) for note in notes] == [sentence] * (redirect and not files)
            assert change_settings(settings, {"admin": "b@a.example"}).notes == ()


def test_an_ip_of_which_no_ibips_are_made_is_changed_without_a_warning() -> None:
    before = settings_for("a.example", ip="192.88.98.1", mint_host="a.example.org", mint_ip="192.88.98.7")
    assert change_settings(before, {"ip": "192.88.98.2"}).notes == ()


def test_lists_are_replaced_and_said_once() -> None:
    found = change_settings(
        settings_for("a.example"), {"networks": ("10.0.0.0/8", "10.0.0.0/8", "2001:db8::/32")}
    )
    assert found.settings.networks == ("10.0.0.0/8", "2001:db8::/32")
    assert change_settings(found.settings, {"networks": ("",)}).settings.networks == ()
    assert change_settings(found.settings, {"aliases": ("b.example", "b.example")}).settings.aliases == (
        "b.example",
    )


def test_what_stays_as_it_is_has_not_changed() -> None:
    assert change_settings(settings_for("a.example"), {"reuse_seconds": 60}).changed == ()


HOST = "an address is a host, perhaps with a port: archive.example.org:8080"
NO_IP = "this is not an IP address"
NO_MAIL = "the address of the administrator is a mail address"
NO_NETWORK = "this is no address or network"
NO_LOCATION = "the internal location is a path such as /internal/, and this is not"
WHOLE, RATE = "is a whole number from", "is a number from 0 to 100000"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"address": "http://a.example"}, HOST),
        ({"address": "a.example:99999"}, HOST),
        ({"aliases": ("a/b",)}, HOST),
        ({"ip": "a.example"}, NO_IP),
        ({"mint_ip": "300.1.1.1"}, NO_IP),
        ({"admin": "nobody"}, f"{NO_MAIL}: nobody"),
        ({"admin": "a b@c"}, f"{NO_MAIL}: a b@c"),
        ({"networks": ("10.0.0.1/8",)}, f"{NO_NETWORK}: 10.0.0.1/8 has host bits set"),
        ({"trusted_resolvers": ("resolver.example",)},
         f"{NO_NETWORK}: 'resolver.example' does not appear to be an IPv4 or IPv6 network"),
        ({"trusted_proxies": ("10.0.0.0/99",)},
         f"{NO_NETWORK}: '10.0.0.0/99' does not appear to be an IPv4 or IPv6 network"),
        ({"reuse_seconds": 86_401}, f"reuse_seconds {WHOLE} 0 to 86400"),
        ({"largest_upload": 0}, f"largest_upload {WHOLE} 1 to 1125899906842624"),
        ({"audit_days": 10_000}, f"audit_days {WHOLE} 0 to 3650"),
        ({"refresh_hours": 9_000}, f"refresh_hours {WHOLE} 0 to 8760"),
        ({"page_rate": -1.0}, f"page_rate {RATE}"),
        ({"page_rate": float("nan")}, f"page_rate {RATE}"),
        ({"costly_rate": float("inf")}, f"costly_rate {RATE}"),
        ({"page_burst": 0}, f"page_burst {WHOLE} 1 to 1000000"),
        ({"costly_burst": 1 << 40}, f"costly_burst {WHOLE} 1 to 1000000"),
        ({"granularity": "7"}, "a granularity is 60, 1, 0.1, 0.01, ... down to 0.000000001 seconds"),
        ({"accel_prefix": "internal"}, f"{NO_LOCATION}: internal"),
        ({"accel_prefix": "/a/../b"}, f"{NO_LOCATION}: /a/../b"),
        ({"accel_prefix": "/a b"}, f"{NO_LOCATION}: /a b"),
        ({"files_group": "no such group"}, "this machine has no group no such group"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_written(
    changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(IbiError) as found:
        change_settings(settings_for("a.example"), changes)
    assert str(found.value) == sentence


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"public_url": "http://a.example/"}, {"public_url": "http://a.example"}),
        ({"ip": "192.88.98.1"}, {"ip": "192.88.98.1"}),
        ({"aliases": ("", "b.example", "c.example", "b.example")}, {"aliases": ("b.example", "c.example")}),
        ({"address": "b.example", "aliases": ("c.example", "B.example")},
         {"address": "b.example", "aliases": ("c.example", "a.example")}),
        ({"backup_folder": "a/../b"}, {"backup_folder": str(Path("b").resolve())}),
        ({"geo_database": __file__}, {"geo_database": str(Path(__file__).resolve())}),
        ({"backup_folder": "", "geo_database": "", "files_group": "", "mint_ip": ""}, {}),
        ({"trusted_proxies": ("", "10.0.0.1", "10.0.0.1/32")}, {"trusted_proxies": ("10.0.0.1/32",)}),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_is_kept_in_one_form(given: dict[str, object], kept: dict[str, object]) -> None:
    before = settings_for("a.example")
    found = change_settings(before, given)
    assert found.settings == replace(before, **kept)  # type: ignore[arg-type]  # what a test gives is right
    assert found.changed == tuple(kept)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"admin": " "}, "give the administrator a mail address, such as maria@archive.example"),
        ({"geo_database": "/nowhere/at/all.mmdb"}, "/nowhere/at/all.mmdb does not exist"),
        ({"mint_host": "b.localhost"}, f"{NO_LABELS}; the setting mint_host gives another one"),
    ],
    ids=str,
)  # fmt: skip
def test_the_reason_of_a_refusal_is_told_whole(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(SetupError) as raised:
        change_settings(settings_for("a.example"), changes)
    assert str(raised.value) == sentence


def test_every_number_that_an_operator_may_set_has_its_default_within_its_limits() -> None:
    settings = settings_for("a.example")
    numbers = {name: getattr(settings, name) for name in ARCHIVE_BOUNDS}
    assert change_settings(settings, numbers).changed == ()
    assert isinstance(settings, ArchiveSettings)


def test_the_labels_may_be_given_up_and_taken_up_again() -> None:
    without = change_settings(
        settings_for("a.example", mint_host="a.example.org"), {"mint_host": "", "mint_ip": ""}
    ).settings
    assert without.mint_host == ""
    again = change_settings(without, {"mint_host": "b.example", "for_trying": True})
    assert set(again.changed) == {"mint_host", "for_trying"}
