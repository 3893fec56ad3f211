"""The parsers of a resolver: what Archives, other resolvers and readers send it, and its own files."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ibi.errors import BadItem
from ibi.http.client import Reply
from ibi.http.request import Request
from ibi.protocol.messages import read_title, written_title
from ibi.protocol.persistent_url import persistent_path
from ibi.resolver.api.keys import read_body
from ibi.resolver.cache.filters import _bloom
from ibi.resolver.evidence.chain import (
    CHAIN_START,
    Anchor,
    LogHead,
    NewEntry,
    line_end,
    read_line,
    verify_lines,
    write_line,
)
from ibi.resolver.members.registration_mail import read_registration
from ibi.resolver.model.hops import Hops
from ibi.resolver.negotiation import requested_format
from ibi.resolver.pages.page_language import read_request_in_language
from ibi.resolver.pages.registration import read_form
from ibi.resolver.registry.keys import is_challenge
from ibi.resolver.registry.published_list import read_list
from ibi.resolver.resolve.selection import safe_place
from ibi.resolver.upstream import _problem, _title
from ibi.runtime.settings.rules import is_mail_address
from ibi.runtime.signing import Signer, canonical
from proofs.fuzz import corpus
from proofs.fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNER: Final = Signer(Ed25519PrivateKey.from_private_bytes(b"\x07" * 32))
_NOW: Final = 1_800_000_000.0
_LINE: Final = write_line(
    CHAIN_START, NewEntry("2026-11-22T10:00:00.000Z", "excluded", {"ibi": corpus.IBIP, "n": 1})
)[0]
_ENTRY: Final = {**json.loads(_LINE), "hash": ""}
_HEAD: Final = LogHead(Anchor(1, "ab" * 32), len(_LINE)).line()
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


def _signed_line(value: Any) -> bytes:
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
    return body + line_end(sha256(body).hexdigest())


def _entries(text: bytes) -> Any:
    verdict = verify_lines(text.splitlines(keepends=True), LogHead.read(_HEAD))
    return verdict.fault and str(verdict.fault)


def _request_with_header(header: bytes) -> Callable[[str], Any]:
    """What a resolver makes of one header."""

    def read(text: str) -> Any:
        scope = {
            "method": "GET",
            "raw_path": b"/",
            "query_string": b"",
            "headers": [(header, text.encode("latin-1"))] * 2,
            "client": ("192.0.2.7", 1),
        }
        request = Request.of(scope, ())
        return (
            request.form,
            request.client_address,
            request.client_key,
            request.names(frozenset({"urlib.net"})),
            request.has_subject,
            requested_format(text.encode("latin-1")),
        )

    return read


def _in_language(text: str) -> str | None:
    """What a reader wants to see in a chosen language."""
    found = read_request_in_language(Request("GET", text, "", {}), ("/",))
    return None if found is None else found.target


def _hops(text: str) -> str | None:
    hops = Hops.read(text)
    return hops.onward("x") if hops is not None else None


def _upstream_says(text: bytes) -> Any:
    """The title of an alert of another resolver, and whether it would be followed."""
    location = text.decode("latin-1")
    reply = Reply(404, {b"content-type": b"application/problem+json", b"location": text}, text, "192.0.2.7")
    return _title(reply, _problem(reply)), safe_place(location)


RESOLVER_MESSAGES: Final = (
    Target("resolver.members.registration_mail.read_registration", read_registration, "bytes", corpus.MAILS),
    Target("resolver.registry.published_list.read_list", _list, "bytes", values=(_LIST,)),
    Target(
        "resolver.registry.published_list.read_list signed",
        _list,
        "bytes",
        values=(_LIST,),
        signed=_signed_list,
        swift=False,
    ),
    Target("resolver.evidence.chain.read_line", read_line, "bytes", (_LINE.decode(),)),
    Target(
        "resolver.evidence.chain.read_line signed", read_line, "bytes", values=(_ENTRY,), signed=_signed_line
    ),
    Target("resolver.evidence.chain.read_line", _entries, "bytes", (_LINE.decode() * 2,)),
    Target("resolver.evidence.chain.Anchor.parse", Anchor.parse, seeds=(f"1:{'ab' * 32}",), back=str),
    Target(
        "resolver.evidence.chain.LogHead.read",
        LogHead.read,
        "bytes",
        (_HEAD.decode(),),
        back=lambda head: head.line(),
    ),
    Target("resolver.model.hops.Hops.read", _hops, "line", rule="loop"),
    Target(
        "resolver.registry.keys.is_challenge",
        lambda text: is_challenge(text, "x", corpus.IBIP, _NOW),
        "line",
        (f"1800000100-{'ab' * 16}-{'cd' * 32}",),
    ),
    Target(
        "runtime.settings.rules.is_mail_address",
        is_mail_address,
        seeds=("admin@a.example", "a+b@[127.0.0.1]"),
    ),
    Target(
        "resolver.api.keys.read_body",
        read_body,
        "bytes",
        values=({"service_ibi": corpus.IBIP, "challenge": "1-2-3"},),
    ),
    Target(
        "resolver.pages.registration.read_form",
        read_form,
        "bytes",
        (f"service_ibi={corpus.IBIP}&address=a.example&mail=a%40a.example&hosts=&name=",),
    ),
    Target(
        "protocol.messages.read_title",
        read_title,
        "line",
        (written_title("Instituto de Pesquisas do Vale, São João"),),
        back=written_title,
    ),
    Target(
        "resolver.pages.page_language.read_request_in_language",
        _in_language,
        "line",
        (f"/-/in/pt-BR/{corpus.IBIP}!+(en)", f"/-/in/en/-/explain/{corpus.IBIP}"),
    ),
    Target(
        "resolver.resolve.selection.safe_place",
        safe_place,
        seeds=corpus.wild(),
        rule="url",
    ),
    Target("protocol.persistent_url.persistent_path", persistent_path, seeds=corpus.wild(), rule="prose"),
    Target(
        "resolver.upstream.title",
        _upstream_says,
        "bytes",
        ("title", "http://a.example/x"),
        values=({"title": "no such item", "status": 404},),
    ),
    Target(
        "http.request.Request.of",
        _request_with_header(b"x-forwarded-for"),
        "line",
        rule="ips",
        also=frozenset({"http.client_address.read_addresses"}),
    ),
    Target(
        "resolver.cache.filters.bloom",
        lambda text: 5 in _bloom(text),
        "bytes",
        ("ibi-holdings 1 names=1 hashes=3 bits=64\n" + "\xa5" * 8,),
    ),
    Target(
        "http.request.Request.form",
        _request_with_header(b"accept"),
        "line",
        rule="accept",
        also=frozenset({"http.accept.media_ranges", "resolver.negotiation.requested_format"}),
    ),
    Target("http.request.Request.names", _request_with_header(b"host"), "line", rule="host"),
)
