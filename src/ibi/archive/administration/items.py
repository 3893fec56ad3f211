"""Items in the administration: found, looked at, deposited, edited, given files, and deleted.

What is typed becomes the JSON that the interface for programs takes, and goes the same way.
"""

from __future__ import annotations

import secrets
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.administration.calling import call
from ibi.archive.administration.item_form import changes, differences, typed_values, value_of, values_of
from ibi.archive.administration.pages import DeletePage, FilesPage, FormPage, ItemPage, ItemsPage
from ibi.archive.api.deposits import Depositing
from ibi.archive.api.editing import LONGEST_REASON
from ibi.archive.api.intake import listed, offered
from ibi.archive.editing import edit, remove
from ibi.archive.ledgers import copies, history
from ibi.errors import BadItem, Conflict, NotHeld
from ibi.identifier.forms import parse_name
from ibi.identifier.peeling import peel
from ibi.protocol.vocabulary import State
from ibi.signing_in.visit import ROOT, Form, ReadOnly
from ibi.tokens import Scope

if TYPE_CHECKING:
    from ibi.archive.administration.pages import Page
    from ibi.archive.api.upload_store import Uploads
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.archive.keeper import Keeper
    from ibi.identifier.forms import Name
    from ibi.settings import ArchiveSettings
    from ibi.signing_in.visit import Visit

_PAGE: Final = 50
_LONGEST_AFTER: Final = 512
_NOT_INHERITED: Final = {
    "edition_of": ("target", "url", "date", "identifier"),
    "translation_of": ("target", "url", "language", "title", "description", "identifier"),
}
"""What an edition or a translation does not have from the item that it comes from."""


def held(catalogue: Catalogue, name: Name) -> Holding:
    """The item of a name. Raises NotHeld."""
    holding = catalogue.holding(name)
    if holding is None:
        raise NotHeld("this Archive does not hold {name}", name=name)
    return holding


class Items(ReadOnly):
    """The list of the items, one item, and the way to one by its name."""

    scope = Scope.READ

    def __init__(self, catalogue: Catalogue, settings: ArchiveSettings) -> None:
        self._catalogue = catalogue
        self._settings = settings

    def show(self, visit: Visit, typed: Form | None) -> Page:
        """A page of the list, or one item; the question alone, where what was `typed` has led to none."""
        if visit.rest:
            return self._one(held(self._catalogue, visit.name))
        if typed is not None:
            return ItemsPage((), asked=typed.one("name"))
        asked = visit.query.get("name", "").strip()
        if asked:
            return self._one(held(self._catalogue, peel(asked).ibi))
        after = visit.query.get("after", "")[:_LONGEST_AFTER]
        page = list(islice(self._catalogue.all(after), _PAGE + 1))
        more = page[_PAGE - 1].forms.main.canonical if len(page) > _PAGE else ""
        return ItemsPage(page[:_PAGE], more)

    def _one(self, holding: Holding) -> ItemPage:
        with self._catalogue.reading() as run:
            events = history.events_of(run, holding.number)
            archive = copies.original_of(run, holding.number) if holding.state is State.COPY else ""
        root = self._settings.resolver or f"http://{self._settings.address}"
        return ItemPage(holding, f"{root.rstrip('/')}/{holding.forms.main}", events, archive or "")


