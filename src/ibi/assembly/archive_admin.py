"""The administration of an Archive, put together from the pages of its rooms."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ibi.archive.administration import deciding, importing, items, overview, sharing
from ibi.archive.administration.calling import Calling, judge
from ibi.archive.api.copies import Copies
from ibi.archive.api.hand_overs import HandOvers
from ibi.archive.api.imports import Imports
from ibi.archive.sharing.copying import Copier
from ibi.archive.sharing.giving import Giver
from ibi.assembly.archive_api import largest_body, moment, upload_store
from ibi.signing_in.account_pages import AccountForm, AccountsForm
from ibi.signing_in.door import Door
from ibi.signing_in.frames import FrameRenderer
from ibi.signing_in.office import Manners, Office
from ibi.signing_in.people import People
from ibi.signing_in.roles import Role
from ibi.web import administration_pages
from ibi.web.rendering import page_language

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.directory import ArchiveDirectory
    from ibi.settings import ArchiveSettings
    from ibi.signing_in.visit import Screen


def administration(directory: ArchiveDirectory, settings: ArchiveSettings, catalogue: Catalogue) -> Office:
    """What answers at /-/admin. To be closed."""
    door = Door(directory.path, str(settings.service.main), time.time)
    renderer = FrameRenderer(administration_pages.render, page_language)
    keeper = directory.keeper_of(catalogue, settings)
    calling = Calling(settings, keeper, largest_body(settings))
    manners = Manners(calling.caller, judge, settings.address, calling.take)
    return Office(door, _screens(directory, settings, catalogue, door), renderer, manners)


def _screens(
    directory: ArchiveDirectory, settings: ArchiveSettings, catalogue: Catalogue, door: Door
) -> Mapping[str, Screen]:
    """The pages, by the words of their addresses."""
    data, keeper = directory.path, directory.keeper_of(catalogue, settings)
    uploads, largest = upload_store(directory, settings), settings.largest_upload
    giver = Giver(keeper, data, f"http://{settings.address}")
    return {
        "": overview.Overview(data, catalogue),
        "items": items.Items(catalogue, settings),
        "deposit": items.DepositForm(keeper, uploads, largest),
        "edit": items.EditForm(keeper),
        "files": items.FilesForm(keeper, largest),
        "delete": items.DeleteForm(keeper),
        "copy": sharing.CopyForm(Copies(Copier(keeper, settings.resolver, largest))),
        "transfer": sharing.TransferForm(HandOvers(giver, data)),
        "import": importing.ImportForm(Imports(keeper, uploads)),
        "membership": deciding.MembershipForm(data, catalogue),
        "statistics": overview.StatisticsScreen(catalogue),
        "audit": overview.AuditScreen(data, catalogue, settings.audit_days),
        "tokens": deciding.TokensForm(data, moment),
        "accounts": AccountsForm(People(door.accounts, tuple(Role), moment, door.sessions.end_all)),
        "account": AccountForm(door),
    }
