"""Check the stored lists of accounts and tokens before they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.accounts.people import Accounts
from ibi.accounts.tokens import Tokens
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def stored_lists(folder: Path) -> Iterator[tuple[Path, Callable[[], object]]]:
    """Yield each existing list file, and a function that reads it, or raises SetupError if it is unusable."""
    for name, read in (("accounts.json", Accounts(folder).all), ("tokens.json", Tokens(folder).all)):
        if (folder / name).exists():
            yield folder / name, read


def list_faults(folder: Path) -> Iterator[SetupError]:
    """Yield the error of each unusable list: until its repair, none of its accounts or tokens is accepted."""
    for read in (Accounts(folder).all, Tokens(folder).all):  # also from a store, where there is no file
        try:
            read()
        except SetupError as error:
            yield error
