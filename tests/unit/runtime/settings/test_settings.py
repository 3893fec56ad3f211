"""Settings are read as they were written, and odd ones are refused with a sentence."""

from __future__ import annotations

import ast
import inspect
import re
import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest

from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from ibi.runtime.environment import environment_language
from ibi.runtime.settings import (
    ArchiveSettings,
    JoinedResolver,
    Peer,
    ResolverSettings,
    SubsystemSettings,
    settings_lock,
)
from ibi.runtime.settings.toml_file import Settings

SERVICE = IBIForms.parse("rep archive.example/w/2020/01.01.00.00 ibip LK47B6W/3P5GNKB")
ARCHIVE = ArchiveSettings(
    address="archive.example:8080",
    ip="192.0.2.1",
    service=SERVICE,
    key="12345678901234567890",
    secret="ab" * 32,
    admin="admin@archive.example",
)
WHOLE = ArchiveSettings(
    address="archive.example",
    ip="2001:db8::1",
    service=SERVICE,
    key="1234567890",
    secret="",
    admin="a@b.example",
    platform_software=SERVICE,
    resolver='http://r.example/"\\\n\x7f',
    aliases=("www.archive.example", "192.0.2.1:81"),
    relations=("", ".metadata(oai_dc)"),
    filter_answers=False,
    mint_host="h.example",
    mint_port=81,
    mint_ip="192.0.2.2",
    mint_ip_port=802,
    granularity="0.1",
    for_trying=True,
)
RESOLVER = ResolverSettings(address="r.example", service=SERVICE)


@pytest.mark.parametrize("settings", [ARCHIVE, WHOLE, RESOLVER], ids=["archive", "whole", "resolver"])
def test_settings_are_read_as_they_were_written(
    tmp_path: Path, settings: ArchiveSettings | ResolverSettings
) -> None:
    assert not settings.exists(tmp_path)
    settings.write(tmp_path)
    settings.write(tmp_path)
    assert settings.exists(tmp_path)
    assert type(settings).read(tmp_path) == settings
    assert [path.name for path in tmp_path.iterdir()] == [settings.FILE]


@pytest.mark.parametrize("settings", [ARCHIVE, WHOLE, RESOLVER], ids=["archive", "whole", "resolver"])
def test_a_new_file_says_each_setting_that_has_a_value(
    tmp_path: Path, settings: ArchiveSettings | ResolverSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = settings.written(tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing is written yet"
    settings.write(tmp_path)
    assert (tmp_path / settings.FILE).read_text() == text
    valued = {each.name for each in fields(settings) if getattr(settings, each.name) is not None}
    assert tomllib.loads(text).keys() == valued
    shared = tomllib.loads(settings.shared_text())
    assert shared == {name: value for name, value in tomllib.loads(text).items() if name != "store"}
    monkeypatch.setenv(f"{settings.VARIABLES}ADDRESS", settings.address)
    for each in (settings.shared_text(), settings.written(tmp_path / "new")):
        assert "address" not in tomllib.loads(each), "the environment says it"
    # What a file does not say, it goes on leaving to the defaults.
    (tmp_path / settings.FILE).write_text(f'address = "{settings.address}"\nservice = "{settings.service}"\n')
    assert tomllib.loads(settings.written(tmp_path)).keys() == {
        each.name for each in fields(settings) if getattr(settings, each.name) != each.default
    }


def test_only_their_owner_may_read_settings(tmp_path: Path) -> None:
    ARCHIVE.write(tmp_path)
    assert stat.S_IMODE((tmp_path / "archive.toml").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("adress = 'x'", "there is no setting adress"),
        ("= 5", "cannot be read"),
        ("address = 5", "must be a text"),
        ("mint_port = '80'", "must be a whole number"),
        ("mint_port = true", "must be a whole number"),
        ("for_trying = 1", "must be true or false"),
        ("aliases = 'a.example'", "must be a list"),
        ("aliases = [1]", "must be a list of texts"),
        ("service = 'somewhere'", "rep <name>"),
        ("address = 'a b'", "an address is a host"),
        ("address = 'a.example:99999'", "an address is a host"),
        ("aliases = ['a/b']", "an address is a host"),
        ("ip = 'archive.example'", "IP address"),
        ("admin = 'nobody'", "mail address"),
        ("key = '12345'", "ten digits"),
        ("mint_port = 65536", "mint_port is a whole number from 1 to 65535"),
        ("mint_ip_port = 0", "mint_ip_port is a whole number from 1 to 65535"),
        ("mint_ip = 'archive.example'", "IP address"),
        ("granularity = '5'", "a granularity is 60, 1, 0.1"),
        ("accel_prefix = 'internal/'", "a path such as /internal/"),
        ("files = 's3:/bucket'", "files are kept in a place like s3://bucket/prefix, and not in s3:/bucket"),
    ],
)
def test_odd_settings_are_refused_with_a_sentence(tmp_path: Path, line: str, sentence: str) -> None:
    ARCHIVE.write(tmp_path)
    path = tmp_path / "archive.toml"
    name = line.partition(" ")[0]
    kept = [each for each in path.read_text().splitlines() if not each.startswith(f"{name} ")]
    path.write_text("\n".join([*kept, line]))
    with pytest.raises(SetupError, match=sentence) as caught:
        ArchiveSettings.read(tmp_path)
    assert "\n" not in str(caught.value).partition("(at")[0]


def test_a_missing_setting_or_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="does not exist"):
        ArchiveSettings.read(tmp_path)
    (tmp_path / "archive.toml").write_text("address = 'a.example'\n")
    with pytest.raises(SetupError, match="the setting ip is missing"):
        ArchiveSettings.read(tmp_path)
    (tmp_path / "archive.toml").write_bytes(b"\xff")
    with pytest.raises(SetupError, match="cannot be read"):
        ArchiveSettings.read(tmp_path)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SetupError, match="cannot be written"):
        ARCHIVE.write(tmp_path / "file")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"LANG": "pt_BR.UTF-8"}, "pt_BR.UTF-8"),
        ({"LANG": "pt_BR", "LC_ALL": "C"}, None),
        ({"LANG": "pt_BR", "LC_ALL": "C.UTF-8"}, None),
        ({"LANG": "C", "LANGUAGE": "pt:en"}, "pt"),
        ({"LANG": "en_US", "LC_MESSAGES": "pt_BR"}, "pt_BR"),
    ],
)
def test_the_language_of_the_terminal_is_what_posix_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str | None
) -> None:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment_language() == expected


