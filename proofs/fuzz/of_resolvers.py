"""The parsers of a resolver: what Archives, other resolvers and readers send it, and its own files."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ibi.canonical import canonical
from ibi.errors import BadItem
from ibi.resolver.chain import START, Anchor, Head, Note, ending, judge, read_line, write_line
from ibi.resolver.filters import _bloom
from ibi.resolver.hops import Hops
from ibi.resolver.keys import is_challenge
from ibi.resolver.mail import is_recipient
from ibi.resolver.mirror import read_list
from ibi.resolver.recovery import _asked as read_call
from ibi.resolver.registration import _read as read_form
from ibi.resolver.registration_mail import read_registration
from ibi.resolver.selection import host_of_url, is_safe_url
from ibi.resolver.site import persistent_path
from ibi.resolver.upstream import _title
from ibi.resolver.visitor import Visitor
from ibi.signing import Signer
from ibi.transport import Reply
from proofs.fuzz import corpus
from proofs.fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNER: Final = Signer(Ed25519PrivateKey.from_private_bytes(b"\x07" * 32))
_NOW: Final = 1_800_000_000.0
_LINE: Final = write_line(START, Note("2026-11-22T10:00:00.000Z", "excluded", {"ibi": corpus.IBIP, "n": 1}))[
    0
]
_ENTRY: Final = {**json.loads(_LINE), "hash": ""}
_HEAD: Final = Head(Anchor(1, "ab" * 32), len(_LINE)).line()
_LISTED: Final = {
    "service_ibi": corpus.IBIP,
    "address": "a.example:8080",
    "url_hosts": ["b.example", "[::1]"],
    "confirmed": True,
    "since": "2026-01-01T00:00:00Z",
}
_LIST: Final = {
    "kind": "ibi registry",
    "version": 1,
    "resolver": {"service": corpus.IBIP, "address": "urlib.net"},
    "issued": "2026-01-01T00:00:00Z",
    "archives": [_LISTED, {**_LISTED, "address": "127.0.0.1"}],
    "key": {"type": "Ed25519", "public": _SIGNER.public},
}


def _list(text: bytes) -> Any:
    return read_list(text, _SIGNER.public, _NOW)


def _signed_list(value: Any) -> bytes:
    """A list under the right signature."""
    try:
        return canonical({"registry": value, "signature": _SIGNER.sign(canonical(value))}) + b"\n"
    except (BadItem, RecursionError):
        return b"{}"


def _sealed_line(value: Any) -> bytes:
    """A line of the evidence with the hash that belongs to it."""
    try:
        value = (
            {name: each for name, each in value.items() if name != "hash"}
            if isinstance(value, dict)
            else value
        )
        body = json.dumps(value, separators=(",", ":")).encode()[:-1]
    except RecursionError:
        return b"{}"
    return body + ending(sha256(body).hexdigest())


def _entries(text: bytes) -> Any:
    verdict = judge(text.splitlines(keepends=True), Head.read(_HEAD))
    return verdict.fault and str(verdict.fault)


def _visitor(header: bytes) -> Callable[[str], Any]:
    """What a resolver makes of one header."""

    def read(text: str) -> Any:
        scope = {
            "method": "GET",
            "raw_path": b"/",
            "query_string": b"",
            "headers": [(header, text.encode("latin-1"))] * 2,
            "client": ("192.0.2.7", 1),
        }
        visitor = Visitor.of(scope)
        return (
            visitor.form,
            visitor.source,
            visitor.origin,
            visitor.names(frozenset({"urlib.net"})),
            visitor.has_subject,
        )

    return read


def _hops(text: str) -> str | None:
    hops = Hops.read(text)
    return hops.onward("x") if hops is not None else None


def _upstream_says(text: bytes) -> Any:
    """The title of an alert of another resolver, and whether it would be followed."""
    location = text.decode("latin-1")
    reply = Reply(404, {b"content-type": b"application/problem+json", b"location": text}, text, "192.0.2.7")
    return _title(reply), is_safe_url(location), host_of_url(location)


SAID: Final = (
    Target("resolver.registration_mail.read_registration", read_registration, "bytes", corpus.MAILS),
    Target("resolver.mirror.read_list", _list, "bytes", values=(_LIST,)),
    Target(
        "resolver.mirror.read_list signed", _list, "bytes", values=(_LIST,), sealed=_signed_list, swift=False
    ),
    Target("resolver.chain.read_line", read_line, "bytes", (_LINE.decode(),)),
    Target("resolver.chain.read_line sealed", read_line, "bytes", values=(_ENTRY,), sealed=_sealed_line),
    Target("resolver.chain.judge", _entries, "bytes", (_LINE.decode() * 2,)),
    Target("resolver.chain.Anchor.parse", Anchor.parse, seeds=(f"1:{'ab' * 32}",), back=str),
    Target("resolver.chain.Head.read", Head.read, "bytes", (_HEAD.decode(),), back=lambda head: head.line()),
    Target("resolver.hops.Hops.read", _hops, "line", rule="loop"),
    Target(
        "resolver.keys.is_challenge",
        lambda text: is_challenge(text, "x", corpus.IBIP, _NOW),
        "line",
        (f"1800000100-{'ab' * 16}-{'cd' * 32}",),
    ),
    Target("resolver.mail.is_recipient", is_recipient, seeds=("admin@a.example", "a+b@[127.0.0.1]")),
    Target(
        "resolver.recovery.read_call",
        read_call,
        "bytes",
        values=({"service_ibi": corpus.IBIP, "challenge": "1-2-3"},),
    ),
    Target(
        "resolver.registration.read_form",
        read_form,
        "bytes",
        (f"service_ibi={corpus.IBIP}&address=a.example&mail=a%40a.example&hosts=&name=",),
    ),
    Target(
        "resolver.selection.is_safe_url",
        is_safe_url,
        seeds=corpus.wild(),
        rule="url",
        also=frozenset({"resolver.selection.host_of_url"}),
    ),
    Target("resolver.site.persistent_path", persistent_path, seeds=corpus.wild(), rule="prose"),
    Target(
        "resolver.upstream.title",
        _upstream_says,
        "bytes",
        ("title", "http://a.example/x"),
        values=({"title": "no such item", "status": 404},),
    ),
    Target("resolver.visitor.Visitor.of", _visitor(b"x-forwarded-for"), "line", rule="ips"),
    Target(
        "resolver.filters.bloom",
        lambda text: 5 in _bloom(text),
        "bytes",
        ("ibi-holdings 1 names=1 hashes=3 bits=64\n" + "\xa5" * 8,),
    ),
    Target("exchange.Asked.form", _visitor(b"accept"), "line", rule="accept"),
    Target("exchange.Asked.names", _visitor(b"host"), "line", rule="host"),
)
