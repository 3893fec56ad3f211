"""Settings: what an operator decided, kept as TOML in the data directory; and the environment.

    DIR/archive.toml     ArchiveSettings
    DIR/resolvers.toml   JoinedResolver, a table for each further resolver
    DIR/peers.toml       Peer, a table for each
    DIR/resolver.toml    ResolverSettings
    DIR/institution.toml Institution (`institution`), of an Archive or a resolver
    DIR/subsystems.toml  SubsystemSettings, a table for each

All but the last two hold secrets, so only their owner may read them. Environment variables override archive.toml
and resolver.toml: IBI_ARCHIVE_… or IBI_RESOLVER_… and a setting's name. No other package reads them.

How a mail server is reached (`ResolverSettings.smtp`):

    mail.example.org:25                         without TLS; for a server on this machine or in this network
    smtp+starttls://user@mail.example.org:587   TLS by STARTTLS before anything is sent, or no mail at all
    smtps://user@mail.example.org:465           TLS from the first byte

In the name of a user, "@" may be written as %40. The password is never part of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self
from urllib.parse import unquote

from ibi.errors import ParseError, SetupError
from ibi.identifier.forms import IBIForms
from ibi.protocol.messages import InclusionRequest, read_request, split_hostport
from ibi.runtime.settings.rules import ARCHIVE_RULES, RESOLVER_RULES, bucket_and_prefix
from ibi.runtime.settings.toml_file import Setting, Settings, settings_lock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ibi.runtime.settings.rules import Rule

__all__ = [
    "PLACEHOLDER",
    "ArchiveSettings",
    "JoinedResolver",
    "Peer",
    "ResolverSettings",
    "Setting",
    "SubsystemSettings",
    "settings_lock",
]

PLACEHOLDER: Final = IBIForms.parse("rep archive.example/w/2000/01.01.00.00")
"""Stands for the IBI of a service while settings are checked before one is minted."""

_SHOWN = 120  # characters of a faulty value that are shown
_PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_FORMS: Final = "`smtp` is host:port, smtp+starttls://user@host:port or smtps://user@host:port"


class _Addressed(Settings):
    """Where a program answers, and the root of the URLs that it gives out."""

    __slots__ = ()

    address: str
    aliases: tuple[str, ...]
    public_url: str

    @property
    def root(self) -> str:
        """The root of its URLs, without a slash at the end."""
        return self.public_url.removesuffix("/") or f"http://{self.address}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every "host[:port]" under which it answers, `address` first."""
        public = self.public_url.partition("://")[2].removesuffix("/")
        return self.address, *self.aliases, *((public,) if public else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings(_Addressed):
    """How one Archive presents itself, and under what it mints."""

    FILE: ClassVar[str] = "archive.toml"
    VARIABLES: ClassVar[str] = "IBI_ARCHIVE_"
    RULES: ClassVar[Mapping[str, Rule]] = ARCHIVE_RULES
    SHARED: ClassVar[bool] = True
    SECRET: ClassVar[frozenset[str]] = frozenset({"key", "secret", "store"})

    address: str
    """Where it answers: "host[:port]" (archiveaddress)."""
    ip: str
    """The address of its server (archiveip)."""
    service: IBIForms
    """The Archive service item (ARC-11: the service item)."""
    key: str
    """The registration key (MSG-21: the form of a key); a secret."""
    secret: str
    """Hexadecimal; what its urlkeys are made with; a secret."""
    admin: str
    """The administrator's mail address."""
    platform_software: IBIForms | None = None
    """The software's IBI, None where it has none (SVC-04: values of pairs)."""
    resolver: str = ""
    """The root URL of the resolver that it joins, "" before."""
    resolver_service: str = ""
    """The IBI of that resolver's service (MSG-02: the resolver's address), "" for one that tells it at /-/about."""
    aliases: tuple[str, ...] = ()
    """Other "host[:port]" spellings under which requests are answered."""
    public_url: str = ""
    """The root of the URLs that readers and programs get, "https://archive.example"; "": see `http.public_url`."""
    files_address: str = ""
    """The "host[:port]" from which files that a browser would render are served, "" for `address` (note 32: pages of
    depositors)."""
    relations: tuple[str, ...] | None = None
    """The relations it answers for (SVC-07: which relations), as qualifiers ("", ".metadata", ...); None: all it can
    derive."""
    filter_answers: bool = True
    """Whether answers hold only what the request needs (SVC-18: filtering changes no outcome)."""
    mint_host: str = ""
    """The host name that new labels spell; "" where the Archive mints nothing."""
    mint_port: int = 80
    mint_ip: str = ""
    """The IP address that new IBIps spell; "" for labels in repository form alone."""
    mint_ip_port: int = 800
    granularity: str = "auto"
    """Seconds between labels at the finest: "60", "1", "0.1", ... or "auto", which follows the demand."""
    for_trying: bool = False
    """Whether labels may be minted under names and addresses without an owner."""
    networks: tuple[str, ...] = ()
    """The networks, such as "10.0.0.0/8", whose readers may have what is restricted (SVC-10: URLs by reader)."""
    trusted_resolvers: tuple[str, ...] = ()
    """The networks of resolvers that are trusted about a reader's address (AMB-54: which address counts) and about
    counts of readers."""
    trusted_proxies: tuple[str, ...] = ()
    """The networks of proxies in front of this Archive, whose X-Forwarded-For is trusted."""
    metrics_networks: tuple[str, ...] = ()
    """Networks from which /-/metrics may be read; without any, only this machine."""
    reuse_seconds: int = 60
    """How long a resolver may reuse an answer without asking what has changed; 0: no resolver reuses any (note 1:
    reuse of answers)."""
    largest_upload: int = 8 << 30
    """Bytes of the largest file that is received over HTTP."""
    holdings_filter: bool = True
    """Whether it publishes a filter of the names that it answers for (note 45: filters of holdings)."""
    audit_days: int = 30
    """Within how many days every stored file is read again and compared with its SHA-256; 0: only on demand."""
    refresh_hours: int = 24
    """Hours after which copies are compared with their originals again, if no change was told; 0: only on demand."""
    geo_database: str = ""
    """The path of a MaxMind database by which readers' countries are found, "" for none."""
    page_rate: float = 50.0
    """Pages about items a second that one reader may have, of each process; 0: without limit."""
    page_burst: int = 500
    """How many of these pages at once."""
    costly_rate: float = 5.0
    """Searches, feeds and the like a second that one reader may have; 0: without limit."""
    costly_burst: int = 100
    """How many searches, feeds and the like at once."""
    accel_prefix: str = ""
    """The internal location under which nginx serves DIR/col (X-Accel-Redirect), "" where there is none."""
    files_group: str = ""
    """The group of a web server that may read the files of items, "" for none: only the owner of DIR may."""
    files: str = ""
    """Where the files of items are: "" for the folder DIR/col, or a place in an S3 store, "s3://bucket/prefix"; changed
    by `ibi archive move-files`."""
    files_redirect: bool = False
    """Whether readers fetch files from the S3 store itself, by URLs that are signed for five minutes."""
    backup_folder: str = ""
    """Where backups are kept that are asked for over HTTP, "" for none."""
    switched_on: bool = True
    """Whether the Archive takes part at its resolvers."""
    retired: bool = False
    """Whether the Archive has left for good."""
    store: str = ""
    """The PostgreSQL database that its nodes share, "postgresql://user:password@host/name", "" for none; a secret."""

    def __post_init__(self) -> None:
        _check(self.inclusion_request("1").query(), self.aliases)
        if self.files:
            bucket_and_prefix(self.files)
        if self.files_address:
            _check("", (self.files_address,))
            _check_files_address(self.files_address, self.addresses)

    def inclusion_request(self, version: str) -> InclusionRequest:
        """Make the request by which the Archive switches itself on; `version` is that of its software."""
        return InclusionRequest(self.address, self.service.main, self.ip, version, self.admin, self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedResolver(Settings):
    """A further resolver that an Archive takes part in, under a key of its own."""

    FILE: ClassVar[str] = "resolvers.toml"
    SHARED: ClassVar[bool] = True
    SECRET: ClassVar[frozenset[str]] = frozenset({"key"})

    url: str
    """Its root URL."""
    key: str
    """The registration key agreed with it; a secret."""
    service: str = ""
    """The IBI of its service (MSG-02: the resolver's address), "" for one that tells it at /-/about."""
    left: bool = False
    """Whether the Archive has left it: the key is kept for the day when it joins again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer(Settings):
    """An Archive that originals are transferred to."""

    FILE: ClassVar[str] = "peers.toml"
    SHARED: ClassVar[bool] = True
    SECRET: ClassVar[frozenset[str]] = frozenset({"token"})

    address: str
    """Its root URL."""
    token: str
    """The token that it accepts from this Archive; a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverSettings(_Addressed):
    """How one resolver presents itself, which Archives it contacts and how long it waits."""

    FILE: ClassVar[str] = "resolver.toml"
    VARIABLES: ClassVar[str] = "IBI_RESOLVER_"
    RULES: ClassVar[Mapping[str, Rule]] = RESOLVER_RULES
    SHARED: ClassVar[bool] = True
    SECRET: ClassVar[frozenset[str]] = frozenset({"mirror_key", "store", "upstream_token"})

    address: str
    """Where it answers: "host[:port]"."""
    service: IBIForms
    """The resolver service item (MSG-02: the resolver's address)."""
    aliases: tuple[str, ...] = ()
    """Other "host[:port]" spellings under which it is the same resolver (AMB-30: what is a service request)."""
    public_url: str = ""
    """The root of the URLs that readers and programs get, "https://urlib.net"; "": see `http.public_url`."""
    policy: str = "hardened"
    """"hardened", or "strict" for the letter of the standard."""
    allow_private_archives: bool = False
    """Whether Archives at loopback, private or otherwise non-public addresses are contacted."""
    connect_seconds: float = 1.0
    """How long a connection to an Archive may take."""
    archive_seconds: float = 3.0
    """How long an Archive's whole answer may take."""
    overall_seconds: float = 5.0
    """How long a resolution may take, all its rounds together."""
    hedge_seconds: float = 0.1
    """How long likely holders are waited for before all Archives are queried."""
    grace_seconds: float = 0.15
    """How long the known holder of an original is waited for when another Archive was faster."""
    stale_after_seconds: float = 1.6
    """How long Archives are waited for before an older answer of a silent one is used."""
    stale_seconds: int = 86_400
    """How long a cached answer may be used while its Archive is silent; 0: never."""
    lease_seconds_at_most: int = 86_400
    """How long an answer is used at most while its Archive, when asked, names no change of it; 0: no Archive is asked,
    and an answer is used as long as its Archive allows without that (`reuse_seconds` there)."""
    negative_seconds: int = 60
    """How long the negative cache keeps that no Archive holds an item; 0: never."""
    redirect_seconds: int = 0
    """How long caches of others may reuse a redirect that depends on no reader; 60 at most, 0: never (note 3: caching
    of redirects)."""
    redirect_mebibytes: int = 96
    """How much memory each process takes for its cached redirects, about two thirds of a kibibyte for each."""
    original_days: int = 30
    """Days for which an Archive that is excluded stays the known holder of its originals (threat T04)."""
    express: bool = True
    """Whether the fast path answers the redirects that may be answered from memory."""
    request_rate: float = 20.0
    """Resolutions a second that one reader may cause in each process, if they query Archives."""
    request_burst: int = 40
    """How many such resolutions at once."""
    admin: str = ""
    """The mail address of its administrator, shown to readers of alerts."""
    upstream: str = ""
    """The root URL of a resolver that is queried for what no Archive here holds."""
    upstream_token: str = ""
    """The token that it gave this one, so that readers here do not count there as one; a secret."""
    metrics_networks: tuple[str, ...] = ()
    """Networks from which /-/metrics may be read; without any, only this machine."""
    mirror: str = ""
    """The root URL of a resolver whose list of Archives is taken over, with `mirror_key`."""
    mirror_key: str = ""
    """The key with which that list is signed; a secret."""
    registration: str = "closed"
    """"form" where Archives may apply at /-/register, "closed" where the administrator registers them."""
    smtp: str = ""
    """A mail server: host:port, or smtp+starttls://user@host:port or smtps://user@host:port; "" sends no mail."""
    smtp_password_file: str = ""
    """The absolute path of the file with the password of the user that `smtp` names."""
    mail_from: str = ""
    """The address that mail is sent from."""
    store: str = ""
    """The PostgreSQL database that its nodes share, "postgresql://user:password@host/name", "" for none; a secret."""

    def __post_init__(self) -> None:
        _check("", (self.address, *self.aliases))
        user = mail_server(self.smtp).user if self.smtp else ""
        if user and not self.smtp_password_file.startswith("/"):
            raise SetupError("smtp_password_file is the absolute path of a file with the password for `smtp`")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsystemSettings(Settings):
    """One of several subsystems in a data directory: what it mints under, and for which items."""

    FILE: ClassVar[str] = "subsystems.toml"

    host: str
    """The host name that its labels spell."""
    port: int = 80
    ip: str = ""
    """The IP address that its IBIps spell; "" for labels in repository form alone."""
    ip_port: int = 800
    granularity: str = "auto"
    """Seconds between labels: "1", "0.1", ... or "auto", which follows the demand."""
    collections: tuple[str, ...] = ()
    """The collections whose items it names; without any, it names those of all others."""
    for_trying: bool = False
    """Whether labels may be minted under names and addresses without an owner."""

    @classmethod
    def read_all(cls, data: Path) -> dict[str, Self]:
        """All subsystems by their names, in the order of the file. Raises SetupError where there is none."""
        tables = cls.read_tables(data)
        if not tables:
            path = data / cls.FILE
            raise SetupError("{path} has a table for each subsystem: [name], host = ...", path=path)
        return tables


class MailServer(NamedTuple):
    """`scheme`: "smtp", "smtp+starttls" or "smtps"; `user`: "" where none is needed."""

    scheme: str
    host: str
    port: int
    user: str


def mail_server(text: str) -> MailServer:
    """Read the setting `smtp`. Raises SetupError, which repeats nothing that may be a password."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "smtp", text
    user, at, address = rest.rpartition("@")
    if scheme not in _PORTS or (at and not user):
        raise SetupError(_FORMS)
    if ":" in user:
        raise SetupError(
            "`smtp` must not contain a password: put it into a file, and name that in smtp_password_file"
        )
    if user and scheme == "smtp":
        raise SetupError("no password goes to a mail server in the open: use smtps:// or smtp+starttls://")
    try:
        host, port = split_hostport(address.removesuffix("/"))
        return MailServer(scheme, host, port or _PORTS[scheme], unquote(user, errors="strict"))
    except (ParseError, UnicodeDecodeError):
        raise SetupError(_FORMS) from None


def _check(query: str, addresses: tuple[str, ...]) -> None:
    """Refuse a query and addresses that no message can carry."""
    try:
        if query:
            read_request(query)
        for address in addresses:
            split_hostport(address)
    except ParseError as error:
        # If the text at fault is the whole request, it is not repeated, because it contains the key.
        if error.text == query:
            raise SetupError(error.problem, **error.details) from None
        raise SetupError("{reason}: {text}", reason=error, text=error.text[:_SHOWN]) from None


def _check_files_address(address: str, others: tuple[str, ...]) -> None:
    """Refuse an address of files whose host is not different from all others of the Archive."""
    # Cookies are kept by host, whatever the port; and a request by a bare number or word is for the Archive.
    host, *hosts = (split_hostport(each)[0].lower().removesuffix(".") for each in (address, *others))
    if "." not in host or host.replace(".", "").isdecimal():
        problem = "files need a whole host name of their own, such as files.example.org, and not {host}"
        raise SetupError(problem, host=host)
    if host in hosts:
        problem = "files need a host name of their own: {host} is one under which the Archive itself answers"
        raise SetupError(problem, host=host)
