"""Write each item as a BagIt bag (RFC 8493), which any repository can read; `bag_ingest` reads it back.

    bagit.txt  bag-info.txt  manifest-sha256.txt  tagmanifest-sha256.txt
    metadata.json        the item as `ibi archive show --json` prints it, its history, and the `path` of each file here
    data/…               the files

A file keeps its name if every system can read and write it. Otherwise (bytes of no encoding, a percent sign,
blanks at an end, `CON`, `a:b`) it gets another name, which `metadata.json` maps to the right one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import unicodedata
import zipfile
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ibi
from ibi.archive.model.file_names import LONGEST_PART, portable_part
from ibi.archive.model.item_json import write_item
from ibi.errors import SetupError
from ibi.runtime.durable_files import flush_folder, setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.history import ItemEvent

BAGIT: Final = "bagit.txt"
METADATA: Final = "metadata.json"
INFO: Final = "bag-info.txt"
INSTITUTION: Final = "Ibi-Institution"
"""The label of the name of the institution where an item was deposited: JSON, by language."""
PAYLOAD: Final = "data/"
DECLARATION: Final = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"

_CHUNK: Final = 1 << 20


def bag_name(holding: Holding) -> str:
    """Return the name for the bag of an item: the item's name with "_" for "/"."""
    return holding.forms.main.canonical.replace("/", "_")


def write_bag(
    put: Callable[[str, Iterable[bytes]], None],
    file_store: FileStore,
    holding: Holding,
    events: Sequence[ItemEvent],
    source: str,
    moment: str,
) -> None:
    """Write the bag of an item. `source` names the Archive, `moment` the time ("2026-11-21T10:00:00Z").

    `put` writes one file (`bag_at`). Raises SetupError if a file cannot be read, or its digest differs.
    """
    paths = payload_paths(holding.files)
    for file in holding.files:
        put(f"{PAYLOAD}{paths[file.name]}", _checked(file_store, holding, file))
    described: dict[str, Any] = write_item(holding)
    # It stands in bag-info.txt, because older programs refuse a member of the item that they do not know.
    described.pop("institution", None)
    for name, facts in described.get("files", {}).items():
        facts["path"] = f"{PAYLOAD}{paths[name]}"
    described["history"] = [event._asdict() for event in events]
    tags = {
        BAGIT: DECLARATION,
        INFO: _info(holding, source, moment),
        "manifest-sha256.txt": "".join(
            f"{file.sha256}  {PAYLOAD}{paths[file.name]}\n" for file in holding.files
        ),
        METADATA: json.dumps(described, ensure_ascii=False, indent=1) + "\n",
    }
    written = {name: text.encode() for name, text in tags.items()}
    sums = "".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in sorted(written.items()))
    for name, text in (written | {"tagmanifest-sha256.txt": sums.encode()}).items():
        put(name, [text])


def payload_paths(files: Iterable[StoredFile]) -> dict[str, str]:
    """Return file name in the item -> path below data/; every system can unpack all these paths together."""
    paths: dict[str, str] = {}
    names, folders = set[str](), set[str]()
    for file in files:
        path = _portable(file)
        # Names of files and folders may become equal, also for systems that ignore case or composition.
        while names & {_folded(path), *_folders(path)} or _folded(path) in folders:
            path = f"_{path}"
        names.add(_folded(path))
        folders |= _folders(path)
        paths[file.name] = path
    return paths


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _folders(path: str) -> set[str]:
    """Return the folders above a path."""
    parts = _folded(path).split("/")
    return {"/".join(parts[:end]) for end in range(1, len(parts))}


def _portable(file: StoredFile) -> str:
    """Return a path for a file that every system can write."""
    path = _readable(file) or file.name.replace("%", "=")
    return "/".join(_short(portable_part(part, "=")) for part in path.split("/"))


def _short(part: str) -> str:
    """Return a name that is not too long for a file system: replacing letters may have made it longer."""
    raw = part.encode()
    return part if len(raw) <= LONGEST_PART else hashlib.sha256(raw).hexdigest()


def _readable(file: StoredFile) -> str | None:
    try:
        path = file.raw.decode()
    except UnicodeDecodeError:
        return None
    plain = path.isprintable() and path == path.strip() and "%" not in path and "  " not in path
    return path if plain else None


def _checked(file_store: FileStore, holding: Holding, file: StoredFile) -> Iterator[bytes]:
    digest = hashlib.sha256()
    with (
        setup_errors("the file {name} cannot be read: {reason}", name=file.name),
        file_store.open(holding.forms, file) as opened,
    ):
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
            yield chunk
    if digest.hexdigest() != file.sha256:
        raise SetupError("the stored file {name} is not the one that was listed", name=file.name)


def _info(holding: Holding, source: str, moment: str) -> str:
    titles = [each.value for each in (holding.metadata or {}).get("title", ())]
    size = sum(file.size for file in holding.files)
    lines = [
        ("Source-Organization", source),
        ("External-Description", titles[0] if titles else str(holding.forms.main)),
        *(("External-Identifier", str(name)) for name in holding.names),
        ("Bagging-Date", f"{datetime.fromisoformat(moment):%Y-%m-%d}"),
        ("Payload-Oxum", f"{size}.{len(holding.files)}"),
        ("Bag-Software-Agent", f"ibi {ibi.__version__}"),
    ]
    if holding.institution:
        lines.append((INSTITUTION, json.dumps(dict(holding.institution), ensure_ascii=False)))
    return "".join(f"{label}: {' '.join(value.split())}\n" for label, value in lines)


def _put_into_folder(folder: Path, path: str, chunks: Iterable[bytes]) -> None:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())


def _put_into_zip(package: zipfile.ZipFile, folder: str, path: str, chunks: Iterable[bytes]) -> None:
    info = zipfile.ZipInfo(f"{folder}/{path}")
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o100644 << 16
    with package.open(info, "w", force_zip64=True) as file:
        for chunk in chunks:
            file.write(chunk)


@contextmanager
def bag_at(target: Path, base: str = "") -> Iterator[Callable[[str, Iterable[bytes]], None]]:
    """Open a target for a bag: a zip file if its name ends in .zip, else a folder. It appears when complete.

    `base`: the folder of the bag in a zip file; by default the name of the zip file without its ending.
    Yields the function that writes one file of the bag; it takes a path, and the bytes piece by piece. Raises
    SetupError if the target exists already, or cannot be written.
    """
    if target.exists() or target.is_symlink():
        raise SetupError("{path} is there already", path=target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    with setup_errors("{path} cannot be written: {reason}", path=target):
        try:
            if target.suffix.lower() == ".zip":
                with zipfile.ZipFile(temporary, "x", zipfile.ZIP_DEFLATED) as package:
                    package.mkdir(f"{base or target.stem}/{PAYLOAD}")
                    yield partial(_put_into_zip, package, base or target.stem)
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
            else:
                (temporary / PAYLOAD).mkdir(parents=True)
                yield partial(_put_into_folder, temporary)
                for folder in (temporary, *filter(Path.is_dir, temporary.rglob("*"))):
                    flush_folder(folder)
            temporary.rename(target)
            flush_folder(target.parent)
        finally:
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                temporary.unlink(missing_ok=True)
