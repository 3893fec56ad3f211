"""What keeps an Archive whole, and hands its items out, at the command line."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ibi.archive.preservation.attestation import receipt, sign_receipt
from ibi.cli import main
from ibi.runtime.durable_files import locked_file
from ibi.runtime.signing import public_key, signer
from support.archive.preservation_fixture import NAME, OTHER, ArchiveFolder, flip, make_archive


class Done(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Done]


@pytest.fixture
def ibi(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `ibi archive …` in this process."""
    monkeypatch.setenv("LANGUAGE", "en")

    def run(*words: object) -> Done:
        capfd.readouterr()
        status = main(["archive", *map(str, words)])
        return Done(status, *capfd.readouterr())

    return run


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"a.txt": b"aaaa"}, metadata={"title": ["T"]})
    kept.put(OTHER, {"z.txt": b"zz"})
    return kept


def test_an_audit_says_what_it_found(kept: ArchiveFolder, ibi: Command) -> None:
    assert ibi("audit", "--data", kept.data) == (0, "2 files read, 0 faults\n", "")
    flip(kept.path("a.txt"), 0)
    done = ibi("audit", "--data", kept.data)
    assert done.status == 1
    assert done.out.startswith(f"a.txt of {NAME} is damaged")
    assert ibi("audit", "--data", kept.data, OTHER).out == "1 files read, 0 faults\n"
    report = ibi("audit", "--data", kept.data, NAME, "--json")
    assert report.status == 1
    assert (report.json["files"], report.json["bytes"]) == (1, 4)
    (fault,) = report.json["faults"]
    assert (fault["item"], fault["file"], fault["fault"]) == (NAME, "a.txt", "digest")
    assert fault["last_good"] <= fault["found"]
    assert ibi("audit", "--data", kept.data, "--continue").status == 1
    unknown = "x.example/y/2000/01.01.00.00"
    assert ibi("audit", "--data", kept.data, unknown).err == f"ibi: this Archive does not hold {unknown}\n"


def test_a_repair_takes_the_same_bytes_alone(kept: ArchiveFolder, ibi: Command, tmp_path: Path) -> None:
    flip(kept.path("a.txt"), 0)
    (tmp_path / "saved").write_bytes(b"aaaa")
    refused = ibi("repair", "--data", kept.data, NAME, "a.txt", "--from", kept.path("a.txt"))
    assert (refused.status, refused.out) == (1, "")
    assert "SHA-256 differs" in refused.err
    assert ibi("repair", "--data", kept.data, NAME, "a.txt", "--from", tmp_path / "saved").status == 0
    assert ibi("audit", "--data", kept.data).status == 0


def test_a_check_says_each_difference_and_what_to_do(kept: ArchiveFolder, ibi: Command) -> None:
    assert ibi("check", "--data", kept.data) == (0, "0 differences\n", "")
    kept.path("a.txt").with_name("extra").touch()
    kept.path("z.txt", OTHER).unlink()
    done = ibi("check", "--data", kept.data, "--json")
    assert (done.status, done.json["open"], len(done.json["differences"])) == (1, 2, 2)
    done = ibi("check", "--data", kept.data, "--repair")
    assert (done.status, done.out.splitlines()[-1]) == (1, "1 difference")
    assert "    settled" in done.out.splitlines()
    assert f"ibi archive repair {OTHER} z.txt --from PATH" in done.out
    assert ibi("check", "--data", kept.data / "absent").err.endswith("does not exist\n")


