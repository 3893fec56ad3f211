"""`ibi resolver export-registry` and `import-registry` as an administrator types them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ibi.app.resolver import open_registry
from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest

ARCHIVE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
KEY = "12345678901234567890"


def made(data: Path, address: str) -> Path:
    words = ["--data", str(data), "--address", address, "--service-ibi", "J8LNKB5R7W/3FUQHC5"]
    assert main(["resolver", "init", *words]) == 0
    return data


def include(data: Path, address: str) -> None:
    registry, ibi = open_registry(data), parse_ibi(ARCHIVE)
    registry.register(ibi, KEY)
    request = InclusionRequest(address, ibi, "192.0.2.1", "1", "admin@archive.example", KEY)
    assert registry.include(request, registry.open_change(ibi), confirmed=True)
    registry.close()


def test_a_list_goes_from_one_resolver_to_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = made(tmp_path / "one", "one.example"), made(tmp_path / "other", "other.example")
    include(one, "archive.example")
    include(one, "archive.example:8080")
    path = tmp_path / "list.json"
    capsys.readouterr()

    assert main(["resolver", "export-registry", "--data", str(one), str(path)]) == 0
    key = capsys.readouterr().out.strip()
    assert json.loads(path.read_bytes())["registry"]["key"]["public"] == key
    assert stat.S_IMODE((one / "attestation.key").stat().st_mode) == 0o600

    words = ["resolver", "import-registry", "--data", str(other)]
    assert main([*words, str(path), "--key", f" {key.upper()} "]) == 0
    assert capsys.readouterr().out == "Archives: 1 new, 0 changed, 0 gone\n"
    assert main([*words, str(path), "--key", key, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    counts = {"added": 0, "changed": 0, "gone": 0, "registered_here": 0, "left_out": 0}
    assert report == {"resolver": "ibip J8LNKB5R7W/3FUQHC5", "issued": report["issued"], **counts}

    assert main(["resolver", "archives", "--data", str(other)]) == 0
    assert "archive.example:8080" in capsys.readouterr().out
    include(other, "archive.example")
    assert main([*words, str(path), "--key", key]) == 0
    assert "known here already, and left as they are: 1" in capsys.readouterr().out


def test_the_archives_of_a_list_can_be_forgotten_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = made(tmp_path / "one", "one.example"), made(tmp_path / "other", "other.example")
    include(one, "archive.example")
    path = tmp_path / "list.json"
    assert main(["resolver", "export-registry", "--data", str(one), str(path)]) == 0
    key = capsys.readouterr().out.split()[-1]
    words = ["resolver", "import-registry", "--data", str(other), "--key", key]
    assert main([*words, str(path)]) == 0
    capsys.readouterr()
    assert main([*words, "--forget"]) == 0
    assert capsys.readouterr().out == "Archives: 0 new, 0 changed, 1 gone\n"
    assert main(["resolver", "archives", "--data", str(other)]) == 0
    assert capsys.readouterr().out == ""
    for wrong in ([], [str(path), "--forget"]):
        assert main([*words, *wrong]) == 1
        assert "give a list to import, or --forget" in capsys.readouterr().err


def test_an_archive_at_the_importers_own_address_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = made(tmp_path / "one", "one.example"), made(tmp_path / "other", "other.example")
    include(one, "other.example")
    path = tmp_path / "list.json"
    assert main(["resolver", "export-registry", "--data", str(one), str(path)]) == 0
    key = capsys.readouterr().out.split()[-1]
    assert main(["resolver", "import-registry", "--data", str(other), str(path), "--key", key]) == 0
    assert "left out, because they cannot be queried from here: 1" in capsys.readouterr().out


def test_a_list_can_go_through_a_pipe(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    one = made(tmp_path / "one", "one.example")
    capfdbinary.readouterr()
    assert main(["resolver", "export-registry", "--data", str(one), "-"]) == 0
    out = capfdbinary.readouterr().out
    assert json.loads(out)["registry"]["archives"] == []


@pytest.mark.parametrize(
    ("source", "key", "problem"),
    [
        ("nowhere", "a" * 64, "cannot be read"),
        ("one", "a" * 64, "cannot be read"),
        ("list.json", "a" * 64, "not signed with this key"),
        ("list.json", "12", "64 hexadecimal digits"),
        ("one/resolver.toml", "a" * 64, "not a list"),
        ("http://127.0.0.1:25/", "a" * 64, "another kind of service"),
        ("https://", "a" * 64, "no http or https URL"),
    ],
)
def test_what_cannot_be_taken_is_said_in_one_sentence(
    source: str, key: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = made(tmp_path / "one", "one.example")
    assert main(["resolver", "export-registry", "--data", str(one), str(tmp_path / "list.json")]) == 0
    capsys.readouterr()
    where = source if "://" in source else str(tmp_path / source)
    assert main(["resolver", "import-registry", "--data", str(one), where, "--key", key]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert problem in printed.err
    assert printed.err.count("\n") == 1
