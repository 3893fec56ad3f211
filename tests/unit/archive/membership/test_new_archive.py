"""What an Archive gets that is created with some options, and what its administrator is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibi.archive.membership.founding import NewArchiveOptions, create_archive, trial_host
from ibi.archive.store.data_directory import DataDirectory
from ibi.errors import IbiError, MintingNotAllowed, ParseError, SetupError
from ibi.runtime.settings import ArchiveSettings
from support.archive.archive_fixture import Clock

IBI = "J8LNKB5R7W/3FUQHC5"
USUAL = {
    "address": "archive.example.org", "ip": "192.88.98.1", "admin": "admin@archive.example.org", "resolver": "",
    "resolver_service": "", "mint_host": "archive.example.org", "mint_port": 80, "mint_ip": "192.88.98.1",
    "mint_ip_port": 800, "granularity": "auto", "for_trying": False, "platform_software": None,
}  # fmt: skip
TRYING = {"ip": "127.0.0.1", "mint_ip": "127.0.0.1", "for_trying": True}
NO_ADMIN = "no --admin was given; the resolver receives {}"
NO_LABELS = "no labels can be made under this name ({}): see --mint-host"
NO_DOMAIN = "a host that names things is a full domain name, such as archive.example.org"
TRIAL = "so its labels are only for trying out"
HELP = "give --mint-host and --mint-ip of your own, or --service-ibi, or --for-trying"


def created(folder: Path, **options: object) -> tuple[ArchiveSettings, list[str]]:
    given = {"address": "archive.example.org", "ip": "192.88.98.1"} | options
    directory = DataDirectory(folder / "data", Clock().machine)
    settings, warnings = create_archive(directory, NewArchiveOptions(**given))  # type: ignore[arg-type]  # as they should be
    assert ArchiveSettings.read(folder / "data") == settings
    return settings, [str(warning) for warning in warnings]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"admin": "m@x.example"}, {"admin": "m@x.example"}),
        ({"address": "Archive.example.org:8080"}, {
            "address": "Archive.example.org:8080", "admin": "admin@Archive.example.org", "mint_port": 8080,
        }),
        ({"address": "archive.example.org:8080", "mint_host": "Mint.example.org", "mint_ip": "192.88.98.7"}, {
            "address": "archive.example.org:8080", "mint_host": "mint.example.org", "mint_ip": "192.88.98.7",
        }),
        ({"mint_port": 8080, "mint_ip_port": 801}, {"mint_port": 8080, "mint_ip_port": 801}),
        ({"granularity": "0.01"}, {"granularity": "0.01"}),
        ({"platform_software": IBI}, {"platform_software": f"ibip {IBI}"}),
        ({"resolver": f"https://r.example/{IBI}"}, {
            "resolver": "https://r.example", "resolver_service": IBI,
        }),
        ({"address": "[2001:db8::1]:80", "ip": "127.0.0.1", "for_trying": True}, {
            **TRYING, "address": "[2001:db8::1]:80", "admin": "admin@localhost", "mint_host": "archive.localhost",
        }),
        ({"address": "localhost:8000", "ip": "127.0.0.1", "for_trying": True}, {
            **TRYING, "address": "localhost:8000", "admin": "admin@localhost", "mint_host": "archive.localhost",
            "mint_port": 8000,
        }),
        ({"address": "box", "ip": "127.0.0.1", "service_ibi": IBI}, {
            "address": "box", "ip": "127.0.0.1", "admin": "admin@box", "mint_host": "", "mint_ip": "",
        }),
    ],
    ids=str,
)  # fmt: skip
def test_an_archive_gets_what_its_options_say_and_the_rest_by_default(
    tmp_path: Path, options: dict[str, object], expected: dict[str, object]
) -> None:
    settings, _ = created(tmp_path, **options)
    found = {name: getattr(settings, name) for name in USUAL}
    software = found["platform_software"]
    assert found | {"platform_software": software and str(software)} == USUAL | expected
    assert (len(settings.key), len(settings.secret)) == (20, 64)


def test_its_service_has_a_new_label_or_the_ibi_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    settings, _ = created(tmp_path)
    assert str(settings.service) == "rep example.org/archive/2023/11.14.22.13.21 ibip 6HC5L9UKW/4A7S642"
    given, _ = created(tmp_path / "a", service_ibi=IBI)
    assert str(given.service) == f"ibip {IBI}"


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        ({}, [NO_ADMIN.format("admin@archive.example.org")]),
        ({"admin": "m@x.example", "key": "1" * 20, "resolver": "https://r.example"}, []),
        ({"admin": "m@x.example", "key": "1" * 19, "resolver": "http://r.example"}, [
            "a key of fewer than 20 digits can be guessed",
            "the key travels to http://r.example over plain http, where it can be read",
        ]),
        ({"admin": "m@x.example", "address": "box", "service_ibi": IBI}, [
            f"this Archive will give no labels: {NO_DOMAIN}",
        ]),
    ],
    ids=str,
)  # fmt: skip
def test_its_administrator_is_warned(tmp_path: Path, options: dict[str, object], warnings: list[str]) -> None:
    assert created(tmp_path, **options)[1] == warnings


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"ip": "10.0.0.1"}, MintingNotAllowed, f"the address 10.0.0.1 is not public, {TRIAL}; {HELP}"),
        ({"address": "box"}, SetupError, NO_LABELS.format(NO_DOMAIN)),
        ({"mint_host": "b.localhost", "service_ibi": IBI}, SetupError,
         NO_LABELS.format(f"the host name b.localhost has no owner, {TRIAL}")),
        ({"mint_ip": "10.0.0.1", "service_ibi": IBI}, SetupError,
         NO_LABELS.format(f"the address 10.0.0.1 is not public, {TRIAL}")),
        ({"granularity": "7"}, ParseError, "a granularity is 60, 1, 0.1, 0.01, ... down to 0.000000001 seconds"),
        ({"key": "123"}, SetupError, "a key is ten digits or more, perhaps twice with a hyphen between"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_created_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, object], error: type[IbiError], sentence: str
) -> None:
    with pytest.raises(error) as raised:
        created(tmp_path, **options)
    assert (type(raised.value), str(raised.value)) == (error, sentence)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("a.b", "a.b"), ("x.localhost", "x.localhost"), ("Box", "box.localhost"), ("LOCALHOST.", "archive.localhost"),
        ("10.0.0.1", "archive.localhost"), ("2001:db8::1", "archive.localhost"),
    ],
)  # fmt: skip
def test_labels_for_trying_have_a_name_without_an_owner(host: str, name: str) -> None:
    assert trial_host(host) == name