def test_of_changes_at_the_same_time_none_is_lost(tmp_path: Path) -> None:
    ARCHIVE.write(tmp_path)

    def add(number: int) -> None:
        with settings_lock(tmp_path):
            before = ArchiveSettings.read(tmp_path)
            replace(before, aliases=(*before.aliases, f"a{number}.example")).write(tmp_path)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert set(ArchiveSettings.read(tmp_path).aliases) == {f"a{number}.example" for number in range(40)}
    assert [path.name for path in tmp_path.iterdir()] == [ArchiveSettings.FILE]


def test_files_that_are_written_at_the_same_time_are_whole_at_every_moment(tmp_path: Path) -> None:
    ARCHIVE.write(tmp_path)

    def change(number: int) -> None:
        replace(ARCHIVE, admin=f"{'a' * number}@archive.example").write(tmp_path)
        assert ArchiveSettings.read(tmp_path).admin.endswith("@archive.example")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(1, 60)))


BY_HAND = """\
# Settings of our library. Ask Maria before you change anything.

address = "r.example"   # behind the proxy
service = 'rep sid.inpe.br/r/2020/01.01.00.00'

# Campus only.
metrics_networks = [
    "10.0.0.0/8",  # offices
]
request_rate = 5
"""


def test_what_an_operator_wrote_around_the_settings_stays(tmp_path: Path) -> None:
    path = tmp_path / "resolver.toml"
    path.write_text(BY_HAND)
    before = ResolverSettings.read(tmp_path)
    before.write(tmp_path)
    assert path.read_text() == BY_HAND
    replace(before, request_rate=7.5, address="s.example", admin="keeper@r.example").write(tmp_path)
    expected = BY_HAND.replace('r.example"   #', 's.example"   #').replace(
        "request_rate = 5", "request_rate = 7.5"
    )
    assert path.read_text() == expected + 'admin = "keeper@r.example"\n'
    replace(before, metrics_networks=("10.0.0.0/8", "192.0.2.0/24"), request_burst=9).write(tmp_path)
    read = ResolverSettings.read(tmp_path)
    assert (read.metrics_networks, read.request_burst) == (("10.0.0.0/8", "192.0.2.0/24"), 9)
    for comment in ("# Settings of our library.", "# Campus only.", '"10.0.0.0/8",  # offices'):
        assert comment in path.read_text()
    replace(read, metrics_networks=("10.0.0.0/8",)).write(tmp_path)
    assert '"10.0.0.0/8",  # offices' in path.read_text()
    assert ResolverSettings.read(tmp_path).metrics_networks == ("10.0.0.0/8",)
    replace(read, metrics_networks=("192.0.2.0/24", "10.0.0.0/8")).write(tmp_path)
    assert ResolverSettings.read(tmp_path).metrics_networks == ("192.0.2.0/24", "10.0.0.0/8")
    replace(read, metrics_networks=()).write(tmp_path)
    assert ResolverSettings.read(tmp_path).metrics_networks == ()


@pytest.mark.parametrize(
    ("odd", "good"),
    [
        ('metrics_networks = "10.0.0.0/8"', 'metrics_networks = ["192.0.2.0/24"]'),
        ('public_url = ["https://a.example"]', 'public_url = "https://s.example"'),
    ],
)
def test_a_value_of_another_type_is_written_anew_where_it_stands(tmp_path: Path, odd: str, good: str) -> None:
    path = tmp_path / "resolver.toml"
    path.write_text(f"# Another type.\n{odd}\n# The end.\n")
    settings = replace(RESOLVER, metrics_networks=("192.0.2.0/24",), public_url="https://s.example")
    settings.write(tmp_path)
    assert path.read_text().startswith(f"# Another type.\n{good}\n# The end.\n")
    assert ResolverSettings.read(tmp_path) == settings


