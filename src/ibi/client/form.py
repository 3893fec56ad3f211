"""The body of a deposit with files: multipart/form-data that can be sent again."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PIECE: Final = 256 * 1024  # bytes of a file that are sent at a time
_SAFE: Final = "/!$&'()*+,;=:@~"  # as names of files in items have it


class Form:
    """An item in JSON, and files: their contents, or where they are. Raises SetupError if one cannot be read."""

    def __init__(self, item: bytes, files: Mapping[str, bytes | Path]) -> None:
        boundary = f"ibi-{secrets.token_hex(16)}"
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._parts: list[tuple[bytes, bytes | Path, int]] = [
            (_head(boundary, 'name="item"'), item, len(item))
        ]
        for name, content in files.items():
            self._parts.append((_head(boundary, _named(name)), content, _size(content)))
        self._end = f"--{boundary}--\r\n".encode()
        self.length = sum(len(head) + size + len(b"\r\n") for head, _, size in self._parts) + len(self._end)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body in pieces. Raises SetupError."""
        for head, content, size in self._parts:
            yield head
            if isinstance(content, bytes):
                yield content
            else:
                yield from _pieces(content, size)
            yield b"\r\n"
        yield self._end


def _head(boundary: str, named: str) -> bytes:
    return f"--{boundary}\r\nContent-Disposition: form-data; {named}\r\n\r\n".encode()


def _named(name: str) -> str:
    """Return the parameters of a part that is a file; a part called `item` or `file` means something else."""
    quoted = quote(name, safe=_SAFE)
    return f'name="file"; filename="{name}"' if name in {"item", "file"} else f'name="{quoted}"; filename="-"'


def _size(content: bytes | Path) -> int:
    if isinstance(content, bytes):
        return len(content)
    try:
        return content.stat().st_size
    except OSError as error:
        raise _unreadable(content, error) from None


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    left = size
    try:
        with path.open("rb") as file:
            while piece := file.read(min(left, _PIECE)):
                left -= len(piece)
                yield piece
    except OSError as error:
        raise _unreadable(path, error) from None
    if left:
        raise SetupError("the file {name} was cut while it was sent", name=path)


def _unreadable(path: Path, error: OSError) -> SetupError:
    return SetupError("the file {name} cannot be read: {reason}", name=path, reason=error.strerror or error)
