"""Files of settings: TOML tables of texts, numbers and lists, read by the types of their fields."""

from __future__ import annotations

import fcntl
import os
import tomllib
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from ibi.errors import ParseError, SetupError
from ibi.identifier.forms import IBIForms
from ibi.runtime.durable_files import replace_file, setup_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Setting = str | bool | int | float | tuple[str, ...] | IBIForms | None
"""What a setting can be."""

# The quotation mark, the backslash, and control characters, which no TOML has as themselves.
_TOML_ESCAPES = str.maketrans(
    {chr(code): f"\\u{code:04x}" for code in (*range(32), 127)} | {'"': '\\"', "\\": "\\\\"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
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
        _write_file(data / self.FILE, self.text())

    def text(self) -> str:
        """The settings as TOML, a line each."""
        return "".join(
            f"{field.name} = {_toml(value)}\n"
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        )

    @classmethod
    def _of_table(cls, table: Mapping[str, Any], path: Path) -> Self:
        known = {field.name: field for field in fields(cls)}
        odd = sorted(set(table) - set(known))
        if odd:
            raise SetupError("{path}: there is no setting {name}", path=path, name=odd[0])
        values: dict[str, Any] = {}
        for name, field in known.items():
            if name in table:
                kind = str(field.type).removesuffix(" | None")
                values[name] = _setting(table[name], kind, f"{path}: {name}")
            elif field.default is MISSING:
                raise SetupError("{path}: the setting {name} is missing", path=path, name=name)
        return cls(**values)

    @classmethod
    def read_tables(cls, data: Path) -> dict[str, Self]:
        """The settings of a file with a table for each, by name, in its order; {} where there is no file.

        Raises SetupError for anything else in it.
        """
        path = data / cls.FILE
        if not path.exists():
            return {}
        tables = _read_toml(path)
        if not all(isinstance(table, dict) for table in tables.values()):
            raise SetupError("{path} has a table for each: [name]", path=path)
        return {name: cls._of_table(table, path) for name, table in tables.items()}

    @classmethod
    def write_tables(cls, data: Path, tables: Mapping[str, Self]) -> None:
        """Keep a file with a table for each, whole or not at all. Raises SetupError where it cannot be written."""
        text = "\n".join(f"[{_toml(name)}]\n{table.text()}" for name, table in tables.items())
        _write_file(data / cls.FILE, text)


@contextmanager
def settings_lock(data: Path) -> Iterator[None]:
    """Lock the settings of a data directory from reading until they are written, so that no change is lost.

    One change at a time, of all threads and processes. Raises SetupError where the directory cannot be read.
    """
    try:
        folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        # Nothing to lock; the error of reading the settings then has the better words.
        yield
        return
    except OSError as error:
        raise SetupError("{path} cannot be read: {reason}", path=data, reason=error.strerror) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SetupError("{path} does not exist: nothing was made here with `init` yet", path=path) from None
    except (OSError, ValueError, RecursionError) as error:
        raise SetupError("{path} cannot be read: {reason}", path=path, reason=error) from None


def _write_file(path: Path, text: str) -> None:
    with setup_errors("{path} cannot be written: {reason}", path=path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())


def _toml(value: object) -> str:
    """One value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return f'"{str(value).translate(_TOML_ESCAPES)}"'


_TYPES: Final[Mapping[str, Any]] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": (int, float),
    "tuple[str, ...]": list,
}
_PROBLEMS: Final = {
    "str": "{where} must be a text in quotes",
    "bool": "{where} must be true or false",
    "int": "{where} must be a whole number",
    "float": "{where} must be a number",
    "tuple[str, ...]": "{where} must be a list of texts",
}


def _setting(value: Any, kind: str, where: str) -> Setting:
    """Read a value by the type that its field declares. Raises SetupError."""
    if kind == "IBIForms":
        try:
            return IBIForms.parse(str(_setting(value, "str", where)))
        except ParseError as error:
            raise SetupError("{where}: {reason}", where=where, reason=error) from None
    # True and false are numbers in Python, and none in TOML.
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise SetupError(_PROBLEMS[kind], where=where)
    if isinstance(value, list):
        return tuple(str(_setting(item, "str", where)) for item in value)
    return float(value) if kind == "float" else value
