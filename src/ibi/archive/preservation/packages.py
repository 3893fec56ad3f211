"""Read packages from outside (folders, zip and tar files) without unpacking them to the disk (T23: hostile uploads).

Members are returned one by one, each as a checked name and a stream of bytes. Links, devices, absolute or
relative parts, names that some file system regards as equal, too many or too large files, and decompression
bombs are refused with one sentence each.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote_from_bytes

from ibi.archive.model.file_names import check_names, file_parts
from ibi.errors import BadItem
from ibi.runtime.durable_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

_CHUNK: Final = 1 << 20
_DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError,
    ValueError, IndexError, OverflowError,
)  # fmt: skip
"""The errors that the libraries raise for damaged packages."""

_PACKERS: Final[dict[bytes, Callable[[Any], Any]]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_ENCRYPTED: Final = 1
SAFE: Final = "/~!$&'()*+,;=:@"
"""The characters in a file name that are not percent-encoded, besides letters, digits, "_", "." and "-"."""


@dataclass(frozen=True, slots=True)
class PackageLimits:
    """How much a package may hold, and how much it may grow when unpacked; a larger package is refused."""

    files: int = 100_000
    """Members of a package, of any kind (T23: hostile uploads)."""
    size: int = 1 << 40
    """Bytes of all its files together (T23: hostile uploads)."""
    ratio: int = 200
    """How many times its own size a package may grow, beyond `harmless` (T23: hostile uploads)."""
    harmless: int = 256 << 20
    """Bytes to which every package may grow (T23: hostile uploads)."""
    piece: int = 64 << 20
    """Bytes that a library may hold in memory at once (T23: hostile uploads)."""


class PackageMember(NamedTuple):
    """A regular file in a package: its percent-encoded path, its size, and the function that opens it."""

    name: str
    size: int
    open: Callable[[], AbstractContextManager[IO[bytes]]]


class Package:
    """A package that can be read. `members` may be iterated several times."""

    def __init__(self, path: Path, limits: PackageLimits) -> None:
        self._path = path
        self._limits = limits
        self._packed = 0 if path.is_dir() else path.stat().st_size
        self._grown = 0

    def members(self) -> Iterator[PackageMember]:
        """Yield the regular files, after checking each. Raises BadItem."""
        count = declared = self._grown = 0
        with self._readable():
            for member in self._raw():
                count += 1
                if count > self._limits.files:
                    raise BadItem("the package holds more than {most} files", most=self._limits.files)
                if member is not None:
                    declared += member.size
                    if declared > self._limits.size:
                        raise BadItem("the package holds more than {most} bytes", most=self._limits.size)
                    _check_parts(member.name)
                    yield member

    def names(self) -> dict[str, int]:
        """Return name -> size. Raises BadItem, also if some file system regards two names as equal."""
        names: dict[str, int] = {}
        for member in self.members():
            if member.name in names:
                raise BadItem("{name} stands twice in the package", name=member.name)
            names[member.name] = member.size
        check_names(names)
        return names

    def chunks(self, member: PackageMember) -> Iterator[bytes]:
        """Yield the bytes of a member. One pass over `members` counts all unpacked bytes together (T23)."""
        with self._readable(), member.open() as opened:
            size = 0
            while chunk := opened.read(_CHUNK):
                size += len(chunk)
                self._grown += len(chunk)
                self._watch(self._grown)
                yield chunk
        if size != member.size:
            raise BadItem("{name} does not have the size that the package says", name=member.name)

    def _watch(self, grown: int) -> None:
        limits = self._limits
        bomb = self._packed and grown > limits.harmless and grown > self._packed * limits.ratio
        if bomb or grown > limits.size:
            raise BadItem("the package grows without end: more than {most} bytes came out of it", most=grown)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except BadItem:
            raise
        except _DAMAGED as error:
            raise BadItem("the package cannot be unpacked: {reason}", reason=error) from None
        except OSError as error:
            reason = error.strerror or error
            raise BadItem("the package cannot be read: {reason}", reason=reason) from None

    def _raw(self) -> Iterator[PackageMember | None]:
        """Yield every member, None for a folder."""
        if self._path.is_dir():
            yield from self._in_folder(self._path, "")
            return
        with self._path.open("rb") as file:
            magic = file.read(6)
            file.seek(0)
            if magic[:4] in {b"PK\x03\x04", b"PK\x05\x06"}:
                yield from self._in_zip(file)
                return
            packer = next((made for sign, made in _PACKERS.items() if magic.startswith(sign)), None)
            yield from self._in_tar(packer(file) if packer else file)

    def _in_folder(self, folder: Path, above: str) -> Iterator[PackageMember | None]:
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            name = encoded(f"{above}{entry.name}")
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                _check_parts(name)
                yield None
                yield from self._in_folder(folder / entry.name, f"{above}{entry.name}/")
            else:
                _only_regular(name, found.st_mode)
                yield PackageMember(name, found.st_size, lambda path=entry.path: open_regular(path))  # type: ignore[misc]  # mypy cannot infer a default of a lambda

    def _in_zip(self, file: IO[bytes]) -> Iterator[PackageMember | None]:
        with zipfile.ZipFile(_Measured(file, self._limits.piece, self._watch)) as package:
            for info in package.infolist():
                name = encoded(info.orig_filename)
                mode = info.external_attr >> 16
                if info.is_dir():
                    _check_parts(name)
                    yield None
                    continue
                if stat.S_IFMT(mode):
                    _only_regular(name, mode)
                if info.flag_bits & _ENCRYPTED:
                    raise BadItem("{name} is encrypted", name=name)
                yield PackageMember(name, info.file_size, lambda info=info: package.open(info))  # type: ignore[misc]  # mypy cannot infer a default of a lambda

    def _in_tar(self, file: IO[bytes]) -> Iterator[PackageMember | None]:
        # The library reads a whole header into memory, so a long header must be refused before that.
        measured = _Measured(file, _CHUNK, self._watch)
        with tarfile.open(fileobj=measured, mode="r:", errorlevel=2) as package:  # type: ignore[call-overload]  # it reads, seeks and tells: no more is used
            for info in package:
                name = encoded(info.name).removeprefix("./")
                if info.isdir():
                    if name != ".":
                        _check_parts(name)
                    yield None
                    continue
                if not info.isreg() or info.issparse():
                    raise BadItem("{name} is not a regular file", name=name)
                yield PackageMember(name, info.size, lambda info=info: _extracted(package, info))  # type: ignore[misc]  # mypy cannot infer a default of a lambda


class _Measured:
    """Wraps a file for a library: reports positions to `watch`, refuses reads of more than `piece` bytes."""

    def __init__(self, file: IO[bytes], piece: int, watch: Callable[[int], None]) -> None:
        self._file = file
        self._piece = piece
        self._watch = watch

    def read(self, size: int = -1) -> bytes:
        """Read bytes; reading all the rest (`size` < 0) is limited to a piece, too."""
        if size > self._piece:
            raise BadItem("the list of the package is too long")
        found = self._file.read(self._piece + 1 if size < 0 else size)
        if len(found) > self._piece:
            raise BadItem("the list of the package is too long")
        self._watch(self._file.tell())
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position."""
        found = self._file.seek(offset, whence)
        self._watch(found)
        return found

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True


def _check_parts(name: str) -> tuple[bytes, ...]:
    if name.startswith("/"):
        raise BadItem("the name {name} leads out of the package", name=name)
    return file_parts(name.removesuffix("/"))


def encoded(name: str) -> str:
    """Return a file name percent-encoded, as in a URL."""
    return quote_from_bytes(name.encode("utf-8", "surrogateescape"), safe=SAFE)


def _only_regular(name: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise BadItem("{name} is not a regular file", name=name)


def _extracted(package: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    opened = package.extractfile(info)
    if opened is None:
        raise BadItem("{name} is not a regular file", name=info.name)
    return opened
