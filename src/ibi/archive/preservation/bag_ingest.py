"""Add BagIt bags from outside as items (RFC 8493, threat T23); `bagging` writes bags.

A package is read twice: first its names and tag files, then its payload, which is written into staging while
it is compared with the manifests. Only a complete and correct bag becomes an item. A bag of this software has
all facts of its item. In any other bag the External-Description becomes the title, and names are minted.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from ibi.archive.model.item_json import read_line
from ibi.archive.preservation.bagging import BAGIT, INFO, INSTITUTION, METADATA, PAYLOAD
from ibi.archive.preservation.packages import Package, PackageLimits, encoded
from ibi.archive.store.item_changes import deposit
from ibi.errors import BadItem, IbiError, SetupError
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.durable_files import setup_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.item_store import ItemStore

_ALGORITHMS: Final = {"sha256": 32, "sha512": 64, "sha1": 20, "md5": 16}
"""The digests of manifests, and their lengths in bytes."""

_MANIFEST = re.compile(r"(tag)?manifest-([a-z0-9-]+)\.txt")
_LINE = re.compile(r"([0-9A-Fa-f]+)[ \t]+\*?(.+)")
_VERSION = re.compile(r"BagIt-Version: ?(0\.9[3-7]|1\.0)\r?\n")
_MOST_OF_TAGS: Final = 128 << 20  # bytes of all tag files of a bag
_LABEL: Final = "External-Description"
_LONGEST_TITLE: Final = 4000  # characters of a title


@dataclass(slots=True)
class _Bag:
    """The tag files of a bag. `base` is the folder of the bag inside the package, with its slash, or ""."""

    base: str
    tags: dict[str, bytes] = field(default_factory=dict)
    sums: dict[str, dict[str, str]] = field(default_factory=dict)
    """Algorithm -> path of a payload file -> its digest."""


def take_bag(
    item_store: ItemStore, path: Path, who: str, limits: PackageLimits | None = None, title: str = ""
) -> Holding:
    """Add the bag at a path as a new item; needs a staging session. `title` is used if the bag gives none.

    Raises BadItem and the errors of `deposit`; then nothing has been added.
    """
    try:
        package = Package(path, limits or PackageLimits())
    except OSError as error:
        raise BadItem("{path} cannot be read: {reason}", path=path.name, reason=error.strerror) from None
    bag = _read_tags(package)
    draft, names = _described(bag, title or path.name)
    staged: list[StoredFile] = []
    try:
        _take_payload(package, bag, names, item_store.file_store, staged)
    except BaseException:
        _discard(item_store.file_store, staged, ())
        raise
    try:
        if draft.forms is None or draft.facts.get("state", ItemState.ORIGINAL) is ItemState.ORIGINAL:
            taken = deposit(item_store, draft, staged, who).holding
        else:
            with item_store.unit_of_work(who) as work:
                taken = work.add(draft.holding(draft.forms, item_store.moment), staged, "imported")
    except IbiError as error:
        # After a SetupError the transaction may be committed: the files stay, and the next process cleans up.
        if not isinstance(error, SetupError):
            _discard(item_store.file_store, staged, ())
        raise
    _discard(item_store.file_store, staged, taken.files)
    return taken


def _discard(file_store: FileStore, staged: list[StoredFile], listed: tuple[StoredFile, ...]) -> None:
    """Delete the staged files that are not listed, such as those of an item that was held already."""
    kept = {file.staged for file in listed}
    for file in staged:
        if file.staged not in kept:
            file_store.discard(file)


def _read_tags(package: Package) -> _Bag:
    """Read and check the tag files: the first pass. Raises BadItem."""
    names = package.names()
    bag = _Bag(_base(names))
    read = 0
    digests: dict[str, dict[str, str]] = {}
    for member in package.members():
        name = member.name.removeprefix(bag.base)
        if name.startswith(PAYLOAD):
            continue
        read += member.size
        if read > _MOST_OF_TAGS:
            raise BadItem("the tag files of the bag are too long")
        text = b"".join(package.chunks(member))
        bag.tags[_plain(name)] = text
        digests[_plain(name)] = {
            each: hashlib.new(each, text, usedforsecurity=False).hexdigest() for each in _ALGORITHMS
        }
    if not _VERSION.match(bag.tags[BAGIT].decode("utf-8", "replace")):
        raise BadItem("{name} names no version of BagIt that is known here", name=BAGIT)
    if bag.tags.get("fetch.txt", b"").strip():
        raise BadItem("the bag leaves files to be fetched elsewhere; only whole bags are taken in")
    payload = {_plain(name.removeprefix(bag.base)) for name in names if name.startswith(bag.base + PAYLOAD)}
    _read_manifests(bag, payload, digests)
    return bag


def _base(names: dict[str, int]) -> str:
    """Return the folder of the bag: the top of the package, or its only folder. Raises BadItem."""
    found = [name for name in names if name.rpartition("/")[2] == BAGIT and name.count("/") <= 1]
    base = min(found, key=len, default=None)
    if base is None:
        raise BadItem("this is not a bag: {name} is missing", name=BAGIT)
    base = base.removesuffix(BAGIT)
    if not all(name.startswith(base) for name in names):
        raise BadItem("there are files beside the folder of the bag")
    return base


def _read_manifests(bag: _Bag, payload: set[str], digests: dict[str, dict[str, str]]) -> None:
    """Read the manifests, and compare the tag files with the tag manifests. Raises BadItem."""
    for name, text in bag.tags.items():
        match = _MANIFEST.fullmatch(name)
        if not match:
            continue
        algorithm = match[2]
        if algorithm not in _ALGORITHMS:
            raise BadItem("{name} is of a kind that is not known here", name=name)
        listed = dict(_lines(name, text, algorithm))
        if match[1]:
            wrong = [
                path for path, digest in listed.items() if digests.get(path, {}).get(algorithm) != digest
            ]
            if wrong:
                raise BadItem("{name} is not as {manifest} says", name=wrong[0], manifest=name)
        else:
            odd = sorted(listed.keys() ^ payload)
            if odd:
                known = odd[0] in payload
                problem = "{name} is not listed in {manifest}" if known else "{name} of {manifest} is missing"
                raise BadItem(problem, name=odd[0], manifest=name)
            bag.sums[algorithm] = listed
    if not bag.sums:
        raise BadItem("the bag has no manifest")


def _lines(name: str, text: bytes, algorithm: str) -> Iterator[tuple[str, str]]:
    """Yield the paths and digests of a manifest. Raises BadItem."""
    try:
        lines = text.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise BadItem("{name} is not UTF-8", name=name) from None
    for line in filter(str.strip, lines):
        match = _LINE.fullmatch(line)
        if match is None or len(match[1]) != 2 * _ALGORITHMS[algorithm]:
            raise BadItem("{name} has a line that is not valid: {line}", name=name, line=line[:80])
        # RFC 8493 escapes line ends and the percent sign.
        path = re.sub("%(0[Aa]|0[Dd]|25)", lambda found: chr(int(found[1], 16)), match[2])
        yield _normal(path.removeprefix("./")), match[1].lower()


def _described(bag: _Bag, package: str) -> tuple[Draft, dict[str, str]]:
    """Return the item of a bag, and its name for each payload file. Raises BadItem and ParseError."""
    paths = sorted(next(iter(bag.sums.values())))
    value, names = _own(bag, paths) if METADATA in bag.tags else _foreign(bag, package, paths)
    try:
        # Read like a line of an import, with all the checks of that format.
        return read_line(json.dumps(value).encode()), names
    except RecursionError:
        raise BadItem("{name} is not JSON", name=METADATA) from None


def _own(bag: _Bag, paths: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the object of an item that this software described, and the name of each payload file."""
    try:
        value = json.loads(bag.tags[METADATA])
        name = _label(bag, INSTITUTION)
        institution = {"institution": json.loads(name)} if name else {}
    except (ValueError, RecursionError):
        value, institution = None, {}
    if not isinstance(value, dict):
        raise BadItem("{name} is not JSON", name=METADATA)
    value.pop("history", None)
    files = value.get("files", {})
    if not isinstance(files, dict) or not all(
        isinstance(file, dict) and isinstance(file.get("path"), str) for file in files.values()
    ):
        raise BadItem("{name} does not say where its files are", name=METADATA)
    names = {_normal(file["path"]): name for name, file in files.items()}
    if sorted(names) != paths or len(names) != len(files):
        raise BadItem("{name} and the manifest name different files", name=METADATA)
    value["files"] = {name: file["path"] for name, file in files.items()}
    return value | institution, names


