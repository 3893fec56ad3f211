"""Commands made of operations: their options come from the fields, and are read as those of a request are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ibi.api.fields import described, read_texts
from ibi.cli.common import CommandGroup, argument, flag, tell
from ibi.runtime.i18n import printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _ActionsContainer
    from collections.abc import Callable

    from ibi.api.fields import F, FieldInfo, Fields
    from ibi.api.operations import Operation


def add_operation(
    actions: CommandGroup,
    operation: Operation[Any, Any],
    run: Callable[[Namespace], int],
    epilog: str | None = None,
    *,
    name: str = "",
) -> ArgumentParser:
    """Add the command of an operation, which `run` carries out."""
    parser = actions.add(name or operation.name, operation.summary, run, epilog)
    add_fields(parser, operation.fields)
    return parser


def add_fields(parser: _ActionsContainer, kind: type[Fields], *, optional: bool = False) -> None:
    """Add an option or a position for each field; if `optional`, none of them must be given."""
    for each in described(kind):
        usage = each.option or f"{option_of(each.name)} {_shown(each)}"
        more: dict[str, Any] = {"action": "append"} if each.is_list else {}
        if each.choices and usage.partition(" ")[2] == "":
            more["choices"] = each.choices
        if not usage.startswith("-"):
            more |= {} if each.required else {"nargs": "?"}
        elif each.is_truth and " " not in usage:
            flag(parser, usage, each.text, dest=each.name)
            continue
        else:
            more |= {"dest": each.name, "required": each.required and not optional}
        argument(parser, usage, _help(each), **more)


def fields_of(args: Namespace, kind: type[F]) -> F:
    """Read the fields that were given. Raises BadField."""
    texts: dict[str, list[str]] = {}
    for each in described(kind):
        value = getattr(args, each.name, None)
        if value is None:
            continue
        if isinstance(value, bool):
            texts[each.name] = ["yes" if value else "no"]
        else:
            texts[each.name] = value if isinstance(value, list) else [value]
    return read_texts(kind, texts)


def option_of(name: str) -> str:
    """The option by which a field is given."""
    return f"--{name.replace('_', '-')}"


def print_result(result: dict[str, Any], *, as_json: bool) -> None:
    """Print a result: one JSON document, or a line for each of its members."""
    if as_json:
        print(json.dumps(result, ensure_ascii=False))
        return
    for name, value in result.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        print(printable(f"{name}: {text}"))


def tell_note(note: Any) -> None:
    """Print what should be known beside the result, on stderr."""
    tell(note)


def _shown(info: FieldInfo) -> str:
    return "N" if info.is_number else "yes|no" if info.is_truth else info.name.upper()


def _help(info: FieldInfo) -> str:
    return (
        f"{info.text}; may be repeated, and replaces what was there; '' for none"
        if info.is_list
        else info.text
    )
