"""The parsers of the two standards: names, and what is spoken."""

from __future__ import annotations

from typing import Any, Final

from ibi.errors import ParseError
from ibi.identifier import numerals
from ibi.identifier.dates import granularity_text, parse_granularity
from ibi.identifier.forms import IBIForms, parse_ibi, parse_name
from ibi.identifier.ibip import IBIp, canonical_ip
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName, rep_prefix
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.extensions.changes import ChangesReply, Position, Validity
from ibi.protocol.extensions.holdings import HoldingsFilter
from ibi.protocol.language import LanguagePreference, canonical_language
from ibi.protocol.messages import ChangeNotification, is_key, read_request, split_hostport
from ibi.protocol.pair_list import read_pairs, write_pairs
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import escape, read_query, split_query, unescape, with_query, write_query
from ibi.protocol.relation import Relation, parse_verb
from ibi.protocol.replies import (
    AcknowledgmentReceived,
    ChangeReceived,
    Confirmation,
    ExclusionStatus,
    InclusionStatus,
    Refusal,
)
from ibi.protocol.url_list import UrlList, find_wanted, readable_forms
from ibi.protocol.verb_list import VerbList
from proofs.fuzz import corpus
from proofs.fuzz.target import Target

_NAMES: Final = (
    *corpus.wild(),
    *corpus.vectors("grammar.ibip", "grammar.repository", "ibip.decode", "repo.prefix"),
)
_URLS: Final = (*corpus.vectors("url.parse", "url.variant", "resolve"), *corpus.wild())
_PAIRS: Final = (*corpus.vectors("pairlist", "filter", "join"), *corpus.plays())
_QUERIES: Final = corpus.vectors("message", "message.build", "decodqs", "escape")
_RELATIONS: Final = corpus.vectors("relation", "modifier", "verblist")
_CHANGES: Final = (
    "changes.word 5d1e0c4b7a9f2368 changes.to 43.e2a4490c61bb07d5 changes.names {8JMKD3MGP8W/35MMLL8 LK47B6W/362SFKH}",
    "changes.word 5d1e0c4b7a9f2368 changes.to 0.e2a4490c61bb07d5 changes.anything yes",
    "changes.word 5d1e0c4b7a9f2368 changes.to 9.e2a4490c61bb07d5 changes.names LK47B6W/362SFKH changes.more yes",
)
_VALIDITY: Final = (
    "changes.asof 41.9f3c01d2aa07b6e4 changes.rests {8JMKD3MGP8W/35MMLL8} changes.seconds 600",
    "changes.asof 0.9f3c01d2aa07b6e4",
)
_HOLDINGS: Final = (
    "ibi-holdings 1 names=1 hashes=3 bits=64\n" + "\xa5" * 8,
    "ibi-holdings 1 names=0 hashes=32 bits=8\n\xff",
)


def _all_of_a_name(text: str) -> Any:
    """Read a name, and ask it everything."""
    name = parse_name(text)
    parts = (name.prefix, name.suffix, name.ip if isinstance(name, IBIp | LegacyId) else name.host, name.port)
    return name, parts, name.date, name.date.text, name.date.precision, name.date.ticks, name.canonical


def _words_of_pairs(body: bytes) -> dict[str, tuple[str, ...]]:
    """The pairs; a word in braces is that word."""
    return {name: value if isinstance(value, tuple) else (value,) for name, value in read_pairs(body).items()}


def _whole_list(body: bytes) -> Any:
    """Read a URL list, and look at all that is in it."""
    read = UrlList.read(body)
    entries = [read.entry(relation) for relation in read.relations()]
    chosen = [find_wanted(read, relation, _PREFERENCE, read.relations()) for relation in _RELATIONS_WANTED]
    values = (read.state, read.archive_service, read.archive_address, read.platform_software, read.timestamp)
    return read.pairs, entries, chosen, values


_PREFERENCE: Final = LanguagePreference.parse("pt-BR, en;q=0.5, *;q=0")
_RELATIONS_WANTED: Final = tuple(
    map(Relation.from_modifier, ("", "!", "+", "+(pt)", ":", ":(oai_dc)", "!+:+", "+:+"))
)


def _preferred(header: str) -> Any:
    return LanguagePreference.parse(header).choose(("en", "pt-BR", "es", "zh-Hant-TW", "x"))


def _parts_of_url(text: str) -> PersistentURL:
    """A path and a query as a service takes them."""
    path, _, query = text.partition("?")
    return PersistentURL.parse(path, query)


def _escaped_again(text: str) -> str:
    """What is escaped comes out again."""
    if unescape(escape(text)) != text:
        raise AssertionError
    return write_query([("a", text)])


def _numerals(text: str) -> Any:
    """A number in each system, and back."""
    for system in (numerals.IPV4, numerals.IPV6, numerals.IBIP):
        try:
            number = system.read(text)
        except ParseError:
            continue
        if system.read(system.write(number)) != number:
            raise AssertionError


