"""The requests between resolver and Archives (R15 chapters 6 to 9; MSG-20 to MSG-28), each a frozen value.

Each class writes and reads its query string. The replies are in `replies`, the URL list in `url_list`. A `UrlRequest`
has no field for a reader's language or for the state that a reader requires, because an Archive must not learn them
(RES-03: Archives learn no preference).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeVar, final
from urllib.parse import quote, unquote

from ibi.errors import ParseError
from ibi.identifier.forms import IBI, IBIForms, Name, parse_ibi, parse_name
from ibi.identifier.ibip import canonical_ip
from ibi.protocol import _grammar
from ibi.protocol import vocabulary as terms
from ibi.protocol.extensions.changes import ChangesRequest
from ibi.protocol.query_string import escape, read_query, write_query
from ibi.protocol.verb_list import NO_VERBS, VerbList
from ibi.protocol.vocabulary import ContentType, ItemState, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


MOST_CHANGED: Final = 50
"""Names in one notification."""

MOST_MESSAGE_BYTES: Final = 15 * 1024
"""Bytes of path and query of the longest message; an Archive must read as much (T10: huge answers; T30: slow
requests)."""

MOST_ESCAPED_URL_BYTES: Final = MOST_MESSAGE_BYTES - 2_560
"""Bytes of a message for escaped URLs; the rest is for names, addresses and the key (T10: huge answers; T30: slow
requests)."""

URL_LENGTH_SURE_TO_FIT: Final = MOST_ESCAPED_URL_BYTES // 3
"""Characters of URLs that fit into MOST_ESCAPED_URL_BYTES even if every character is escaped."""


@final
@dataclass(frozen=True, slots=True)
class ChangeNotification:
    """An Archive's notice that its answers about these names may have changed; without names, all of them.

    `removed`: those of the changed names whose items the Archive has removed.
    """

    service_ibi: IBI
    changed: tuple[Name, ...] = ()
    removed: tuple[Name, ...] = ()

    def query(self) -> str:
        """The query string, names in alphabetical order; those of items in their canonical form."""
        pairs = [
            (terms.CHANGED, " ".join(name.canonical for name in self.changed)),
            (terms.ARCHIVE_SERVICE, str(self.service_ibi)),
            (terms.REMOVED, " ".join(name.canonical for name in self.removed)),
            (terms.SERVICE_SUBJECT, Subject.CHANGE.value),
        ]
        return write_query((name, value) for name, value in pairs if value)

    @classmethod
    def of(cls, values: Mapping[str, str]) -> ChangeNotification:
        """Read from decoded pairs. Raises ParseError."""
        service, changed = _mandatory(values, terms.ARCHIVE_SERVICE), values.get(terms.CHANGED)
        names = changed.split() if changed is not None else []
        if len(names) > MOST_CHANGED or (changed is not None and not names):
            problem = "a notification tells from 1 to {limit} changed names, or has no such pair"
            raise ParseError("request", changed or "", problem, limit=MOST_CHANGED)
        gone = values.get(terms.REMOVED, "").split()
        if not set(gone) <= set(names):
            raise ParseError("request", " ".join(gone), "what was removed is among what has changed")
        return cls(parse_ibi(service), tuple(map(parse_name, names)), tuple(map(parse_name, gone)))


LONGEST_TITLE: Final = 200
"""Characters of what readers call an Archive."""

_LONGEST_RAW_TITLE: Final = 12 * LONGEST_TITLE  # four bytes a character, each escaped
_Word = TypeVar("_Word", ItemState, ContentType)
_MAX_KEY: Final = 256  # characters of a key
_MAX_WORD: Final = 256  # characters of an address or a version
_MAX_ADDRESSES: Final = 32  # addresses of one reader
_CONTROL = re.compile("[\x00-\x1f\x7f]").search


@final
class UrlRequest(NamedTuple):
    """The request for the URLs of an item, from the resolver to an Archive (MSG-25: the list of addresses).

    `client_addresses`: IP addresses, the reader's first, then the proxies'. `file_path`: raw, with its first
    slash; "" if no file is meant.
    """

    client_addresses: tuple[str, ...]
    ibi: Name
    file_path: str = ""
    verbs: VerbList = NO_VERBS

    def query(self) -> str:
        """The query string, names in alphabetical order."""
        pairs = [(terms.CLIENT_ADDRESSES, " ".join(self.client_addresses))]
        if self.file_path:
            pairs.append((terms.PARSED_FILE_PATH, self.file_path))
        pairs.append((terms.PARSED_IBI, self.ibi.text))
        if self.verbs.verbs:
            pairs.append((terms.PARSED_VERBS, str(self.verbs)))
        pairs.append((terms.SERVICE_SUBJECT, Subject.URL.value))
        return write_query(pairs)

    @classmethod
    def of(cls, values: dict[str, str]) -> UrlRequest:
        """Read from decoded pairs. Raises ParseError."""
        return cls(
            _addresses(_mandatory(values, terms.CLIENT_ADDRESSES)),
            parse_name(_mandatory(values, terms.PARSED_IBI)),
            _file_path(values.get(terms.PARSED_FILE_PATH, "")),
            VerbList.parse(values[terms.PARSED_VERBS]) if terms.PARSED_VERBS in values else NO_VERBS,
        )


@final
@dataclass(frozen=True, slots=True)
class Acknowledgment:
    """The report that a URL was chosen, from the resolver to the Archive that gave it (MSG-27: the acknowledgment).

    `state` is absent only in messages of other implementations (AMB-50: qualified values). The acknowledgment of a
    reused answer (note 1: reuse of answers) stands for `count` readers; `event`, a few digits, is its id under the
    URL key.
    """

    client_addresses: tuple[str, ...]
    content_type: ContentType
    state: ItemState | None
    url: str
    url_persistent: str
    url_key: str
    forms: IBIForms | None = None
    count: int = 1
    event: str = ""

    def query(self) -> str:
        """The query string, names in alphabetical order."""
        pairs = [(terms.ACKNOWLEDGMENT_COUNT, str(self.count))] if self.count > 1 else []
        if self.event:
            pairs.append((terms.ACKNOWLEDGMENT_ID, self.event))
        pairs.append((terms.CLIENT_ADDRESSES, " ".join(self.client_addresses)))
        pairs.append((terms.CONTENT_TYPE, self.content_type.value))
        if self.forms:
            pairs.append((terms.IBI, " ".join(self.forms.words)))
        pairs.append((terms.SERVICE_SUBJECT, Subject.ACKNOWLEDGMENT.value))
        if self.state:
            pairs.append((terms.STATE, self.state.value))
        pairs.append((terms.URL, self.url))
        pairs.append((terms.PERSISTENT_URL, self.url_persistent))
        pairs.append((terms.URL_KEY, self.url_key))
        return write_query(pairs)

    @classmethod
    def of(cls, values: dict[str, str]) -> Acknowledgment:
        """Read from decoded pairs. Raises ParseError."""
        key = _mandatory(values, terms.URL_KEY)
        if not is_key(key):
            raise ParseError("key", key, "a key is ten digits or more, perhaps twice with a hyphen between")
        forms = values.get(terms.IBI)
        state = values.get(terms.STATE)
        return cls(
            _addresses(_mandatory(values, terms.CLIENT_ADDRESSES)),
            _one_of(_mandatory(values, terms.CONTENT_TYPE), ContentType),
            _held_state(state) if state is not None else None,
            _mandatory(values, terms.URL),
            _mandatory(values, terms.PERSISTENT_URL),
            key,
            IBIForms.parse(forms) if forms else None,
            *_count_and_event(
                values.get(terms.ACKNOWLEDGMENT_COUNT, "1"), values.get(terms.ACKNOWLEDGMENT_ID, "")
            ),
        )


@dataclass(frozen=True, slots=True)
class _MembershipRequest:
    """The common base of inclusion and exclusion requests: the eight pairs of MSG-20."""

    subject: ClassVar[Subject]

    address: str
    service_ibi: IBI
    ip: str
    platform_version: str
    admin_mail: str
    key: str
    protocol: str = "HTTP"

    def query(self) -> str:
        """The query string, names in alphabetical order."""
        return write_query(self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        return [
            (terms.ARCHIVE_ADDRESS, self.address),
            (terms.ADMIN_MAIL, self.admin_mail),
            (terms.ARCHIVE_IP, self.ip),
            (terms.PLATFORM_VERSION, self.platform_version),
            (terms.ARCHIVE_PROTOCOL, self.protocol),
            (terms.ARCHIVE_SERVICE_IBI, str(self.service_ibi)),
            (terms.REGISTRATION_KEY, self.key),
            (terms.SERVICE_SUBJECT, self.subject.value),
        ]

    def __repr__(self) -> str:
        """Leave the key out, because it must not reach a log."""
        return f"{type(self).__name__}({self.address!r}, {str(self.service_ibi)!r})"


@final
class InclusionRequest(_MembershipRequest):
    """The request of an Archive to be included by the resolver (MSG-20: the eight pairs)."""

    __slots__ = ()
    subject = Subject.INCLUSION


@final
@dataclass(frozen=True, slots=True, repr=False)
class ExclusionRequest(_MembershipRequest):
    """The request of an Archive to be excluded by the resolver (MSG-20: the eight pairs).

    `end`: when the exclusion ends, as "2026-11-21T10:00:00Z", or "never"; "" if not told (note 48: the known holder).
    """

    subject = Subject.EXCLUSION
    end: str = ""

    def query(self) -> str:
        """The query string, names in alphabetical order."""
        end = [(terms.EXCLUSION_END, self.end)] if self.end else []
        return write_query(sorted([*self._pairs(), *end]))


@final
@dataclass(frozen=True, slots=True)
class ConfirmationRequest:
    """The resolver's request that an Archive confirms its own inclusion request (MSG-22)."""

    def query(self) -> str:
        """The query string."""
        return write_query([(terms.SERVICE_SUBJECT, Subject.CONFIRMATION.value)])


_Notification = Acknowledgment | ChangeNotification
Request = (
    UrlRequest | _Notification | InclusionRequest | ExclusionRequest | ConfirmationRequest | ChangesRequest
)


def read_request(raw_query: str) -> Request:
    """Read the query of a request to a service.

    Raises ParseError for an unknown or missing subject, and for a pair that is missing, repeated or has a value
    outside its domain (AMB-32: bad requests). Unknown names are ignored.
    """
    values: dict[str, str] = {}
    for name, value in read_query(raw_query):
        if name in values:
            raise ParseError("request", name, "this name is given twice")
        values[name] = value
    subject = _mandatory(values, terms.SERVICE_SUBJECT)
    read = _READERS.get(subject)
    if read is None:
        raise ParseError("request", subject, "no service knows this subject")
    return read(values)


_READERS: Final[Mapping[str, Callable[[dict[str, str]], Request]]] = {
    Subject.URL: UrlRequest.of,
    Subject.ACKNOWLEDGMENT: Acknowledgment.of,
    Subject.CONFIRMATION: lambda _: ConfirmationRequest(),
    Subject.CHANGE: ChangeNotification.of,
    Subject.CHANGES: ChangesRequest.of,
    Subject.INCLUSION: lambda values: InclusionRequest(*_membership_values(values)),
    Subject.EXCLUSION: lambda values: ExclusionRequest(
        *_membership_values(values), _end(values.get(terms.EXCLUSION_END, ""))
    ),
}