def _label(bag: _Bag, label: str) -> str:
    """Return the first value of a label in bag-info.txt, "" if there is none."""
    lines = bag.tags.get(INFO, b"").decode("utf-8", "replace").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{label}:")), "")


def _foreign(bag: _Bag, package: str, paths: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the same as `_own` for a bag of other software; its key is the digest of its manifests."""
    names = {path: encoded(path.removeprefix(PAYLOAD)) for path in paths}
    known_by = hashlib.sha256()
    for algorithm in sorted(bag.sums):
        for path, digest in sorted(bag.sums[algorithm].items()):
            known_by.update(f"{algorithm} {digest} {path}\n".encode("utf-8", "surrogateescape"))
    title = _label(bag, _LABEL)
    value = {
        "key": f"bag:{known_by.hexdigest()}",
        "metadata": {"title": [title[:_LONGEST_TITLE] or package]},
        "files": {name: path for path, name in names.items()},
    }
    return value, names


def _take_payload(
    package: Package, bag: _Bag, names: dict[str, str], file_store: FileStore, staged: list[StoredFile]
) -> None:
    """Stage and verify the payload: the second pass. Adds to `staged`. Raises BadItem, SetupError."""
    missing = dict(names)
    for member in package.members():
        path = _plain(member.name.removeprefix(bag.base))
        if not path.startswith(PAYLOAD):
            continue
        name = missing.pop(path, None)
        if name is None:
            raise BadItem("the package changed while it was read")
        staged.append(_stage(file_store, name, _compared(bag, path, package.chunks(member))))
    if missing:
        raise BadItem("the package changed while it was read")


def _compared(bag: _Bag, path: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a payload file. Raises BadItem after the last byte if a digest differs."""
    sums = {algorithm: hashlib.new(algorithm, usedforsecurity=False) for algorithm in bag.sums}
    for chunk in chunks:
        yield chunk
        for each in sums.values():
            each.update(chunk)
    for algorithm, each in sums.items():
        if each.hexdigest() != bag.sums[algorithm][path]:
            raise BadItem("{name} is not as the manifest of the bag says", name=path)


def _stage(file_store: FileStore, name: str, chunks: Iterator[bytes]) -> StoredFile:
    staging = file_store.stage_stream(name)
    with setup_errors("the file {name} cannot be kept: {reason}", name=name):
        try:
            for chunk in chunks:
                staging.write(chunk)
            return staging.finish()
        except BaseException:
            staging.discard()
            raise


def _plain(name: str) -> str:
    """Decode a percent-encoded name into the form that manifests use."""
    return _normal(unquote_to_bytes(name).decode("utf-8", "surrogateescape"))


def _normal(path: str) -> str:
    """Return a path in composed form (NFC), because some file systems decompose letters with accents."""
    return unicodedata.normalize("NFC", path)
