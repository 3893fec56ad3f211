"""`ibi archive copy`, `refresh`, `transfer`, `peer`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ibi.archive.replication import retiring
from ibi.cli import main
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from support.archive.replication_fixture import FILES, NAME, Archive, Elsewhere, make_archive

KEEPING = Path(__file__).parents[4] / "docs/en/how-to/keep-an-archive.md"


@pytest.fixture
def here(tmp_path: Path) -> Archive:
    """Where the commands are typed."""
    return make_archive(tmp_path, 1)


@pytest.fixture
def there(tmp_path: Path) -> Archive:
    """The other Archive."""
    return make_archive(tmp_path, 2)


def typed(archive: Archive, action: str, *words: str) -> int:
    return main(["archive", action, "--data", str(archive.data), *words])


def test_a_copy_is_taken_and_refreshed(
    here: Archive, there: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    there.put()
    with there.served():
        assert typed(here, "copy", NAME, "--from", there.root) == 1
        assert "must not be contacted" in capsys.readouterr().err
        assert typed(here, "copy", NAME, "--from", there.root, "--allow-private", "--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["state"], report["copy"]["archive"], report["copy"]["equal"]) == (
            "Copy",
            there.root,
            True,
        )
        assert typed(here, "refresh") == 0
        assert f"{NAME} equals its original of" in capsys.readouterr().out
    assert typed(here, "refresh", NAME, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ibi"], report["equal"]) == (NAME, False)
    assert typed(here, "refresh") == 1
    assert "may lag behind since" in capsys.readouterr().out
    assert here.content() == FILES


def test_a_url_of_another_item_is_no_name_of_the_one_to_copy(
    here: Archive, there: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    there.put()
    with there.served():
        for modifier in ("!", "+(en)", ":"):
            url = f"http://urlib.net/{NAME}{modifier}"
            assert typed(here, "copy", url, "--from", there.root, "--allow-private") == 1
            assert f"{NAME}{modifier} leads to another item than {NAME}" in capsys.readouterr().err
        assert typed(here, "copy", f"<http://urlib.net/{NAME}>", "--from", there.root, "--allow-private") == 0


def test_what_could_not_be_compared_is_said(here: Archive, capsys: pytest.CaptureFixture[str]) -> None:
    far = Elsewhere()
    far.pages["/x.txt"] = (200, {}, b"x")
    with far.served() as root:
        far.leads(NAME, f"{root}/x.txt")
        assert typed(here, "join", "--resolver", root, "--key", "12345678901234567890") == 0
        capsys.readouterr()
        assert typed(here, "copy", NAME, "--allow-private") == 0
    printed = capsys.readouterr()
    assert (printed.out, "could not be compared" in printed.err) == (f"{NAME}\n", True)


def test_peers_are_named_listed_and_forgotten(here: Archive, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(here, "peer", "--name", "b", "--address", "http://B.example/x", "--token", "t") == 0
    assert typed(here, "peer", "--name", "c", "--address", "https://c.example") == 0
    assert typed(here, "peer") == 0
    assert capsys.readouterr().out == "b  http://b.example  token\nc  https://c.example  -\n"
    assert typed(here, "peer", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["address"] == "http://b.example"
    assert (here.data / Peer.FILE).stat().st_mode & 0o777 == 0o600
    assert typed(here, "peer", "--name", "b", "--remove") == 0
    assert typed(here, "peer", "--name", "b", "--remove") == 1
    assert typed(here, "peer", "--name", "b") == 1
    assert typed(here, "peer", "--name", "b", "--address", "nowhere") == 1
    assert list(Peer.read_tables(here.data)) == ["c"]


@pytest.mark.proves("ARC-08")
def test_an_original_is_handed_over(
    here: Archive, there: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    here.put()
    here.knows(there, "b", there.lets_in("a"))
    there.knows(here, "a")
    with here.served(), there.served():
        assert typed(here, "transfer", NAME, "--to", "b", "--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["stage"], report["state"], report["to"]) == ("done", "Copy", there.root)
        assert typed(here, "transfer", NAME, "--to", "b") == 1
        assert "is a copy" in capsys.readouterr().err
    assert [archive.held().state for archive in (here, there)] == [ItemState.COPY, ItemState.ORIGINAL]


def test_an_original_is_handed_over_as_the_guide_says(
    here: Archive, there: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    here.put()
    guide = KEEPING.read_text("utf-8").partition("## Other Archives")[2].partition("\n## ")[0]
    lines = [line.partition("#")[0].split() for line in guide.splitlines() if line.startswith("    ibi ")]
    actions = ("token", "peer", "peer", "transfer")
    commands = sorted(
        (line[2:] for line in lines if line[2] in actions), key=lambda line: actions.index(line[0])
    )
    values = {
        "archive": str(here.data), "<ibi>": NAME, "<peer>": "there", "http://there.example": there.root,
        "http://here.example": here.root,
    }  # fmt: skip
    with here.served(), there.served():
        for words in commands:
            at_there = words[words.index("--data") + 1] == "there"
            given = [values.get(word, word) for word in words]
            given[given.index("--data") + 1] = str(there.data if at_there else here.data)
            assert main(["archive", *given]) == 0, words
            printed = capsys.readouterr().out.split()
            values.setdefault("<token>", printed[-1] if printed else "")
    assert [archive.held().state for archive in (here, there)] == [ItemState.COPY, ItemState.ORIGINAL]


def test_a_hand_over_is_taken_back_and_another_is_taken_up(
    here: Archive, there: Archive, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retiring, "PAUSES", ())
    here.put()
    here.knows(there, "b", there.lets_in("a"))
    there.knows(here, "a")
    with here.served():
        assert typed(here, "transfer", NAME, "--to", "b") == 1
        assert "is not finished" in capsys.readouterr().err
        with there.served():
            assert typed(here, "transfer", NAME, "--cancel") == 0
            assert f"{NAME} stays here" in capsys.readouterr().err
            assert typed(here, "transfer", NAME, "--cancel") == 1
            assert "is not being handed over" in capsys.readouterr().err
        assert typed(here, "transfer", NAME, "--to", "b") == 1
        with there.served():
            assert typed(here, "transfer") == 0
            assert "is held by" in capsys.readouterr().err
            assert typed(here, "transfer") == 0
    assert there.held().state is ItemState.ORIGINAL


@pytest.mark.parametrize("words", [("--cancel",), ("--to", "b"), (NAME,), (NAME, "--to", "b")])
def test_incomplete_arguments_are_refused(
    here: Archive, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    here.put()
    assert typed(here, "transfer", *words) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
