"""Explores a model to the end, from state to state; finds the shortest way to a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

CALM_EVERY: Final = 100
"""In one of so many states, all faults cease."""

_StateT = TypeVar("_StateT")
Action = tuple[Any, ...]


class Model(Protocol[_StateT]):
    """A world: its first state, what may happen, what that does, what is wrong."""

    def start(self) -> _StateT:
        """Return the first state."""

    def actions(self, state: _StateT) -> list[Action]:
        """Return all actions that are possible in a state."""

    def step(self, state: _StateT, action: Action) -> _StateT:
        """Return the state after an action."""

    def key(self, state: _StateT) -> int:
        """Return a number that stands for the state, and for those that are no different in this world."""

    def fault(self, state: _StateT) -> str | None:
        """Return what is wrong with a state."""

    def calm_fault(self, state: _StateT) -> str | None:
        """Return what is wrong if all faults cease in a state."""


class Explored(NamedTuple):
    """How far a world was explored: its states, the steps between them, what was wrong, and how that came about.

    `complete`: whether these are all states.
    """

    states: int
    steps: int
    complete: bool
    fault: str | None = None
    history: tuple[Action, ...] = ()


class _Walk(Generic[_StateT]):
    """One exploration, breadth first. Of each state that was met only a hash of 64 bits is kept."""

    def __init__(self, model: Model[_StateT], *, traced: bool, calm: bool) -> None:
        self._model, self._calm = model, calm
        self._met = set[int]()
        self._parents: dict[int, tuple[int, Action]] | None = {} if traced else None
        self._steps, self._looked_at = 0, 0

    def run(self, most: int) -> Explored:
        """Explore until nothing is new, something is wrong, or so many states were met."""
        model, first = self._model, self._model.start()
        level = [(model.key(first), first)]
        self._met.add(level[0][0])
        while level:
            after: list[tuple[int, _StateT]] = []
            for key, state in level:
                found = self._fault(state)
                if found is not None:
                    return self._explored(found, self._history(key))
                if len(self._met) > most:
                    return self._explored()
                after += self._new_after(key, state)
            level = after
        return self._explored()._replace(complete=True)

    def _explored(self, fault: str | None = None, history: tuple[Action, ...] = ()) -> Explored:
        return Explored(len(self._met), self._steps, complete=False, fault=fault, history=history)

    def _fault(self, state: _StateT) -> str | None:
        self._looked_at += 1
        found = self._model.fault(state)
        if found is None and self._calm and self._looked_at % CALM_EVERY == 0:
            found = self._model.calm_fault(state)
        return found

    def _new_after(self, own: int, state: _StateT) -> Iterator[tuple[int, _StateT]]:
        model, met, parents = self._model, self._met, self._parents
        for action in model.actions(state):
            self._steps += 1
            following = model.step(state, action)
            key = model.key(following)
            if key not in met:
                met.add(key)
                if parents is not None:
                    parents[key] = own, action
                yield key, following

    def _history(self, key: int) -> tuple[Action, ...]:
        actions = list[Action]()
        while self._parents is not None and key in self._parents:
            key, action = self._parents[key]
            actions.append(action)
        return tuple(reversed(actions))


def explore(model: Model[_StateT], most: int = 10**9, *, traced: bool = True, calm: bool = True) -> Explored:
    """Explore a world; if something is wrong and `traced`, once more to find how that came about.

    `calm`: whether faults cease in one of CALM_EVERY states.
    """
    explored = _Walk(model, traced=False, calm=calm).run(most)
    if explored.fault is None or not traced:
        return explored
    return _Walk(model, traced=True, calm=calm).run(most)
