"""Files of settings: TOML tables of texts, numbers and lists, read by the types of their fields.

Comments, order and blank lines that an operator has written stay (tomlkit). The environment overrides the
file: `IBI_RESOLVER_REQUEST_RATE=50` overrides `request_rate` in resolver.toml. A value that the environment
gives is never written into the file.

In a data directory with a shared store (`runtime.shared`), settings that are `SHARED` are a document there, and the
file of the main settings has `store` alone.
"""

from __future__ import annotations

import fcntl
import os
import tomllib
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

from ibi.errors import ParseError, SetupError
from ibi.identifier.forms import IBIForms
from ibi.runtime.durable_files import replace_file, setup_errors
from ibi.runtime.shared.documents import documents_of
from ibi.runtime.shared.store import STORE, STORE_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from dataclasses import Field
    from pathlib import Path

    from tomlkit import TOMLDocument
    from tomlkit.items import Table

    from ibi.runtime.settings.rules import Rule
    from ibi.runtime.shared.documents import Documents

Setting = str | bool | int | float | tuple[str, ...] | IBIForms | None
"""The types of a setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A frozen set of settings with its file in the data directory."""

    FILE: ClassVar[str]
    VARIABLES: ClassVar[str] = ""
    """What the names of its environment variables begin with; "" if it has none."""
    RULES: ClassVar[Mapping[str, Rule]] = {}
    """The rules for values that are read, by the names of the settings."""
    SHARED: ClassVar[bool] = False
    """Whether all nodes of a program have them alike."""
    SECRET: ClassVar[frozenset[str]] = frozenset()
    """The settings that no page, answer or command shows."""

    @classmethod
    def read(cls, data: Path) -> Self:
        """Read the settings of a data directory and of the environment.

        Raises SetupError if there are none, or faulty ones.
        """
        path, documents = data / cls.FILE, cls._documents(data)
        table = _read_toml(path) if documents is None else _shared_table(path, documents)
        return cls._of_table(table, path, cls._variables())

    @classmethod
    def of_text(cls, text: str, path: Path) -> Self:
        """Read the settings in the document that a file stands for, and of the environment. Raises SetupError."""
        return cls._of_table(_parsed(text, path).unwrap(), path, cls._variables())

    @classmethod
    def exists(cls, data: Path) -> bool:
        """Whether the data directory, or its shared store, has such settings. Raises SetupError."""
        documents = cls._documents(data)
        return (data / cls.FILE).exists() if documents is None else documents.read(cls.FILE) is not None

    @classmethod
    def _documents(cls, data: Path) -> Documents | None:
        return documents_of(data) if cls.SHARED else None

    def write(self, data: Path) -> None:
        """Write the settings, all or none.

        Raises SetupError if the directory cannot be written, or if the environment overrides one of them.
        """
        self.check_environment()
        documents = self._documents(data)
        if documents is None:
            _write_file(data / self.FILE, self._document(data))
            return
        with documents.changing(self.FILE) as document:
            document.write(self._document(data).as_string())

    def written(self, data: Path) -> str:
        """Return the text that `write` would write. Raises SetupError for a file that cannot be read."""
        return self._document(data).as_string()

    def _document(self, data: Path) -> TOMLDocument:
        path, documents = data / self.FILE, self._documents(data)
        if documents is None:
            document, is_new = _read_document(path)
        else:
            text = documents.read(self.FILE)
            document, is_new = _parsed(text or "", path), text is None
        own = {} if documents is None else {STORE: ""}  # it is said in the file of each node
        self.put_into(document, whole=is_new, without=self._variables() | own)
        return document

    def shared_text(self) -> str:
        """Return the settings as the document of a new shared store; `store` is said in the file of each node."""
        import tomlkit

        document = tomlkit.document()
        self.put_into(document, whole=True, without=self._variables() | {STORE: ""})
        return document.as_string()

    def check_environment(self) -> None:
        """Raise SetupError if the environment gives one of these settings another value."""
        kinds = {field.name: _kind(field) for field in fields(self)}
        for name, text in self._variables().items():
            if getattr(self, name) != _setting(text, kinds[name], self._variable(name), typed=True):
                problem = "{name} is decided by {variable} in the environment"
                raise SetupError(problem, name=name, variable=self._variable(name))

    def with_environment(self) -> Self:
        """Return new settings as they will be read once they are written: the environment goes before defaults.

        Raises SetupError for faulty values, and if the environment gives another value to a setting that has
        none of its defaults here.
        """
        kinds = {field.name: _kind(field) for field in fields(self)}
        defaults = {field.name for field in fields(self) if getattr(self, field.name) == field.default}
        values: dict[str, Any] = {}
        for name, text in self._variables().items():
            value = _setting(text, kinds[name], self._variable(name), typed=True)
            self._judge(name, value, self._variable(name))
            values |= {name: value} if name in defaults else {}
        settings = replace(self, **values)
        settings.check_environment()
        return settings

    @classmethod
    def read_tables(cls, data: Path) -> dict[str, Self]:
        """Read a file with a table for each settings object, by name, in its order; {} if there is no file.

        Raises SetupError for anything else in it.
        """
        path, documents = data / cls.FILE, cls._documents(data)
        if documents is None:
            tables = _read_toml(path) if path.exists() else {}
        else:
            tables = _parsed(documents.read(cls.FILE) or "", path).unwrap()
        if not all(isinstance(table, dict) for table in tables.values()):
            raise SetupError("{path} has a table for each: [name]", path=path)
        return {name: cls._of_table(table, path) for name, table in tables.items()}

    @classmethod
    def write_tables(cls, data: Path, tables: Mapping[str, Self]) -> None:
        """Write a file with a table for each, all or none. Raises SetupError if it cannot be written."""
        path, documents = data / cls.FILE, cls._documents(data)
        if documents is None:
            document, _ = _read_document(path)
            cls._put_tables(document, tables)
            _write_file(path, document)
            return
        with documents.changing(cls.FILE) as shared:
            document = _parsed(shared.text or "", path)
            cls._put_tables(document, tables)
            shared.write(document.as_string())

    @classmethod
    def _put_tables(cls, document: TOMLDocument, tables: Mapping[str, Self]) -> None:
        """Change the tables of a document that differ, with their comments."""
        import tomlkit

        for name in document.keys() - tables.keys():
            del document[name]
        for name, settings in tables.items():
            is_new = name not in document
            if is_new:
                document[name] = tomlkit.table()
            settings.put_into(cast("Table", document[name]), whole=is_new)

    @classmethod
    def _variable(cls, name: str) -> str:
        return f"{cls.VARIABLES}{name.upper()}"

    @classmethod
    def _variables(cls) -> dict[str, str]:
        """Return the values in the environment, by setting. Raises SetupError for an unknown setting."""
        if not cls.VARIABLES:
            return {}
        found = {name: text for name, text in os.environ.items() if name.startswith(cls.VARIABLES)}
        known = {cls._variable(field.name): field.name for field in fields(cls)}
        odd = sorted(set(found) - set(known))
        if odd:
            name = odd[0].removeprefix(cls.VARIABLES).lower()
            raise SetupError("{path}: there is no setting {name}", path=odd[0], name=name)
        return {known[name]: text for name, text in found.items()}

    @classmethod
    def _of_table(cls, table: Mapping[str, Any], path: Path, variables: Mapping[str, str] = {}) -> Self:
        odd = sorted(set(table) - {field.name for field in fields(cls)})
        if odd:
            raise SetupError("{path}: there is no setting {name}", path=path, name=odd[0])
        values: dict[str, Any] = {}
        for field in fields(cls):
            name = field.name
            if name in variables:
                values[name] = _setting(variables[name], _kind(field), cls._variable(name), typed=True)
                cls._judge(name, values[name], cls._variable(name))
            elif name in table:
                values[name] = _setting(table[name], _kind(field), f"{path}: {name}")
                cls._judge(name, values[name], path)
            elif field.default is MISSING:
                raise SetupError("{path}: the setting {name} is missing", path=path, name=name)
        try:
            return cls(**values)
        except SetupError as error:  # what its constructor checks: values that depend on each other
            raise SetupError("{where}: {reason}", where=path, reason=error) from None

    @classmethod
    def _judge(cls, name: str, value: Setting, where: object) -> None:
        """Judge a value by its rule. Raises SetupError, which says where it stands."""
        rule = cls.RULES.get(name)
        try:
            if rule is not None:
                rule(name, value)
        except (ParseError, SetupError) as error:
            raise SetupError("{where}: {reason}", where=where, reason=error) from None

    def put_into(self, table: TOMLDocument | Table, *, whole: bool, without: Mapping[str, str] = {}) -> None:
        """Change the values of a tomlkit table that differ; add default values only to a `whole` one."""
        written = table.unwrap()
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in without:
                continue
            if value is None:
                table.pop(name, None)
            elif name in table:
                if not _says(written[name], value, _kind(field)):
                    _replace(table, name, value)
            elif whole or value != field.default:
                table[name] = _plain(value)