def test_a_check_tells_of_a_link_that_states_another_language_and_mends_it(
    kept: ArchiveFolder, ibi: Command, tmp_path: Path
) -> None:
    linked, spanish = (f"a.example/b/2015/01.01.00.0{number}" for number in range(2))
    items = [
        {"rep": spanish, "url": "http://far.example/es", "language": "es"},
        {"rep": linked, "url": "http://far.example/en", "translations": {"fr": spanish}},
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    assert ibi("import", "--data", kept.data, tmp_path / "items.jsonl").status == 0
    sentence = f"{linked} names {spanish} as its translation into fr, but that is in es"
    done = ibi("check", "--data", kept.data)
    assert (done.status, done.out.splitlines()[0]) == (1, sentence)
    done = ibi("check", "--data", kept.data, "--repair")
    assert (done.status, done.out.splitlines()[0]) == (0, sentence)
    assert ibi("check", "--data", kept.data).out == "0 differences\n"
    assert list(ibi("show", "--data", kept.data, linked, "--json").json["translations"]) == ["es"]


def test_a_check_prints_what_it_finds_before_it_has_ended(kept: ArchiveFolder) -> None:
    (kept.data / "peers.toml").write_text("no toml")
    minting = kept.data / "minting"
    minting.mkdir(exist_ok=True)
    program = "import sys; from ibi.cli import main; sys.exit(main())"
    words = (sys.executable, "-c", program, "archive", "check", "--data", str(kept.data))
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    # The check of the labels comes after that of the settings, and waits for their lock.
    with (
        locked_file(minting / "lock"),
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=buffered) as checking,
    ):
        assert checking.stdout is not None
        try:
            first, _, _ = select.select([checking.stdout], [], [], 30)
            assert first, "nothing was printed"
            assert "peers.toml" in checking.stdout.readline()
            assert checking.poll() is None
        finally:
            checking.kill()


def test_a_lost_catalogue_is_rebuilt(kept: ArchiveFolder, ibi: Command) -> None:
    assert ibi("check", "--data", kept.data).status == 0
    assert ibi("rebuild", "--data", kept.data).out == "0 items added, 0 updated\n"
    before = kept.everything()
    (kept.data / "catalogue.sqlite").write_bytes(b"noise" * 1000)
    done = ibi("rebuild", "--data", kept.data)
    assert (done.status, done.out) == (0, "2 items added, 0 updated\n")
    assert "could not be read" in done.err
    assert [item for item in kept.everything() if "files" in item] == [
        item for item in before if "files" in item
    ]


def test_backup_and_restore(kept: ArchiveFolder, ibi: Command, tmp_path: Path) -> None:
    done = ibi("backup", "--data", kept.data, "--to", tmp_path / "backups", "--verify", "--json")
    assert (done.status, done.json["items"], done.json["copied"]) == (0, 3, 2)
    assert ibi("backup", "--data", kept.data, "--to", tmp_path / "backups", "--keep", 1).out.endswith(
        "0 of them new\n"
    )
    done = ibi("restore", "--from", tmp_path / "backups", "--data", tmp_path / "new", "--json")
    assert (done.status, done.json["items"], done.json["problems"]) == (0, 3, [])
    assert f"ibi mint recover --data {tmp_path / 'new'} --moved" in done.err
    assert ArchiveFolder(tmp_path / "new").everything() == kept.everything()
    again = ibi("restore", "--from", tmp_path / "backups", "--data", tmp_path / "new")
    assert (again.status, again.err.count("\n")) == (1, 1)
    absent = ibi(
        "restore", "--from", tmp_path / "backups", "--data", tmp_path / "x", "--backup", "20200101T000000Z"
    )
    assert "there is no backup" in absent.err
    nothing = ibi("restore", "--from", tmp_path / "nothing", "--data", tmp_path / "x")
    assert (nothing.status, nothing.err.count("\n")) == (1, 1)


def test_a_receipt_is_written_and_verified_without_an_archive(
    kept: ArchiveFolder, ibi: Command, tmp_path: Path
) -> None:
    assert ibi("attest", "--data", kept.data, NAME, "--out", tmp_path / "receipt").status == 0
    key = public_key(kept.data)
    (tmp_path / "a.txt").write_bytes(b"aaaa")
    done = ibi("verify", tmp_path / "receipt", "--key", key, "--files", tmp_path)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"valid: archive.example/w/2020/01.01.00.00 (archive.example) says of {NAME}")
    assert done.out.endswith("a.txt: as attested\n")
    assert "only the receipt's own word" in ibi("verify", tmp_path / "receipt").err
    other = ibi("verify", tmp_path / "receipt", "--key", "ab" * 32, "--json")
    assert (other.status, other.json["valid"], other.json["key_is"]) == (1, False, "another one")
    flip(tmp_path / "a.txt", 0)
    assert ibi("verify", tmp_path / "receipt", "--files", tmp_path).status == 1
    flip(tmp_path / "receipt", 500)
    done = ibi("verify", tmp_path / "receipt", "--key", key)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert ibi("attest", "--data", kept.data, NAME).out.startswith('{"receipt":')


