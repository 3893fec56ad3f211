"""The JSON interface of an Archive, put together from the tables of its rooms."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import ibi
from ibi.archive.api import (
    condition,
    copies,
    editing,
    hand_overs,
    imports,
    items,
    membership,
    openapi,
    uploads,
)
from ibi.archive.api.upload_store import Uploads
from ibi.archive.item_lines import timestamp_text
from ibi.archive.sharing import transfer
from ibi.archive.sharing.copying import Copier
from ibi.archive.sharing.giving import Giver
from ibi.archive.sharing.receiving import Receiver
from ibi.archive.website import reports
from ibi.archive.website.in_brief import InBrief
from ibi.errors import SetupError
from ibi.interface.dispatch import Api
from ibi.signing_in import people_doors
from ibi.signing_in.accounts import Accounts
from ibi.signing_in.people import People
from ibi.signing_in.roles import Role
from ibi.tokens import Scope, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.directory import ArchiveDirectory
    from ibi.interface.routes import Route
    from ibi.settings import ArchiveSettings

_FORM: Final = 2 << 20  # bytes of a form besides its files


def largest_body(settings: ArchiveSettings) -> int:
    """Bytes of the largest request that an Archive reads."""
    return settings.largest_upload + _FORM


def upload_store(directory: ArchiveDirectory, settings: ArchiveSettings) -> Uploads:
    """The uploads of an Archive that are under way."""
    return Uploads(directory.path / "uploads", time.time, settings.largest_upload)


def moment() -> str:
    """Now, as accounts and tokens tell when they were made."""
    return timestamp_text(time.time())


def archive_api(
    directory: ArchiveDirectory,
    settings: ArchiveSettings,
    catalogue: Catalogue,
    more: Iterable[Route] = (),
) -> tuple[Api, Receiver]:
    """What answers below /-/api/, and what fetches originals that come in, to be closed; `more`: further tables."""
    keeper = directory.keeper_of(catalogue, settings)
    with suppress(SetupError), keeper.working():  # puts right what a kill has interrupted
        pass
    under_way, data = upload_store(directory, settings), directory.path
    giver = Giver(keeper, data, f"http://{settings.address}")
    receiver = Receiver(keeper, data, settings.largest_upload)
    copier = Copier(keeper, settings.resolver, settings.largest_upload)
    people, tokens = People(Accounts(data), tuple(Role), moment), Tokens(data)
    table = (
        *items.routes(catalogue, time.time),
        *editing.routes(keeper, under_way),
        *uploads.routes(under_way),
        *reports.routes(catalogue),
        *InBrief(settings, catalogue, f"http://{settings.address}", time.time).routes(),
        *transfer.routes(giver, receiver),
        *imports.routes(imports.Imports(keeper, under_way)),
        *copies.routes(copies.Copies(copier), time.time),
        *hand_overs.routes(hand_overs.HandOvers(giver, data)),
        *membership.routes(data, catalogue),
        *condition.routes(data, catalogue),
        *people_doors.routes(people, tokens, moment, tuple(Scope)),
        *more,
    )
    api = Api(openapi.routes(table, ibi.__version__), tokens, largest_body(settings), uploads.TUNNEL)
    return api, receiver
