"""Settings: what an operator decided, kept as TOML in the data directory; and the environment (floor 3).

    DIR/archive.toml     ArchiveSettings
    DIR/resolver.toml    ResolverSettings
    DIR/subsystems.toml  SubsystemSettings, a table for each

The first two hold secrets, so only their owner may read them. Nothing else in the house reads the environment.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ibi.errors import ParseError, SetupError
from ibi.identifier.forms import IBIForms
from ibi.protocol.messages import InclusionRequest, read_request, split_hostport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Setting = str | bool | int | float | tuple[str, ...] | IBIForms | None
"""What a setting can be."""

_SHOWN = 120  # characters of a faulty value that are worth showing
_TOML_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def environment_language() -> str | None:
    """The language of the person at the terminal as POSIX tells it ("pt_BR.UTF-8"), or None."""
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name, "").partition(":")[0]
        if value:
            return None if value in {"C", "POSIX"} or value.startswith("C.") else value
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A frozen set of settings with its file in the data directory."""

    FILE: ClassVar[str]

    @classmethod
    def read(cls, data: Path) -> Self:
        """The settings of a data directory. Raises SetupError where there are none, or odd ones."""
        path = data / cls.FILE
        return cls._of_table(_read_toml(path), path)

    @classmethod
    def exists(cls, data: Path) -> bool:
        """Whether the data directory has such settings."""
        return (data / cls.FILE).exists()

    def write(self, data: Path) -> None:
        """Keep the settings, whole or not at all. Raises SetupError where the directory cannot be written."""
        path = data / self.FILE
        lines = [
            f"{field.name} = {_toml(value)}\n"
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        ]
        try:
            data.mkdir(parents=True, exist_ok=True)
            _replace_file(path, "".join(lines).encode())
        except OSError as error:
            raise SetupError("{path} cannot be written: {reason}", path=path, reason=error.strerror) from None

    @classmethod
    def _of_table(cls, table: Mapping[str, Any], path: Path) -> Self:
        known = {field.name: field for field in fields(cls)}
        odd = sorted(set(table) - set(known))
        if odd:
            raise SetupError("{path}: there is no setting {name}", path=path, name=odd[0])
        values: dict[str, Any] = {}
        for name, field in known.items():
            if name in table:
                values[name] = _READERS[str(field.type)](table[name], f"{path}: {name}")
            elif field.default is MISSING:
                raise SetupError("{path}: the setting {name} is missing", path=path, name=name)
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings(_Settings):
    """How one Archive presents itself, and under what it mints."""

    FILE: ClassVar[str] = "archive.toml"

    address: str
    """Where it answers: "host[:port]" (archiveaddress)."""
    ip: str
    """The address of its server (archiveip)."""
    service: IBIForms
    """The Archive service item (ARC-11)."""
    key: str
    """The registration key (MSG-21); a secret."""
    secret: str
    """Hexadecimal; what its urlkeys are made with; a secret."""
    admin: str
    """The administrator's mail address."""
    platform_software: IBIForms | None = None
    """The software's IBI, None where it has none (SVC-04)."""
    resolver: str = ""
    """The root URL of the resolver that it joins, "" before."""
    aliases: tuple[str, ...] = ()
    """Other "host[:port]" spellings under which requests are answered."""
    relations: tuple[str, ...] | None = None
    """The relations it answers for (SVC-07), as qualifiers ("", ".metadata", ...); None: all it can derive."""
    filter_answers: bool = True
    """Whether answers hold only what the request needs (SVC-18)."""
    mint_host: str = ""
    """The host name that new labels spell; "" where the Archive mints nothing."""
    mint_port: int = 80
    mint_ip: str = ""
    """The IP address that new IBIps spell; "" for labels in repository form alone."""
    mint_ip_port: int = 800
    granularity: str = "auto"
    """Seconds between labels at the finest: "60", "1", "0.1", ... or "auto", which follows the demand."""
    for_trying: bool = False
    """Whether labels may be minted under names and addresses that nobody owns."""

    def __post_init__(self) -> None:
        _check(self.inclusion_request("1").query(), self.aliases)

    def inclusion_request(self, version: str) -> InclusionRequest:
        """What the Archive says of itself when it switches on; `version` is that of its software."""
        return InclusionRequest(self.address, self.service.main, self.ip, version, self.admin, self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverSettings(_Settings):
    """How one resolver presents itself, whom it contacts and how long it waits."""

    FILE: ClassVar[str] = "resolver.toml"

    address: str
    """Where it answers: "host[:port]"."""
    service: IBIForms
    """The resolver service item (MSG-02)."""
    aliases: tuple[str, ...] = ()
    """Other "host[:port]" spellings under which it is the same resolver (AMB-30)."""
    policy: str = "hardened"
    """"hardened", or "strict" for the letter of the standard."""
    allow_private_archives: bool = False
    """Whether Archives at loopback, private or otherwise non-public addresses are contacted."""
    connect_seconds: float = 1.0
    """How long a connection to an Archive may take."""
    archive_seconds: float = 3.0
    """How long an Archive's whole answer may take."""
    overall_seconds: float = 5.0
    """How long a resolution may take, in either mode."""

    def __post_init__(self) -> None:
        _check("", (self.address, *self.aliases))
        if self.policy not in {"hardened", "strict"}:
            raise SetupError("the policy is hardened or strict, not {policy}", policy=self.policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsystemSettings(_Settings):
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
    """Whether labels may be minted under names and addresses that nobody owns."""

    @classmethod
    def read_all(cls, data: Path) -> dict[str, Self]:
        """All subsystems by their names, in the order of the file. Raises SetupError where there is none."""
        path = data / cls.FILE
        tables = _read_toml(path)
        if not tables or not all(isinstance(table, dict) for table in tables.values()):
            raise SetupError("{path} has a table for each subsystem: [name], host = ...", path=path)
        return {name: cls._of_table(table, path) for name, table in tables.items()}


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SetupError("{path} does not exist: nothing was made here with `init` yet", path=path) from None
    except (OSError, ValueError, RecursionError) as error:
        raise SetupError("{path} cannot be read: {reason}", path=path, reason=error) from None


def _replace_file(path: Path, content: bytes) -> None:
    """Write a file of ours for our eyes only: aside, flushed, then moved into place."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _check(query: str, addresses: tuple[str, ...]) -> None:
    """Refuse values that could never be said in a message."""
    try:
        if query:
            read_request(query)
        for address in addresses:
            split_hostport(address)
    except ParseError as error:
        if error.text == query:  # all of it, and the key with it
            raise SetupError(error.problem, **error.details) from None
        raise SetupError("{reason}: {text}", reason=error, text=error.text[:_SHOWN]) from None


def _toml(value: object) -> str:
    """One value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return f'"{"".join(_toml_char(char) for char in str(value))}"'


def _toml_char(char: str) -> str:
    return _TOML_ESCAPES.get(char) or (f"\\u{ord(char):04x}" if char < " " or char == "\x7f" else char)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise SetupError("{where} must be a text in quotes", where=where)
    return value


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise SetupError("{where} must be true or false", where=where)
    return value


def _whole(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SetupError("{where} must be a whole number", where=where)
    return value


def _number(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SetupError("{where} must be a number", where=where)
    return float(value)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise SetupError("{where} must be a list of texts", where=where)
    return tuple(_text(item, where) for item in value)


def _forms(value: Any, where: str) -> IBIForms:
    try:
        return IBIForms.parse(_text(value, where))
    except ParseError as error:
        raise SetupError("{where}: {reason}", where=where, reason=error) from None


_READERS: dict[str, Callable[[Any, str], Setting]] = {
    "str": _text,
    "bool": _truth,
    "int": _whole,
    "float": _number,
    "tuple[str, ...]": _texts,
    "tuple[str, ...] | None": _texts,
    "IBIForms": _forms,
    "IBIForms | None": _forms,
}
"""How a setting is read, by the type that its field declares."""