def test_tables_keep_what_stands_around_them(tmp_path: Path) -> None:
    path = tmp_path / "peers.toml"
    path.write_text("# Partners.\n[north]  # since 2019\naddress = 'http://n.example'\ntoken = 'x'\n\n[old]\n"
                    "address = 'http://o.example'\ntoken = 'y'\n")  # fmt: skip
    peers = Peer.read_tables(tmp_path)
    del peers["old"]
    peers["a b"] = Peer(address="http://s.example", token="z")
    Peer.write_tables(tmp_path, peers)
    assert Peer.read_tables(tmp_path) == peers
    assert path.read_text().startswith("# Partners.\n[north]  # since 2019\naddress = 'http://n.example'\n")


def test_the_environment_goes_before_the_file_and_is_never_written_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "resolver.toml"
    path.write_text(BY_HAND)
    for name, text in {
        "ADDRESS": "container.example",
        "REQUEST_RATE": "50",
        "STALE_SECONDS": "0",
        "EXPRESS": "false",
        "ALIASES": "a.example, b.example",
        "SERVICE": "rep sid.inpe.br/other/2020/01.01.00.00",
    }.items():
        monkeypatch.setenv(f"IBI_RESOLVER_{name}", text)
    read = ResolverSettings.read(tmp_path)
    assert (read.address, read.request_rate, read.stale_seconds, read.express) == (
        "container.example",
        50.0,
        0,
        False,
    )
    assert (read.aliases, str(read.service)) == (
        ("a.example", "b.example"),
        "rep sid.inpe.br/other/2020/01.01.00.00",
    )
    replace(read, admin="keeper@r.example").write(tmp_path)
    assert path.read_text() == BY_HAND + 'admin = "keeper@r.example"\n'
    with pytest.raises(
        SetupError, match="request_rate is decided by IBI_RESOLVER_REQUEST_RATE in the environment"
    ):
        replace(read, request_rate=20.0).write(tmp_path)


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        ("IBI_RESOLVER_REQUEST_RATE", "much", "IBI_RESOLVER_REQUEST_RATE must be a number"),
        ("IBI_RESOLVER_STALE_SECONDS", "1.5", "IBI_RESOLVER_STALE_SECONDS must be a whole number"),
        ("IBI_RESOLVER_EXPRESS", "perhaps", "IBI_RESOLVER_EXPRESS must be true or false"),
        ("IBI_RESOLVER_SERVICE", "somewhere", "IBI_RESOLVER_SERVICE: .*rep <name>"),
        ("IBI_RESOLVER_POLICY", "lax", "IBI_RESOLVER_POLICY: policy is one of: hardened, strict"),
        ("IBI_RESOLVER_REQUEST_RATE", "-1", "IBI_RESOLVER_REQUEST_RATE: request_rate is a number from 0 to"),
        ("IBI_RESOLVER_METRICS_NETWORKS", "10.0.0.1/8", "IBI_RESOLVER_METRICS_NETWORKS: this is no address"),
        ("IBI_RESOLVER_ADRESS", "a.example", "IBI_RESOLVER_ADRESS: there is no setting adress"),
    ],
)
def test_an_odd_variable_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, sentence: str
) -> None:
    RESOLVER.write(tmp_path)
    monkeypatch.setenv(variable, text)
    with pytest.raises(SetupError, match=sentence):
        ResolverSettings.read(tmp_path)


def test_new_settings_take_from_the_environment_what_they_do_not_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBI_RESOLVER_PUBLIC_URL", "https://r.example")
    monkeypatch.setenv("IBI_RESOLVER_ADDRESS", "r.example")
    settings = RESOLVER.with_environment()
    settings.write(tmp_path)
    assert settings == replace(RESOLVER, public_url="https://r.example")
    assert "r.example" not in (tmp_path / "resolver.toml").read_text().replace("archive.example", "")
    for variable, text, sentence in (
        ("ADDRESS", "other.example", "address is decided by IBI_RESOLVER_ADDRESS in the environment"),
        ("REQUEST_RATE", "-1", "IBI_RESOLVER_REQUEST_RATE: request_rate is a number from 0 to"),
    ):
        with monkeypatch.context() as other:
            other.setenv(f"IBI_RESOLVER_{variable}", text)
            with pytest.raises(SetupError, match=sentence):
                RESOLVER.with_environment()


@pytest.mark.parametrize("kind", [ArchiveSettings, JoinedResolver, Peer, ResolverSettings, SubsystemSettings])
def test_each_secret_is_marked_as_one_and_documented_as_one(kind: type[Settings]) -> None:
    [made] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    documented = {
        ast.unparse(stated.target)
        for stated, text in pairwise(made.body)
        if isinstance(stated, ast.AnnAssign) and isinstance(text, ast.Expr)
        if "; a secret." in " ".join(ast.literal_eval(text.value).split())
    }
    named = {each.name for each in fields(kind) if re.search(r"(key|token|secret|password)$", each.name)}
    assert documented == kind.SECRET
    assert named <= kind.SECRET
