"""A second reading of holdings filters, made from the words of the standard's extensions alone."""

from __future__ import annotations

from hashlib import sha256


def may_hold(page: bytes, name: str) -> bool:
    """What docs/standard/extensions.md says, in plain Python."""
    line, _, bits = page.partition(b"\n")
    head = dict(word.split(b"=") for word in line.split()[2:])
    x = int.from_bytes(sha256(name.encode("ascii")).digest()[:16], "big")
    for _ in range(int(head[b"hashes"])):
        x = (x * 47026247687942121848144207491837418733 + 1) % 2**128
        position = x // 2**32 % 2**64 % int(head[b"bits"])
        if not bits[position // 8] >> position % 8 & 1:
            return False
    return True
