"""Acts of administrators on one Archive: what each returns, whole, what it notes meanwhile, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ibi.api.fields import NoFields
from ibi.api.jobs import Jobs
from ibi.archive.membership.joining import Resolvers
from ibi.archive.model.handover import GiverStage
from ibi.archive.model.item import Holding
from ibi.archive.operations import exchange, packages, peers, preservation, search, settings
from ibi.archive.operations.context import ArchiveContext
from ibi.archive.operations.exchange import MOST_LATE, RetireFields, TransferFields
from ibi.archive.operations.preservation import (
    AuditFields,
    BackupFields,
    CheckFields,
    RepairFields,
    SettleFields,
)
from ibi.archive.preservation.audit import fault_message
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.tables import transfers
from ibi.archive.store.tables.fixity import FileFault
from ibi.archive.store.tables.rows import ListedFile
from ibi.errors import BadField, BadItem, Conflict, HoldingError, IbiError, NotHeld, SetupError
from ibi.identifier.forms import parse_name
from ibi.runtime.settings import ArchiveSettings, Peer
from support.archive.archive_fixture import GONE, LAST, LINKED, REP, WHEN, NewArchive, fill
from support.archive.search_fixture import indexer_of

PEER = "https://other.example"
FILES, BYTES = 4, 3 + 3 + 25 + (1 << 20)


@dataclass
class Acting:
    """Who acts on an Archive, and what came up meanwhile."""

    archive: NewArchive
    progress: list[tuple[int, int | None]] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)

    def context(self, **more: Any) -> ArchiveContext:
        archive = self.archive
        seconds = archive.clock.seconds
        return ArchiveContext(
            who="maria", say=str, directory=DataDirectory(archive.data, archive.clock.machine),
            jobs=Jobs(archive.data, seconds, seconds), indexer=lambda _: indexer_of(archive), is_administrator=True,
            called="--{}".format, noted=lambda each: self.noted.append(str(each)),
            progress=lambda done, total: self.progress.append((done, total)), **more,
        )  # fmt: skip

    def held(self, name: str) -> Holding:
        return self.archive.catalogue.settled(parse_name(name))

    def refused(self, act: Callable[..., Any], *fields: Any, **more: Any) -> tuple[type[IbiError], str]:
        with pytest.raises(IbiError) as refused:
            act(self.context(**more), *fields)
        return type(refused.value), str(refused.value)


@pytest.fixture
def acting(archive: NewArchive) -> Acting:
    fill(archive)
    return Acting(archive)


def test_the_state_of_an_archive_is_told_whole(acting: Acting) -> None:
    found = preservation.state(acting.context(), NoFields())
    files = found.pop("files")
    assert files == {"count": FILES, "bytes": BYTES, "free": files["free"]}
    assert abs(files["free"] - shutil.disk_usage(acting.archive.data).free) < 1 << 32
    assert {name: found[name] for name in ("items", "resolvers", "transfers", "unsettled")} == {
        "items": {"Original": 4, "Copy": 0, "Deleted": 1}, "resolvers": [], "transfers": [], "unsettled": 0,
    }  # fmt: skip


def test_an_audit_reads_every_file_and_names_those_that_are_damaged(acting: Acting) -> None:
    context = acting.context()
    assert preservation.audit(context, AuditFields()) == {"files": FILES, "bytes": BYTES, "faults": []}
    assert acting.progress[-1] == (BYTES, BYTES)
    last = acting.held(LAST)
    listed = ListedFile(last.number, last.forms, last.files[0])
    [path] = (acting.archive.data / "col").glob("**/2011/**/a.txt")
    path.chmod(0o644)
    path.write_bytes(b"bbb")
    acting.progress.clear()
    good = {"item": LAST, "file": "a.txt", "fault": "digest", "found": WHEN, "last_good": WHEN}
    one = preservation.audit(context, AuditFields(ibi=LAST))
    assert one == {"files": 1, "bytes": 3, "faults": [good]}
    assert (acting.progress, acting.noted) == ([(3, 3)], [str(fault_message(listed, FileFault.DIGEST))])
    audits = preservation.audits(context, NoFields())
    assert audits == {
        "days": acting.archive.settings.audit_days, "files": FILES, "faults": 1, "begun": "", "ended": "no",
        "damaged": [{"ibi": LAST, "file": "a.txt", "fault": "digest", "found": WHEN, "good": WHEN}],
    }  # fmt: skip
    assert acting.refused(preservation.audit, AuditFields(ibi="a.example/b/1999/01.01.00.00"))[0] is NotHeld


def test_a_damaged_file_is_put_back_from_the_same_bytes_alone(acting: Acting, tmp_path: Path) -> None:
    [path] = (acting.archive.data / "col").glob("**/2011/**/a.txt")
    path.chmod(0o644)
    path.write_bytes(b"bbb")
    preservation.audit(acting.context(), AuditFields(ibi=LAST))
    same, other = tmp_path / "same", tmp_path / "other"
    same.write_bytes(b"aaa")
    other.write_bytes(b"ccc")
    kind, sentence = acting.refused(
        preservation.repair_file, RepairFields(ibi=LAST, file="a.txt", upload=str(other))
    )
    assert (kind, "a.txt" in sentence) == (BadItem, True)
    fields = RepairFields(ibi=LAST, file="a.txt", upload=str(same))
    sha256 = acting.held(LAST).files[0].sha256
    assert preservation.repair_file(acting.context(), fields) == {
        "ibi": LAST,
        "file": "a.txt",
        "sha256": sha256,
    }
    assert path.read_bytes() == b"aaa"
    assert preservation.audits(acting.context(), NoFields())["damaged"] == []


def test_a_check_tells_each_difference_and_whether_it_was_settled(acting: Acting) -> None:
    context = acting.context()
    assert preservation.check_all(context, CheckFields()) == {"differences": [], "open": 0}
    sidecar = next((acting.archive.data / "col").glob("**/2011/**/item.json"))
    sidecar.chmod(0o644)
    sidecar.unlink()
    found = preservation.check_all(context, CheckFields())
    assert found["open"] == len(found["differences"]) > 0
    assert any("--repair" in each["advice"] for each in found["differences"])
    mended = preservation.check_all(context, CheckFields(repair=True))
    assert [each["problem"] for each in mended["differences"]] == [
        each["problem"] for each in found["differences"]
    ]
    assert [each["advice"] == "settled" for each in mended["differences"]] == [
        each["settled"] for each in mended["differences"]
    ]
    assert mended["open"] == sum(not each["settled"] for each in mended["differences"]) < found["open"]
    gone = acting.archive.data / "gone"
    away = acting.context()
    away.directory = DataDirectory(gone, acting.archive.clock.machine)
    with pytest.raises(SetupError) as absent:
        preservation.check_all(away, CheckFields())
    assert str(absent.value) == f"{gone} does not exist"


def test_backups_are_made_verified_and_listed(acting: Acting, tmp_path: Path) -> None:
    context = acting.context()
    assert preservation.backups(context, NoFields()) == {"backups": []}
    unset = (
        "no folder for backups is set; set it on the command line: ibi archive set "
        "--backup-folder DIR, or --to FOLDER for one backup"
    )
    assert acting.refused(preservation.back_up, BackupFields()) == (BadField, unset)
    made = preservation.back_up(context, BackupFields(to=str(tmp_path / "kept"), verify=True))
    # Two files have the same bytes, which are copied once.
    copied = {"copied": FILES - 1, "copied_bytes": BYTES - 3}
    name = made["backup"]
    assert made == {
        "backup": name,
        "items": 4,
        "files": FILES,
        "bytes": BYTES,
        **copied,
        "removed": 0,
        "problems": [],
    }
    assert acting.progress[-1] == (BYTES, BYTES)
    changes = settings.SettingsFields()
    assert acting.refused(settings.change, changes) == (BadField, "nothing to change was given")


def test_settling_takes_names_or_all_and_not_both(acting: Acting) -> None:
    both = SettleFields(names=(REP,), everything=True)
    assert acting.refused(preservation.settle, both) == (
        BadField,
        "give names, or --everything, but not both",
    )
    nothing = {"settled": 0, "moved": 0, "removed": 0, "left": 0, "problems": []}
    assert preservation.settle(acting.context(), SettleFields(everything=True)) == nothing
    assert preservation.settle(acting.context(), SettleFields()) == nothing
    kind, sentence = acting.refused(preservation.settle, SettleFields(names=(REP,)))
    assert (kind, REP in sentence) == (HoldingError, True)


def test_peers_are_named_changed_and_forgotten(acting: Acting) -> None:
    def facts(*listed: tuple[str, str, bool]) -> dict[str, Any]:
        return {"peers": [dict(zip(("name", "address", "token"), each, strict=True)) for each in listed]}

    context = acting.context()
    assert peers.show(context, NoFields()) == facts()
    saved = peers.save(context, peers.PeerFields(name="b", address=f"{PEER}/"))
    assert saved == {"name": "b", "address": PEER, "token": False}
    with_token = peers.save(context, peers.PeerFields(name="b", address=PEER, token="t"))
    assert with_token == {"name": "b", "address": PEER, "token": True}
    moved = peers.save(context, peers.PeerFields(name="b", address="http://third.example"))
    assert moved == {"name": "b", "address": "http://third.example", "token": True}
    assert peers.show(context, NoFields()) == facts(("b", "http://third.example", True))
    assert Peer.read_tables(acting.archive.data)["b"].token == "t"
    for name in ("a/b", "a\nb"):
        expected = BadField, "name is a short printable text"
        assert acting.refused(peers.save, peers.PeerFields(name=name, address=PEER)) == expected
    assert acting.refused(peers.save, peers.PeerFields(name="x", address="no URL"))[0] is BadField
    assert acting.refused(peers.remove, peers.PeerName(name="c")) == (NotHeld, "there is no peer c")
    changed = Conflict, "this has been changed meanwhile, so nothing was done"
    for act, fields in (
        (peers.save, peers.PeerFields(name="c", address=PEER)), (peers.remove, peers.PeerName(name="b")),
    ):  # fmt: skip
        assert acting.refused(act, fields, if_match='"other"') == changed
    peers.remove(context, peers.PeerName(name="b"))
    assert peers.show(context, NoFields()) == facts()


def test_settings_are_shown_without_secrets_and_changed_all_or_none(acting: Acting) -> None:
    context = acting.context()
    before = settings.show(context, NoFields())["settings"]
    assert {"key", "secret"}.isdisjoint(before)
    given = settings.SettingsFields(audit_days=31, platform_software=LINKED)
    changed = settings.change(context, given)
    expected = {**before, "audit_days": 31, "platform_software": f"ibip {LINKED}"}
    assert changed == {"settings": expected, "changed": changed["changed"]}
    assert sorted(changed["changed"]) == ["audit_days", "platform_software"]
    assert ArchiveSettings.read(acting.archive.data).audit_days == 31
    again = settings.change(context, given)
    assert again == {"settings": expected, "changed": []}
    conflict = Conflict, "this has been changed meanwhile, so nothing was done"
    assert acting.refused(settings.change, given, if_match='"other"') == conflict


def with_peer(acting: Acting) -> None:
    Peer.write_tables(acting.archive.data, {"b": Peer(address=PEER, token="t")})


def test_a_hand_over_is_offered_listed_and_looked_at(acting: Acting) -> None:
    with_peer(acting)
    context = acting.context()
    assert exchange.hand_overs(context, NoFields()) == {
        "transfers": [],
        "peers": [{"name": "b", "address": PEER}],
    }
    offered = exchange.offer(context, exchange.OfferFields(ibi=LAST, to="b"))
    moment = offered["since"]
    facts = {
        "transfer": offered["transfer"],
        "item": LAST,
        "to": PEER,
        "stage": "offered",
        "since": moment,
        "problem": "",
    }
    assert offered == {**facts, "state": "Original"}
    assert exchange.hand_overs(context, NoFields())["transfers"] == [facts]
    found = exchange.hand_over(context, TransferFields(transfer=offered["transfer"]))
    assert found == offered
    other = exchange.offer(context, exchange.OfferFields(ibi=REP, to="b"))["transfer"]
    assert sorted(exchange.under_way(context)) == sorted([offered["transfer"], other])
    assert exchange.under_way(context, LAST) == [offered["transfer"]]
    assert exchange.under_way(context, GONE) == []
    conflict = Conflict, "this has been changed meanwhile, so nothing was done"
    assert acting.refused(exchange.offer, exchange.OfferFields(ibi=REP, to="b"), if_match='"x"') == conflict
    assert acting.refused(exchange.hand_over, TransferFields(transfer="0" * 32))[0] is NotHeld


def test_what_was_handed_over_cannot_be_taken_back(acting: Acting) -> None:
    with_peer(acting)
    context = acting.context()
    offered = exchange.offer(context, exchange.OfferFields(ibi=LAST, to="b"))["transfer"]
    with acting.archive.catalogue.writing() as writer:
        [transfer] = transfers.open_outgoing(writer.run)
        transfers.save_outgoing(writer.run, replace(transfer, stage=GiverStage.DONE))
    expected = HoldingError, f"{LAST} is held by {PEER} now"
    assert acting.refused(exchange.cancel, TransferFields(transfer=offered)) == expected


def test_an_archive_retires_once_nothing_must_stay(acting: Acting) -> None:
    with_peer(acting)
    assert acting.archive.load(
        {"rep": "a.example/b/2016/01.01.00.00", "url": "http://x.example/", "transferable": False}
    ).added
    problem = "1 originals must stay, such as a.example/b/2016/01.01.00.00; to leave them behind, choose --leave_them"
    assert acting.refused(exchange.retire, RetireFields(to="b")) == (HoldingError, problem)
    assert not ArchiveSettings.read(acting.archive.data).retired


def test_an_archive_without_originals_retires_and_leaves_its_resolvers(archive: NewArchive) -> None:
    acting = Acting(archive)
    with_peer(acting)
    context = acting.context()
    assert exchange.retire(context, RetireFields(to="b")) == {
        "moved": 0,
        "left": 0,
        "problems": [],
        "retired": True,
    }
    after = Resolvers.read(archive.data).settings
    assert (after.retired, after.switched_on) == (True, False)


def test_what_came_in_while_an_archive_retired_is_named(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting = Acting(archive)
    with_peer(acting)
    names = [f"a.example/b/2016/01.{number // 60:02}.00.{number % 60:02}" for number in range(MOST_LATE + 1)]
    moving = exchange.move_everything

    def late(context: ArchiveContext, fields: RetireFields) -> dict[str, Any]:
        moved = moving(context, fields)
        lines = [{"rep": name, "url": "http://x.example/"} for name in names]
        stays = {"rep": "a.example/a/2016/01.01.00.00", "url": "http://x.example/", "transferable": False}
        assert archive.load(*lines, stays).added == len(lines) + 1
        return moved

    monkeypatch.setattr(exchange, "move_everything", late)
    retired = exchange.retire(acting.context(), RetireFields(to="b"))
    why = "it came in meanwhile; retire once more, to hand it over, too"
    problems = [{"ibi": name, "problem": why} for name in names[:MOST_LATE]]
    assert retired == {"moved": 0, "left": MOST_LATE, "problems": problems, "retired": True}


def test_an_item_is_attested_exported_and_taken_in_again(acting: Acting, tmp_path: Path) -> None:
    context = acting.context()
    receipt = packages.attest(context, packages.ItemFields(ibi=LAST))
    assert (receipt.kind, receipt.name.endswith(".receipt.json"), receipt.file) == (
        "application/json",
        True,
        None,
    )
    bag = packages.export(context, packages.ItemFields(ibi=LAST))
    assert bag.file
    assert (bag.kind, bag.name) == ("application/zip", receipt.name.replace(".receipt.json", ".zip"))
    path = tmp_path / bag.name
    with bag.file as source:
        path.write_bytes(source.read())
    assert list((acting.archive.data / "staging").glob("*.zip")) == []
    assert acting.refused(packages.take, packages.BagFields(upload=str(path)))[0].__name__ == "AlreadyHeld"


def test_the_index_is_made_anew_with_its_progress(acting: Acting) -> None:
    context = acting.context()
    assert search.bring_up_to_date(context) == 5
    assert acting.progress[-1] == (5, 5)
    acting.progress.clear()
    assert search.bring_up_to_date(context) == 5
    assert acting.progress == []
    assert search.make_index(context, NoFields()) == {"items": 5}
    assert acting.progress[-1] == (5, 5)
