"""The data directory of an Archive: where its rooms find their files.

DIR/archive.toml  settings      DIR/catalogue.sqlite  catalogue      DIR/col  files      DIR/minting  labels
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from ibi.archive import schema
from ibi.archive.catalogue import Catalogue
from ibi.archive.holding import Holding
from ibi.archive.item_lines import timestamp_text
from ibi.archive.keeper import Keeper
from ibi.archive.storage import Storage, alone
from ibi.database import migrate, open_engine, upgrade
from ibi.errors import NotOurs, SetupError
from ibi.identifier.dates import TICKS
from ibi.identifier.forms import parse_ibi
from ibi.identifier.generator import LabelGenerator
from ibi.minting import Subsystem, WaitingRoom
from ibi.minting.subsystem import granularity_of
from ibi.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.identifier.forms import IBI, IBIForms
    from ibi.minting.machine import Machine

_CATALOGUE: Final = "catalogue.sqlite"


class ArchiveDirectory:
    """One data directory, on one machine, whose clock gives labels their dates."""

    def __init__(self, path: Path, machine: Machine) -> None:
        self._path = path
        self._machine = machine

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    def now(self) -> float:
        """What time it is on that machine, in POSIX seconds."""
        return self._machine.now() / TICKS

    def begin(self) -> None:
        """Begin a new Archive in an empty or absent directory: its waiting room comes before anything else in it.

        Raises SetupError where there is one already, or the beginning of one.
        """
        if ArchiveSettings.exists(self._path):
            raise SetupError("there is already an Archive in {path}", path=self._path)
        if (self._path / _CATALOGUE).exists():
            raise SetupError("{path} holds files of an Archive without its settings", path=self._path)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(
                "{path} cannot be made: {reason}", path=self._path, reason=error.strerror
            ) from None
        with WaitingRoom(self._path, self._machine):
            pass

    def serving(self) -> AbstractContextManager[None]:
        """Hold the right to serve: of two, the one that stops would switch the other off. Raises SetupError."""
        return alone(self._path / "serve.lock", SetupError("this Archive is being served already"))

    def labels(self, generator: LabelGenerator, granularity: str, count: int) -> Iterator[IBIForms]:
        """New labels, each when its moment has come. Raises MintingError."""
        room = WaitingRoom(self._path, self._machine, prefixes=generator.prefixes)
        with Subsystem(room, generator, granularity_of(granularity)) as subsystem:
            yield from subsystem.mint_many(count)

    def make(self, settings: ArchiveSettings) -> None:
        """Make folders and catalogue with the Archive service in it; the settings come last: now it is there.

        The service is an original that must stay (ARC-11).
        """
        try:
            self.storage().make()
        except OSError as error:
            raise SetupError(
                "{path} cannot be made: {reason}", path=error.filename, reason=error.strerror
            ) from None
        engine = open_engine(self._path / _CATALOGUE)
        migrate(engine, schema.MIGRATIONS)
        engine.dispose()
        timestamp = timestamp_text(self._machine.now() // TICKS)
        with self.catalogue() as catalogue:
            catalogue.put(Holding(forms=settings.service, timestamp=timestamp, transferable=False))
        settings.write(self._path)

    def settings(self) -> ArchiveSettings:
        """The settings. Raises SetupError."""
        return ArchiveSettings.read(self._path)

    @contextmanager
    def catalogue(self) -> Iterator[Catalogue]:
        """The catalogue, closed at the end. Raises SetupError."""
        catalogue = self.open_catalogue()
        try:
            yield catalogue
        finally:
            catalogue.close()

    def open_catalogue(self) -> Catalogue:
        """The catalogue, to be closed by whoever takes it. Raises SetupError."""
        path = self._path / _CATALOGUE
        if not path.exists():
            raise SetupError("{path} does not exist", path=path)
        engine = open_engine(path)
        upgrade(engine, schema.MIGRATIONS)
        return Catalogue(engine)

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        """The keeper of what is held here, with the right to take files in. Raises SetupError."""
        settings = self.settings()
        with self.catalogue() as catalogue:
            keeper = self.keeper_of(catalogue, settings)
            with keeper.working():
                yield keeper

    def keeper_of(self, catalogue: Catalogue, settings: ArchiveSettings) -> Keeper:
        """The keeper of a catalogue that is open already, as the settings are."""
        return Keeper(
            catalogue,
            self.storage(),
            self.minter(),
            self.now,
            settings.service,
            retired=settings.retired,
        )

    def storage(self) -> Storage:
        """The files of items."""
        return Storage(self._path)

    def own_labels(self) -> Iterator[IBI]:
        """The names in the catalogue that were given under this Archive's own name and address. Raises SetupError."""
        generator = generator_of(self.settings())
        with self.catalogue() as catalogue:
            for prefix in generator.prefixes if generator else ():
                yield from map(parse_ibi, catalogue.names_under(prefix))

    def minter(self) -> Callable[[int], Iterator[IBIForms]]:
        """What gives so many new labels of this Archive.

        Asking it for one raises NotOurs where the Archive has no name to mint under.
        """
        settings = self.settings()

        def give(count: int) -> Iterator[IBIForms]:
            generator = generator_of(settings)
            if generator is None:
                problem = "this Archive has no name to mint under: set mint_host in {path}"
                raise NotOurs(problem, path=self._path / ArchiveSettings.FILE)
            yield from self.labels(generator, settings.granularity, count)

        return give


def generator_of(settings: ArchiveSettings) -> LabelGenerator | None:
    """Under what an Archive mints, None if it does not. Raises NotOurs or ParseError for names that nobody may use."""
    if not settings.mint_host:
        return None
    return LabelGenerator(
        settings.mint_host,
        settings.mint_port,
        settings.mint_ip or None,
        settings.mint_ip_port,
        for_trying=settings.for_trying,
    )
