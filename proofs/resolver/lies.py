"""What an Archive that lies may send: false HTTP around a true list, and false lists in true HTTP.

Every URL that is a lie names EVIL, so that a reader who is sent there is seen.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from ibi.protocol.pair_list import write_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.protocol.pair_list import PairList

EVIL: Final = "evil.example"

_TRAP: Final = f"http://{EVIL}/x"


def whole(body: bytes, *lines: str, status: str = "200 OK", kind: str = "text/plain") -> bytes:
    """An honest HTTP answer, with further lines of the head."""
    head = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines, "", "")
    return "\r\n".join(head).encode() + body


def chunked(body: bytes, *lines: str, coding: str = "chunked") -> bytes:
    """The same in one chunk."""
    head = ("HTTP/1.1 200 OK", "Content-Type: text/plain", f"Transfer-Encoding: {coding}", *lines, "", "")
    return "\r\n".join(head).encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


TRANSPORTS: Final[tuple[Callable[[bytes], bytes], ...]] = (
    lambda _: b"220 mail.example ESMTP\r\n",
    lambda body: body,
    lambda body: whole(body).replace(b"\r\n", b"\n"),
    lambda body: whole(body, "X-Long: one", "  two"),
    lambda body: (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ibi\r\nConnection: upgrade\r\n\r\n" + whole(body)
    ),
    lambda body: b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" * 8 + whole(body),
    lambda body: chunked(body, f"Content-Length: {len(body)}"),
    lambda body: whole(body, "Content-Length: 5"),
    lambda body: whole(body).replace(b"Content-Length: ", b"Content-Length: -"),
    lambda body: chunked(body).replace(b"\r\n\r\n", b"\r\n\r\nxyz\r\n", 1),
    lambda body: whole(body)[:-7],
    lambda body: whole(body).partition(b"\r\n\r\n")[0] + b"\r\n\r\n",
    lambda body: whole(b"", "X-Body: none").replace(b"Length: 0", b"Length: 1000000000") + body,
    lambda body: whole(gzip.compress(body), "Content-Encoding: gzip"),
    lambda body: chunked(gzip.compress(body), coding="gzip, chunked"),
    lambda body: whole(body, status="404 Not Found"),
    lambda body: whole(body, status="500 Internal Server Error"),
    lambda body: whole(body, f"Location: {_TRAP}", status="302 Found"),
    lambda body: whole(b"<!doctype html><pre>" + body, kind="text/html"),
    lambda body: whole(body) + whole(body),
    lambda _: b"HTTP/1.1 204 No Content\r\n\r\n",
    lambda body: whole(body).replace(b"Content-Type: text/plain\r\n", b""),
)
"""False HTTP around a list, which is given."""

_LEADS: Final = (
    "javascript:alert(1)",
    f"data:text/html,<script>location='{_TRAP}'</script>".replace(" ", ""),
    f"ftp://{EVIL}/x",
    f"//{EVIL}/x",
    f"http:\\\\{EVIL}\\x",
    f"http:/{EVIL}/x",
    f"http://{{own}}@{EVIL}/x",
    f"http://{{own}}\\@{EVIL}/x",
    f"http://{EVIL}:80#@{{own}}/x",
    f"http://{EVIL}/{'x' * 9000}",
    _TRAP,
    "http://",
    f"HTTP:{EVIL}",
    f"http://{EVIL}%00.{{own}}/x",
    f"http://{{own}}.{EVIL}/x",
)
"""URLs to which no reader may be sent by an Archive whose URLs are at `own`."""


def lists(pairs: PairList, own: str) -> tuple[bytes, ...]:
    """False lists made of a true one, by the Archive whose URLs are at the host `own`."""
    trap: PairList = pairs | {"url": _TRAP}
    true = write_pairs(pairs)
    unnamed = {name: value for name, value in trap.items() if name != "ibi"}
    nobody = {name: value for name, value in trap.items() if name != "ibi.archiveservice"}
    mute = {name: value for name, value in pairs.items() if name != "url"}
    return (
        write_pairs(trap | {"ibi": ("rep", "other.example/w/2020/01.01.00.00")}),
        write_pairs(trap | {"ibi.archiveservice": ("rep", "other.example/service/2020/01.01.00.00")}),
        write_pairs(unnamed),
        write_pairs(nobody),
        write_pairs(mute | {"state": "Deleted"}),
        write_pairs(mute | {"ibi.nextedition": ("rep", "other.example/w/2020/01.01.00.00")}),
        write_pairs(mute | {"url.metadata": _TRAP}),
        *(write_pairs(pairs | {"url": url.replace("{own}", own)}) for url in _LEADS),
        true + f"\r\nurl {_TRAP}".encode(),
        true + b"\r\nurl",
        true + b"\r\nibi.metadata {rep a.example/w/2020/01.01.00.00",
        true + b"\r\nstate {Original Original}",
        true + "\r\ntitle Relatório".encode("latin-1"),
        true + b"\r\ntitle a\0b",
        true + b"".join(b"\r\np%d v" % number for number in range(5000)),
        b"error {please come again}",
        b"notice {acknowledgment received}",
        b'{"url": "%s"}' % _TRAP.encode(),
        b"}" * 4096,
    )
