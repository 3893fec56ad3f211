"""Waiting rooms in PostgreSQL for tests of the files: a directory stands for a database, whose clock is false, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, Engine

from ibi.minting import WaitingRoom
from ibi.minting.clock import ClockLimits
from ibi.minting.machine import Machine
from ibi.minting.state_row import StateRow
from ibi.runtime.database import open_engine
from support.engines.postgresql import PostgreSQL
from support.machine import FalseMachine


class Rows:
    """The databases of one test. The clock of each runs as true time does, and is never set."""

    def __init__(self, server: PostgreSQL) -> None:
        self._server = server
        self.engines: dict[str, Engine] = {}
        self._zero: dict[str, int] = {}
        self._given: list[StateRow] = []
        self.used = False

    def close(self) -> None:
        """Close all connections, also those of processes that were killed."""
        for row in self._given:
            row.close()
        self._given.clear()
        for engine in self.engines.values():
            engine.dispose()
        self.engines.clear()

    def row(self, directory: Path | str, machine: Machine) -> StateRow:
        """The row that stands for a directory."""
        name = str(directory)
        if name not in self.engines:
            self.engines[name] = open_engine(self._server.new_database())
            self._zero[name] = machine.now() - machine.running()
        row = StateRow(self.engines[name], self._uses, lambda: (self._zero[name] + machine.running()) // 1000)
        self._given.append(row)
        return row

    def waiting_room(
        self,
        directory: Path | str,
        machine: Machine,
        limits: ClockLimits | None = None,
        prefixes: Sequence[str] = (),
    ) -> WaitingRoom:
        """What `WaitingRoom` is for files."""
        return WaitingRoom(
            directory, machine, limits or ClockLimits(), prefixes, self.row(directory, machine)
        )

    def at(self, directory: Path | str, clock: FalseMachine) -> WaitingRoom:
        """What `waiting_room_at` is for files."""
        return self.waiting_room(directory, clock.machine)

    def _uses(self, _connection: Connection) -> bool:
        return self.used
