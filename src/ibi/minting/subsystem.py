"""A subsystem that mints: its waiting room and its label generator, open (GEN-04, GEN-08)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Self

from ibi.errors import MintingError
from ibi.identifier.dates import date_text, parse_granularity
from ibi.identifier.distributor import coarsest_for
from ibi.identifier.forms import IBIForms
from ibi.identifier.generator import LabelGenerator
from ibi.identifier.ibip import IBIp
from ibi.identifier.repository import UniformRepositoryName
from ibi.minting.machine import this_machine
from ibi.minting.waiting_room import WaitingRoom

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUTOMATIC = "auto"
"""The granularity that follows the demand: the coarsest at which all labels asked for are due within a second."""


_LONGEST_LIST = 10_000


def granularity_of(text: str) -> int | None:
    """A granularity in ticks as `parse_granularity` reads it; None for the automatic one. Raises ParseError."""
    return None if text == AUTOMATIC else parse_granularity(text)


class Label(NamedTuple):
    """One new label: its date in ticks, and the texts of its forms; `ibip` is None without an IP address."""

    date: int
    rep: str
    ibip: str | None

    @property
    def datetime(self) -> str:
        """The date for people and JSON: RFC 3339, UTC."""
        return date_text(self.date)

    @property
    def forms(self) -> IBIForms:
        """The label as values of the library."""
        ibip = None if self.ibip is None else IBIp.known(self.ibip)
        return IBIForms(UniformRepositoryName.known(self.rep), ibip)


class Subsystem:
    """One identification subsystem, ready to mint.

        with Subsystem.open("/var/lib/labels", host="archive.example.org", ip=ADDRESS) as subsystem:
            forms = subsystem.mint()

    Threads may share it, and processes may open the same directory.
    """

    def __init__(self, room: WaitingRoom, generator: LabelGenerator, granularity: int | None) -> None:
        self.room = room
        self.generator = generator
        self.granularity = granularity

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        host: str,
        port: int = 80,
        ip: str | None = None,
        ip_port: int = 800,
        granularity: str = "1",
        for_trying: bool = False,
    ) -> Self:
        """Open the data directory `path`; an empty or absent one is a start.

        `granularity` in seconds ("60", "1", "0.1", ... or "auto"). Raises ParseError and NotOurs for names that
        labels are not made under, SetupError and LostState for directories they are not made in.
        """
        generator = LabelGenerator(host, port, ip, ip_port, for_trying=for_trying)
        room = WaitingRoom(path, this_machine(), prefixes=generator.prefixes)
        return cls(room, generator, granularity_of(granularity))

    def __enter__(self) -> Self:
        self.room.__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        self.room.__exit__(*problem)

    def mint(self) -> IBIForms:
        """A new label in all its forms; returns when its moment has come.

        Raises ClockError, LostState or SetupError where no label can be given.
        """
        return self.generator.label(self.room.draw(self._step(1)))

    def mint_many(self, count: int) -> Iterator[IBIForms]:
        """So many new labels, each when its moment has come; raises as `mint`."""
        process = os.getpid()
        for chunk in self.chunks(count):
            for label in chunk:
                _only_for(process)
                yield label.forms

    def chunks(self, count: int) -> Iterator[list[Label]]:
        """So many new labels, in lists of those whose moments have come; raises as `mint`.

        The dates of a list are durable long before it is given: one sync serves all that fit into a fifth of a second.
        """
        step = self._step(count)
        process = os.getpid()
        while count > 0:
            batch = self.room.reserve(step, count)
            count -= len(batch)
            while len(batch):
                _only_for(process)
                due, batch = batch.split(min(batch.due(self.room.now()), _LONGEST_LIST))
                if len(due):
                    spelled = zip(due, self.generator.spell(due), strict=True)
                    yield [Label(date, *forms) for date, forms in spelled]
                else:
                    self.room.wait_until(batch.tail.start)

    def _step(self, count: int) -> int:
        return self.granularity or coarsest_for(count)


def _only_for(process: int) -> None:
    """Raise MintingError in a child that was forked between two labels: the parent goes on with the same ones."""
    if os.getpid() != process:
        raise MintingError(
            "labels that were asked for before a fork belong to the parent; ask for others here"
        )
