"""What is fuzzed: a parser, its true inputs, and what holds of all that it is given."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import IbiError
from ibi.runtime.i18n import say
from proofs.fuzz.making import Maker, as_bytes, dumped

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_LONGEST_SENTENCE: Final = 1_000
"""Characters, besides those that a text may grow to when its odd characters are escaped."""
_MOST_TRIES: Final = 1_500  # while a fault is made smaller


@dataclass(frozen=True)
class Target:
    """A parser.

    `name`: the function, dotted below `ibi`, perhaps with a word behind it where it is tried in several ways. `read`
    takes `kind`: "text" (any Unicode), "line" (a character for each byte), "bytes", or "value", which is JSON in bytes.
    `back` gives what must be read to the same value again; `signed` makes the digest or signature of a value right that
    was spoilt; `refuses`: what it may raise besides errors of ours. `swift`: whether it is tried with very long inputs.
    """

    name: str
    read: Callable[[Any], Any]
    kind: str = "text"
    seeds: tuple[str, ...] = ()
    rule: str = ""
    values: tuple[Any, ...] = ()
    back: Callable[[Any], Any] | None = None
    signed: Callable[[Any], bytes] | None = None
    refuses: tuple[type[Exception], ...] = ()
    swift: bool = True
    also: frozenset[str] = field(default=frozenset())
    """Further functions that are fuzzed by this, under their dotted names."""

    @property
    def function(self) -> str:
        """The function that is fuzzed."""
        return self.name.partition(" ")[0]

    def inputs(self, chance: random.Random) -> Callable[[], Any]:
        """What makes one input after the other."""
        maker = Maker(chance, self.seeds, self.rule, wide=self.kind == "text")
        values, signed = self.values, self.signed
        if values and self.kind == "value":
            return lambda: as_bytes(dumped(maker.json(chance.choice(values))))
        if values and signed is not None:
            return lambda: signed(maker.json(chance.choice(values)))
        if values:
            spoiler = Maker(chance, [dumped(value) for value in values], wide=False)
            return lambda: (
                as_bytes(dumped(maker.json(chance.choice(values))))
                if chance.random() < 0.6
                else as_bytes(spoiler.text())
            )
        if self.kind == "bytes":
            return lambda: as_bytes(maker.text())
        if self.kind == "line":
            return lambda: as_bytes(maker.text()).decode("latin-1")
        return maker.text

    def fault(self, given: Any) -> str | None:
        """What is wrong with how it takes this; None if nothing is."""
        try:
            value = self.read(given)
        except IbiError as error:
            return _unclear(error, len(given))
        except self.refuses:
            return None
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            return _error_text(error)
        return self._fault_of_return(value) if self.back is not None and value is not None else None

    def smaller(self, given: Any, fault: str) -> Any:
        """A small input with the same fault: ever smaller parts are left out."""
        left = _MOST_TRIES
        step = max(1, len(given) // 2)
        while step and left > 0:
            shorter = (given[:at] + given[at + step :] for at in range(0, len(given), step))
            found = next((each for each in shorter if self.fault(each) == fault), None)
            left -= len(given) // step + 1
            if found is None:
                step //= 2
            else:
                given = found
        return given

    def _fault_of_return(self, value: Any) -> str | None:
        try:
            again = self.read(self.back(value))  # type: ignore[misc]  # asked by who calls
        except Exception as error:  # noqa: BLE001 - the same
            return f"what it has read is not read again: {_error_text(error)}"
        return None if again == value else "what it has read is read to something else"


def as_value(read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """A reader of values as a reader of bytes; what is no JSON has no value."""

    def of_bytes(text: bytes) -> Any:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return read(value)

    return of_bytes


def as_object(read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """The same for what takes JSON objects only."""
    return as_value(lambda value: read(value) if isinstance(value, dict) else None)


def _error_text(error: Exception) -> str:
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/src/ibi/" in code.co_filename:
            places.append(code.co_qualname)
        trace = trace.tb_next
    return f"{type(error).__name__} in {places[-1] if places else '?'}"


def _unclear(error: IbiError, size: int) -> str | None:
    """What is wrong with the sentence of an error about so much, in either language."""
    try:
        for language in ("en", "pt-BR"):
            sentence = say(error, language)
            if not sentence.strip() or len(sentence) > _LONGEST_SENTENCE + 16 * size:
                return f"its sentence is empty or endless: {error.problem}"
            " ".join(sentence.split()).encode("utf-8", "backslashreplace")
        caret: Callable[[], str] | None = getattr(error, "caret", None)
        if caret is not None and caret().count("\n") != 1:
            return "its carets are not two lines"
        str(error)
    except Exception as worse:  # noqa: BLE001 - the same
        return f"its sentence cannot be said: {_error_text(worse)}"
    return None
