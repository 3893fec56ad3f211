"""What an Archive reads besides items: words of its neighbours, requests to it, and files of its own."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ibi.api.bodies import read_json
from ibi.archive.api.received_files import FormReader
from ibi.archive.model.url_key import UrlKeys
from ibi.archive.pages.statistics import _month
from ibi.archive.preservation.attestation import read_receipt
from ibi.archive.replication.fetching import read_description
from ibi.archive.replication.messages import read_answer, read_fetched, read_message
from ibi.archive.replication.restored_messages import read_holders, read_received
from ibi.archive.store.sidecars import read_sidecar
from ibi.archive.store.tables.rows import read_problem, write_problem
from ibi.errors import BadItem
from ibi.http.conditional import Unsatisfiable, part, unchanged
from ibi.http.request import Request
from ibi.http.response import Refusal
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import Acknowledgment, read_request
from ibi.runtime.signing import Signer, canonical
from proofs.fuzz import corpus
from proofs.fuzz.places import file_store
from proofs.fuzz.target import Target, as_value

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME: Final = parse_ibi(corpus.REP)
_SIGNER: Final = Signer(Ed25519PrivateKey.from_private_bytes(b"\x07" * 32))
_HANDOVER: Final = "ab" * 16


def _problem(text: str) -> str:
    """A problem as tables keep it, written and read again."""
    read = read_problem(write_problem(BadItem("{name} is no name", name=text)))
    return str(read)


def _signed_sidecar(value: Any) -> bytes:
    """A sidecar with the digest that belongs to it."""
    value = value if isinstance(value, dict) else {}
    value.pop("sha256", None)
    try:
        bare = json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass") + b"\n"
        whole = {**value, "sha256": hashlib.sha256(bare).hexdigest()}
        return json.dumps(whole).encode()
    except RecursionError:
        return b"{}"


def _signed_receipt(value: Any) -> bytes:
    """A receipt with a signature that belongs to it."""
    try:
        content = (
            {**value, "key": {"type": "Ed25519", "public": _SIGNER.public}}
            if isinstance(value, dict)
            else value
        )
        return canonical({"receipt": content, "signature": _SIGNER.sign(canonical(content))}) + b"\n"
    except (BadItem, RecursionError):
        return b"{}"


def _fetched(text: bytes) -> Any:
    fields = {
        "word": "propose",
        "transfer": _HANDOVER,
        "ibi": corpus.REP,
        "address": "http://a.example/",
        "passage": "x" * 30,
    }
    message = read_message({**fields, "seal": "ab" * 32, "fingerprint": "ab" * 32})
    return read_fetched(text, message)


def _form(text: bytes) -> Any:
    form = FormReader("multipart/form-data; boundary=b", file_store(), {})
    try:
        for at in range(0, len(text), 61):
            form.feed(text[at : at + 61])
        form.finish()
    finally:
        form.stop()
        for file in form.files.values():
            file_store().discard(file)
    return form.item


def _form_kind(text: str) -> None:
    FormReader(text, file_store(), {})


def _conditions(header: bytes) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        request = Request("GET", "/", "", {header: text.encode("latin-1")})
        return unchanged(request, '"abc"', "2014-01-02T17:23:57Z"), part(request, '"abc"', 1000)

    return read


def _acknowledged(text: str) -> Any:
    message = read_request(text)
    keys = UrlKeys(b"x" * 32, lambda: 1_700_000_000.0)
    return keys.read(message) if isinstance(message, Acknowledgment) else None


_KEY: Final = UrlKeys(b"x" * 32, lambda: 1_700_000_000.0).make(7, 60)
_ACKNOWLEDGMENTS: Final = (
    (
        f"servicesubject=acknowledgment&url=http://a.example/x&state=Original&contenttype=Data&urlkey={_KEY}"
        f"&parsedibiurl.ibi={corpus.IBIP}&parsedibiurl.persistenturl=http://urlib.net/{corpus.IBIP}"
    ),
    f"servicesubject=acknowledgment&urlkey={_KEY}",
)
_RECEIPT: Final = {
    "kind": "ibi receipt",
    "version": 1,
    "item": {"rep": corpus.REP},
    "files": [{"name": "a", "size": 5, "sha256": "ab" * 32, "type": "text/plain"}],
    "holder": {"service": {"rep": corpus.REP}, "address": "a.example"},
}
_SIDECAR: Final = {
    "version": 1,
    "item": {**corpus.DESCRIPTION, "key": "k"},
    "history": [{"moment": "2020-01-01T00:00:00Z", "who": "a", "what": "deposited", "detail": {"a": 1}}],
}
_FETCHED: Final = {
    "item": corpus.DESCRIPTION,
    "service": corpus.IBIP,
    "history": [{"moment": "2020-01-01T00:00:00Z", "who": "a", "what": "deposited", "detail": {}}],
    "fingerprint": "ab" * 32,
}
_PROPOSE: Final = {
    "word": "propose", "transfer": _HANDOVER, "ibi": corpus.REP, "address": "http://a.example/",
    "passage": "x" * 30, "seal": "ab" * 32, "fingerprint": "ab" * 32,
}  # fmt: skip
_ANSWERS: Final = (
    {"reply": "staged", "fingerprint": "ab" * 32, "service": corpus.IBIP},
    {"reply": "refused", "problem": "no room"},
)
_GIVEN_ON: Final = {"ibi": corpus.REP, "state": "Copy", "archive": "http://b.example", "service": corpus.IBIP}
_RECEIVED: Final = (
    {
        "service": corpus.IBIP,
        "received": [{"ibi": corpus.REP, "state": "Original"}, _GIVEN_ON],
        "next": _HANDOVER,
    },
    {"service": corpus.IBIP, "received": [{"ibi": corpus.REP, "state": "Unsettled"}]},
)
_HELD: Final = {
    "ibi": corpus.REP, "original": corpus.IBIP, "address": "b.example:80", "removed": False, "disputed": False,
}  # fmt: skip
_HOLDERS: Final = {
    "items": [_HELD, {**_HELD, "original": None, "address": "", "removed": True}, {**_HELD, "disputed": True}]
}
_REFUSAL: Final = (Refusal,)

TALK: Final = (
    Target(
        "archive.replication.fetching.read_description",
        as_value(lambda value: read_description(value, _NAME)),
        "value",
        values=(corpus.DESCRIPTION, corpus.ITEM),
    ),
    Target(
        "archive.replication.messages.read_message",
        as_value(read_message),
        "value",
        values=(
            _PROPOSE,
            {**_PROPOSE, "word": "complete", "proof": "x" * 30},
            {**_PROPOSE, "word": "withdraw"},
        ),
    ),
    Target("archive.replication.messages.read_fetched", _fetched, "bytes", values=(_FETCHED,)),
    Target(
        "archive.replication.messages.read_answer",
        as_value(lambda value: read_answer(value, "http://a.example")),
        "value",
        values=_ANSWERS,
    ),
    Target(
        "archive.replication.restored_messages.read_received",
        as_value(lambda value: read_received(value, "http://a.example", ())),
        "value",
        values=_RECEIVED,
    ),
    Target(
        "archive.replication.restored_messages.read_holders",
        as_value(lambda value: read_holders(value, "http://a.example", ())),
        "value",
        values=(_HOLDERS,),
    ),
    Target("archive.preservation.attestation.read_receipt", read_receipt, "bytes", values=(_RECEIPT,)),
    Target(
        "archive.preservation.attestation.read_receipt signed",
        read_receipt,
        "bytes",
        values=(_RECEIPT,),
        signed=_signed_receipt,
    ),
    Target("archive.store.sidecars.read_sidecar", read_sidecar, "bytes", values=(_SIDECAR,)),
    Target(
        "archive.store.sidecars.read_sidecar signed",
        read_sidecar,
        "bytes",
        values=(_SIDECAR,),
        signed=_signed_sidecar,
    ),
    Target("archive.store.tables.rows.read_problem", _problem, rule="prose"),
    Target("api.bodies.read_json", read_json, "bytes", corpus.items(), "json", refuses=_REFUSAL),
    Target(
        "archive.api.received_files.Form.feed",
        _form,
        "bytes",
        corpus.FORM,
        refuses=_REFUSAL,
    ),
    Target(
        "archive.api.received_files.Form",
        _form_kind,
        "line",
        ("multipart/form-data; boundary=b", 'multipart/form-data; boundary="a b"; x*0=1'),
        refuses=_REFUSAL,
    ),
    Target("archive.model.url_key.UrlKeys.read", _acknowledged, "text", _ACKNOWLEDGMENTS, "request"),
    Target(
        "http.conditional.part",
        _conditions(b"range"),
        "line",
        rule="range",
        refuses=(Unsatisfiable,),
    ),
    Target(
        "http.conditional.unchanged",
        _conditions(b"if-modified-since"),
        "line",
        rule="httpdate",
        refuses=(Unsatisfiable,),
    ),
    Target(
        "http.conditional.unchanged tags",
        _conditions(b"if-none-match"),
        "line",
        rule="tag",
        refuses=(Unsatisfiable,),
    ),
    Target("archive.pages.statistics.month", lambda text: _month(text, "2026-01"), rule="months"),
)
