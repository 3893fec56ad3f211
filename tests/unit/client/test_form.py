"""The body of a deposit with files: byte for byte, as long as it was said, and the same each time it is sent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ibi.client.form import Form
from ibi.errors import SetupError

PIECE = 256 * 1024
"""Bytes of a file that are sent at a time."""


def test_the_whole_of_a_form(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"of a file")
    form = Form(b"{}", {"docs/ä b.txt": b"in memory", "item": b"", "file": tmp_path / "a", "~(c)": b"\r\n"})
    found = re.fullmatch("multipart/form-data; boundary=(ibi-[0-9a-f]{32})", form.content_type)
    assert found is not None
    parts = [
        ('name="item"', "{}"),
        ('name="docs/%C3%A4%20b.txt"; filename="-"', "in memory"),
        ('name="file"; filename="item"', ""),
        ('name="file"; filename="file"', "of a file"),
        ('name="~(c)"; filename="-"', "\r\n"),
    ]
    body = "".join(
        f"--{found[1]}\r\nContent-Disposition: form-data; {named}\r\n\r\n{content}\r\n"
        for named, content in parts
    )
    for _ in range(2):  # it may be sent again
        assert b"".join(form) == f"{body}--{found[1]}--\r\n".encode()
    assert form.length == len(b"".join(form))
    assert Form(b"{}", {}).content_type != form.content_type


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 2 * PIECE])
def test_a_file_is_sent_in_pieces_up_to_the_size_that_it_had(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * size)
    form = Form(b"", {"a": path})
    for added in (b"", b"more"):
        path.write_bytes(b"x" * size + added)
        sent = list(form)
        assert [len(each) for each in sent if each[:1] == b"x"] == [PIECE] * (size // PIECE) + [
            size % PIECE
        ] * (size % PIECE > 0)
        assert sum(map(len, sent)) == form.length


def test_a_file_that_was_cut_or_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(SetupError, match=f"^the file {path} cannot be read: No such file or directory$"):
        Form(b"", {"a": path})
    path.write_bytes(b"12345")
    form = Form(b"", {"a": path})
    for left in (b"1234", b""):
        path.write_bytes(left)
        with pytest.raises(SetupError, match=f"^the file {path} was cut while it was sent$"):
            list(form)
    path.unlink()
    with pytest.raises(SetupError, match=f"^the file {path} cannot be read: No such file or directory$"):
        list(form)
