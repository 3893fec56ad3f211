"""Changed code for functions that are loaded already: their module need not be imported again."""

from __future__ import annotations

import gc
import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

Codes = tuple[CodeType, CodeType]
"""The code of a function before and after a change."""
_CACHED: Final = type(cache(len))


def live_functions() -> dict[str, list[FunctionType]]:
    """Name of a file -> all functions of it that exist now: methods, closures, and what decorators hide."""
    found = defaultdict[str, list[FunctionType]](list)
    for each in _objects():
        if type(each) is FunctionType:
            found[each.__code__.co_filename].append(each)
    return found


def caches_of(folder: Path) -> list[Any]:
    """The caches (`functools.cache`) of functions of a folder: they may keep what unchanged code has returned."""
    found = [each for each in _objects() if type(each) is _CACHED]
    codes = [(each, getattr(each.__wrapped__, "__code__", None)) for each in found]
    return [each for each, code in codes if code and Path(code.co_filename).is_relative_to(folder)]


def _objects() -> Iterable[Any]:
    gc.unfreeze()  # what is frozen is not listed
    return gc.get_objects()


def changed_codes(source: str, changed: str, file: str) -> list[Codes]:
    """Each function whose code differs between two texts of a file, an outer one before those in it.

    Line numbers do not count. Empty, where only what runs at import differs.
    """
    before, after = (compile(text, file, "exec", dont_inherit=True) for text in (source, changed))
    return list(_differing(before, after))


def _differing(before: CodeType, after: CodeType) -> Iterator[Codes]:
    old, new = _inner(before), _inner(after)
    for name in old:
        if len(old[name]) != len(new.get(name, ())):
            continue  # it is in a function that was changed around it
        for one, other in zip(old[name], new[name], strict=True):
            if not one.co_flags & inspect.CO_OPTIMIZED:  # the body of a class runs at import
                yield from _differing(one, other)
            elif not _same(one, other):
                yield one, other
                yield from _differing(one, other)


def _inner(code: CodeType) -> dict[str, list[CodeType]]:
    found = defaultdict[str, list[CodeType]](list)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found[each.co_qualname].append(each)
    return found


def _same(one: object, other: object) -> bool:
    """Whether two pieces of code, or two constants, do the same."""
    if not isinstance(one, CodeType) or not isinstance(other, CodeType):
        return type(one) is type(other) and repr(one) == repr(other)
    return (
        _bare(one) == _bare(other)
        and len(one.co_consts) == len(other.co_consts)
        and all(map(_same, one.co_consts, other.co_consts))
    )


def _bare(code: CodeType) -> tuple[object, ...]:
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, code.co_exceptiontable, code.co_flags, code.co_argcount, *names


def replaced(
    codes: Sequence[Codes], live: Mapping[str, Sequence[FunctionType]]
) -> list[tuple[FunctionType, CodeType]]:
    """Which loaded function is to get which code; empty, where that is none, or one of them cannot get its own.

    A function whose change no longer uses a variable of the function around it cannot.
    """
    found = [
        (function, new)
        for old, new in codes
        for function in live.get(old.co_filename, ())
        if _place(function.__code__) == _place(old)
    ]
    fits = all(function.__code__.co_freevars == new.co_freevars for function, new in found)
    return found if fits else []


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno
