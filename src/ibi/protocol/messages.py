"""The requests between resolver and Archives (R15 chapters 6 to 9; MSG-20 to MSG-28), each a frozen value.

Each knows its query string; the replies are in `replies`, but for the URL list, which has a room of its own. A
`UrlRequest` has no place for a reader's language or for the state that a reader requires: what must not be told to
an Archive cannot be told (RES-03).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar, final

from ibi.errors import ParseError
from ibi.identifier.forms import IBI, IBIForms, Name, parse_ibi, parse_name
from ibi.identifier.ibip import canonical_ip
from ibi.protocol import _grammar
from ibi.protocol import vocabulary as say
from ibi.protocol.notification import ChangeNotification
from ibi.protocol.query_string import read_query, write_query
from ibi.protocol.verb_list import NO_VERBS, VerbList
from ibi.protocol.vocabulary import ContentType, State, Subject

_Word = TypeVar("_Word", State, ContentType)
_MAX_KEY: Final = 256
_MAX_WORD: Final = 256
_MAX_ADDRESSES: Final = 32
_CONTROL = re.compile("[\x00-\x1f\x7f]").search


@final
@dataclass(frozen=True, slots=True)
class UrlRequest:
    """Where is this item? From the resolver to an Archive (MSG-25).

    `client_addresses`: IP addresses, the reader's first, then the proxies'. `file_path`: raw, with its slash, "" if
    no file is meant.
    """

    client_addresses: tuple[str, ...]
    ibi: Name
    file_path: str = ""
    verbs: VerbList = NO_VERBS

    def query(self) -> str:
        """The query string, names in alphabetical order."""
        pairs = [(say.CLIENT_ADDRESSES, " ".join(self.client_addresses))]
        if self.file_path:
            pairs.append((say.ASKED_FILE_PATH, self.file_path))
        pairs.append((say.ASKED_IBI, str(self.ibi)))
        if self.verbs.verbs:
            pairs.append((say.ASKED_VERBS, str(self.verbs)))
        pairs.append((say.SERVICE_SUBJECT, Subject.URL.value))
        return write_query(pairs)

    @classmethod
    def of(cls, values: dict[str, str]) -> UrlRequest:
        """Read from decoded pairs. Raises ParseError."""
        return cls(
            _addresses(_mandatory(values, say.CLIENT_ADDRESSES)),
            parse_name(_mandatory(values, say.ASKED_IBI)),
            _file_path(values.get(say.ASKED_FILE_PATH, "")),
            VerbList.parse(values.get(say.ASKED_VERBS, "")),
        )


@final
@dataclass(frozen=True, slots=True)
class Acknowledgment:
    """Your URL was chosen. From the resolver to the Archive it came from (MSG-27).

    `state` may be absent only in what others send (AMB-50). After a reused answer (note 1) it stands for `count`
    readers, and `event`, a few digits, tells it from the others of its key.
    """

    client_addresses: tuple[str, ...]
    content_type: ContentType
    state: State | None
    url: str
    url_persistent: str
    url_key: str
    forms: IBIForms | None = None
    count: int = 1
    event: str = ""

    def query(self) -> str:
        """The query string, names in alphabetical order."""
        pairs = [
            (say.ACKNOWLEDGMENT_COUNT, str(self.count) if self.count > 1 else ""),
            (say.ACKNOWLEDGMENT_ID, self.event),
            (say.CLIENT_ADDRESSES, " ".join(self.client_addresses)),
            (say.CONTENT_TYPE, self.content_type.value),
            (say.IBI, str(self.forms) if self.forms else ""),
            (say.SERVICE_SUBJECT, Subject.ACKNOWLEDGMENT.value),
            (say.STATE, self.state.value if self.state else ""),
            (say.URL, self.url),
            (say.PERSISTENT_URL, self.url_persistent),
            (say.URL_KEY, self.url_key),
        ]
        return write_query([pair for pair in pairs if pair[1]])

    @classmethod
    def of(cls, values: dict[str, str]) -> Acknowledgment:
        """Read from decoded pairs. Raises ParseError."""
        key = _mandatory(values, say.URL_KEY)
        if not is_key(key):
            raise ParseError("key", key, "a key is ten digits or more, perhaps twice with a hyphen between")
        forms = values.get(say.IBI)
        state = values.get(say.STATE)
        return cls(
            _addresses(_mandatory(values, say.CLIENT_ADDRESSES)),
            _one_of(_mandatory(values, say.CONTENT_TYPE), ContentType),
            _held(state) if state is not None else None,
            _mandatory(values, say.URL),
            _mandatory(values, say.PERSISTENT_URL),
            key,
            IBIForms.parse(forms) if forms else None,
            *_marked(values.get(say.ACKNOWLEDGMENT_COUNT, "1"), values.get(say.ACKNOWLEDGMENT_ID, "")),
        )


@dataclass(frozen=True, slots=True)
class _Switch:
    """What switching on and off have in common: the eight pairs of MSG-20."""

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
        return write_query(
            [
                (say.ARCHIVE_ADDRESS, self.address),
                ("archiveadmemailaddress", self.admin_mail),
                ("archiveip", self.ip),
                ("archiveplatformversion", self.platform_version),
                ("archiveprotocol", self.protocol),
                ("archiveserviceibi", str(self.service_ibi)),
                ("registrationkey", self.key),
                (say.SERVICE_SUBJECT, self.subject.value),
            ]
        )

    def __repr__(self) -> str:
        """Without the key, which must not reach a log."""
        return f"{type(self).__name__}({self.address!r}, {str(self.service_ibi)!r})"


@final
class InclusionRequest(_Switch):
    """This Archive answers from now on. From an Archive to the resolver (MSG-20)."""

    __slots__ = ()
    subject = Subject.INCLUSION


@final
class ExclusionRequest(_Switch):
    """This Archive stops answering. From an Archive to the resolver (MSG-20)."""

    __slots__ = ()
    subject = Subject.EXCLUSION


@final
@dataclass(frozen=True, slots=True)
class ConfirmationRequest:
    """Are you there? From the resolver to an Archive that asks to be included (MSG-22)."""

    def query(self) -> str:
        """The query string."""
        return write_query([(say.SERVICE_SUBJECT, Subject.CONFIRMATION.value)])


_Told = Acknowledgment | ChangeNotification
Request = UrlRequest | _Told | InclusionRequest | ExclusionRequest | ConfirmationRequest


def read_request(raw_query: str) -> Request:
    """Read the query of a request to a service.

    Raises ParseError for an unknown or missing subject, a pair that is missing, repeated or not of its domain
    (AMB-32). Names that no message knows are passed over.
    """
    values = _unrepeated(raw_query)
    subject = _mandatory(values, say.SERVICE_SUBJECT)
    match subject:
        case Subject.URL:
            return UrlRequest.of(values)
        case Subject.ACKNOWLEDGMENT:
            return Acknowledgment.of(values)
        case Subject.CONFIRMATION:
            return ConfirmationRequest()
        case Subject.CHANGE:
            return ChangeNotification.of(values)
        case Subject.INCLUSION:
            return InclusionRequest(*_switch_values(values))
        case Subject.EXCLUSION:
            return ExclusionRequest(*_switch_values(values))
        case _:
            raise ParseError("request", subject, "no service knows this subject")


def is_key(text: str) -> bool:
    """Whether a text is a registration key or URL key (MSG-21)."""
    return len(text) <= _MAX_KEY and _grammar.key_match(text) is not None


def split_hostport(text: str) -> tuple[str, int | None]:
    """Host and port of an Archive's address; IPv6 without its brackets. Raises ParseError (MSG-03)."""
    match = _grammar.hostport_match(text) if len(text) <= _MAX_WORD else None
    if match is None or (match[2] is not None and not 0 < int(match[2]) <= 65535):  # noqa: PLR2004 - the last port
        raise ParseError(
            "address", text, "an address is a host, perhaps with a port: archive.example.org:8080"
        )
    host = match[1]
    if host.startswith("["):
        host = canonical_ip(host[1:-1])
    return host, int(match[2]) if match[2] else None


def _switch_values(values: dict[str, str]) -> tuple[str, IBI, str, str, str, str, str]:
    address = _mandatory(values, say.ARCHIVE_ADDRESS)
    split_hostport(address)
    protocol = _mandatory(values, "archiveprotocol")
    if protocol != "HTTP":
        raise ParseError("request", protocol, "HTTP is the only protocol")
    version = _mandatory(values, "archiveplatformversion")
    if len(version) > _MAX_WORD or not version.isascii() or not version.isprintable():
        raise ParseError("request", version, "a platform version is a short line of ASCII")
    mail = _mandatory(values, "archiveadmemailaddress")
    if _grammar.mail_match(mail) is None:
        raise ParseError("request", mail, "the address of the administrator is a mail address")
    key = _mandatory(values, "registrationkey")
    if not is_key(key):
        raise ParseError("key", "", "a key is ten digits or more, perhaps twice with a hyphen between")
    ibi = parse_ibi(_mandatory(values, "archiveserviceibi"))
    return address, ibi, canonical_ip(_mandatory(values, "archiveip")), version, mail, key, protocol


def _unrepeated(raw_query: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in read_query(raw_query):
        if name in values:
            raise ParseError("request", name, "this name is given twice")
        values[name] = value
    return values


def _mandatory(values: dict[str, str], name: str) -> str:
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


def _held(word: str) -> State:
    state = _one_of(word, State)
    if state is State.DELETED:
        raise ParseError("request", word, "nobody is thanked for what was removed")
    return state


def _marked(count: str, event: str) -> tuple[int, str]:
    if not _grammar.count_match(count) or not _grammar.event_match(event):
        problem = "an acknowledgment counts from 1 to 100000 readers, and its id is a few digits"
        raise ParseError("request", f"{count} {event}", problem)
    return int(count), event


def _addresses(text: str) -> tuple[str, ...]:
    addresses = text.split()
    if not 0 < len(addresses) <= _MAX_ADDRESSES:
        raise ParseError("request", text, "a reader has from 1 to {limit} addresses", limit=_MAX_ADDRESSES)
    return tuple([one if _grammar.ipv4_match(one) else canonical_ip(one) for one in addresses])


def _file_path(text: str) -> str:
    """A path with its slash; "" for none, which "/" means too (SVC-13). Once it may have been escaped too little."""
    path = text if text.startswith("/") or not text else f"/{text}"
    if path.startswith("//") or _CONTROL(path):
        raise ParseError("request", text, "a path starts with one slash and has no control characters")
    return "" if path == "/" else path
