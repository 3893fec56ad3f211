"""A scripted peer for tests of the HTTP client: where it is, what it is asked, what it answers."""

from __future__ import annotations

import ipaddress

from ibi.http.client import AddressPolicy
from support.scripted_archive import Behaviour, ScriptedArchive

TARGET = (
    "/example/a/2020/01.01.00.00?servicesubject=urlRequest&parsedibiurl.ibi=example.org/a/2020/01.02.00.00"
)
BODY = b"state Original\r\nurl http://a.example/x"
PUBLIC = AddressPolicy(public=(ipaddress.ip_network("127.77.0.0/16"),))


def peer(manner: Behaviour | None = None, ip: str = "127.77.0.1") -> ScriptedArchive:
    return ScriptedArchive(
        "a", "a.example", "example/a/2020/01.01.00.00", ip=ip, manner=manner or Behaviour(BODY)
    )
