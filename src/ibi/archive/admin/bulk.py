"""Acts on several items at once: a page that names them and asks once, then each act by itself, as for one item.

The page sends back what it has named: if the items of the form are others, nothing is done, and it asks again.
An item that was changed since the page was shown is left as it is; the result tells what became of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.accounts.layout import CONFIRMED, ROOT, PageHandler, confirmation
from ibi.accounts.tokens import Scope
from ibi.api.fields import read
from ibi.archive.admin.item_form import embargo_end
from ibi.archive.admin.item_lists import csv_file, row_number
from ibi.archive.model.item import Access
from ibi.archive.model.item_json import check_facts, write_item
from ibi.archive.operations import exchange, items
from ibi.archive.operations.item_facts import check_item
from ibi.errors import BadField, IbiError
from ibi.http.response import NO_STORE, Refusal, Response, fault_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.accounts.layout import Form, PageRequest
    from ibi.archive.admin.item_lists import ItemList
    from ibi.archive.model.item import Holding
    from ibi.archive.operations.context import ArchiveContext

MOST: Final = 100
"""Items of one act."""


class BulkAct(StrEnum):
    """What can be done with several items at once."""

    ACCESS = "access"
    SUBJECT = "subject"
    EXPORT = "export"
    OFFER = "offer"
    REMOVE = "remove"


SCOPES: Final = {
    BulkAct.ACCESS: Scope.EDIT,
    BulkAct.SUBJECT: Scope.EDIT,
    BulkAct.EXPORT: Scope.READ,
    BulkAct.OFFER: Scope.TRANSFER,
    BulkAct.REMOVE: Scope.DELETE,
}
"""The scope that an account needs for each act, as for one item."""


class BulkOutcome(NamedTuple):
    """What became of one item: `problem` is None if it was done."""

    holding: Holding
    problem: IbiError | None


@dataclass(frozen=True, slots=True)
class BulkPage:
    """The confirmation of an act on these items, with what was typed; or what became of each."""

    act: BulkAct
    items: Sequence[Holding]
    peers: Mapping[str, str] = field(default_factory=dict)
    access: str = ""
    embargo: str = ""
    subject: str = ""
    language: str = ""
    """Of the subject, "" if it is not stated."""
    reason: str = ""
    to: str = ""
    outcomes: Sequence[BulkOutcome] = ()

    @property
    def confirmation(self) -> str:
        """What the form sends back, so that only what the page has named is done."""
        return confirmation(*self.named({each.number: each.timestamp for each in self.items}))

    def named(self, seen: Mapping[int, str]) -> list[str]:
        """Return the act, and each item as it was seen: with its timestamp, by number."""
        return [self.act.value, *sorted(f"{each.number} {seen.get(each.number, '')}" for each in self.items)]

    @property
    def done(self) -> int:
        """How many items it was done with."""
        return sum(each.problem is None for each in self.outcomes)


@dataclass(frozen=True, slots=True)
class BulkPages:
    """The page of acts on several items. `_peers` returns the Archives that originals can go to."""

    _list: ItemList
    _context_of: Callable[[PageRequest], ArchiveContext]
    _peers: Callable[[], Mapping[str, str]]

    def handlers(self) -> dict[str, PageHandler]:
        """Return the handler of the page, by the word in its path."""
        return {"bulk": PageHandler(Scope.READ, self._show, self._do)}

    def _show(self, _visit: PageRequest, typed: Form | None) -> BulkPage | Response:
        """Return the confirmation with what was typed; without a form there is nothing to confirm."""
        if typed is None:
            return Response(303, headers=(("location", f"{ROOT}/items"), *NO_STORE))
        return self._confirmation(typed)

    def _do(self, visit: PageRequest, form: Form) -> BulkPage | Response:
        """Show the confirmation, or, once it was given, act on each item. Raises BadField, IbiError, Refusal."""
        page = self._confirmation(form)
        if not visit.signed.role.may(SCOPES[page.act]):
            raise Refusal(403, IbiError("your account does not permit this; ask an administrator"))
        if page.act is BulkAct.EXPORT:
            return csv_file(self._list.of([each.number for each in page.items]))
        if not form.one(CONFIRMED):
            return page
        self._check(page)
        form.check_confirmed(
            *page.named({each.number: form.one(f"since.{each.number}") for each in page.items})
        )
        outcomes = [self._outcome(visit, form, page, each) for each in page.items]
        return BulkPage(page.act, page.items, outcomes=outcomes)

    def _confirmation(self, form: Form) -> BulkPage:
        """Read the act, its items and what was typed. Raises IbiError."""
        try:
            act = BulkAct(form.one("what"))
        except ValueError:
            raise IbiError("this is not the form of this page; open the page again") from None
        typed = map(row_number, dict.fromkeys(form.many("item")))
        numbers = [number for number in typed if number is not None]
        if len(numbers) > MOST:
            raise IbiError("at most {most} items can be chosen at once", most=MOST)
        held = [each.holding for each in self._list.of(numbers)]
        if not held:
            raise IbiError("no item was chosen: tick the items first")
        return BulkPage(
            act,
            held,
            self._peers() if act is BulkAct.OFFER else {},
            access=form.one("access"),
            embargo=embargo_end(form.one("embargo")),
            subject=form.one("subject"),
            language=form.one("language"),
            reason=form.one("reason"),
            to=form.one("to"),
        )

    def _check(self, page: BulkPage) -> None:
        """Refuse what would fail for every item. Raises BadField, IbiError."""
        if page.act is BulkAct.ACCESS:
            if page.access not in set(Access):
                raise BadField("{name} is open, embargoed, restricted or closed", name="access")
            check_facts({"access": Access(page.access), "embargo": page.embargo}, ())
        elif page.act is BulkAct.SUBJECT and not page.subject:
            raise BadField("give the subject that is added", name="subject")
        elif page.act is BulkAct.REMOVE and not page.reason:
            raise BadField("give the reason, which readers will see", name="reason")
        elif page.act is BulkAct.OFFER and page.to not in page.peers:
            raise BadField("choose the Archive that the originals go to", name="to")

    def _outcome(self, visit: PageRequest, form: Form, page: BulkPage, holding: Holding) -> BulkOutcome:
        """Act on one item, if it is as it was shown."""
        context = self._context_of(visit)
        context.if_match = f'"{form.one(f"since.{holding.number}")}-"'
        try:
            self._act(context, page, holding)
        except IbiError as problem:
            return BulkOutcome(holding, problem)
        except Refusal as refused:
            return BulkOutcome(holding, refused.why)
        except Exception as fault:  # noqa: BLE001 - what was done with the others must still be shown
            return BulkOutcome(holding, fault_refusal(fault).why)
        return BulkOutcome(holding, None)

    def _act(self, context: ArchiveContext, page: BulkPage, holding: Holding) -> None:
        """Do it with one item, by the operation for one item. Raises the errors of the operation."""
        name = str(holding.forms.main)
        if page.act is BulkAct.REMOVE:
            items.remove(context, read(items.RemoveFields, {"ibi": name, "reason": page.reason}))
        elif page.act is BulkAct.OFFER:
            fields = read(exchange.OfferFields, {"ibi": name, "to": page.to})
            check_item(context, fields)
            # It names the state of the item; `exchange.offer` would compare it with the hand-overs.
            context.if_match = ""
            exchange.offer(context, fields)
        else:
            changes = _changes(page, holding)
            if changes:
                items.edit(context, read(items.EditFields, {"ibi": name, **changes}))


def _changes(page: BulkPage, holding: Holding) -> dict[str, Any]:
    """Return the fields to change in one item; {} if it is so already."""
    now = write_item(holding)
    if page.act is BulkAct.ACCESS:
        wanted = {"access": page.access, "embargo": page.embargo or None}
        usual = {"access": Access.OPEN.value}
        return {name: value for name, value in wanted.items() if now.get(name, usual.get(name)) != value}
    metadata = now.get("metadata", {})
    subjects = metadata.get("subject", [])
    known = {each["value"] if isinstance(each, dict) else each for each in subjects}
    added = {"value": page.subject, "lang": page.language} if page.language else page.subject
    return {} if page.subject in known else {"metadata": {**metadata, "subject": [*subjects, added]}}