def fit_into_message(*urls: str) -> bool:
    """Return whether these URLs fit into one message after escaping, which can triple their length."""
    return sum(len(escape(url)) for url in urls) <= MOST_ESCAPED_URL_BYTES


class ArchiveTitles(NamedTuple):
    """What readers call an Archive; `portuguese`: on pages in Portuguese, if it has another name there."""

    usual: str = ""
    portuguese: str = ""

    def in_language(self, language: str) -> str:
        """Return the name for pages in a language, or else the one that there is; "" if none is known."""
        first, second = self.portuguese, self.usual
        return first or second if language.startswith("pt") else second or first

    def or_else(self, others: ArchiveTitles) -> ArchiveTitles:
        """Return these names, or `others` if there is none among these."""
        return self if any(self) else others


NO_TITLES: Final = ArchiveTitles()


def written_title(title: str) -> str:
    """Return the value of the header that tells a resolver what readers call an Archive."""
    return quote(title, safe="")


def read_title(raw: str) -> str:
    """Read what readers call an Archive from its header; "" unless it is one printable line that is not too long."""
    if len(raw) > _LONGEST_RAW_TITLE:
        return ""
    try:
        return checked_title(unquote(raw, errors="strict"))
    except UnicodeDecodeError:
        return ""


def checked_title(text: str) -> str:
    """Return a title with single blanks; "" unless it is one printable line that is not too long."""
    # No character that is not printable: among them are those that turn the direction of the text around it.
    title = " ".join(text.split()) if text.isprintable() else ""
    return title if len(title) <= LONGEST_TITLE else ""


