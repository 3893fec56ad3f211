"""What the subcommands of `ibi archive` share: the data directory, its items, and the name of the user."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

from ibi.errors import NotHeld
from ibi.identifier.forms import parse_name

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue


def directory(args: argparse.Namespace) -> DataDirectory:
    """Return the data directory that the command line names."""
    return directory_at(args.data)


def directory_at(data: Path) -> DataDirectory:
    """Return a data directory, on this machine and its clock."""
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.minting.machine import this_machine

    return DataDirectory(data, this_machine())


def held(catalogue: Catalogue, text: str) -> Holding:
    """Look up the item of this name. Raises ParseError, NotHeld."""
    name = parse_name(text)
    holding = catalogue.holding(name)
    if holding is None:
        raise NotHeld("{name} is not held here", name=name)
    return holding


def user_name() -> str:
    """Return the account on this machine, for the history of items."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "cli"