@contextmanager
def settings_lock(data: Path) -> Iterator[None]:
    """Lock the settings of a data directory from reading until they are written, so that no change is lost.

    One change at a time, of all threads and processes. Raises SetupError where the directory cannot be read.
    """
    try:
        folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        # Nothing to lock: reading the settings then raises the clearer error.
        yield
        return
    except OSError as error:
        raise SetupError("{path} cannot be read: {reason}", path=data, reason=error.strerror) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        documents = documents_of(data)
        if documents is None:
            yield
            return
        # Under a name that no document has: inside, the document itself is locked once more while it is written.
        with documents.changing("settings"):
            documents.refresh()
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


def _shared_table(path: Path, documents: Documents) -> dict[str, Any]:
    """Return the settings of a shared store, and `store` of the node's own file, if this is that file."""
    # A file of other settings is from before there was a store.
    own = _read_toml(path) if path.name in STORE_FILES and path.exists() else {}
    odd = sorted(own.keys() - {STORE})
    if odd:
        problem = (
            "{path}: beside `store`, all settings are in the store; take {name} out, and change it by `set`"
        )
        raise SetupError(problem, path=path, name=odd[0])
    text = documents.read(path.name)
    if text is None:
        raise SetupError(
            "the store that {path} names holds nothing of ours: was it made with `init`?", path=path
        )
    try:
        return tomllib.loads(text) | own
    except (ValueError, RecursionError) as error:
        raise SetupError("{path} cannot be read: {reason}", path=path, reason=error) from None


