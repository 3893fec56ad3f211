"""What is wrong with a file of settings, or with its folder: each fault is one whole sentence, which says where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from ibi.runtime.settings import ArchiveSettings, ResolverSettings, SubsystemSettings, mail_server
from ibi.runtime.settings.toml_file import settings_lock
from support.checks.locales import ascii_alone
from support.concurrency.open_files import open_files
from support.in_memory.documents import Documents


def sentence(act: Callable[[], object]) -> str:
    with pytest.raises(SetupError) as refused:
        act()
    return str(refused.value)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Documents:
    documents = Documents()
    documents.put_in_place(monkeypatch, "ibi.runtime.settings.toml_file")
    return documents


SERVICE = IBIForms.parse("ibip 8JMKD3MGP8W/34PGRBS")
RESOLVER = ResolverSettings(address="r.example", service=SERVICE, admin="a@r.example", aliases=("s.example",))


def test_settings_of_a_store_are_read_and_written_there_and_a_node_says_only_which_store(
    tmp_path: Path, shared: Documents
) -> None:
    assert not ResolverSettings.exists(tmp_path)
    RESOLVER.write(tmp_path)
    assert shared.events == [
        "read resolver.toml",
        "lock resolver.toml",
        "read resolver.toml",
        "free resolver.toml",
    ]
    assert list(tmp_path.iterdir()) == []
    text = shared.texts["resolver.toml"]
    assert text == RESOLVER.shared_text() == RESOLVER.written(tmp_path)
    assert 'address = "r.example"' in text
    assert "store" not in text
    assert ResolverSettings.exists(tmp_path)
    (tmp_path / "resolver.toml").write_text("store = 'postgresql://node@db.example/ibi'\n")
    read = ResolverSettings.read(tmp_path)
    assert read == replace(RESOLVER, store="postgresql://node@db.example/ibi")
    shared.texts["resolver.toml"] = f"# ours\n{text}"
    replace(read, admin="b@r.example").write(tmp_path)
    changed = shared.texts["resolver.toml"]
    assert changed == f"# ours\n{text}".replace("a@r.example", "b@r.example")


def test_what_is_wrong_with_the_settings_of_a_store(tmp_path: Path, shared: Documents) -> None:
    path = tmp_path / "resolver.toml"

    def read() -> object:
        return ResolverSettings.read(tmp_path)

    assert sentence(read) == f"the store that {path} names holds nothing of ours: was it made with `init`?"
    shared.texts["resolver.toml"] = "= 5"
    assert sentence(read) == f"{path} cannot be read: Invalid statement (at line 1, column 1)"
    path.write_text("store = 'postgresql://db.example/ibi'\nadmin = 'a@r.example'\naddress = 'r.example'\n")
    assert sentence(read) == (
        f"{path}: beside `store`, all settings are in the store; take address out, and change it by `set`"
    )


def test_what_is_wrong_with_a_file_of_settings(tmp_path: Path) -> None:
    path = tmp_path / "resolver.toml"

    def read() -> object:
        return ResolverSettings.read(tmp_path)

    assert sentence(read) == f"{path} does not exist: nothing was made here with `init` yet"
    path.write_text("= 5")
    assert sentence(read) == f"{path} cannot be read: Invalid statement (at line 1, column 1)"
    assert sentence(lambda: RESOLVER.write(tmp_path)).startswith(f"{path} cannot be read: ")
    path.write_text("admin = 'a@r.example'")
    assert sentence(read) == f"{path}: the setting address is missing"
    path.write_text("address = 5")
    assert sentence(read) == f"{path}: address must be a text in quotes"
    path.write_text("address = 'r.example'")
    assert sentence(read) == f"{path}: the setting service is missing"
    path.write_text("address = 'r.example'\nreserve = 1\nodd = 2")
    assert sentence(read) == f"{path}: there is no setting odd"
    path.unlink()
    path.mkdir()
    reason = f"[Errno 21] Is a directory: '{path}'"
    assert sentence(read) == f"{path} cannot be read: {reason}"
    assert sentence(lambda: RESOLVER.written(tmp_path)) == f"{path} cannot be read: {reason}"


def test_a_file_is_read_and_written_alike_in_every_locale(tmp_path: Path) -> None:
    path = tmp_path / "resolver.toml"
    path.write_bytes(f"# à mão\n{RESOLVER.shared_text()}".encode())
    with ascii_alone():
        read = ResolverSettings.read(tmp_path)
        replace(read, admin="b@r.example").write(tmp_path)
    assert read == RESOLVER
    assert path.read_bytes().decode().startswith("# à mão\n")
    assert ResolverSettings.read(tmp_path) == replace(RESOLVER, admin="b@r.example")


def test_settings_are_locked_in_their_folder_and_in_the_store(tmp_path: Path, shared: Documents) -> None:
    with settings_lock(tmp_path):
        shared.events.append("change")
    assert shared.events == ["lock settings", "refresh", "change", "free settings"]
    (tmp_path / "file").touch()
    for missing in ("absent", "file"):  # to read the settings then raises the clearer error
        with settings_lock(tmp_path / missing):
            shared.events.clear()
    assert shared.events == []
    loop = tmp_path / "loop"
    loop.symlink_to(loop)

    def lock() -> None:
        with settings_lock(loop):
            pytest.fail("it cannot be locked")

    assert sentence(lock) == f"{loop} cannot be read: Too many levels of symbolic links"
    assert not open_files(tmp_path)


FORMS = "`smtp` is host:port, smtp+starttls://user@host:port or smtps://user@host:port"
PASSWORD = "`smtp` must not contain a password: put it into a file, and name that in smtp_password_file"
IN_THE_OPEN = "no password goes to a mail server in the open: use smtps:// or smtp+starttls://"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http://mail.example", FORMS),
        ("smtps://", FORMS),
        ("smtps://@mail.example", FORMS),
        ("smtps://me:secret@mail.example", PASSWORD),
        ("smtp://me:secret@mail.example", PASSWORD),
        ("me@mail.example", IN_THE_OPEN),
        ("mail.example:0", FORMS),
        ("smtps://%ff@mail.example", FORMS),
    ],
)
def test_what_is_no_mail_server_is_told_for_its_own_reason(text: str, problem: str) -> None:
    assert sentence(lambda: mail_server(text)) == problem


AN_ADDRESS = "an address is a host, perhaps with a port: archive.example.org:8080"
LONG = f"{'a' * 119}/b"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"address": "a b"}, f"{AN_ADDRESS}: a b"),
        ({"aliases": ("s.example", LONG)}, f"{AN_ADDRESS}: {LONG[:120]}"),
        (
            {"smtp": "smtps://me@mail.example", "smtp_password_file": "password"},
            "smtp_password_file is the absolute path of a file with the password for `smtp`",
        ),
        ({"smtp": "smtps://me:x@mail.example", "smtp_password_file": "/password"}, PASSWORD),
    ],
)
def test_what_is_wrong_with_a_resolver(change: dict[str, Any], problem: str) -> None:
    assert sentence(lambda: replace(RESOLVER, **change)) == problem
    replace(RESOLVER, smtp="smtps://me@mail.example", smtp_password_file="/password")
    replace(RESOLVER, smtp="mail.example", policy="strict", registration="form")


ARCHIVE = ArchiveSettings(
    address="a.example", service=SERVICE, ip="192.0.2.1", admin="m@a.example", key="1234567890", secret="00" * 16,
    mint_host="a.example", aliases=("b.example:8080",),
)  # fmt: skip
OWN_NAME = "files need a whole host name of their own, such as files.example.org, and not "


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"key": "12345"}, "a key is ten digits or more, perhaps twice with a hyphen between: "),
        ({"aliases": ("a/b",)}, f"{AN_ADDRESS}: a/b"),
        ({"files_address": "a b"}, f"{AN_ADDRESS}: a b"),
        ({"files_address": "files:8080"}, f"{OWN_NAME}files"),
        ({"files_address": "192.0.2.7"}, f"{OWN_NAME}192.0.2.7"),
        (
            {"files_address": "B.Example.:81"},
            "files need a host name of their own: b.example is one under which the Archive itself answers",
        ),
        (
            {"files_address": "p.example", "public_url": "https://p.example/"},
            "files need a host name of their own: p.example is one under which the Archive itself answers",
        ),
        ({"files": "s3:/bucket"}, "files are kept in a place like s3://bucket/prefix, and not in s3:/bucket"),
    ],
)
def test_what_is_wrong_with_an_archive(change: dict[str, Any], problem: str) -> None:
    assert sentence(lambda: replace(ARCHIVE, **change)) == problem
    replace(ARCHIVE, files_address="files.a.example:81", files="s3://bucket/prefix")


def test_the_root_and_all_addresses_under_which_a_program_answers() -> None:
    assert (ARCHIVE.root, ARCHIVE.addresses) == ("http://a.example", ("a.example", "b.example:8080"))
    public = replace(ARCHIVE, public_url="https://p.example:8443/")
    assert (public.root, public.addresses) == (
        "https://p.example:8443", ("a.example", "b.example:8080", "p.example:8443"),
    )  # fmt: skip


def test_a_file_of_subsystems_has_a_table_for_each(tmp_path: Path) -> None:
    path = tmp_path / "subsystems.toml"

    def read() -> object:
        return SubsystemSettings.read_all(tmp_path)

    for text in (None, ""):
        if text is not None:
            path.write_text(text)
        assert sentence(read) == f"{path} has a table for each subsystem: [name], host = ..."
    path.write_text("host = 'a.example'")
    assert sentence(read) == f"{path} has a table for each: [name]"
    path.write_text("[b]\nhost = 'b.example'\n[a]\nhost = 'a.example'\nport = 81")
    found = SubsystemSettings.read_all(tmp_path)
    assert [(name, each.host, each.port, each.ip_port) for name, each in found.items()] == [
        ("b", "b.example", 80, 800), ("a", "a.example", 81, 800),
    ]  # fmt: skip
