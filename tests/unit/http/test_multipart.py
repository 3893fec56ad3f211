"""Forms of several parts, as they come: in pieces, with headers of any spelling, within limits."""

from __future__ import annotations

import pytest
from python_multipart.exceptions import FormParserError

from ibi.http.multipart import PartReader


class Parts(PartReader):
    """Keeps each part: its name, its file's name and its content."""

    def __init__(self) -> None:
        super().__init__(b"x")
        self.found: list[tuple[bytes, bytes | None, bytes]] = []

    def _part(self, kind: bytes, options: dict[bytes, bytes]) -> None:
        assert kind == b"form-data"
        self.found.append((options[b"name"], options.get(b"filename"), b""))

    def _data(self, data: bytes, start: int, end: int) -> None:
        name, file, content = self.found[-1]
        self.found[-1] = name, file, content + data[start:end]


def form(*parts: tuple[list[str], str]) -> bytes:
    written = (
        "--x\r\n" + "".join(f"{head}\r\n" for head in heads) + f"\r\n{body}\r\n" for heads, body in parts
    )
    return ("".join(written) + "--x--\r\n").encode("latin-1")


NAMED = 'Content-Disposition: form-data; name="a"'
WHOLE = form(
    (
        [
            "X-Before: y",
            'CONTENT-DISPOSITION: form-data; name="a"; filename="\xe9.txt"',
            "Content-Type: text/plain",
        ],
        "one",
    ),
    ([NAMED, 'Content-Disposition: form-data; name="b"', "X-After: z"], "two"),
)


@pytest.mark.parametrize("size", [1, 7, len(WHOLE)])
def test_a_form_is_read_however_it_is_cut(size: int) -> None:
    reader = Parts()
    for begin in range(0, len(WHOLE), size):
        assert reader.ended == (begin > len(WHOLE) - len("-\r\n"))
        reader.write(WHOLE[begin : begin + size])
    assert reader.found == [(b"a", b"\xe9.txt", b"one"), (b"a", None, b"two")]
    assert reader.ended


@pytest.mark.parametrize("heads", [[NAMED, *["X: y"] * 7], [NAMED, "X: " + "y" * 8000]])
def test_a_part_may_have_so_many_headers_and_no_more(heads: list[str]) -> None:
    reader = Parts()
    reader.write(form((heads, "one")))
    assert reader.found == [(b"a", None, b"one")]
    longer = [*heads, "X: y"] if len(heads) == 8 else [heads[0], heads[1] + "y" * 200]
    with pytest.raises(FormParserError):
        Parts().write(form((longer, "one")))
