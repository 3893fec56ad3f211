"""The names of the library: what `import ibi` gives, and whatever else docs/reference/library.md imports."""

from __future__ import annotations

import importlib
import inspect
import re
from enum import Enum
from pathlib import Path
from typing import Any

import ibi

ROOT = Path(__file__).resolve().parents[2]
_IMPORT = re.compile(r"^(?:>>> )?from (ibi[\w.]*) import (.+)$", re.MULTILINE)


def documented() -> list[str]:
    """The names that the examples of docs/reference/library.md import, with their modules: "ibi.minting.Subsystem"."""
    page = (ROOT / "docs/reference/library.md").read_text("utf-8")
    return sorted(
        {f"{module}.{name.strip()}" for module, names in _IMPORT.findall(page) for name in names.split(",")}
    )


def names() -> dict[str, Any]:
    """Each name that is promised, and what it takes and has."""
    found = {f"ibi.{name}": _described(getattr(ibi, name)) for name in sorted(ibi.__all__)}
    for path in documented():
        module, _, name = path.rpartition(".")
        found[path] = _described(getattr(importlib.import_module(module), name))
    return found


def _described(value: object) -> dict[str, Any]:
    if not isinstance(value, type):
        return (
            {"takes": _parameters(value)} if callable(value) else {"is": re.sub(r"[\w.]+\.", "", str(value))}
        )
    return {
        # What a class of words takes differs between versions of Python.
        "takes": ["value"] if issubclass(value, Enum) else _parameters(value),
        "has": dict(sorted(_members(value).items())),
    }


def _members(cls: type) -> dict[str, Any]:
    """The public members that classes of ours define, each with what it takes; None for a value."""
    ours = [each for each in cls.__mro__ if each.__module__.partition(".")[0] == "ibi"]
    names = {name for each in ours for name in {**vars(each), **getattr(each, "__annotations__", {})}}
    public = {name for name in names if not name.startswith("_")}
    return {name: _parameters(getattr(cls, name, None)) for name in public}


def _parameters(value: object) -> list[str] | None:
    """The parameters of what can be called: a name, its kind where that matters, and whether it may be left out."""
    if not callable(value):
        return None
    try:
        signature = inspect.signature(value)
    except ValueError:
        return []
    prefixes: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        prefixes.get(each.kind, "")
        + each.name
        + (" by name" if each.kind is inspect.Parameter.KEYWORD_ONLY else "")
        + (" by place" if each.kind is inspect.Parameter.POSITIONAL_ONLY else "")
        + ("" if each.default is inspect.Parameter.empty else ", may be left out")
        for each in signature.parameters.values()
        if each.name != "self"
    ]