class DepositForm:
    """A new item: by itself, as the next edition of another, or as a translation."""

    scope = Scope.DEPOSIT
    files = True

    def __init__(self, keeper: Keeper, uploads: Uploads, largest: int) -> None:
        self._keeper = keeper
        self._depositing = Depositing(keeper, uploads)
        self._largest = largest

    def show(self, visit: Visit, typed: Form | None) -> Page:
        """The empty form, or one with what the new item has from its forerunner."""
        said = {word: typed.one(word) for word in _NOT_INHERITED} if typed else visit.query
        place = next((word for word in _NOT_INHERITED if said.get(word)), "")
        before = held(self._keeper.catalogue, parse_name(said[place])) if place else None
        if typed is not None:
            values, once = typed_values(typed), typed.one("once")
        else:
            values = values_of(before, leaving=_NOT_INHERITED[place]) if before else {}
            once = secrets.token_hex(16)
        return FormPage(values, place, before, once=once, largest=self._largest)

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Take it in, once."""
        value = value_of(form)
        value |= {word: form.one(word) for word in _NOT_INHERITED if form.one(word)}
        if not form.files and "url" not in value and "metadata" not in value:
            raise BadItem("choose a file, or say at least a title")
        holding, _new = self._depositing.take(call(visit, form.one("once")), value, form.files)
        return f"{ROOT}/items/{holding.forms.main}?done=deposited"


class EditForm:
    """The facts of an item: its description, its language, who may have it."""

    scope = Scope.EDIT
    files = False

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def show(self, visit: Visit, typed: Form | None) -> Page:
        """The form as the item is, or what was typed beside what somebody else has written meanwhile."""
        holding = held(self._keeper.catalogue, visit.name)
        if typed is None:
            return FormPage(values_of(holding), "edit", holding, holding.timestamp)
        theirs = differences(typed, holding) if typed.one("since") != holding.timestamp else {}
        return FormPage(typed_values(typed), "edit", holding, holding.timestamp, theirs=theirs)

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Change what is different, unless somebody else has changed the item since the form was shown."""
        holding = held(self._keeper.catalogue, visit.name)
        since = _since(form, holding)
        changed = changes(form, holding)
        if changed:
            edit(self._keeper, visit.name, changed, visit.signed.name, unchanged_since=since)
        return f"{ROOT}/items/{holding.forms.main}?done={'edited' if changed else 'unchanged'}"


class FilesForm:
    """The files of an item: new ones, in the place of others, and without some."""

    scope = Scope.EDIT
    files = True

    def __init__(self, keeper: Keeper, largest: int) -> None:
        self._keeper = keeper
        self._largest = largest

    def show(self, visit: Visit, _typed: Form | None) -> Page:
        """The files as they are."""
        holding = held(self._keeper.catalogue, visit.name)
        return FilesPage(holding, holding.timestamp, self._largest)

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Put files in, and take those out that are ticked."""
        holding = held(self._keeper.catalogue, visit.name)
        since = _since(form, holding)
        without = [name for name in dict.fromkeys(form.many("without")) if name not in form.files]
        target = form.one("target")
        facts: dict[str, Any] = {}
        if target != holding.target and target not in without:
            facts = {"target": target or None}
        elif holding.target in without:
            facts = {"target": None}
        if not (form.files or without or facts):
            raise BadItem("choose a file to add, or tick one to take out")
        with offered(form.files):
            after = edit(
                self._keeper, visit.name, facts, visit.signed.name,
                staged=form.files.values(), without=without, unchanged_since=since,
            )  # fmt: skip
        listed(form.files, after)
        return f"{ROOT}/items/{holding.forms.main}?done=files"


class DeleteForm:
    """The removal of an item for ever; its name, the date and the reason stay."""

    scope = Scope.DELETE
    files = False

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def show(self, visit: Visit, typed: Form | None) -> Page:
        """The question whether it shall really go."""
        holding = held(self._keeper.catalogue, visit.name)
        return DeletePage(holding, holding.timestamp, typed.one("reason") if typed else "")

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Remove it, if somebody has said why and meant it."""
        holding = held(self._keeper.catalogue, visit.name)
        reason = form.one("reason")
        if not reason:
            raise BadItem("say why the item is removed: readers will see it for ever")
        if len(reason) > LONGEST_REASON:
            raise BadItem("{name} is longer than {limit} characters", name="reason", limit=LONGEST_REASON)
        if form.one("sure") != "yes":
            raise BadItem("tick that you mean it: the files of the item will be gone")
        _since(form, holding)
        remove(self._keeper, visit.name, reason, visit.signed.name)
        return f"{ROOT}/items/{holding.forms.main}?done=removed"


def _since(form: Form, holding: Holding) -> str:
    """The timestamp that the librarian has seen. Raises Conflict if it is another by now."""
    since = form.one("since")
    if since != holding.timestamp:
        raise Conflict(
            "{name} has been changed meanwhile, on {date}", name=holding.forms.main, date=holding.timestamp
        )
    return since
