"""What an Archive that lies may send: false HTTP around a true list, and false lists in true HTTP.

Every URL that is a lie names EVIL, so that a reader who is sent there is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.protocol.pair_list import write_pairs
from support.http_answers import LIES, answer

if TYPE_CHECKING:
    from ibi.protocol.pair_list import PairList

EVIL: Final = "evil.example"

_TRAP: Final = f"http://{EVIL}/x"


def _whole(lie: str, body: bytes) -> bytes:
    return b"".join(LIES[lie](body))


TRANSPORTS: Final[tuple[Callable[[bytes], bytes], ...]] = (
    *(
        partial(_whole, lie)
        for lie in (
            "not-http",
            "http-0.9",
            "bare-line-feeds",
            "folded-header",
            "early-hints",
            "two-lengths",
            "length-twice",
            "negative-length",
            "bad-chunk",
            "cut-off",
            "closes-after-head",
            "promises-a-gigabyte",
            "compressed",
            "compressed-for-transfer",
            "status-404",
            "status-500",
            "status-204",
            "html",
            "no-media-type",
        )
    ),
    lambda body: (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ibi\r\nConnection: upgrade\r\n\r\n" + answer(body)
    ),
    lambda body: answer(body, f"Location: {_TRAP}", status="302 Found"),
    lambda body: answer(body) + answer(body),
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
    anonymous = {name: value for name, value in trap.items() if name != "ibi.archiveservice"}
    mute = {name: value for name, value in pairs.items() if name != "url"}
    return (
        write_pairs(trap | {"ibi": ("rep", "other.example/w/2020/01.01.00.00")}),
        write_pairs(trap | {"ibi.archiveservice": ("rep", "other.example/service/2020/01.01.00.00")}),
        write_pairs(unnamed),
        write_pairs(anonymous),
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
