"""The lists of accounts and tokens that lie in a folder, to be checked before they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.accounts.people import Accounts
from ibi.accounts.tokens import Tokens
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def stored_lists(folder: Path) -> Iterator[tuple[Path, Callable[[], object]]]:
    """Yield the file of each list that there is, and what reads it, or raises SetupError where it cannot be used."""
    for name, read in (("accounts.json", Accounts(folder).all), ("tokens.json", Tokens(folder).all)):
        if (folder / name).exists():
            yield folder / name, read


def list_faults(folder: Path) -> Iterator[SetupError]:
    """Yield why each list that cannot be used cannot: until it is repaired, no account or no token is accepted."""
    for _, read in stored_lists(folder):
        try:
            read()
        except SetupError as error:
            yield error
