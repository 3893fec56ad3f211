"""The data directory of an Archive: its layout, and how it is created and opened.

DIR/archive.toml  settings      DIR/catalogue.sqlite  catalogue      DIR/col  files      DIR/minting  labels

With the setting `store`, the catalogue is in a database of PostgreSQL, and DIR/catalogue.sqlite does not exist; the
other settings are there, too (`postgresql.nodes`).
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.model.answer import ArchiveIdentity, check_answers
from ibi.archive.model.item import Holding, MetadataValue
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.store import schema
from ibi.archive.store.files import FolderFiles, exclusive_lock
from ibi.archive.store.item_store import ItemStore
from ibi.archive.store.postgresql import nodes
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.archive.store.tables.consistency import copy_database
from ibi.errors import MintingNotAllowed, ParseError, SetupError
from ibi.identifier.dates import TICKS, granularity_of
from ibi.identifier.forms import parse_ibi
from ibi.identifier.generator import LabelGenerator
from ibi.minting import Subsystem, WaitingRoom
from ibi.minting.state import FOLDER
from ibi.minting.state_row import StateRow
from ibi.protocol.relation import Relation
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.database import has_version, is_url, migrate, open_engine, place, upgrade
from ibi.runtime.durable_files import setup_errors
from ibi.runtime.settings import ArchiveSettings
from ibi.runtime.settings.institution import Institution
from ibi.runtime.shared.store import store_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Engine

    from ibi.archive.store.file_store import FileStore
    from ibi.identifier.forms import IBI, IBIForms
    from ibi.minting.machine import Machine

_CATALOGUE: Final = "catalogue.sqlite"


class DataDirectory:
    """One data directory on one machine; the clock of the machine gives labels their dates."""

    def __init__(self, path: Path, machine: Machine) -> None:
        self.path = path
        self.machine = machine

    def now(self) -> float:
        """Return the time of the machine, in POSIX seconds."""
        return self.machine.now() / TICKS

    def reserve(self) -> None:
        """Reserve an empty or absent directory for a new Archive, by creating its waiting room.

        Raises SetupError if the directory holds a complete or an incomplete Archive.
        """
        self.check_new()
        with setup_errors("{path} cannot be made: {reason}", path=self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        # The waiting room refuses a directory with other files in it, so it is created first (decision 0009).
        with WaitingRoom(self.path, self.machine):
            pass

    def check_new(self) -> None:
        """Raise SetupError if the directory holds a complete or an incomplete Archive."""
        if (self.path / ArchiveSettings.FILE).exists():
            raise SetupError("there is already an Archive in {path}", path=self.path)
        if (self.path / _CATALOGUE).exists():
            raise SetupError("{path} holds files of an Archive without its settings", path=self.path)

    def serve_lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the process that serves this Archive. Raises SetupError if it is held already."""
        # If two processes served it, the first to stop would have the Archive excluded while the other runs.
        return exclusive_lock(self.path / "serve.lock", SetupError("this Archive is being served already"))

    def waiting_room(self, prefixes: Sequence[str]) -> WaitingRoom:
        """Return the waiting room, which all nodes share that have this store. Raises SetupError."""
        return WaitingRoom(self.path, self.machine, prefixes=prefixes, state=minting_row(self.path))

    def mint_labels(self, generator: LabelGenerator, granularity: str, count: int) -> Iterator[IBIForms]:
        """Mint `count` labels, each when its moment has come. Raises MintingError."""
        waiting_room = self.waiting_room(generator.prefixes)
        with Subsystem(waiting_room, generator, granularity_of(granularity)) as subsystem:
            yield from subsystem.mint_many(count)

    def create(self, settings: ArchiveSettings) -> None:
        """Create the folders, the catalogue with the item of the Archive service, and at last the settings.

        The service is an original that must stay (ARC-11: the service item). The settings come last because they make
        the Archive: an interrupted creation is never mistaken for a complete Archive.
        """
        with setup_errors("{path} cannot be made: {reason}", under=self.path):
            file_store_of(self.path, settings).create_folders()
        engine = open_engine(settings.store or self.path / _CATALOGUE)
        if settings.store:
            nodes.check_usable(engine)
            if has_version(engine, schema.MIGRATIONS):
                raise _taken(engine)
        migrate(engine, schema.MIGRATIONS)
        if settings.store:
            self._begin_row(StateRow(engine, has_items), settings)
        timestamp = timestamp_text(self.machine.now() // TICKS)
        metadata = _described(settings.address)
        service = Holding(forms=settings.service, timestamp=timestamp, transferable=False, metadata=metadata)
        with closing(Catalogue(engine)) as catalogue, catalogue.writing() as writer:
            if writer.last_number():
                raise _taken(engine)  # by another Archive that is being made at this moment
            writer.add(service)
        if settings.store:
            nodes.found(self.path, settings)
        else:
            settings.write(self.path)

    def _begin_row(self, row: StateRow, settings: ArchiveSettings) -> None:
        """Begin to mint from the row of a new store, and never again from the files of this directory."""
        generator = label_generator(settings)
        prefixes = generator.prefixes if generator else ()
        with WaitingRoom(self.path, self.machine, prefixes=prefixes, state=row):
            # Without its state, but with its replica, this folder counts as lost, whatever becomes of the settings.
            state = self.path / FOLDER / "state"
            with setup_errors("{path} cannot be written: {reason}", path=state):
                state.unlink(missing_ok=True)

    def settings(self) -> ArchiveSettings:
        """Read the settings. Raises SetupError."""
        return ArchiveSettings.read(self.path)

    def catalogue(self) -> AbstractContextManager[Catalogue]:
        """Open the catalogue, and close it at the end. Raises SetupError."""
        return closing(self.open_catalogue())

    def open_catalogue(self) -> Catalogue:
        """Open the catalogue, after any outstanding migrations; the caller closes it. Raises SetupError."""
        store = catalogue_store(self.path)
        if isinstance(store, Path) and not store.exists():
            raise SetupError("{path} does not exist", path=store)
        engine = open_engine(store)
        upgrade(engine, schema.MIGRATIONS)
        catalogue = Catalogue(engine)
        if is_url(store):
            _check_owner(catalogue, self.settings().service)
        return catalogue

    def copy_catalogue(self, target: Path) -> None:
        """Copy the catalogue to a new SQLite file, as it is at one moment; others may write. Raises SetupError."""
        store = catalogue_store(self.path)
        if isinstance(store, Path):
            copy_database(store, target)
            return
        from ibi.archive.store.postgresql.copying import copy_rows

        rows = target.with_name(f"{target.name}.rows")
        try:
            engine = open_engine(rows)
            migrate(engine, schema.MIGRATIONS)
            with self.catalogue() as catalogue:
                copy_rows(catalogue.engine, engine)
            engine.dispose()
            copy_database(rows, target)
        finally:
            with setup_errors("{path} cannot be written: {reason}", path=rows):
                rows.unlink(missing_ok=True)

    @contextmanager
    def item_store(self) -> Iterator[ItemStore]:
        """Open the item store, with the right to stage files. Raises SetupError."""
        settings = self.settings()
        with self.catalogue() as catalogue:
            item_store = self.item_store_over(catalogue, settings)
            with item_store.staging_session():
                if self.settings().files != settings.files:
                    raise SetupError("the files of this Archive were moved meanwhile; try again")
                yield item_store

    def item_store_over(self, catalogue: Catalogue, settings: ArchiveSettings) -> ItemStore:
        """Return an item store over a catalogue and settings that are open already."""
        return ItemStore(
            catalogue,
            self.file_store(),
            self.minter(),
            self.now,
            settings.service,
            partial(check_answers, identity=identity_of(settings), filtered=settings.filter_answers),
            retired=settings.retired,
            institution=lambda: Institution.of(self.path).names,
        )

    def file_store(self) -> FileStore:
        """Return the store of the items' files. Raises SetupError."""
        return file_store_of(self.path, self.settings())

    def own_labels(self) -> Iterator[IBI]:
        """Yield the names in the catalogue that have this Archive's own prefixes. Raises SetupError."""
        generator = label_generator(self.settings())
        with self.catalogue() as catalogue:
            for prefix in generator.prefixes if generator else ():
                yield from map(parse_ibi, catalogue.names_under(prefix))

    def minter(self) -> Callable[[int], Iterator[IBIForms]]:
        """Return a function that takes a count and mints as many labels of this Archive.

        Its first label raises MintingNotAllowed if the settings name no host to mint under.
        """
        settings = self.settings()

        def give(count: int) -> Iterator[IBIForms]:
            generator = label_generator(settings)
            if generator is None:
                raise no_name(self.path)
            yield from self.mint_labels(generator, settings.granularity, count)

        return give


def file_store_of(data: Path, settings: ArchiveSettings) -> FileStore:
    """Return the store of the items' files that the settings name. Raises SetupError."""
    if not settings.files:
        return FolderFiles(data, settings.files_group)
    from ibi.archive.store.s3_files import S3Files

    return S3Files(
        data,
        settings.files,
        str(settings.service.main),
        redirect=settings.files_redirect,
        store=settings.store,
    )


def catalogue_store(data: Path) -> Path | str:
    """Return where the catalogue of a data directory is: a SQLite file, or the URL of a database. Raises SetupError."""
    store = store_url(data) or (ArchiveSettings.read(data).store if ArchiveSettings.exists(data) else "")
    return store or data / _CATALOGUE


def minting_row(data: Path) -> StateRow | None:
    """Return the row that the nodes of an Archive mint from; None if it mints from files. Raises SetupError."""
    store = catalogue_store(data)
    return StateRow(open_engine(store), has_items) if is_url(store) else None


def has_items(connection: Connection) -> bool:
    """Whether a catalogue has any item, and so must have a minting state."""
    return connection.exec_driver_sql("SELECT 1 FROM item LIMIT 1").first() is not None


def _check_owner(catalogue: Catalogue, service: IBIForms) -> None:
    """Refuse the catalogue of another Archive: it has no original of our service item. Raises SetupError.

    Several nodes of one Archive have the same service.
    """
    held = catalogue.holding(service.main)
    catalogue.close()  # the caller may fork before it uses the catalogue
    if held is None or held.state is not ItemState.ORIGINAL:
        raise SetupError(
            "{path} holds another Archive than {ibi}", path=place(catalogue.engine), ibi=service.main
        )


def _taken(engine: Engine) -> SetupError:
    """Return the error for a new Archive whose database is not empty."""
    return SetupError(
        "{path} holds an Archive already: a new one needs an empty database", path=place(engine)
    )


def identity_of(settings: ArchiveSettings) -> ArchiveIdentity:
    """Return the facts of an Archive that every answer needs. Raises SetupError for invalid relations."""
    relations = None
    if settings.relations is not None:
        try:
            relations = tuple(Relation.from_qualifier(qualifier) for qualifier in settings.relations)
        except ParseError as error:
            raise SetupError("{text} is not a relation: {reason}", text=error.text, reason=error) from None
        if Relation() not in relations:
            raise SetupError('the relations must contain "", which is the item itself')
    return ArchiveIdentity(
        settings.address, settings.service, settings.platform_software, relations, root=settings.root
    )


def no_name(data: Path) -> MintingNotAllowed:
    """Return the error of an Archive whose settings name no host to mint under."""
    problem = "this Archive has no name to mint under: set mint_host in {path}"
    return MintingNotAllowed(problem, path=data / ArchiveSettings.FILE)


def label_generator(settings: ArchiveSettings) -> LabelGenerator | None:
    """Return the generator of labels that the settings describe; None if the Archive mints no labels.

    Raises NotOurs or ParseError for names under which no Archive may mint.
    """
    if not settings.mint_host:
        return None
    return LabelGenerator(
        settings.mint_host,
        settings.mint_port,
        settings.mint_ip or None,
        settings.mint_ip_port,
        for_trying=settings.for_trying,
    )


def _described(address: str) -> dict[str, tuple[MetadataValue, ...]]:
    """Return the metadata of the Archive service at an address: titles in the languages of the program."""
    titles = (("en", "Archive service of"), ("pt-BR", "Serviço de Arquivo de"))
    return {
        "title": tuple(MetadataValue(f"{title} {address}", language) for language, title in titles),
        "type": (MetadataValue("Service"),),
    }
