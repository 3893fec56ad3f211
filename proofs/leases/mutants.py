"""Wrong rules of messages, and wrong orders of the processes: each must lead a reader wrong in its world.

A proof that none of them breaks would show nothing. The orders are permutations of the steps of `apply_reply`, by
number: 1 forget, 2 change versions, 3 write the position, 4 renew the lease.
"""

from __future__ import annotations

import sys
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.resolver.cache.lease import apply_reply
from proofs.common.report import Report, Scale
from proofs.leases.exploring import explore
from proofs.leases.messages import MessageModel
from proofs.leases.processes import ProcessConduct, ProcessModel, ProcessWorld
from proofs.leases.product import NOW, number_of
from proofs.leases.world import Conduct, MessageWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ibi.protocol.extensions.changes import ChangesReply
    from ibi.resolver.cache.lease import LeaseStore, Moment
    from proofs.leases.exploring import Model

HOLDS: Final = "each mutant leads a reader wrong; the one order that is as good as ours does not"
NAME: Final = "mutants"

HARMLESS: Final = (1, 2, 4, 3)
"""The order, beside that of the product, in which no reader is led wrong: while `applying` is set, nothing is kept."""

MOST_STATES: Final = 5_000_000
"""States after which a mutant counts as not found."""

_KILLED: Final = ProcessWorld("one change, one kill", {"changes": 1, "kills": 1})
_CHANGED: Final = ProcessWorld("one change", {"changes": 1})
_ROLLED_BACK: Final = {"changes": 2, "rollbacks": 1}


class Mutant(NamedTuple):
    """A mutant: its name, and what makes its model. `form`: the smallest form in which it is tried."""

    name: str
    model: Callable[[], Model[Any]]
    form: Scale = Scale.MEDIUM


def in_order(order: Sequence[int]) -> Callable[[ChangesReply, Moment, LeaseStore], Iterator[None]]:
    """Return a function that applies a reply in another order."""

    def apply(reply: ChangesReply, sent: Moment, store: LeaseStore) -> Iterator[None]:
        steps = {
            1: lambda: store.forget(reply.names),
            2: lambda: store.change_versions(reply.names),
            3: lambda: store.move_to(reply.to),
            4: lambda: store.renew(sent),
        }
        needed = reply.to != store.position() or store.is_applying()
        for each in order:
            if (needed and each != 4) or (each == 4 and not reply.more):
                steps[each]()
                yield

    return apply


def _from_receipt(reply: ChangesReply, _: Moment, store: LeaseStore) -> Iterator[None]:
    return apply_reply(reply, NOW, store)


