"""The JSON interface of an Archive, put together from the tables of its rooms."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import ibi
from ibi.archive.api import editing, items, openapi, uploads
from ibi.archive.api.dispatch import Api
from ibi.archive.api.upload_store import Uploads
from ibi.archive.sharing import transfer
from ibi.archive.sharing.giving import Giver
from ibi.archive.sharing.receiving import Receiver
from ibi.archive.website import reports
from ibi.archive.website.in_brief import InBrief
from ibi.errors import SetupError
from ibi.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.api.routes import Route
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.directory import ArchiveDirectory
    from ibi.settings import ArchiveSettings

_FORM: Final = 2 << 20  # bytes of a form besides its files


def largest_body(settings: ArchiveSettings) -> int:
    """Bytes of the largest request that an Archive reads."""
    return settings.largest_upload + _FORM


def upload_store(directory: ArchiveDirectory, settings: ArchiveSettings) -> Uploads:
    """The uploads of an Archive that are under way."""
    return Uploads(directory.path / "uploads", time.time, settings.largest_upload)


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
    under_way = upload_store(directory, settings)
    giver = Giver(keeper, directory.path, f"http://{settings.address}")
    receiver = Receiver(keeper, directory.path, settings.largest_upload)
    table = (
        *items.routes(catalogue, time.time),
        *editing.routes(keeper, under_way),
        *uploads.routes(under_way),
        *reports.routes(catalogue),
        *InBrief(settings, catalogue, f"http://{settings.address}", time.time).routes(),
        *transfer.routes(giver, receiver),
        *more,
    )
    api = Api(openapi.routes(table, ibi.__version__), Tokens(directory.path), largest_body(settings))
    return api, receiver