def _read_document(path: Path) -> tuple[TOMLDocument, bool]:
    """Read a file with its comments and blank lines; an empty document, and True, if there is no file."""
    try:
        return _parsed(path.read_text(encoding="utf-8"), path), False
    except (FileNotFoundError, NotADirectoryError):
        return _parsed("", path), True
    except (OSError, ValueError) as error:
        raise SetupError("{path} cannot be read: {reason}", path=path, reason=error) from None


def _parsed(text: str, path: Path) -> TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text)
    except (ValueError, RecursionError, TOMLKitError) as error:
        raise SetupError("{path} cannot be read: {reason}", path=path, reason=error) from None


def _write_file(path: Path, document: TOMLDocument) -> None:
    with setup_errors("{path} cannot be written: {reason}", path=path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, document.as_string().encode())


def _plain(value: Setting) -> Any:
    """Return a value as TOML writes it."""
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, IBIForms) else value


def _replace(table: TOMLDocument | Table, name: str, value: Setting) -> None:
    """Put a value into the place of another one; the elements of a list that stay keep their comments."""
    from tomlkit.items import Array

    array = table[name]
    if isinstance(value, tuple) and isinstance(array, Array):
        for text in [each for each in array if each not in value]:
            array.remove(text)
        for text in value:
            if text not in array:
                array.append(text)
        if array.unwrap() == list(value):
            return
    table[name] = _plain(value)


def _says(written: Any, value: Setting, kind: str) -> bool:
    """Whether a value in a file equals this one already, in any spelling."""
    try:
        return _setting(written, kind, "") == value
    except SetupError:
        return False


def _kind(field: Field[Any]) -> str:
    return str(field.type).removesuffix(" | None")


_TYPES: Final[Mapping[str, Any]] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": (int, float),
    "tuple[str, ...]": list,
}
_TYPED: Final[Mapping[str, Callable[[str], Any]]] = {
    "bool": {"true": True, "false": False}.__getitem__,
    "int": int,
    "float": float,
    "tuple[str, ...]": lambda text: [each.strip() for each in text.split(",") if each.strip()],
}
"""How the text of an environment variable is read, by type; without an entry, it stays a text."""
_PROBLEMS: Final = {
    "str": "{where} must be a text in quotes",
    "bool": "{where} must be true or false",
    "int": "{where} must be a whole number",
    "float": "{where} must be a number",
    "tuple[str, ...]": "{where} must be a list of texts",
}


def _setting(value: Any, kind: str, where: str, *, typed: bool = False) -> Setting:
    """Read a value by the type that its field declares; `typed`: from the environment. Raises SetupError."""
    if kind == "IBIForms":
        try:
            return IBIForms.parse(str(_setting(value, "str", where)))
        except ParseError as error:
            raise SetupError("{where}: {reason}", where=where, reason=error) from None
    if typed and kind in _TYPED:
        with suppress(ValueError, KeyError):  # it then stays a text, and is refused as one
            value = _TYPED[kind](value)
    # True and false are numbers in Python, and none in TOML.
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise SetupError(_PROBLEMS[kind], where=where)
    if isinstance(value, list):
        if not all(isinstance(each, str) for each in value):
            raise SetupError(_PROBLEMS[kind], where=where)
        return tuple(value)
    return float(value) if kind == "float" else value