def test_a_receipt_cannot_speak_to_the_terminal(kept: ArchiveFolder, ibi: Command, tmp_path: Path) -> None:
    content = receipt(kept.held(), [], kept.directory.settings().service, "x\x1b[2Jy", "now\n")
    content["files"] = [{"name": "a\x1b[31m", "size": 1, "sha256": "", "type": ""}]
    (tmp_path / "receipt").write_bytes(sign_receipt(content, signer(tmp_path)))
    done = ibi("verify", tmp_path / "receipt", "--files", tmp_path)
    assert done.status == 1
    assert "\x1b" not in done.out + done.err
    content["holder"] = {"service": []}
    (tmp_path / "receipt").write_bytes(sign_receipt(content, signer(tmp_path)))
    assert "not a receipt" in ibi("verify", tmp_path / "receipt").err


def test_bags_go_out_and_come_in(kept: ArchiveFolder, ibi: Command, tmp_path: Path) -> None:
    assert ibi("export", "--data", kept.data, NAME, "--to", tmp_path / "bag.zip").status == 0
    other = make_archive(tmp_path / "other")
    done = ibi("import-bag", "--data", other.data, tmp_path / "bag.zip", "--json")
    assert (done.status, done.json["rep"]) == (0, NAME)
    assert other.path("a.txt").read_bytes() == b"aaaa"
    again = ibi("import-bag", "--data", other.data, tmp_path / "bag.zip")
    assert (again.status, again.err.count("\n")) == (1, 1)


@pytest.mark.parametrize("more", [(), ("--zip",)])
def test_the_whole_archive_goes_into_bags(
    kept: ArchiveFolder, ibi: Command, tmp_path: Path, more: tuple[str, ...]
) -> None:
    done = ibi("export", "--data", kept.data, "--all", "--to", tmp_path / "bags", *more)
    assert (done.status, done.out) == (0, "3 bags, 0 items left out\n")
    listed = [json.loads(line) for line in (tmp_path / "bags/items.jsonl").read_text().splitlines()]
    assert {each["bag"] for each in listed} | {"items.jsonl"} == {
        path.name for path in (tmp_path / "bags").iterdir()
    }
    other = make_archive(tmp_path / "other", service=kept.directory.settings().service)
    taken = ibi("import-bag", "--data", other.data, "--all", tmp_path / "bags")
    assert (taken.status, taken.out) == (0, "2 bags imported, 1 were here already, 0 refused\n")
    assert [item["files"] for item in other.everything() if "files" in item] == [
        item["files"] for item in kept.everything() if "files" in item
    ]
    flip(kept.path("a.txt"), 0)
    again = ibi("export", "--data", kept.data, "--all", "--to", tmp_path / "again", *more)
    assert (again.status, again.out) == (1, "2 bags, 1 items left out\n")
    assert ibi("export", "--data", kept.data, "--all", "--to", tmp_path / "bags").err.endswith(
        "is not empty\n"
    )


def test_of_many_bags_those_that_are_none_are_told_and_the_others_taken_in(
    kept: ArchiveFolder, ibi: Command, tmp_path: Path
) -> None:
    bags = tmp_path / "bags"
    assert ibi("export", "--data", kept.data, "--all", "--to", bags, "--zip").status == 0
    broken = next(bags.glob(NAME.replace("/", "_") + ".zip"))
    flip(broken, 8 * 200)
    other = make_archive(tmp_path / "other", service=kept.directory.settings().service)
    done = ibi("import-bag", "--data", other.data, "--all", bags, "--json")
    assert (done.status, done.json) == (1, {"taken": 1, "held": 1, "refused": 1})
    assert done.err.startswith(f"{broken.name}: ")
    with (bags / "items.jsonl").open("a") as listing:
        listing.write('{"bag": "../elsewhere"}\n')
    done = ibi("import-bag", "--data", other.data, "--all", bags)
    assert (done.status, done.err) == (1, "ibi: ../elsewhere is not in this folder\n")
    done = ibi("import-bag", "--data", other.data, "--all", tmp_path / "nowhere")
    assert (done.status, done.err.count("\n")) == (1, 1)


@pytest.mark.parametrize("words", [(), (NAME, "--all"), (NAME, "--zip")])
def test_export_wants_one_item_or_all(
    kept: ArchiveFolder, ibi: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = ibi("export", "--data", kept.data, *words, "--to", tmp_path / "out")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert not (tmp_path / "out").exists()
