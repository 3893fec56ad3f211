"""The parsers that belong to no service alone: settings, tokens, addresses, answers over HTTP, the state of minting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Tokens
from ibi.http.client import HostPort
from ibi.http.client.download import Answer, CheckedURL
from ibi.http.client.response import ReplyParser, SharedState
from ibi.http.request import Request, host_of
from ibi.http.response import Refusal, visible
from ibi.minting.order import LabelOrder
from ibi.minting.state import StateRecord
from ibi.runtime.logging import scrubbed
from ibi.runtime.settings import ArchiveSettings, ResolverSettings, SubsystemSettings
from ibi.runtime.signing import is_signed
from proofs.fuzz import corpus
from proofs.fuzz.places import folder
from proofs.fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable


def _settings(kind: type[Any]) -> Callable[[bytes], Any]:
    """The settings in a file."""

    def read(text: bytes) -> Any:
        place = folder() / "settings"
        place.mkdir(exist_ok=True)
        (place / kind.FILE).write_bytes(text)
        return kind.read_all(place) if hasattr(kind, "read_all") else kind.read(place)

    return read


def _tokens(text: bytes) -> Any:
    place = folder() / "tokens"
    place.mkdir(exist_ok=True)
    (place / "tokens.json").write_bytes(text)
    tokens = Tokens(place)
    return list(tokens.all()), tokens.find("ibi_x")


def _answers(text: bytes) -> None:
    """Answers as they come over one connection, in pieces of any size: those that are taken are the same."""
    taken = []
    for size in (1, 7, 1 << 16):
        held = SharedState()
        answers, found = ReplyParser(16 * 1024, 4 * 1024, held), []
        for at in range(0, min(len(text), 3000 * size), size):
            answers.feed(text[at : at + size])
            if answers.refusal is None and answers.complete:
                reusable = answers.kept_alive and not answers.surplus
                found.append(answers.take("192.0.2.7"))
                if not reusable:
                    break
            elif answers.refusal is not None:
                _demand(str(answers.refusal).count("\n") == 0)
                break
        answers.end()
        answers.drop()
        _demand(not held.unfinished)
        taken.append(found[0] if found else None)
    _demand(len({(each.status, each.body) for each in taken if each is not None}) < 2)


def _demand(truth: object) -> None:
    if not truth:
        raise AssertionError


def _place(text: str) -> Any:
    place = CheckedURL.parse(text)
    return place, place.root


def _order(text: bytes) -> Any:
    return LabelOrder.read(Request("POST", "/", "", {b"accept": b"text/plain"}), text)


def _json(text: bytes) -> Any:
    return Answer(200, {}, text).json()


_ARCHIVE_TOML: Final = (
    'address = "a.example"\nip = "127.0.0.1"\nservice = "rep sid.inpe.br/mtc-m19/2013/09.18.13.35"\n'
    'key = "12345678901234567890"\nsecret = "'
    + "ab"
    * 32
    + '"\nadmin = "a@a.example"\naliases = ["b.example"]\n'
    'mint_host = "a.example"\nmint_port = 80\naudit_days = 30\nswitched_on = true\n'
)
_RESOLVER_TOML: Final = (
    'address = "urlib.net"\nservice = "ibip J8LNKB5R7W/3FUQHC5"\npolicy = "strict"\narchive_seconds = 3.0\n'
    'upstream = "http://b.example/"\nmetrics_networks = ["10.0.0.0/8"]\n'
)
_SUBSYSTEMS_TOML: Final = (
    '[a]\nhost = "a.example"\nip = "150.163.34.243"\ngranularity = "0.1"\n["b c"]\nhost = "b.example"\n'
)
_REPLIES: Final = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5;x=y\r\nabcde\r\n0\r\nA: b\r\n\r\n",
    "HTTP/1.0 302 Found\r\nLocation: http://a.example/\r\nX: y\r\n z\r\n\r\nabc",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
)
_RECORD: Final = StateRecord(5, 6, 7, 8, "boot", "machine")
_TOKENS: Final = {
    "version": 1,
    "tokens": [{"name": "a", "sha256": "ab" * 32, "made": "2026-11-22T10:00:00Z", "scopes": ["read"]}],
}

KEPT: Final = (
    Target(
        "runtime.settings.toml_file.Settings.read",
        _settings(ArchiveSettings),
        "bytes",
        (_ARCHIVE_TOML,),
        "toml",
        swift=False,
    ),
    Target(
        "runtime.settings.toml_file.Settings.read resolver",
        _settings(ResolverSettings),
        "bytes",
        (_RESOLVER_TOML,),
        "toml",
        swift=False,
    ),
    Target(
        "runtime.settings.SubsystemSettings.read_all",
        _settings(SubsystemSettings),
        "bytes",
        (_SUBSYSTEMS_TOML,),
        "toml",
        swift=False,
        also=frozenset({"runtime.settings.toml_file.Settings.read_tables"}),
    ),
    Target("accounts.tokens.Tokens.all", _tokens, "bytes", values=(_TOKENS,), swift=False),
    Target(
        "minting.state.StateRecord.read", StateRecord.read, "bytes", (_RECORD.line().decode(),), swift=False
    ),
    Target(
        "minting.order.LabelOrder.read",
        _order,
        "bytes",
        values=({"count": 5, "forms": "rep", "collection": "x"},),
        refuses=(Refusal,),
    ),
    Target("http.client.address_policy.HostPort.parse", HostPort.parse, rule="host", back=str),
    Target("http.client.download.CheckedURL.parse", _place, seeds=corpus.wild(), rule="url"),
    Target("transport.download.Answer.json", _json, "bytes", corpus.items(), "json"),
    Target("transport.exchange.Answers.feed", _answers, "bytes", _REPLIES, swift=False),
    Target("exchange.host_of", host_of, rule="host"),
    Target("exchange.visible", visible, seeds=corpus.wild(), rule="url"),
    Target(
        "runtime.logging.scrubbed",
        scrubbed,
        seeds=(*corpus.wild(), "key=12345678901234567890 2001:db8::1 Bearer x"),
        rule="request",
    ),
    Target("runtime.signing.is_signed", lambda text: is_signed(b"x", text, text[:64]), seeds=("ab" * 64,)),
)
