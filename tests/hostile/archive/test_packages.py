"""Bags and packages made to do harm: one clear sentence each, nothing written outside, nothing left in staging."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.archive.preservation.bag_ingest import take_bag
from ibi.archive.preservation.bagging import DECLARATION
from ibi.archive.preservation.packages import Package, PackageLimits
from ibi.errors import AlreadyHeld, BadItem, IbiError, ParseError
from support.archive.preservation_fixture import NAME, ArchiveFolder, make_archive

ITEM = {"rep": NAME, "files": {"a.txt": {"path": "data/a.txt"}}}


def bag(payload: dict[str, bytes], item: object = None, **more: bytes) -> dict[str, bytes]:
    """The files of a bag: its payload by path, and what stands in place of its tag files."""
    sums = "".join(f"{hashlib.sha256(text).hexdigest()}  {path}\n" for path, text in payload.items())
    tags = {"bagit.txt": DECLARATION.encode(), "manifest-sha256.txt": sums.encode()}
    if item is not None:
        tags["metadata.json"] = json.dumps(item).encode()
    tags |= {name.replace("__", "-").replace("_txt", ".txt"): text for name, text in more.items()}
    return {**tags, **payload}


GOOD = bag({"data/a.txt": b"a"}, ITEM)


def zipped(
    path: Path, files: dict[str, bytes], change: Callable[[zipfile.ZipInfo], None] = lambda _: None
) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            change(info)
            package.writestr(info, text)
    return path


def tarred(path: Path, files: dict[str, bytes], *more: tarfile.TarInfo, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as package:  # type: ignore[call-overload]  # a mode as text
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            package.addfile(info, io.BytesIO(text))
        for info in more:
            package.addfile(info)
    return path


def packed(kind: str, path: Path, files: dict[str, bytes]) -> Path:
    return zipped(path, files) if kind == "zip" else tarred(path, files)


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    return make_archive(tmp_path / "archive")


def take(kept: ArchiveFolder, path: Path, limits: PackageLimits | None = None) -> None:
    with kept.item_store() as item_store:
        take_bag(item_store, path, "stranger", limits)


def refuses(kept: ArchiveFolder, path: Path, words: str, limits: PackageLimits | None = None) -> str:
    """It is refused with a sentence that says so, which is returned, and nothing of it stays."""
    before = sorted(path.parent.iterdir())
    message = ""
    with kept.item_store() as item_store:
        try:
            take_bag(item_store, path, "stranger", limits)
        except (BadItem, AlreadyHeld, ParseError) as error:
            message = str(error)
        assert kept.staging() == []
    assert message
    assert words in message
    assert "\n" not in message
    with kept.catalogue() as catalogue:
        assert catalogue.count() == 1  # the Archive's own service
    assert sorted(path.parent.iterdir()) == before
    assert [each for each in (kept.data / "col").rglob("*") if each.is_file()] == []
    return message


@pytest.mark.parametrize("top", ["", "my bag/"])
@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz", "folder"])
def test_a_good_bag_is_taken_in_from_every_kind_of_package(
    kept: ArchiveFolder, tmp_path: Path, kind: str, top: str
) -> None:
    files = {f"{top}{name}": text for name, text in GOOD.items()}
    path = tmp_path / f"bag.{kind}"
    if kind == "zip":
        zipped(path, files)
    elif kind == "folder":
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(text)
    else:
        tarred(path, files, mode=f"w:{kind.partition('.')[2]}")
    take(kept, path)
    assert kept.path("a.txt").read_bytes() == b"a"
    assert kept.staging() == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../evil", "relative"),
        ("data/../../evil", "relative"),
        ("/evil", "leads out"),
        ("data//evil", "empty"),
        ("data/./evil", "relative"),
        ("data\\..\\evil", "backslash"),
        ("data/a\nb", "control"),
        (f"data/{'x' * 300}", "overlong"),
        ("data/" + "d/" * 700 + "x", "percent-encoded"),
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_leads_elsewhere_is_refused(
    kept: ArchiveFolder, tmp_path: Path, kind: str, name: str, words: str
) -> None:
    refuses(kept, packed(kind, tmp_path / "bag", {**GOOD, name: b"x"}), words)
    assert not (tmp_path / "evil").exists()


def test_a_name_with_a_zero_byte_in_a_zip_is_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    path = zipped(tmp_path / "bag.zip", {**GOOD, "data/zXz": b"x"})
    path.write_bytes(path.read_bytes().replace(b"data/zXz", b"data/z\x00z"))
    refuses(kept, path, "control")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("data/A.txt", "data/a.TXT"),
        ("data/\u00e9", "data/e\u0301"),
        ("data/x", "data/X/y"),
        ("data/ß", "data/SS"),
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_names_that_some_file_system_takes_for_one_are_refused(
    kept: ArchiveFolder, tmp_path: Path, kind: str, one: str, other: str
) -> None:
    with pytest.raises(BadItem, match=r"too much alike|a file and a folder"):
        take(kept, packed(kind, tmp_path / "bag", bag({one: b"1", other: b"2"})))
    assert kept.staging() == []


def test_the_same_name_twice_is_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    path = tmp_path / "bag.tar"
    tarred(path, GOOD)
    tarred(path, {"data/a.txt": b"b"}, mode="a")
    refuses(kept, path, "twice")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(kept: ArchiveFolder, tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("data/link")
    info.type, info.linkname = kind, "/etc/passwd"
    refuses(kept, tarred(tmp_path / "bag.tar", GOOD, info), "not a regular file")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_in_a_zip_are_refused(kept: ArchiveFolder, tmp_path: Path, kind: int) -> None:
    def change(info: zipfile.ZipInfo) -> None:
        info.external_attr = (kind if info.filename == "data/link" else stat.S_IFREG) << 16

    refuses(
        kept,
        zipped(tmp_path / "bag.zip", {**GOOD, "data/link": b"/etc/passwd"}, change),
        "not a regular file",
    )


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_and_pipes_in_a_folder_are_refused(kept: ArchiveFolder, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "bag"
    (folder / "data").mkdir(parents=True)
    for name, text in GOOD.items():
        (folder / name).write_bytes(text)
    if kind == "link":
        (folder / "data/link").symlink_to("/etc/passwd")
    else:
        os.mkfifo(folder / "data/pipe")
    refuses(kept, folder, "not a regular file")


def test_too_many_files_are_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    files = {**GOOD, **{f"data/{number}": b"" for number in range(50)}}
    refuses(kept, zipped(tmp_path / "bag.zip", files), "more than 20 files", PackageLimits(files=20))


def test_too_many_bytes_are_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    files = bag({"data/a.txt": bytes(5000)}, ITEM)
    refuses(kept, zipped(tmp_path / "bag.zip", files), "more than 3000 bytes", PackageLimits(size=3000))


def unpacked(path: Path, limits: PackageLimits) -> str:
    """The sentence of the refusal when a package is unpacked with these limits, "" if it is not refused."""
    package = Package(path, limits)
    try:
        for member in package.members():
            assert sum(map(len, package.chunks(member))) == member.size
    except BadItem as error:
        return str(error)
    return ""


GROWS = "the package grows without end: more than {} bytes came out of it"


def test_each_limit_may_be_met_and_not_be_passed(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"a": bytes(5000), "b": bytes(5000)})
    listed = path.read_bytes().rindex(b"PK\x05\x06") - path.read_bytes().index(b"PK\x01\x02")
    for limits, fewer, sentence in (
        (PackageLimits(files=2), PackageLimits(files=1), "the package holds more than 1 files"),
        (PackageLimits(size=10_000), PackageLimits(size=9_999), "the package holds more than 9999 bytes"),
        (
            PackageLimits(harmless=10_000, ratio=0),
            PackageLimits(harmless=9_999, ratio=0),
            GROWS.format(10_000),
        ),
        (PackageLimits(piece=listed), PackageLimits(piece=listed - 1), "the list of the package is too long"),
    ):
        assert (unpacked(path, limits), unpacked(path, fewer)) == ("", sentence)
    even, size = path, 0
    while even.stat().st_size != size:  # a package that grows to just so many times its size
        size = even.stat().st_size
        even = zipped(tmp_path / "y.zip", {"a": bytes(20 * size), "b": bytes(20 * size)})
    assert unpacked(even, PackageLimits(harmless=0, ratio=40)) == ""
    assert unpacked(even, PackageLimits(harmless=0, ratio=39)) == GROWS.format(40 * size)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(bytes(5000))
    assert unpacked(folder, PackageLimits(harmless=0, ratio=0)) == ""


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar.bz2", "tar.xz"])
def test_a_bomb_is_refused_while_it_grows(kept: ArchiveFolder, tmp_path: Path, kind: str) -> None:
    files = bag({"data/a.txt": bytes(30_000_000)}, ITEM)
    path = tmp_path / f"bag.{kind}"
    made = zipped(path, files) if kind == "zip" else tarred(path, files, mode=f"w:{kind.partition('.')[2]}")
    assert path.stat().st_size < 60_000
    refuses(kept, made, "grows without end", PackageLimits(harmless=4 << 20))


def test_a_zip_that_lies_about_a_size_is_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    path = zipped(tmp_path / "bag.zip", bag({"data/a.txt": b"a" * 77_777}, ITEM))
    text = path.read_bytes()
    assert text.count((77_777).to_bytes(4, "little")) == 2
    path.write_bytes(text.replace((77_777).to_bytes(4, "little"), (7).to_bytes(4, "little")))
    refuses(kept, path, "cannot be unpacked")


def test_many_small_bombs_count_together(kept: ArchiveFolder, tmp_path: Path) -> None:
    payload = {f"data/{number:04}": bytes(1_000_000) for number in range(40)}
    path = zipped(tmp_path / "bag.zip", bag(payload))
    refuses(kept, path, "grows without end", PackageLimits(harmless=4 << 20))


def test_the_head_of_a_tar_may_not_ask_for_all_memory(kept: ArchiveFolder, tmp_path: Path) -> None:
    head = tarfile.TarInfo("x")
    head.type, head.size = tarfile.XHDTYPE, 1 << 32
    path = tmp_path / "bag.tar"
    path.write_bytes(head.tobuf() + bytes(10_000))
    refuses(kept, path, "too long")


def test_the_list_of_a_zip_may_not_ask_for_all_memory(kept: ArchiveFolder, tmp_path: Path) -> None:
    path = zipped(tmp_path / "bag.zip", {**GOOD, **{f"data/{number}": b"" for number in range(200)}})
    refuses(kept, path, "too long", PackageLimits(piece=8000))


def flagged(path: Path, flag: int) -> Path:
    """A bag whose last file has a flag of a zip."""
    zipped(path, GOOD)
    text = bytearray(path.read_bytes())
    text[text.rindex(b"PK\x01\x02") + 8] |= flag
    path.write_bytes(text)
    return path


def test_an_encrypted_file_is_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    refuses(kept, flagged(tmp_path / "bag.zip", 1), "data/a.txt is encrypted")


def test_a_file_that_was_packed_with_an_option_is_not_taken_for_an_encrypted_one(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    with kept.item_store() as item_store:
        take_bag(item_store, flagged(tmp_path / "bag.zip", 2), "stranger")
    assert kept.path("a.txt").read_bytes() == b"a"


@pytest.mark.parametrize("cut", [0, 1, 10, 100, 300])
@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.xz"])
def test_a_package_that_was_cut_off_is_refused(
    kept: ArchiveFolder, tmp_path: Path, kind: str, cut: int
) -> None:
    path = tmp_path / f"bag.{kind}"
    made = zipped(path, GOOD) if kind == "zip" else tarred(path, GOOD, mode=f"w:{kind.partition('.')[2]}")
    made.write_bytes(made.read_bytes()[:cut])
    refuses(kept, made, "")


def test_noise_is_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    for number, start in enumerate([b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00"]):
        path = tmp_path / f"noise{number}"
        path.write_bytes(start + bytes(range(256)) * 10)
        with pytest.raises(BadItem):
            take(kept, path)


CHANGED: dict[str, tuple[dict[str, bytes | None], str]] = {
    "no bagit.txt": ({"bagit.txt": None}, "this is not a bag: bagit.txt is missing"),
    "another version": (
        {"bagit.txt": b"BagIt-Version: 9.9\n"},
        "bagit.txt names no version of BagIt that is known here",
    ),
    "no manifest": ({"manifest-sha256.txt": None}, "the bag has no manifest"),
    "an odd manifest": (
        {"manifest-sha256.txt": b"w" * 90 + b"\n"},
        f"manifest-sha256.txt has a line that is not valid: {'w' * 80}",
    ),
    "a manifest of no encoding": ({"manifest-sha256.txt": b"\xff\xfe\n"}, "manifest-sha256.txt is not UTF-8"),
    "a short digest": (
        {"manifest-sha256.txt": b"abcd  data/a.txt\n"},
        "manifest-sha256.txt has a line that is not valid: abcd  data/a.txt",
    ),
    "another digest": ({"data/a.txt": b"b"}, "data/a.txt is not as the manifest of the bag says"),
    "a file too much": ({"data/b.txt": b"b"}, "data/b.txt is not listed in manifest-sha256.txt"),
    "a file too few": ({"data/a.txt": None}, "data/a.txt of manifest-sha256.txt is missing"),
    "an unknown digest": (
        {"manifest-crc32.txt": b""},
        "manifest-crc32.txt is of a kind that is not known here",
    ),
    "files elsewhere": (
        {"fetch.txt": b"http://127.0.0.1/x 1 data/x\n"},
        "the bag leaves files to be fetched elsewhere; only whole bags are taken in",
    ),
    "another tag": (
        {"tagmanifest-sha256.txt": f"{'0' * 64}  bagit.txt\n".encode()},
        "bagit.txt is not as tagmanifest-sha256.txt says",
    ),
    "metadata that are no JSON": ({"metadata.json": b"{"}, "metadata.json is not JSON"),
    "metadata that are a list": ({"metadata.json": b"[]"}, "metadata.json is not JSON"),
    "metadata nested too deep": ({"metadata.json": b"[" * 100_000}, "metadata.json is not JSON"),
    "metadata nested deep": (
        {
            "metadata.json": b'{"files": {"a.txt": {"path": "data/a.txt"}}, "x": '
            + b"[" * 800
            + b"]" * 800
            + b"}"
        },
        "there is no field x",
    ),
    "metadata of other files": (
        {"metadata.json": b'{"files": {"x": {"path": "data/x"}}}'},
        "metadata.json and the manifest name different files",
    ),
    "metadata without paths": (
        {"metadata.json": b'{"files": {"x": "data/a.txt"}}'},
        "metadata.json does not say where its files are",
    ),
    "a field that is none": (
        {"metadata.json": b'{"evil": 1, "files": {"a.txt": {"path": "data/a.txt"}}}'},
        "there is no field evil",
    ),
    "a name that is none": (
        {"metadata.json": b'{"rep": "x", "files": {"a.txt": {"path": "data/a.txt"}}}'},
        "it has four parts with slashes between them: subdomain/word/year/month.day.hour.minute",
    ),
    "a file name that leads out": (
        {"metadata.json": b'{"files": {"../../x": {"path": "data/a.txt"}}}'},
        "the file name ../../x has an empty, relative or overlong part",
    ),
    "half a character": (
        {"metadata.json": b'{"key": "\\ud800", "files": {"a.txt": {"path": "data/a.txt"}}}'},
        "key is a short printable text",
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_bag_that_is_not_whole_and_true_is_refused(kept: ArchiveFolder, tmp_path: Path, what: str) -> None:
    changes, sentence = CHANGED[what]
    changed: dict[str, bytes | None] = {**GOOD, **changes}
    files = {name: text for name, text in changed.items() if text is not None}
    assert refuses(kept, zipped(tmp_path / "bag.zip", files), sentence) == sentence


def test_files_beside_the_folder_of_the_bag_are_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    files = {f"bag/{name}": text for name, text in GOOD.items()} | {"other/x": b"x"}
    refuses(kept, zipped(tmp_path / "bag.zip", files), "beside")


def test_a_bag_of_an_item_that_is_held_already_is_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    held = kept.put(NAME, {"own.txt": b"own"})
    with pytest.raises(IbiError, match="already held"):
        take(kept, zipped(tmp_path / "bag.zip", GOOD))
    assert kept.staging() == []
    assert kept.held() == kept.held(str(held.forms.main))
    assert [file.name for file in kept.held().files] == ["own.txt"]


def test_what_is_no_package_at_all_is_one_sentence(kept: ArchiveFolder, tmp_path: Path) -> None:
    refuses(kept, tmp_path / "absent", "cannot be read")


@pytest.mark.long
def test_a_tag_file_that_is_too_long_for_the_memory_is_refused(kept: ArchiveFolder, tmp_path: Path) -> None:
    path = tmp_path / "bag.tar.gz"
    with gzip.open(path, "wb", 1) as packed, tarfile.open(fileobj=packed, mode="w") as package:
        info = tarfile.TarInfo("bagit.txt")
        info.size = 200 << 20
        package.addfile(info, _Zeros(info.size))
    refuses(kept, path, "too long")


class _Zeros(io.RawIOBase):
    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1) -> bytes:
        size = min(size, self._left)
        self._left -= size
        return bytes(size)