NAMES: Final = (
    Target(
        "identifier.forms.parse_name",
        _all_of_a_name,
        seeds=_NAMES,
        rule="ibi",
        also=frozenset({"identifier.legacy.LegacyId.parse"}),
    ),
    Target("identifier.forms.parse_ibi", parse_ibi, seeds=_NAMES, rule="ibi", back=str),
    Target(
        "identifier.ibip.IBIp.parse",
        IBIp.parse,
        seeds=_NAMES,
        rule="ibip",
        back=str,
        also=frozenset({"identifier.ordering.TimeOrdered.parse"}),
    ),
    Target(
        "identifier.repository.UniformRepositoryName.parse",
        UniformRepositoryName.parse,
        seeds=_NAMES,
        rule="rep",
        back=str,
    ),
    Target("identifier.legacy.LegacyId.parse", LegacyId.parse, seeds=_NAMES, rule="legacy", back=str),
    Target(
        "identifier.forms.IBIForms.parse",
        IBIForms.parse,
        seeds=_NAMES,
        rule="forms",
        back=str,
        also=frozenset({"identifier.forms.IBIForms.from_words"}),
    ),
    Target("identifier.unwrapping.unwrap", unwrap, seeds=(*_NAMES, *_URLS), rule="prose"),
    Target("identifier.ibip.canonical_ip", canonical_ip, rule="ip", back=str),
    Target("identifier.repository.rep_prefix", rep_prefix, rule="host"),
    Target(
        "identifier.dates.parse_granularity", parse_granularity, rule="granularity", back=granularity_text
    ),
    Target(
        "identifier.numerals.Numerals.read", _numerals, seeds=corpus.vectors("codec.to_decimal"), rule="cc"
    ),
)

MESSAGES: Final = (
    Target(
        "protocol.persistent_url.PersistentURL.from_text", PersistentURL.from_text, seeds=_URLS, rule="url"
    ),
    Target("protocol.persistent_url.PersistentURL.parse", _parts_of_url, seeds=_URLS, rule="url_path"),
    Target("protocol.query_string.read_query", read_query, seeds=_QUERIES, rule="request"),
    Target("protocol.query_string.split_query", split_query, seeds=_QUERIES, rule="query"),
    Target("protocol.query_string.unescape", unescape, rule="pct", seeds=_QUERIES),
    Target(
        "protocol.query_string.escape",
        escape,
        rule="pct",
        seeds=_QUERIES,
    ),
    Target("protocol.query_string.escape again", _escaped_again, rule="pct", seeds=_QUERIES),
    Target("protocol.query_string.with_query", lambda text: with_query(text, text), seeds=_URLS, rule="url"),
    Target(
        "protocol.messages.read_request",
        read_request,
        seeds=_QUERIES,
        rule="request",
        back=lambda request: request.query(),
    ),
    Target("protocol.messages.is_key", is_key, seeds=corpus.vectors("key"), rule="key"),
    Target("protocol.messages.split_hostport", split_hostport, rule="host"),
    Target(
        "protocol.messages.ChangeNotification.of",
        lambda text: ChangeNotification.of(dict(read_query(text))),
        rule="request",
    ),
    Target(
        "protocol.language.LanguagePreference.parse",
        _preferred,
        seeds=corpus.vectors("language"),
        rule="languages",
    ),
    Target("protocol.language.canonical_language", canonical_language, rule="lang", back=str),
    Target(
        "protocol.relation.Relation.from_modifier",
        Relation.from_modifier,
        seeds=_RELATIONS,
        rule="modifier",
        back=lambda read: read.modifier,
    ),
    Target(
        "protocol.relation.Relation.from_qualifier",
        Relation.from_qualifier,
        seeds=_RELATIONS,
        rule="qualifier",
        back=lambda read: read.qualifier,
    ),
    Target(
        "protocol.relation.Relation.from_verbs",
        lambda text: Relation.from_verbs(text.split()),
        seeds=_RELATIONS,
        rule="verbs",
        back=lambda read: " ".join(read.verbs),
    ),
    Target(
        "protocol.relation.parse_verb",
        parse_verb,
        seeds=_RELATIONS,
        rule="verb",
        back=lambda step: step.spelled(1),
    ),
    Target("protocol.verb_list.VerbList.parse", VerbList.parse, seeds=_RELATIONS, rule="verbs"),
    Target("protocol.pair_list.read_pairs", _words_of_pairs, "bytes", _PAIRS, "pairs", back=write_pairs),
    Target("protocol.url_list.UrlList.read", _whole_list, "bytes", _PAIRS, "pairs"),
    Target(
        "protocol.url_list.readable_forms",
        lambda text: readable_forms(tuple(text.split())),
        seeds=_NAMES,
        rule="forms",
    ),
    Target(
        "protocol.extensions.holdings.HoldingsFilter.read",
        HoldingsFilter.read,
        "bytes",
        _HOLDINGS,
        back=lambda read: read.text(),
    ),
    Target(
        "protocol.extensions.changes.ChangesReply.read",
        lambda body: ChangesReply.read(body, "5d1e0c4b7a9f2368"),
        "bytes",
        _CHANGES,
        back=lambda read: read.body(),
    ),
    Target(
        "protocol.extensions.changes.Position.parse",
        Position.parse,
        seeds=("41.9f3c01d2aa07b6e4", "0.0000000000000000"),
        back=str,
    ),
    Target(
        "protocol.extensions.changes.Validity.of",
        lambda body: Validity.of(read_pairs(body)),
        "bytes",
        _VALIDITY,
        "pairs",
    ),
    *(
        Target(
            f"protocol.replies.{reply.__name__}.read",
            reply.read,
            "bytes",
            rule="reply",
            back=lambda read: read.body(),
        )
        for reply in (
            Confirmation,
            AcknowledgmentReceived,
            ChangeReceived,
            InclusionStatus,
            ExclusionStatus,
            Refusal,
        )
    ),
)
