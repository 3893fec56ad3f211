"""The nodes of an Archive: what they share besides the catalogue is in the same database (decision 0057).

A data directory of a node has `archive.toml` with `store` alone, the search index, and what is under way. Settings,
accounts, tokens and the key of receipts are documents in the store (`ibi.runtime.shared`); the one of the settings
makes it an Archive, so it is written last and removed first.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect
from sqlalchemy.exc import DatabaseError

from ibi.archive.store import schema
from ibi.errors import SetupError
from ibi.runtime.database import check_version, has_version, migrate, place, unusable, upgrade
from ibi.runtime.durable_files import make_folder, replace_file, setup_errors
from ibi.runtime.environment import environment_store
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer
from ibi.runtime.settings.institution import Institution
from ibi.runtime.shared.documents import Documents, documents_of
from ibi.runtime.shared.store import MIGRATIONS, STORE, STORE_FILES, TABLES, SharedStore, store_url
from ibi.runtime.signing import FILE as KEY
from ibi.runtime.signing import signer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Engine

    from ibi.identifier.forms import IBI

FILES: Final = (JoinedResolver.FILE, Peer.FILE, Institution.FILE, "accounts.json", "tokens.json", KEY)
"""The files of an Archive of one machine that are documents in a store, beside its settings."""
DOCUMENTS: Final = (ArchiveSettings.FILE, *FILES, "nonce")
"""The documents of an Archive."""

_SETTINGS: Final = ArchiveSettings.FILE
_CHAINS: Final = (schema.MIGRATIONS, MIGRATIONS)


def check_usable(engine: Engine) -> None:
    """Refuse a database that holds something else than an Archive. Raises SetupError."""
    try:
        names = set(inspect(engine).get_table_names())
    except DatabaseError as error:
        raise unusable(engine, error) from None
    if "resolver_version" in names:
        raise SetupError(
            "{path} holds a resolver: an Archive needs a database of its own", path=place(engine)
        )
    if names - TABLES and "catalogue_version" not in names:
        raise SetupError("{path} holds something else: take a database of its own", path=place(engine))


def check_tables(engine: Engine) -> None:
    """Bring the tables of an Archive to this version; refuse those of a later one. Raises SetupError."""
    for migrations in _CHAINS:
        upgrade(engine, migrations)
        check_version(engine, migrations)


@contextmanager
def archive_store(url: str) -> Iterator[Documents]:
    """Open the documents in the store of an Archive, with their tables made. Raises SetupError."""
    store = SharedStore(url)
    try:
        check_usable(store.engine)
        if not has_version(store.engine, MIGRATIONS):
            migrate(store.engine, MIGRATIONS)
        upgrade(store.engine, MIGRATIONS)
        check_version(store.engine, MIGRATIONS)
        yield Documents(store)
    finally:
        store.close()


def founded(data: Path, url: str) -> ArchiveSettings | None:
    """Return the settings of the Archive in a store, whose node a data directory may be; None if it has none.

    Raises SetupError, also for a store that holds something else.
    """
    store = SharedStore(url)
    try:
        check_usable(store.engine)
        if not has_version(store.engine, MIGRATIONS):
            return None
        check_tables(store.engine)
        text = Documents(store).read(_SETTINGS)
    finally:
        store.close()
    return None if text is None else ArchiveSettings.of_text(text, data / _SETTINGS)


def found(data: Path, settings: ArchiveSettings) -> None:
    """Put the settings of a new Archive into its store, and make a data directory its first node. Raises SetupError."""
    settings.check_environment()
    with archive_store(settings.store) as documents:
        text = settings.shared_text()
        if documents.make(_SETTINGS, text) != text:
            raise SetupError(
                "another node has just made an Archive in this store; run this once more to join it"
            )
    join(data, settings.store)


def join(data: Path, url: str) -> None:
    """Make a data directory a node of the Archive in a store. Raises SetupError."""
    with setup_errors("{path} cannot be made: {reason}", path=data):
        make_folder(data)
        replace_file(data / _SETTINGS, _line(url).encode())
    signer(data)  # its key is made with the Archive, so that no node makes it while readers wait


def texts_of(data: Path) -> dict[str, str]:
    """Return the documents of an Archive by their names, from its files or its store. Raises SetupError."""
    documents = documents_of(data)
    names = (*FILES, _SETTINGS)  # the settings come last: what has them is an Archive
    if documents is not None:
        found = {name: documents.read(name) for name in names}
        return {name: text for name, text in found.items() if text is not None}
    texts = {name: _read(data / name) for name in names if (data / name).exists()}
    return texts | {_SETTINGS: _without_store(texts[_SETTINGS])}


def take_in(data: Path, url: str, texts: Mapping[str, str], kept: Path) -> None:
    """Put documents into the store that has the catalogue, and make the directory a node; its files go to `kept`.

    What was cut off can be done again. Raises SetupError.
    """
    with archive_store(url) as documents:
        for name, text in texts.items():
            with documents.changing(name) as document:
                document.write(text)
    with setup_errors("{path} cannot be written: {reason}", path=kept):
        make_folder(kept)
        replace_file(kept / _SETTINGS, _read(data / _SETTINGS).encode())
    join(data, url)
    with setup_errors("{path} cannot be written: {reason}", path=kept):
        for name in FILES:
            if (data / name).exists():
                (data / name).rename(kept / name)


def take_out(data: Path, texts: Mapping[str, str]) -> None:
    """Write documents into files of a data directory, which is no node then. Raises SetupError."""
    for name, text in texts.items():
        with setup_errors("{path} cannot be written: {reason}", path=data / name):
            replace_file(data / name, text.encode())


def end(documents: Documents) -> None:
    """Let a store be no Archive any more, so that its other nodes do not start. Raises SetupError."""
    with documents.changing(_SETTINGS) as document:
        document.remove()


def bring_in(data: Path, moment: float) -> bool:
    """Put the files of an Archive that has only its catalogue in a store into that store; False if there are none.

    An earlier version of this program shared the catalogue alone. `moment`: POSIX seconds. Raises SetupError.
    """
    url = ArchiveSettings.read(data).store
    if not url or store_url(data):
        return False
    with archive_store(url) as documents:
        if documents.read(_SETTINGS) is not None:
            problem = "{path} has settings of its own, but the store has them already: move it away, and join by `init`"
            raise SetupError(problem, path=data / _SETTINGS)
    take_in(data, url, texts_of(data), data / "lost+found" / f"{moment:.3f}")
    return True


def check_joining(settings: ArchiveSettings, service: IBI | None) -> None:
    """Refuse to join another Archive than the one of `service`, if that is given, or one with files in a folder.

    Raises SetupError.
    """
    if service is not None and not settings.service.names(service):
        raise SetupError("the store holds another Archive, whose service is {ibi}", ibi=settings.service.main)
    if not settings.files:
        raise SetupError(
            "the files of this Archive are in a folder of one machine: move them into an S3 store first, by "
            "`ibi archive move-files`"
        )


def _line(url: str) -> str:
    """Return the file of settings of a node."""
    variable = STORE_FILES[_SETTINGS]
    if environment_store(variable) == url:
        return f"# The store of this node is named by {variable} in its environment.\n"
    # A JSON text is a text of TOML, too, as the URL is made of visible ASCII.
    return f"{STORE} = {json.dumps(url)}\n"


def _without_store(text: str) -> str:
    """Return settings without the name of the store, which each node says by itself; comments stay."""
    import tomlkit

    document = tomlkit.parse(text)
    document.pop(STORE, None)
    return document.as_string()


def _read(path: Path) -> str:
    with setup_errors("{path} cannot be read: {reason}", path=path):
        return path.read_text(encoding="utf-8")