def is_key(text: str) -> bool:
    """Return whether a text is a registration key or URL key (MSG-21: the form of a key)."""
    return len(text) <= _MAX_KEY and _grammar.key_match(text) is not None


def split_hostport(text: str) -> tuple[str, int | None]:
    """Return host and port of an Archive's address; IPv6 without its brackets. Raises ParseError (MSG-03)."""
    match = _grammar.hostport_match(text) if len(text) <= _MAX_WORD else None
    if match is None or (match[2] is not None and not 0 < int(match[2]) <= 65535):  # noqa: PLR2004 - the last port
        raise ParseError(
            "address", text, "an address is a host, perhaps with a port: archive.example.org:8080"
        )
    host = match[1]
    if host.startswith("["):
        host = canonical_ip(host[1:-1])
    return host, int(match[2]) if match[2] else None


def _membership_values(values: dict[str, str]) -> tuple[str, IBI, str, str, str, str, str]:
    address = _mandatory(values, terms.ARCHIVE_ADDRESS)
    split_hostport(address)
    protocol = _mandatory(values, terms.ARCHIVE_PROTOCOL)
    if protocol != "HTTP":
        raise ParseError("request", protocol, "HTTP is the only protocol")
    version = _mandatory(values, terms.PLATFORM_VERSION)
    if len(version) > _MAX_WORD or not version.isascii() or not version.isprintable():
        raise ParseError("request", version, "a platform version is a short line of ASCII")
    mail = _mandatory(values, terms.ADMIN_MAIL)
    if _grammar.mail_match(mail) is None:
        raise ParseError("request", mail, "the address of the administrator is a mail address")
    key = _mandatory(values, terms.REGISTRATION_KEY)
    if not is_key(key):
        # The key is left out of the error: with one digit mistyped, it still reveals nearly the whole secret.
        raise ParseError("key", "", "a key is ten digits or more, perhaps twice with a hyphen between")
    ibi = parse_ibi(_mandatory(values, terms.ARCHIVE_SERVICE_IBI))
    return address, ibi, canonical_ip(_mandatory(values, terms.ARCHIVE_IP)), version, mail, key, protocol


def _end(text: str) -> str:
    if text not in {"", terms.NEVER}:
        try:
            datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
        except ValueError:
            problem = "an exclusion ends at a moment such as 2026-11-21T10:00:00Z, or never"
            raise ParseError("request", text, problem) from None
    return text


def _mandatory(values: Mapping[str, str], name: str) -> str:
    value = values.get(name)
    if not value or value.isspace():
        raise ParseError("request", "", "the pair {name} is missing", name=name)
    return value


def _one_of(word: str, words: type[_Word]) -> _Word:
    try:
        return words(word)
    except ValueError:
        allowed = ", ".join(words)
        raise ParseError("request", word, "the value is one of {allowed}", allowed=allowed) from None


def _held_state(word: str) -> ItemState:
    state = _one_of(word, ItemState)
    if state is ItemState.DELETED:
        raise ParseError("request", word, "no acknowledgment is sent for what was removed")
    return state


def _count_and_event(count: str, event: str) -> tuple[int, str]:
    if not _grammar.count_match(count) or not _grammar.event_match(event):
        problem = "an acknowledgment counts from 1 to 100000 readers, and its id is a few digits"
        raise ParseError("request", f"{count} {event}", problem)
    return int(count), event


def _addresses(text: str) -> tuple[str, ...]:
    addresses = text.split()
    if len(addresses) > _MAX_ADDRESSES:
        raise ParseError("request", text, "a reader has from 1 to {limit} addresses", limit=_MAX_ADDRESSES)
    return tuple([one if _grammar.ipv4_match(one) else canonical_ip(one) for one in addresses])


def _file_path(text: str) -> str:
    """Return a path with its first slash; "" for no path, which "/" means too (SVC-13: climbing paths)."""
    # Older resolvers leave out the slash, and may send control characters because they escape too little.
    path = text if text.startswith("/") or not text else f"/{text}"
    if path.startswith("//") or _CONTROL(path):
        raise ParseError("request", text, "a path starts with one slash and has no control characters")
    return "" if path == "/" else path
