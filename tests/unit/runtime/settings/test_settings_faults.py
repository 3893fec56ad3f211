"""What is wrong with a file of settings, or with its folder: each fault is one whole sentence, which says where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.settings.toml_file import settings_lock
from support.concurrency.open_files import open_files
from support.engines.documents_in_memory import Documents


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