class _ForgetsNamesOnly:
    """A store that forgets nothing where anything may have changed."""

    def __init__(self, store: LeaseStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def forget(self, names: Sequence[str] | None) -> None:
        self._store.forget(names or ())


def _anything_kept(reply: ChangesReply, sent: Moment, store: LeaseStore) -> Iterator[None]:
    return apply_reply(reply, sent, _ForgetsNamesOnly(store))


def _page_prolongs(reply: ChangesReply, sent: Moment, store: LeaseStore) -> Iterator[None]:
    yield from apply_reply(reply, sent, store)
    if reply.more:
        store.renew(sent)
        yield


def _any_position(_: str, __: str, applying: bool) -> bool:  # noqa: FBT001 - as `Conduct.keeps`
    return not applying


def _higher_number(as_of: str, position: str, applying: bool) -> bool:  # noqa: FBT001 - the same
    return not applying and number_of(as_of) >= number_of(position)


def _same_number(as_of: str, position: str, applying: bool) -> bool:  # noqa: FBT001 - the same
    return bool(position) and not applying and number_of(as_of) == number_of(position)


def _compares_nothing(_: str, __: str, ___: bool) -> bool:  # noqa: FBT001 - the same
    return True


def _of_messages(
    name: str,
    events: dict[str, int],
    form: Scale = Scale.MEDIUM,
    fault: str = "",
    **others: Any,
) -> Mutant:
    conduct = {each: others.pop(each) for each in ("apply", "keeps") if each in others}
    faults = frozenset([fault] if fault else [])
    world = MessageWorld(name, events, **others)
    return Mutant(name, lambda: MessageModel(world, Conduct(faults=faults, **conduct)), form)


def _of_processes(name: str, world: ProcessWorld, form: Scale = Scale.MEDIUM, **conduct: Any) -> Mutant:
    fault = conduct.pop("fault", "")
    faults = frozenset([fault] if fault else [])
    return Mutant(name, lambda: ProcessModel(world, ProcessConduct(faults=faults, **conduct)), form)


_TWO: Final = ((0,), (1,))

MUTANTS: Final = (
    _of_messages("an answer of another position is kept", {"changes": 1}, Scale.SHORT, keeps=_any_position),
    _of_messages("an answer of a higher number is kept", _ROLLED_BACK, keeps=_higher_number),
    _of_messages("positions are numbers, without words", _ROLLED_BACK, fault="by number", keeps=_same_number),
    _of_messages("the Archive looks for the number of a position", _ROLLED_BACK, fault="by number"),
    _of_messages(
        "the position of an answer is read before its rows",
        {"changes": 1, "rollbacks": 1},
        fault="rows apart",
    ),
    _of_messages("the position of an answer is read after its rows", {"changes": 1}, fault="position apart"),
    _of_messages("a late reply counts", {"changes": 2}, fault="late reply", requests=2),
    _of_messages("the lease counts from the receipt", {"changes": 1}, Scale.SHORT, apply=_from_receipt),
    _of_messages(
        "the lease survives a restart", {"changes": 1, "kills": 1}, fault="lease survives", loss=False
    ),
    _of_messages("nothing is forgotten if anything changed", {"settings": 1}, apply=_anything_kept),
    _of_messages(
        "a page with more prolongs", {"changes": 2}, page=1, items=2, questions=_TWO, apply=_page_prolongs
    ),
    _of_messages("a log too short is passed over", {"changes": 2}, fault="passes over", log=1, items=2),
    _of_messages(
        "an answer does not say on what it rests",
        {"changes": 1},
        fault="no rests",
        items=2,
        questions=((0, 1),),
    ),
    _of_messages(
        "a notice during a request causes no other one", {"changes": 1}, Scale.SHORT, "not again", loss=False
    ),
    _of_messages(
        "a notice counts only while the lease runs", {"changes": 1}, fault="only while leased", loss=False
    ),
    _of_messages("no notices", {"changes": 1}, fault="no notices", loss=False),
    _of_messages("a notice is kept to one node", {"changes": 1}, fault="one node", loss=False, nodes=2),
    _of_processes("there is no mark that a reply is being applied", _CHANGED, fault="no mark"),
    _of_processes("the version is read after the answer", _CHANGED, fault="version last"),
    _of_processes("the store compares nothing", _CHANGED, keeps=_compares_nothing),
    _of_processes("the store compares, and writes later", _CHANGED, fault="writes later"),
    _of_processes("each process clears its own redirects only", _CHANGED, fault="cleared alone"),
    _of_processes("no lock", _CHANGED, fault="no lock"),
    _of_processes(
        "the lease is looked at after the versions",
        ProcessWorld("one process", {"changes": 1}, processes=1),
        Scale.SHORT,
        order="version first",
    ),
    _of_processes("the lease is looked at after the row", _CHANGED, order="row first"),
)
"""All but the orders."""

_TRIED: Final = frozenset({(2, 1, 3, 4), (1, 3, 2, 4), (3, 1, 2, 4), (4, 1, 2, 3), (1, 4, 2, 3)})
"""Orders that are tried in the middle form."""


def _orders() -> Iterator[Mutant]:
    for order in permutations((1, 2, 3, 4)):
        if order not in {(1, 2, 3, 4), HARMLESS}:
            form = Scale.MEDIUM if order in _TRIED else Scale.FULL
            name = f"the order {' '.join(map(str, order))}"
            yield _of_processes(name, _KILLED, form, apply=in_order(order))


def prove(scale: Scale, _: int) -> Report:
    """Try each mutant of this form; in the full form also that the harmless order is harmless."""
    report = Report(NAME, HOLDS)
    for mutant in (*MUTANTS, *_orders()):
        if mutant.form.value > scale.value:
            continue
        explored = explore(mutant.model(), MOST_STATES, traced=False, calm=False)
        report.count("mutants")
        report.count("states until all were found", explored.states)
        report.demand(explored.fault, f"{mutant.name}: not found in {explored.states:,} states")
        if scale is not Scale.SHORT:
            print(f"  {mutant.name}: {explored.states:,} states", file=sys.stderr, flush=True)
    if scale is Scale.FULL:
        harmless = explore(ProcessModel(_KILLED, ProcessConduct(in_order(HARMLESS))))
        report.count("states with the harmless order", harmless.states)
        report.demand(harmless.complete, f"the order {HARMLESS}: {harmless.fault}")
    return report
